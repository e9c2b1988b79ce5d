"""Aggregates over all matches of an event pattern on a stream, never listing the matches.

Lanes are hashed by the columns of the groups, so that all partitions of a group meet in one lane
and its total is one number (`TotalsInPieces` gives what each piece adds to it). A total over
windows of time is final when the watermark has passed its window, and the longest that a match may
still take to be settled in it. One without windows is never final before the stream is closed:
`emit="changes"` tells how it moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ensue.automaton.plan import Plan, atom_name
from ensue.operator import state
from ensue.operator.hold import Tails
from ensue.operator.protocol import Key, Snapshot, Watermark, key_at
from ensue.query.query import WindowKind
from ensue.run.lanes.events import HeldRows, ordered
from ensue.run.lanes.rows import ID, key_out
from ensue.run.lanes.stages import refused
from ensue.run.lanes.work import Settings, Stage, Work
from ensue.scalar.moments import in_numbers
from ensue.sequences.aggregates import Aggregates, Total
from ensue.sequences.pieces import TotalsInPieces
from ensue.sequences.totals import TOTAL, WINDOW_START, Finish, Grouping
from ensue.sequences.totals_evaluator import KIND


@dataclass(frozen=True)
class TotalsWork(Work):
    planned: Plan
    grouping: Grouping

    def stage(self, lane: int) -> Stage:
        return TotalsStage(self, lane == 0)


def totals_work(
    planned: Plan,
    grouping: Grouping,
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> TotalsWork:
    found = Finish(planned, grouping, schema).table([]).schema
    keys = planned.query.partition_by
    return TotalsWork(schema, found, keys, time, settings, description, planned, grouping)


class TotalsStage(HeldRows):
    """See the module."""

    def __init__(self, work: TotalsWork, first: bool) -> None:
        super().__init__(work.planned.query)
        self._work, self._first = work, first
        self._plan, self._grouping = work.planned, work.grouping
        self._finish = Finish(self._plan, self._grouping, work.schema)
        self._pieces = self._opened(None)
        self._groups = self._pieces.schema().empty_table()
        self._closed = False

    def _opened(self, saved: Snapshot | None) -> TotalsInPieces:
        return TotalsInPieces(self._plan, self._work.schema, self._grouping, saved)

    @property
    def tails(self) -> Tails:
        return self._pieces.tails

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        self._add(self._pieces.insert(ordered(self._query, rows)))
        return iter(())

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        self._add(self._pieces.advance(Watermark(horizon)))
        return self._passed(horizon)

    def end(self) -> Iterator[pa.Table]:
        self._add(self._pieces.end())
        self._closed = True
        alone = self._first and not self._grouping.by
        found = self._shown(self._groups, alone)
        self._groups = self._groups.slice(0, 0)
        if found.num_rows:
            yield found

    def forget(self, before: int) -> Iterator[pa.Table]:
        keys = self.silent(before)
        if keys:
            self._add(self._pieces.end(keys))
        return iter(())

    def standing(self) -> Iterator[pa.Table]:
        if not self._closed:
            yield self._shown(self._groups, self._first and not self._grouping.by)

    def _add(self, partials: pa.Table) -> None:
        if partials.num_rows:
            self._groups = self._merged([self._groups, partials])

    def _merged(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Partials of one group added up, still as partials."""
        aggregates = Aggregates(self._plan, None)
        schema = self._groups.schema
        slots = range(len(aggregates.slots))
        names = [n for n in (*self._grouping.by, WINDOW_START) if n in schema.names]
        groups: dict[tuple[Any, ...], Total] = {}
        for row in (row for table in tables for row in in_numbers(table).to_pylist()):
            key = tuple(row[name] for name in names)
            total = aggregates.unpack(row[TOTAL], [row.get(atom_name(i)) for i in slots])
            known = groups.get(key)
            groups[key] = total if known is None else aggregates.join(known, total)
        columns: dict[str, list[Any]] = {
            name: [key[i] for key in groups] for i, name in enumerate(names)
        }
        columns[TOTAL] = [aggregates.pack(total) for total in groups.values()]
        for index in slots:
            if atom_name(index) in schema.names:
                columns[atom_name(index)] = [total[1][index][1] for total in groups.values()]
        return pa.table({n: pa.array(columns[n], schema.field(n).type) for n in schema.names})

    def _slack(self) -> int:
        window = self._query.within
        timed = window is not None and window.kind is WindowKind.TIME
        return int(window.size) if window is not None and timed else 0

    def _passed(self, horizon: int) -> Iterator[pa.Table]:
        if self._grouping.every is None or not self._groups.num_rows:
            return
        edge = horizon - self._slack() - self._grouping.every
        over = pc.less(self._groups[WINDOW_START], edge)
        if pc.any(over).as_py():
            yield self._shown(self._groups.filter(over), False)
            self._groups = self._groups.filter(pc.invert(over))

    def _shown(self, groups: pa.Table, alone: bool) -> pa.Table:
        found = self._finish.table([groups], alone=alone)
        if not self._work.settings.speculative:
            return found
        names = [n for n in (*self._grouping.by, WINDOW_START) if n in found.column_names]
        ids = [repr(key_at(found, row, names)) for row in range(found.num_rows)]
        return found.append_column(ID, pa.array(ids, pa.string()))

    def next_time(self) -> int | None:
        times = [super().next_time()]
        if self._grouping.every is not None and self._groups.num_rows:
            first = pc.min(self._groups[WINDOW_START]).as_py()
            times.append(int(first) + self._grouping.every + self._slack() + 1)
        return min((time for time in times if time is not None), default=None)

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        return refused(orders)

    def copy(self) -> TotalsStage:
        made = TotalsStage(self._work, self._first)
        made._pieces = self._opened(self._pieces.snapshot())
        made._groups = self._groups
        return made

    def save(self) -> bytes:
        blobs = self._pieces.snapshot().keys
        fields = [self._work.schema.field(name) for name in self._query.partition_by]
        columns = {
            f"key_{i}": pa.array([key_out(key[i], f.type) for key in blobs], f.type)
            for i, f in enumerate(fields)
        }
        columns["state"] = pa.array(list(blobs.values()), pa.binary())
        parts = {"keys": pa.table(columns), "groups": self._groups}
        return state.pack(KIND, parts, query=self._plan.fingerprint)

    def load(self, blob: bytes) -> None:
        parts = state.unpack(KIND, blob, self._plan.fingerprint)
        keys, self._groups = parts.table("keys"), parts.table("groups")
        names = [name for name in keys.column_names if name != "state"]
        blobs: dict[Key, bytes] = {
            key_at(keys, row, names): keys["state"][row].as_py() for row in range(keys.num_rows)
        }
        self._pieces = self._opened(Snapshot(blobs))
