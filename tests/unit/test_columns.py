"""Expressions on Arrow columns: shifts, laziness, NaN, errors that name their row."""

from __future__ import annotations

import datetime as dt
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue import errors
from ensue.front.expressions import Scope, parse_condition
from ensue.query.condition import Column, Navigate
from ensue.scalar import kinds as k
from ensue.scalar.arrow_kinds import from_arrow, to_arrow
from ensue.scalar.columns import Rows, evaluate, kind_of, predicate, shift
from tests.share import examples

NAN = math.nan


def rows(starts: list[int] | None = None, **columns: Any) -> Rows:
    return Rows.of(pa.table(columns), starts)


def run(text: str, over: Rows) -> list[Any]:
    return evaluate(parse_condition(text, Scope()), over).to_pylist()


# -- shifts --------------------------------------------------------------------------------------


def naive_shift(values: list[Any], by: int, starts: list[int]) -> list[Any]:
    part = [sum(s <= i for s in starts) for i in range(len(values))]
    return [
        values[i + by] if 0 <= i + by < len(values) and part[i + by] == part[i] else None
        for i in range(len(values))
    ]


COLUMNS = [
    pa.array([1.0, None, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, None, 11.0]),
    pa.array(range(11), pa.int32()),
    pa.array([bool(i % 3) for i in range(11)]),
    pa.array([None if i == 4 else "x" * i for i in range(11)]),
    pa.array([f"v{i % 2}" for i in range(11)]).dictionary_encode(),
    pa.array([[i] * (i % 3) for i in range(11)]),
    pa.array([{"a": i} for i in range(11)]),
    pa.nulls(11),
    pa.array(range(13), pa.int64()).slice(2),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda c: str(c.type))
@pytest.mark.parametrize("by", [-1, 1, -2, 3, -4, 10, 11, -12, 0])
@pytest.mark.parametrize("starts", [[0], [0, 4], [0, 1, 2, 8], list(range(11))])
def test_shift_stays_in_the_partition(column: pa.Array, by: int, starts: list[int]) -> None:
    shifted = shift(column, by, np.array(starts))
    shifted.validate(full=True)
    assert shifted.to_pylist() == naive_shift(column.to_pylist(), by, starts)


def test_prev_and_next_are_shifts() -> None:
    over = rows([0, 3], x=[1, 2, 3, 4, 5])
    assert run("x > PREV(x)", over) == [None, True, True, None, True]
    assert run("NEXT(x, 2)", over) == [3, None, None, None, None]
    assert run("PREV(x + 1) * 10", over) == [None, 20, 30, None, 50]


def test_a_shift_behind_a_guard_reads_its_own_rows() -> None:
    over = rows([0, 3], x=[0, 2, 0, 4, 5])
    assert run("PREV(x) <> 0 AND 8 / PREV(x) = x * 2", over) == [None, False, False, None, False]
    assert run("x > 3 AND 8 / PREV(x) > 1", over) == [False, False, False, None, True]


def test_what_depends_on_the_match_is_refused() -> None:
    over = rows(x=[1])
    with pytest.raises(errors.UnsupportedError, match="depends on the match"):
        evaluate(Navigate(Column("x"), offset=1), over)


# -- laziness and errors -------------------------------------------------------------------------


def test_guarded_parts_are_evaluated_where_needed() -> None:
    over = rows(x=[0, 1, None, 4])
    assert run("x <> 0 AND 1 / x > 0.5", over) == [False, True, None, False]
    assert run("x = 0 OR 1 / x > 0.5", over) == [True, True, None, False]
    assert run("CASE WHEN x = 0 THEN -1 WHEN 1 / x > 0.5 THEN 4 div x ELSE 0 END", over) == [
        -1,
        4,
        0,
        0,
    ]
    assert run("if(x = 0, NULL, 8 div x)", over) == [None, 8, None, 2]
    assert run("coalesce(nullif(x, 0), 1 div (x + 1))", over) == [1, 1, None, 4]


def test_a_missing_dividend_is_no_division_by_zero() -> None:
    assert run("x / 0", rows(x=pa.array([None, None], pa.int32()))) == [None, None]


@pytest.mark.parametrize(
    ("text", "row", "kind"),
    [
        ("1 / x", 2, errors.DataError),
        ("x % 0", 0, errors.DataError),
        ("b + 1", 3, errors.OverflowDataError),
        ("-c", 1, errors.OverflowDataError),
        ("CAST(s AS INT)", 1, errors.DataError),
        ("upper(s) = 'A' OR CAST(s AS INT) > 0", 3, errors.DataError),
        ("x > 1 AND CAST(x * 100 AS TINYINT) > 0", 1, errors.OverflowDataError),
        ("CAST(f AS BIGINT)", 2, errors.OverflowDataError),
        ("a[1]", 1, errors.DataError),
    ],
)
def test_errors_name_the_row(text: str, row: int, kind: type[Exception]) -> None:
    over = rows(
        x=pa.array([1, 2, 0, 4], pa.int32()),
        b=pa.array([1, None, 2, 2**31 - 1], pa.int32()),
        c=pa.array([1, -128, -128, 0], pa.int8()),
        s=["1", "a", "2", "b"],
        f=[1.0, None, NAN, 2.0],
        a=[[1, 2], [1], None, []],
    )
    with pytest.raises(kind) as caught:
        run(text, over)
    assert caught.value.problem.startswith(f"row {row}: ")  # type: ignore[attr-defined]


def test_an_error_shows_the_expression() -> None:
    with pytest.raises(errors.DataError, match=r"row 1: division by zero, in 10 / x\n"):
        run("10 / x > 1", rows(x=[1, 0]))


# -- NaN -----------------------------------------------------------------------------------------

FLOATS = [1.0, NAN, math.inf, -math.inf, None, 0.0, -0.0]


def order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("right", ["y", "1.0D", "CAST('NaN' AS DOUBLE)", "z"])
def test_nan_is_equal_to_itself_and_the_greatest(sign: str, right: str) -> None:
    lefts = [a for a in FLOATS for _ in FLOATS]
    others = {"y": FLOATS * len(FLOATS), "z": [0.5] * 49, "1.0D": [1.0] * 49}
    rights = others.get(right, [NAN] * 49)
    compare = {
        "=": lambda a, b: a == b,
        "<>": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
    }[sign]
    wanted = [
        None if a is None or b is None else compare(order(a), order(b))
        for a, b in zip(lefts, rights, strict=True)
    ]
    over = rows(x=lefts, y=FLOATS * len(FLOATS), z=[0.5] * 49)
    assert run(f"x {sign} {right}", over) == wanted
    assert run(f"{right} {sign} x", over) == [
        None if a is None or b is None else compare(order(b), order(a))
        for a, b in zip(lefts, rights, strict=True)
    ]


# -- dictionaries, names, foreign types ----------------------------------------------------------


def test_a_function_of_an_encoded_column_looks_at_the_dictionary() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["b", "a", "no"]))
    over = rows(s=encoded, n=[1, 2, 3, 4])
    assert run("s = 'a'", over) == [False, True, None, False]
    assert run("upper(s) LIKE 'B%' AND n > 1", over) == [False, False, None, True]
    assert run("s <=> NULL", over) == [False, False, True, False]


def test_a_dictionary_value_that_no_row_has_does_not_raise() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["1", "no"]))
    assert run("s + 1", rows(s=encoded)) == [2, 2]
    with pytest.raises(errors.DataError, match="row 1"):
        bad = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["1", "no"]))
        run("s + 1", rows(s=bad))


def test_names_are_found_without_regard_to_case() -> None:
    over = rows(Price=[1], STRUCTURE=pa.array([{"Inner": {"x": 5}}]), b=[1], B=[2])
    assert run("price + 1", over) == [2]
    assert run("structure.inner.X", over) == [5]
    assert run("B", over) == [2]
    with pytest.raises(errors.UnknownColumnError, match="no column 'nothing'"):
        run("nothing", over)
    with pytest.raises(errors.UnknownColumnError, match="no field 'y'"):
        run("structure.inner.y", over)
    with pytest.raises(errors.UnknownColumnError, match="has no field"):
        run("price.x", over)
    with pytest.raises(errors.UnknownColumnError, match="could be any of AA, Aa"):
        run("aa", rows(AA=[1], Aa=[2]))


@pytest.mark.parametrize(
    ("column", "text", "wanted"),
    [
        (pa.array(["a", None], pa.large_string()), "upper(x)", ["A", None]),
        (pa.array([255, 1], pa.uint8()), "x + 1", [256, 2]),
        (pa.array([2**63, 1], pa.uint64()), "x > 5", [True, False]),
        (pa.chunked_array([[1], [2]]), "x * 2", [2, 4]),
        (pa.array([1, None], pa.float16()), "x + 1", [2.0, None]),
        (pa.array([dt.date(2020, 1, 2)] * 2, pa.date64()), "day(x)", [2, 2]),
        (pa.array([10**9 + 1, None], pa.timestamp("ns", "UTC")), "second(x)", [1, None]),
        (pa.array([1, None], pa.time64("us")), "x IS NULL", [False, True]),
        (pa.array([b"ab", b"cd"], pa.binary(2)), "length(x)", [2, 2]),
    ],
)
def test_types_that_spark_does_not_have(column: Any, text: str, wanted: list[Any]) -> None:
    assert run(text, rows(x=column)) == wanted


def test_a_foreign_column_passes_through() -> None:
    maps = pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32()))
    assert evaluate(Column("m"), rows(m=maps)).type == maps.type


def test_no_rows() -> None:
    over = rows(x=pa.array([], pa.int32()))
    assert evaluate(parse_condition("1 / 0 + x", Scope()), over).type == pa.float64()


def test_an_answer_is_as_long_as_the_rows() -> None:
    over = rows(x=[1, 2, 3])
    assert run("1 + 1", over) == [2, 2, 2]
    assert run("NULL", over) == [None] * 3
    assert run("interval '1' hour", over) == [dt.timedelta(hours=1)] * 3


def test_a_predicate_is_boolean_and_takes_null_for_false() -> None:
    over = rows(x=[1, None])
    assert predicate(parse_condition("x = 1", Scope()), over).to_pylist() == [True, False]
    assert predicate(parse_condition("NULL", Scope()), over).to_pylist() == [False, False]
    with pytest.raises(errors.ColumnTypeError, match="DEFINE A is x, of type bigint"):
        predicate(parse_condition("x", Scope()), over, "DEFINE A")


def test_time_is_read_in_the_zone_of_the_column() -> None:
    moments = pa.array(
        [dt.datetime(2021, 3, 14, 6, 30, tzinfo=dt.UTC)], pa.timestamp("us", "America/New_York")
    )
    over = rows(t=moments)
    assert run("hour(t)", over) == [1]
    assert run("hour(t + INTERVAL '1' HOUR)", over) == [3]
    assert run("hour(t + INTERVAL '1' DAY)", over) == [1]
    assert run("t < TIMESTAMP '2021-03-14 02:00:00'", over) == [True]
    assert run("CAST(t AS STRING)", over) == ["2021-03-14 01:30:00"]
    assert run("date_trunc('DAY', t) = TIMESTAMP '2021-03-14'", over) == [True]


# -- refusals ------------------------------------------------------------------------------------


def test_unknown_functions_are_named_with_near_spellings() -> None:
    with pytest.raises(errors.UnsupportedFunctionError) as caught:
        run("uper(s)", rows(s=["a"]))
    assert "'uper'" in caught.value.problem
    assert "upper" in caught.value.problem
    assert "on Spark, a condition on one row may use" in caught.value.remedy


@pytest.mark.parametrize(
    "text",
    ["exists(a, y -> y > 1)", "to_date(s, 'yyyy')", "s RLIKE '\\\\p{L}'", "CAST(s AS VARIANT)"],
)
def test_forms_that_are_not_known(text: str) -> None:
    with pytest.raises(errors.UnsupportedFunctionError):
        run(text, rows(s=["a"], a=[[1]]))


def test_a_type_error_names_operator_and_types() -> None:
    with pytest.raises(errors.ColumnTypeError) as caught:
        run("b + 1 > 2", rows(b=[True]))
    assert "b is boolean, 1 is int" in caught.value.problem
    assert "a + b" in caught.value.problem


# -- kinds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        k.BOOLEAN, k.TINYINT, k.SMALLINT, k.INT, k.BIGINT, k.FLOAT, k.DOUBLE, k.decimal(10, 2),
        k.STRING, k.BINARY, k.DATE, k.TIMESTAMP, k.TIMESTAMP_NTZ, k.INTERVAL, k.NULL,
        k.array(k.INT), k.struct((("a", k.STRING),)),
    ],
    ids=str,
)  # fmt: skip
def test_kinds_survive_arrow(kind: k.Kind) -> None:
    assert from_arrow(to_arrow(kind)) == kind


def test_kinds_of_conditions() -> None:
    over = rows(x=pa.array([1], pa.int32()), t=pa.array([0], pa.timestamp("us", "UTC")))
    assert str(kind_of(parse_condition("x + 1", Scope()), over)) == "int"
    assert str(kind_of(parse_condition("x / 2", Scope()), over)) == "double"
    assert str(kind_of(parse_condition("t - t", Scope()), over)) == "interval day to second"


# -- properties ----------------------------------------------------------------------------------

_INTS = st.lists(st.none() | st.integers(-20, 20), min_size=1, max_size=30)


@settings(max_examples=examples(60), deadline=None)
@given(_INTS, st.sets(st.integers(1, 29)), st.integers(-5, 5))
def test_shift_of_anything(values: list[Any], cuts: set[int], by: int) -> None:
    starts = [0, *sorted(cut for cut in cuts if cut < len(values))]
    shifted = shift(pa.array(values, pa.int64()), by, np.array(starts))
    assert shifted.to_pylist() == naive_shift(values, by, starts)


def test_the_page_of_functions_is_current() -> None:
    root = Path(__file__).resolve().parents[2]
    spec = importlib.util.spec_from_file_location("functions_page", root / "tools/functions.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run: python tools/functions.py"
