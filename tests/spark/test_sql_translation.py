"""Statements of other dialects on Spark: the answers that their own systems give, or a refusal.

`TRY` is compared with a definition written out in Python: evaluate, and null where that raises.
"""

from __future__ import annotations

import os
import random
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

import ensue
from ensue import errors

VALUES = "(VALUES (1, 90), (2, 80), (3, 70), (4, 80), (5, 70), (6, 100)) t(id, v)"
WINDOW = """WINDOW w AS (ORDER BY id MEASURES LAST(v) AS m
    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING AFTER MATCH SKIP TO NEXT ROW
    PATTERN (A B+) DEFINE B AS v < PREV(v))"""


def rows(spark: Any, text: str, dialect: str = "trino") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in ensue.sql(text, spark=spark, dialect=dialect).collect()]


def test_aggregates_of_a_measure_go_through_a_sub_query(spark: Any) -> None:
    with pytest.raises(errors.QueryError, match="m OVER w stands inside an aggregate") as problem:
        rows(spark, f"SELECT max(m OVER w) FROM {VALUES} {WINDOW}")
    assert (problem.value.line, problem.value.column) == (1, 12)
    inner = f"SELECT id, m OVER w AS m FROM {VALUES} {WINDOW}"
    assert rows(spark, f"SELECT max(m), count(m), count(*) FROM ({inner})") == [(70, 3, 6)]
    text = f"WITH x AS ({inner}) SELECT m, count(*) FROM x GROUP BY m HAVING max(m) > 1"
    assert rows(spark, text) == [(70, 3)]
    text = f"SELECT id, max(m) OVER (ORDER BY id) FROM ({inner}) ORDER BY id DESC LIMIT 1"
    assert rows(spark, text) == [(6, 70)]
    text = f"SELECT DISTINCT CASE WHEN m OVER w > 1 THEN 'x' END AS c FROM {VALUES} {WINDOW}"
    assert sorted(rows(spark, text + " ORDER BY c"), key=str) == [("x",), (None,)]
    text = f"SELECT id FROM {VALUES} {WINDOW} QUALIFY m OVER w = 70 ORDER BY id"
    assert rows(spark, text, "spark") == [(1,), (2,), (4,)]


# Each column with the answer of its own system.
ANSWERS: dict[str, list[tuple[str, Any]]] = {
    "trino": [
        ("TRY(1 / 0)", None),
        ("TRY(7e0 / 2 + 1) > 4", True),
        ("TRY(CAST('x' AS integer))", None),
        ("TRY(CAST('12' AS integer) * 2)", 24),
        ("TRY(2147483647 + v)", None),
        ("TRY(5 % (v - v))", None),
        ("TRY_CAST('x' AS integer)", None),
        ("TRY(DECIMAL '1.50' + TRY(1 / 0))", None),
        ("TRY(DECIMAL '1.50' + 1)", Decimal("2.50")),
        ("date_add('day', 1, date_add('day', 1, TIMESTAMP '2020-02-28 10:30:00'))",
         datetime(2020, 3, 1, 10, 30)),
        ("DECIMAL '1.50'", Decimal("1.50")),
        ("CAST('2.0' AS DECIMAL)", Decimal(2)),
        ("date_add('day', 1, TIMESTAMP '2020-02-28 10:30:00')", datetime(2020, 2, 29, 10, 30)),
        ("date_add('week', -1, DATE '2020-03-01')", date(2020, 2, 23)),
        ("date_diff('hour', TIMESTAMP '2020-01-01 00:59:00', TIMESTAMP '2020-01-01 02:00:00')", 1),
        ("regexp_like('axb', 'x')", True),
    ],
    "snowflake": [
        ("TRY_TO_DATE('x')", None),
        ("TRY_TO_DATE('2020-02-28')", date(2020, 2, 28)),
        ("DATEADD(day, 1, '2020-02-28 10:30:00'::TIMESTAMP)", datetime(2020, 2, 29, 10, 30)),
        ("DATEDIFF(hour, '2020-01-01 00:59:00'::TIMESTAMP, '2020-01-01 02:00:00'::TIMESTAMP)", 2),
        ("DATEDIFF(year, '2020-12-31'::DATE, '2021-01-01'::DATE)", 1),
        ("REGEXP_LIKE('axb', 'x')", False),
        ("REGEXP_LIKE('aXb', '.x.', 'i')", True),
        ("'7.6'::NUMBER", Decimal(8)),
    ],
    "oracle": [
        ("CAST('2.5' AS NUMBER(10, 2))", Decimal("2.50")),
        ("NVL(NULL, 3)", 3),
    ],
}  # fmt: skip
GROUPED: dict[str, list[tuple[str, Any]]] = {
    "trino": [
        ("count(DISTINCT v)", 4),
        ("sum(v) FILTER (WHERE v < 80)", 140),
        ("listagg(CAST(id AS varchar), ',') WITHIN GROUP (ORDER BY v DESC, id)", "6,1,2,4,3,5"),
    ],
    "snowflake": [
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY v)", 80.0),
        ("PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY v DESC)", 87.5),
    ],
    "oracle": [
        ("PERCENTILE_DISC(0.2) WITHIN GROUP (ORDER BY v DESC)", 90.0),
        ("COUNT(DISTINCT v)", 4),
    ],
}


@pytest.mark.parametrize("dialect", list(ANSWERS))
def test_answers_are_those_of_the_dialect(spark: Any, dialect: str) -> None:
    for given, source in ((ANSWERS, f"(SELECT * FROM {VALUES}) t WHERE id = 1"), (GROUPED, VALUES)):
        items = ", ".join(f"{text} AS c{n}" for n, (text, _) in enumerate(given[dialect]))
        (found,) = rows(spark, f"SELECT {items} FROM {source}", dialect)
        for (text, wanted), value in zip(given[dialect], found, strict=True):
            assert value == wanted, (dialect, text)


def test_try_in_the_clause(spark: Any) -> None:
    data = "(VALUES (1, 4, 2, '7'), (2, 5, 0, 'x'), (3, 7, -2, '9')) t(id, a, b, s)"
    for condition, wanted in [
        ("TRY(a / b) IS NULL", [2]),
        ("TRY(PREV(a) / b) IS NULL", [1, 2]),
        ("TRY(PREV(a) / b) = -2", [3]),  # integers, as in Trino: 5 / -2
        ("TRY(CAST(PREV(s) AS integer)) = 7", [2]),
        ("TRY(CAST(s AS integer) + b) > 0", [1, 3]),
        ("TRY(LAST(a) + 2147483641) IS NULL", [3]),  # 7 more is out of range
    ]:
        text = f"""SELECT i FROM {data} MATCH_RECOGNIZE (ORDER BY id MEASURES LAST(id) AS i
            PATTERN (A) DEFINE A AS {condition})"""
        assert [row[0] for row in rows(spark, text)] == wanted, condition
    for condition in ("TRY(COALESCE(a / b, 1)) > 1", "TRY(sqrt(a)) > 1", "TRY(SUM(a)) > 1"):
        text = f"""SELECT i FROM {data} MATCH_RECOGNIZE (ORDER BY id MEASURES LAST(id) AS i
            PATTERN (A) DEFINE A AS {condition})"""
        with pytest.raises(errors.UnsupportedFunctionError):
            rows(spark, text)


# -- random TRY ----------------------------------------------------------------------------------

COLUMNS = int(os.environ.get("ENSUE_TRIES", "60"))
DATA = [(a, b, s) for a in (0, 1, -7, 2**31 - 1, None) for b, s in
        ((0, "5"), (-1, "x"), (3, None), (-(2**31), "-2147483649"))]  # fmt: skip


class _RaisedError(Exception):
    pass


def _bounded(value: int) -> int:
    if not -(2**31) <= value < 2**31:
        raise _RaisedError
    return value


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise _RaisedError
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _number(text: str) -> int:
    try:
        return _bounded(int(text))
    except ValueError:
        raise _RaisedError from None


def _strict(function: Any, *parts: Any) -> Any:
    """A raised part raises; then a null part gives null."""

    def value(row: Any) -> Any:
        given = [part(row) for part in parts]
        return None if None in given else function(*given)

    return value


def _random(chance: random.Random, depth: int) -> tuple[str, Any]:
    """An expression of type integer: its text, and what it is of a row."""
    if depth == 0 or chance.random() < 0.2:
        # No literals: Spark's optimizer moves them together, which changes where it overflows.
        kind = chance.choice("abs")
        if kind == "s":
            return "CAST(s AS integer)", _strict(_number, lambda row: row[2])
        return kind, lambda row: row["ab".index(kind)]
    (left, x), (right, y) = _random(chance, depth - 1), _random(chance, depth - 1)
    sign, function = chance.choice(
        [
            ("+", lambda p, q: _bounded(p + q)),
            ("-", lambda p, q: _bounded(p - q)),
            ("*", lambda p, q: _bounded(p * q)),
            ("%", _remainder),
        ]
    )
    return f"({left} {sign} {right})", _strict(function, x, y)


def test_random_tries_are_null_where_the_expression_raises(spark: Any) -> None:
    frame = spark.createDataFrame(
        [(n, *row) for n, row in enumerate(DATA)], "n INT, a INT, b INT, s STRING"
    )
    frame.coalesce(1).createOrReplaceTempView("tries")
    chance = random.Random(11)
    for begin in range(0, COLUMNS, 60):
        made = [_random(chance, chance.randint(1, 3)) for _ in range(60)]
        items = ", ".join(f"TRY({text}) AS c{n}" for n, (text, _) in enumerate(made))
        found = rows(spark, f"SELECT n, {items} FROM tries ORDER BY n")
        for (number, *values), row in zip(found, DATA, strict=True):
            for (text, definition), value in zip(made, values, strict=True):
                try:
                    wanted = definition(row)
                except _RaisedError:
                    wanted = None
                assert value == wanted, (begin, number, row, text)
