"""Edits along with a batch of events give what calls in turn give, and what the oracle says."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.automaton.registers import MINUS_INFINITY, Arc
from ensue.errors import (
    ColumnTypeError,
    NoFinalStateError,
    QueryError,
    UnknownArcError,
    UnknownStateError,
    UnsupportedError,
)
from ensue.revision.arc_schedule import ArcSchedule, Palette
from ensue.revision.kernels.layout import NONE
from tests import oracle_revision as oracle
from tests.revision_cases import (
    INF,
    Net,
    Stream,
    expected,
    new_operator,
    random_arc,
    random_case,
    shuffled,
    table,
    times,
)
from tests.share import some

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
NOTHING = ArcSchedule.of(Palette(), [])
SEEDS = some(range(6 if INTERPRETED else 150))


def random_schedule(
    pick: random.Random, operator: Any, palette: list[tuple[Arc, Any]], size: int
) -> ArcSchedule:
    """Edits that can be made: names in force end, arcs that are not in force begin."""
    in_force = {arc.name for arc in operator.arcs if arc.till > 2**62}
    finals = operator.machine.finals
    final = {arc.name for arc in [*operator.arcs, *(a for a, _ in palette)] if arc.target in finals}
    at, add, remove = [], [], []
    for place in sorted(pick.sample(range(size + 1), k=pick.randint(0, min(4, size)))):
        gone = pick.choice([None, *sorted(in_force)])
        free = [i for i, (arc, _) in enumerate(palette) if arc.name not in in_force]
        came = pick.choice([None, *free]) if free else None
        after = (in_force - {gone}) | ({palette[came][0].name} if came is not None else set())
        if not after & final or (gone is None and came is None):
            continue
        in_force = after
        at.append(place)
        add.append(None if came is None else palette[came][0].name)
        remove.append(gone)
    known = Palette().with_arcs({arc.name: arc for arc, _ in palette})
    return ArcSchedule.of(known, at, add, remove)


def test_edits_among_events_are_edits_between_calls_and_the_oracle() -> None:
    made = 0
    for seed in SEEDS:
        pick = random.Random(f"schedules {seed}")
        case = random_case(pick)
        options = {"ignoring": pick.random() < 0.5, "sequenced": pick.random() < 0.2}
        quick, calls = new_operator(case, **options), new_operator(case, **options)
        states = quick.code.states
        palette = [
            random_arc(pick, pick.choice(states), pick.choice(states[1:]), f"p{i}")
            for i in range(3)
        ]
        told = {arc.name: said for arc, said in zip(case.arcs, case.oracle, strict=True)}
        said = {arc.name: o for arc, o in palette}
        over: list[oracle.OracleArc] = []
        events = Stream.random(pick, pick.randint(6, 18)).events
        arriving = shuffled(pick, events, pick.choice([0, 0, 4]))
        net, other = Net(quick), Net(calls)
        while arriving:
            size = pick.randint(1, 7)
            batch, arriving = arriving[:size], arriving[size:]
            schedule = random_schedule(pick, quick, palette, len(batch))
            made += len(schedule.at)
            ones = np.ones(len(batch), np.int8)
            before = list(quick.arcs)
            try:
                begins, delta = quick.change_with_edits(table(batch), times(batch), ones, schedule)
            except UnknownStateError:  # an arc that never was in force led there
                assert quick.arcs == before
                delta, schedule = quick.insert(table(batch), times(batch)), NOTHING
            net.add(delta)
            done = 0
            for row, names, arcs in schedule.edits():
                part = batch[done : int(schedule.at[row])]
                done = int(schedule.at[row])
                other.add(calls.insert(table(part), times(part)))
                begin, _, _ = calls.revise(arcs, names)
                assert begin == begins[row], seed
                since = -INF if begin == MINUS_INFINITY else begin
                for name in names:
                    over.append(replace(told.pop(name), till=since))
                for arc in arcs:
                    told[arc.name] = replace(said[arc.name], since=since)
            other.add(calls.insert(table(batch[done:]), times(batch[done:])))
            if pick.random() < 0.3:
                mark = min([e["le"] for e in arriving], default=10**6)
                net.add(quick.advance(mark))
                other.add(calls.advance(mark))
        net.add(quick.end())
        other.add(calls.end())
        lived = [arc for arc in over if arc.since < arc.till] + list(told.values())
        wanted = expected(case, events, lived, sequenced=options["sequenced"])
        assert net.matches == other.matches == wanted, seed
        assert {(a.name, a.since, a.till) for a in quick.arcs if a.till > quick.settled} == {
            (a.name, a.since, a.till) for a in calls.arcs if a.till > calls.settled
        }
    assert made > len(SEEDS)


def drops() -> ensue.Automaton:
    return (
        ensue.Automaton({"n": "bigint"}, order_by="ts", within=10)
        .arc("q0", "q1", when="kind = 'a'", set={"n": "n + 1"}, name="a")
        .arc("q1", "q2", when="kind = 'b'", name="b")
        .final("q2")
    )


EVENTS = pa.table({"ts": [1, 2, 3, 4, 5, 6], "kind": ["a", "b", "a", "c", "a", "b"]})


def matcher(**options: Any) -> Any:
    found = drops().matcher(EVENTS.schema, **options)
    found.prepare({"c": dict(source="q1", target="q2", when="kind = 'c'")})
    return found


def test_edits_tell_when_they_begin() -> None:
    m = matcher()
    revised = m.revise_during(EVENTS, at=[0, 2, 4], add=["c", None, "b"], remove=["b", "a", "c"])
    assert revised.begins.to_pylist() == [None, 3, 5]
    assert revised.changes.num_rows == 0


def test_rows_of_one_place_are_one_edit_that_removes_first() -> None:
    m = matcher()
    at, add, remove = [0, 0, 4, 4], ["c", None, "b", None], [None, "b", None, "c"]
    revised = m.revise_during(EVENTS, at=at, add=add, remove=remove)
    assert revised.begins.to_pylist() == [None, 5]
    found = [(row["first"], row["last"]) for row in revised.changes.to_pylist()]
    assert found == [(3, 4), (5, 6)]
    with pytest.raises(UnknownArcError, match="'c'"):
        m.revise_during(EVENTS, at=[0, 0], add=["c", None], remove=[None, "c"])


def test_an_arc_that_comes_back() -> None:
    m = matcher()
    revised = m.revise_during(EVENTS, at=[0, 3, 4], add=["c", "b", None], remove=["b", None, "c"])
    found = [(row["first"], row["last"]) for row in revised.changes.to_pylist()]
    assert found == [(3, 4), (5, 6)]


def test_a_thousand_edits_in_one_call_are_made_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    m = matcher()
    count = 200 if INTERPRETED else 1000
    kinds = ["a", "c"] * count
    events = pa.table({"ts": range(2 * count), "kind": kinds})
    operators = [m.evaluator._first, m.evaluator.operator()]
    for operator in operators:
        monkeypatch.setattr(operator, "revise", None)  # nothing is made anew
    at = np.arange(2, 2 * count, 2)
    add, remove = (["c", "b"] * count)[: len(at)], (["b", "c"] * count)[: len(at)]
    revised = m.revise_during(events, at=at, add=add, remove=remove)
    assert revised.changes.num_rows == count // 2
    assert len(operators[1].arcs) == count + 1


def test_partitions_share_the_lifetimes_of_edits() -> None:
    keyed = pa.table({"k": [1, 2, 1, 2], "ts": [1, 5, 2, 6], "kind": ["a", "a", "b", "b"]})
    automaton = (
        ensue.Automaton({"n": "bigint"}, order_by="ts", within=10, partition_by="k")
        .arc("q0", "q1", when="kind = 'a'", name="a")
        .arc("q1", "q2", when="kind = 'b'", name="b")
        .final("q2")
    )
    m = automaton.matcher(keyed.schema)
    m.prepare({"c": dict(source="q1", target="q2", when="kind = 'c'")})
    revised = m.revise_during(keyed, at=[2], add=["c"], remove=["b"])
    assert revised.begins.to_pylist() == [6]
    assert [(r["k"], r["first"], r["last"]) for r in revised.changes.to_pylist()] == [(1, 1, 2)]
    late = pa.table({"k": [3, 3], "ts": [3, 4], "kind": ["a", "b"]})
    assert m.insert(late).num_rows == 1
    new = pa.table({"k": [4, 4], "ts": [7, 8], "kind": ["a", "b"]})
    assert m.insert(new).num_rows == 0


def test_an_event_without_a_time_is_nothing_that_an_edit_comes_after() -> None:
    m = matcher()
    events = pa.table({"ts": [1, None, 2], "kind": ["a", "a", "b"]})
    revised = m.revise_during(events, at=[2], add=["c"], remove=["b"])
    assert revised.begins.to_pylist() == [2]
    assert (revised.changes.num_rows, m.rejected.num_rows) == (0, 1)


def wrong(error: type[Exception], text: str, **given: Any) -> None:
    """The call fails, and events and arcs are as before it."""
    m = matcher()
    m.prepare({"far": dict(source="q7", target="q2")})
    m.prepare({"typed": dict(source="q1", target="q2", when="ts + 1")} if "typed" in text else {})
    arcs = list(m.evaluator._first.arcs)
    with pytest.raises(error, match=text):
        m.revise_during(EVENTS, **given)
    assert m.evaluator._first.arcs == arcs
    found = m.insert(EVENTS).to_pylist()
    assert [(row["first"], row["last"]) for row in found] == [(1, 2), (5, 6)]


def test_edits_that_do_not_fit() -> None:
    wrong(UnknownArcError, "no arc 'x' to add", at=[1], add=["x"])
    wrong(UnknownArcError, "no arc or pattern 'x'", at=[1, 2], add=["c", None], remove=[None, "x"])
    wrong(NoFinalStateError, "last arc", at=[1, 2], add=["c", None], remove=["b", "c"])
    wrong(UnknownStateError, "leaves the state 'q7'", at=[1, 2], add=["c", "far"])
    wrong(QueryError, "decreases", at=[2, 1], add=["c", "c"])
    wrong(QueryError, "6 events", at=[7], add=["c"])
    wrong(QueryError, "names for", at=[1, 2], add=["c"])
    wrong(QueryError, "whole numbers", at=[1.5], add=["c"])
    wrong(QueryError, "list of names", at=[1], add=[3])
    wrong(ColumnTypeError, "typed", at=[1], add=["typed"])


def test_what_can_be_prepared() -> None:
    m = matcher()
    with pytest.raises(UnsupportedError, match="single arc"):
        m.prepare({"whole": drops()})
    with pytest.raises(UnsupportedError, match="single arc"):
        m.prepare({"end": dict(source="q1", target="q9", final=True)})
    waiting = drops().matcher(EVENTS.schema, speculation=5)
    with pytest.raises(UnsupportedError, match="speculation"):
        waiting.revise_during(EVENTS, at=[1], remove=["b"])


def test_nothing_is_added_where_null_stands() -> None:
    schedule = ArcSchedule.of(Palette(), pa.array([1]), pa.array([None], pa.string()), ["b"])
    assert schedule.add.tolist() == [NONE]
    assert list(schedule.edits()) == [(0, ["b"], [])]
