"""Summaries of many keys in one pass: one row per key, for a runner that has rows in key order.

Keys whose events all fit are counted together by one kernel and their rows pass through as they
are (`together.py`); only keys that overflow go through the selection loop one by one, and those
whose policy or values the kernel does not know. A key that comes in pieces is held open until it
is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.operator.arrange import flat
from ensue.operator.protocol import Events
from ensue.query.query import Query
from ensue.summary import reading
from ensue.summary.answers import answer
from ensue.summary.groups import GroupedStore, Groups
from ensue.summary.intake import VALUE
from ensue.summary.kernels import select as kernel
from ensue.summary.limbs import limbs_of
from ensue.summary.store import Selection, Store
from ensue.summary.together import answers_together, plain_readings, quick, value_readings

BITS = "__ensue_bits"
MOST_VALUES = 64  # of an attribute in `equal`; a key with more is counted by itself
METRICS = pa.struct(
    [(name, pa.int64()) for name in ("rows", "kept", "removed", "discarded", "irrelevant")]
)


@dataclass
class BatchSummaries:
    """`query` is bound to the input; `columns` are those of the retained events."""

    query: Query
    selection: Selection
    total: reading.Total | None
    groups: Groups | None
    columns: list[str]
    text: bool  # numbers as digits, of any length
    _open: list[pa.Table] = field(default_factory=list)

    def schema(self, given: pa.Schema) -> pa.Schema:
        fields = [given.field(name) for name in self.query.partition_by]
        number = pa.string() if self.text else pa.decimal128(38, 0)
        fields.append(pa.field("count", number))
        if self.total is not None:
            kind = given.field(VALUE).type
            total = pa.string() if self.text else _sum_type(kind)
            fields += [
                pa.field("sum", total),
                pa.field("avg", pa.float64()),
                pa.field("min", kind),
                pa.field("max", kind),
            ]
        events = pa.struct([given.field(name) for name in self.columns])
        return pa.schema(
            [*fields, pa.field("events", pa.list_(events)), pa.field("metrics", METRICS)]
        )

    @property
    def pending(self) -> bool:
        """Whether a key is held open."""
        return bool(self._open)

    def process(self, events: Events) -> Iterator[pa.Table]:
        """Rows of the keys that are complete."""
        table, starts = events.table.combine_chunks(), events.starts
        if self._open:
            # A key that came in pieces: its rows so far go before the first of these.
            held = pa.concat_tables([*self._open, table]).combine_chunks()
            starts = np.append([0], starts[1:] + (held.num_rows - table.num_rows))
            table, self._open = held, []
        if len(events.complete) and not events.complete[-1]:
            last = int(starts[-2])
            self._open = [table.slice(last)]
            table, starts = table.slice(0, last), starts[:-1]
        if len(starts) > 1:
            yield self._rows(table.combine_chunks(), np.asarray(starts, np.int64))

    def _rows(self, table: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        masks = flat(table, BITS).to_numpy()
        machine = self.selection.machine
        if self.groups is not None:
            # An event without the attribute has none of the labels that it binds.
            without = self.groups.codes(table) < 0
            masks = np.where(without, masks & ~self.groups.keyed, masks)
        distinct, inverse = np.unique(masks, return_inverse=True)
        classes = np.array([machine.class_of(int(m)) for m in distinct], np.int64)[inverse]
        times = self._times(table, starts)
        relevant = classes >= 0
        kept = np.add.reduceat(relevant.astype(np.int64), starts[:-1])
        found = _Found(self, table, starts, masks, classes, times)
        plain = quick(starts, times, self.selection.window)
        plain &= (kept <= self.selection.size) & machine.fork
        if plain.any():
            plain &= found.together(plain)
        for key in np.flatnonzero(~plain):
            found.alone(int(key))
        return found.table(relevant)

    def _times(self, table: pa.Table, starts: NDArray[np.int64]) -> NDArray[Any]:
        if self.selection.counted:
            rows = np.arange(table.num_rows)
            return rows - np.repeat(starts[:-1], np.diff(starts))
        found = reading.times_of(self.query, table)
        assert found is not None
        return found


class _Found:
    """Answers of the keys of one table, in their order."""

    def __init__(
        self,
        asked: BatchSummaries,
        table: pa.Table,
        starts: NDArray[np.int64],
        masks: NDArray[np.int64],
        classes: NDArray[np.int64],
        times: NDArray[Any],
    ) -> None:
        self._asked = asked
        self._table = table
        self._starts = starts
        self._masks, self._classes, self._times = masks, classes, times
        keys = len(starts) - 1
        self._answers: list[dict[str, Any]] = [{}] * keys
        self._kept: dict[int, NDArray[np.int64]] = {}
        self._metrics = np.zeros((keys, 5), np.int64)
        self._metrics[:, 0] = np.diff(starts)

    def together(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_] | bool:
        """Keys that fit, in one call; which of them were answered."""
        asked, machine = self._asked, self._asked.selection.machine
        values = None
        if asked.total is not None:
            column = flat(self._table, VALUE)
            relevant = np.repeat(wanted, np.diff(self._starts)) & self._needed(self._masks)
            parts = limbs_of(reading.checked_values(asked.total, column, relevant))
            if parts is None:
                return False
            values = column, parts
        readings = plain_readings(self._starts, self._classes)
        if asked.groups is not None:
            codes = asked.groups.codes(self._table)
            wanted = wanted & (self._values(codes) <= MOST_VALUES)
            readings = value_readings(
                machine, self._starts, wanted, self._masks, codes, asked.groups.keyed
            )
        window = asked.selection.window
        answered = answers_together(
            machine, readings, self._starts, wanted, self._times, window, values
        )
        for key, found in answered.items():
            self._answers[key] = found.as_dict(asked.total is not None)
        return wanted

    def _needed(self, masks: NDArray[np.int64]) -> NDArray[np.bool_]:
        assert self._asked.total is not None
        return masks & sum(1 << label for label in self._asked.total.labels) != 0

    def _values(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Values of the attribute by key, which is how often the key would be read."""
        keys = np.repeat(np.arange(len(self._starts) - 1), np.diff(self._starts))
        width = int(codes.max(initial=-1)) + 2
        held = np.unique(keys * width + codes + 1)
        return np.bincount(held // width, minlength=len(self._starts) - 1)

    def alone(self, key: int) -> None:
        """One key through the selection loop, and measured."""
        asked = self._asked
        part = slice(int(self._starts[key]), int(self._starts[key + 1]))
        selection = Selection(**{**vars(asked.selection), "_tables": None})
        kind = np.float64 if self._times.dtype == np.float64 else np.int64
        ids = np.arange(part.start, part.stop)
        values = flat(self._table, VALUE)[part] if self._valued else None
        if values is not None and asked.total is not None:
            values = reading.checked_values(asked.total, values, self._needed(self._masks[part]))
        weights = reading.weights(values, len(ids))
        store: Store
        if asked.groups is not None:
            grouped = GroupedStore(selection, kind, asked.groups)
            codes = asked.groups.codes(self._table.slice(part.start, len(ids)))
            grouped.insert_grouped(self._times[part], self._masks[part], weights, ids, codes)
            store = grouped
        else:
            store = Store(selection, kind)
            store.insert(self._times[part], self._classes[part], weights, ids)
        retained = store.ids.copy()
        self._kept[key] = retained
        numbers = store.numbers
        self._metrics[key, 2:4] = numbers[kernel.REMOVED], numbers[kernel.DISCARDED]
        held = None if values is None else values.take(pa.array(retained - part.start))
        exact = answer(selection, store, reading.scaled(held, store.count), False)
        self._answers[key] = exact.as_dict(asked.total is not None)

    @property
    def _valued(self) -> bool:
        return self._asked.total is not None

    def table(self, relevant: NDArray[np.bool_]) -> pa.Table:
        keys = len(self._starts) - 1
        chosen = relevant.copy()
        for key, retained in self._kept.items():
            chosen[self._starts[key] : self._starts[key + 1]] = False
            chosen[retained] = True
        counts = np.add.reduceat(chosen.astype(np.int64), self._starts[:-1])
        known = np.add.reduceat(relevant.astype(np.int64), self._starts[:-1])
        self._metrics[:, 1] = counts
        self._metrics[:, 4] = self._metrics[:, 0] - known
        rows = self._table.select(self._asked.columns)
        if not chosen.all():
            rows = rows.filter(pa.array(chosen))
        rows = rows.combine_chunks()
        offsets = pa.array(np.append(0, np.cumsum(counts)).astype(np.int32))
        events = pa.ListArray.from_arrays(
            offsets,
            pa.StructArray.from_arrays(
                [flat(rows, name) for name in rows.column_names],
                fields=[rows.schema.field(name) for name in rows.column_names],
            ),
        )
        metrics = pa.StructArray.from_arrays(
            [pa.array(self._metrics[:, i].copy()) for i in range(5)], fields=list(METRICS)
        )
        firsts = pa.array(self._starts[:-1])
        schema = self._asked.schema(self._table.schema)
        columns: list[Any] = [
            flat(self._table, name).take(firsts) for name in self._asked.query.partition_by
        ]
        for name in schema.names[len(columns) : -2]:
            kind = schema.field(name).type
            columns.append(
                pa.array([number_shown(a.get(name), kind, name) for a in self._answers], kind)
            )
        assert len(columns[0]) == keys
        return pa.Table.from_arrays([*columns, events, metrics], schema=schema)


def number_shown(value: Any, kind: pa.DataType, name: str) -> Any:
    """A number of an answer as its column holds it."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return str(value)
    if not pa.types.is_decimal(kind):
        return value
    if abs(value) >= Decimal(10) ** (kind.precision - kind.scale):
        raise errors.OverflowDataError(
            f"a {name} has {len(str(int(value)))} digits, and DECIMAL holds {kind.precision}",
            remedy="ask for digits: summarize(..., counts='text')",
        )
    return Decimal(value)


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(kind):
        return pa.float64()
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    return pa.decimal128(38, scale)
