"""Automata by hand on DataFrames.

A batch is one shuffle by key and one `mapInArrow` per task: the worker sorts the rows of its keys
and runs the AFA operator over as many complete keys at a time as lie in a piece. On a stream Spark
hashes, and lanes run the automaton.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue.operator.notices import Notices
from ensue.operator.protocol import Events
from ensue.query import rules
from ensue.revision.matches import all_matches
from ensue.revision.state import fingerprint_of
from ensue.run.lanes.arcs import arcs_work
from ensue.run.lanes.works import AskedAutomaton, automaton_work
from ensue.run.partition import key_of
from ensue.run.spark import stream
from ensue.run.spark.keyed import arrow_schema, map_sorted, quoted
from ensue.run.spark.stream_options import StreamOptions
from ensue.run.spark.why import batch_only, collected, gathered, of_key
from ensue.run.why_automata import Asked, traced
from ensue.why.funnel import FUNNEL, funnel, tallies
from ensue.why.nearest import check as check_number
from ensue.why.nearest import nearest
from ensue.why.trace import Trace


def matches(asked: AskedAutomaton, df: DataFrame, options: dict[str, Any]) -> DataFrame:
    """All matches, as of a table; over a stream, with the options of streams."""
    if df.isStreaming:
        return _on_stream(asked, df, options)
    # Checks names and types, and compiles; the disk cache then serves the workers.
    found = _all_matches(asked, arrow_schema(df).empty_table())

    def matched(rows: pa.Table) -> pa.Table:
        return _all_matches(asked, rows).cast(found.schema)

    return map_sorted(df, asked.query(), _by_keys(matched), found.schema)


def _on_stream(asked: AskedAutomaton, df: DataFrame, given: dict[str, Any]) -> DataFrame:
    """All matches over a streaming DataFrame; `given` are the options of streams."""
    options = StreamOptions.of(given)
    stream.own_names(df, options)
    columns = [F.col(quoted(name)) for name in df.columns]
    prepared = stream.Prepared.of(asked.query(), df, options, columns)
    mark = fingerprint_of(asked.machine, asked.timing, whole=True).now[:12]
    arcs = len(asked.machine.arcs)
    description = prepared.description(
        automaton=f"an automaton of {arcs} arcs (fingerprint {mark})"
    )
    del description["pattern"]  # that of the query which stands for the automaton's columns
    if not options.edits:
        arguments = (prepared.schema, prepared.time, prepared.settings, description)
        return prepared.run(automaton_work(asked, *arguments))
    # All lanes agree on Spark's watermark alone.
    work = arcs_work(asked, prepared.schema, prepared.time, options.settings(), description)
    rules.duplicates((name.casefold() for name in work.found.names), "column of the output")
    return prepared.run(work)


def _all_matches(asked: AskedAutomaton, table: pa.Table) -> pa.Table:
    return all_matches(asked.machine, asked.timing, table, asked.partition_by, asked.settings)


def _by_keys(
    made: Callable[[pa.Table], pa.Table],
) -> Callable[[pa.Schema, Iterator[Events]], Iterator[pa.Table]]:
    """What a task does: `made` of as many whole partitions at a time as lie in a piece."""

    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        held: list[pa.Table] = []
        for events in pieces:
            held.append(events.table)
            if len(events.complete) and events.complete[-1]:
                yield made(pa.concat_tables(held).combine_chunks())
                held = []
        if held:
            yield made(pa.concat_tables(held).combine_chunks())

    return work


# -- why it did not match -------------------------------------------------------------------------


def why(asked: Asked, df: DataFrame) -> DataFrame:
    """One row per partition, of its best failed attempt, or one per start row; lazy."""
    return _explained(asked, df, lambda answer: answer)


def why_funnel(asked: Asked, df: DataFrame) -> DataFrame:
    """How many attempts took each arc: counted where the rows are, then added up."""
    counted = _explained(asked, df, tallies)
    return gathered(counted, lambda parts: funnel(asked.arcs, parts), FUNNEL)


def why_nearest(asked: Asked, df: DataFrame, n: int) -> DataFrame:
    """The n attempts that lack least: those of each task, then of all."""
    check_number(n)
    batch_only(df)
    query = asked.attempts(arrow_schema(df)).query
    found = _explained(asked, df, lambda answer: nearest(query, [answer], n))
    schema = arrow_schema(found)
    none = schema.empty_table()
    return gathered(found, lambda parts: nearest(query, [none, *parts], n), schema)


def why_trace(asked: Asked, df: DataFrame, key: Any, limit: int, notices: Notices) -> pa.Table:
    """The steps through one partition, whose rows are collected."""
    steps = Trace(limit)
    batch_only(df)
    attempts = asked.attempts(arrow_schema(df))
    wanted = key_of(attempts.query, key, "trace")
    return traced(attempts, collected(of_key(df, wanted), wanted, "trace"), steps, notices)


def _explained(asked: Asked, df: DataFrame, made: Callable[[pa.Table], pa.Table]) -> DataFrame:
    batch_only(df)
    attempts = asked.attempts(arrow_schema(df))
    found = made(attempts.nothing()).schema

    def explained(rows: pa.Table) -> pa.Table:
        return made(asked.attempts(rows.schema).table(rows))

    return map_sorted(df, attempts.query, _by_keys(explained), found)
