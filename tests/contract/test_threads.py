"""Every object with state that users hold may be shared by threads: nothing is lost.

All classes that take events in are found. Each takes turns (`operator/turns.py`) and has a case
here, or is only used inside one that does. `ENSUE_CASES` says how many batches a thread inserts.
"""

from __future__ import annotations

import math
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import ensue
import ensue.testing
from ensue.operator.turns import Turns
from tests.contract.discovery import classes

THREADS = 4
BATCHES = int(os.environ.get("ENSUE_CASES", "6"))
FOLDER = ensue.__path__[0]
INSIDE = {  # evaluators, stages of streams and stores: held by an operator, or one task of Spark
    "ApproximateEvaluator", "ArcsStage", "ChosenRows", "Cleanse", "EditedStage", "EvaluatorStage",
    "EventOperator", "ExactMissing", "FlatRows", "Follower", "GroupedStore", "GuardedMissing",
    "InPieces", "ListsWithin", "Operator", "OrderedRevisions", "RowsEvaluator",
    "SequencesEvaluator", "SharedEvaluator", "SharedStage", "SheddingRows", "Stage",
    "Store", "SummaryEvaluator", "TotalsEvaluator", "TotalsInPieces", "Tracks",
}  # fmt: skip
SHARED = {"Turns", "Cleansed"}  # what these classes inherit
# Of an AutomatonMatcher, and of a Graph.
TURNS_INSIDE = {"RevisionEvaluator", "Planner", "Embedders", "Remembered", "Weights"}
Row = dict[str, Any]


# -- which classes -------------------------------------------------------------------------------


def test_all_that_take_events_in_take_turns_or_are_inside_one_that_does() -> None:
    every = list(classes())
    turns = {found.__name__ for found in every if issubclass(found, Turns)} - SHARED
    events = [found for found in every if not issubclass(found, list)]  # insert: at an index
    taking = {found.__name__ for found in events if hasattr(found, "insert")}
    assert taking - turns == INSIDE, "users hold it: let it inherit from Turns"
    assert turns == set(CASES) | TURNS_INSIDE, "add a case"


@pytest.mark.parametrize(
    "name", ["Matcher", "AutomatonMatcher", "Summary", "Live", "QuantifyOperator", "Feed"]
)
def test_a_call_waits_for_the_one_before_it(name: str) -> None:
    """Without luck: a thread that has the turn sees nothing of a call that came meanwhile."""
    case = CASES[name]()
    case.insert(next(_pairs(0)))
    before = case.matches(case.held)
    with case.held._turn:
        other = threading.Thread(target=lambda: case.insert(next(_pairs(1))))
        other.start()
        other.join(0.05)
        assert other.is_alive() and case.matches(case.held) == before
    other.join()
    assert case.matches(case.held) == before + 1


# -- nothing is lost -----------------------------------------------------------------------------


@dataclass
class Case:
    """`insert` takes two rows, an a and a b; `matches` is how many such pairs are known."""

    held: Any
    insert: Callable[[list[Row]], Any]
    matches: Callable[[Any], int]
    restored: Callable[[bytes], Any] | None  # the object that goes on from a snapshot
    known: Callable[[Any], tuple[int, int]] = lambda held: (0, 0)  # its rows and matches


SCHEMA = pa.schema(
    [("user", pa.int64()), ("ts", pa.int64()), ("kind", pa.string()), ("x", pa.int64())]
)
PAIR = ensue.pattern("A -> B", types="kind").partition_by("user").order_by("ts").within(1)


def _counting(matcher: Any) -> int:
    return int(matcher.metrics.matches)


def _rows_and_matches(matcher: Any) -> tuple[int, int]:
    return matcher.metrics.rows, matcher.metrics.matches


def _matcher() -> Case:
    matcher = PAIR.matcher(speculation=math.inf)
    return Case(matcher, matcher.insert, _counting, ensue.restore, _rows_and_matches)


def _automaton() -> Case:
    machine = (
        ensue.Automaton(order_by="ts", partition_by="user", within=1)
        .arc("s", "t", "kind = 'A'").arc("t", "f", "kind = 'B'").start("s").final("f")
    )  # fmt: skip
    matcher = machine.matcher()

    def withdrawn(again: Any) -> tuple[int, int]:
        """Its metrics are not stored: what it knows is what can be taken back."""
        rows = [row for thread in range(THREADS + 1) for pair in _pairs(thread) for row in pair]
        gone = again.retract(pa.Table.from_pylist(rows, SCHEMA)).num_rows
        return len(rows) - again.rejected.num_rows, gone

    return Case(
        matcher,
        lambda rows: matcher.insert(pa.Table.from_pylist(rows, SCHEMA)),
        _counting,
        machine.restore,
        withdrawn,
    )


def _summary(**options: Any) -> Case:
    summary = PAIR.summarize(size=1_000_000, **options)
    return Case(
        summary,
        summary.insert,
        lambda known: known.count(),
        ensue.restore,
        lambda known: (known.metrics.rows, known.count()),
    )


def _live() -> Case:
    found: list[int] = []
    patterns = ensue.workload({"pair": PAIR, "other": PAIR})
    live = patterns.live(SCHEMA.empty_table())
    return Case(
        live,
        lambda rows: found.append(live.insert(pa.Table.from_pylist(rows, SCHEMA)).num_rows),
        lambda known: sum(found) // 2,
        None,
    )


def _operator() -> Case:
    operator = ensue.quantify.sum("x").operator(SCHEMA, partition_by="user")
    return Case(
        operator,
        lambda rows: operator.insert(pa.Table.from_pylist(rows, SCHEMA)),
        lambda known: sum(known.result().column("value").to_pylist()) // 2,
        None,
    )


def _feed() -> Case:
    feed = ensue.testing.Feed(PAIR, speculation=math.inf)
    return Case(feed, feed.events, lambda known: len(known.matches), None)


CASES = {
    "Matcher": _matcher, "AutomatonMatcher": _automaton, "Summary": _summary,
    "LateSummary": lambda: _summary(speculation=math.inf),
    "Live": _live, "QuantifyOperator": _operator, "Feed": _feed,
}  # fmt: skip


def _pairs(thread: int) -> Iterator[list[Row]]:
    for number in range(BATCHES):
        yield [
            {"user": thread, "ts": 10 * number, "kind": "A", "x": 1},
            {"user": thread, "ts": 10 * number + 1, "kind": "B", "x": 1},
        ]


def _give_way() -> Callable[..., Any]:
    """A trace that lets another thread go on every few lines, so that few batches show a race."""
    draw = random.Random(threading.get_ident())

    def trace(frame: Any, event: str, _: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.startswith(FOLDER):
            return None
        if draw.random() < 0.04:
            time.sleep(1e-6)
        return trace

    return trace


def at_once(*works: Callable[[], None], traced: bool = True) -> None:
    problems: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        try:
            start.wait()
            if traced:
                sys.settrace(_give_way())
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


@pytest.mark.parametrize("name", CASES)
def test_no_event_is_lost(name: str) -> None:
    case = CASES[name]()

    def insert(thread: int) -> Callable[[], None]:
        return lambda: [case.insert(rows) for rows in _pairs(thread)] and None

    at_once(*map(insert, range(THREADS)))
    assert case.matches(case.held) == THREADS * BATCHES


@pytest.mark.parametrize("name", ["Matcher", "AutomatonMatcher", "Summary", "LateSummary"])
def test_a_snapshot_among_inserts_is_of_one_moment(name: str) -> None:
    case = CASES[name]()
    assert case.restored is not None
    case.insert(next(_pairs(THREADS)))
    blobs: list[Any] = []

    def look() -> None:
        for _ in range(BATCHES):
            blobs.append(case.held.snapshot())

    def insert(thread: int) -> Callable[[], None]:
        return lambda: [case.insert(rows) for rows in _pairs(thread)] and None

    at_once(look, *map(insert, range(THREADS - 1)))
    known = 1
    for blob in blobs:
        again = case.restored(blob)
        rows, matches = case.known(again)
        assert rows == 2 * matches and matches >= known
        known = matches
    assert case.matches(case.held) == (THREADS - 1) * BATCHES + 1


def test_one_graph_and_one_pattern_answer_several_threads() -> None:
    edges = {"subject": [*"aabbc"], "relation": [*"pqpqp"], "object": [*"bcacb"]}
    graph = ensue.graph(pa.table(edges))
    asked = [f"p{{1,{most}}}/{last}" for most in range(1, 40) for last in "pq"]
    rows = [row for thread in range(THREADS) for pair in _pairs(thread) for row in pair]
    table = pa.Table.from_pylist(rows, SCHEMA)
    wanted = [graph.count(text, "a", of="ends") for text in asked]
    graph = ensue.graph(pa.table(edges))

    def ask() -> None:
        assert [graph.count(text, "a", of="ends") for text in asked] == wanted
        assert PAIR.count(table) == PAIR.matches(table).num_rows == THREADS * BATCHES

    at_once(*[ask] * THREADS, traced=False)
