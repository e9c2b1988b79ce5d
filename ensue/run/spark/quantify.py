"""Quantitative queries on DataFrames: one operator in every task of a batch, or lane of a stream.

Predicates and values in SQL are evaluated by Spark itself, so any Spark function may stand in an
automaton; the worker sees them as columns, arranges the rows of its keys and runs the compiled
loop over all keys at once. Windows, groups and pipelines carry the event's own columns and are
evaluated on Arrow. Lanes of a stream hold rows until the watermark has passed them, so the operator
sees each key's events in order there too, and the answer is that of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.automaton import plan
from ensue.capabilities import Task
from ensue.operator.protocol import Events
from ensue.quantities.bound import Batch
from ensue.quantities.checks import check
from ensue.quantities.groups import Groups
from ensue.quantities.model import ALWAYS, Expression
from ensue.quantities.operator import QuantifyOperator
from ensue.quantities.run import column_kinds
from ensue.quantities.stages import VALUE, WINDOW, AutomatonQuestion, Question
from ensue.query.condition import Column
from ensue.query.nodes import Empty
from ensue.query.query import OrderKey, Query, Ties
from ensue.query.sql import row_sql
from ensue.run import choose
from ensue.run.lanes.works import Asked, quantify_work
from ensue.run.spark import stream
from ensue.run.spark.batch import analysed
from ensue.run.spark.keyed import map_sorted, quoted
from ensue.run.spark.plain import plain_aggregate
from ensue.run.spark.raised import action
from ensue.run.spark.stream_options import StreamOptions
from ensue.run.spark.versions import worker_schema

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
    found = None if df.isStreaming else _plain(stage, df, keys, order)
    if found is None:
        found = run(stage, df, keys, order, "demand", VALUE, options)
    if keys or df.isStreaming:
        return found
    with action(found, "computing"):
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
        kind = stage.bind(worker_schema(df)).output_type
    except errors.UnsupportedFunctionError:
        return None  # a function that only Spark knows: its type comes with the columns
    found = plain_aggregate(stage, df, keys, order)
    if found is None or worker_schema(found).field(VALUE).type != kind:
        return None
    return found


def run(
    stage: Question,
    df: DataFrame,
    keys: tuple[str, ...],
    order: tuple[OrderKey, ...],
    output: str,
    value: str,
    options: Mapping[str, Any],
) -> DataFrame:
    """What the operator puts out: a row per event ("every"), per value ("defined") or per key."""
    operator = choose.quantities(stage, keys, output, value)
    keys, stage = operator.partition_by, operator.stage
    known_columns(df, keys, order)
    carried = needed(stage, df, keys, order) if output == "demand" else list(df.columns)
    columns, inner = inputs(stage, df, carried)
    query = Query(pattern=Empty(), partition_by=keys, order_by=order, ties=Ties.IGNORE)
    if df.isStreaming:
        chosen = StreamOptions.of(dict(options))
        stream.no_edits(chosen, Task.QUANTIFY)
        stream.own_names(df, chosen)
        prepared = stream.Prepared.of(query, df, chosen, columns)
        told = prepared.description(pattern=_text(stage), output=output)
        asked = Asked(inner, order, output, value, tuple(df.columns))
        arguments = (prepared.schema, prepared.time, prepared.settings, told)
        return prepared.run(quantify_work(asked, keys, *arguments))

    def opened(schema: pa.Schema) -> QuantifyOperator:
        operator = choose.quantities(inner, keys, output, value)
        operator.open(None, schema)
        return operator

    frame = df.select(*columns)
    shown = (*df.columns, value, WINDOW)
    put_out = opened(worker_schema(frame)).schema
    found = pa.schema([column for column in put_out if column.name in shown])

    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        mine = opened(schema)
        for events in pieces:
            for table in mine.insert(events).matches:
                yield table.select(found.names).cast(found)

    return map_sorted(frame, query, work, found)


def _text(question: Question) -> str:
    inside = "; ".join(_text(part) for part in question.parts())
    return f"{question.title()} [{inside}]" if inside else question.title()


def known_columns(df: DataFrame, keys: tuple[str, ...], order: tuple[OrderKey, ...]) -> None:
    named = (*keys, *(key.column for key in order))
    errors.UnknownColumnError.check(named, df.columns, "the DataFrame has")


def _empty_value(stage: Question, df: DataFrame) -> Any:
    bound = stage.bind(worker_schema(df))
    starts = np.zeros(2, np.int64)
    batch = Batch.whole(bound.schema.empty_table(), starts)
    return bound.run(batch, bound.memory(), False).ends[0].as_py()


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


def inputs(stage: Question, df: DataFrame, carried: list[str]) -> tuple[list[Any], Question]:
    """Spark computes the predicates and values of an automaton into columns."""
    columns = [F.col(quoted(name)) for name in carried]
    if not isinstance(stage, AutomatonQuestion):
        return columns, stage
    # Types and disjointness are decided on what the user wrote, before it becomes columns.
    kinds = column_kinds(worker_schema(df))
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
    return columns, AutomatonQuestion(automaton, report=report)
