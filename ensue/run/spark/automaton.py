"""Automata by hand on a batch DataFrame: one shuffle by key, one `mapInArrow` per task.

The worker sorts the rows of its keys and runs the AFA operator over as many complete keys at a time
as lie in a piece. Streams are in `stream_automaton.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from ensue.operator.protocol import Events
from ensue.revision.matches import all_matches
from ensue.run.lanes.works import AskedAutomaton
from ensue.run.spark.keyed import arrow_schema, map_sorted


def matches(asked: AskedAutomaton, df: DataFrame, options: dict[str, Any]) -> DataFrame:
    """All matches, as of a table; over a stream, with the options of streams."""
    if df.isStreaming:
        from ensue.run.spark.stream_automaton import run

        return run(asked, df, options)
    schema = arrow_schema(df)
    # Checks names and types, and compiles; the disk cache then serves the workers.
    found = _all_matches(asked, schema.empty_table())

    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        held: list[pa.Table] = []
        for events in pieces:
            held.append(events.table)
            if len(events.complete) and events.complete[-1]:
                yield matched(held)
                held = []
        if held:
            yield matched(held)

    def matched(held: list[pa.Table]) -> pa.Table:
        return _all_matches(asked, pa.concat_tables(held).combine_chunks()).cast(found.schema)

    return map_sorted(df, asked.query(), work, found.schema)


def _all_matches(asked: AskedAutomaton, table: pa.Table) -> pa.Table:
    return all_matches(asked.machine, asked.timing, table, asked.partition_by, asked.settings)
