"""Conditions on plain values give what columns give, one row at a time."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue import errors
from ensue.front.expressions import Scope, parse_condition
from ensue.query.condition import Aggregate, Column, Condition, MatchNumber, Navigate
from ensue.scalar.columns import Rows, evaluate
from ensue.scalar.kinds import INT, STRING
from ensue.scalar.values import compile_value, kind_of_value
from tests.plain_values import evaluate_value
from tests.share import examples

SCOPE = Scope(variables=("A", "B"))


def run(text: str, **values: Any) -> Any:
    def leaf(node: Condition) -> Any:
        assert isinstance(node, Navigate) and isinstance(node.argument, Column)
        return values[node.argument.name]

    return evaluate_value(parse_condition(text, SCOPE), leaf)


def test_leaves_are_asked_for_once_and_whole() -> None:
    asked: list[Condition] = []

    def leaf(node: Condition) -> Any:
        asked.append(node)
        return {"price": 3, "kind": "cart"}.get(getattr(node.argument, "name", ""), 0)  # type: ignore[union-attr]

    condition = parse_condition("upper(LAST(A.kind)) = 'CART' AND B.price > FIRST(A.price)", SCOPE)
    assert evaluate_value(condition, leaf) is False
    assert len(asked) == 3
    assert all(isinstance(node, Navigate) for node in asked)


def test_aggregates_and_the_match_number_are_leaves() -> None:
    condition = parse_condition("SUM(A.x) / COUNT(A.x) > MATCH_NUMBER()", SCOPE)

    def leaf(node: Condition) -> Any:
        if isinstance(node, MatchNumber):
            return 2
        assert isinstance(node, Aggregate)
        return {"sum": 10, "count": 4}[node.function]

    assert evaluate_value(condition, leaf) is True


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("t AND n", None), ("f AND n", False), ("t OR n", True), ("f OR n", None), ("NOT n", None),
        ("n IS NULL", True), ("n IS TRUE", False), ("n = n", None), ("n <=> n", True),
        ("x IN (1, NULL)", None), ("x IN (5, NULL)", True), ("n IN (1)", None),
        ("CASE WHEN n THEN 1 ELSE 2 END", 2), ("coalesce(n, NULL, 7)", 7), ("x + n", None),
        ("greatest(x, n, 3)", 5), ("concat('a', n)", None), ("concat_ws('-', 'a', n)", "a"),
    ],
)  # fmt: skip
def test_three_valued_logic(text: str, wanted: Any) -> None:
    answer = run(text, t=True, f=False, n=None, x=5)
    assert answer == wanted and type(answer) is type(wanted)


def test_guards_are_lazy() -> None:
    assert run("x <> 0 AND 1 / x > 2", x=0) is False
    assert run("x = 0 OR 1 / x > 2", x=0) is True
    assert run("if(x = 0, -1, 1 / x)", x=0) == -1
    assert run("coalesce(1, 1 / x)", x=0) == 1


def test_errors_name_the_expression() -> None:
    with pytest.raises(errors.DataError, match="division by zero, in 1 / x"):
        run("1 / x > 2", x=0)
    with pytest.raises(errors.DataError, match="'a' cannot be read as int"):
        run("CAST(x AS INT)", x="a")
    with pytest.raises(errors.OverflowDataError, match="does not fit bigint"):
        run("x + 1", x=2**63 - 1)


def test_the_kinds_of_columns_decide_overflow() -> None:
    condition = parse_condition("x + 1", SCOPE)
    assert evaluate_value(condition, lambda _: 2**31 - 1) == 2**31
    with pytest.raises(errors.OverflowDataError, match="does not fit int"):
        evaluate_value(condition, lambda _: 2**31 - 1, lambda _: INT)


def test_compiled_once_and_called_often() -> None:
    compiled = compile_value(parse_condition("upper(x) || '!'", SCOPE), lambda _: STRING)
    assert [compiled(lambda _, v=v: v) for v in ("a", None, "ß")] == ["A!", None, "SS!"]  # type: ignore[misc]


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(errors.UnsupportedFunctionError, match="soundex"):
        run("soundex(x)", x="a")


def test_wall_clock_arithmetic_in_a_zone() -> None:
    condition = parse_condition("x + INTERVAL '1' DAY", SCOPE)
    before = dt.datetime(2021, 3, 13, 17, 0, tzinfo=dt.UTC)
    after = evaluate_value(condition, lambda _: before, zone="America/New_York")
    assert after == dt.datetime(2021, 3, 14, 16, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "void"), (True, "boolean"), (1, "bigint"), (2**70, "decimal(22,0)"),
        (1.5, "double"), (Decimal("1.50"), "decimal(3,2)"), (Decimal("1E+2"), "decimal(3,0)"),
        ("a", "string"), (b"a", "binary"), (dt.date(2020, 1, 1), "date"),
        (dt.datetime(2020, 1, 1), "timestamp_ntz"),
        (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "timestamp"),
        (dt.timedelta(1), "interval day to second"), ([1, None], "array<bigint>"),
        ({"a": 1}, "struct<a:bigint>"), ([1, True], "array<mixed>"), (object(), "object"),
    ],
)  # fmt: skip
def test_kinds_of_values(value: Any, kind: str) -> None:
    assert str(kind_of_value(value)) == kind


EXPRESSIONS = [
    "x + y", "x - y * 2", "x = y", "x < y", "x >= 3", "x BETWEEN y AND 5", "x IN (1, 2, y)",
    "y <> 0 AND x % y = 1", "CASE WHEN y = 0 THEN 0 ELSE x div y END", "coalesce(x, y, 0)",
    "greatest(x, y)", "upper(s) = s", "length(s) > x", "s LIKE 'a%'", "substring(s, x, y)",
    "concat(s, x)", "if(x > y, s, 'none')", "abs(x) <=> y", "CAST(x AS STRING) || s",
    "d < x", "d = d", "d > 0.5 OR x IS NULL", "-d + x", "TRY_CAST(s AS INT)", "lpad(s, y, 'ab')",
    "NOT (x > 1 AND s = 'a')", "nullif(x, y)", "round(d, 1)", "least(d, x)",
]  # fmt: skip
_NUMBER = st.none() | st.integers(-9, 9)
_ROW = st.tuples(
    _NUMBER,
    _NUMBER,
    st.none() | st.text("aAbß 1", max_size=4),
    st.none() | st.floats(width=32),
)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(_ROW, min_size=1, max_size=12))
def test_columns_and_values_agree(data: list[tuple[Any, ...]]) -> None:
    names = ("x", "y", "s", "d")
    types = (pa.int32(), pa.int64(), pa.string(), pa.float64())
    arrays = [pa.array(column, t) for column, t in zip(zip(*data, strict=True), types, strict=True)]
    over = Rows(dict(zip(names, arrays, strict=True)), len(data))
    for text in EXPRESSIONS:
        condition = parse_condition(text, SCOPE)
        compiled = compile_value(condition, lambda n: over.kind(n.argument))  # type: ignore[union-attr,arg-type]
        ones = [
            compiled(lambda n, row=row: over.read(n.argument)[row].as_py())  # type: ignore[misc]
            for row in range(len(data))
        ]
        assert repr(evaluate(condition, over).to_pylist()) == repr(ones), text
