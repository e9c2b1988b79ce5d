"""The shared evaluator as a lane drives it: any cut, any watermark, any restart, one answer."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.automaton.share import unite
from ensue.operator.arrange import arrange
from ensue.operator.protocol import Events, LaneEvaluator, Watermark
from ensue.query import rules
from ensue.query.binding import bind
from ensue.run import local
from ensue.shared.evaluator import SharedEvaluator

WITHIN = 9
AMPLE = ensue.Budget(work=10**9)


def q(text: str, within: int = WITHIN, **define: str) -> Any:
    found = ensue.pattern(text, types="kind").partition_by("k").order_by("t").within(within)
    return found.define(**define) if define else found


PLAIN = {
    "ab": q("A ->> B"),
    "none": q("A ->> B ->> !C"),
    "soon": q("A ->> B ->> !C", 4),
    "more": q("A ->> B ->> C", C="x > A.x"),
    "next": q("A -> B", B="next(x) > x"),
}
CHOSEN = {
    "first": q("A ->> B+ ->> C").after_match("past last row"),
    "each": q("A ->> B").after_match("to next row"),
    "none": q("A ->> B ->> !C").after_match("past last row"),
    "to": q("A ->> B ->> C", 5).after_match("to last B"),
}


def stream(seed: int, count: int = 60) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "k": rng.integers(0, 3, count),
            "t": np.cumsum(rng.integers(0, 3, count)),
            "kind": rng.choice(list("ABCX"), count),
            "x": rng.integers(0, 9, count),
        }
    )


class Driven:
    """An evaluator over prepared rows, as runners call it."""

    def __init__(self, patterns: dict[str, Any], rows: pa.Table, budget: Any = None) -> None:
        queries = {n: rules.check(bind(p.query, rows.column_names)) for n, p in patterns.items()}
        self._union, self._budget = unite(queries), budget
        self._schema = self._prepared(rows.slice(0, 0)).schema
        self.evaluator = self._opened(None)

    def _opened(self, state: Any) -> SharedEvaluator:
        evaluator = SharedEvaluator(self._union)
        evaluator.open(self._union.plan, self._schema, self._budget, state)
        return evaluator

    def _prepared(self, rows: pa.Table) -> pa.Table:
        return local.prepare(self._union.plan, rows)

    def insert(self, rows: pa.Table, complete: bool = False) -> list[tuple[Any, ...]]:
        query = self._union.plan.query
        table, starts = arrange(self._prepared(rows), query.partition_by, query.order_by)
        events = Events(table, starts, np.full(len(starts) - 1, complete))
        return told(self.evaluator.insert(events))

    def restart(self) -> None:
        self.evaluator = self._opened(self.evaluator.snapshot())


def told(output: Any) -> list[tuple[Any, ...]]:
    rows = [row for table in output.tables() for row in table.to_pylist()]
    return [
        (m["pattern"], m["k"], tuple((e["label"], e["row"]) for e in m["events"])) for m in rows
    ]


def whole(patterns: dict[str, Any], rows: pa.Table) -> list[tuple[Any, ...]]:
    """Each pattern by itself, which the oracle holds to the definition."""
    return sorted(
        (name, m["k"], tuple((e["label"], e["row"]) for e in m["events"]))
        for name, pattern in patterns.items()
        for m in pattern.matches(rows, as_of="end").to_pylist()
    )


def test_it_is_what_a_lane_drives() -> None:
    made: LaneEvaluator = Driven(PLAIN, stream(0)).evaluator
    assert made.next_time() is None and made.open_keys == 0 and made.sizes() == {}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("budget", [None, AMPLE], ids=["exact", "bounded"])
def test_any_cut_and_watermark_and_restart_give_the_whole(seed: int, budget: Any) -> None:
    draw = random.Random(seed)
    rows = stream(seed)
    patterns = PLAIN if budget is not None or seed % 2 else {**PLAIN, **CHOSEN}
    driven = Driven(patterns, rows, budget)
    found: list[tuple[Any, ...]] = []
    cuts = [0, *sorted(draw.sample(range(1, len(rows)), 9)), len(rows)]
    for begin, end in pairwise(cuts):
        found += driven.insert(rows.slice(begin, end - begin))
        if draw.random() < 0.4:
            driven.restart()
        if end < len(rows) and draw.random() < 0.7:
            mark = Watermark(rows["t"][end].as_py() - draw.choice([0, 0, 3]))
            found += told(driven.evaluator.advance(mark))
        if draw.random() < 0.4:
            driven.restart()
        if draw.random() < 0.4:
            before, driven.evaluator = driven.evaluator, driven.evaluator.copy()
            told(before.end())  # which the copy does not notice
    keys = sorted({(key,) for key in rows["k"].to_pylist()})
    for key in keys:
        found += told(driven.evaluator.end([key]))
    assert sorted(found) == whole(patterns, rows)
    assert driven.evaluator.open_keys == 0 and driven.evaluator.nbytes == 0


def test_time_settles_what_no_row_does_and_lets_rows_go() -> None:
    rows = pa.table({"k": [1] * 4, "t": [0, 1, 2, 20], "kind": list("ABXX"), "x": [0] * 4})
    patterns = {"none": PLAIN["none"], "each": CHOSEN["each"], "soon": PLAIN["soon"]}
    driven = Driven(patterns, rows)
    found = driven.insert(rows.slice(0, 3))
    evaluator = driven.evaluator
    assert found == [("each", 1, (("A", 0), ("B", 1)))]
    assert evaluator.next_time() == 5 and evaluator.partials == 1
    assert evaluator.sizes() == {(1,): 3}
    assert told(evaluator.advance(Watermark(4))) == []
    assert told(evaluator.advance(Watermark(5))) == [("soon", 1, (("A", 0), ("B", 1)))]
    assert evaluator.next_time() == 10
    driven.restart()
    evaluator = driven.evaluator
    assert told(evaluator.advance(Watermark(10))) == [("none", 1, (("A", 0), ("B", 1)))]
    assert evaluator.next_time() is None and evaluator.partials == 0 and evaluator.sizes() == {}
    assert driven.insert(rows.slice(3)) == [] and told(evaluator.end()) == []


def test_a_key_of_which_nothing_is_held_or_counted_is_forgotten() -> None:
    rows = stream(3)
    for measures, left in ((None, 3), ("sum(B.x)", 0)):
        pattern = PLAIN["ab"] if measures is None else PLAIN["ab"].measures(s=measures)
        driven = Driven({"ab": pattern}, rows)
        for _ in range(2):
            list(driven.evaluator.insert(Events(*_one(driven, rows))).tables())
            assert driven.evaluator.open_keys == 3
            list(driven.evaluator.advance(Watermark(10**6)).tables())
            assert driven.evaluator.open_keys == left


def _one(driven: Driven, rows: pa.Table) -> tuple[pa.Table, Any, Any]:
    query = driven._union.plan.query
    table, starts = arrange(driven._prepared(rows), query.partition_by, query.order_by)
    return table, starts, np.zeros(len(starts) - 1, np.bool_)


def test_keys_can_be_dropped() -> None:
    rows = pa.table({"k": [1, 2, 1], "t": [0, 4, 8], "kind": list("AAB"), "x": [0] * 3})
    driven = Driven({"ab": PLAIN["ab"]}, rows)
    driven.insert(rows.slice(0, 2))
    evaluator = driven.evaluator
    assert evaluator.known() == [(1,), (2,)]
    evaluator.drop([(1,), (7,)])
    assert evaluator.open_keys == 1 and driven.insert(rows.slice(2)) == []


def test_a_restart_under_a_bound_sheds_nearly_as_no_restart_does() -> None:
    rows = stream(5, 3000)
    rows = rows.set_column(0, "k", pa.array([0] * len(rows)))
    load = {"abc": q("A ->> B ->> C", 40, C="x > A.x"), "ab": q("A ->> B", 60)}
    answers = []
    for restarts in (False, True):
        driven = Driven(load, rows, ensue.Budget(work=8))
        driven.evaluator.learn(Events(*_complete(driven, rows.slice(0, 500))))
        found = []
        for begin in range(0, len(rows), 250):
            found += driven.insert(rows.slice(begin, 250))
            if restarts:
                driven.restart()
        found += told(driven.evaluator.end())
        answers.append(sorted(found))
    everything = set(whole(load, rows))
    for found in answers:
        assert set(found) < everything and len(found) == len(set(found))
    both = set(answers[0]) & set(answers[1])  # samples of values are not stored
    assert len(both) > 0.9 * max(map(len, answers))


def _complete(driven: Driven, rows: pa.Table) -> tuple[pa.Table, Any, Any]:
    table, starts, complete = _one(driven, rows)
    return table, starts, ~complete
