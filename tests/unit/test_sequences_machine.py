"""Correlated conditions of event patterns: compiled classes give what plain Python gives."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.sequences import evaluator as sequences
from ensue.sequences import strategy, totals

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


BOUNDED = ["A -> within 2 units B ->> C", "A ->> within 3 units B+ -> C?", "A ->> B ->> C?",
           "(A ->> B | B ->> C) -> A?", "A -> !X -> B ->> C"]  # fmt: skip


@pytest.mark.parametrize("seed", range(80))
def test_time_outs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chooser = random.Random(seed)
    text = chooser.choice([*PATTERNS, *BOUNDED])
    pattern = ensue.pattern(text, types="kind").order_by("i")
    if chooser.random() < 0.7:
        pattern = pattern.define(B=chooser.choice(CONDITIONS))
    if "within" not in text or chooser.random() < 0.5:
        pattern = pattern.within(chooser.choice([0, 3, 6, "4 rows"]))
    if chooser.random() < 0.5:
        pattern = pattern.partition_by("s")
    table = pa.concat_tables([events(chooser) for _ in range(2)])
    table = table.set_column(0, "i", pa.array(range(len(table)), pa.int64()))
    given: dict[str, Any] = chooser.choice([{}, {"as_of": "end"}, {"as_of": len(table) + 2}])
    if (
        given.get("as_of") != "end"
        and pattern.query.within
        and "rows" in repr(pattern.query.within)
    ):
        given = {}

    def told() -> list[Any]:
        found = pattern.matches(table, timeouts=True, **given).to_pylist()
        events_of = [tuple((e["row"], e["label"]) for e in match["events"]) for match in found]
        return sorted(
            (str(match.get("s")), match["status"], taken)
            for match, taken in zip(found, events_of, strict=True)
        )

    fast = told()
    kept = pattern.matches(table, timeouts=True, limit=3, **given).num_rows
    assert kept == min(3, len(fast))
    with monkeypatch.context() as context:
        context.setattr(sequences, "event_machine", lambda *given: "left out, to compare")
        assert told() == fast


def test_time_outs_where_a_number_leaves_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine listed before stays listed, and is not listed again."""
    big = 2**62
    table = pa.table(
        {"i": range(11), "u": [0] * 5 + [1] * 6, "kind": list("ABCABXABABC"),
         "x": [1, 2, 9, 1, 3, 0, 1, big, big, big, 0]}
    )  # fmt: skip
    pattern = ensue.pattern("A ->> B ->> C", types="kind").partition_by("u").order_by("i").within(9)
    pattern = pattern.define(C="x > 5 AND A.x + B.x < x")
    handed = []
    by_classes = sequences.SequencesEvaluator._by_classes
    monkeypatch.setattr(
        sequences.SequencesEvaluator, "_by_classes", lambda *g: handed.append(1) or by_classes(*g)
    )

    def told() -> list[str]:
        return sorted(
            f"{match['u']} {match['status']} {[event['row'] for event in match['events']]}"
            for match in pattern.matches(table, timeouts=True, as_of="end").to_pylist()
        )

    found = told()
    assert handed
    assert len(found) == 11
    monkeypatch.setattr(sequences, "event_machine", lambda *given: "left out, to compare")
    assert told() == found


STRATEGIES = ["past last row", "to next row", "to first B", "to last B"]


@pytest.mark.parametrize("seed", range(60))
def test_after_match(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice among listed matches is that of plain Python, in its order and with a limit."""
    chooser = random.Random(seed)
    text = chooser.choice([*PATTERNS, "A -> B ->> C", "A ->> B{1,2} ->> C"])
    pattern = ensue.pattern(text, types="kind").order_by("i").partition_by("s")
    if chooser.random() < 0.8:
        pattern = pattern.define(B=chooser.choice(CONDITIONS))
    if chooser.random() < 0.5:
        pattern = pattern.within(chooser.choice([3, 6]))
    pattern = pattern.after_match(chooser.choice(STRATEGIES))
    tables = [events(chooser) for _ in range(3)]
    table = pa.concat_tables(tables)
    table = table.set_column(0, "i", pa.array(range(len(table)), pa.int64()))
    given = {"limit": chooser.randrange(1, 6)} if chooser.random() < 0.3 else {}
    calls = []
    kept = sequences.all_matches
    monkeypatch.setattr(sequences, "all_matches", lambda *g: calls.append(kept(*g)) or calls[-1])
    found, count = pattern.matches(table, **given), pattern.count(table)
    assert None not in calls
    monkeypatch.setattr(sequences, "all_matches", lambda *given: None)
    monkeypatch.setattr(totals, "all_matches", lambda *given: None)
    assert found.equals(pattern.matches(table, **given))
    assert count == pattern.count(table)


def test_a_strategy_over_too_many_matches_is_followed_in_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So is one whose kernels fail on what the strategy may leave out."""
    table = pa.table({"i": range(9), "kind": list("ABBBCABBC"), "x": [1, 0, 2, 3, 4, 1, 2, 0, 5]})
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("i").define(B="x > A.x")
    found = {s: pattern.after_match(s).matches(table) for s in STRATEGIES}
    monkeypatch.setattr(strategy, "MATCHES_PER_ROW", 0)
    monkeypatch.setattr(strategy, "FEW", 2)
    for name, rows in found.items():
        assert pattern.after_match(name).matches(table).equals(rows)
    divides = pattern.define(C="10 / (x - 5) < 0 OR A.x > 1").after_match("past last row")
    once = table.set_column(1, "kind", pa.array(list("ABBBCXBBC")))
    assert divides.matches(once).num_rows == 1  # its only start has matched before the division
    with pytest.raises(errors.DataError, match="division by zero"):
        divides.matches(table)


@pytest.mark.parametrize("seed", range(40))
def test_samples_are_uniform(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chooser = random.Random(seed)
    pattern = ensue.pattern(chooser.choice(PATTERNS), types="kind").order_by("i").partition_by("s")
    if chooser.random() < 0.6:
        pattern = pattern.define(B=chooser.choice(CONDITIONS))
    if chooser.random() < 0.6:
        pattern = pattern.within(chooser.choice([3, 6]))
    if chooser.random() < 0.3:
        pattern = pattern.after_match(chooser.choice(STRATEGIES))
    table = pa.concat_tables([events(chooser) for _ in range(3)])
    table = table.set_column(0, "i", pa.array(range(len(table)), pa.int64()))
    monkeypatch.setattr(sequences, "drawn", None)  # plain Python is not asked
    every = pattern.matches(table).drop_columns("match_number").to_pylist()
    size = 40 * min(len(every), 60)
    found = pattern.matches(table, sample=max(1, size), seed=seed)
    assert found.num_rows == size
    drawn = Counter(map(str, found.drop_columns("match_number").to_pylist()))
    assert set(drawn) <= set(map(str, every))
    if every:
        expected = size / len(every)
        squares = sum((drawn[str(match)] - expected) ** 2 / expected for match in every)
        assert squares < len(every) + 6 * (2 * len(every)) ** 0.5  # chi-squared


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
