"""State of automata: it survives a round trip through bytes, and a watermark keeps it small."""

from __future__ import annotations

import os
import random

import pyarrow as pa

import ensue
from ensue.revision.state import from_bytes, to_bytes
from examples.afa_trading import prices, q1
from tests.revision_cases import (
    Net,
    Stream,
    expected,
    new_operator,
    random_arc,
    shuffled,
    table,
    times,
)
from tests.unit.test_revision_order import usable

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"


def test_stored_state_goes_on_as_if_nothing_had_happened() -> None:
    for seed in range(20 if INTERPRETED else 200):
        pick = random.Random(f"state {seed}")
        case = usable(pick, closing=pick.random() < 0.3)
        stream = Stream.random(pick, 12, pick.random() < 0.3)
        operator = new_operator(case)
        net = Net(operator)
        arriving = shuffled(pick, stream.events, 6)
        net.add(operator.insert(table(arriving[:6]), times(arriving[:6])))
        net.add(operator.advance(min(e["le"] for e in arriving[6:])))
        again = new_operator(case)
        from_bytes(again, to_bytes(operator))
        net._operator = again
        net.add(again.insert(table(arriving[6:]), times(arriving[6:])))
        net.add(again.end())
        assert net.matches == expected(case, stream.events), seed


def test_edited_arcs_are_part_of_the_state() -> None:
    pick = random.Random(1)
    case = usable(pick)
    operator = new_operator(case)
    stream = Stream.random(pick, 6)
    operator.insert(table(stream.events), times(stream.events))
    arc, _ = random_arc(pick, "q0", "q1", "added")
    operator.revise([arc])
    again = new_operator(case)
    from_bytes(again, to_bytes(operator))
    assert again.arcs == operator.arcs
    assert again.code.states == operator.code.states
    more = [
        {**event, "le": event["le"] + 20, "name": 100 + i} for i, event in enumerate(stream.events)
    ]
    after = [op.insert(table(more), times(more)).rows.tolist() for op in (operator, again)]
    assert after[0] == after[1]
    assert after[0]


def test_a_matcher_restored_by_key() -> None:
    automaton = (
        ensue.Automaton({"n": "bigint", "who": "string"}, order_by="ts", partition_by="k")
        .arc("q0", "q1", when="kind = 'a'", set={"n": "n + 1", "who": "k"})
        .arc("q1", "q2", when="kind = 'b' AND who = k")
        .final("q2")
    )
    first = pa.table({"ts": [1, 2], "kind": ["a", "a"], "k": ["u", "v"]})
    second = pa.table({"ts": [3, 4], "kind": ["b", "b"], "k": ["u", "v"]})
    matcher = automaton.matcher()
    matcher.insert(first)
    again = automaton.restore(matcher.snapshot())
    assert again.insert(second).to_pylist() == matcher.insert(second).to_pylist()


def test_memory_stays_that_of_the_window() -> None:
    count, batch, window = (2_000, 200, 50) if INTERPRETED else (60_000, 2_000, 200)
    matcher = q1(2, window=window).matcher(keep_rows=False)
    stream = prices(count)
    sizes = []
    for begin in range(0, count, batch):
        matcher.insert(stream.slice(begin, batch))
        matcher.advance(begin + batch - window)
        sizes.append(matcher.nbytes)
        assert matcher.evaluator.operator().events == window + 1
    assert max(sizes[len(sizes) // 2 :]) <= 1.2 * max(sizes[: len(sizes) // 2])


def test_pictures_and_explanations() -> None:
    automaton = q1(2)
    text = automaton.explain(prices(3))
    assert "q1 -> q2 when change < 0 set r1 = r1 + 1" in text
    assert "runs: compiled" in text
    slow = automaton.arc("q1", "q3", when=lambda event, register: False)
    assert "runs: plain Python: a Python function" in slow.explain(prices(3))
    assert "q0" in automaton.plot().dot
    assert automaton.plot().svg.startswith("<svg")
