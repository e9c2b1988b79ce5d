"""`ensue.sql` over tables in process: the same answers as Spark's, and nothing else to be seen."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import ensue
from ensue import errors

duckdb = pytest.importorskip("duckdb", reason="the extra `sql` is not installed")

TICKS = pa.table(
    {
        "symbol": ["A"] * 5 + ["B"] * 4,
        "ts": [1, 2, 3, 4, 5, 1, 2, 3, 4],
        "price": [12, 9, 7, 8, 11, 5, 4, 6, 3],
    }
)
CLAUSE = """MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY ts
    MEASURES A.price AS top, LAST(B.price) AS low, COUNT(*) AS n
    PATTERN (A B+ C+) DEFINE B AS price < PREV(price), C AS price > PREV(price))"""
QUERY = f"SELECT symbol, top - low AS depth FROM ticks {CLAUSE} ORDER BY symbol"
ANSWER = [{"symbol": "A", "depth": 5}, {"symbol": "B", "depth": 1}]


def listed(found: Any) -> list[dict[str, Any]]:
    if isinstance(found, pl.LazyFrame):
        found = found.collect()
    if isinstance(found, pl.DataFrame):
        return found.to_dicts()
    return found.to_pylist() if isinstance(found, pa.Table) else found.to_dict("records")


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "lazy", "parquet", "csv"])
def test_every_kind_of_table_is_one(kind: str, tmp_path: Path) -> None:
    pq.write_table(TICKS, tmp_path / "t.parquet")
    pyarrow.csv.write_csv(TICKS, tmp_path / "t.csv")
    polars = pl.from_arrow(TICKS)
    assert isinstance(polars, pl.DataFrame)
    given: Any = {
        "arrow": TICKS,
        "pandas": TICKS.to_pandas(),
        "polars": polars,
        "lazy": polars.lazy(),
        "parquet": tmp_path / "t.parquet",
        "csv": str(tmp_path / "t.csv"),
    }[kind]
    found = ensue.sql(QUERY, ticks=given)
    assert type(found) is (pa.Table if kind in ("parquet", "csv") else type(given))
    assert listed(found) == ANSWER


def test_a_name_that_is_an_option_comes_in_a_mapping() -> None:
    text = QUERY.replace("ticks", "budget")
    assert listed(ensue.sql(text, tables={"budget": TICKS})) == ANSWER


def test_sql_stands_around_the_clause_and_below_it() -> None:
    names = pa.table({"symbol": ["A", "B"], "name": ["Acme", "Bolt"]})
    text = f"""
    WITH seen AS (SELECT * FROM ticks WHERE price > 3)
    SELECT n.name, sum(m.n) AS n FROM (SELECT * FROM seen {CLAUSE}) m
    JOIN names n ON n.symbol = m.symbol GROUP BY n.name ORDER BY n.name"""
    found = listed(ensue.sql(text, ticks=TICKS, names=names))
    assert [(row["name"], int(row["n"])) for row in found] == [("Acme", 5), ("Bolt", 3)]


def test_all_rows_and_all_matches() -> None:
    every = QUERY[: QUERY.index("MATCH")].replace("symbol, top - low AS depth", "*") + CLAUSE
    rows = every.replace("PATTERN", "ALL ROWS PER MATCH PATTERN")
    assert [row["ts"] for row in listed(ensue.sql(rows, ticks=TICKS))] == [1, 2, 3, 4, 5, 1, 2, 3]
    pairs = """SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts
        MEASURES COUNT(*) OVER ALL MATCHES AS n PATTERN (A B)
        DEFINE B AS price < PREV(price)) ORDER BY symbol"""
    assert [int(row["n"]) for row in listed(ensue.sql(pairs, ticks=TICKS))] == [2, 2]


def test_other_dialects_and_statements_without_a_pattern() -> None:
    text = QUERY.replace("SELECT symbol", 'SELECT "symbol"')
    assert listed(ensue.sql(text, dialect="trino", ticks=TICKS)) == ANSWER
    assert listed(ensue.sql("SELECT count(*) AS n FROM ticks", ticks=TICKS)) == [{"n": 9}]
    both = ensue.sql([QUERY, "SELECT max(ts) AS m FROM ticks"], ticks=TICKS)
    assert [listed(found) for found in both] == [ANSWER, [{"m": 5}]]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM SECRET",
        "SELECT * FROM other",
    ],
)
def test_only_the_tables_given_are_seen(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    SECRET = TICKS  # noqa: F841  a variable that DuckDB would find by name
    with pytest.raises(errors.EnsueError) as raised:
        ensue.sql(text, ticks=TICKS)
    assert "root:" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("SET enable_external_access = true", {}, "only queries run"),
        ("CREATE TABLE t AS SELECT 1", {}, "only queries run"),
        ("INSTALL httpfs", {}, "only queries run|not SQL"),
        (QUERY, {"dialct": "trino"}, "neither an option nor a table"),
        (QUERY, {"budget": ensue.Budget(work="10%")}, "a budget in SQL"),
        (QUERY, {"spark": object()}, "two places to run"),
        (QUERY, {"ensue_matches_1": TICKS}, "names that begin with"),
        (QUERY.replace("top - low", "tpo"), {}, "tpo"),
    ],
)
def test_what_is_refused(text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.EnsueError, match=message):
        ensue.sql(text, ticks=TICKS, **options)


def test_a_clause_without_an_order_is_warned_of_where_a_column_looks_like_time() -> None:
    clause = "MATCH_RECOGNIZE (MEASURES LAST(B.x) AS x PATTERN (A B) DEFINE B AS x > PREV(x))"
    timed = pa.table({"ts": [1, 2, 3], "x": [1, 2, 1]})
    with pytest.warns(errors.OrderWarning, match="no ORDER BY.*'ts' looks like time") as told:
        ensue.sql(f"SELECT * FROM t {clause} UNION ALL SELECT * FROM t {clause}", t=timed)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.OrderWarning)
        ensue.sql(f"SELECT * FROM t {clause}", t=timed.select(["x"]))
        ensue.sql(f"SELECT * FROM t {clause.replace('(MEAS', '(ORDER BY ts MEAS')}", t=timed)
