"""The AFA paper's examples 2 to 6, and what it promises about speculation and clean-up."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue.automaton.registers import MINUS_INFINITY
from ensue.revision.kernels import layout
from examples.afa_trading import q1

# e1 is the large drop; then down, down, up, up, down (e8, which arrives last), up; e7 comes too
# late for e1's window of 7 seconds (Figure 2).
TICKS = {1: -1.0, 2: -0.1, 3: -0.1, 4: 0.1, 5: 0.1, 6: -0.1, 7: 0.1, 9: 0.1}


def ticks(*times: int) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "price": pa.array([0.0] * len(times)),
            "change": pa.array([TICKS[time] for time in times]),
        }
    )


def shown(changes: pa.Table) -> list[tuple[Any, ...]]:
    names = ("op", "first", "last", "until", "r1", "r2")
    return [tuple(row[name] for name in names) for row in changes.to_pylist()]


def test_example_2_the_automaton_of_q1() -> None:
    machine = q1(2).machine
    assert machine.states == ("q0", "q1", "q2", "q3")
    assert [arc.name for arc in machine.arcs] == ["a0", "a1", "a2", "a3", "a4", "a5"]
    assert machine.finals == {"q3"}
    assert [item.initial for item in machine.fields] == [0, 0]


def test_example_3_the_computation() -> None:
    found = q1(2, window=7).matches(ticks(1, 2, 3, 4, 5, 6, 7)).to_pylist()
    assert [(m["first"], m["last"], m["until"], m["r1"], m["r2"]) for m in found] == [
        (1, 7, 8, 0, 2)
    ]


def test_no_match_across_events_outside_the_window() -> None:
    assert q1(2, window=6).matches(ticks(1, 2, 3, 4, 5, 6, 7)).num_rows == 0


def test_example_5_insertion_of_a_late_event() -> None:
    matcher = q1(2, window=7).matcher(debug=True)
    assert shown(matcher.insert(ticks(1, 2, 3, 4, 5, 7, 9))) == []
    operator = matcher.evaluator.operator()
    before = operator.partials
    assert shown(matcher.insert(ticks(6))) == [("+", 1, 7, 8, 0, 2)]
    store = operator.store
    late = int(store.control[layout.EVENTS]) - 1
    at_late = (store.nodes[:, layout.AT] == late).sum()
    assert at_late == 2  # q1 and q2 with <1, 1>
    # At e6 two spanning nodes went and two came, at e7 none was left to go: its window is over.
    assert operator.partials == before + 2
    assert shown(matcher.retract(ticks(6))) == [("-", 1, 7, 8, 0, 2)]
    assert operator.partials == before


def test_example_4_a_change_of_k() -> None:
    """Arcs a3, a4, a5 go and come again with k' = 1; partial matches stay valid."""
    matcher = q1(2, window=100).matcher(debug=True)
    assert shown(matcher.insert(ticks(1, 2, 3))) == []
    new = {
        "b3": {"source": "q2", "target": "q2", "when": "change > 0", "set": {"r1": "r1 - 1"}},
        "b5": {
            "source": "q2",
            "target": "q3",
            "when": "change > 0 AND r2 + 1 = 1 AND r1 - 1 = 0",
            "set": {"r1": "r1 - 1", "r2": "r2 + 1"},
        },
    }
    revised = matcher.revise(add=new, remove=["a3", "a4", "a5"])
    assert revised.lifetime.begin == 4
    assert revised.lifetime.end is None
    assert shown(matcher.insert(ticks(4, 5))) == [("+", 1, 5, 101, 0, 1)]


def test_example_6_ignorable_arcs_are_intervals() -> None:
    automaton = (
        ensue.Automaton({"n": "bigint"}, order_by="ts")
        .arc("q0", "q1", when="kind = 'a'", set={"n": "n + 1"})
        .arc("q1", "q1", when="kind = 'x'", name="ignore")
        .arc("q1", "q2", when="kind = 'b'")
        .final("q2")
    )
    events = pa.table({"ts": [10, 11, 12, 14, 15], "kind": ["a", "x", "x", "x", "b"]})
    late = pa.table({"ts": [13], "kind": ["x"]})
    with_intervals = automaton.matcher(debug=True)
    without = automaton.matcher(debug=True, ignorable_intervals=False)
    assert with_intervals.insert(events)["op"].to_pylist() == ["+"]
    assert without.insert(events)["op"].to_pylist() == ["+"]
    assert with_intervals.partials == 2  # the anchor at e10 and its next derivation at e15
    assert without.partials == 5
    assert with_intervals.insert(late)["op"].to_pylist() == []  # nothing is withdrawn
    assert without.insert(late)["op"].to_pylist() == ["-", "+"]


def test_figure_18_no_trade_of_b_for_300_seconds() -> None:
    automaton = (
        ensue.Automaton(order_by="ts", within=299)
        .arc("q0", "q1", when="stock = 'A'")
        .arc("q1", "q1", when="stock <> 'B'")
        .arc("q1", "q2", at_end_of_window=True)
        .final("q2")
    )
    matcher = automaton.matcher(debug=True)
    assert matcher.insert(pa.table({"ts": [0, 400], "stock": ["A", "A"]})).num_rows == 0
    assert matcher.advance(299).num_rows == 0
    assert matcher.advance(300)["first"].to_pylist() == [0]
    assert matcher.insert(pa.table({"ts": [500], "stock": ["B"]})).num_rows == 0
    assert matcher.advance(900).num_rows == 0


@pytest.mark.parametrize("speculation", [0, 5, float("inf")])
def test_speculation(speculation: float) -> None:
    """Whatever σ is, the net is the same; at 0 nothing is withdrawn."""
    pick = random.Random(7)
    count = 120
    change = [pick.choice([-1.0, -0.1, 0.1, 1.0]) for _ in range(count)]
    table = pa.table({"ts": range(count), "price": [0.0] * count, "change": change})
    order = sorted(range(count), key=lambda place: place + pick.randint(0, 12))
    automaton = q1(1, window=30)
    matcher = automaton.matcher(speculation=speculation)
    net: dict[str, tuple[Any, ...]] = {}
    withdrawn = 0

    def add(changes: pa.Table) -> None:
        nonlocal withdrawn
        for row in changes.to_pylist():
            if row["op"] == "+":
                net[row["match_id"]] = (row["first"], row["last"], row["r1"], row["r2"])
            else:
                withdrawn += 1
                del net[row["match_id"]]

    for place, row in enumerate(order):
        add(matcher.insert(table.take([row])))
        if place % 20 == 19:
            add(matcher.advance(min(order[place + 1 :], default=count)))
    add(matcher.end())
    found = automaton.matches(table).to_pylist()
    assert sorted(net.values()) == sorted((m["first"], m["last"], m["r1"], m["r2"]) for m in found)
    assert (withdrawn == 0) == (speculation == 0)
    assert matcher.late.num_rows == 0


def test_clean_up_keeps_cover_and_no_more() -> None:
    matcher = q1(2, window=7).matcher(debug=True)
    matcher.insert(ticks(1, 2, 3, 4, 5, 7))
    operator = matcher.evaluator.operator()
    matcher.advance(5)
    assert operator.events == 3  # cover(5), which is the event at 4, and those from 5 on
    assert shown(matcher.insert(ticks(6))) == [("+", 1, 7, 8, 0, 2)]


def test_effective_punctuation_is_the_lesser_of_both_inputs() -> None:
    matcher = q1(2, window=7).matcher(debug=True, arc_watermark=True)
    matcher.insert(ticks(1, 2, 3, 4, 5, 6, 7))
    operator = matcher.evaluator.operator()
    matcher.advance(6)
    assert operator.settled == MINUS_INFINITY
    assert operator.events == 7
    changes = matcher.revise(remove=["a5"], add={
        "b5": {"source": "q2", "target": "q3", "when": "change > 0"}
    }, since=5).changes  # fmt: skip
    assert changes.num_rows > 0  # the past is still open to arcs
    matcher.advance(6, on="patterns")
    assert operator.settled == 6
    assert operator.events == 3
    with pytest.raises(ensue.errors.LifetimeError):
        matcher.revise(remove=["b5"], since=5)


def test_predicated_punctuation_lets_go_of_states() -> None:
    """Floors of a building: no late event of floors up to 3 comes before 20 (F.2)."""
    automaton = (
        ensue.Automaton(order_by="ts")
        .arc("q0", "q1", when="floor = 1")
        .arc("q1", "q2", when="floor = 3 AND temperature > 95")
        .final("q2")
    )
    matcher = automaton.matcher(debug=True)
    table = pa.table({"ts": [1, 5, 9, 30], "floor": [1, 1, 7, 7], "temperature": [20, 20, 20, 20]})
    matcher.insert(table)
    before = matcher.partials
    matcher.advance(20, where="floor <= 3")
    assert matcher.partials < before
    with pytest.raises(ensue.errors.UnsupportedError, match="retract"):
        matcher.retract(table.slice(0, 1))
