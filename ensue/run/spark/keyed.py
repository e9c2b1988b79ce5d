"""Rows by key to workers: one shuffle, then one pass over each task's rows in order.

Every batch runner goes through here: Spark shuffles by the partition columns, `mapInArrow` hands a
task its rows in any order, and the worker sees them as `Events`, key by key and in order. Nothing
here touches the JVM gateway, so Spark Connect runs the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.operator.intake import check_texts
from ensue.operator.protocol import Evaluator, Events
from ensue.operator.sorting import sorted_events
from ensue.query.query import OrderKey, Query
from ensue.run.spark.ship import Batches, Mapped, shipped
from ensue.run.spark.versions import spark_schema, worker_schema
from ensue.sequences.totals import completed

OUTPUT_ROWS = 10_000

Work = Callable[[pa.Schema, Iterator[Events]], Iterator[pa.Table]]


def quoted(name: str) -> str:
    """A column's name for Spark's parser, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def ordered(key: OrderKey) -> Column:
    """A key of ORDER BY as Spark sorts by it."""
    column = F.col(quoted(key.column))
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def key_columns(query: Query) -> list[Column]:
    """The partition columns under names of their own, to be joined by `same_keys`."""
    return [F.col(quoted(key)).alias(name) for key, name in key_names(query)]


def same_keys(query: Query, condition: Column) -> Column:
    for key, name in key_names(query):
        condition = condition & F.col(quoted(key)).eqNullSafe(F.col(name))
    return condition


def without_keys(query: Query, joined: DataFrame) -> DataFrame:
    return joined.drop(*(name for _, name in key_names(query)))


def key_names(query: Query) -> list[tuple[str, str]]:
    return [(key, f"_ensue_key_{index}") for index, key in enumerate(query.partition_by)]


def arrow_schema(df: DataFrame) -> pa.Schema:
    """The schema that workers will see."""
    for column in df.schema.fields:
        collation = getattr(column.dataType, "collation", "UTF8_BINARY")
        if collation != "UTF8_BINARY":
            raise errors.ColumnTypeError(
                f"the column {column.name!r} has the collation {collation}; workers compare text "
                "by its bytes",
                remedy="cast it to STRING COLLATE UTF8_BINARY, or match on lower(...) of it",
            )
    return worker_schema(df)


def shuffled(df: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Equal keys in one task; one task for all where there is no key."""
    return df.repartition(*(F.col(quoted(name)) for name in keys)) if keys else df.repartition(1)


def map_sorted(
    df: DataFrame, query: Query, work: Work, found: pa.Schema, rows: int = OUTPUT_ROWS
) -> DataFrame:
    """What `work` makes of the rows by key, in batches of so many rows; no rows, no call."""
    by_key = shuffled(df, query.partition_by)
    return by_key.mapInArrow(shipped(sorted_worker(query, work, rows)), spark_schema(found))


def sorted_worker(query: Query, work: Work, rows: int = OUTPUT_ROWS) -> Mapped:
    """`work` as `mapInArrow` calls it: the schema and the ordered rows of a task in, tables out."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            return
        events = sorted_events(map(_read, chain([first], iterator)), first.schema, query)
        for table in work(first.schema, events):
            yield from table.combine_chunks().to_batches(max_chunksize=rows)

    return run


def _read(batch: pa.RecordBatch) -> pa.RecordBatch:
    check_texts(batch)
    return batch


def matched(planned: Plan, evaluator: Evaluator, pieces: Iterator[Events]) -> Iterator[pa.Table]:
    """What an evaluator finds in the rows of one task."""
    if not planned.query.row_semantics and planned.query.within is None:
        pieces = completed(pieces)  # without a window, each piece is matched from the start on
    for events in pieces:
        yield from evaluator.insert(events).matches
