"""Summaries on a batch DataFrame: one row per key with the answer, the retained events and metrics.

Spark computes which labels hold (any Spark function) as bits of one column, and the value that is
summed (`input_columns`, for streams as well); then one shuffle by key and one `mapInArrow` call per
task, as for row patterns. Keys are independent, so `budget` over all keys is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.operator.protocol import Events
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.query.sql import row_sql
from ensue.run import choose
from ensue.run.spark import batch
from ensue.run.spark.keyed import Work, arrow_schema, map_sorted, quoted
from ensue.summary import reading
from ensue.summary.batch import BITS, BatchSummaries
from ensue.summary.intake import VALUE
from ensue.summary.options import SummaryOptions, asked_total


def run(query: Query, options: SummaryOptions, df: DataFrame) -> DataFrame:
    """A lazy DataFrame of one row per key."""
    if options.budget is not None:
        raise errors.UnsupportedError(
            "a budget over all keys needs all keys in one place, and Spark spreads them",
            remedy="give size=, the events per key",
        )
    bound = bind(query, df.columns)
    summaries = choose.batch_summaries(bound, options, df.columns)
    prepared = df.select(*input_columns(bound, options, df))
    shape = summaries.schema(arrow_schema(prepared))
    return map_sorted(prepared, bound, _worker(summaries), shape, rows=OUTPUT_ROWS)


def input_columns(query: Query, options: SummaryOptions, df: DataFrame) -> list[Column]:
    """The columns of the input, and what Spark computes of each row; analysed before any job."""
    parts = []
    for bit, (label, condition) in enumerate(
        zip(query.labels, reading.row_conditions(query), strict=True)
    ):
        parts.append(f"IF({row_sql(condition)}, {1 << bit}L, 0L)")
        batch.analysed(df, parts[-1], f"DEFINE {label}")
    columns = [F.col(quoted(name)) for name in df.columns]
    columns.append(F.expr(" + ".join(parts)).alias(BITS))
    total = asked_total(query, options, df.columns)
    if total is not None:
        text = row_sql(total.value)
        batch.analysed(df, text, f"total={options.total_text!r}")
        columns.append(F.expr(text).alias(VALUE))
        kind = arrow_schema(df.select(columns[-1])).field(VALUE).type
        reading.checked_values(total, pa.array([], kind), _NOTHING)
    return columns


OUTPUT_ROWS = 1_000  # each with its retained events
_NOTHING = pa.array([], pa.bool_()).to_numpy(zero_copy_only=False)


def _worker(summaries: BatchSummaries) -> Work:
    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        for events in pieces:
            if events.table.num_rows or summaries.pending:
                yield from summaries.process(events)

    return work
