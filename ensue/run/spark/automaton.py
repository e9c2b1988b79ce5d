"""Automata by hand on a batch DataFrame: one shuffle by key, one `mapInArrow` per task.

The worker sorts the rows of its keys and runs the AFA operator over as many complete keys at a time
as lie in a piece. Streams are in `stream_automaton.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from ensue.automaton.registers import Arc, Field, Machine
from ensue.operator.protocol import Events
from ensue.query.nodes import Empty
from ensue.query.query import OrderKey, Query
from ensue.revision.evaluator import Timing
from ensue.revision.matches import all_matches
from ensue.revision.parts import Settings
from ensue.run.spark.keyed import arrow_schema, map_sorted

# The text of an edit, and the register: arcs that begin, names of those that end, final states.
ReadArcs = Callable[[str, tuple[Field, ...]], tuple[list[Arc], list[str], list[str]]]


@dataclass(frozen=True)
class Asked:
    """An automaton and how its events are read."""

    machine: Machine
    timing: Timing
    partition_by: tuple[str, ...]
    settings: Settings
    read: ReadArcs | None = None  # edits of a stream

    def query(self) -> Query:
        """What sorts and routes rows: keys and order, no pattern."""
        keys = [OrderKey(self.timing.order_by)]
        if self.timing.tie is not None:
            keys.append(OrderKey(self.timing.tie))
        return Query(pattern=Empty(), partition_by=self.partition_by, order_by=tuple(keys))

    def matches(self, table: pa.Table) -> pa.Table:
        return all_matches(self.machine, self.timing, table, self.partition_by, self.settings)


def matches(asked: Asked, df: DataFrame, options: dict[str, Any]) -> DataFrame:
    """All matches, as of a table; over a stream, with the options of streams."""
    if df.isStreaming:
        from ensue.run.spark.stream_automaton import run

        return run(asked, df, options)
    schema = arrow_schema(df)
    # Checks names and types, and compiles; the disk cache then serves the workers.
    found = asked.matches(schema.empty_table())

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
        return asked.matches(pa.concat_tables(held).combine_chunks()).cast(found.schema)

    return map_sorted(df, asked.query(), work, found.schema)
