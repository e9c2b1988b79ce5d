"""Trials in one process: a seed each, which says all of what happens.

A trial compares ways to the same answer, or lets something go wrong and looks at what is left.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import hypothesis
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given

import ensue
from ensue import errors
from ensue.query.binding import bind
from tests.chaos import texts
from tests.chaos.report import COUNTED
from tests.disorder import arrived, canonical, events, net
from tests.generate import generated_case, query_texts, tables
from tests.lanes import streams
from tests.lanes.test_cases import answers
from tests.matcher_runs import SIGMAS, Life
from tests.state.damage import damaged
from tests.unit import test_input_types as kinds
from tests.unit.test_matcher_lives import event_query
from tests.unit.test_matcher_lives import events as few_events

Trial = Callable[[random.Random], None]
PAIRS = ensue.pattern("A ->> B+ -> C", types="kind").partition_by("key").order_by("t").within(9)


def event_patterns(chooser: random.Random) -> None:
    """Events in any order, corrected, restarted, with edits: the net is the answer."""
    query = event_query(chooser)
    edits = {"first": query, "second": event_query(chooser)} if chooser.random() < 0.4 else {}
    if edits and edits["second"].measures != query.measures:
        edits = {}
    sigma, identity = chooser.choice(SIGMAS), chooser.choice([None, "id"])
    settle = chooser.choice([None, None, 0, 3]) if sigma else None
    Life(query, few_events(chooser), chooser, sigma, identity, edits, settle=settle).check()


def row_patterns(chooser: random.Random) -> None:
    """A random row pattern: as a batch, as a life of a matcher, and as lanes of a stream."""

    @hypothesis.seed(chooser.randrange(10**9))
    @hypothesis.settings(
        max_examples=3,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(query_texts(), tables())
    def tried(text: dict[str, Any], rows: str) -> None:
        case = generated_case(text, rows)
        asked = streams.timed(case.query(), case.table)
        if asked is None or not case.table.num_rows:
            return
        try:
            bind(asked[0], asked[1].column_names)
            got, wanted = answers(*asked, chooser.randrange(1000), delay=streams.DISORDER)
        except (errors.SkipTargetError, errors.UnsupportedError):
            return
        assert got == wanted, (text, rows)

    tried()


def jumping_clock(chooser: random.Random) -> None:
    """The machine's clock is set back and forth: only the time of events counts."""
    real = time.time

    def jumped() -> float:
        return real() + chooser.choice((-1e9, -3600, 0, 86_400, 1e9))

    with patch("time.time", jumped):
        event_patterns(chooser)


def keys(chooser: random.Random) -> None:
    """One key has nearly all rows, or every row has its own; pieces in any order."""
    rows = chooser.choice((30, 300, 3_000))
    hot = chooser.random() < 0.5
    table = pa.table(
        {
            "key": [
                ("p" if chooser.random() < 0.95 else "q") if hot else str(i) for i in range(rows)
            ],
            "t": list(range(rows)),
            "kind": chooser.choices("ABCX", k=rows),
        }
    )
    wanted = PAIRS.count(table)
    matcher, found = PAIRS.matcher(), 0
    order = list(range(rows))
    chooser.shuffle(order)
    while order:
        size = chooser.choice((1, 7, 1_000))
        part, order = order[:size], order[size:]
        found += matcher.insert(table.take(part)).num_rows
        if chooser.random() < 0.2:
            matcher = ensue.restore(matcher.snapshot())
    assert found + matcher.end().num_rows == wanted


def types(chooser: random.Random) -> None:
    """A column of any type, in any place: the same at once, as it comes, and in any order."""
    column = chooser.choice([*kinds.ENCODED.values(), *kinds.OTHERS.values()])
    picked = [chooser.randrange(len(column)) for _ in range(chooser.randrange(9))]
    with suppress(pa.ArrowNotImplementedError, pa.ArrowInvalid):  # Arrow cannot pick its rows
        column = column.take(pa.array(picked, pa.int64()))
    rows = kinds.table(column)
    for place, query in kinds.ASKED.items():
        at_once, changes = kinds.ways(query, rows)
        rejected = place.startswith("order") and column.null_count  # events without a time
        if isinstance(at_once, list) and isinstance(changes, int) and not rejected:
            tied = place.startswith("order") and len(set(map(str, column))) < len(column)
            assert tied or len(at_once) == changes, (place, column.type, at_once, changes)


def summaries(chooser: random.Random) -> None:
    """A late summary of everything counts what a batch counts."""
    table = events(chooser)
    pattern = ensue.pattern("A ->> B", types="kind").order_by("t").within(9)
    summary = pattern.summarize(size=1_000, speculation=chooser.choice((0, 4)), id="id")
    _, summary, counted = arrived(summary, table, chooser, ensue.restore)
    summary.advance(1_000)
    assert summary.result()["count"] == pattern.count(counted)


def disorder(chooser: random.Random) -> None:
    """A matcher with random arrivals, restored between any two calls."""
    table = events(chooser)
    matcher = PAIRS.matcher(schema=table.schema, speculation=chooser.choice(SIGMAS), id="id")
    out, matcher, counted = arrived(matcher, table, chooser, ensue.restore)
    told = net([*out, matcher.end()])
    assert len(canonical(told)) == PAIRS.count(counted)


def states(chooser: random.Random) -> None:
    """A stored state that is cut or changed is refused by name."""
    table = events(chooser)
    matcher = PAIRS.matcher(schema=table.schema)
    matcher.insert(table)
    for blob in damaged(matcher.snapshot(), str(chooser.random()), 2, 6):
        COUNTED["damaged states"] += 1
        try:
            ensue.restore(blob)
        except errors.EnsueError:
            continue
        raise AssertionError("a damaged state was taken")


def parsers(chooser: random.Random) -> None:
    """Bent texts: only errors of Ensue come out."""
    parser = chooser.choice(texts.PARSERS)
    for _ in range(20):
        text = texts.bent(chooser, parser.texts)
        COUNTED[f"texts for {parser.name}"] += 1
        try:
            if texts.refused(parser, text):
                COUNTED["texts refused"] += 1
        except Exception as problem:
            raise AssertionError(f"{parser.name}: {text!r}: {problem!r}") from problem


TRIALS: dict[str, Trial] = {
    "event-patterns": event_patterns,
    "row-patterns": row_patterns,
    "clock": jumping_clock,
    "keys": keys,
    "types": types,
    "summaries": summaries,
    "disorder": disorder,
    "states": states,
    "parsers": parsers,
}


def run(name: str, seed: int, trials: dict[str, Trial] = TRIALS) -> None:
    """One trial; the same seed does the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trials[name](random.Random(f"{name} {seed}"))
