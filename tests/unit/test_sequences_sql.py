"""`COUNT(*) OVER ALL MATCHES`: aggregates over all matches of an event pattern, in SQL."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.front.sql import read_query
from ensue.run import local
from ensue.sequences.totals import Grouping

EVENTS = pa.table(
    {
        "user": ["u"] * 6 + ["v"] * 4,
        "id": [0, 1, 2, 3, 4, 5, 0, 1, 2, 3],
        "kind": list("ABXBCC") + list("ABBC"),
        "x": [1, 2, 3, 4, 5, 6, 1, 5, 2, 9],
    }
)
TEXT = """SELECT * FROM events MATCH_RECOGNIZE (
    PARTITION BY user ORDER BY id
    MEASURES {measures}
    {rows}
    PATTERN ({pattern}) WITHIN 4
    DEFINE A AS kind = 'A', B AS kind = 'B', C AS kind = 'C')"""


def text(
    measures: str = "COUNT(*) OVER ALL MATCHES AS n",
    pattern: str = "A ->> B+ ->> C",
    rows: str = "",
) -> str:
    return TEXT.format(measures=measures, pattern=pattern, rows=rows)


def test_the_clause_is_the_query_of_the_builder() -> None:
    asked = "COUNT(*) OVER ALL MATCHES AS n, SUM(B.x) OVER ALL MATCHES AS s"
    built = ensue.pattern("A ->> B+ ->> C").define(A="kind = 'A'", B="kind = 'B'", C="kind = 'C'")
    built = built.partition_by("user").order_by("id").within(4)
    query = read_query(text(asked))
    assert query == built.measures(n="COUNT(*)", s="SUM(B.x)").query
    found = local.totals(query, EVENTS, Grouping(by=query.partition_by)).to_pylist()
    expected = built.aggregate(EVENTS, by="user", n="count(*)", s="sum(B.x)").to_pylist()
    assert found == expected
    assert [row["n"] for row in found] == [3, 3]


def test_expressions_over_aggregates() -> None:
    query = read_query(text("SUM(B.x) OVER ALL MATCHES / COUNT(*) OVER ALL MATCHES AS r"))
    found = local.totals(query, EVENTS, Grouping(by=("user",))).to_pylist()
    sums = read_query(text("SUM(B.x) OVER ALL MATCHES AS s, COUNT(*) OVER ALL MATCHES AS n"))
    for row, parts in zip(
        found, local.totals(sums, EVENTS, Grouping(by=("user",))).to_pylist(), strict=True
    ):
        assert float(row["r"]) == pytest.approx(float(parts["s"] / parts["n"]))


def test_a_blank_is_the_next_row_and_no_match_excludes_another() -> None:
    query = read_query(text(pattern="A B+ C?"))
    assert not query.row_semantics
    table = pa.table({"user": ["u"] * 3, "id": [0, 1, 2], "kind": list("ABB"), "x": [1, 1, 1]})
    assert local.totals(query, table, Grouping(by=("user",))).to_pylist()[0]["n"] == 2


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (text("COUNT(*) OVER ALL MATCHES AS n, LAST(B.x) AS l"), "l is about a single match"),
        (text("COUNT(*) OVER ALL MATCHES AS n, SUM(B.x) AS s"), "s is about a single match"),
        (text(rows="ALL ROWS PER MATCH"), "gives one row per partition"),
        (text("COUNT(*) AS n"), "not part of SQL's PATTERN"),
    ],
)
def test_refused(given: str, problem: str) -> None:
    with pytest.raises(errors.EnsueError, match=problem) as caught:
        read_query(given)
    assert caught.value.place is not None


def test_what_needs_a_listing_is_refused() -> None:
    query = read_query(text("COLLECT_SET(B.x) OVER ALL MATCHES AS d"))
    with pytest.raises(errors.UnsupportedFunctionError, match="without listing them"):
        local.totals(query, EVENTS, Grouping(by=("user",)))
