"""Summaries on a batch DataFrame: one row per key with the answer, the retained events and metrics.

Spark computes which labels hold (any Spark function) as bits of one column, and the value that is
summed; then one shuffle by key and one `mapInArrow` call per task, as for row patterns. Keys are
independent, so `budget` over all keys is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.operator.protocol import Events
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.query.sql import row_sql
from ensue.run.spark.keyed import Work, arrow_schema, map_sorted, quoted
from ensue.summary import reading
from ensue.summary.batch import BITS, BatchSummaries
from ensue.summary.groups import group_labels
from ensue.summary.intake import VALUE
from ensue.summary.options import SummaryOptions, bound_total, check_options, selection_of


def run(query: Query, options: SummaryOptions, df: DataFrame) -> DataFrame:
    """A lazy DataFrame of one row per key."""
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
    columns = [F.col(quoted(name)) for name in df.columns] + [F.expr(bits).alias(BITS)]
    if total is not None:
        columns.append(F.expr(row_sql(total.value)).alias(VALUE))
    prepared = df.select(*columns)
    given = arrow_schema(prepared)
    if total is not None:
        reading.checked_values(total, pa.array([], given.field(VALUE).type), _NOTHING)
    return map_sorted(
        prepared, bound, _worker(summaries), summaries.schema(given), rows=OUTPUT_ROWS
    )


OUTPUT_ROWS = 1_000  # each with its retained events
_NOTHING = pa.array([], pa.bool_()).to_numpy(zero_copy_only=False)


def _worker(summaries: BatchSummaries) -> Work:
    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        for events in pieces:
            if events.table.num_rows or summaries.pending:
                yield from summaries.process(events)

    return work
