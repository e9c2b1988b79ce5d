"""Why a pattern did not match, on a batch DataFrame: the answers of `run/why.py`.

Spark computes what the conditions read of a row and shuffles by key; a worker explains whole
partitions.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from ensue import errors
from ensue.operator.protocol import Events
from ensue.query.binding import bind, rename
from ensue.query.query import Query
from ensue.run import choose
from ensue.run.spark.batch import input_columns, plain_names
from ensue.run.spark.keyed import arrow_schema, map_sorted
from ensue.run.why import planned
from ensue.sequences.totals import completed


def run(query: Query, df: DataFrame, per: str) -> DataFrame:
    """One row per partition, of its best failed attempt, or one per start row; lazy."""
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
    found = choose.attempts(asked, schema, per_start).nothing(schema).schema

    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        attempts = choose.attempts(asked, schema, per_start)
        for events in completed(pieces):
            yield from attempts.tables(events)

    answer = map_sorted(prepared, asked.query, work, found)
    written = {safe: name for name, safe in plain.items()}
    return answer.toDF(*(written.get(name, name) for name in answer.columns))
