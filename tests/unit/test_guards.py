"""Guards: what the register machine computes, and where it hands over to plain Python."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

import ensue
from ensue import errors

D = decimal.Decimal
LARGEST = 2**63 - 1


def rows_of(define: str, pattern: str = "A B", **columns: object) -> int:
    """Number of matches of `A B` over two or more rows, B as defined."""
    data = {name: value for name, value in columns.items()}
    length = len(next(iter(data.values())))  # type: ignore[arg-type]
    table = pa.table({"t": list(range(length)), **data})
    query = ensue.pattern(pattern).define(B=define).order_by("t")
    assert "engine: threads" in query.explain(table), query.explain(table)
    return len(query.matches(table))


@pytest.mark.parametrize(
    ("define", "x", "holds"),
    [
        ("B.x > A.x", [1, 2], True),
        ("B.x > A.x", [2, 2], False),
        ("B.x >= A.x", [2, 2], True),
        ("B.x <> A.x", [2, 2], False),
        ("B.x = A.x", [None, None], False),
        ("B.x <=> A.x", [None, None], True),
        ("A.x IS NULL", [None, 1], True),
        ("A.x IS NOT NULL", [None, 1], False),
        ("NOT (B.x > A.x)", [2, 1], True),
        ("NOT (B.x > A.x)", [None, 1], False),
        ("B.x > A.x OR A.x IS NULL", [None, 1], True),
        ("B.x BETWEEN A.x AND A.x + 2", [1, 3], True),
        ("B.x BETWEEN A.x AND A.x + 2", [1, 4], False),
        ("B.x IN (A.x, A.x + 1)", [1, 2], True),
        ("B.x IN (A.x, 7)", [None, 2], False),
        ("B.x - A.x = -3", [5, 2], True),
        ("B.x * A.x = 10", [5, 2], True),
        ("B.x / A.x = 0.4e0", [5, 2], True),
        ("A.x DIV B.x = 2", [5, 2], True),
        ("A.x % B.x = 1", [5, 2], True),
        ("A.x % 3 = -2", [-5, 2], True),
        ("abs(A.x) = 5 AND -A.x = 5", [-5, 2], True),
        ("CASE WHEN A.x > 3 THEN B.x ELSE 0 END = 2", [5, 2], True),
        ("IF(A.x > 3, B.x, 0) = 2", [1, 2], False),
        ("COALESCE(A.x, B.x, 9) = 2", [None, 2], True),
        ("SUM(x) = 7 AND COUNT(*) = 2 AND AVG(x) = 3.5", [5, 2], True),
        ("MIN(x) = 2 AND MAX(x) = 5", [5, 2], True),
        ("SUM(A.x) IS NULL AND COUNT(A.x) = 0", [None, 2], True),
        ("MIN(DISTINCT x) = 2 AND MAX(DISTINCT A.x) = 5", [5, 2], True),
        ("BOOL_OR(x > 4) AND NOT BOOL_AND(x > 4)", [5, 2], True),
        ("BOOL_AND(x > 4) FILTER (WHERE x > 3) AND BOOL_OR(A.x > 9) IS NULL", [None, 5], True),
        ("A.x < 1.5 * B.x", [2, 2], True),
        ("CAST(A.x AS DOUBLE) / 2 = 2.5", [5, 2], True),
        ("MATCH_NUMBER() = 1 AND A.x = 5", [5, 2], True),
    ],
)
def test_integers(define: str, x: list[int | None], holds: bool) -> None:
    assert rows_of(define, x=pa.array(x, pa.int64())) == holds


@pytest.mark.parametrize(
    ("define", "x", "holds"),
    [
        ("B.x > A.x", [1.5, float("nan")], True),
        ("B.x = A.x", [float("nan"), float("nan")], True),
        ("B.x < A.x", [float("nan"), 1.0], True),
        ("MAX(x) = B.x", [1.0, float("nan")], True),
        ("MIN(x) = A.x", [1.0, float("nan")], True),
        ("B.x > A.x * 1.1", [1.0, 1.2], True),
    ],
)
def test_floats_follow_spark(define: str, x: list[float], holds: bool) -> None:
    assert rows_of(define, x=x) == holds


def test_text_is_compared_by_rank() -> None:
    kind = ["b", "a"]
    assert rows_of("B.k < A.k AND A.k = 'b' AND B.k <> 'zzz' AND MAX(k) = 'b'", k=kind) == 1
    assert rows_of("B.k > A.k", k=kind) == 0
    assert rows_of("B.k > A.k", k=[None, "a"]) == 0


def test_times_and_intervals() -> None:
    ts = pa.array([0, 90_000_000], pa.timestamp("us", "UTC"))
    assert rows_of("B.ts - A.ts <= INTERVAL '90' SECOND", ts=ts) == 1
    assert rows_of("B.ts - A.ts < INTERVAL '90' SECOND", ts=ts) == 0
    assert rows_of("B.ts = A.ts + INTERVAL '90' SECOND", ts=ts) == 1
    day = pa.array([0, 3], pa.date32())
    assert rows_of("B.d - A.d = INTERVAL '3' DAY", d=day) == 1


def test_decimals_are_exact() -> None:
    price = pa.array([D("0.10"), D("0.20")], pa.decimal128(10, 2))
    assert rows_of("B.p = A.p + 0.1", p=price) == 1
    assert rows_of("SUM(p) = 0.3", p=pa.array([D("0.10"), D("0.20")], pa.decimal128(7, 2))) == 1
    assert rows_of("B.p = A.p * 2", p=price) == 1


def test_what_leaves_64_bits_is_matched_exactly() -> None:
    wide = pa.array([D(10**30), D(10**30 + 1)], pa.decimal128(38, 0))
    assert rows_of("B.p = A.p + 1", p=wide) == 1
    assert rows_of("B.p < A.p + 1", p=wide) == 0
    assert rows_of("B.x < A.x * 1.5", x=pa.array([LARGEST - 1, LARGEST])) == 1


@pytest.mark.parametrize(
    "define",
    ["A.x + B.x > 0", "A.x - B.y > 0", "A.x * 2 > 0", "SUM(x) > 0", "-(A.y) > 0"],
)
def test_overflow_is_an_error(define: str) -> None:
    lowest = pa.array([-LARGEST - 1, -LARGEST - 1])
    with pytest.raises(errors.OverflowDataError, match="starts at row 0"):
        rows_of(define, x=pa.array([LARGEST, 1]), y=lowest)


def test_narrow_integers_overflow_as_in_spark() -> None:
    with pytest.raises(errors.OverflowDataError):
        rows_of("A.x + B.x > 0", x=pa.array([2**31 - 1, 1], pa.int32()))


def test_division_by_zero_is_an_error_only_where_it_is_reached() -> None:
    with pytest.raises(errors.DataError, match="division by zero"):
        rows_of("A.x / B.x > 0", x=[1, 0])
    assert rows_of("B.x <> 0 AND A.x / B.x > 0", x=[1, 0]) == 0
    assert rows_of("CASE WHEN A.x = 1 THEN TRUE ELSE A.x / B.x > 0 END", x=[1, 0]) == 1


@pytest.mark.parametrize(
    ("define", "reason"),
    [
        ("upper(A.k) = B.k", "the function upper over other events"),
        ("LAST(CLASSIFIER(), 1) = 'A' AND B.x > A.x", "reads labels"),
        ("size(array_agg(A.x)) = 1", "the function arraysize over other events"),
        ("COUNT(DISTINCT x) = 2", "count distinct is kept as a list"),
        ("LAST(A.x, 99) IS NULL", "an offset of 99 is above 16"),
    ],
)
def test_the_rest_goes_to_python_and_says_so(define: str, reason: str) -> None:
    table = pa.table({"t": [0, 1], "x": [1, 2], "k": ["a", "A"]})
    query = ensue.pattern("A B").define(B=define).order_by("t")
    text = query.explain(table)
    assert "engine: python" in text
    assert reason in text
    assert len(query.matches(table)) == 1


def test_rows_further_back() -> None:
    x = [1, 2, 3, 4]
    assert rows_of("LAST(A.x, 1) = 2 AND FIRST(A.x, 1) = 2", "A A A B", x=x) == 1
    assert rows_of("LAST(A.x, 3) IS NULL AND FIRST(x) = 1 AND LAST(x, 3) = 1", "A A A B", x=x) == 1
    assert rows_of("PREV(LAST(A.x), 1) = 2 AND NEXT(FIRST(A.x)) = 2", "A A A B", x=x) == 1
    assert rows_of("PREV(FIRST(A.x)) IS NULL AND A.x < 9", "A A A B", x=x) == 1


def test_equal_threads_are_merged_and_different_ones_are_not() -> None:
    table = pa.table({"t": range(30), "x": [0] * 29 + [1]})
    same = ensue.pattern("(A+)+ B").define(A="x = 0", B="x = 1 AND COUNT(*) = 30").order_by("t")
    assert len(same.matches(table)) == 1
    # Which rows are A and which are C differs between threads, and the sum tells them apart.
    apart = (
        ensue.pattern("(A | C)+ B")
        .define(A="x = 0", C="x = 0", B="x = 1 AND SUM(A.t) = 3 + 5")
        .order_by("t")
        .after_match("to next row")
    )
    assert len(apart.matches(table.slice(0, 8).append_column("y", pa.array(range(8))))) == 0
    small = pa.table({"t": range(8), "x": [0] * 7 + [1]})
    found = apart.matches(small).to_pylist()
    assert found
    for match in found:
        assert sum(e["row"] for e in match["events"] if e["label"] == "A") == 8


def test_too_many_threads_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from ensue.rows import thread_engine

    monkeypatch.setattr(thread_engine, "MAX_THREADS", 64)
    table = pa.table({"t": [1 << i for i in range(20)], "x": [0] * 19 + [1]})
    query = (
        ensue.pattern("(A | C)+ B")
        .define(A="x = 0", C="x = 0", B="x = 1 AND SUM(A.t) = -1")
        .order_by("t")
    )
    with pytest.raises(errors.LimitError, match="more than 64 partial matches"):
        query.matches(table)


@pytest.mark.parametrize("year", [2021, 2045])
def test_the_time_between_instants_is_that_of_the_clocks(year: int) -> None:
    """As Spark subtracts: in a zone whose clocks changed in between, not the time that passed."""
    instants = [dt.datetime(year, 3, 1, tzinfo=dt.UTC), dt.datetime(year, 4, 1, tzinfo=dt.UTC)]
    for zone, hours in (("UTC", 0), ("Europe/Berlin", 1), ("+02:00", 0)):
        ts = pa.array(instants, pa.timestamp("us", zone))
        assert rows_of(f"B.ts - A.ts = INTERVAL '{744 + hours}' HOUR", ts=ts) == 1
        table = pa.table({"t": [0, 1], "x": [0, 1], "ts": ts, "k": ["a", "a"]})
        condition = f"B.ts - A.ts = INTERVAL '{744 + hours}' HOUR"
        for text in (condition, f"{condition} AND upper(A.k) = upper(B.k)"):
            events = ensue.pattern("A ->> B").define(A="x = 0", B=text).order_by("t")
            assert len(events.matches(table)) == 1, (zone, text)
