"""Tumbling windows: a stage on each stretch of rows, of time, or up to an event.

A window only cuts the partitions of its input into more; the stage inside runs over all of them at
once. What an earlier call left open goes on: it is the first piece of its partition, with no event
of its own where the next event belongs to another window.

A window counts if an event ends it: its own last one or, of windows of time, the first event after
it. With `partial` the one that is open at the end of the input counts as well; of time it is then
known as soon as time has passed its end (`advance`), for whether another event comes makes no
difference any more. Without `partial` it makes all the difference, and time alone ends nothing:
so the values are the same at once, in pieces and with any watermarks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.quantities.bound import Batch, Bound, Extra, Mark, Outcome
from ensue.quantities.memory import Flags, Indices, Memory
from ensue.quantities.model import Expression, Predicate
from ensue.quantities.run import holds
from ensue.quantities.stages import WINDOW, Around, Question
from ensue.query.condition import columns as columns_of
from ensue.scalar.columns import Rows, predicate


@dataclass
class Windows(Around):
    """f on each window, one after the other: by `rows`, by `time` of a column, or `until`."""

    inner: Question
    rows: int | None = None
    time: int | None = None  # microseconds, or units of a numeric column
    by: str = ""
    until: Predicate | None = None
    partial: bool = False  # a window that is open at the end counts

    def columns(self) -> set[str] | None:
        own = {self.by} if self.by else set()
        if isinstance(self.until, Expression):
            return own | set(columns_of(self.until.tree))
        return own if self.until is None else None

    def title(self) -> str:
        if self.rows is not None:
            kind = f"of {self.rows} events"
        elif self.time is not None:
            kind = f"of {self.time} in {self.by}"
        else:
            kind = f"until {self.until}"
        return f"windows {kind}" + (", the last counts" if self.partial else "")

    def bind(self, schema: pa.Schema) -> Bound:
        return _BoundWindows(self, self.inner.bind(schema))


@dataclass(frozen=True)
class _Pieces:
    """Stretches of one window each, partition after partition."""

    owner: Indices
    begin: Indices  # first row; `end` is that of the next piece
    window: Indices
    fresh: Flags
    closed: Flags
    told: Flags  # closed by an earlier call: asked again, not told again
    last: Flags  # of its partition


@dataclass(frozen=True)
class _Held:
    """What earlier calls left, per partition. Several partitions may use one place in turn."""

    number: Indices
    is_open: Flags
    seen: Indices

    @staticmethod
    def of(batch: Batch, memory: Memory) -> _Held:
        known = ~batch.fresh
        return _Held(
            np.where(known, memory.numbers[batch.places], 0),
            known & memory.open[batch.places],
            np.where(known, memory.seen[batch.places], 0),
        )

    def remember(self, batch: Batch, memory: Memory, pieces: _Pieces) -> None:
        """Of partitions that use one place, the last is what remains."""
        number, is_open = self.number.copy(), self.is_open.copy()
        mine = pieces.owner[pieces.last]
        number[mine], is_open[mine] = pieces.window[pieces.last], ~pieces.closed[pieces.last]
        memory.numbers[batch.places], memory.open[batch.places] = number, is_open
        memory.seen[batch.places] = self.seen + np.diff(batch.starts)


class _BoundWindows(Bound):
    def __init__(self, stage: Windows, inner: Bound) -> None:
        super().__init__(inner.schema, (inner,))
        self._stage, self._inner = stage, inner
        self._by = ""
        self._carried = self.schema
        if stage.time is not None:
            self._by = _resolved(stage.by, self.schema)
            kind = self.schema.field(self._by).type
            integers(pa.array([], kind), self._by)  # refuses a column that has no windows
            self._carried = pa.schema([(WINDOW, moment_type(kind))])
        elif stage.partial:
            self._carried = pa.schema([])

    @property
    def carried(self) -> pa.Schema:
        return self._carried

    @property
    def on_events(self) -> bool:
        return self._stage.time is None and not self._stage.partial

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        memory.grow(int(batch.places.max(initial=-1)) + 1)
        held = _Held.of(batch, memory)
        pieces = self._pieces(batch, held)
        partial = self._stage.partial
        ending = pieces.last & batch.complete[pieces.owner]
        inner = Batch(
            batch.table,
            np.append(pieces.begin, batch.table.num_rows).astype(np.int64),
            batch.places[pieces.owner],
            pieces.fresh,
            pieces.closed | ending,
            batch.once,
        )
        found = self._inner.run(inner, memory.inner[0], False)
        held.remember(batch, memory, pieces)
        last = np.full(len(batch.starts) - 1, -1, np.int64)
        last[pieces.owner[pieces.last]] = np.flatnonzero(pieces.last)
        counted = pieces.closed | (ending & partial)
        ends, ends_defined = _taken(found, last, counted)
        if not streaming:
            return Outcome(ends, ends_defined)
        rows = np.full(batch.table.num_rows, -1, np.int64)
        over = np.flatnonzero(pieces.closed & ~pieces.told)
        # A window of time ends with the first event after it, any other with its own last one.
        after = np.append(pieces.begin, batch.table.num_rows)[over + 1]
        rows[after if self._stage.time is not None else after - 1] = over
        values, defined = _taken(found, rows, pieces.closed)
        carried = None
        if not self.on_events:
            windows = np.zeros(len(rows), np.int64)
            windows[rows >= 0] = pieces.window[rows[rows >= 0]]
            carried = self._shown(windows)
        tails = np.flatnonzero(ending & ~pieces.closed & found.ends_defined & partial)
        extra = None
        if len(tails):
            shown = self._shown(pieces.window[tails])
            extra = Extra(pieces.owner[tails], found.ends.take(pa.array(tails)), shown)
        return Outcome(ends, ends_defined, values, defined, carried, extra)

    def _span(self, column: str) -> int | None:
        """The size of windows that time in that column ends; None: of no such windows."""
        ends = self._stage.partial and column.lower() == self._by.lower()
        return self._stage.time if ends else None

    def advance(self, places: Indices, memory: Memory, mark: Mark) -> Extra | None:
        size = self._span(mark.column)
        if size is None:
            return None
        memory.grow(int(places.max(initial=-1)) + 1)
        over = memory.open[places] & ((memory.numbers[places] + 1) * size <= mark.time)
        due = np.flatnonzero(over)
        if not len(due):
            return None
        memory.open[places[due]] = False
        asked = Batch.nothing(self.schema, places[due])
        found = self._inner.run(asked, memory.inner[0], False)
        defined = np.flatnonzero(found.ends_defined)
        windows = memory.numbers[places[due[defined]]]
        return Extra(due[defined], found.ends.take(pa.array(defined)), self._shown(windows))

    def due(self, memory: Memory, column: str) -> int | None:
        size = self._span(column)
        if size is None or not memory.open.any():
            return None
        return int(memory.numbers[memory.open].min() + 1) * size

    def passed(self, mark: Mark) -> Mark | None:
        if self._stage.time is None:
            return mark
        # A window that waits for an event may still come, however late it is.
        size = self._span(mark.column)
        return None if size is None else Mark(WINDOW, mark.time // size * size)

    def reached(self, mark: Mark) -> Mark | None:
        if self._stage.time is None:
            return mark
        size = self._span(self._by)
        if size is None or mark.column.lower() != WINDOW:
            return None
        return Mark(self._by, -(-mark.time // size) * size)

    def _shown(self, windows: Indices) -> pa.Table:
        if self._stage.time is None:
            return pa.table({})
        starts = pa.array(windows * self._stage.time, pa.int64())
        return pa.table({WINDOW: starts.cast(self._carried.field(WINDOW).type)})

    # -- pieces ----------------------------------------------------------------------------------

    def _pieces(self, batch: Batch, held: _Held) -> _Pieces:
        owner, rows = batch.owner, batch.table.num_rows
        window, closes = self._windows(batch, held, owner)
        begins = np.zeros(rows, np.bool_)
        some = np.diff(batch.starts) > 0
        first = batch.starts[:-1][some]
        begins[first] = True
        begins[1:] |= window[1:] != window[:-1]
        number, is_open = held.number, held.is_open
        goes_on = np.zeros(len(some), np.bool_)
        goes_on[some] = is_open[some] & (number[some] == window[first])
        if self._stage.time is not None:
            known = (number + ~is_open)[some]  # a closed window takes no more
            late = (held.seen[some] > 0) & (window[first] < known)
            self._in_order(batch, window, owner, first[late])
        # What is asked without an event: an open window that no event here goes on with, and,
        # where there is no event at all, the window that the last event closed.
        again = ~some & ~is_open & (held.seen > 0)
        silent = np.flatnonzero((is_open & ~goes_on) | again)
        segments = np.flatnonzero(begins)
        owners = np.concatenate([silent, owner[segments]])
        begin = np.concatenate([batch.starts[silent], segments])
        order = np.lexsort((np.arange(len(owners)) >= len(silent), owners))
        owners, begin = owners[order], begin[order]
        from_row = order >= len(silent)
        windows = np.concatenate([number[silent], window[segments]])[order]
        fresh = from_row.copy()
        opening = from_row & (begin == batch.starts[owners])
        fresh[opening] = ~goes_on[owners[opening]]
        last = np.append(owners[1:] != owners[:-1], True) if len(owners) else from_row
        if self._stage.time is not None:
            closed = ~last
        else:
            end = np.append(begin[1:], rows)
            closed = np.zeros(len(owners), np.bool_)
            closed[from_row] = closes[end[from_row] - 1]
        told = ~from_row & again[owners]
        return _Pieces(owners, begin, windows, fresh, closed | told, told, last)

    def _in_order(self, batch: Batch, window: Indices, owner: Indices, late: Indices) -> None:
        back = np.zeros(len(window), np.bool_)
        back[1:] = (window[1:] < window[:-1]) & (owner[1:] == owner[:-1])
        back[late] = True
        if back.any():
            row = int(np.flatnonzero(back)[0])
            raise errors.DataError(
                f"the window column {self._by!r} goes back at row {row} "
                f"({batch.table.column(self._by)[row].as_py()}), into a window that is over",
                remedy=f"order the events: order_by={self._by!r}",
            )

    def _windows(self, batch: Batch, held: _Held, owner: Indices) -> tuple[Indices, Flags]:
        """Per row: the number of its window, and whether the window ends with it."""
        stage, table = self._stage, batch.table
        if stage.rows is not None:
            within = np.arange(table.num_rows) - batch.starts[owner]
            index = within + held.seen[owner]
            return index // stage.rows, index % stage.rows == stage.rows - 1
        if stage.until is not None:
            ends = self._ends(stage.until, table)
            before: Indices = np.cumsum(ends) - ends
            window: Indices = before.copy()
            if len(ends):
                window -= before[np.minimum(batch.starts[:-1], len(ends) - 1)][owner]
            return window + (held.number + ~held.is_open)[owner], ends
        assert stage.time is not None
        times = integers(table.column(self._by), self._by)
        return times // stage.time, np.zeros(table.num_rows, np.bool_)

    def _ends(self, until: Predicate, table: pa.Table) -> Flags:
        if isinstance(until, Expression):
            truth: Flags = predicate(until.tree, Rows.of(table)).to_numpy(zero_copy_only=False)
            return truth
        events = table.to_pylist()
        return np.array([holds(until.call, e, i) for i, e in enumerate(events)], np.bool_)

    def explain(self) -> list[str]:
        return [f"windows over {line}" for line in super().explain()]


def _taken(found: Outcome, at: Indices, counted: Flags) -> tuple[pa.Array, Flags]:
    """Values of pieces, and whether there is one; -1: none."""
    some = at >= 0
    defined = np.zeros(len(at), np.bool_)
    defined[some] = (counted & found.ends_defined)[at[some]]
    return found.ends.take(pa.array(np.where(defined, at, 0), mask=~defined)), defined


def _resolved(name: str, schema: pa.Schema) -> str:
    if name in schema.names:
        return name
    for known in schema.names:
        if known.lower() == name.lower():
            return str(known)
    raise errors.UnknownColumnError(
        f"windows of time name the column {name!r}, which their events do not have",
        remedy=f"use one of {', '.join(schema.names)}; the value of a window of time has the "
        f"columns {WINDOW} and value alone",
    )


def moment_type(kind: pa.DataType) -> pa.DataType:
    """The type of `window_start` over a column of that type."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.timestamp("us") if pa.types.is_date(kind) else pa.int64()


def integers(column: Any, name: str) -> Indices:
    """A time column as whole microseconds or, where it is a number, in its own unit."""
    kind = column.type
    if column.null_count:
        raise errors.DataError(
            f"the window column {name!r} is null in {column.null_count} rows",
            remedy="filter those rows, or fill the column",
        )
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        nanoseconds: Indices = column.cast(pa.int64()).to_numpy()
        return nanoseconds // 1000
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
