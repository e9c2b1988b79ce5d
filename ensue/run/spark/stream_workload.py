"""Workloads on a streaming DataFrame: several patterns over the lanes of one stream.

Patterns of one partition and order run in the same lanes. Without a budget each has its evaluator
(`run/lanes/edits.py`); under one they share their partial matches and the bound
(`run/lanes/shared.py`). Rows carry all their columns and the row-local conditions are evaluated on
Arrow (docs/functions.md), so that patterns may come and go through the control directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.operator.budget import Budget
from ensue.query import rules, stored
from ensue.query.binding import bind, rename
from ensue.query.query import Query
from ensue.run.lanes import state
from ensue.run.lanes.edits import PATTERN, VERSION, EditsWork, Read, edits_work
from ensue.run.lanes.shared import shared_work
from ensue.run.lanes.work import MATCH_ID, OP
from ensue.run.spark import batch, stream
from ensue.run.spark.keyed import quoted
from ensue.run.spark.stream_options import StreamOptions
from ensue.shared.options import Sharing


@dataclass(frozen=True)
class Asked:
    """Several patterns and how they are evaluated; `read_sql` reads edits."""

    queries: Mapping[str, Query]
    sharing: Sharing
    read_sql: Read
    budget: Budget | None = None
    history: pa.Table | None = None


def run(asked: Asked, df: DataFrame, options: StreamOptions) -> DataFrame:
    """All matches of all patterns in a streaming DataFrame, with the column `pattern`."""
    stream.own_names(df, options)
    if PATTERN in df.columns:
        raise errors.ReservedNameError(
            f"the input has a column {PATTERN!r}, which the stream's output adds",
            remedy=f"rename it: df.withColumnRenamed({PATTERN!r}, ...)",
        )
    bound = {n: rules.check(bind(query, df.columns)) for n, query in asked.queries.items()}
    parts: dict[object, dict[str, Query]] = {}
    for name, query in bound.items():
        parts.setdefault((query.partition_by, query.order_by), {})[name] = query
    if len(parts) > 1 and (options.edits or asked.budget is not None):
        told = "; ".join(", ".join(part) for part in parts.values())
        given = "edits=True" if options.edits else "a budget"
        raise errors.UnsupportedError(
            f"with {given} the patterns of a stream have one partition and order, and these have "
            f"{len(parts)}: {told}",
            remedy="start a stream for each group, or give them the same partition_by and order_by",
        )
    found = [_together(asked, part, df, options) for part in parts.values()]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), found)


def _together(
    asked: Asked, queries: Mapping[str, Query], df: DataFrame, options: StreamOptions
) -> DataFrame:
    """Patterns of one partition and order."""
    plain = batch.plain_names(df.columns)
    if plain:
        queries = {name: rename(query, plain) for name, query in queries.items()}
        df = df.toDF(*(plain.get(name, name) for name in df.columns))
        options = stream.renamed(options, plain)
    columns = [F.col(quoted(name)) for name in df.columns]
    prepared = stream.Prepared.of(next(iter(queries.values())), df, options, columns)
    # Patterns that are edited begin and end at a time that all lanes know: Spark's watermark.
    settings = options.settings() if options.edits else prepared.settings
    description = _description(prepared, queries)
    arguments = (queries, prepared.schema, prepared.time, settings, description, asked.read_sql)
    work: EditsWork
    if asked.budget is None:
        work = edits_work(*arguments)
    else:
        work = shared_work(*arguments, asked.budget, asked.sharing, asked.history)
    found = prepared.run(work)
    ahead = [OP, MATCH_ID] if settings.speculative else []
    ahead += [PATTERN, VERSION] if options.edits else [PATTERN]
    rest = (name for name in found.columns if name not in (*ahead, VERSION))
    found = found.select(*ahead, *map(quoted, rest))
    written = {safe: name for name, safe in plain.items()}
    return found.toDF(*(written.get(name, name) for name in found.columns))


def _description(prepared: stream.Prepared, queries: Mapping[str, Query]) -> dict[str, str]:
    """What a checkpoint must agree with: of the patterns, their names and fingerprints."""
    told = prepared.description()
    for name in state.asked(prepared.query):
        if name not in ("partition_by", "order_by"):
            del told[name]
    marks = (f"{name} {stored.fingerprint(query).now[:12]}" for name, query in queries.items())
    return told | {"patterns": ", ".join(marks)}
