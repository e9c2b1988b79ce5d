"""SQL text to queries: equal to the builder's, in every dialect, with errors at their place."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import ensue
from ensue import errors
from ensue.automaton.plan import plan
from ensue.front.clause import MatchTable
from ensue.front.sql import read_query, read_table
from ensue.front.statement import DIALECTS, parse_statement
from ensue.query.query import Query, Rows, Window, WindowKind
from ensue.query.sql import query_sql
from tests.generate import generated_case, query_texts
from tests.share import examples
from tests.specs import Case, cases


def clause(body: str, before: str = "SELECT * FROM ticks") -> str:
    return f"{before}\nMATCH_RECOGNIZE ({body})"


def test_sql_and_builder_give_the_same_query_and_program() -> None:
    text = clause(
        """
        PARTITION BY symbol ORDER BY ts, seq DESC NULLS LAST
        MEASURES FIRST(A.price) AS top, LAST(DOWN.price) AS bottom, COUNT(U.*) AS n
        ONE ROW PER MATCH
        AFTER MATCH SKIP TO LAST UP
        PATTERN (a down+? (up | flat){2,5} $)
        WITHIN INTERVAL '1' HOUR
        SUBSET u = (down, up)
        DEFINE down AS price < PREV(price), up AS up.price > PREV(up.price) AND SUM(up.volume) < 10
        """
    )
    built = (
        ensue.pattern("A DOWN+? (UP | FLAT){2,5} $")
        .subset(U="DOWN, UP")
        .define(DOWN="price < PREV(price)", UP="UP.price > PREV(UP.price) AND SUM(UP.volume) < 10")
        .partition_by("symbol")
        .order_by("ts", "seq DESC NULLS LAST")
        .measures(top="FIRST(A.price)", bottom="LAST(DOWN.price)", n="COUNT(U.*)")
        .after_match("to last UP")
        .within("1 hour")
    )
    query = read_query(text)
    assert query == built.query
    assert plan(query).program == built.program


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_clause_means_the_same_in_every_dialect(dialect: str) -> None:
    quote = '"' if dialect in ("trino", "snowflake", "oracle", "duckdb") else "`"
    text = clause(
        f"""
        PARTITION BY p ORDER BY ts NULLS FIRST
        MEASURES FINAL LAST(A.x) + 1 AS y, CLASSIFIER() AS c, PREV(FIRST(A.x, 1), 2) AS z,
                 MATCH_NUMBER() AS n, NEXT(x) AS w
        ALL ROWS PER MATCH OMIT EMPTY MATCHES
        AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A {quote}b{quote}* {{- C -}})
        SUBSET U = (A, {quote}b{quote})
        DEFINE A AS A.x > 1.5 AND kind = 'it''s', {quote}b{quote} AS COUNT(U.*) < 3
        """
    )
    expected = clause(
        """
        PARTITION BY p ORDER BY ts
        MEASURES FINAL LAST(A.x) + 1 AS y, CLASSIFIER() AS c, PREV(FIRST(A.x, 1), 2) AS z,
                 MATCH_NUMBER() AS n, NEXT(x) AS w
        ALL ROWS PER MATCH OMIT EMPTY MATCHES
        AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A `b`* {- C -})
        SUBSET U = (A, `b`)
        DEFINE A AS A.x > 1.5 AND kind = "it's", `b` AS COUNT(U.*) < 3
        """
    )
    if dialect in ("spark", "databricks", "flink"):
        text = text.replace("'it''s'", '"it\'s"')
    assert read_query(text, dialect) == read_query(expected)


@pytest.mark.parametrize(
    ("dialect", "ascending", "descending"),
    [
        ("spark", True, False),
        ("databricks", True, False),
        ("flink", True, False),
        ("trino", False, False),
        ("snowflake", False, True),
        ("oracle", False, True),
        ("duckdb", False, False),
        ("bigquery", True, False),
    ],
)
def test_nulls_sort_as_the_dialect_says(dialect: str, ascending: bool, descending: bool) -> None:
    query = read_query(clause("ORDER BY x, y DESC MEASURES x AS m PATTERN (A)"), dialect)
    assert [key.nulls_first for key in query.order_by] == [ascending, descending]


def test_names_a_dialect_has_of_its_own() -> None:
    standard = read_query(
        clause("ORDER BY ts MEASURES COUNT(*) AS n, NEXT(x, 2) AS a PATTERN (A) "
               "DEFINE A AS x < PREV(x)"), "snowflake"
    )  # fmt: skip
    own = read_query(
        clause("ORDER BY ts MEASURES MATCH_SEQUENCE_NUMBER() AS n, LEAD(x, 2) AS a PATTERN (A) "
               "DEFINE A AS x < LAG(x)"), "snowflake"
    )  # fmt: skip
    assert own == standard
    flink = read_query(clause("ORDER BY ts MEASURES MATCH_ROWTIME() AS t PATTERN (A)"), "flink")
    assert flink == read_query(clause("ORDER BY ts MEASURES LAST(ts) AS t PATTERN (A)"))
    window = read_query(
        clause("ORDER BY ts MEASURES x AS y PATTERN (A B) WITHIN INTERVAL '1' HOUR"), "flink"
    ).within
    assert window == Window(WindowKind.TIME, 3_600_000_000 - 1)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("INTERVAL '90' SECOND", Window(WindowKind.TIME, 90_000_000)),
        ("INTERVAL 2 MINUTES", Window(WindowKind.TIME, 120_000_000)),
        ("INTERVAL '1 day 2 hours'", Window(WindowKind.TIME, 26 * 3_600_000_000)),
        ("INTERVAL '1 02:30' DAY TO MINUTE", Window(WindowKind.TIME, 95_400_000_000)),
        ("500 ROWS", Window(WindowKind.ROWS, 500)),
        ("12.5", Window(WindowKind.NUMBER, 12.5)),
    ],
)  # fmt: skip
def test_within(text: str, window: Window) -> None:
    found = read_query(clause(f"ORDER BY ts MEASURES x AS y PATTERN (A) WITHIN {text}"))
    assert found.within == window


def test_rows_per_match_and_empty_bounds() -> None:
    for text, rows in [
        ("", Rows.ONE),
        ("ONE ROW PER MATCH", Rows.ONE),
        ("ALL ROWS PER MATCH", Rows.ALL_SHOW_EMPTY),
        ("ALL ROWS PER MATCH SHOW EMPTY MATCHES", Rows.ALL_SHOW_EMPTY),
        ("ALL ROWS PER MATCH OMIT EMPTY MATCHES", Rows.ALL_OMIT_EMPTY),
        ("ALL ROWS PER MATCH WITH UNMATCHED ROWS", Rows.ALL_WITH_UNMATCHED),
    ]:
        assert read_query(clause(f"MEASURES x AS y {text} PATTERN (A)")).rows is rows
    star = read_query(clause("MEASURES x AS y PATTERN (A*?)"))
    assert read_query(clause("MEASURES x AS y PATTERN (A{,}?)")) == star


# -- errors ---------------------------------------------------------------------------------------

REJECTED = [
    ("MEASURES FINAL PREV(A.x) AS y PATTERN (A)", "NavigationError", "FINAL"),
    ("MEASURES FINAL CLASSIFIER() AS y PATTERN (A)", "NavigationError", "FINAL"),
    ("MEASURES RUNNING UPPER(x) AS y PATTERN (A)", "NavigationError", "RUNNING"),
    ("MEASURES x AS y PATTERN (A) DEFINE A AS FINAL LAST(x) > 1", "NavigationError", "FINAL"),
    ("MEASURES LAST(PREV(x)) AS y PATTERN (A)", "NavigationError", "LAST"),
    ("MEASURES PREV(NEXT(x)) AS y PATTERN (A)", "NavigationError", "NEXT"),
    ("MEASURES SUM(LAST(A.x)) AS y PATTERN (A)", "NavigationError", "LAST"),
    ("MEASURES SUM(COUNT(A.x)) AS y PATTERN (A)", "NavigationError", "SUM"),
    ("MEASURES LAST(A.x + B.x) AS y PATTERN (A B)", "NavigationError", "LAST"),
    ("MEASURES LAST(A.x + x) AS y PATTERN (A B)", "NavigationError", "LAST"),
    ("MEASURES SUM(A.x + B.x) AS y PATTERN (A B)", "NavigationError", "SUM"),
    ("MEASURES MAX_BY(A.x, B.x) AS y PATTERN (A B)", "NavigationError", "MAX_BY"),
    ("MEASURES LAST(A.x || CLASSIFIER(B)) AS y PATTERN (A B)", "NavigationError", "LAST"),
    ("MEASURES LAST(1) AS y PATTERN (A)", "NavigationError", "LAST"),
    ("MEASURES LAST(x, -1) AS y PATTERN (A)", "NavigationError", "LAST"),
    ("MEASURES LAST(x, y) AS y PATTERN (A)", "NavigationError", "LAST"),
    ("MEASURES CLASSIFIER(Z) AS y PATTERN (A)", "UnknownVariableError", "Z"),
    ("MEASURES COUNT(Z.*) AS y PATTERN (A)", "UnknownVariableError", "Z"),
    ("MEASURES x AS y AFTER MATCH SKIP TO Q PATTERN (A)", "UnknownVariableError", "Q"),
    ("MEASURES x AS y PATTERN (A) SUBSET U = (A, Z)", "UnknownVariableError", "Z"),
    ("MEASURES x AS y PATTERN (A) SUBSET U = (A), V = (U)", "UnknownVariableError", "U)"),
    ("MEASURES x AS y PATTERN (A) SUBSET U = (A), U = (A)", "DuplicateNameError", "U = (A)"),
    ("MEASURES x AS y PATTERN (A) SUBSET A = (A)", "DuplicateNameError", "A)"),
    ("MEASURES x AS y PATTERN (A) DEFINE B AS true", "UnknownVariableError", "B AS"),
    ("MEASURES x AS y PATTERN (A) DEFINE A AS true, A AS false", "DuplicateNameError", "A AS f"),
    ("MEASURES x AS y PATTERN (A) SUBSET U = (A) DEFINE U AS true", "QueryError", None),
    ("MEASURES x AS y, z AS Y PATTERN (A)", "DuplicateNameError", "Y PATTERN"),
    (
        "MEASURES x AS y ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A {- B -})",
        "QueryError",
        "{-",
    ),
    ("MEASURES SUM(x) OVER (ORDER BY x) AS y PATTERN (A)", "NavigationError", None),
    ("MEASURES RAND() AS y PATTERN (A)", "NondeterministicError", None),
    ("MEASURES A.x IN (SELECT 1) OR LAST(A.x, 1) IN (SELECT 2) AS y PATTERN (A)",
     "NavigationError", None),
    ("PATTERN (A)", "QueryError", None),
    ("MEASURES x AS y PATTERN (A{3,1})", "PatternSyntaxError", "3,1"),
    ("MEASURES x AS y PATTERN (A{0})", "PatternSyntaxError", "0}"),
    ("MEASURES x AS y PATTERN (A | )", "PatternSyntaxError", None),
    ("MEASURES x AS y PATTERN (A -> B)", "PatternSyntaxError", "->"),
    ("MEASURES x AS y PATTERN A", "ConditionSyntaxError", "A)"),
    ("MEASURES x AS y DEFINE A AS true", "ConditionSyntaxError", "DEFINE"),
    ("MEASURES x PATTERN (A)", "ConditionSyntaxError", "PATTERN"),
    ("MEASURES x AS y PATTERN (A) DEFINE A true", "ConditionSyntaxError", "true"),
    ("MEASURES x AS y PATTERN (A) WITHIN INTERVAL '1' MONTH", "QueryError", None),
    ("MEASURES x AS y PATTERN (A) WITHIN INTERVAL '1' HOUR", "QueryError", None),
    ("PARTITION BY x + 1 MEASURES x AS y PATTERN (A)", "QueryError", "x + 1"),
    ("MEASURES ARRAY_AGG(x ORDER BY z) AS y PATTERN (A)", "UnsupportedFunctionError", None),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind", "mark"), REJECTED, ids=[r[0] for r in REJECTED])
def test_rejected_before_anything_runs(body: str, kind: str, mark: str | None) -> None:
    text = clause(body)
    with pytest.raises(errors.EnsueError) as caught:
        read_query(text)
    assert kind in [k.__name__ for k in type(caught.value).__mro__], caught.value
    assert caught.value.remedy
    assert caught.value.line == 2
    if mark is not None:
        shown = text.splitlines()[1][caught.value.column - 1 :]  # type: ignore[operator]
        assert shown.upper().startswith(mark.upper()), shown


def test_statements_that_are_not_one_query() -> None:
    for text, kind in [
        ("SELECT (", errors.ConditionSyntaxError),
        ("SELECT 1; SELECT 2", errors.ConditionSyntaxError),
        ("EXPLAIN SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))", errors.UnsupportedError),
        (
            "SELECT * FROM t, LATERAL (SELECT t.x) MATCH_RECOGNIZE (MEASURES x AS y PATTERN (A))",
            errors.UnsupportedError,
        ),
    ]:
        with pytest.raises(kind):
            parse_statement(text)
    with pytest.raises(errors.UnsupportedError):
        parse_statement("SELECT 1", "cobol")


# -- printing -------------------------------------------------------------------------------------


def _printable(case: Case) -> Query | None:
    try:
        query = case.query()
    except errors.EnsueError:
        return None
    if query.measures is None:
        query = replace(query, measures=())
    if not query.measures and not query.partition_by and not query.rows.all_rows:
        return None
    return query


@pytest.mark.parametrize("dialect", ["spark", "databricks", "flink"])
def test_spec_cases_print_and_read_back(dialect: str) -> None:
    for case in cases():
        query = _printable(case)
        if query is not None:
            assert read_query(query_sql(query, dialect=dialect), dialect) == query, str(case)


@settings(
    max_examples=examples(200),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(query_texts())
def test_random_queries_print_and_read_back(query_text: dict[str, Any]) -> None:
    query = _printable(generated_case(query_text, "id | kind\n0 | a"))
    if query is None:
        return
    for dialect in DIALECTS:
        text = query_sql(query, dialect=dialect)
        read = read_query(text, dialect)
        if dialect in ("spark", "databricks", "flink"):
            assert read == query, text
        # Elsewhere a function may come back under another name, but only once.
        assert read_query(query_sql(read, dialect=dialect), dialect) == read, text


def test_a_listing_prints_as_measures_and_event_patterns_are_refused() -> None:
    listed = read_query(ensue.pattern("A B+").order_by("ts").sql())
    assert [m.name for m in listed.measures or ()] == ["match_number", "first", "last", "labels"]
    with pytest.raises(errors.UnsupportedError, match="no SQL form"):
        ensue.pattern("A -> B").order_by("ts").sql()


def _long_statement(clauses: int) -> str:
    parts = [
        f"""m{i} AS (
          SELECT * FROM ticks MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY ts
            MEASURES FIRST(A.price) AS a, LAST(B.price) AS b, SUM(B.volume) AS v
            ONE ROW PER MATCH AFTER MATCH SKIP TO LAST B
            PATTERN (A B+ C{{1,{i % 10 + 1}}})
            DEFINE B AS price < PREV(price),
                   C AS price > PREV(price) AND SUM(C.volume) > {i}
          ) AS x
        )"""
        for i in range(clauses)
    ]
    tables = "\n".join(f"UNION ALL SELECT * FROM m{i}" for i in range(1, clauses))
    return "WITH " + ",\n".join(parts) + f"\nSELECT * FROM m0\n{tables}"


def _calls_to_read(text: str) -> int:
    """How many calls of Python functions reading and planning a statement takes: no clock."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        for node in parse_statement(text).find_all(MatchTable):
            plan(read_table(node).query)
    finally:
        sys.setprofile(None)
    return calls


def test_the_work_to_read_a_statement_grows_as_its_length() -> None:
    short, long = _long_statement(10), _long_statement(40)
    parse_statement(short)  # loads the grammar
    assert _calls_to_read(long) < 4.5 * _calls_to_read(short)
