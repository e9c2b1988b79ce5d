"""Correlated conditions of event patterns: compiled classes give what plain Python gives."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.sequences import evaluator as sequences

PATTERNS = ["A ->> B ->> C", "A -> B+ -> C", "A ->> B+", "(A ->> B)+ ->> C", "A -> B? ->> C"]
CONDITIONS = ["x > A.x", "x = A.x", "A.x >= x", "y > A.y", "s = A.s", "x = A.x AND y > A.y",
              "SUM(B.x) < 6", "AVG(B.y) < 3", "x > LAST(x, 1)", "x >= FIRST(B.x)"]  # fmt: skip
SCHEMA = pa.schema(
    [("i", pa.int64()), ("kind", pa.string()), ("x", pa.int64()), ("y", pa.float64()),
     ("s", pa.string())]
)  # fmt: skip


def listed(pattern: ensue.Pattern, table: pa.Table) -> list[Any]:
    found = pattern.matches(table).to_pylist()
    return sorted(tuple((e["row"], e["label"]) for e in match["events"]) for match in found)


def in_python(pattern: ensue.Pattern, table: pa.Table, patch: pytest.MonkeyPatch) -> list[Any]:
    with patch.context() as context:
        context.setattr(sequences, "event_machine", lambda *given: "left out, to compare")
        return listed(pattern, table)


def events(chooser: random.Random) -> pa.Table:
    rows = [
        {
            "i": i,
            "kind": chooser.choice("AABBC"),
            "x": chooser.choice([None, 0, 1, 2, 3]),
            "y": chooser.choice([0.5, 2.5, float("nan"), -0.0, 0.0]),
            "s": chooser.choice("uvw"),
        }
        for i in range(chooser.randrange(4, 12))
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.mark.parametrize("seed", range(40))
def test_random_conditions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chooser = random.Random(seed)
    pattern = ensue.pattern(chooser.choice(PATTERNS), types="kind").order_by("i")
    pattern = pattern.define(B=chooser.choice(CONDITIONS))
    if chooser.random() < 0.5:
        pattern = pattern.within(chooser.choice([3, 6]))
    table = events(chooser)
    assert listed(pattern, table) == in_python(pattern, table, monkeypatch)


def test_a_sum_beyond_64_bits_is_the_error_of_plain_python() -> None:
    """The machine stops there and hands over; what was listed before stays listed."""
    kinds, x = list("ABCABBBC"), [1, 1, 1, 1, 2**62, 2**62, 2**62, 1]
    table = pa.table({"i": list(range(8)), "kind": kinds, "x": x})
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("i")
    pattern = pattern.define(B="SUM(B.x) > 0")
    with pytest.raises(errors.OverflowDataError, match="left the range"):
        pattern.matches(table)
    assert len(pattern.matches(table.slice(0, 5))) == 1
