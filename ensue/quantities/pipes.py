"""Questions of questions: pipelines, and operations on the values of several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.quantities.bound import Batch, Bound, Extra, Mark, Outcome, taken
from ensue.quantities.checks import Report
from ensue.quantities.memory import Flags, Indices, Memory
from ensue.quantities.model import Operation
from ensue.quantities.run import as_array
from ensue.quantities.stages import VALUE, Question
from ensue.scalar.arrow_kinds import from_arrow, to_arrow
from ensue.scalar.columns import Rows, evaluate


@dataclass
class Pipe(Question):
    """f >> g: each defined value of f is an event of g, with the columns it carries."""

    first: Question
    second: Question

    def reports(self, schema: pa.Schema | None) -> list[Report]:
        between = None
        if schema is not None:
            first = self.first.bind(schema)
            between = None if first.output_type is None else _passed(first, first.output_type)
        return self.first.reports(schema) + self.second.reports(between)

    def allowing(self, allow: str | None, assume: str | None) -> Question:
        return Pipe(self.first.allowing(allow, assume), self.second.allowing(allow, assume))

    def parts(self) -> tuple[Question, ...]:
        return (self.first, self.second)

    def title(self) -> str:
        return "then"

    def bind(self, schema: pa.Schema) -> Bound:
        first = self.first.bind(schema)
        kind = first.output_type
        if kind is None:
            raise errors.UnsupportedError(
                "the type of the first query's values is not known before it runs, so the second "
                "cannot be prepared",
                remedy="use SQL text in place of the Python callable, as in apply('a * 2', f)",
            )
        return _BoundPipe(first, self.second.bind(_passed(first, kind)))


def _passed(first: Bound, kind: pa.DataType) -> pa.Schema:
    """The columns of the values that become events."""
    kept = [f for f in first.carried if f.name.lower() != VALUE]
    return pa.schema([*kept, pa.field(VALUE, kind)])


class _BoundPipe(Bound):
    def __init__(self, first: Bound, second: Bound) -> None:
        super().__init__(first.schema, (first, second))
        self._first, self._second = first, second
        self._names = [name for name in second.schema.names if name != VALUE]
        self._onward = [name for name in second.carried.names if name != VALUE]

    @property
    def carried(self) -> pa.Schema:
        return pa.schema([f for f in self._second.carried if f.name != VALUE])

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        found = self._first.run(batch, memory.inner[0], True)
        assert found.values is not None and found.defined is not None
        rows = np.flatnonzero(found.defined)
        source = batch.table if found.carried is None else found.carried
        table = _table(source, self._names, found.values, rows)
        owner, after = batch.owner[rows], np.zeros(len(rows), np.bool_)
        if found.extra is not None and len(found.extra.owner):
            # What no event brought comes after the events of its partition.
            tail = _table(found.extra.carried, self._names, found.extra.values)
            owner = np.concatenate([owner, found.extra.owner])
            after = np.concatenate([after, np.ones(tail.num_rows, np.bool_)])
            order = np.argsort(owner, kind="stable")
            owner, after = owner[order], after[order]
            table = pa.concat_tables([table, tail]).combine_chunks().take(pa.array(order))
        starts = np.searchsorted(owner, np.arange(len(batch.starts))).astype(np.int64)
        inner = Batch(table, starts, batch.places, batch.fresh, batch.complete, batch.once)
        outcome = self._second.run(inner, memory.inner[1], streaming)
        if not streaming:
            return outcome
        assert outcome.values is not None and outcome.defined is not None
        at = np.full(batch.table.num_rows, -1, np.int64)
        at[rows] = np.flatnonzero(~after)
        defined = at >= 0
        if len(rows):
            defined &= outcome.defined[np.maximum(at, 0)]
        picked = pa.array(np.maximum(at, 0), mask=at < 0)
        values = outcome.values.take(picked)
        carried = None
        if found.carried is not None or outcome.carried is not None:
            carried = taken(self._carries(outcome, table), picked)
        late = self._told(outcome, table, owner, after & outcome.defined)
        extra = _joined(late, outcome.extra)
        return Outcome(outcome.ends, outcome.ends_defined, values, defined, carried, extra)

    def advance(self, places: Indices, memory: Memory, mark: Mark) -> Extra | None:
        told: Extra | None = None
        found = self._first.advance(places, memory.inner[0], mark)
        if found is not None and len(found.owner):
            order = np.argsort(found.owner, kind="stable")
            owner = found.owner[order]
            table = _table(found.carried, self._names, found.values).take(pa.array(order))
            partitions = np.unique(owner)
            starts = np.append(np.searchsorted(owner, partitions), len(owner)).astype(np.int64)
            flags = np.zeros(len(partitions), np.bool_)
            inner = Batch(table, starts, places[partitions], flags, flags)
            outcome = self._second.run(inner, memory.inner[1], True)
            assert outcome.values is not None and outcome.defined is not None
            told = self._told(outcome, table, owner, outcome.defined)
        passed = self._first.passed(mark)
        if passed is None:
            return told
        return _joined(told, self._second.advance(places, memory.inner[1], passed))

    def _carries(self, outcome: Outcome, table: pa.Table) -> pa.Table:
        return table.select(self._onward) if outcome.carried is None else outcome.carried

    def _told(self, outcome: Outcome, table: pa.Table, owner: Indices, chosen: Flags) -> Extra:
        """Values of the second question that come with no event of the first."""
        assert outcome.values is not None
        rows = pa.array(np.flatnonzero(chosen))
        carried = taken(self._carries(outcome, table), rows)
        return Extra(owner[chosen], outcome.values.take(rows), carried)

    def due(self, memory: Memory, column: str) -> int | None:
        times = [self._first.due(memory.inner[0], column)]
        passed = self._first.passed(Mark(column, 0))
        if passed is not None:
            time = self._second.due(memory.inner[1], passed.column)
            reached = None if time is None else self._first.reached(Mark(passed.column, time))
            times.append(None if reached is None else reached.time)
        known = [time for time in times if time is not None]
        return min(known) if known else None

    def passed(self, mark: Mark) -> Mark | None:
        passed = self._first.passed(mark)
        return None if passed is None else self._second.passed(passed)

    def reached(self, mark: Mark) -> Mark | None:
        reached = self._second.reached(mark)
        return None if reached is None else self._first.reached(reached)


def _table(
    source: pa.Table, names: list[str], values: pa.Array, rows: Indices | None = None
) -> pa.Table:
    """Values as events: the columns they carry, and themselves."""
    columns = {name: source.column(name) for name in names}
    table = pa.table({**columns, VALUE: values})
    return table if rows is None else table.take(pa.array(rows)).combine_chunks()


def _joined(one: Extra | None, other: Extra | None) -> Extra | None:
    """What comes first, then what comes after it, partition by partition."""
    if one is None or other is None or not len(one.owner):
        return other if one is None or not len(one.owner) else one
    owner = np.concatenate([one.owner, other.owner])
    order = np.argsort(owner, kind="stable")
    values = pa.concat_arrays([one.values, other.values.cast(one.values.type)])
    carried = taken(pa.concat_tables([one.carried, other.carried]), pa.array(order))
    return Extra(owner[order], values.take(pa.array(order)), carried)


# -- operations -----------------------------------------------------------------------------------


@dataclass
class Joined(Question):
    """op of several stages on the same events, where all are defined."""

    operation: Operation
    operands: list[Question]

    def allowing(self, allow: str | None, assume: str | None) -> Question:
        return replace(self, operands=[p.allowing(allow, assume) for p in self.operands])

    def parts(self) -> tuple[Question, ...]:
        return tuple(self.operands)

    def title(self) -> str:
        return str(self.operation)

    def bind(self, schema: pa.Schema) -> Bound:
        return _BoundJoined(self, [part.bind(schema) for part in self.operands])


class _BoundJoined(Bound):
    def __init__(self, stage: Joined, parts: list[Bound]) -> None:
        super().__init__(parts[0].schema, parts)
        self._stage = stage
        self._type: pa.DataType | None = None
        kinds = [part.output_type for part in parts]
        known = tuple(from_arrow(kind) for kind in kinds if kind is not None)
        if len(known) == len(kinds):
            kind = stage.operation.kind(known, "combine" if len(parts) > 1 else "apply")
            self._type = None if kind is None else to_arrow(kind)

    @property
    def carried(self) -> pa.Schema:
        return super().carried if len(self.parts) == 1 or self.on_events else pa.schema([])

    @property
    def output_type(self) -> pa.DataType | None:
        return self._type

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        found = [
            part.run(batch, inner, streaming)
            for part, inner in zip(self.parts, memory.inner, strict=True)
        ]
        ends, ends_defined = self._apply([o.ends for o in found], [o.ends_defined for o in found])
        if not streaming:
            return Outcome(ends, ends_defined)
        values, defined = self._apply([o.values for o in found], [o.defined for o in found])
        if len(found) == 1:
            extra = self._applied(found[0].extra)
            return Outcome(ends, ends_defined, values, defined, found[0].carried, extra)
        # Where a part has a value after the last event, so has the whole, with the others' last.
        late = np.zeros(len(ends_defined), np.bool_)
        for outcome in found:
            if outcome.extra is not None:
                late[outcome.extra.owner] = True
        rows = np.flatnonzero(late & ends_defined)
        extra = Extra(rows, ends.take(pa.array(rows)), pa.table({})) if len(rows) else None
        carried = None if self.on_events else pa.table({})
        return Outcome(ends, ends_defined, values, defined, carried, extra)

    def advance(self, places: Indices, memory: Memory, mark: Mark) -> Extra | None:
        if len(self.parts) > 1:
            return None  # the values of several parts meet at events
        return self._applied(self.parts[0].advance(places, memory.inner[0], mark))

    def due(self, memory: Memory, column: str) -> int | None:
        return self.parts[0].due(memory.inner[0], column) if len(self.parts) == 1 else None

    def passed(self, mark: Mark) -> Mark | None:
        return self.parts[0].passed(mark) if len(self.parts) == 1 else None

    def reached(self, mark: Mark) -> Mark | None:
        return self.parts[0].reached(mark) if len(self.parts) == 1 else None

    def _applied(self, extra: Extra | None) -> Extra | None:
        if extra is None:
            return None
        values, _ = self._apply([extra.values], [np.ones(len(extra.owner), np.bool_)])
        return replace(extra, values=values)

    def _apply(self, values: list[Any], flags: list[Any]) -> tuple[pa.Array, Flags]:
        defined: Flags = np.logical_and.reduce(flags)
        rows = np.flatnonzero(defined)
        picked = [value.take(pa.array(rows)) for value in values]
        operation = self._stage.operation
        if operation.tree is not None:
            columns = dict(zip(operation.names, picked, strict=True))
            answer = evaluate(operation.tree, Rows(columns, len(rows), None))
        else:
            lists = [value.to_pylist() for value in picked]
            answer = as_array([operation(*v) for v in zip(*lists, strict=True)], self._type)
        at = np.full(len(defined), -1, np.int64)
        at[rows] = np.arange(len(rows))
        return answer.take(pa.array(np.maximum(at, 0), mask=at < 0)), defined
