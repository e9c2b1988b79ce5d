"""Queries around automata: composition in a pipeline, windows, groups; all on whole vectors.

A *stage* takes the events of many partitions and gives a value per event where it is defined, and
one per partition at the end. An automaton is a stage; windows and groups only cut the input into
more partitions for the stage inside; a pipeline feeds the defined values of one stage to the next.
State between calls (`memory`) is kept per partition, at a place the caller names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.evaluate.arrange import group_codes
from ensue.evaluate.columns import Rows, evaluate, predicate
from ensue.evaluate.quantify.checks import Report, check
from ensue.evaluate.quantify.model import Automaton, Expression, Operation
from ensue.evaluate.quantify.run import Extra, Kept, Machine, Outcome, as_array, column_kinds
from ensue.kernels.order import first_rows

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
VALUE = "value"
WINDOW = "window_start"


@dataclass
class Memory:
    """What a stage holds between calls; `numbers[place]` is its own, `inner` that of others."""

    kept: Kept | None = None
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    open: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    keys: dict[tuple[int, tuple[Any, ...]], int] = field(default_factory=dict)
    inner: list[Memory] = field(default_factory=list)

    def grow(self, places: int) -> None:
        if self.kept is not None:
            self.kept.grow(places)
        if places > len(self.numbers):
            room = max(places, 2 * len(self.numbers), 16) - len(self.numbers)
            self.numbers = np.pad(self.numbers, (0, room))
            self.open = np.pad(self.open, (0, room))
        if not self.keys:
            for memory in self.inner:
                memory.grow(places)


@dataclass(frozen=True)
class Batch:
    """Events of several partitions; `places` say where each keeps its state, `fresh` if anew."""

    table: pa.Table
    starts: Indices
    places: Indices
    fresh: Flags
    complete: bool  # no events will follow: open windows count where they may

    @staticmethod
    def whole(table: pa.Table, starts: Indices) -> Batch:
        count = len(starts) - 1
        return Batch(table, starts, np.arange(count), np.ones(count, np.bool_), True)

    @property
    def owner(self) -> Indices:
        """Per row: its partition."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


class Stage(ABC):
    """A query that is checked once and bound to each schema it meets."""

    @abstractmethod
    def bind(self, schema: pa.Schema) -> Bound: ...

    @abstractmethod
    def reports(self, schema: pa.Schema | None) -> list[Report]: ...


class Bound(ABC):
    schema: pa.Schema

    @abstractmethod
    def memory(self) -> Memory: ...

    @abstractmethod
    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome: ...

    @abstractmethod
    def explain(self) -> list[str]: ...

    @property
    @abstractmethod
    def output_type(self) -> pa.DataType | None: ...


@dataclass
class AutomatonStage(Stage):
    automaton: Automaton
    allow: str | None = None
    assume: str | None = None
    compiled: bool = True
    _reports: dict[Any, Report] = field(default_factory=dict, repr=False)

    def reports(self, schema: pa.Schema | None) -> list[Report]:
        kinds = {} if schema is None else column_kinds(schema)
        used = {name.lower() for name in self.automaton.columns()}
        relevant = {name: kind for name, kind in kinds.items() if name.lower() in used}
        key = tuple(sorted((name, str(kind)) for name, kind in relevant.items()))
        if key not in self._reports:
            self._reports[key] = check(
                self.automaton, relevant, allow=self.allow, assume=self.assume
            )
        return [self._reports[key]]

    def bind(self, schema: pa.Schema) -> Bound:
        return _BoundAutomaton(
            Machine(self.automaton, schema, self.reports(schema)[0], self.compiled)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reports": dict(self._reports)}


class _BoundAutomaton(Bound):
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.schema = machine.schema

    def memory(self) -> Memory:
        return Memory(kept=self.machine.kept())

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        if batch.complete and batch.fresh.all():
            return self.machine.run(batch.table, batch.starts, streaming=streaming)
        memory.grow(int(batch.places.max(initial=-1)) + 1)
        return self.machine.run(
            batch.table,
            batch.starts,
            streaming=streaming,
            kept=memory.kept,
            places=batch.places,
            fresh=batch.fresh,
        )

    def explain(self) -> list[str]:
        return [f"{self.machine.automaton.name}: {self.machine.explain()}"]

    @property
    def output_type(self) -> pa.DataType | None:
        return self.machine.output_type


# -- pipelines ------------------------------------------------------------------------------------


@dataclass
class Pipe(Stage):
    """f >> g: each defined value of f is an event of g, with the columns of its event."""

    first: Stage
    second: Stage

    def reports(self, schema: pa.Schema | None) -> list[Report]:
        return self.first.reports(schema) + self.second.reports(None)

    def bind(self, schema: pa.Schema) -> Bound:
        first = self.first.bind(schema)
        kind = first.output_type
        if kind is None:
            raise errors.UnsupportedError(
                "the type of the first query's values is not known before it runs, so the second "
                "cannot be prepared",
                remedy="use SQL text in place of the Python callable, as in apply('a * 2', f)",
            )
        return _BoundPipe(first, self.second.bind(_emitted_schema(schema, kind)))


def _emitted_schema(schema: pa.Schema, kind: pa.DataType) -> pa.Schema:
    kept = [f for f in schema if f.name.lower() not in (VALUE, WINDOW)]
    return pa.schema([*kept, pa.field(VALUE, kind), pa.field(WINDOW, pa.int64())])


class _BoundPipe(Bound):
    def __init__(self, first: Bound, second: Bound) -> None:
        self.schema = first.schema
        self._first, self._second = first, second

    def memory(self) -> Memory:
        return Memory(inner=[self._first.memory(), self._second.memory()])

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        found = self._first.run(batch, memory.inner[0], True)
        assert found.values is not None and found.defined is not None
        rows = np.flatnonzero(found.defined)
        owner, origin = batch.owner[rows], rows
        emitted = found.values.take(pa.array(rows))
        windows = np.zeros(len(rows), np.int64) if found.windows is None else found.windows[rows]
        after = np.zeros(len(rows), np.bool_)  # those that no event brought
        if found.extra is not None and batch.complete:
            extra = found.extra
            owner = np.concatenate([owner, extra.owner])
            order = np.argsort(owner, kind="stable")
            owner = owner[order]
            origin = np.concatenate([rows, batch.starts[extra.owner + 1] - 1])[order]
            emitted = pa.concat_arrays([emitted, extra.values]).take(pa.array(order))
            windows = np.concatenate([windows, extra.windows])[order]
            after = np.concatenate([after, np.ones(len(extra.owner), np.bool_)])[order]
        names = [f.name for f in self._second.schema if f.name not in (VALUE, WINDOW)]
        table = batch.table.select(names).take(pa.array(origin))
        table = table.append_column(VALUE, emitted).append_column(WINDOW, pa.array(windows))
        starts = np.searchsorted(owner, np.arange(len(batch.starts))).astype(np.int64)
        inner = Batch(table, starts, batch.places, batch.fresh, batch.complete)
        outcome = self._second.run(inner, memory.inner[1], streaming)
        if not streaming:
            return outcome
        assert outcome.values is not None and outcome.defined is not None
        at = np.full(batch.table.num_rows, -1, np.int64)
        at[origin[~after]] = np.flatnonzero(~after)
        values = outcome.values.take(pa.array(np.maximum(at, 0), mask=at < 0))
        defined = at >= 0
        shown = np.zeros(len(at), np.int64)
        if len(origin):
            defined &= outcome.defined[np.maximum(at, 0)]
            if outcome.windows is not None:
                shown = outcome.windows[np.maximum(at, 0)]
        later = self._later(outcome, owner, np.flatnonzero(after & outcome.defined))
        return Outcome(outcome.ends, outcome.ends_defined, values, defined, shown, later)

    def _later(self, outcome: Outcome, owner: Indices, rows: Indices) -> Extra | None:
        """What the second stage gave for values after the last event, then its own such values."""
        if not len(rows):
            return outcome.extra
        assert outcome.values is not None
        values, owners = outcome.values.take(pa.array(rows)), owner[rows]
        windows = np.zeros(len(rows), np.int64)
        if outcome.windows is not None:
            windows = outcome.windows[rows]
        if outcome.extra is None:
            return Extra(owners, values, windows)
        owners = np.concatenate([owners, outcome.extra.owner])
        order = np.argsort(owners, kind="stable")
        return Extra(
            owners[order],
            pa.concat_arrays([values, outcome.extra.values]).take(pa.array(order)),
            np.concatenate([windows, outcome.extra.windows])[order],
        )

    def explain(self) -> list[str]:
        return self._first.explain() + self._second.explain()

    @property
    def output_type(self) -> pa.DataType | None:
        return self._second.output_type


# -- windows --------------------------------------------------------------------------------------


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


# -- groups and operations ------------------------------------------------------------------------


@dataclass
class Groups(Stage):
    """f for each value of the key columns."""

    keys: tuple[str, ...]
    inner: Stage

    def reports(self, schema: pa.Schema | None) -> list[Report]:
        return self.inner.reports(schema)

    def bind(self, schema: pa.Schema) -> Bound:
        for name in self.keys:
            if name not in schema.names:
                raise errors.UnknownColumnError(
                    f"group_by names the column {name!r}, which the input does not have",
                    remedy=f"use one of {', '.join(schema.names)}",
                )
        return BoundGroups(self, self.inner.bind(schema))


class BoundGroups(Bound):
    def __init__(self, stage: Groups, inner: Bound) -> None:
        self._stage, self._inner = stage, inner
        self.schema = inner.schema

    def memory(self) -> Memory:
        return Memory(inner=[self._inner.memory()])

    def groups(self, batch: Batch) -> tuple[Indices, Indices]:
        """An order of the rows, group after group, and the groups' first rows + length."""
        if batch.table.num_rows == 0:
            return np.zeros(0, np.int64), np.zeros(1, np.int64)
        codes, _ = group_codes(batch.table, self._stage.keys)
        combined = batch.owner * (int(codes.max(initial=0)) + 1) + codes
        order = np.argsort(combined, kind="stable")
        starts = np.append(first_rows(combined[order]), len(order)).astype(np.int64)
        return order, starts

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        order, starts = self.groups(batch)
        table = batch.table.take(pa.array(order))
        count = len(starts) - 1
        fresh, places = np.ones(count, np.bool_), np.arange(count)
        if not batch.complete:
            firsts = table.select(list(self._stage.keys)).take(pa.array(starts[:-1])).to_pylist()
            owners = batch.places[batch.owner[order[starts[:-1]]]] if count else starts[:-1]
            for index, (row, place) in enumerate(zip(firsts, owners, strict=True)):
                key = (int(place), tuple(row.values()))
                fresh[index] = key not in memory.keys
                places[index] = memory.keys.setdefault(key, len(memory.keys))
        inner = Batch(table, starts, places, fresh, batch.complete)
        outcome = self._inner.run(inner, memory.inner[0], True)
        assert outcome.values is not None and outcome.defined is not None
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        values, defined = outcome.values.take(pa.array(back)), outcome.defined[back]
        last = np.where(np.diff(batch.starts) > 0, batch.starts[1:] - 1, -1)
        ends = values.take(pa.array(np.maximum(last, 0), mask=last < 0))
        ends_defined = (last >= 0) & defined[np.maximum(last, 0)] if len(order) else last >= 0
        return Outcome(ends, ends_defined, values, defined)

    def per_group(self, batch: Batch, memory: Memory) -> pa.Table:
        """The key columns and the value of each group, in order of first appearance."""
        order, starts = self.groups(batch)
        table = batch.table.take(pa.array(order))
        count = len(starts) - 1
        outcome = self._inner.run(
            Batch(table, starts, np.arange(count), np.ones(count, np.bool_), True), memory, False
        )
        firsts = order[starts[:-1]]
        shown = np.argsort(firsts)
        keys = table.select(list(self._stage.keys)).take(pa.array(starts[:-1][shown]))
        return keys.append_column(VALUE, outcome.ends.take(pa.array(shown)))

    @property
    def inner(self) -> Bound:
        return self._inner

    def explain(self) -> list[str]:
        keys = ", ".join(self._stage.keys)
        return [f"for each {keys}: {line}" for line in self._inner.explain()]

    @property
    def output_type(self) -> pa.DataType | None:
        return self._inner.output_type


@dataclass
class Joined(Stage):
    """op of several stages on the same events, where all are defined."""

    operation: Operation
    parts: Sequence[Stage]

    def reports(self, schema: pa.Schema | None) -> list[Report]:
        return [report for part in self.parts for report in part.reports(schema)]

    def bind(self, schema: pa.Schema) -> Bound:
        return _BoundJoined(self, [part.bind(schema) for part in self.parts])


class _BoundJoined(Bound):
    def __init__(self, stage: Joined, parts: list[Bound]) -> None:
        self._stage, self._parts = stage, parts
        self.schema = parts[0].schema

    def memory(self) -> Memory:
        return Memory(inner=[part.memory() for part in self._parts])

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        found = [
            part.run(batch, inner, streaming)
            for part, inner in zip(self._parts, memory.inner, strict=True)
        ]
        ends, ends_defined = self._apply([o.ends for o in found], [o.ends_defined for o in found])
        if not streaming:
            return Outcome(ends, ends_defined)
        values, defined = self._apply([o.values for o in found], [o.defined for o in found])
        return Outcome(ends, ends_defined, values, defined)

    def _apply(self, values: list[Any], flags: list[Any]) -> tuple[pa.Array, Flags]:
        defined = np.logical_and.reduce(flags)
        rows = np.flatnonzero(defined)
        picked = [value.take(pa.array(rows)) for value in values]
        operation = self._stage.operation
        if operation.tree is not None:
            columns = dict(zip(operation.names, picked, strict=True))
            answer = evaluate(operation.tree, Rows(columns, len(rows), None))
        else:
            lists = [value.to_pylist() for value in picked]
            answer = as_array([operation(*v) for v in zip(*lists, strict=True)], None)
        at = np.full(len(defined), -1, np.int64)
        at[rows] = np.arange(len(rows))
        return answer.take(pa.array(np.maximum(at, 0), mask=at < 0)), defined

    def explain(self) -> list[str]:
        return [line for part in self._parts for line in part.explain()]

    @property
    def output_type(self) -> pa.DataType | None:
        kinds = [part.output_type for part in self._parts]
        operation = self._stage.operation
        if operation.tree is None or any(kind is None for kind in kinds):
            return None
        columns = {
            name: pa.array([], kind) for name, kind in zip(operation.names, kinds, strict=True)
        }
        return evaluate(operation.tree, Rows(columns, 0, None)).type
