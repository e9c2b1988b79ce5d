"""Quantitative queries on a batch DataFrame: one shuffle by key, one `mapInArrow` per task.

Predicates and values in SQL are evaluated by Spark itself, so any Spark function may stand in an
automaton; the worker sees them as columns, arranges the rows of its keys and runs the compiled
loop over all keys at once. Windows, groups and pipelines carry the event's own columns and are
evaluated on Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from ensue import errors
from ensue.automaton import plan
from ensue.operator.sorting import sorted_events
from ensue.quantities.checks import check
from ensue.quantities.groups import Groups
from ensue.quantities.model import ALWAYS, Expression
from ensue.quantities.run import column_kinds
from ensue.quantities.stages import VALUE, WINDOW, AutomatonQuestion, Batch, Question
from ensue.query.condition import Column
from ensue.query.nodes import Empty
from ensue.query.query import OrderKey, Query
from ensue.query.sql import row_sql
from ensue.run import choose
from ensue.run.spark import stream_quantify
from ensue.run.spark.batch import analysed
from ensue.run.spark.keyed import OUTPUT_ROWS, quoted, shuffled
from ensue.run.spark.plain import plain_aggregate

PREFIX = plan.PREFIX + "quantify_"


def evaluate(
    stage: Question,
    df: DataFrame,
    keys: tuple[str, ...],
    order: tuple[OrderKey, ...],
    options: Mapping[str, Any],
) -> Any:
    """With keys, a DataFrame of them and `value`; without, the value of the whole DataFrame."""
    if isinstance(stage, Groups) and not keys:
        # The groups are the keys: each is one partition of Spark's.
        return evaluate(stage.inner, df, stage.keys, order, options)
    if df.isStreaming:
        return stream_quantify.run(stage, df, keys, order, "demand", VALUE, dict(options))
    found = _plain(stage, df, keys, order)
    if found is None:
        found = _run(stage, df, keys, order, per_row=None)
    if keys:
        return found
    rows = found.collect()
    return rows[0][VALUE] if rows else _empty_value(stage, df)


def _plain(
    stage: Question, df: DataFrame, keys: tuple[str, ...], order: tuple[OrderKey, ...]
) -> DataFrame | None:
    """A plain aggregate by Spark itself, once the query has passed its checks and types."""
    known_columns(df, keys, order)
    if not isinstance(stage, AutomatonQuestion):
        return None
    try:
        kind = stage.bind(arrow_schema(df)).output_type
    except errors.UnsupportedFunctionError:
        return None  # a function that only Spark knows: its type comes with the columns
    found = plain_aggregate(stage, df, keys, order)
    if found is None or arrow_schema(found).field(VALUE).type != kind:
        return None
    return found


def label(
    stage: Question,
    df: DataFrame,
    name: str,
    keys: tuple[str, ...],
    order: tuple[OrderKey, ...],
    options: Mapping[str, Any],
) -> DataFrame:
    """The events with the value of the stream up to each."""
    if df.isStreaming:
        return stream_quantify.run(stage, df, keys, order, "every", name, dict(options))
    return _run(stage, df, keys, order, per_row=name)


def values(
    stage: Question,
    df: DataFrame,
    keys: tuple[str, ...],
    order: tuple[OrderKey, ...],
    options: Mapping[str, Any],
) -> DataFrame:
    """One row per value: the ends of blocks and windows."""
    if df.isStreaming:
        return stream_quantify.run(stage, df, keys, order, "defined", VALUE, dict(options))
    operator = choose.quantities(stage, keys, "defined")
    keys, stage = operator.partition_by, operator.stage
    known_columns(df, keys, order)
    prepared, inner = _prepared(stage, df, list(df.columns))
    schema = arrow_schema(prepared)
    shown = arrow_schema(df).names
    operator = choose.quantities(inner, keys, "defined")
    operator.open(None, schema)
    output = pa.schema([f for f in operator.schema if f.name in (*shown, VALUE, WINDOW)])
    operator.insert(schema.empty_table())  # compiles; the disk cache then serves the workers
    query = Query(pattern=Empty(), partition_by=keys, order_by=order)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            return
        mine = choose.quantities(inner, keys, "defined")
        mine.open(None, first.schema)
        for events in sorted_events(chain([first], iterator), first.schema, query):
            for table in mine.insert(events).tables():
                found = table.select(output.names).cast(output).combine_chunks()
                yield from found.to_batches(max_chunksize=OUTPUT_ROWS)

    return shuffled(prepared, keys).mapInArrow(work, from_arrow_schema(output))


def known_columns(df: DataFrame, keys: tuple[str, ...], order: tuple[OrderKey, ...]) -> None:
    for name in (*keys, *(key.column for key in order)):
        if name not in df.columns:
            raise errors.UnknownColumnError(
                f"the DataFrame has no column {name!r}",
                remedy=f"use one of {', '.join(df.columns)}",
            )


def _empty_value(stage: Question, df: DataFrame) -> Any:
    bound = stage.bind(arrow_schema(df))
    starts = np.zeros(2, np.int64)
    batch = Batch.whole(bound.schema.empty_table(), starts)
    return bound.run(batch, bound.memory(), False).ends[0].as_py()


def _run(
    stage: Question,
    df: DataFrame,
    keys: tuple[str, ...],
    order: tuple[OrderKey, ...],
    per_row: str | None,
) -> DataFrame:
    known_columns(df, keys, order)
    if (per_row or VALUE) in (df.columns if per_row is not None else keys):
        raise errors.DuplicateNameError(
            f"the values would stand in a column {per_row or VALUE!r}, and there is one already",
            remedy="rename the column, or label(df, 'another name')",
        )
    carried = list(df.columns) if per_row is not None else needed(stage, df, keys, order)
    prepared, inner = _prepared(stage, df, carried)
    schema = arrow_schema(prepared)
    bound = inner.bind(schema)
    kind = bound.output_type
    if kind is None:
        raise errors.UnsupportedError(
            "the type of the values is not known before the query runs",
            remedy="use SQL text in place of the Python callable, or evaluate an Arrow table",
        )
    # The first run compiles the loop; its disk cache then serves the workers.
    bound.run(Batch.whole(schema.empty_table(), np.zeros(1, np.int64)), bound.memory(), False)
    shown = carried if per_row is not None else list(keys)
    fields = [schema.field(name) for name in shown]
    output = pa.schema([*fields, pa.field(per_row or VALUE, kind)])
    query = Query(pattern=Empty(), partition_by=keys, order_by=order)
    worker = _worker(inner, query, shown, output, per_row is not None)
    return shuffled(prepared, keys).mapInArrow(worker, from_arrow_schema(output))


def needed(
    stage: Question, df: DataFrame, keys: tuple[str, ...], order: tuple[OrderKey, ...]
) -> list[str]:
    """Columns the worker reads; an automaton's own arrive as computed inputs."""
    reads = stage.reads()
    if reads is None:
        return list(df.columns)
    if isinstance(stage, AutomatonQuestion):
        reads = frozenset()
    wanted = {*keys, *(key.column for key in order)}
    return [name for name in df.columns if name in wanted or name.lower() in reads]


def _prepared(stage: Question, df: DataFrame, carried: list[str]) -> tuple[DataFrame, Question]:
    columns, inner = inputs(stage, df, carried)
    return df.select(*columns), inner


def inputs(stage: Question, df: DataFrame, carried: list[str]) -> tuple[list[Any], Question]:
    """Spark computes the predicates and values of an automaton into columns."""
    columns = [F.col(quoted(name)) for name in carried]
    if not isinstance(stage, AutomatonQuestion):
        return columns, stage
    # Types and disjointness are decided on what the user wrote, before it becomes columns.
    kinds = column_kinds(arrow_schema(df))
    report = check(stage.automaton, kinds, allow=stage.allow, assume=stage.assume)
    names: dict[Expression, Expression] = {}
    parts = (*stage.automaton.predicates(), *stage.automaton.weights())
    for part in parts:
        if isinstance(part, Expression) and part not in names and part != ALWAYS:
            name = f"{PREFIX}{len(names)}"
            text = row_sql(part.tree)
            analysed(df, text, f"the expression {part}")
            columns.append(F.expr(text).alias(name))
            names[part] = Expression(Column(name))
    automaton = stage.automaton.mapped(lambda part: names.get(part, part))
    if not columns:
        columns = [F.lit(0).alias(f"{PREFIX}row")]
    return columns, _Checked(automaton, report)


class _Checked(AutomatonQuestion):
    """An automaton whose predicates are columns already; its report was made before that."""

    def __init__(self, automaton: Any, report: Any) -> None:
        super().__init__(automaton)
        self._report = report

    def reports(self, schema: pa.Schema | None) -> list[Any]:
        return [replace(self._report)]


def arrow_schema(df: DataFrame) -> pa.Schema:
    """The columns as Arrow's types, in the session's time zone."""
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone")
    return to_arrow_schema(df.schema, timezone=zone)


def _worker(
    stage: Question, query: Query, shown: list[str], output: pa.Schema, per_row: bool
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            return
        bound = stage.bind(first.schema)
        memory = bound.memory()

        carried = False  # whether the first partition goes on from the piece before
        for events in sorted_events(chain([first], iterator), first.schema, query):
            count = len(events.starts) - 1
            if not count:
                continue
            starts = events.starts
            if not query.partition_by:
                starts = np.array([0, events.table.num_rows], np.int64)
                count = 1
            fresh = np.ones(count, np.bool_)
            fresh[0] = not carried
            places = np.arange(1, count + 1)
            places[0] = 0 if carried else places[0]
            if not events.complete[-1]:
                places[-1] = 0
            complete = events.complete[:count]
            once = bool(complete.all()) and not carried
            batch = Batch(events.table, starts, places, fresh, complete, once)
            outcome = bound.run(batch, memory, per_row)
            values = outcome.values
            source = events.table.select(shown)
            if not per_row:
                ended = pa.array(np.flatnonzero(events.complete[:count]))
                values = outcome.ends.take(ended)
                source = source.take(pa.array(starts[:-1]).take(ended))
            columns = [*source.columns, values]
            table = pa.table(columns, names=output.names)
            carried = not bool(events.complete[-1])
            cast = table.cast(output).combine_chunks()
            yield from cast.to_batches(max_chunksize=OUTPUT_ROWS)

    return work
