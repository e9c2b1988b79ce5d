"""Type checkers know which kind of table a verb gives; `mypy --strict` reads this file too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import ensue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = {"ts": [1, 2, 3], "kind": ["A", "B", "B"]}
QUERY = ensue.pattern("A -> B", types="kind").order_by("ts")
MANY = ensue.workload(ab=QUERY)


class Table:
    """What a table is to type checkers, of a package that has no types of its own."""

    columns: list[str]

    def join(self, other: Table, on: str) -> Table:
        raise NotImplementedError


def on_spark(frame: DataFrame, other: Table, unknown: Any) -> None:
    """Read by type checkers only."""
    assert_type(QUERY.matches(frame, emit="certain"), "DataFrame")
    assert_type(QUERY.aggregate(frame, by="kind", n="count(*)"), "DataFrame")
    assert_type(MANY.matches(frame, ensue.Budget(work=3)), "DataFrame")
    assert_type(QUERY.matches(other, limit=3), Table)
    assert_type(MANY.matches(other), Table)
    assert_type(QUERY.matches(unknown), Any)
    assert_type(ensue.begin("A").within(3).define(A="true").partition_by("k").matches(other), Table)


def test_polars_gives_polars() -> None:
    frame = pl.DataFrame(ROWS)
    assert isinstance(assert_type(QUERY.matches(frame), pl.DataFrame), pl.DataFrame)
    assert isinstance(assert_type(QUERY.matches(frame.lazy()), pl.LazyFrame), pl.LazyFrame)
    assert isinstance(assert_type(QUERY.aggregate(frame, n="count(*)"), pl.DataFrame), pl.DataFrame)
    assert isinstance(assert_type(MANY.matches(frame), pl.DataFrame), pl.DataFrame)


def test_pandas_gives_pandas() -> None:
    frame = pd.DataFrame(ROWS)
    assert isinstance(assert_type(QUERY.matches(frame), pd.DataFrame), pd.DataFrame)
    assert isinstance(assert_type(QUERY.aggregate(frame, n="count(*)"), pd.DataFrame), pd.DataFrame)
    assert isinstance(assert_type(MANY.matches(frame), pd.DataFrame), pd.DataFrame)


def test_arrow_and_files_give_arrow(tmp_path: Path) -> None:
    table = pa.table(ROWS)
    pq.write_table(table, tmp_path / "rows.parquet")
    for verb in (QUERY.matches, MANY.matches):
        assert isinstance(verb(table), pa.Table)
        assert isinstance(verb(tmp_path / "rows.parquet"), pa.Table)
        assert isinstance(verb(table.to_batches()[0]), pa.Table)
    assert isinstance(
        assert_type(QUERY.matches(str(tmp_path / "rows.parquet")), pa.Table), pa.Table
    )
