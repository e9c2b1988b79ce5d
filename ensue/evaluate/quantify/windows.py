"""Tumbling windows: a stage on each stretch of rows, of time, or up to an event.

A window only cuts the partitions of its input into more; the stage inside runs over all of them at
once. What an earlier call left open goes on: the number of the open window is kept per place, and
a window of time that the next event closes is asked for its value before that event is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.evaluate.columns import Rows, predicate
from ensue.evaluate.quantify.checks import Report
from ensue.evaluate.quantify.model import Expression
from ensue.evaluate.quantify.run import Extra, Outcome
from ensue.evaluate.quantify.stages import Batch, Bound, Flags, Indices, Memory, Stage


@dataclass
class Windows(Stage):
    """f on each window, one after the other: by `rows`, by `time` of a column, or `until`."""

    inner: Stage
    rows: int | None = None
    time: int | None = None  # microseconds, or units of a numeric column
    by: str = ""
    until: Expression | None = None
    partial: bool = False  # a window that is open at the end counts

    def reports(self, schema: pa.Schema | None) -> list[Report]:
        return self.inner.reports(schema)

    def bind(self, schema: pa.Schema) -> Bound:
        return _BoundWindows(self, self.inner.bind(schema))


class _BoundWindows(Bound):
    def __init__(self, stage: Windows, inner: Bound) -> None:
        self._stage, self._inner = stage, inner
        self.schema = inner.schema

    def memory(self) -> Memory:
        return Memory(inner=[self._inner.memory()])

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        memory.grow(int(batch.places.max(initial=-1)) + 1)
        count, rows = len(batch.starts) - 1, batch.table.num_rows
        if batch.fresh.any():
            memory.open[batch.places[batch.fresh]] = False
            memory.numbers[batch.places[batch.fresh]] = 0
        owner = batch.owner
        window, closes = self._windows(batch, memory, owner)
        begins = np.zeros(rows, np.bool_)
        nonempty = np.flatnonzero(np.diff(batch.starts) > 0)
        first = batch.starts[:-1][nonempty]
        begins[first] = True
        begins[1:] |= window[1:] != window[:-1]
        segments = np.flatnonzero(begins)
        cuts = np.append(segments, rows).astype(np.int64)
        places = batch.places[owner[segments]]
        fresh = np.ones(len(segments), np.bool_)
        at = np.searchsorted(segments, first)
        before = batch.places[nonempty]
        continuing = memory.open[before] & (memory.numbers[before] == window[first])
        late_close = self._stage.time is not None
        # A window left open in an earlier call, closed by the first event of this one.
        held = memory.open[before] & ~continuing
        held_value, held_defined = (
            self._held(memory, before, held, batch)
            if late_close
            else (
                None,
                np.zeros(len(before), np.bool_),
            )
        )
        held_window = memory.numbers[before].copy()
        fresh[at[continuing]] = False
        inner = Batch(batch.table, cuts, places, fresh, False)
        outcome = self._inner.run(inner, memory.inner[0], False)
        ends, ends_defined = outcome.ends, outcome.ends_defined
        last = np.append(at[1:], len(segments)) - 1 if len(at) else at
        memory.numbers[before] = window[segments[last]] if len(last) else memory.numbers[before]
        closed_last = closes[cuts[last + 1] - 1] if len(last) else np.zeros(0, np.bool_)
        memory.open[before] = ~closed_last
        if self._stage.rows is not None and len(last):
            memory.numbers[before] = np.where(
                closed_last, window[segments[last]] + 1, window[segments[last]]
            )
            self._counted(memory, batch, nonempty)
        chosen = np.full(rows, -1, np.int64)
        if late_close:
            follow = np.setdiff1d(np.arange(len(segments)), at)
            chosen[segments[follow]] = follow - 1
        else:
            done = np.flatnonzero(closes[cuts[1:] - 1]) if rows else np.zeros(0, np.int64)
            chosen[cuts[done + 1] - 1] = done
        values = ends.take(pa.array(np.maximum(chosen, 0), mask=chosen < 0))
        defined = chosen >= 0
        if len(segments):
            defined &= ends_defined[np.maximum(chosen, 0)]
        shown = (
            np.where(chosen >= 0, window[segments[np.maximum(chosen, 0)]], 0) if rows else chosen
        )
        if held_value is not None and held.any():
            put = np.full(rows, -1, np.int64)
            put[first[held_defined]] = np.flatnonzero(held_defined)
            late = held_value.take(pa.array(np.maximum(put, 0), mask=put < 0))
            values = pc.if_else(pa.array(put >= 0), late, values)
            defined |= put >= 0
            shown = np.where(put >= 0, held_window[np.maximum(put, 0)], shown)
        tail_rows = np.full(count, -1, np.int64)
        tail_rows[nonempty] = last
        is_open = np.zeros(count, np.bool_)
        is_open[nonempty] = memory.open[before]
        tail = ends.take(pa.array(np.maximum(tail_rows, 0), mask=tail_rows < 0))
        has_tail = (tail_rows >= 0) & is_open
        if len(segments):
            has_tail &= ends_defined[np.maximum(tail_rows, 0)]
        if not self._stage.partial:
            has_tail = np.zeros(count, np.bool_)
        at_end = np.full(count, -1, np.int64)
        at_end[nonempty] = batch.starts[1:][nonempty] - 1
        end_values = values.take(pa.array(np.maximum(at_end, 0), mask=at_end < 0))
        end_defined = (at_end >= 0) & defined[np.maximum(at_end, 0)] if rows else at_end >= 0
        if batch.complete and self._stage.partial:
            end_values = pc.if_else(pa.array(has_tail), tail, end_values)
            end_defined = end_defined | has_tail
        size = self._stage.time or 1
        ended = np.flatnonzero(has_tail)
        extra = Extra(
            ended,
            tail.take(pa.array(ended)),
            window[segments[tail_rows[ended]]] * size if len(ended) else ended,
        )
        return Outcome(end_values, end_defined, values, defined, shown * size, extra)

    def _held(
        self, memory: Memory, before: Indices, held: Flags, batch: Batch
    ) -> tuple[pa.Array, Flags]:
        """Values of the windows that earlier calls left open."""
        nothing = batch.table.slice(0, 0)
        asked = Batch(
            nothing, np.zeros(len(before) + 1, np.int64), before, ~memory.open[before], False
        )
        outcome = self._inner.run(asked, memory.inner[0], False)
        return outcome.ends, outcome.ends_defined & held

    def _windows(self, batch: Batch, memory: Memory, owner: Indices) -> tuple[Indices, Flags]:
        """Per row: the number of its window, and whether the window ends with it."""
        stage, table = self._stage, batch.table
        within = np.arange(table.num_rows) - batch.starts[owner]
        if stage.rows is not None:
            index = within + self._offsets(memory, batch)[owner]
            return index // stage.rows, index % stage.rows == stage.rows - 1
        if stage.until is not None:
            ends = predicate(stage.until.tree, Rows.of(table)).to_numpy(zero_copy_only=False)
            before = np.cumsum(ends) - ends
            window = before.copy()
            if len(ends):
                window -= before[np.minimum(batch.starts[:-1], len(ends) - 1)][owner]
            number = memory.numbers[batch.places] + ~memory.open[batch.places]
            return window + number[owner], ends
        assert stage.time is not None
        times = _as_integers(table.column(stage.by), stage.by)
        return times // stage.time, np.zeros(table.num_rows, np.bool_)

    def _offsets(self, memory: Memory, batch: Batch) -> Indices:
        counts = np.array(
            [memory.keys.get((int(place), ()), 0) for place in batch.places], np.int64
        )
        return np.where(batch.fresh, 0, counts)

    def _counted(self, memory: Memory, batch: Batch, nonempty: Indices) -> None:
        if batch.complete:
            return
        offsets = self._offsets(memory, batch) + np.diff(batch.starts)
        for place, seen in zip(batch.places[nonempty], offsets[nonempty], strict=True):
            memory.keys[int(place), ()] = int(seen)

    def explain(self) -> list[str]:
        return [f"windows over {line}" for line in self._inner.explain()]

    @property
    def output_type(self) -> pa.DataType | None:
        return self._inner.output_type


def _as_integers(column: Any, name: str) -> Indices:
    """A time column as whole microseconds or, where it is a number, in its own unit."""
    kind = column.type
    if column.null_count:
        raise errors.DataError(
            f"the window column {name!r} is null in {column.null_count} rows",
            remedy="filter those rows, or fill the column",
        )
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    elif pa.types.is_integer(kind):
        column = column.cast(pa.int64())
    else:
        raise errors.ColumnTypeError(
            f"the window column {name!r} is {kind}, which has no windows of time",
            remedy="use a timestamp, date or integer column",
        )
    values: Indices = column.to_numpy()
    return values
