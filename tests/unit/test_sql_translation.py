"""Other dialects in Spark's SQL: nothing of a statement is lost, or it is refused by name."""

from __future__ import annotations

import os
import random
import re
from typing import Any

import pytest
from sqlglot import exp

from ensue import errors
from ensue.front import window_clause
from ensue.front.statement import parse_statement
from ensue.front.translate import spark_sql

CASES = int(os.environ.get("ENSUE_TRANSLATIONS", "300"))


def translated(text: str, dialect: str) -> str:
    return spark_sql(parse_statement(text, dialect), text, dialect)


# What a dialect writes, and what Spark has to be given for the same answer; None: a refusal.
# Nulls sort last in Trino, Snowflake and Oracle, but first with DESC in the latter two.
EVERYWHERE = [
    ("count(DISTINCT a)", "COUNT(DISTINCT a)"),
    ("sum(a) FILTER (WHERE b > 1)", "SUM(a) FILTER(WHERE b > 1)"),
    ("a LIKE 'x!%' ESCAPE '!'", "a LIKE 'x!%' ESCAPE '!'"),
    ("CAST(a AS INT)", "CAST(a AS INT)"),
    ("TRY_CAST(a AS INT)", "TRY_CAST(a AS INT)"),
    ("TRY(CAST(a AS INT) + TRY_CAST(b / c AS INT))",
     "(TRY_ADD(TRY_CAST(a AS INT), TRY_CAST(TRY_DIVIDE(b, c) AS INT)))"),
    ("max(a) OVER (PARTITION BY b)", "MAX(a) OVER (PARTITION BY b)"),
    ("CASE WHEN a > 1 THEN 2 END", "CASE WHEN a > 1 THEN 2 END"),
    ("lag(a, 2) IGNORE NULLS OVER (PARTITION BY b ORDER BY c DESC NULLS LAST)",
     "LAG(a, 2) IGNORE NULLS OVER (PARTITION BY b ORDER BY c DESC)"),
    ("sum(a) OVER (ORDER BY b NULLS FIRST ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
     "SUM(a) OVER (ORDER BY b ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"),
    ("max(a, 3)", None),
    ("a AT TIME ZONE 'UTC'", None),
]  # fmt: skip
OWN: dict[str, list[tuple[str, str | None]]] = {
    "trino": [
        ("TRY(a / b)", "(TRY_DIVIDE(a, b))"),
        ("TRY(CAST(a AS INT))", "(TRY_CAST(a AS INT))"),
        ("TRY(a + b * c)", "(TRY_ADD(a, TRY_MULTIPLY(b, c)))"),
        ("TRY(a % b) > TRY(a - b)", "(TRY_MOD(a, b)) > (TRY_SUBTRACT(a, b))"),
        ("TRY(a = 1)", "(a = 1)"),
        ("TRY(COALESCE(a / b, 1))", None),
        ("TRY(sqrt(a))", None),
        ("listagg(a, ',') WITHIN GROUP (ORDER BY b)",
         "LISTAGG(a, ',') WITHIN GROUP (ORDER BY b NULLS LAST)"),
        ("listagg(a, ',' ON OVERFLOW TRUNCATE) WITHIN GROUP (ORDER BY b)", None),
        ("array_agg(a ORDER BY b)", None),
        ("max_by(a, b, 3)", None),
        ("date_add('day', a, b)", "((b) + MAKE_INTERVAL(0, 0, 0, a))"),
        ("DECIMAL '1.50'", "1.50"),
        ("CAST(a AS DECIMAL)", "CAST(a AS DECIMAL(38, 0))"),
        ("truncate(a, 2)", None),
        ("random(1, 3)", None),
        ("TIME '01:00'", None),
        ("regexp_like(a, 'x')", "a RLIKE 'x'"),
        ("sum(a) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES)", None),
    ],
    "snowflake": [
        ("TRY_TO_DATE(a)", "TRY_CAST(a AS DATE)"),
        ("TRY_TO_DATE('x')", "TRY_CAST('x' AS DATE)"),
        ("TRY_TO_TIMESTAMP('x')", "TRY_CAST('x' AS TIMESTAMP)"),
        ("TRY_TO_DOUBLE(a)", "TRY_CAST(a AS DOUBLE)"),
        ("TRY_TO_NUMBER(a)", None),
        ("TRY_TO_BOOLEAN(a)", None),
        ("REGEXP_LIKE(a, 'x', 'i')", r"a RLIKE '\\A(?i)(?:x)\\z'"),
        ("REGEXP_REPLACE(a, 'x', 'y', 1, 2)", None),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a DESC)",
         "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a DESC)"),
        ("DATEADD(day, 1, a)", "((a) + MAKE_INTERVAL(0, 0, 0, 1))"),
        ("DATEDIFF(hour, a, b)", "DATEDIFF(HOUR, DATE_TRUNC('HOUR', a), DATE_TRUNC('HOUR', b))"),
        ("NTH_VALUE(a, 2) FROM LAST OVER (ORDER BY b)", None),
        ("a::NUMBER", "CAST(a AS DECIMAL(38, 0))"),
        ("TRUNC(a, 2)", None),
    ],
    "oracle": [
        ("CAST(a AS NUMBER)", None),
        ("CAST(a AS NUMBER(10, 2))", "CAST(a AS DECIMAL(10, 2))"),
        ("LISTAGG(DISTINCT a, ',') WITHIN GROUP (ORDER BY b DESC)",
         "LISTAGG(DISTINCT a, ',') WITHIN GROUP (ORDER BY b DESC NULLS FIRST)"),
        ("PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY a)",
         "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY a)"),
        ("REGEXP_LIKE(a, 'x', 'i')", "a RLIKE '(?i)x'"),
        ("REGEXP_LIKE(a, 'x', 'n')", None),
        ("INSTR(a, 'x', 1, 2)", None),
        ("TO_CHAR(a, 'YYYY-MM-DD')", None),
    ],
    "flink": [
        ("COUNT(DISTINCT a) FILTER (WHERE b > 1)", "COUNT(DISTINCT a) FILTER(WHERE b > 1)"),
        ("TRUNCATE(a, 2)", None),
    ],
    "duckdb": [
        ("a // b", "a DIV b"),
        ("a::DECIMAL", "CAST(a AS DECIMAL(18, 3))"),
        ("arg_max(a, b)", "MAX_BY(a, b)"),
        ("arg_max(a, b, 3)", None),
        ("regexp_matches(a, 'x')", "a RLIKE 'x'"),
        ("string_agg(a, ',' ORDER BY b)", "LISTAGG(a, ',') WITHIN GROUP (ORDER BY b NULLS LAST)"),
        ("array_agg(a ORDER BY b)", None),
    ],
    "bigquery": [
        ("DIV(a, b)", "a DIV b"),
        ("SAFE_DIVIDE(a, b)", "TRY_DIVIDE(a, b)"),
        ("SAFE_CAST(a AS INT64)", "TRY_CAST(a AS BIGINT)"),
        ("CAST(a AS NUMERIC)", "CAST(a AS DECIMAL(38, 9))"),
        ("CAST(a AS BIGNUMERIC)", None),
        ("REGEXP_CONTAINS(a, r'x')", "a RLIKE 'x'"),
        ("COUNTIF(a > 1)", "COUNT_IF(a > 1)"),
        ("DATE_DIFF(a, b, WEEK)", None),
    ],
    "spark": [
        ("date_add(a, 1)", "DATE_ADD(a, 1)"),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a)",
         "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a)"),
    ],
}  # fmt: skip
TAILS: list[tuple[str, str | None]] = [
    ("", ""),
    (" LIMIT 3", " LIMIT 3"),
    (" OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY", " LIMIT 3 OFFSET 2"),
    (" FETCH FIRST 3 ROWS WITH TIES", None),
    (" FETCH FIRST 3 PERCENT ROWS ONLY", None),
]
KEYS = {
    "trino": [("a", "a NULLS LAST"), ("a DESC", "a DESC"), ("a NULLS FIRST", "a")],
    "snowflake": [("a", "a NULLS LAST"), ("a DESC", "a DESC NULLS FIRST")],
    "oracle": [("a", "a NULLS LAST"), ("a DESC", "a DESC NULLS FIRST")],
    "duckdb": [("a", "a NULLS LAST"), ("a DESC", "a DESC"), ("a NULLS FIRST", "a")],
    "bigquery": [("a", "a"), ("a DESC", "a DESC")],
    "flink": [("a", "a"), ("a DESC", "a DESC")],
    "spark": [("a", "a"), ("a NULLS LAST", "a NULLS LAST")],
}


def test_random_statements_keep_every_part_or_are_refused() -> None:
    chance = random.Random(7)
    for _ in range(CASES):
        dialect = chance.choice(list(OWN))
        parts = chance.choices([*EVERYWHERE, *OWN[dialect], *OWN[dialect]], k=chance.randint(1, 3))
        key, tail = chance.choice(KEYS[dialect]), chance.choice(TAILS)
        distinct = chance.choice(["", "DISTINCT "])
        items = ", ".join(f"{text} AS c{n}" for n, (text, _) in enumerate(parts))
        text = f"SELECT {distinct}{items} FROM t WHERE a > 1 ORDER BY {key[0]}{tail[0]}"
        if tail[1] is None or any(part is None for _, part in parts):
            with pytest.raises(errors.UnsupportedFunctionError) as problem:
                translated(text, dialect)
            assert problem.value.column is not None, text
            assert problem.value.remedy, text
            continue
        wanted = ", ".join(f"{part} AS c{n}" for n, (_, part) in enumerate(parts))
        expected = f"SELECT {distinct}{wanted} FROM t WHERE a > 1 ORDER BY {key[1]}{tail[1]}"
        assert translated(text, dialect) == expected, (dialect, text)


# What is rewritten inside something that is rewritten: the inner one is no less exact.
HOLDERS: dict[str, list[tuple[str, str]]] = {
    "trino": [
        ("date_add('day', 1, {})", "(({}) + MAKE_INTERVAL(0, 0, 0, 1))"),
        ("CAST({} AS DECIMAL)", "CAST({} AS DECIMAL(38, 0))"),
        ("TRY(1 + ({}))", "(TRY_ADD(1, ({})))"),
        ("TRY(CAST({} AS INT))", "(TRY_CAST({} AS INT))"),
    ],
    "snowflake": [
        ("DATEADD(day, 1, {})", "(({}) + MAKE_INTERVAL(0, 0, 0, 1))"),
        ("DATEDIFF(hour, {}, b)", "DATEDIFF(HOUR, DATE_TRUNC('HOUR', {}), DATE_TRUNC('HOUR', b))"),
        ("REGEXP_LIKE({}, 'x')", r"{} RLIKE '\\A(?:x)\\z'"),
        ("TRY_TO_DATE({})", "TRY_CAST({} AS DATE)"),
    ],
}
HELD = {
    "trino": [
        ("TRY(a / b)", "(TRY_DIVIDE(a, b))"),
        ("DECIMAL '1.50'", "1.50"),
        ("TRY_CAST(a AS INT)", "TRY_CAST(a AS INT)"),
        ("COALESCE(TRY(a / b), 1)", "COALESCE((TRY_DIVIDE(a, b)), 1)"),
    ],
    "snowflake": [
        ("TRY_TO_DATE(a)", "TRY_CAST(a AS DATE)"),
        ("DATEADD(day, 2, a)", "((a) + MAKE_INTERVAL(0, 0, 0, 2))"),
        ("TRY_TO_DOUBLE(a)", "TRY_CAST(a AS DOUBLE)"),
        ("a::NUMBER", "CAST(a AS DECIMAL(38, 0))"),
    ],
}


@pytest.mark.parametrize("dialect", HOLDERS)
def test_what_is_rewritten_inside_another_is_as_exact_as_alone(dialect: str) -> None:
    for holder, around in HOLDERS[dialect]:
        for held, alone in HELD[dialect]:
            text = f"SELECT {holder.format(held)} FROM t"
            assert translated(text, dialect) == f"SELECT {around.format(alone)} FROM t", text
    twice = translated("SELECT date_add('day', 1, date_add('day', 2, a)) FROM t", "trino")
    one = "((a) + MAKE_INTERVAL(0, 0, 0, 2))"
    assert twice == f"SELECT (({one}) + MAKE_INTERVAL(0, 0, 0, 1)) FROM t"


@pytest.mark.parametrize(
    ("dialect", "text", "column"),
    [
        ("trino", "SELECT 1, TRY(sqrt(a)) FROM t", 11),
        ("trino", "SELECT x FROM t CROSS JOIN UNNEST(a) WITH ORDINALITY AS u(x, n)", 35),
        ("trino", "SELECT x FROM t LEFT JOIN UNNEST(a) AS u(x) ON true", 34),
        ("trino", "SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES", 40),
        ("oracle", "SELECT t.a FROM t, u WHERE t.a = u.a (+)", 34),
    ],
)
def test_a_refusal_points_at_what_is_lost(dialect: str, text: str, column: int) -> None:
    with pytest.raises(errors.UnsupportedFunctionError) as problem:
        translated(text, dialect)
    assert (problem.value.line, problem.value.column) == (1, column)


# -- what is read over a pattern, inside something else ------------------------------------------

PATTERN = """(ORDER BY id MEASURES LAST(v) AS m ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    PATTERN (A B+) DEFINE B AS v < PREV(v))"""
AGGREGATES = ["max({})", "count(DISTINCT {})", "first({})", "try_sum({})", "any({} > 1)",
              "sum(CASE WHEN {} > 1 THEN 2 END)", "listagg(CAST({} AS STRING))",
              "count(*) FILTER (WHERE {} > 1)", "1 + max(abs({}))"]  # fmt: skip
WINDOWS = ["max({}) OVER ()", "sum(v) OVER (ORDER BY {})", "rank() OVER (PARTITION BY {})"]
PLACES = [
    "SELECT id, {} AS x FROM t WINDOW w AS @",
    "SELECT id FROM t WINDOW w AS @ ORDER BY {}",
    "SELECT id FROM t WINDOW w AS @ QUALIFY {} > 1",
    "SELECT v, {} AS x FROM t GROUP BY v WINDOW w AS @",
    "SELECT DISTINCT {} AS x FROM t WINDOW w AS @",
    "WITH c AS (SELECT {} AS x FROM t WINDOW w AS @) SELECT * FROM c",
    "SELECT * FROM (SELECT {} AS x FROM t WINDOW w AS @) s WHERE x > (SELECT 1)",
    "SELECT (SELECT {} AS x FROM t WINDOW w AS @) AS y",
]


def taken(text: str) -> Any:
    select = window_clause.next_select(parse_statement(text))
    assert select is not None
    return window_clause.take_apart(select, "spark")


@pytest.mark.parametrize("place", PLACES)
def test_no_aggregate_and_no_window_function_holds_a_pattern_window(place: str) -> None:
    for wrapper in [*AGGREGATES, *WINDOWS]:
        for read in ("m OVER w", "sum(v) OVER w", f"m OVER {PATTERN}"):
            text = place.replace("@", PATTERN).format(wrapper.format(read))
            with pytest.raises(errors.QueryError, match="stands inside") as problem:
                taken(text)
            said = problem.value
            assert ("window function" in said.problem) == (wrapper in WINDOWS), text
            assert "sub-query" in said.remedy
            line = text.splitlines()[(said.line or 1) - 1]
            assert re.match(r"m OVER|sum\(v\) OVER", line[(said.column or 1) - 1 :]), text


@pytest.mark.parametrize(
    ("text", "below", "above"),
    [
        (
            "SELECT k, count(*) AS n, m OVER w AS m FROM t GROUP BY k HAVING n > 1",
            "SELECT k AS `k`, COUNT(*) AS `_ensue_group_2` FROM t GROUP BY k HAVING (COUNT(*)) > 1",
            "SELECT `k` AS `k`, `_ensue_group_2` AS n, `_ensue_over_1` AS m",
        ),
        (
            "SELECT upper(t.k), sum(sum(v)) OVER () AS s, m OVER w AS m FROM t CROSS JOIN u "
            "GROUP BY 1",
            "SELECT UPPER(t.k) AS `_ensue_group_1`, SUM(v) AS `_ensue_group_2`, "
            "COUNT(*) AS `_ensue_group_3` FROM t CROSS JOIN u GROUP BY UPPER(t.k)",
            "SELECT `_ensue_group_1` AS `upper(t.k)`, SUM(`_ensue_group_2`) OVER () AS s, "
            "`_ensue_over_1` AS m",
        ),
        (
            "SELECT max(v) AS v, m OVER w AS m FROM t GROUP BY ROLLUP(k) ORDER BY count(*)",
            "SELECT k AS `k`, MAX(v) AS `_ensue_group_2`, COUNT(*) AS `_ensue_group_3` FROM t "
            "GROUP BY ROLLUP (k)",
            "SELECT `_ensue_group_2` AS v, `_ensue_over_1` AS m",
        ),
    ],
)
def test_a_window_sees_the_rows_that_grouping_leaves(text: str, below: str, above: str) -> None:
    pattern = """(ORDER BY count(*) MEASURES LAST(k) AS m
        ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+))"""
    head, order, rest = text.partition(" ORDER BY")
    found = taken(f"{head} WINDOW w AS {pattern}{order}{rest}")
    inner = found.below.args["from_"].this
    assert isinstance(found.below.expressions[0], exp.Star)
    assert inner.this.sql("spark") == below
    assert found.select.sql("spark").startswith(above)
    assert inner.alias == found.alias == "_ensue_groups"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT v, m OVER w FROM t GROUP BY k", "v is neither a key"),
        ("SELECT *, m OVER w FROM t GROUP BY k", r"\* stands beside"),
        ("SELECT k, m OVER w FROM t GROUP BY ALL", "GROUP BY ALL"),
        ("SELECT k, m OVER w FROM t GROUP BY 7", "GROUP BY 7 is beyond"),
    ],
)
def test_what_a_grouped_window_cannot_read(text: str, problem: str) -> None:
    with pytest.raises(errors.QueryError, match=problem) as raised:
        taken(f"{text} WINDOW w AS {PATTERN}")
    assert raised.value.line == 1


def test_what_is_no_aggregate_may_hold_a_pattern_window() -> None:
    for wrapper in ("abs({})", "CASE WHEN {} > 1 THEN 2 END", "{} + 1", "coalesce({}, 1)"):
        for place in PLACES:
            if "GROUP BY" not in place:
                taken(place.replace("@", PATTERN).format(wrapper.format("m OVER w")))
    taken(f"SELECT max(v) OVER w AS a, max(v) OVER () AS b FROM t WINDOW w AS {PATTERN}")
    taken(f"SELECT v = ANY (SELECT 1) AS a, m OVER w AS b FROM t WINDOW w AS {PATTERN}")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM t WHERE m OVER @ > 1",
        "SELECT id FROM t GROUP BY m OVER @",
        "SELECT t.id FROM t JOIN u ON u.id = m OVER @",
        "SELECT id FROM t GROUP BY id HAVING m OVER @ > 1",
        "SELECT id FROM t ORDER BY id LIMIT m OVER @",
    ],
)
def test_a_pattern_window_stands_in_select_order_by_and_qualify_only(text: str) -> None:
    text = text.replace("@", PATTERN)
    with pytest.raises(
        errors.QueryError, match=r"stands in (WHERE|GROUP BY|ON|HAVING|LIMIT):"
    ) as problem:
        parse_statement(text)
    assert problem.value.column == text.splitlines()[0].index("m OVER") + 1
