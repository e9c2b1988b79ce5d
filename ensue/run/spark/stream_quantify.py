"""Quantitative queries on a stream: every event labelled, block by block, or key by key.

Lanes hold rows until the watermark has passed them, so the operator sees each key's events in
order and the answer is that of a batch. A window of time is told when the watermark has passed its
end. What a whole key adds up to is final when the stream is closed (or the key forgotten);
`emit="changes"` tells it again whenever it has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from ensue import errors
from ensue.operator import state
from ensue.operator.arrange import arrange, flat
from ensue.operator.buffer import CONTENT
from ensue.operator.protocol import Events, Key, Snapshot, Watermark, key_at, keys_of
from ensue.quantities.operator import QuantifyOperator, time_column
from ensue.quantities.stages import WINDOW
from ensue.quantities.stages import Stage as Question
from ensue.query.nodes import Empty
from ensue.query.query import OrderKey, Query
from ensue.run.lanes.rows import ID
from ensue.run.lanes.stages import refused
from ensue.run.lanes.work import Settings, Stage, Work

KIND = state.Kind("quantify lane", version=2, oldest=2)


@dataclass(frozen=True)
class Asked:
    """What a query is asked on a stream."""

    question: Question
    order: tuple[OrderKey, ...]
    output: str  # of the operator: every, defined or demand
    value: str  # the name of the values
    shown: tuple[str, ...]  # columns of the input that may be shown


@dataclass(frozen=True)
class QuantifyWork(Work):
    asked: Asked

    def stage(self, lane: int) -> Stage:
        return QuantifyStage(self)


def quantify_work(
    asked: Asked,
    partition_by: tuple[str, ...],
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> QuantifyWork:
    operator = QuantifyOperator(asked.question, partition_by, asked.output, asked.value)
    operator.open(None, schema)
    told = (*asked.shown, WINDOW, asked.value)
    found = pa.schema([field for field in operator.schema if field.name in told])
    if settings.speculative and asked.output == "defined":
        on_events = set(asked.shown) <= set(found.names)
        if not on_events and WINDOW not in found.names:
            raise errors.UnsupportedError(
                "emit='changes' takes values back, and those of partial windows have no name",
                remedy="leave emit='changes' or partial=True out",
            )
    return QuantifyWork(schema, found, partition_by, time, settings, description, asked)


class QuantifyStage:
    """See the module."""

    def __init__(self, work: QuantifyWork) -> None:
        self._work = work
        self._last: dict[Key, int] = {}  # the newest event time of each key, where keys expire
        # The watermark is on the event time: it closes windows by that column alone.
        by = time_column(work.asked.question)
        self._closing = by.lower() == work.time.lower()
        self._operator = self._opened(None)

    def _opened(self, saved: Snapshot | None) -> QuantifyOperator:
        asked = self._work.asked
        operator = QuantifyOperator(
            asked.question, self._work.partition_by, asked.output, asked.value
        )
        operator.open(None, self._work.schema, state=saved)
        return operator

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        work = self._work
        order = (*work.asked.order, OrderKey(CONTENT))
        table, starts = arrange(rows, work.partition_by, order)
        events = Events(table, starts, np.zeros(len(starts) - 1, np.bool_))
        if work.settings.forget is not None:
            times = flat(table, work.time).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            last = times.to_numpy()[starts[1:] - 1]
            self._last.update(zip(keys_of(events, work.partition_by), last.tolist(), strict=True))
        return self._found(self._operator.insert(events).tables())

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        if not self._closing:
            return iter(())
        return self._found(self._operator.advance(Watermark(horizon)).tables())

    def end(self) -> Iterator[pa.Table]:
        self._last.clear()
        return self._found(self._operator.end().tables())

    def standing(self) -> Iterator[pa.Table]:
        if self._work.asked.output != "demand":
            return iter(())
        return self._found([self._operator.result()])

    def _found(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            if table.num_rows:
                shown = table.select(self._work.found.names).cast(self._work.found)
                if self._work.settings.speculative:
                    shown = shown.append_column(ID, pa.array(self._names(table), pa.string()))
                yield shown

    def _names(self, table: pa.Table) -> list[str]:
        """The same for the same value, however often it is computed."""
        if CONTENT in table.column_names:
            return [str(content) for content in flat(table, CONTENT).to_pylist()]
        names = [*self._work.partition_by, *(n for n in (WINDOW,) if n in table.column_names)]
        return [repr(key_at(table, row, names)) for row in range(table.num_rows)]

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        return refused(orders)

    def copy(self) -> QuantifyStage:
        made = QuantifyStage(self._work)
        made._operator = self._operator.copy()
        return made

    def save(self) -> bytes:
        times = np.array([self._last.get(key, 0) for key in self._operator.known()], np.int64)
        saved = self._operator.snapshot_together().shared
        return state.pack(KIND, {"state": saved, "times": times})

    def load(self, blob: bytes) -> None:
        parts = state.unpack(KIND, blob)
        self._operator = self._opened(Snapshot(shared=parts.state("state")))
        times = parts.array("times").tolist()
        self._last = dict(zip(self._operator.known(), times, strict=True))

    def next_time(self) -> int | None:
        return self._operator.next_time() if self._closing else None

    def drop(self, keys: set[Key]) -> None:
        self._operator.drop(keys)

    def sizes(self) -> Mapping[Key, int]:
        """A key keeps numbers, no rows."""
        return {}

    def forget(self, before: int) -> Iterator[pa.Table]:
        silent = [key for key, time in self._last.items() if time < before]
        for key in silent:
            del self._last[key]
        return self._found(self._operator.end(silent).tables()) if silent else iter(())

    @property
    def partials(self) -> int:
        return 0

    @property
    def keys(self) -> int:
        return self._operator.keys


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

    operator = QuantifyOperator(question, partition_by, output, value)
    partition_by, question = operator.partition_by, operator.stage
    options = stream.Options.of(dict(given))
    stream.no_edits(options, "quantitative queries")
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
