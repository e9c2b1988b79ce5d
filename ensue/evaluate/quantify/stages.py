"""Queries around automata: composition in a pipeline, groups; all on whole vectors.

A *stage* takes the events of many partitions and gives a value per event where it is defined, and
one per partition at the end. An automaton is a stage; windows (`windows.py`) and groups only cut
the input into more partitions for the stage inside; a pipeline feeds the defined values of one
stage to the next. State between calls (`memory`) is kept per partition, at a place the caller
names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.evaluate.arrange import group_codes
from ensue.evaluate.columns import Rows, evaluate
from ensue.evaluate.quantify.checks import Report, check
from ensue.evaluate.quantify.model import Automaton, Operation
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
