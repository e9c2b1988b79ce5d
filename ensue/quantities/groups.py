"""A stage for each value of the key columns: groups are partitions of partitions.

Each group keeps its state at a place of its own in the memory of the stage inside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.kernels.order import first_rows
from ensue.operator.arrange import group_codes
from ensue.operator.protocol import key_value
from ensue.quantities.bound import Batch, Bound, Extra, Outcome, taken
from ensue.quantities.memory import Flags, Indices, Memory
from ensue.quantities.stages import VALUE, Around, Question
from ensue.scalar.moments import values_of


@dataclass
class Groups(Around):
    """f for each value of the key columns."""

    keys: tuple[str, ...]
    inner: Question

    def columns(self) -> tuple[str, ...]:
        return self.keys

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


@dataclass(frozen=True)
class _Placed:
    """Groups of a batch: their partition, place, and whether they are new; then those that only
    end with their partition."""

    owner: Indices
    place: Indices
    fresh: Flags
    last: Indices  # per partition: the group of its last event
    freed: list[int]
    turn: dict[int, int]  # by place: when the group first appeared


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
        super().__init__(inner.schema, (inner,))
        self.keys, self.inner = stage.keys, inner

    def memory(self) -> Memory:
        return Memory(inner=[self.inner.memory()], grouped=True)

    def _groups(self, batch: Batch) -> tuple[Indices, Indices]:
        """An order of the rows, group after group, and the groups' first rows + length."""
        if batch.table.num_rows == 0:
            return np.zeros(0, np.int64), np.zeros(1, np.int64)
        codes, _ = group_codes(batch.table, self.keys)
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
        outcome = self.inner.run(inner, memory.inner[0], True)
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
        columns = [values_of(table.column(name).take(pa.array(starts[:-1]))) for name in self.keys]
        keys = [tuple(map(key_value, key)) for key in zip(*columns, strict=True)]
        group_of = np.empty(len(order), np.int64)  # per row
        group_of[order] = np.repeat(np.arange(count), np.diff(starts))
        owner_of, place_of, fresh = owners.tolist(), [0] * count, [False] * count
        last_of, freed, turn = [-1] * len(batch.places), list[int](), dict[int, int]()
        begins = np.searchsorted(owners, np.arange(len(batch.places) + 1))
        for owner, place in enumerate(batch.places.tolist()):
            if batch.fresh[owner]:
                freed += memory.groups.pop(place, {}).values()
                memory.seen[place] = 0
            groups = memory.groups.setdefault(place, {})
            active = range(int(begins[owner]), int(begins[owner + 1]))
            # Groups are numbered as they first appear.
            for index in sorted(active, key=lambda i: int(order[starts[i]])):
                fresh[index] = keys[index] not in groups
                if fresh[index]:
                    groups[keys[index]] = memory.group()
                place_of[index] = groups[keys[index]]
            if batch.starts[owner + 1] > batch.starts[owner]:
                last_of[owner] = int(group_of[batch.starts[owner + 1] - 1])
                memory.numbers[place], memory.seen[place] = place_of[last_of[owner]], 1
            if not batch.complete[owner]:
                continue
            # A complete partition ends all its groups, also those that have no event here.
            here = {place_of[i] for i in active}
            for inner in groups.values():
                turn[inner] = len(turn)
                if inner not in here:
                    known = memory.seen[place] and inner == memory.numbers[place]
                    if last_of[owner] < 0 and known:
                        last_of[owner] = len(owner_of)
                    owner_of.append(owner)
                    place_of.append(inner)
                    fresh.append(False)
        return _Placed(
            np.array(owner_of, np.int64),
            np.array(place_of, np.int64),
            np.array(fresh, np.bool_),
            np.array(last_of, np.int64),
            freed,
            turn,
        )

    def per_group(self, batch: Batch, memory: Memory) -> pa.Table:
        """The key columns and the value of each group, in order of first appearance."""
        order, starts = self._groups(batch)
        table = batch.table.take(pa.array(order))
        outcome = self.inner.run(Batch.whole(table, starts), memory, False)
        firsts = order[starts[:-1]]
        shown = np.argsort(firsts)
        keys = table.select(list(self.keys)).take(pa.array(starts[:-1][shown]))
        return keys.append_column(VALUE, outcome.ends.take(pa.array(shown)))

    def explain(self) -> list[str]:
        return [f"for each {', '.join(self.keys)}: {line}" for line in super().explain()]
