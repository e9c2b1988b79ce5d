"""Conditions on other events, compiled: against the oracle, and against match nodes in Python."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.missing import budget as budgets
from ensue.missing import compiled, guarded, nodes
from tests.unit.test_acep_budget import asked, shown
from tests.unit.test_acep_exhaustive import asked as unbounded
from tests.unit.test_acep_exhaustive import check, said, table

STREAMS = ["ABBC", "BBAC", "ABCB", "AABBC", "BAC", "ACB", "CAB", "B", "BC", "ABXCB", "BABAC"]
CONDITIONS = [
    {"C": "x > A.x AND x > B.x"},
    {"C": "x > A.x OR x > B.x"},
    {"C": "MAX(B.x) >= x AND COUNT(A.*) < 2"},
    {"B": "x <> FIRST(x)", "C": "x - A.x < 3"},
    {"C": "AVG(B.x) < x", "B": "x >= A.x"},
    {"B": "x + 2 > A.x OR x > 3"},
    {"C": "LAST(B.x, 1) < LAST(B.x) AND x <> LAST(x, 2)"},
    {"B": "PREV(A.x) < x", "C": "FIRST(B.x, 1) = x OR A.x = 0"},
]


def events(size: int, seed: int, letters: str = "ABCX") -> pa.Table:
    chance = np.random.default_rng(seed)
    words = ["low", "high", "mid", None]
    return pa.table(
        {
            "stream": chance.integers(0, 2, size),
            "id": np.arange(size),
            "kind": [letters[i] for i in chance.integers(0, len(letters), size)],
            "x": pa.array([None if v == 6 else int(v) for v in chance.integers(0, 7, size)]),
            "f": chance.choice([0.5, 1.5, float("nan"), -2.0], size),
            "word": [words[i] for i in chance.integers(0, 4, size)],
            "day": [dt.date(2026, 1, 1 + int(i)) for i in chance.integers(0, 5, size)],
        }
    )


class PlainOnly(compiled.Compiler):
    """As if no condition could be compiled."""

    def guards(self, batch: Any) -> None:
        return None


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(ask: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(budgets, "Compiler", PlainOnly)
            return ask()

    return run


@pytest.mark.parametrize("define", CONDITIONS, ids=str)
@pytest.mark.parametrize("text", ["A ->> B+ ->> C", "A? ->> B{1,2} ->> (B | C)"])
@pytest.mark.parametrize("k", [1, 2])
def test_like_the_oracle(define: Any, text: str, k: int) -> None:
    check(unbounded(said(text).define(**define), k), table(STREAMS))
    weighed = unbounded(said(text).define(**define).within(3), 1, missing={"A": 0.5})
    check(weighed, table(STREAMS))


TYPED = [
    {"B": "f > A.f", "C": "f <> B.f"},
    {"C": "word = A.word"},
    {"B": "day >= A.day", "C": "word > B.word OR word = 'mid'"},
    {"C": "SUM(B.f) < A.x"},
    {"B": "x > A.x", "C": "x < LAST(B.x) OR x IS NULL"},
]


@pytest.mark.parametrize("define", TYPED, ids=str)
@pytest.mark.parametrize("budget", [None, ensue.Budget(work=10**9), ensue.Budget(work=3)], ids=str)
def test_like_in_python(in_python: Any, define: Any, budget: Any) -> None:
    """Columns of several types with nulls; a budget chooses the same candidates either way."""
    rows = events(80, 7)
    pattern = asked("A ->> B+ ->> C", 1, 8, define, history=3, adapt="secondary")
    fast = pattern.matches(rows, budget=budget)
    slow = in_python(lambda: pattern.matches(rows, budget=budget))
    assert fast.equals(slow) and len(fast)
    if budget is not None:
        assert fast.schema.metadata == slow.schema.metadata  # work and what was shed


@pytest.mark.parametrize(
    "define", [None, *CONDITIONS[:2], {"C": "upper(A.word) = upper(word)"}], ids=str
)
@pytest.mark.parametrize("budget", [None, ensue.Budget(work=10**9), ensue.Budget(work=3)], ids=str)
def test_nodes_may_be_forgotten_and_moved_at_any_event(
    define: Any, budget: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for one node, and with a compaction before each event, nothing else is found."""
    rows = events(120, 11)
    told = {"history": 3, "adapt": "secondary"} if define else {"history": 3}
    pattern = asked("A ->> B+ ->> C", 1, 8, define or {}, **told)
    wanted = pattern.matches(rows, budget=budget)
    advance, made = budgets.BudgetEngine._events, nodes.NodeStore.__init__

    def compacting(self: Any, rows: Any, place: Any, stop: int, shift: int, store: Any) -> int:
        store.compact(int(rows.lows[place[0]]) - shift)
        return advance(self, rows, place, int(place[0]) + 1, shift, store)

    def small(self: Any, states: int, levels: int, places: int) -> None:
        made(self, states, levels, places, 1)

    monkeypatch.setattr(budgets.BudgetEngine, "_events", compacting)
    monkeypatch.setattr(nodes.NodeStore, "__init__", small)
    found = pattern.matches(rows, budget=budget)
    assert shown(found) == shown(wanted) and len(found)
    if budget is not None:
        assert found.schema.metadata == wanted.schema.metadata  # work and what was shed


def test_these_conditions_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any) -> None:
        raise AssertionError("a condition was asked in Python")

    monkeypatch.setattr(guarded.GuardedNodes, "event", never)
    for define in (*CONDITIONS, *TYPED):
        pattern = asked("A ->> B+ ->> C", 1, 5, define)
        assert len(pattern.matches(events(30, 1)))


def test_what_the_register_machine_cannot_hold_is_asked_in_python() -> None:
    """Text functions over other events."""
    rows = events(40, 3)
    pattern = asked("A ->> B+ ->> C", 1, 6, {"C": "upper(A.word) = upper(word)"})
    same = asked("A ->> B+ ->> C", 1, 6, {"C": "A.word = word"})
    assert shown(pattern.matches(rows)) == shown(same.matches(rows))
    above = ensue.Budget(work=10**9)
    assert shown(pattern.matches(rows, budget=above)) == shown(same.matches(rows))


@pytest.mark.parametrize("budget", [None, ensue.Budget(work=10**9)], ids=str)
@pytest.mark.parametrize("condition", ["x + A.x > B.x", "SUM(B.x) > x", "x / A.x > 0.5"])
def test_what_leaves_64_bits_or_divides_by_zero_is_answered_as_in_python(
    in_python: Any, condition: str, budget: Any
) -> None:
    rows = events(60, 4)
    big = pa.array([(1 << 62) + i if i > 30 else i % 3 for i in range(60)], pa.int64())
    rows = rows.set_column(3, "x", big)
    pattern = asked("A ->> B+ ->> C", 1, 8, {"C": condition})

    def outcome() -> Any:
        try:
            return shown(pattern.matches(rows, budget=budget))
        except errors.EnsueError as problem:
            return type(problem), str(problem)

    assert outcome() == in_python(outcome)


@pytest.mark.compiled
def test_partial_matches_that_agree_in_what_is_ahead_are_one() -> None:
    """B+ within a long window: exponentially many partial matches, as many nodes as B's and A's."""
    kinds = ["A", *"B" * 60]
    rows = pa.table({"stream": [0] * 61, "id": np.arange(61), "kind": kinds, "x": np.arange(61)})
    pattern = asked("A ->> B+ ->> C", 0, 100, {"B": "x > A.x"})
    assert len(pattern.matches(rows)) == 0
    tail = pa.table({"stream": [0], "id": [61], "kind": ["C"], "x": [0]})
    whole = pa.concat_tables([rows, tail])
    assert len(pattern.matches(whole, limit=100)) == 100


def test_too_many_partial_matches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "MAX_NODES", 300)
    rows = pa.table({"stream": [0] * 40, "id": np.arange(40), "kind": ["B"] * 40, "x": range(40)})
    pattern = asked("A ->> B+ ->> C", 2, 100, {"B": "x <> LAST(B.x, 1)"})
    with pytest.raises(errors.LimitError, match="partial matches"):
        pattern.matches(rows)
    monkeypatch.setattr(guarded, "MAX_NODES", 10**6)
    monkeypatch.setattr(guarded, "MAX_BYTES", 10_000)
    many = asked("A ->> B+ ->> C", 2, 100, {"B": "kind = A.kind OR x > -1"})
    with pytest.raises(errors.LimitError, match=r"matches end at row \d+; all of them take more"):
        many.matches(rows)
    monkeypatch.setattr(guarded, "MAX_PLAIN", 300)
    monkeypatch.setattr(budgets, "Compiler", PlainOnly)
    with pytest.raises(errors.LimitError, match="limit is 300"):
        pattern.matches(rows)
