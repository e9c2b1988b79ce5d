"""`ensue.sql` on Spark: the clause anywhere a table may stand, Spark's own SQL around it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import ensue
from ensue import errors

PRICES = "(VALUES (1, 90), (2, 80), (3, 70), (4, 80), (5, 90), (6, 50), (7, 40), (8, 60)) t(id, v)"
VALLEY = "PATTERN (A B+ C+) DEFINE B AS v < PREV(v), C AS v > PREV(v)"


@pytest.fixture(scope="module", autouse=True)
def ticks(spark: Any) -> None:
    rows = [
        ("x", 1, 90), ("x", 2, 80), ("x", 3, 70), ("x", 4, 80), ("x", 5, 95),
        ("y", 1, 10), ("y", 2, 8), ("y", 3, 9), ("y", 4, 7), ("y", 5, 11), (None, 1, 3),
    ]  # fmt: skip
    spark.createDataFrame(rows, "s STRING, id INT, v INT").createOrReplaceTempView("ticks")


def rows(spark: Any, text: str, dialect: str = "spark") -> list[tuple[Any, ...]]:
    found = [tuple(row) for row in ensue.sql(text, spark=spark, dialect=dialect).collect()]
    return sorted(found, key=str)


def test_over_values_with_and_without_an_alias(spark: Any) -> None:
    text = f"""SELECT m.id, m.match, m.val, label FROM {PRICES} MATCH_RECOGNIZE (
        ORDER BY id MEASURES MATCH_NUMBER() AS match, RUNNING LAST(v) AS val, CLASSIFIER() AS label
        ALL ROWS PER MATCH {VALLEY}) AS m WHERE label <> 'B'"""
    expected = [(1, 1, 90, "A"), (4, 1, 80, "C"), (5, 1, 90, "C"), (6, 2, 50, "A"), (8, 2, 60, "C")]
    assert rows(spark, text, "trino") == expected
    bare = f"SELECT n FROM {PRICES} MATCH_RECOGNIZE (ORDER BY id MEASURES COUNT(*) AS n {VALLEY})"
    assert rows(spark, bare) == [(3,), (5,)]


def test_in_a_join_a_cte_and_a_subquery_with_column_aliases(spark: Any) -> None:
    text = f"""
        WITH base AS (SELECT s, id, v * 1 AS v FROM ticks WHERE s IS NOT NULL),
             valleys AS (
               SELECT * FROM base MATCH_RECOGNIZE (
                 PARTITION BY s ORDER BY id MEASURES MIN(v) AS low, COUNT(*) AS n {VALLEY}
               ) AS m(sym, low, n)
             ),
             names AS (SELECT 'x' AS sym, 'Ex' AS name UNION ALL SELECT 'y', 'Why')
        SELECT name, low, n, (SELECT MAX(k) FROM (
                 SELECT * FROM base MATCH_RECOGNIZE (MEASURES COUNT(*) AS k PATTERN (A+)) z)) AS top
        FROM valleys JOIN names USING (sym)
        ORDER BY name
    """
    assert rows(spark, text) == [("Ex", 70, 5, 10), ("Why", 8, 3, 10)]


def test_several_in_one_statement_and_one_over_another(spark: Any) -> None:
    text = """
        SELECT first.c, second.c, u.n FROM
          (VALUES (1), (2)) t(id) MATCH_RECOGNIZE (
            ORDER BY id MEASURES CLASSIFIER() AS c ALL ROWS PER MATCH PATTERN (A)) AS first,
          (VALUES 10) t(id) MATCH_RECOGNIZE (MEASURES CLASSIFIER() AS c PATTERN (b)) AS second,
          (SELECT * FROM ticks MATCH_RECOGNIZE (
             PARTITION BY s MEASURES COUNT(*) AS k PATTERN (A+)) AS inner_match
          ) MATCH_RECOGNIZE (ORDER BY k MEASURES COUNT(*) AS n PATTERN (A+)) AS u
    """
    assert rows(spark, text, "trino") == [("A", "B", 3), ("A", "B", 3)]


def test_layout_nulls_and_unmatched_rows(spark: Any) -> None:
    text = f"""SELECT * FROM ticks MATCH_RECOGNIZE (
        PARTITION BY s ORDER BY id DESC MEASURES CLASSIFIER() AS c
        ALL ROWS PER MATCH WITH UNMATCHED ROWS {VALLEY}) m"""
    found = ensue.sql(text, spark=spark)
    assert found.columns == ["s", "id", "c", "v"]
    assert (None, 1, None, 3) in [tuple(row) for row in found.collect()]


def test_subqueries_that_do_not_read_the_match(spark: Any) -> None:
    text = """SELECT s, a, b, c, d FROM ticks MATCH_RECOGNIZE (
        PARTITION BY s ORDER BY id
        MEASURES (SELECT 'k') AS a, LAST(A.v + (SELECT 1000)) AS b,
                 LAST(A.v) IN (1, 2) AS c, A.v IN (SELECT 95) AS d
        PATTERN (A+) DEFINE A AS v < (SELECT MAX(v) + 1 FROM ticks) AND EXISTS (SELECT 1))"""
    assert rows(spark, text) == [
        ("x", "k", 1095, False, True),
        ("y", "k", 1011, False, False),
        (None, "k", 1003, False, False),
    ]


def test_aggregates_over_variables(spark: Any) -> None:
    text = f"""SELECT * FROM {PRICES} MATCH_RECOGNIZE (
        ORDER BY id
        MEASURES ARRAY_AGG(v || CLASSIFIER()) AS labels, MAX_BY(id, v) AS top, MIN_BY(id, v) AS low,
                 COUNT(DISTINCT v) AS different, SUM(U.v * U.id + 1) AS total, AVG(B.v) AS mean,
                 COUNT(C.*) AS rises, COUNT_IF(v > 75) AS high
        PATTERN (A B+ C+) SUBSET U = (B, C)
        DEFINE B AS v < PREV(v) AND SUM(B.v) < 151, C AS v > PREV(v)) m"""
    assert rows(spark, text) == [
        (["50A", "40B", "60C"], 8, 7, 3, 762, 40.0, 1, 0),
        (["90A", "80B", "70B", "80C", "90C"], 5, 3, 3, 1144, 75.0, 2, 4),
    ]


def test_order_by_an_expression_is_hidden(spark: Any) -> None:
    text = f"""SELECT * FROM {PRICES} MATCH_RECOGNIZE (
        ORDER BY -t.id MEASURES FIRST(id) AS f ALL ROWS PER MATCH PATTERN (^A+ $)) m"""
    found = ensue.sql(text, spark=spark)
    assert found.columns == ["f", "id", "v"]
    assert {row.f for row in found.collect()} == {8}


def test_views_tables_and_plain_statements(spark: Any, tmp_path: Any) -> None:
    body = "FROM ticks MATCH_RECOGNIZE (PARTITION BY s MEASURES COUNT(*) AS n PATTERN (A+)) m"
    ensue.sql(f"CREATE OR REPLACE TEMP VIEW sizes AS SELECT * {body}", spark=spark)
    assert rows(spark, "SELECT SUM(n) FROM sizes") == [(11,)]
    assert rows(spark, "SELECT typeof(1 + 1), '{x}'") == [("int", "{x}")]
    assert rows(spark, f"SELECT '{{x}}', n {body} WHERE s = 'x'") == [("{x}", 5)]
    with pytest.raises(errors.UnsupportedError, match="permanent view"):
        ensue.sql(f"CREATE VIEW kept AS SELECT * {body}", spark=spark)
    assert not [t for t in spark.catalog.listTables() if "ensue" in t.name or "pyspark" in t.name]


def test_behind_the_fence_a_name_is_a_column(spark: Any) -> None:
    body = "FROM Ticks MATCH_RECOGNIZE (PARTITION BY s MEASURES COUNT(*) AS n PATTERN (A+)) m"
    fenced = {"spark": spark, "trust": "pattern", "reads": "ticks"}
    assert ensue.sql(f"SELECT max(m.n) AS most {body}", **fenced).collect()[0].most == 5
    assert ensue.sql(f"SELECT user AS x {body}", spark=spark).collect()[0].x
    spark.sql("DECLARE OR REPLACE VARIABLE hidden_word STRING DEFAULT 'x'")
    for name in ("user", "hidden_word", "session.hidden_word"):
        with pytest.raises(errors.UntrustedError, match="no column of the tables read"):
            ensue.sql(f"SELECT {name} AS n {body}", **fenced)


def test_the_active_session_is_used(spark: Any) -> None:
    spark.sql("SELECT 1").collect()
    assert ensue.sql("SELECT 2 AS two").collect()[0].two == 2
    with pytest.raises(errors.UnsupportedError, match="budget"):
        ensue.sql("SELECT 1", spark=spark, budget=ensue.Budget(work=10))


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (
            "SELECT * FROM ticks MATCH_RECOGNIZE (MEASURES A.nope AS x PATTERN (A)) m",
            errors.UnknownColumnError,
            "nope",
        ),
        (
            "SELECT * FROM ticks MATCH_RECOGNIZE (MEASURES Z.v AS x PATTERN (A)) m",
            errors.UnknownVariableError,
            "neither a pattern variable nor a column",
        ),
        (
            "SELECT * FROM ticks MATCH_RECOGNIZE (MEASURES v AS x PATTERN (A) DEFINE A AS v + 1)",
            errors.ColumnTypeError,
            "",
        ),
        (
            "SELECT * FROM (SELECT a.*, b.* FROM ticks a JOIN ticks b ON a.id = b.id) "
            "MATCH_RECOGNIZE (MEASURES v AS x PATTERN (A)) m",
            errors.UnknownColumnError,
            "ambiguous",
        ),
        (
            "SELECT * FROM (SELECT a.*, b.* FROM ticks a JOIN ticks b ON a.id = b.id) "
            "MATCH_RECOGNIZE (MEASURES MATCH_NUMBER() AS x ALL ROWS PER MATCH PATTERN (A)) m",
            errors.DuplicateNameError,
            "two columns",
        ),
        (
            "SELECT (SELECT MAX(n) FROM (SELECT * FROM ticks i WHERE i.s = o.s) MATCH_RECOGNIZE ("
            "MEASURES COUNT(*) AS n PATTERN (A+)) m) FROM ticks o",
            errors.UnsupportedError,
            "outer query",
        ),
    ],
)
def test_refused_with_a_place(spark: Any, text: str, kind: Any, words: str) -> None:
    with pytest.raises(kind) as caught:
        ensue.sql(text, spark=spark)
    assert words in str(caught.value)
    if words:
        assert caught.value.place is not None
        assert caught.value.remedy


def test_skip_to_a_missing_target_names_variable_and_row(spark: Any) -> None:
    for target, words in [("Z", "no row is labelled Z"), ("A", "first row")]:
        text = f"""SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY s ORDER BY id
            MEASURES COUNT(*) AS n AFTER MATCH SKIP TO {target} PATTERN (A Z?)
            DEFINE Z AS false)"""
        with pytest.raises(Exception, match=words) as caught:
            ensue.sql(text, spark=spark).collect()
        assert "starts at row 0" in str(caught.value)


def test_integers_divide_as_the_dialect_says(spark: Any) -> None:
    text = """SELECT a, b, c, d FROM ticks MATCH_RECOGNIZE (
        PARTITION BY s ORDER BY id
        MEASURES LAST(v) / 2 AS a, SUM(v) / COUNT(*) AS b, LAST(v) / 2.0 AS c,
                 FINAL LAST(v) / (COUNT(*) / 2) AS d
        PATTERN (A+)) AS m WHERE s = 'x'"""
    assert rows(spark, text, "trino") == [(47, 83, Decimal("47.5"), 47)]
    assert rows(spark, text) == [(47.5, 83.0, Decimal("47.5"), 38.0)]


def test_the_moment_of_the_statement_is_a_constant(spark: Any) -> None:
    text = """SELECT n FROM ticks MATCH_RECOGNIZE (
        MEASURES COUNT(*) AS n PATTERN (A+)
        DEFINE A AS CURRENT_TIMESTAMP() > TIMESTAMP '2020-01-01 00:00:00')"""
    assert rows(spark, text) == [(11,)]


def test_quoted_variables_of_flink(spark: Any) -> None:
    text = """SELECT T.a, T.b FROM ticks MATCH_RECOGNIZE (
        PARTITION BY s ORDER BY id MEASURES `A"`.id AS a, low.id AS b
        PATTERN (`A"` low low) DEFINE low AS v < LAST(v, 1)) AS T"""
    assert rows(spark, text, "flink") == [(1, 3)]
