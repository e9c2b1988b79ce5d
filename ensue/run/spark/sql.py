"""The Spark side of `ensue.sql`: texts to DataFrames, and clauses to matches.

Match tables are given to Spark SQL as DataFrames (`spark.sql(text, name=df)`), so no view is left
behind and Spark Connect runs the same code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegralType

from ensue import errors
from ensue.operator.as_of import time_for
from ensue.operator.budget import Budget
from ensue.query.query import Query
from ensue.run.spark import batch, workload
from ensue.run.spark.quiet import asking
from ensue.sequences.totals import Grouping
from ensue.shared.options import Sharing
from ensue.shared.row_budget import STATEMENTS

Frame = DataFrame
Session = SparkSession


def active_session() -> SparkSession:
    session = SparkSession.getActiveSession()
    if session is None:
        raise errors.UnsupportedError(
            "no Spark session is active",
            remedy="start one with SparkSession.builder.getOrCreate(), pass spark=, or give the "
            "tables, which are then matched in process: ensue.sql(text, events=table)",
        )
    return session


def frame(session: SparkSession, text: str, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Spark's answer to a text in which the names of `tables` stand for DataFrames."""
    if not tables:
        with asking():
            return session.sql(text)
    text = text.replace("{", "{{").replace("}", "}}")
    given: dict[str, Any] = {}
    for index, name in enumerate(sorted(tables, key=len, reverse=True)):
        given[f"table{index}"] = tables[name]
        text = text.replace(name, "{table" + str(index) + "}")
    with asking():
        return session.sql(text, **given)


def columns(session: SparkSession, table: str) -> list[str]:
    """Of a table of the session."""
    with asking():
        return session.table(table).columns


def input_frame(
    session: SparkSession, text: str, tables: Mapping[str, DataFrame], correlated: errors.EnsueError
) -> DataFrame:
    """The input of a clause; a column that only an outer query has raises `correlated`."""
    try:
        found = frame(session, text, tables)
        with asking():
            found.schema  # noqa: B018  Spark Connect analyses here
        return found
    except AnalysisException as problem:
        if "UNRESOLVED_COLUMN" not in str(problem):
            raise
        first = str(problem).strip().splitlines()[0]
        raise type(correlated)(
            f"{correlated.problem}: {first}", remedy=correlated.remedy, place=correlated.place
        ) from None


def match(
    query: Query,
    source: DataFrame,
    hidden: Sequence[str],
    budget: Budget | None = None,
    among: int = 1,
) -> DataFrame:
    """The matches of a clause, without the hidden columns its input was given.

    A budget is shared by `among` clauses.
    """
    if query.rows.all_rows:
        _distinct_names([name for name in source.columns if name not in hidden])
    if budget is not None:
        _no_stream(source, "a budget", "leave the budget out, or match a table")
        found = workload.rows("statement", query, source, Sharing(), STATEMENTS.read(budget), among)
    else:
        found = batch.run(query, source)
    return found.drop(*hidden) if hidden and query.rows.all_rows else found


def totals(query: Query, source: DataFrame, as_of: Any) -> DataFrame:
    """Aggregates OVER ALL MATCHES: one row per partition that has a match."""
    remedy = "use q.aggregate(stream, ...), which takes a stream's options (control= to close it)"
    _no_stream(source, "OVER ALL MATCHES", remedy)
    grouping = Grouping(by=query.partition_by)
    return batch.totals(query, source, grouping, time_for((query,), as_of)[1])


def _no_stream(source: DataFrame, what: str, remedy: str) -> None:
    if source.isStreaming:
        raise errors.UnsupportedError(
            f"{what} in SQL is for tables, not for streams", remedy=remedy
        )


def _distinct_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise errors.DuplicateNameError(
                f"the input has two columns {name!r}, and ALL ROWS PER MATCH shows both",
                remedy="name the columns of the input in a sub-query",
            )
        seen.add(name.casefold())


def integer_columns(source: DataFrame) -> frozenset[str]:
    """Names, in lower case, of the columns that hold integers."""
    return frozenset(
        field.name.casefold()
        for field in source.schema.fields
        if isinstance(field.dataType, IntegralType)
    )


def create_view(found: DataFrame, name: str, columns: Sequence[str], replace: bool) -> DataFrame:
    """A temporary view of matches; the answer of the statement is empty, as Spark's is."""
    if columns:
        found = found.toDF(*columns)
    if replace:
        found.createOrReplaceTempView(name)
    else:
        found.createTempView(name)
    return found.sparkSession.createDataFrame([], "status STRING").limit(0)
