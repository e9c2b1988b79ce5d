"""Correlated conditions of event patterns: compiled classes give what plain Python gives."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.sequences import evaluator as sequences
from ensue.sequences import totals

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


PAST = ["A.x", "A.x + B.x", "A.y * B.y", "A.x - LAST(B.x)", "MAX(B.y)", "COUNT(B.*) + A.x", "-A.y",
        "A.s", "CAST(A.x AS DOUBLE) + B.y"]  # fmt: skip
EVENT = ["x", "y", "x + 1", "x * y", "PREV(y)", "2", "s"]


@pytest.mark.parametrize("seed", range(80))
def test_two_sides_of_a_comparison(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nulls, NaN, zeros with a sign, text: what classes are sorted by decides nothing."""
    chooser = random.Random(seed)
    sides = [chooser.choice(PAST), chooser.choice(EVENT)]
    if ("s" in sides[1]) != ("A.s" in sides[0]):
        sides = ["A.s", "s"]
    chooser.shuffle(sides)
    condition = f" {chooser.choice(['<', '<=', '>', '>=', '='])} ".join(sides)
    if chooser.random() < 0.3:
        condition += f" AND {chooser.choice(['x > A.x', 'y = B.y', 'A.x + B.x < x'])}"
    text = chooser.choice(
        ["A ->> B ->> C", "A ->> B+ ->> C", "A -> B -> C", "A ->> B ->> C ->> A?"]
    )
    pattern = ensue.pattern(text, types="kind").order_by("i").define(C=condition)
    if chooser.random() < 0.5:
        pattern = pattern.within(chooser.choice([3, 6]))
    table = pa.concat_tables([events(chooser) for _ in range(3)])
    table = table.set_column(0, "i", pa.array(range(len(table)), pa.int64()))
    assert listed(pattern, table) == in_python(pattern, table, monkeypatch)
    with monkeypatch.context() as context:
        fast = pattern.count(table)
        context.setattr(totals, "event_machine", lambda *given: "left out, to compare")
        assert pattern.count(table) == fast


def test_what_waits_in_vain_here_may_not_in_the_next_piece() -> None:
    table = pa.table({"i": range(8), "kind": list("ABCCABCC"), "x": [1, 5, 2, 3, 2, 6, 4, 9]})
    pattern = ensue.pattern("A ->> B ->> C", types="kind").order_by("i").define(C="A.x + B.x < x")
    whole = pattern.matches(table).num_rows
    assert whole == 3
    for cut in range(1, 8):
        matcher = pattern.matcher()
        found = [matcher.insert(part) for part in (table.slice(0, cut), table.slice(cut))]
        found.append(matcher.end())
        assert sum(part.num_rows for part in found) == whole


def test_a_side_beyond_64_bits_is_compared_in_plain_python() -> None:
    """The sum of two remembered numbers leaves 64 bits though no event asks for it."""
    big = 2**62
    table = pa.table({"i": range(6), "kind": list("ABCABC"), "x": [1, 2, 9, big, big, 0]})
    pattern = ensue.pattern("A ->> B ->> C", types="kind").order_by("i")
    kept = pattern.define(C="x > 5 AND A.x + B.x < x")
    assert kept.matches(table).num_rows == 1
    with pytest.raises(errors.OverflowDataError, match="does not fit bigint"):
        pattern.define(C="A.x + B.x < x").matches(table)


def test_a_sum_beyond_64_bits_is_the_error_of_plain_python() -> None:
    """The machine stops there and hands over; what was listed before stays listed."""
    kinds, x = list("ABCABBBC"), [1, 1, 1, 1, 2**62, 2**62, 2**62, 1]
    table = pa.table({"i": list(range(8)), "kind": kinds, "x": x})
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("i")
    pattern = pattern.define(B="SUM(B.x) > 0")
    with pytest.raises(errors.OverflowDataError, match="left the range"):
        pattern.matches(table)
    assert len(pattern.matches(table.slice(0, 5))) == 1
