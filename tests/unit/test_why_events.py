"""Why event patterns did not match: small patterns over all short streams."""

from __future__ import annotations

import itertools
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ensue
from ensue import errors
from ensue.api.pattern import Pattern
from ensue.query import nodes
from tests import oracle_why, oracle_why_events
from tests.short_streams import rows_of, table
from tests.unit.test_sequences_exhaustive import CORRELATED, PATTERNS
from tests.unit.test_why_rows import by_place, told

STREAMS = [
    "".join(letters)
    for length in range(1, 6)
    for letters in itertools.product("ABCX"[: 4 if length < 4 else 3], repeat=length)
]
EVENTS = table(STREAMS)
ROWS = rows_of(EVENTS)
MORE = [
    "A B -> C", "A ->> B C -> A", "A -> B{3}[strict] -> C", "A B{2,}[strict] ->> C",
    "A (B | C) -> A", "A{2}[strict] -> B", "A -> (B C){2}", "A PERMUTE(B, C)[strict] -> A",
    "A? ->> B*",
]  # fmt: skip


def check(pattern: Pattern, events: pa.Table = EVENTS) -> None:
    query = pattern.partition_by("stream").order_by("id").query
    by_start, by_partition = told(query, events, "start", True), told(query, events, "partition")
    rows = ROWS if events is EVENTS else rows_of(events)
    for number, letters in enumerate(STREAMS):
        expected = oracle_why_events.starts(query, rows[number], texts=True)
        got, by_start = by_start[: len(letters)], by_start[len(letters) :]
        for row in got:
            row.pop("stream", None)
        for row, other in zip(got, expected, strict=True):
            text, nearly = row.pop("text") or "", other.pop("nearly", None)
            assert (nearly or "") in text, f"{pattern} on {letters}"
            assert (nearly is None) == (" held at " not in text or other["reason"] == "no start")
        for one, other in zip(got, expected, strict=True):
            assert one == other, f"{pattern} on {letters}"
        best = {"stream": number, **oracle_why.best(expected)}
        assert by_place([by_partition[number]]) == by_place([best]), f"{pattern} on {letters}"


@pytest.mark.parametrize("text", PATTERNS + MORE)
def test_all_short_streams(text: str) -> None:
    check(ensue.pattern(text, types="kind"))


@pytest.mark.parametrize("text", (PATTERNS + MORE)[::3])
def test_windows(text: str) -> None:
    check(ensue.pattern(text, types="kind").within(2))
    check(ensue.pattern(text, types="kind").within("3 rows"))


@pytest.mark.parametrize("strategy", ["past last row", "to next row", "to last B"])
@pytest.mark.parametrize("text", ["A ->> B", "A -> B+", "A ->> B+ ->> C", "A -> B? -> C"])
def test_after_match(text: str, strategy: str) -> None:
    check(ensue.pattern(text, types="kind").after_match(strategy))


@pytest.mark.parametrize("text", ["A -> !X", "A ->> B+ -> !X", "A -> B !X", "A -> B -> !C"])
def test_absence_at_the_end(text: str) -> None:
    last = {**EVENTS.slice(0, 1).to_pylist()[0], "stream": len(STREAMS), "id": 100, "kind": "Z"}
    much_later = pa.concat_tables([EVENTS, pa.Table.from_pylist([last], EVENTS.schema)])
    check(ensue.pattern(text, types="kind").within(2), much_later)


def test_without() -> None:
    for text in ("A ->> B", "A? -> B?"):
        check(ensue.pattern(text, types="kind").without(stop="kind = 'X'"))


@pytest.mark.parametrize("condition", CORRELATED)
def test_correlated(condition: str) -> None:
    check(ensue.pattern("A ->> B+ ->> C", types="kind").define(B=condition))
    check(ensue.pattern("A B -> C", types="kind").define(B=condition, C="x > A.x"))


@pytest.mark.parametrize("text", [*MORE, "A -> !X -> B B", "B ->> B B", "(A | B)+[strict] ->> C"])
def test_values_that_are_null(text: str) -> None:
    holes = pc.if_else(pc.equal(EVENTS["x"], 3), None, EVENTS["x"])
    events = EVENTS.set_column(EVENTS.column_names.index("x"), "x", holes)
    pattern = ensue.pattern(text, types="kind").define(B="x > 0 AND x < 4")
    check(pattern, events)
    if "A" in nodes.labels(pattern.query.pattern):
        check(pattern.define(B="x > A.x", A="x < 4").within(3), events)


def test_an_absence_before_what_may_be_left_out() -> None:
    """The last event may not be the X itself; if it is, a further B is waited for."""
    pattern = ensue.pattern("B !X B?").define(B="SUM(B.x) < 6", X="kind = 'X'").order_by("id")
    events = pa.table({"id": [0, 1, 2], "kind": ["A", "X", "A"], "x": [0, 2, 4]})
    told = [
        (r["matches"], r["variable"], r["reason"])
        for r in pattern.why(events, per="start").to_pylist()
    ]
    assert told == [(1, None, None), (0, "B", "condition"), (1, None, None)]
    for rows in ([1], {"B": 1}):
        (row,) = pattern.why(events, rows=rows).to_pylist()
        assert (row["reason"], row["text"]) == ("missing", "B: the pattern asks for it next")


def test_bounded_gaps() -> None:
    pattern = ensue.pattern("A -> within 1 units B ->> within 2 units C", types="kind")
    check(pattern)
    check(pattern.without(stop="kind = 'X'"))


@pytest.mark.parametrize("inner", ["consecutive", "allow_combinations", ""])
def test_until(inner: str) -> None:
    loop = ensue.begin("A").where("kind = 'A'").followed_by_any("B").where("kind <> 'X'")
    loop = loop.one_or_more().until("kind = 'C'")
    check(getattr(loop, inner)() if inner else loop)


def test_greedy() -> None:
    loop = ensue.begin("A").where("kind = 'A'").followed_by("B").where("kind IN ('B', 'C')")
    check(loop.one_or_more().greedy().followed_by("C").where("kind IN ('C', 'X')"))


def test_sentences_have_values() -> None:
    trips = pa.table(
        {
            "user": [1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5],
            "ts": [1, 2, 3, 1, 2, 9, 1, 2, 1, 2, 1],
            "kind": [
                "view",
                "cart",
                "stop",
                "view",
                "ad",
                "pay",
                "view",
                "cart",
                "view",
                "ad",
                "ad",
            ],
        }
    )
    pattern = ensue.pattern("view -> cart -> pay", types="kind").without(halt="kind = 'stop'")
    pattern = pattern.partition_by("user").order_by("ts").within(5)
    rows = pattern.why(trips).to_pylist()
    assert [(row["matched"], row["reason"], row["text"]) for row in rows] == [
        (["view", "cart"], "forbidden", "pay: halt came"),
        (["view"], "within", "cart: 8 after the first row, 3 more than within allows"),
        (["view", "cart"], "end", "pay: the partition ended"),
        (["view"], "end", "cart: the partition ended"),
        ([], "no start", "view: no row of 1 fits: kind = 'view' held at 0"),
    ]
    strict = ensue.pattern("view cart ->> pay", types="kind").partition_by("user").order_by("ts")
    assert strict.why(trips).to_pylist()[3]["text"] == (
        "cart: kind = 'cart': 'ad' = 'cart' is false"
    )
    absent = ensue.pattern("view -> !stop", types="kind").partition_by("user").order_by("ts")
    first = absent.within(5).why(trips).to_pylist()[0]
    assert (first["variable"], first["text"]) == ("!stop", "!stop: stop came")


def test_the_row_that_came_and_did_not_fit_is_told() -> None:
    rows = pa.table(
        {
            "user": [1, 1, 1, 2, 2, 2, 2, 3, 3, 3],
            "ts": [1, 2, 3, 1, 2, 3, 4, 1, 2, 3],
            "kind": ["view", "cart", "pay", "view", "cart", "pay", "pay", "view", "cart", "ad"],
            "amount": [0, 10, 8, 0, 10, 9, None, 0, 10, 20],
        }
    )
    rows = pa.concat_tables([rows, rows.slice(0, 3), rows.slice(0, 1)])
    late = pa.array([*rows["user"].to_pylist()[:10], 4, 4, 4, 4])
    rows = rows.set_column(0, "user", late)
    rows = rows.set_column(1, "ts", pa.array([*rows["ts"].to_pylist()[:13], 90]))
    pattern = ensue.pattern("view -> cart -> pay", types="kind").within(60)
    pattern = pattern.define(pay="amount >= cart.amount").partition_by("user").order_by("ts")
    false = "kind = 'pay' held at 1 row, but amount >= `cart`.amount: 8 >= 10 is false"
    assert [row["text"] for row in pattern.why(rows).to_pylist()] == [
        f"pay: the partition ended; {false}",
        "pay: the partition ended; kind = 'pay' held at 2 rows, but at the last of them "
        "amount >= `cart`.amount: NULL >= 10 is null",
        "pay: the partition ended; amount >= `cart`.amount held at 1 row, but "
        "kind = 'pay': 'ad' = 'pay' is false",
        f"pay: 89 after the first row, 29 more than within allows; {false}",
    ]


def test_a_joint_that_came_too_late() -> None:
    times = [datetime(2024, 1, 1, 0, minute) for minute in (0, 3, 20)]
    rows = pa.table({"ts": times, "kind": ["a", "b", "c"]})
    pattern = ensue.pattern("a -> b -> within 5 minutes c", types="kind").order_by("ts")
    (answer,) = pattern.why(rows).to_pylist()
    assert (answer["reason"], answer["stopped_at"]) == ("within", times[2])
    assert answer["text"] == ("c: 0:17:00 after the event before, 0:12:00 more than within allows")
    (answer,) = (
        ensue.pattern("a -> c", types="kind")
        .order_by("ts DESC")
        .within("1 minute")
        .why(rows)
        .to_pylist()
    )
    assert answer["text"] == "c: the partition ended"


def test_more_matches_than_a_column_holds() -> None:
    rows = pa.table({"ts": list(range(70)), "kind": ["a"] + ["b"] * 69})
    with pytest.raises(errors.LimitError, match="do not fit"):
        ensue.pattern("a ->> b+", types="kind").order_by("ts").why(rows)
