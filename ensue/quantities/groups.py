"""A stage for each value of the key columns: groups are partitions of partitions.

Each group keeps its state at a place of its own in the memory of the stage inside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.kernels.order import first_rows
from ensue.operator.arrange import group_codes
from ensue.operator.protocol import key_value
from ensue.quantities.memory import Flags, Indices, Memory
from ensue.quantities.run import Extra, Outcome, taken
from ensue.quantities.stages import VALUE, Around, Batch, Bound, Question
from ensue.scalar.moments import values_of


@dataclass
class Groups(Around):
    """f for each value of the key columns."""

    keys: tuple[str, ...]
    inner: Question

    def reads(self) -> frozenset[str] | None:
        inside = self.inner.reads()
        return None if inside is None else inside | {name.lower() for name in self.keys}

    def title(self) -> str:
        return f"for each {', '.join(self.keys)}"

    def bind(self, schema: pa.Schema) -> Bound:
        for name in self.keys:
            if name not in schema.names:
                raise errors.UnknownColumnError(
                    f"group_by names the column {name!r}, which the input does not have",
                    remedy=f"use one of {', '.join(schema.names)}",
                )
        return BoundGroups(self, self.inner.bind(schema))


@dataclass
class _Placed:
    """Groups of a batch: their partition, place, and whether they are new; then those that only
    end with their partition."""

    owner_: list[int]
    place_: list[int]
    fresh_: list[bool]
    last_: list[int] = field(default_factory=list)  # per partition: the group of its last event
    freed: list[int] = field(default_factory=list)
    turn: dict[int, int] = field(default_factory=dict)  # by place: when the group first appeared

    def end(
        self, owner: int, groups: dict[Any, int], active: set[int], memory: Memory, place: int
    ) -> None:
        """A complete partition ends all its groups, also those that have no event here."""
        for inner in groups.values():
            self.turn[inner] = len(self.turn)
            if inner not in active:
                if self.last_[owner] < 0 and memory.seen[place] and inner == memory.numbers[place]:
                    self.last_[owner] = len(self.owner_)
                self.owner_.append(owner)
                self.place_.append(inner)
                self.fresh_.append(False)

    @property
    def owner(self) -> Indices:
        return np.array(self.owner_, np.int64)

    @property
    def place(self) -> Indices:
        return np.array(self.place_, np.int64)

    @property
    def fresh(self) -> Flags:
        return np.array(self.fresh_, np.bool_)

    @property
    def last(self) -> Indices:
        return np.array(self.last_, np.int64)


def _by_owner(extra: Extra | None, placed: _Placed) -> Extra | None:
    """Values after the last event, group after group in the order they first appeared."""
    if extra is None or not len(extra.owner):
        return None
    owners, places = placed.owner[extra.owner], placed.place[extra.owner]
    turns = np.array([placed.turn[place] for place in places.tolist()], np.int64)
    order = np.lexsort((np.arange(len(turns)), turns, owners))
    carried = taken(extra.carried, pa.array(order))
    return Extra(owners[order], extra.values.take(pa.array(order)), carried)


class BoundGroups(Bound):
    def __init__(self, stage: Groups, inner: Bound) -> None:
        self._stage, self._inner = stage, inner
        self.schema = inner.schema

    def memory(self) -> Memory:
        return Memory(inner=[self._inner.memory()], grouped=True)

    @property
    def carried(self) -> pa.Schema:
        return self._inner.carried

    @property
    def on_events(self) -> bool:
        return self._inner.on_events

    def _groups(self, batch: Batch) -> tuple[Indices, Indices]:
        """An order of the rows, group after group, and the groups' first rows + length."""
        if batch.table.num_rows == 0:
            return np.zeros(0, np.int64), np.zeros(1, np.int64)
        codes, _ = group_codes(batch.table, self._stage.keys)
        combined = batch.owner * (int(codes.max(initial=0)) + 1) + codes
        order = np.argsort(combined, kind="stable")
        starts = np.append(first_rows(combined[order]), len(order)).astype(np.int64)
        return order, starts

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        memory.grow(int(batch.places.max(initial=-1)) + 1)
        order, starts = self._groups(batch)
        table = batch.table.take(pa.array(order))
        placed = self._placed(batch, memory, table, order, starts)
        extra_starts = np.full(len(placed.owner) - len(starts) + 1, starts[-1])
        inner = Batch(
            table,
            np.concatenate([starts, extra_starts]).astype(np.int64),
            placed.place,
            placed.fresh,
            batch.complete[placed.owner],
            batch.once,
        )
        outcome = self._inner.run(inner, memory.inner[0], True)
        memory.release(placed.freed)
        assert outcome.values is not None and outcome.defined is not None
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        values, defined = outcome.values.take(pa.array(back)), outcome.defined[back]
        carried = None if outcome.carried is None else taken(outcome.carried, pa.array(back))
        some = placed.last >= 0
        ends_defined = np.zeros(len(some), np.bool_)
        ends_defined[some] = outcome.ends_defined[placed.last[some]]
        ends = outcome.ends.take(
            pa.array(np.where(ends_defined, placed.last, 0), mask=~ends_defined)
        )
        extra = _by_owner(outcome.extra, placed)
        return Outcome(ends, ends_defined, values, defined, carried, extra)

    def _placed(
        self, batch: Batch, memory: Memory, table: pa.Table, order: Indices, starts: Indices
    ) -> _Placed:
        """Where each group keeps its state, partition by partition: a place may serve in turn."""
        count = len(starts) - 1
        owners = batch.owner[order[starts[:-1]]] if count else np.zeros(0, np.int64)
        columns = [
            values_of(table.column(name).take(pa.array(starts[:-1]))) for name in self._stage.keys
        ]
        keys = [tuple(map(key_value, key)) for key in zip(*columns, strict=True)]
        group_of = np.empty(len(order), np.int64)  # per row
        group_of[order] = np.repeat(np.arange(count), np.diff(starts))
        found = _Placed(owners.tolist(), [0] * count, [False] * count)
        begins = np.searchsorted(owners, np.arange(len(batch.places) + 1))
        for owner, place in enumerate(batch.places.tolist()):
            if batch.fresh[owner]:
                found.freed += memory.groups.pop(place, {}).values()
                memory.seen[place] = 0
            groups = memory.groups.setdefault(place, {})
            active = range(int(begins[owner]), int(begins[owner + 1]))
            # Groups are numbered as they first appear.
            for index in sorted(active, key=lambda i: int(order[starts[i]])):
                found.fresh_[index] = keys[index] not in groups
                if found.fresh_[index]:
                    groups[keys[index]] = memory.group()
                found.place_[index] = groups[keys[index]]
            if batch.starts[owner + 1] > batch.starts[owner]:
                last = int(group_of[batch.starts[owner + 1] - 1])
                memory.numbers[place], memory.seen[place] = found.place_[last], 1
                found.last_.append(last)
            else:
                found.last_.append(-1)
            if batch.complete[owner]:
                found.end(owner, groups, {found.place_[i] for i in active}, memory, place)
        return found

    def per_group(self, batch: Batch, memory: Memory) -> pa.Table:
        """The key columns and the value of each group, in order of first appearance."""
        order, starts = self._groups(batch)
        table = batch.table.take(pa.array(order))
        outcome = self._inner.run(Batch.whole(table, starts), memory, False)
        firsts = order[starts[:-1]]
        shown = np.argsort(firsts)
        keys = table.select(list(self._stage.keys)).take(pa.array(starts[:-1][shown]))
        return keys.append_column(VALUE, outcome.ends.take(pa.array(shown)))

    @property
    def inner(self) -> Bound:
        return self._inner

    @property
    def keys(self) -> tuple[str, ...]:
        return self._stage.keys

    def explain(self) -> list[str]:
        keys = ", ".join(self._stage.keys)
        return [f"for each {keys}: {line}" for line in self._inner.explain()]

    @property
    def output_type(self) -> pa.DataType | None:
        return self._inner.output_type
