"""Aggregates read off the match graph are those of plain Python, exactly, whatever the numbers."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue.sequences import match_graph, totals

PATTERNS = ["A ->> B ->> C", "A -> B+ -> C", "A ->> B+ ->> C", "(A ->> B)+ ->> C",
            "A ->> B{2,} ->> C", "A -> !X ->> B ->> C", "A ->> PERMUTE(B, C)", "A -> B* C",
            "A -> within 3 units B ->> C"]  # fmt: skip
CONDITIONS = [None, "x > A.x", "x = A.x", "SUM(B.x) < 8", "f >= LAST(A.f)", "x > LAST(B.x, 1)"]
ASKED = {"n": "count(*)", "k": "count(B.*)", "c": "count(C.x)", "sx": "sum(B.x)", "ax": "avg(A.x)",
         "sf": "sum(B.f)", "af": "avg(C.f)", "sg": "sum(B.g)", "mg": "min(B.g)", "hg": "max(A.g)",
         "sd": "sum(C.d)", "md": "min(A.d)", "ms": "max(B.s)", "ls": "min(A.s)", "mt": "max(C.w)",
         "e": "sum(B.x + 1)"}  # fmt: skip
SCHEMA = pa.schema([("p", pa.int64()), ("i", pa.int64()), ("kind", pa.string()), ("x", pa.int64()),
                    ("f", pa.float64()), ("g", pa.float64()), ("d", pa.decimal128(9, 3)),
                    ("s", pa.string()), ("w", pa.timestamp("us", "UTC"))])  # fmt: skip


def events(chooser: random.Random, rows: int) -> pa.Table:
    odd = [0.5, -0.0, 1e-9, 3e12, float("nan"), float("inf"), None]
    found = [
        {
            "p": chooser.randrange(2),
            "i": i,
            "kind": chooser.choice("AABBCX"),
            "x": chooser.choice([None, -(2**40), 0, 1, 2, 3]),
            "f": chooser.choice([0.1, 0.2, -1e9, 5e-324, 3.7e300 if i % 9 == 0 else 7.0]),
            "g": chooser.choice(odd),
            "d": chooser.choice([None, Decimal("1.125"), Decimal("-0.001")]),
            "s": chooser.choice(["u", "vv", None]),
            "w": chooser.choice([None, i * 10**6]),
        }
        for i in range(rows)
    ]
    return pa.Table.from_pylist(found, schema=SCHEMA)


def both(pattern: ensue.Pattern, table: pa.Table, patch: pytest.MonkeyPatch, **more: Any) -> Any:
    """What the graph gives, after a comparison with plain Python."""

    def asked() -> list[str]:
        return [repr(row) for row in pattern.aggregate(table, **ASKED, **more).to_pylist()]

    compiled = asked()
    with patch.context() as context:
        context.setattr(totals.Totals, "_compiled", lambda *given: None)
        assert compiled == asked()
    return compiled


@pytest.mark.parametrize("seed", range(30))
def test_every_aggregate(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chooser = random.Random(seed)
    pattern = ensue.pattern(PATTERNS[seed % len(PATTERNS)], types="kind").order_by("i")
    condition = chooser.choice(CONDITIONS)
    if condition:
        pattern = pattern.define(B=condition)
    if chooser.random() < 0.6:
        pattern = pattern.within(chooser.choice([4, 9, "6 rows"]))
    pattern = pattern.partition_by("p")
    more: dict[str, Any] = chooser.choice([{}, {"by": "p"}, {"every": 7}, {"every": 7, "slide": 3}])
    monkeypatch.setattr(match_graph, "NODES", 96)
    monkeypatch.setattr(match_graph, "ROOTS", 64)
    both(pattern, events(chooser, 30), monkeypatch, **more)


@pytest.mark.parametrize("condition", [None, "x >= A.x"])
def test_numbers_of_any_size(condition: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """2^n subsequences: more primes on the way, also for what stretches before have kept."""
    rows = 230
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("i").partition_by("p")
    pattern = pattern.define(B=condition) if condition else pattern
    kinds = ["A", "A", *"B" * rows, "C"]
    table = pa.table(
        {"p": [0] * len(kinds), "i": range(len(kinds)), "kind": kinds, "x": [3] * len(kinds)}
    )
    count = 2 * (2**rows - 1)
    for window in (None, rows + 1, 10**6):
        asked = pattern if window is None else pattern.within(window)
        starts = 1 if window == rows + 1 else 2
        monkeypatch.setattr(match_graph, "NODES", 64)
        got = asked.aggregate(table, big="text", n="count(*)", s="sum(B.x)", k="count(B.*)")
        occurrences = starts * rows * 2 ** (rows - 1)
        assert asked.count(table) == count * starts // 2
        assert got.to_pylist() == [
            {"n": str(count * starts // 2), "s": str(3 * occurrences), "k": str(occurrences)}
        ]


def test_beyond_the_doubles_plain_python_adds_up() -> None:
    rows = 1100
    kinds = ["A", *"B" * rows, "C"]
    table = pa.table({"i": range(len(kinds)), "kind": kinds, "x": [3] * len(kinds)})
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("i").define(B="x = A.x")
    assert pattern.count(table) == 2**rows - 1
