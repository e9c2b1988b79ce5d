"""Why a pattern did not match, on a batch DataFrame: the answers of `run/why.py`.

Spark computes what the conditions read of a row and shuffles by key; a worker explains whole
partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.operator.as_of import LATEST, time_for
from ensue.operator.notices import Notices
from ensue.operator.protocol import Events
from ensue.query.binding import bind, rename
from ensue.query.query import Query
from ensue.run import choose
from ensue.run.asked_rows import Expected
from ensue.run.lacking import Lacking, ways
from ensue.run.partition import key_of, no_rows
from ensue.run.spark.batch import input_columns, plain_names, with_time
from ensue.run.spark.keyed import arrow_schema, map_sorted, quoted
from ensue.run.spark.raised import own_errors
from ensue.run.spark.ship import shipped
from ensue.run.spark.versions import spark_schema
from ensue.run.why import expected, planned, traced
from ensue.sequences.totals import completed
from ensue.why.account import NEAREST, check
from ensue.why.funnel import FUNNEL, funnel, tallies, variables
from ensue.why.nearest import check as check_number
from ensue.why.nearest import nearest
from ensue.why.trace import Trace

MOST_ROWS = 1_000_000  # of a partition that is collected


def run(query: Query, df: DataFrame, per: str) -> DataFrame:
    """One row per partition, of its best failed attempt, or one per start row; lazy."""
    return _mapped(query, df, per, lambda answer: answer)


def run_funnel(query: Query, df: DataFrame) -> DataFrame:
    """How many attempts reach each variable: counted where the rows are, then added up."""
    counted = _mapped(query, df, "start", tallies)
    return gathered(counted, lambda parts: funnel(variables(query), parts), FUNNEL)


def run_nearest(query: Query, df: DataFrame, n: int) -> DataFrame:
    """The n attempts that lack least: those of each task, then of all."""
    check_number(n)
    queries = [] if df.isStreaming else ways(bind(query, df.columns))

    def best(answer: pa.Table) -> pa.Table:
        return nearest(query, [answer], n)

    if queries:
        found = _lacking(queries, df, n, best)
    else:
        found = _mapped(query, df, NEAREST, best)
    schema = arrow_schema(found)
    none = schema.empty_table()
    return gathered(found, lambda parts: nearest(query, [none, *parts], n), schema)


def _lacking(
    queries: list[Query], df: DataFrame, n: int, best: Callable[[pa.Table], pa.Table]
) -> DataFrame:
    check(queries[0], NEAREST)
    df, queries, plain = _plainly(queries, df)
    lacking = Lacking(queries, n)
    prepared = df.select(*input_columns(lacking.plan, df))
    found = lacking.nothing(arrow_schema(prepared)).schema

    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        stage = Lacking(queries, n)
        for events in completed(pieces):
            yield from map(best, stage.tables(events))

    return _named(map_sorted(prepared, lacking.plan.query, work, found), plain)


def gathered(
    found: DataFrame, made: Callable[[Iterable[pa.Table]], pa.Table], schema: pa.Schema
) -> DataFrame:
    """One table of all parts, in one task."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from made([pa.Table.from_batches([batch]) for batch in batches]).to_batches()

    return found.repartition(1).mapInArrow(shipped(work), spark_schema(schema))


def run_trace(query: Query, df: DataFrame, key: Any, limit: int, notices: Notices) -> pa.Table:
    """The steps through one partition, whose rows are collected."""
    steps = Trace(limit)
    asked, rows = _one_partition(query, df, key, "trace")
    return traced(asked, rows, steps, notices)


def run_expected(
    query: Query, df: DataFrame, wanted: Expected, key: Any, notices: Notices
) -> pa.Table:
    """The first rule that rows break which were expected to match."""
    asked, rows = _one_partition(query, df, key, "why")
    return expected(asked, rows, wanted, notices)


def _one_partition(query: Query, df: DataFrame, key: Any, verb: str) -> tuple[Plan, pa.Table]:
    """The plan, and what it reads of the rows of one partition, collected."""
    batch_only(df)
    wanted = key_of(bind(query, df.columns), key, verb)
    asked, prepared, _ = _prepared(query, of_key(df, wanted), "partition")
    return asked, collected(prepared, wanted, verb)


def of_key(df: DataFrame, wanted: Mapping[str, Any]) -> DataFrame:
    """The rows of one partition."""
    for name, value in wanted.items():
        df = df.where(F.col(quoted(name)).eqNullSafe(F.lit(value)))
    return df


def collected(prepared: DataFrame, wanted: Mapping[str, Any], verb: str) -> pa.Table:
    """The rows of one partition, here; not more than fit."""
    with own_errors():
        rows = prepared.limit(MOST_ROWS + 1).toArrow()
    if not rows.num_rows:
        raise no_rows(wanted)
    if rows.num_rows > MOST_ROWS:
        raise errors.LimitError(
            f"{verb}() collects one partition, and this one has more than {MOST_ROWS:,} rows",
            remedy="ask about a part of it: filter the DataFrame first",
        )
    return rows.combine_chunks()


def batch_only(df: DataFrame) -> None:
    if df.isStreaming:
        raise errors.UnsupportedError(
            "why() explains complete partitions, and those of a stream have no end",
            remedy="ask of the rows that arrived, as a batch DataFrame: spark.read",
        )


def _prepared(query: Query, df: DataFrame, per: str) -> tuple[Plan, DataFrame, dict[str, str]]:
    """The plan, what it reads of the rows, and the names that columns with a dot have there."""
    df, (query,), plain = _plainly([query], df)
    asked = planned(query, df.columns, per)
    return asked, df.select(*input_columns(asked, df)), plain


def _plainly(queries: list[Query], df: DataFrame) -> tuple[DataFrame, list[Query], dict[str, str]]:
    """With other names for columns with a dot, which are reported as well."""
    plain = plain_names(df.columns)
    if not plain:
        return df, queries, plain
    renamed = [rename(bind(query, df.columns), plain) for query in queries]
    return df.toDF(*(plain.get(name, name) for name in df.columns)), renamed, plain


def _named(answer: DataFrame, plain: dict[str, str]) -> DataFrame:
    """With the names that the user gave."""
    written = {safe: name for name, safe in plain.items()}
    return answer.toDF(*(written.get(name, name) for name in answer.columns))


def _mapped(
    query: Query, df: DataFrame, per: str, made: Callable[[pa.Table], pa.Table]
) -> DataFrame:
    batch_only(df)
    asked, prepared, plain = _prepared(query, df, per)
    waiting, now = time_for((asked.query,), LATEST)
    if waiting is not None:
        prepared = with_time(waiting, prepared, now)
    schema = arrow_schema(prepared)
    found = made(choose.attempts(asked, schema, per).nothing(schema)).schema

    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        attempts = choose.attempts(asked, schema, per)
        for events in completed(pieces):
            yield from map(made, attempts.tables(events))

    return _named(map_sorted(prepared, asked.query, work, found), plain)
