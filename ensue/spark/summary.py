"""Summaries on a batch DataFrame: one row per key with the answer, the retained events and metrics.

Spark computes which labels hold (any Spark function) as bits of one column, and the value that is
summed; then one shuffle by key and one `mapInArrow` call per task, as for row patterns. Keys are
independent, so `budget` over all keys is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from ensue import errors
from ensue.evaluate.sorting import sorted_events
from ensue.evaluate.suse import reading
from ensue.evaluate.suse.batch import BITS, VALUE, BatchSummaries
from ensue.evaluate.suse.groups import group_labels
from ensue.evaluate.suse.options import SummaryOptions, bound_total, check_options, selection_of
from ensue.pattern.binding import bind
from ensue.pattern.query import Query
from ensue.pattern.sql import row_sql

OUTPUT_ROWS = 1_000


def run(query: Query, options: SummaryOptions, df: DataFrame) -> DataFrame:
    """A lazy DataFrame of one row per key."""
    if df.isStreaming:
        raise errors.UnsupportedInputError(
            "a streaming DataFrame was given; this version summarizes batch DataFrames",
            remedy="use a batch DataFrame, or a Summary inside foreachBatch",
        )
    if options.budget is not None:
        raise errors.UnsupportedError(
            "a budget over all keys needs all keys in one place, and Spark spreads them",
            remedy="give size=, the events per key",
        )
    check_options(query, options)
    bound = bind(query, df.columns)
    conditions = reading.row_conditions(bound)
    total = None
    if options.total is not None:
        total = bound_total(
            reading.total_of(options.total, query, options.total_text or ""), df.columns
        )
    summaries = BatchSummaries(
        query=bound,
        selection=selection_of(query, options, total),
        total=total,
        groups=group_labels(query, options.equal),
        columns=list(df.columns),
        text=options.counts == "text",
    )
    bits = " + ".join(
        f"IF({row_sql(condition)}, {1 << bit}L, 0L)" for bit, condition in enumerate(conditions)
    )
    columns = [F.col(_quoted(name)) for name in df.columns] + [F.expr(bits).alias(BITS)]
    if total is not None:
        columns.append(F.expr(row_sql(total.value)).alias(VALUE))
    prepared = df.select(*columns)
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone")
    given = to_arrow_schema(prepared.schema, timezone=zone)
    if total is not None:
        reading.checked_values(total, pa.array([], given.field(VALUE).type), _NOTHING)
    keys = [F.col(_quoted(name)) for name in bound.partition_by]
    shuffled = prepared.repartition(*keys) if keys else prepared.repartition(1)
    return shuffled.mapInArrow(_worker(summaries), from_arrow_schema(summaries.schema(given)))


_NOTHING = pa.array([], pa.bool_()).to_numpy(zero_copy_only=False)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _worker(
    summaries: BatchSummaries,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            return

        def again() -> Iterator[pa.RecordBatch]:
            yield first
            yield from iterator

        for events in sorted_events(again(), first.schema, summaries.query):
            if events.table.num_rows or summaries.pending:
                for table in summaries.process(events):
                    yield from table.combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)

    return work
