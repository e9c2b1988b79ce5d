"""Every operator keeps the same promises: those a runner or a user relies on.

`discovery.operators` finds them, so that a new one fails until it has an example in the table (or
is a part of another). `drivers.py` says how a family is driven, `definitions.py` what the answer
is. `ENSUE_CASES` says how many random cuts each is given.
"""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue import quantify as q
from ensue.automaton.plan import plan
from ensue.front.expressions import Scope, parse_condition
from ensue.front.sql import read_query
from ensue.missing.evaluator import ApproximateEvaluator
from ensue.missing.exact import ExactMissing, GuardedMissing
from ensue.missing.listing import ListsWithin
from ensue.missing.tracks import Tracks
from ensue.operator import state
from ensue.operator.budget import Bound, Bounds
from ensue.operator.pieces import InPieces
from ensue.operator.protocol import Capabilities, Snapshot
from ensue.operator.replay import Replay
from ensue.operator.rerun import Rerun
from ensue.operator.settle import KIND as SETTLE
from ensue.operator.straight import Straight
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import OrderKey
from ensue.revision.evaluator import RevisionEvaluator
from ensue.revision.operator import Operator
from ensue.revision.ordered import OrderedRevisions
from ensue.rows.evaluator import RowsEvaluator
from ensue.rows.flat import FlatRows
from ensue.run.lanes.arcs import arcs_work
from ensue.run.lanes.edits import edits_work
from ensue.run.lanes.shared import shared_work
from ensue.run.lanes.works import (
    Asked,
    AskedAutomaton,
    automaton_work,
    matches_work,
    quantify_work,
    summary_work,
    totals_work,
)
from ensue.run.pattern_branch import PatternBranch, TotalsBranch
from ensue.run.shared_branch import SharedBranch
from ensue.sequences.evaluator import SequencesEvaluator
from ensue.sequences.totals import Grouping
from ensue.sequences.totals_evaluator import TotalsEvaluator
from ensue.shared.evaluator import SharedEvaluator
from ensue.shared.options import Sharing
from ensue.shared.row_budget import RowBudget
from ensue.shared.row_sketch import StartSketch
from ensue.shared.row_turns import ChosenRows
from ensue.shared.rows import RowPattern, SheddingRows
from ensue.summary.lane_evaluator import SummaryEvaluator
from ensue.summary.options import SummaryOptions
from tests.contract import definitions as by
from tests.contract import drivers as d
from tests.contract.definitions import ANYTIME, LARGER, PAIR, ROWS, RUN
from tests.contract.discovery import operators
from tests.contract.drivers import Driver
from tests.lanes import streams

CASES = int(os.environ.get("ENSUE_CASES", "2"))  # random cuts of each
COUNT = ROWS.num_rows
AMPLE = ensue.Budget(work=10**9)  # never spent: the answer is the exact one

AUTOMATON = (
    ensue.Automaton({"n": "bigint"}, order_by="ts", partition_by="k", within=f"{by.WITHIN} seconds")
    .arc("s", "t", "kind = 'A'", set={"n": "x"})
    .arc("t", "t", "kind IS NOT NULL")
    .arc("t", "f", "kind = 'B'")
    .start("s")
    .final("f")
)


def staged(make: Any, pattern: Any, *more: Any, **settings: Any) -> tuple[Any, Any]:
    """The work of a lane for a pattern, and how rows are prepared for it."""
    planned, ready = streams.streamed(pattern.query, ROWS)
    work = make(planned, *more, ready.schema, "ts", streams.settings(**settings), {})
    return work, lambda rows: streams.streamed(pattern.query, rows)[1]


def under_budget(planned: Any, *arguments: Any) -> Any:
    return matches_work(planned, None, *arguments, AMPLE)


def own_columns(make: Callable[[pa.Schema, Any], Any], **settings: Any) -> tuple[Any, Any]:
    """The same, where no plan prepares the rows."""
    schema = d.as_lanes_get_them(ROWS).schema
    return make(schema, streams.settings(**settings)), d.as_lanes_get_them


def shared(schema: pa.Schema, settings: Any) -> Any:
    arguments = ({"pair": PAIR.query}, schema, "ts", settings, {}, read_query)
    return shared_work(*arguments, AMPLE, Sharing())


def edited(schema: pa.Schema, settings: Any) -> Any:
    return edits_work({"pair": PAIR.query}, schema, "ts", settings, {}, read_query)


SUMMED = SummaryOptions(
    200, total=parse_condition("sum(B.x)", Scope(PAIR.query.variables, "total")),
    total_text="sum(B.x)",
)  # fmt: skip


def summarized(schema: pa.Schema, settings: Any) -> Any:
    return summary_work(PAIR.query, SUMMED, schema, "ts", settings, {})


def quantified(output: str) -> Callable[[pa.Schema, Any], Any]:
    asked = Asked(q.sum("x").stage, (OrderKey("ts"),), output, "value", tuple(ROWS.column_names))
    return lambda schema, settings: quantify_work(asked, ("k",), schema, "ts", settings, {})


ASKED = AskedAutomaton(
    AUTOMATON.machine, AUTOMATON.timing, ("k",), AUTOMATON._settings(keep_rows=False)
)


def by_hand(schema: pa.Schema, settings: Any) -> Any:
    return automaton_work(ASKED, schema, "ts", settings, {})


def with_edits(schema: pa.Schema, settings: Any) -> Any:
    return arcs_work(ASKED, schema, "ts", settings, {})


def revision() -> RevisionEvaluator:
    return RevisionEvaluator(AUTOMATON.machine, AUTOMATON.timing, ROWS.schema, ("k",))


def revision_restored(blob: bytes) -> RevisionEvaluator:
    made = revision()
    made.restore(blob)
    return made


def live(state: Any = None) -> Any:
    patterns = ensue.workload({"short": PAIR.within("4 seconds"), "pair": PAIR})
    return patterns.live(ROWS.schema.empty_table(), state=state)


def totals_matcher(sigma: Any) -> Any:
    asked = {"n": "count(*)", "s": "sum(B.x)"}
    return PAIR.matcher(aggregate=asked, by="k", speculation=sigma)


def late_summary(sigma: Any) -> Any:
    made = PAIR.summarize(size=200, total="sum(B.x)", speculation=sigma)
    return made.insert(ROWS.slice(0, 0))  # its columns are known


def counted(row: by.Row) -> by.Row:
    return {"k": row["k"], "n": int(row["count"]), "s": int(row["sum"] or 0)}


def added(row: by.Row) -> by.Row:
    n, s = (row[name] for name in row if name.startswith("__"))
    return {"k": row["k"], "n": int(n), "s": int(s)}


def every_key(rows: pa.Table) -> list[by.Row]:
    """Totals, of keys without a pair as well."""
    known = {row["k"]: row for row in by.totals(rows)}
    keys = {row["k"] for row in rows.to_pylist()}
    return [known.get(key, {"k": key, "n": 0, "s": 0}) for key in keys]


def of_event(row: by.Row) -> by.Row:
    return {"x": row["x"], "value": row["value"]}


def of_key(row: by.Row) -> by.Row:
    return {"k": row["k"], "value": row["value"]}


def ample_rows() -> SheddingRows:
    """Row patterns under a bound that they keep to without shedding."""
    planned = plan(rules.check(bind(RUN.query, ROWS.column_names)))
    pattern = RowPattern("runs", planned, StartSketch(), 1.0)
    return SheddingRows(pattern, RowBudget(Bounds(work=Bound(1e9)), ("runs",)))


PLACE = np.zeros(COUNT, np.int64)
EXAMPLES: dict[str, Driver] = {
    # evaluators of the protocol
    "rows": d.Evaluates(RowsEvaluator, RUN, by.runs),
    "rows in a lane": d.Evaluates(FlatRows, RUN, by.runs),
    "rows in pieces": d.Evaluates(lambda: RowsEvaluator(prompt=True), RUN, by.runs),
    "rows of chosen starts": d.Evaluates(
        lambda: ChosenRows(np.ones(COUNT, np.bool_), PLACE, PLACE[:1]), RUN, by.runs, numbered=True
    ),
    "rows that may be shed": d.Evaluates(ample_rows, RUN, by.runs),
    "sequences": d.Evaluates(SequencesEvaluator, PAIR, by.pairs),
    "sequences together": d.Evaluates(SequencesEvaluator, PAIR, by.pairs, together=True),
    "guarded sequences": d.Evaluates(SequencesEvaluator, LARGER, by.pairs),
    "missing": d.Evaluates(ExactMissing, PAIR.allow_missing(1), by.pairs_with_one_missing),
    "guarded missing": d.Evaluates(
        GuardedMissing, LARGER.allow_missing(1), by.pairs_with_one_missing
    ),
    "missing, chosen": d.Evaluates(
        ApproximateEvaluator, PAIR.allow_missing(1), by.pairs_with_one_missing
    ),
    "missing under a budget": d.Evaluates(
        ApproximateEvaluator, PAIR.allow_missing(1), by.pairs_with_one_missing, AMPLE
    ),
    "missing, by a history": d.Evaluates(
        ApproximateEvaluator, PAIR.allow_missing(1, history=500), by.pairs_with_one_missing, AMPLE
    ),
    "shared": d.Shares(SharedEvaluator),
    "totals in a window": d.Adds(PAIR),
    "totals by state": d.Adds(ANYTIME, far=True),
    "totals": d.Totals(lambda: TotalsEvaluator(Grouping(("k",))), PAIR),
    "totals together": d.Totals(lambda: TotalsEvaluator(Grouping(("k",))), PAIR, together=True),
    "summary by key": d.Keyed(lambda: SummaryEvaluator(SUMMED), every_key),
    # held by users
    "matcher": d.Answers(lambda: PAIR.matcher(speculation=math.inf), ensue.restore, by.pairs),
    "matcher of rows": d.Answers(lambda: RUN.matcher(speculation=math.inf), ensue.restore, by.runs),
    "matcher that waits": d.Answers(PAIR.matcher, ensue.restore, by.pairs),
    "matcher under a budget": d.Answers(
        lambda: PAIR.matcher(budget=AMPLE), ensue.restore, by.pairs
    ),
    "matcher of totals": d.Sums(lambda: totals_matcher(math.inf), ensue.restore, by.totals),
    "matcher of totals that waits": d.Sums(lambda: totals_matcher(0), ensue.restore, by.totals),
    "automaton by hand": d.Answers(AUTOMATON.matcher, AUTOMATON.restore, by.pairs),
    "revision": d.Answers(revision, revision_restored, by.pairs),
    "summary": d.Summarizes(
        lambda: PAIR.summarize(size=200, total="sum(B.x)"), ensue.restore, every_key
    ),
    "summary in any order": d.Ends(lambda: late_summary(0), ensue.restore, every_key),
    "summary ahead of time": d.Ends(lambda: late_summary(math.inf), ensue.restore, every_key),
    "live workload": d.Lives(live, live, by.both),
    "quantities of events": d.Quantifies(q.sum("x"), by.running_sums),
    "quantities of keys": d.Quantifies(q.sum("x"), by.sums, output="demand"),
    # between them and their input
    "cleanse": d.Cleans(math.inf),
    "cleanse that waits": d.Cleans(0),
    # stages of a lane, and the lane
    "rows stage": d.Staged(lambda: staged(matches_work, RUN, None), by.runs),
    "events stage": d.Staged(lambda: staged(matches_work, PAIR, None), by.pairs),
    "totals stage": d.Staged(
        lambda: staged(totals_work, PAIR.measures(n="count(*)", s="sum(B.x)"), Grouping(("k",))),
        by.totals,
        added,
    ),
    "budget stage": d.Staged(
        lambda: staged(under_budget, PAIR.allow_missing(1)), by.pairs_with_one_missing
    ),
    "edited stage": d.Staged(lambda: own_columns(edited), by.pairs),
    "shared stage": d.Staged(lambda: own_columns(shared), by.pairs),
    "summary stage": d.Staged(lambda: own_columns(summarized), every_key, counted),
    "quantify stage": d.Staged(lambda: own_columns(quantified("every")), by.running_sums, of_event),
    "quantify stage of keys": d.Staged(lambda: own_columns(quantified("demand")), by.sums, of_key),
    "automaton stage": d.Staged(lambda: own_columns(by_hand), by.pairs),
    "edited automaton stage": d.Staged(lambda: own_columns(with_edits), by.pairs),
    "lane of rows": d.InLane(lambda: staged(matches_work, RUN, None), by.runs),
    "lane of events": d.InLane(lambda: staged(matches_work, PAIR, None), by.pairs),
}
INSIDE: dict[type, str] = {  # parts that nothing but these drives
    Tracks: "missing, by a history",
    ListsWithin: "missing under a budget",
    InPieces: "rows",  # what evaluators that hold rows share
    Straight: "matcher that waits",
    Replay: "matcher",
    PatternBranch: "matcher",
    TotalsBranch: "matcher of totals",
    Rerun: "matcher of totals",
    SharedBranch: "matcher under a budget",
    Operator: "revision",
    OrderedRevisions: "automaton stage",
}


# -- runs -----------------------------------------------------------------------------------------


def cuts() -> Iterator[list[int]]:
    """Places to cut at: everywhere, and random ones."""
    yield list(range(1, COUNT))
    chance = random.Random(17)
    for _ in range(CASES):
        yield sorted(chance.sample(range(1, COUNT), chance.randrange(1, 6)))


def pieces(rows: pa.Table, at: list[int]) -> list[pa.Table]:
    return [rows.slice(begin, end - begin) for begin, end in pairwise([0, *at, rows.num_rows])]


def answer(
    driver: Driver, parts: list[pa.Table], saved: bool = False, marked: bool = False
) -> list[by.Row]:
    """Fed piece by piece: told the time after each, and through bytes before the next."""
    held, found, seen = driver.make(), [], 0
    for place, part in enumerate(parts):
        if saved and place:
            held = driver.load(driver.save(held))
        found += driver.feed(held, part)
        seen += part.num_rows
        if marked:
            found += driver.mark(held, seen)
    found += driver.end(held)
    return driver.read(held, found)


@cache
def whole(driver: Driver) -> by.Answer:
    return by.canonical(answer(driver, [ROWS]))


def half(driver: Driver) -> tuple[Any, d.Found]:
    held = driver.make()
    return held, driver.feed(held, ROWS.slice(0, COUNT // 2 + 1))


def each_that(fits: Callable[[Driver], bool]) -> pytest.MarkDecorator:
    chosen = {name: driver for name, driver in EXAMPLES.items() if fits(driver)}
    return pytest.mark.parametrize("driver", chosen.values(), ids=chosen.keys())


each = each_that(lambda driver: True)


# -- laws -----------------------------------------------------------------------------------------


def test_every_operator_has_an_example() -> None:
    shown = {type(driver.make()) for driver in EXAMPLES.values()}
    assert set(INSIDE.values()) <= set(EXAMPLES)
    missing = operators() - shown - set(INSIDE)
    assert not missing, "give it an example in the table"
    assert shown | set(INSIDE) == operators(), "it is gone: take it off the table"


@each
def test_the_whole_is_what_the_definition_says(driver: Driver) -> None:
    found = answer(driver, [ROWS])
    assert len(found) >= 3
    assert by.canonical(map(driver.shown, found)) == by.canonical(driver.wanted(ROWS))


@each
@pytest.mark.parametrize("marked", [False, True], ids=["cut", "cut, with watermarks"])
def test_any_cut_is_the_whole(driver: Driver, marked: bool) -> None:
    for at in cuts():
        found = answer(driver, pieces(ROWS, at), marked=marked)
        assert by.canonical(found) == whole(driver), at


@each
def test_a_snapshot_at_every_cut_goes_on_as_if_nothing_happened(driver: Driver) -> None:
    for place in range(COUNT + 1):
        found = answer(driver, pieces(ROWS, [place]), saved=True)
        assert by.canonical(found) == whole(driver), place
    marked = answer(driver, pieces(ROWS, list(range(COUNT + 1))), saved=True, marked=True)
    assert by.canonical(marked) == whole(driver)


@each
def test_a_snapshot_changes_nothing_and_is_the_same_every_time(driver: Driver) -> None:
    held, found = half(driver)
    saved = driver.save(held)
    found += driver.feed(held, ROWS.slice(COUNT // 2 + 1))
    found += driver.end(held)
    assert by.canonical(driver.read(held, found)) == whole(driver)
    assert driver.save(driver.load(saved)) == driver.save(driver.load(saved))


@each
def test_a_copy_goes_on_by_itself(driver: Driver) -> None:
    held, found = half(driver)
    assert driver.copies == hasattr(held, "copy")
    if not driver.copies:
        return
    copied = held.copy()
    rest = ROWS.slice(COUNT // 2 + 1)
    there = [*found, *driver.feed(copied, rest), *driver.end(copied)]
    here = [*found, *driver.feed(held, rest), *driver.end(held)]
    assert by.canonical(driver.read(copied, there)) == whole(driver)
    assert by.canonical(driver.read(held, here)) == whole(driver)


@each_that(lambda driver: driver.any_order)
def test_the_order_of_arrival_does_not_matter(driver: Driver) -> None:
    for seed in range(CASES):
        order = random.Random(seed).sample(range(COUNT), COUNT)
        shuffled = ROWS.take(pa.array(order))
        found = answer(driver, pieces(shuffled, [4, 5, 9]), saved=seed % 2 == 0)
        assert by.canonical(found) == whole(driver), order


@each_that(lambda driver: driver.ends)
def test_end_completes_and_a_key_that_comes_again_starts_afresh(driver: Driver) -> None:
    held = driver.make()
    fresh = driver.size(held)
    found = [*driver.feed(held, ROWS), *driver.end(held)]
    assert by.canonical(driver.read(held, found)) == whole(driver)
    if driver.forgets:
        assert driver.size(held) == fresh
    assert driver.read(held, driver.end(held)) == []
    if driver.begins_again:
        held = driver.load(driver.save(held))
        again = [*driver.feed(held, ROWS), *driver.end(held)]
        assert by.canonical(driver.read(held, again)) == whole(driver)


@each_that(lambda driver: driver.retracts)
def test_a_retraction_is_as_if_the_row_had_never_come(driver: Driver) -> None:
    for row in range(COUNT):
        gone = ROWS.slice(row, 1)
        rest = pa.concat_tables([ROWS.slice(0, row), ROWS.slice(row + 1)])
        held = driver.make()
        found = [*driver.feed(held, ROWS), *driver.retract(held, gone)]
        found += driver.feed(held, gone)  # and once more, since it may come again
        found += driver.retract(held, gone)
        found += driver.end(held)
        told = map(driver.shown, driver.read(held, found))
        assert by.canonical(told) == by.canonical(driver.wanted(rest)), row


@each_that(lambda driver: driver.declares)
def test_what_it_cannot_do_it_refuses_by_name(driver: Driver) -> None:
    held, _ = half(driver)
    assert isinstance(held.capabilities, Capabilities)
    assert held.capabilities.retraction == driver.retracts
    assert held.capabilities.ordered_input == (not driver.any_order)
    if not driver.retracts:
        told = f"{held.name} does not support corrections of earlier events"
        with pytest.raises(errors.UnsupportedError, match=re.escape(told)):
            driver.retract(held, ROWS.slice(0, 1))


@each
def test_it_reports_what_it_holds_and_what_it_has_seen(driver: Driver) -> None:
    held = driver.make()
    seen = {"rows": 0, "matches": 0}
    most = dict(driver.size(held))
    for row in range(COUNT):
        driver.feed(held, ROWS.slice(row, 1))
        size = driver.size(held)
        assert all(value >= 0 for value in size.values())
        most = {name: max(size[name], most[name]) for name in size}
        now = driver.counted(held)
        assert now.get("rows", row + 1) == row + 1
        assert all(now[name] >= seen[name] for name in now)
        seen |= now
    assert any(value > 0 for value in most.values()), "it holds something, and says nothing"
    driver.end(held)
    told = driver.counted(held)
    if "matches" in told:
        assert told["matches"] == len(whole(driver))


@each
def test_bytes_that_are_no_state_of_its_own_are_refused(driver: Driver) -> None:
    held, _ = half(driver)
    saved = driver.save(held)
    for change in (damaged, cut_short, of_another_kind, junk, nothing_left):
        for bad in changed(saved, change):
            with pytest.raises(errors.StateError) as caught:
                driver.load(bad)
            assert caught.value.remedy


@each
def test_no_rows_change_nothing(driver: Driver) -> None:
    nothing = ROWS.slice(0, 0)
    alone = driver.make()
    found = [*driver.feed(alone, nothing), *driver.end(alone)]
    assert driver.read(alone, found) == []
    at = list(range(1, COUNT))
    mixed = [part for piece in pieces(ROWS, at) for part in (nothing, piece, nothing)]
    assert by.canonical(answer(driver, mixed)) == whole(driver)


# -- states that are none -------------------------------------------------------------------------


def changed(saved: Any, change: Callable[[bytes], bytes]) -> Iterator[Any]:
    """The state with one of its blobs changed."""
    if isinstance(saved, bytes):
        yield change(saved)
        return
    assert isinstance(saved, Snapshot)
    for key, blob in saved.keys.items():
        yield replace(saved, keys={**saved.keys, key: change(blob)})
    if saved.shared and change is not nothing_left:  # where nothing is shared there are no bytes
        yield replace(saved, shared=change(saved.shared))


def damaged(blob: bytes) -> bytes:
    place = len(blob) // 2
    return blob[:place] + bytes([blob[place] ^ 4]) + blob[place + 1 :]


def cut_short(blob: bytes) -> bytes:
    return blob[: len(blob) * 2 // 3]


def of_another_kind(blob: bytes) -> bytes:
    return state.to_bytes(SETTLE, pa.table({"k": ["p"]}))


def junk(blob: bytes) -> bytes:
    return b"junk"


def nothing_left(blob: bytes) -> bytes:
    return b""
