"""Statements that are strange and legal: over a plain clause the answers are the oracle's."""

from __future__ import annotations

import itertools
import warnings
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue.front.sql import read_query
from ensue.run import local
from tests import oracle

pytest.importorskip("duckdb", reason="the extra `sql` is not installed")

DAY = datetime(2024, 2, 28, 23, 59)
ROWS: list[dict[str, Any]] = [
    {
        "k": "ab"[n % 2],
        "id": n,
        "v": [3, 1, 2, None, 5, 4, 4, 0, 6, 2][n],
        "ts": DAY + timedelta(minutes=n * n),
        "Größe": "xyx"[n % 3],
        "d": Decimal(n) / 4,
    }
    for n in range(10)
]
TABLE = pa.Table.from_pylist(ROWS).set_column(
    5, "d", pa.array([row["d"] for row in ROWS], pa.decimal128(10, 2))
)
ROWS = TABLE.to_pylist()

PATTERNS = [
    "A B+ C?", "A*? B", "(A | B)+ C??", "A{2}", "A{,2} B", "(A B | B A)*", "PERMUTE(A, B, C)",
    "PERMUTE(A+, (B | C))", "A {- B+ -} C", "{- A -}+ B", "^ A B*", "(A | B)* $", "^ A* $", "()",
    "(() | A) B", "A?? B?", "((A?)*)* B", "(A | A B){1,2}? C", "{- (A | {- B -})+ -} C",
    "(^ A | B $)+",
]  # fmt: skip
SKIPS = ["PAST LAST ROW", "TO NEXT ROW", "TO LAST A", "TO FIRST U"]
ROWS_PER_MATCH = [
    "ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
]  # fmt: skip
DEFINE = "A AS v > 1 OR PREV(v) IS NULL, B AS v <= COALESCE(PREV(v), 9), C AS COUNT(*) < 5"
MEASURES = "MATCH_NUMBER() AS n, CLASSIFIER() AS c, COUNT(U.*) AS u, FINAL LAST(id) AS last"
# Measures and definitions; each stands for itself and over B of `A B+`.
EXPRESSIONS = [
    "PREV(FIRST(B.v, 1), 2)", "NEXT(LAST(B.v, 1))", "PREV(v, 0)", "FIRST(v, 0)", "LAST(A.v, 99)",
    "NEXT(CLASSIFIER())", "PREV(CLASSIFIER(U))", "FIRST(CLASSIFIER(B), 1)", "CLASSIFIER(U)",
    "RUNNING LAST(B.id)", "FINAL FIRST(B.id)", "RUNNING COUNT(B.*)", "FINAL SUM(v)",
    "PREV(FINAL LAST(B.v))", "PREV(RUNNING FIRST(id, 1), 1)", "SUM(B.v * 2 + B.id)",
    "COUNT(DISTINCT U.v)", "ARRAY_AGG(CLASSIFIER())", "ARRAY_AGG(B.id || CLASSIFIER(B))",
    "MAX_BY(id, v)", "MIN_BY(B.v, B.id)", "BOOL_OR(v > 4)", "COUNT_IF(v IS NULL)",
    "SUM(v) FILTER (WHERE v > 1)", "COUNT(*) FILTER (WHERE CLASSIFIER() = 'B')",
    "LAST(B.v + B.id) - FIRST(A.id)", "B.id - A.id", "COUNT(A.v) + COUNT(B.v) - COUNT(*)",
    "CASE WHEN B.v > A.v THEN 'up' WHEN B.v IS NULL THEN NULL ELSE 'down' END",
    "COALESCE(LAST(B.v, 1), FIRST(A.v), -1)", "NULLIF(B.v, A.v)", "LAST(B.v) BETWEEN 1 AND 4",
    "B.v IN (1, 2, NULL)", "NOT (B.v IN (1, 2))", "B.v <=> A.v", "`Größe` LIKE 'x%'",
    "UPPER(LAST(`Größe`))",   "CAST(B.id AS STRING)",
    "B.d * 3", "B.d + B.id", "B.d / 4", "-B.d",

     "MATCH_NUMBER() * 10", "/* a */ B.v -- and\n + 1", "((((B.v))))",
    "1e3 + B.v", "0.1 + B.v", "'it''s ' || CLASSIFIER()", "TRUE AND (B.v > 1 OR NULL)",
    "IF(B.v > 1, B.v, A.v)", "GREATEST(B.v, A.v, 2)", "ABS(-5) + B.id % 3", "B.v / 2",
     "LAST(id) = FIRST(id) OR NEXT(v) IS NULL",
]  # fmt: skip
# What the oracle does not compute, with the values of the two partitions.
BEYOND: dict[str, list[Any]] = {
    "CAST(B.d AS INT)": [2, 2],
    "TRY_CAST('x' || B.id AS INT)": [None, None],
    "B.ts - A.ts > INTERVAL '1' MINUTE": [True, True],
    "B.ts + INTERVAL '1' DAY": [datetime(2024, 3, 1, 1, 3), datetime(2024, 3, 1, 1, 20)],
    "A.ts + INTERVAL '1 02:03' DAY TO MINUTE": [
        datetime(2024, 3, 1, 2, 2),
        datetime(2024, 3, 1, 2, 3),
    ],
    "B.ts > DATE '2024-02-29'": [True, True],
    "YEAR(B.ts) + DAY(B.ts)": [2053, 2053],
    "B.v / 0 > 1 AND false": [False, False],
    "MAX(B.v, 2)": [[6, 5], [4, 2]],
    "MIN_BY(B.id, B.v, 2)": [[2, 6], [7, 9]],
    "MAP_AGG(B.id, B.v)": [[(2, 2), (4, 5), (6, 4), (8, 6)], [(3, None), (5, 4), (7, 0), (9, 2)]],
    "MULTIMAP_AGG(B.k, B.v > 4)": [
        [("a", [False, True, False, True])],
        [("b", [None, False, False, False])],
    ],
}
SPELLINGS = [
    "order by id measures a.v as x pattern (a b) define b as b.v < a.v",
    'ORDER BY id DESC MEASURES A.v AS x PATTERN (A "b"+) DEFINE "b" AS v < PREV(v)',
    "ORDER BY id MEASURES `ä`.v AS `x y`, COUNT(`ä`.*) AS `select` PATTERN (A `ä`*) "
    "DEFINE `ä` AS v > 1",
    "ORDER BY v NULLS FIRST, id DESC MEASURES ARRAY_AGG(id) AS ids PATTERN (A+)",
    "ORDER BY v DESC NULLS LAST, id MEASURES ARRAY_AGG(id) AS ids PATTERN (A{3})",
    "ORDER BY id, id, ID MEASURES A.id AS x PATTERN (A)",
    "PARTITION BY k, `Größe` ORDER BY id ALL ROWS PER MATCH PATTERN (A+)",
    "PARTITION BY k ORDER BY id PATTERN (A B) DEFINE B AS true",
    "ORDER BY id MEASURES A.v AS x AFTER MATCH SKIP TO FIRST PATTERN (A FIRST) DEFINE A AS v > 2",
    "ORDER BY id MEASURES A.v AS x AFTER MATCH SKIP TO LAST LAST PATTERN (A LAST)",
    "ORDER BY id MEASURES COUNT(*) AS x PATTERN (A+) WITHIN 3",
    "ORDER BY id MEASURES COUNT(*) AS x PATTERN (A+) WITHIN 3 ROWS",
    "ORDER BY ts MEASURES COUNT(*) AS x PATTERN (A+) WITHIN INTERVAL '10' MINUTE",
    "ORDER BY ts MEASURES COUNT(*) AS x PATTERN (A B*) WITHIN '1 hour' SUBSET U = (A, B) "
    "DEFINE B AS COUNT(U.*) < 4",
    "ORDER BY id MEASURES A.v AS x PATTERN (A /* ( */ B -- )\n) DEFINE B AS v > 1",
    "ORDER BY id MEASURES running.v AS x PATTERN (running final) DEFINE final AS v > 1",
    "ORDER BY id MEASURES match.v AS x PATTERN (match pattern) DEFINE match AS v > 1",
]


def clauses() -> list[str]:
    found = []
    for number, (pattern, skip) in enumerate(itertools.product(PATTERNS, SKIPS)):
        rows = ROWS_PER_MATCH[number % 4 if "{-" not in pattern else number % 3]
        rest = "".join(f" | {name}" for name in "ABC" if name not in pattern)
        found.append(
            f"ORDER BY id MEASURES {MEASURES} {rows} AFTER MATCH SKIP {skip} "
            f"PATTERN (({pattern}){rest}) SUBSET U = (A, B) DEFINE {DEFINE}"
        )
    for number, value in enumerate(EXPRESSIONS):
        rows = ROWS_PER_MATCH[number % 3]
        found.append(
            f"PARTITION BY k ORDER BY id MEASURES {value} AS x {rows} PATTERN (A B+) "
            "SUBSET U = (A, B) DEFINE B AS v IS NULL OR v <> A.v"
        )
        if "FINAL" not in value and "NEXT(CLASS" not in value:
            found.append(
                f"ORDER BY id MEASURES COUNT(*) AS n PATTERN (A B+) SUBSET U = (A, B) "
                f"DEFINE B AS ({value}) IS NOT NULL"
            )
    return found + SPELLINGS


def outcome(answer: Any) -> Any:
    """Rows in any order, or the class of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = answer()
        except ensue.EnsueError as problem:
            return type(problem).__name__
    return sorted(repr([(name, plain(row[name])) for name in sorted(row)]) for row in found)


def plain(value: Any) -> Any:
    return value.normalize() if isinstance(value, Decimal) else value


@pytest.mark.parametrize("clause", clauses())
def test_a_strange_clause_gives_what_the_definition_says(clause: str) -> None:
    text = f"SELECT * FROM t MATCH_RECOGNIZE ({clause})"
    query = read_query(text)
    whole = clause in SPELLINGS  # the others go without the SQL around them, which costs more

    def answer() -> list[dict[str, Any]]:
        return (ensue.sql(text, t=TABLE) if whole else local.run(query, TABLE)).to_pylist()

    given = outcome(answer)
    assert given == outcome(lambda: oracle.run(query, ROWS).rows)


@pytest.mark.parametrize("value", BEYOND)
def test_values_that_the_oracle_does_not_compute(value: str) -> None:
    text = f"""SELECT x FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES {value} AS x
        PATTERN (A B+) DEFINE B AS v IS NULL OR v <> A.v) ORDER BY k"""
    found = ensue.sql(text, t=TABLE)["x"].to_pylist()
    assert [plain(given) for given in found] == BEYOND[value]
