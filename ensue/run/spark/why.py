"""Why a pattern did not match, on a batch DataFrame: the answers of `run/why.py`.

Spark computes what the conditions read of a row and shuffles by key; a worker explains whole
partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from ensue import errors
from ensue.operator.protocol import Events
from ensue.query.binding import bind, rename
from ensue.query.query import Query
from ensue.run import choose
from ensue.run.spark.batch import input_columns, plain_names
from ensue.run.spark.keyed import arrow_schema, map_sorted
from ensue.run.spark.ship import shipped
from ensue.run.spark.versions import spark_schema
from ensue.run.why import planned
from ensue.sequences.totals import completed
from ensue.why.funnel import FUNNEL, funnel, tallies


def run(query: Query, df: DataFrame, per: str) -> DataFrame:
    """One row per partition, of its best failed attempt, or one per start row; lazy."""
    return _mapped(query, df, per, lambda answer: answer)


def run_funnel(query: Query, df: DataFrame) -> DataFrame:
    """How many attempts reach each variable: counted where the rows are, then added up."""
    counted = _mapped(query, df, "start", tallies)

    def summed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [pa.Table.from_batches([batch]) for batch in batches]
        yield from funnel(query, parts).to_batches()

    return counted.repartition(1).mapInArrow(shipped(summed), spark_schema(FUNNEL))


def _mapped(
    query: Query, df: DataFrame, per: str, made: Callable[[pa.Table], pa.Table]
) -> DataFrame:
    if df.isStreaming:
        raise errors.UnsupportedError(
            "why() explains complete partitions, and those of a stream have no end",
            remedy="ask of the rows that arrived, as a batch DataFrame: spark.read",
        )
    plain = plain_names(df.columns)
    if plain:
        query = rename(bind(query, df.columns), plain)
        df = df.toDF(*(plain.get(name, name) for name in df.columns))
    asked = planned(query, df.columns, per)
    prepared = df.select(*input_columns(asked, df))
    schema = arrow_schema(prepared)
    per_start = per == "start"
    found = made(choose.attempts(asked, schema, per_start).nothing(schema)).schema

    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        attempts = choose.attempts(asked, schema, per_start)
        for events in completed(pieces):
            yield from map(made, attempts.tables(events))

    answer = map_sorted(prepared, asked.query, work, found)
    written = {safe: name for name, safe in plain.items()}
    return answer.toDF(*(written.get(name, name) for name in answer.columns))
