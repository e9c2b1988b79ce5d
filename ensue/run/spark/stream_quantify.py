"""Quantitative queries on a streaming DataFrame: Spark reads and hashes, lanes run the operator.

Lanes hold rows until the watermark has passed them, so the operator sees each key's events in
order and the answer is that of a batch.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from ensue.capabilities import Task
from ensue.quantities.stages import Question
from ensue.query.nodes import Empty
from ensue.query.query import OrderKey, Query
from ensue.run import choose
from ensue.run.lanes.works import Asked, quantify_work


def run(
    question: Question,
    df: DataFrame,
    partition_by: tuple[str, ...],
    order: tuple[OrderKey, ...],
    output: str,
    value: str,
    given: dict[str, object],
) -> DataFrame:
    """A query over a streaming DataFrame; `given` are the options of streams."""
    from ensue.run.spark import quantify, stream

    operator = choose.quantities(question, partition_by, output, value)
    partition_by, question = operator.partition_by, operator.stage
    options = stream.Options.of(dict(given))
    stream.no_edits(options, Task.QUANTIFY)
    stream.own_names(df, options)
    quantify.known_columns(df, partition_by, order)
    carried = list(df.columns)
    if output == "demand":
        carried = quantify.needed(question, df, partition_by, order)
    columns, inner = quantify.inputs(question, df, carried)
    query = Query(pattern=Empty(), partition_by=partition_by, order_by=order)
    prepared = stream.Prepared.of(query, df, options, columns)
    schema = prepared.schema
    told = prepared.description(pattern=_text(question), output=output)
    asked = Asked(inner, order, output, value, tuple(df.columns))
    arguments = (schema, prepared.time, prepared.settings, told)
    return prepared.run(quantify_work(asked, partition_by, *arguments))


def _text(question: Question) -> str:
    inside = "; ".join(_text(part) for part in question.parts())
    return f"{question.title()} [{inside}]" if inside else question.title()
