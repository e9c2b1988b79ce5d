"""Each function of the catalogue gives what Spark gives, in value and in type.

A few Spark jobs compute all expressions over a table of awkward values; the Arrow evaluator and the
plain Python evaluator must agree with it. Where they differ, Spark is right.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ensue import errors
from ensue.front.expressions import Scope, parse_condition
from ensue.query.condition import Column, Navigate
from ensue.scalar.arrow_kinds import from_arrow
from ensue.scalar.columns import Rows, evaluate
from ensue.scalar.functions import CATALOGUE, FORMS
from ensue.scalar.values import compile_value

UTC = dt.UTC
NAN, INF = math.nan, math.inf
MIN32, MAX32, MIN64, MAX64 = -(2**31), 2**31 - 1, -(2**63), 2**63 - 1


def _instants(*texts: str | None) -> list[dt.datetime | None]:
    return [None if t is None else dt.datetime.fromisoformat(t).replace(tzinfo=UTC) for t in texts]


def _days(*texts: str | None) -> list[dt.date | None]:
    return [None if t is None else dt.date.fromisoformat(t) for t in texts]


_DATES = _days(
    "2020-02-29",
    "1969-12-31",
    "1582-10-15",
    None,
    "2000-01-01",
    "9999-12-31",
    "2021-03-28",
    "2024-12-30",
    "1900-03-01",
    "0001-01-01",
    None,
    "2023-07-14",
)
_MOMENTS = _instants(
    "2020-02-29T23:59:59.999999",
    "1969-12-31T23:59:59.5",
    "1970-01-01",
    None,
    "2021-03-28T01:30:00",
    "1900-01-01T00:00:01",
    "2262-04-12T00:00:00.000001",
    "2024-12-30T12:00:00",
    "1582-10-15T06:07:08.09",
    "2000-01-01",
    None,
    "2023-07-14T13:14:15.161718",
)
_SPANS = [
    dt.timedelta(hours=1),
    dt.timedelta(days=-3, microseconds=1),
    dt.timedelta(0),
    None,
    dt.timedelta(days=400),
    dt.timedelta(microseconds=-1),
    dt.timedelta(minutes=90),
    None,
    dt.timedelta(seconds=59),
    dt.timedelta(days=1),
    dt.timedelta(1, 2, 3),
    dt.timedelta(-1),
]

# fmt: off
TABLE = pa.table({
    "id": pa.array(range(12), pa.int32()),
    "i8": pa.array([1, -2, 0, None, 5, -6, 7, 3, 9, -1, None, 2], pa.int8()),
    "i16": pa.array([10, -2, 0, 4, None, 6, -7, 8, 3, 100, -11, None], pa.int16()),
    "i": pa.array([3, -3, 0, None, 7, 100, -45, 1, 2, 12345, None, -1], pa.int32()),
    "j": pa.array([2, 2, -2, 5, None, -7, 10, 1, 3, 11, None, 4], pa.int32()),
    "l": pa.array([3, -4, 0, 10**12, None, 7, -(10**15), 1, 2, 5, None, 6], pa.int64()),
    "xi": pa.array([MIN32, MAX32, 0, None, 1, -1, MAX32 - 1, MIN32 + 1, 15, 25, -15, -25],
                   pa.int32()),
    "xl": pa.array([MIN64, MAX64, 0, None, 1, -1, 2**53 + 1, -(2**53) - 1, 10, 2**31, -(2**31), 7],
                   pa.int64()),
    "f": pa.array([1.5, -2.25, 0.0, None, NAN, INF, -INF, 3.4e38, 1e-30, -0.0, 0.1, 16777217.0],
                  pa.float32()),
    "d": pa.array([1.5, -2.5, 0.0, None, NAN, INF, -INF, 1e300, 2.5e-308, -0.0, 0.1, 2.5],
                  pa.float64()),
    "e": pa.array([1.5, 2.5, -0.0, 1.0, NAN, NAN, 4.0, None, INF, 0.0, -0.1, 1e-5], pa.float64()),
    "p": pa.array([1.005, -2.345, 0.5, None, 1234.5678, -0.5, 99.95, 2.675, 1e-7, 7.0, 0.045, 12.0],
                  pa.float64()),
    "q": pa.array([1.0, 2.0, -3.5, 4.0, None, 0.25, 10.0, -1.5, 3.0, 100.0, 7.5, -0.125],
                  pa.float64()),
    "dc": pa.array([Decimal(x).quantize(Decimal("0.01")) if x else None for x in
                    ("1.50", "-2.25", "0", None, "99999999.99", "-0.01", "12.345", "7", "0.05",
                     "-7.5", None, "3.33")], pa.decimal128(10, 2)),
    "du": pa.array([Decimal(x).quantize(Decimal("0.0001")) if x else None for x in
                    ("3", "0.3333", "-1.5", "2", None, "7.7777", "-0.0001", "100", "9.9999", "1",
                     None, "-3")], pa.decimal128(12, 4)),
    "dw": pa.array([Decimal(x).quantize(Decimal("1e-18")) if x else None for x in
                    ("1.5", "-123456789.123456789", "0.000000000000000001", None, "7", "-7", "3",
                     "99.5", "-99.5", "0.5", "1", "2")], pa.decimal128(38, 18)),
    "s": pa.array(["abc", "", " A b ", None, "Straße", "ÀÉ naïve", "a%b_c", "日本語😀", "x,y,,z,",
                   "aXbXc", "hello world  foo", "ABC"]),
    "t": pa.array(["b", "", "A", "x", None, "é", "%", "語", ",", "X", " ", "ABC"]),
    "n": pa.array(["12", " -7 ", "+3", None, "0", "100", "007", "-0", "45", "1", None, "2"]),
    "z": pa.array(["1.5", " -2e3 ", "NaN", None, "inf", "-Infinity", "1.5f", ".5", "5.", "+0.1",
                   "1e-400", "1E400"]),
    "w": pa.array(["true", "F", " yes ", None, "0", "1", "n", "No", "TRUE", "false", "t", "y"]),
    "ds": pa.array(["2020-02-29", "2020-1-2", "2020-07", None, "1999", " 2020-01-01 ",
                    "2020-01-01 12:00:00", "2020-01-01T01", "0001-01-01", "1582-10-04",
                    "9999-12-31", "2000-12-31"]),
    "us": pa.array(["2020-02-29 01:02:03.4", "2020-1-2 3:4:5", "2020-07", None, "1999",
                    "2020-01-01T00:00:00Z", "2020-01-01 12:00:00 +02:30", "2020-01-01 01:02",
                    "2020-06-01 00:00:00 Europe/Berlin", "1969-12-31 23:59:59.999999",
                    "2020-01-01 00:00:00.1234567", "2020-01-01 05"]),
    "b": pa.array([True, False, None, True, False, None, True, False, None, True, False, None]),
    "c": pa.array([True, True, True, False, False, False, None, None, None, True, False, True]),
    "day": pa.array(_DATES, pa.date32()),
    "day2": pa.array([*_DATES[4:], *_DATES[:4]], pa.date32()),
    "ts": pa.array(_MOMENTS, pa.timestamp("us", "UTC")),
    "ts2": pa.array([*_MOMENTS[5:], *_MOMENTS[:5]], pa.timestamp("us", "UTC")),
    "ntz": pa.array([None if m is None else m.replace(tzinfo=None) for m in _MOMENTS],
                    pa.timestamp("us")),
    "iv": pa.array(_SPANS, pa.duration("us")),
    "iw": pa.array([*_SPANS[6:], *_SPANS[:6]], pa.duration("us")),
    "a": pa.array([[1, 2], [3], [], None, [None], [5, None, 7], [1], [2, 2], [0], [9], [1, 3], [4]],
                  pa.list_(pa.int32())),
    "sa": pa.array([["a"], [], None, ["b", None], ["x"], [""], ["A"], ["a", "b"], [None], ["X"],
                    ["c"], ["ABC"]], pa.list_(pa.string())),
    "fa": pa.array([[1.0], [NAN], None, [INF, None], [0.0], [-0.0], [], [2.5], [1.5], [0.1], [0.0],
                    [2.5]], pa.list_(pa.float64())),
    "st": pa.array([{"u": 1, "V": {"w": "x"}}, None, {"u": None, "V": None}, *(
        {"u": k, "V": {"w": str(k)}} for k in range(9))],
        pa.struct([("u", pa.int32()), ("V", pa.struct([("w", pa.string())]))])),
    "bn": pa.array([b"abc", b"", None, b"\x00\xff", b"a", b"b", b"abc", b"z", b"y", b"x", None,
                    b"ABC"], pa.binary()),
})

# fmt: on
DATA = tomllib.loads(Path(__file__).with_name("functions.toml").read_text(encoding="utf-8"))
CASES: dict[str, list[str]] = DATA["cases"]
# Spark's JVM and C differ in the last bit of these.
INEXACT = ("power", "exp", "ln", "log", "log10", "sqrt")
PER_JOB = 100  # one job of a thousand columns compiles four times as long
EVERY = [(name, text) for name, texts in CASES.items() for text in texts]


def _frame(spark: Any) -> Any:
    """`TABLE` in one partition; Spark takes a naive Arrow timestamp for one in its own zone."""
    frame = spark.createDataFrame(TABLE).coalesce(1)
    return frame.selectExpr("* EXCEPT (ntz)", "CAST(ntz AS TIMESTAMP_NTZ) AS ntz")


@pytest.fixture(scope="module")
def answers(spark: Any) -> dict[str, pa.Array]:
    """Spark's column for each expression, in the order of `TABLE`."""
    # Spark would share `1 / x` among expressions and lift it out of the CASE or AND that guards it.
    spark.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    frame = _frame(spark)
    found: dict[str, pa.Array] = {}
    for start in range(0, len(EVERY), PER_JOB):
        texts = [text for _, text in EVERY[start : start + PER_JOB]]
        chosen = frame.selectExpr("id AS row", *(f"{t} AS c{k}" for k, t in enumerate(texts)))
        table = chosen.toArrow().sort_by("row")
        found |= {t: table[f"c{k}"].combine_chunks() for k, t in enumerate(texts)}
    spark.conf.unset("spark.sql.subexpressionElimination.enabled")
    return found


ROWS = Rows.of(TABLE)


def _condition(text: str) -> Any:
    return parse_condition(text, Scope())


def _same(ours: Any, theirs: Any, exact: bool) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs, [exact] * len(ours)))
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return ours == theirs if exact else math.isclose(ours, theirs, rel_tol=1e-14)
    if isinstance(ours, dt.datetime) and isinstance(theirs, dt.datetime) and ours.tzinfo:
        # Python never calls a time that the clocks show twice equal to one of another zone.
        ours, theirs = ours.astimezone(UTC), theirs.astimezone(UTC)
    return type(ours) is type(theirs) and bool(ours == theirs)


def _differences(name: str, ours: list[Any], theirs: list[Any]) -> list[str]:
    return [
        f"row {row}: {mine!r}, Spark {spark!r}"
        for row, (mine, spark) in enumerate(zip(ours, theirs, strict=True))
        if not _same(mine, spark, name not in INEXACT)
    ]


def test_every_function_has_cases() -> None:
    assert set(CASES) == {*CATALOGUE, *FORMS, "path"}


@pytest.mark.parametrize("name", list(CASES))
def test_columns_and_values_agree_with_spark(answers: dict[str, pa.Array], name: str) -> None:
    problems: list[str] = []
    for group, text in EVERY:
        if group != name:
            continue
        condition, theirs = _condition(text), answers[text]
        column = evaluate(condition, ROWS)
        if from_arrow(column.type) != from_arrow(theirs.type):
            problems.append(f"{text}: type {column.type}, Spark {theirs.type}")
        wanted = theirs.to_pylist()
        problems += [f"{text}: columns {p}" for p in _differences(name, column.to_pylist(), wanted)]
        one = [_value(condition, row) for row in range(ROWS.length)]
        problems += [f"{text}: values {p}" for p in _differences(name, one, wanted)]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_timestamps_are_read_in_the_zone_of_the_session(spark: Any, zone: str) -> None:
    over = Rows(ROWS.columns, ROWS.length, zone=zone)
    texts = DATA["zones"]["cases"]
    kept = spark.conf.get("spark.sql.session.timeZone")
    # Made in UTC, since Arrow's table of zones, by which PySpark localises, ends in 2037.
    frame = _frame(spark)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        chosen = frame.selectExpr("id AS row", *(f"{t} AS c{k}" for k, t in enumerate(texts)))
        table = chosen.toArrow().sort_by("row")
    finally:
        spark.conf.set("spark.sql.session.timeZone", kept)
    problems = []
    for place, text in enumerate(texts):
        wanted = table[f"c{place}"].to_pylist()
        column = evaluate(_condition(text), over).to_pylist()
        problems += [f"{text}: columns {p}" for p in _differences(text, column, wanted)]
        one = [_value(_condition(text), row, zone) for row in range(over.length)]
        problems += [f"{text}: values {p}" for p in _differences(text, one, wanted)]
    assert not problems, "\n" + "\n".join(problems)


def _leaf_column(leaf: Any) -> Column:
    column = leaf.argument if isinstance(leaf, Navigate) else leaf
    assert isinstance(column, Column)
    return column


def _value(condition: Any, row: int, zone: str = "UTC") -> Any:
    compiled = compile_value(condition, lambda leaf: ROWS.kind(_leaf_column(leaf)), zone)
    return compiled(lambda leaf: ROWS.read(_leaf_column(leaf))[row].as_py())


@pytest.mark.parametrize("text", DATA["errors"]["raising"])
def test_what_raises_in_spark_raises_here(spark: Any, text: str) -> None:
    """ANSI mode: and both evaluators do so for the same rows."""
    with pytest.raises(Exception):  # noqa: B017 - any of Py4J's many classes
        _frame(spark).selectExpr(f"{text} AS x").toArrow()
    with pytest.raises(errors.DataError) as caught:
        evaluate(_condition(text), ROWS)
    row = int(caught.value.problem.split(":")[0].removeprefix("row "))
    with pytest.raises(errors.DataError):
        _value(_condition(text), row)


def test_what_spark_refuses_is_refused_here(spark: Any) -> None:
    problems = []
    frame = _frame(spark)
    for text in DATA["errors"]["refused"]:
        with contextlib.suppress(Exception):  # see above
            frame.selectExpr(f"{text} AS x")
            problems.append(f"{text}: Spark takes it")
        with contextlib.suppress(errors.ColumnTypeError):
            evaluate(_condition(text), ROWS)
            problems.append(f"{text}: columns take it")
    assert not problems, "\n" + "\n".join(problems)
