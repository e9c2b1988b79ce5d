"""Event patterns against the oracle: many small patterns times all short streams.

The streams of one pattern are the partitions of one table, so that a pattern is one run.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

import pyarrow as pa
import pytest

import ensue
from ensue.api.pattern import Pattern
from tests import oracle_sequences
from tests.short_streams import rows_of, table

STREAMS = [
    "".join(letters)
    for length in range(1, 6)
    for letters in itertools.product("ABCX"[: 4 if length < 5 else 3], repeat=length)
]
PATTERNS = [
    "A -> B", "A ->> B", "A -> B -> C", "A ->> B ->> C", "A -> B ->> C", "A ->> B C",
    "A -> B+", "A ->> B+", "A -> B+ -> C", "A ->> B+ ->> C", "A -> B+ C", "A+ -> B", "A+ ->> B",
    "A -> B* -> C", "A ->> B* ->> C", "A -> B? -> C", "A ->> B? C", "A -> B{2} -> C",
    "A -> B{2,3}", "A ->> B{1,2} ->> C", "A ->> B{2,}", "(A -> B)+ -> C", "(A ->> B){2}",
    "A -> (B | C) -> A", "A ->> (B | C)", "A -> (B C | C)", "A -> (B+ | C) -> A",
    "A -> PERMUTE(B, C)", "PERMUTE(A, B) -> C", "A ->> PERMUTE(B, C) ->> A",
    "A -> !X -> B", "A ->> !X ->> C", "A -> B+ -> !X -> C", "A !X -> B", "A -> !X -> B? -> C",
    "A -> !X -> B* -> C", "A ->> B+ -> !X ->> C", "A -> (B -> C)* -> A", "A -> (B? -> C)+ -> A",
    "A -> !X -> B?", "A -> B? -> !X -> C?", "A !X B?", "A -> !X -> (B | C?)",
]  # fmt: skip


EVENTS = table(STREAMS)
ROWS = rows_of(EVENTS)


def listed(
    pattern: Pattern, events: pa.Table = EVENTS, as_of: object = "end"
) -> dict[int, list[tuple[object, ...]]]:
    found = defaultdict(list)
    for match in pattern.matches(events, as_of=as_of).to_pylist():
        found[match["stream"]].append(tuple((e["label"], e["row"]) for e in match["events"]))
    return found


def check(pattern: Pattern) -> None:
    pattern = pattern.partition_by("stream").order_by("id")
    got = listed(pattern)
    total = 0
    for number, letters in enumerate(STREAMS):
        expected = sorted(oracle_sequences.matches(pattern.query, ROWS[number]))
        total += len(expected)
        assert sorted(got[number]) == expected, f"{pattern} on {letters}"
    assert pattern.count(EVENTS, as_of="end") == total


@pytest.mark.parametrize("text", PATTERNS)
def test_all_short_streams(text: str) -> None:
    check(ensue.pattern(text, types="kind"))


@pytest.mark.parametrize("text", PATTERNS[::2])
def test_windows(text: str) -> None:
    check(ensue.pattern(text, types="kind").within(2))
    check(ensue.pattern(text, types="kind").within("3 rows"))


@pytest.mark.parametrize("strategy", ["past last row", "to next row", "to first B", "to last B"])
@pytest.mark.parametrize(
    "text", ["A ->> B", "A+ -> B", "A -> B+", "A ->> B+ ->> C", "A -> B? -> C"]
)
def test_after_match(text: str, strategy: str) -> None:
    check(ensue.pattern(text, types="kind").after_match(strategy))


@pytest.mark.parametrize("text", ["A -> !X", "A ->> B+ -> !X", "A -> B !X", "A -> B -> !C"])
def test_absence_at_the_end(text: str) -> None:
    pattern = ensue.pattern(text, types="kind").within(2)
    check(pattern)
    if " !" in text.replace("-> !", ""):
        return  # the next row proves it
    asked = pattern.partition_by("stream").order_by("id")
    complete, known = listed(asked), listed(asked, as_of=None)
    latest = max(row["id"] for rows in ROWS.values() for row in rows)
    for number, rows in ROWS.items():
        over = [m for m in complete[number] if latest - rows[m[0][1]]["id"] > 2]
        assert known[number] == over
    assert asked.count(EVENTS) == sum(map(len, known.values())) > 0


def test_without() -> None:
    check(ensue.pattern("A ->> B", types="kind").without(stop="kind = 'X'"))


@pytest.mark.parametrize("inner", ["consecutive", "allow_combinations", ""])
def test_until(inner: str) -> None:
    loop = ensue.begin("A").where("kind = 'A'").followed_by_any("B").where("kind <> 'X'")
    loop = loop.one_or_more().until("kind = 'C'")
    check(getattr(loop, inner)() if inner else loop)


CORRELATED = [
    "x > A.x",
    "x >= LAST(B.x, 1) OR COUNT(B.*) = 1",
    "SUM(B.x) < 6",
    "PREV(x) < x",
    "x > FIRST(B.x)",
]


@pytest.mark.parametrize("condition", CORRELATED)
def test_correlated(condition: str) -> None:
    check(ensue.pattern("A ->> B+ ->> C", types="kind").define(B=condition))


COMPARED = ["A.x + B.x < x", "x <= A.x - B.x", "A.x * 2 > x + 1", "SUM(B.x) <= x", "x = A.x + 1",
            "B.x - A.x >= PREV(x)", "x > A.x AND A.x + B.x <> x", "A.x + B.x < 4"]  # fmt: skip


@pytest.mark.parametrize("condition", COMPARED)
@pytest.mark.parametrize("text", ["A ->> B ->> C", "A ->> B+ ->> C ->> X?", "A -> B -> C"])
def test_sides_computed_from_earlier_events(text: str, condition: str) -> None:
    """Partial matches are sorted by what they remember, and dropped where nothing can follow."""
    pattern = ensue.pattern(text, types="kind").define(C=condition)
    check(pattern)
    check(pattern.within(2))


def test_bounded_gaps() -> None:
    check(ensue.pattern("A -> within 1 units B ->> within 2 units C", types="kind"))


def test_greedy() -> None:
    loop = ensue.begin("A").where("kind = 'A'").followed_by("B").where("kind IN ('B', 'C')")
    check(loop.one_or_more().greedy().followed_by("C").where("kind IN ('C', 'X')"))


@pytest.mark.parametrize("text", PATTERNS[::3])
def test_aggregates_are_those_of_the_listing(text: str) -> None:
    pattern = ensue.pattern(text, types="kind").partition_by("stream").order_by("id")
    label = "B" if "B" in text else "A"
    asked = {"s": f"sum({label}.x)", "m": f"max({label}.x)", "k": f"count({label}.*)",
             "a": f"avg({label}.x)"}  # fmt: skip
    expected = defaultdict(list)
    for match in pattern.matches(EVENTS).to_pylist():
        rows = ROWS[match["stream"]]
        for item in match["events"]:
            if item["label"] == label:
                expected[match["stream"]].append(rows[item["row"]]["x"])
    for row in pattern.aggregate(EVENTS, by="stream", n="count(*)", **asked).to_pylist():
        values = expected[row["stream"]]
        assert row["k"] == len(values)
        assert row["s"] == (sum(values) if values else None)
        assert row["m"] == max(values, default=None)
        assert row["a"] == (pytest.approx(sum(values) / len(values)) if values else None)
