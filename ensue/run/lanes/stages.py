"""Evaluators as stages of a lane: row patterns all keys at once, others key by key.

`RowsStage` drives `FlatRows`, whose state is one table for all keys of the lane. `KeyedStage`
drives any evaluator of the protocol that keeps state per key: entries of keys that a step does not
touch stay bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.operator.arrange import flat
from ensue.operator.buffer import CONTENT, EVENT, KEY
from ensue.operator.match_names import EVENTS, HIGH, LOW
from ensue.operator.protocol import Events, Key, Output, Snapshot, Watermark, key_at
from ensue.query.query import OrderKey
from ensue.rows.flat import FlatRows
from ensue.run.lanes.rows import ID
from ensue.run.lanes.work import Settings, Stage, Work


@dataclass(frozen=True)
class RowsWork(Work):
    """Matches of a row pattern."""

    planned: Plan

    def stage(self, lane: int) -> Stage:
        return RowsStage(self.planned, self.schema, self.time, self.settings.speculative)


class RowsStage:
    """Row patterns; see the module."""

    def __init__(self, planned: Plan, schema: pa.Schema, time: str, identified: bool) -> None:
        self._made_of = (planned, schema, time, identified)
        self._planned, self._schema, self._time = planned, schema, time
        self._named = identified
        self._evaluator = FlatRows((OrderKey(EVENT if identified else CONTENT),))
        self._inner = named(schema.empty_table()).schema if identified else schema
        self._evaluator.open(planned, self._inner)

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        starts = np.array([0, rows.num_rows], np.int64)
        rows = named(rows) if self._named else rows
        return self._found(self._evaluator.insert(Events(rows, starts, np.array([False]))))

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        return self._found(self._evaluator.advance(Watermark(horizon)))

    def end(self) -> Iterator[pa.Table]:
        return self._found(self._evaluator.end())

    def _found(self, output: Output) -> Iterator[pa.Table]:
        for table in output.tables():
            yield with_identity(table) if self._named else table

    def found(self) -> pa.Schema:
        """Of what is put out, the identity left out."""
        return found_schema(self._evaluator.no_matches(self._inner), self._named)

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        return refused(orders)

    def standing(self) -> Iterator[pa.Table]:
        return iter(())

    def copy(self) -> RowsStage:
        made = RowsStage(*self._made_of)
        made._evaluator.take_over(self._evaluator)
        return made

    def take_over(self, old: RowsStage, change: Callable[[pa.Table], pa.Table]) -> None:
        """Stand where the stage of another pattern stands, its rows changed to be read here."""
        rows = change(unnamed(old._evaluator.held))
        rows = named(rows) if self._named else rows
        self._evaluator.put(rows.select(self._inner.names).cast(self._inner), old._evaluator)

    def save(self) -> bytes:
        return self._evaluator.snapshot().shared

    def load(self, blob: bytes) -> None:
        self._evaluator.open(self._planned, self._inner, state=Snapshot(shared=blob))

    def next_time(self) -> int | None:
        time = self._evaluator.next_time()
        return None if time is None else int(time)

    def drop(self, keys: set[Key]) -> None:
        self._evaluator.keep(~self._chosen(keys))

    def forget(self, before: int) -> Iterator[pa.Table]:
        evaluator = self._evaluator
        if not self.keys:
            return iter(())
        last = np.append(evaluator.first_rows()[1:], evaluator.held.num_rows) - 1
        times = flat(evaluator.held, self._time).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        silent = times.to_numpy()[last] < before
        if not silent.any():
            return iter(())
        names = self._planned.query.partition_by
        firsts = evaluator.first_rows()[silent]
        keys = [key_at(evaluator.held, int(row), names) for row in firsts]
        return self._found(evaluator.end(keys))

    def sizes(self) -> Mapping[Key, int]:
        """Only the largest key: it is the first to pass a limit."""
        lengths = self._evaluator.lengths
        if not len(lengths):
            return {}
        most = lengths >= max(int(lengths.max()), 1)
        names = self._planned.query.partition_by
        rows = zip(self._evaluator.first_rows()[most], lengths[most], strict=True)
        return {key_at(self._evaluator.held, int(row), names): int(size) for row, size in rows}

    @property
    def partials(self) -> int:
        return self._evaluator.metrics.partials

    @property
    def keys(self) -> int:
        return len(self._evaluator.lengths)

    def _chosen(self, keys: set[Key]) -> NDArray[np.bool_]:
        names = self._planned.query.partition_by
        rows = self._evaluator.first_rows()
        return np.array([key_at(self._evaluator.held, int(r), names) in keys for r in rows], bool)


def refused(orders: Sequence[str]) -> list[dict[str, str]]:
    """Edits of a stream that takes none."""
    reason = "the stream was started without edits=True: its pattern is fixed"
    return [{"order": order.partition("\n")[0], "error": reason} for order in orders]


def named(rows: pa.Table) -> pa.Table:
    """Rows as an evaluator wants them that names its matches (`match_names.py`)."""
    names = [EVENT if name == CONTENT else name for name in rows.column_names]
    return rows.rename_columns(names)


def unnamed(rows: pa.Table) -> pa.Table:
    names = [CONTENT if name == EVENT else name for name in rows.column_names]
    return rows.rename_columns(names)


def found_schema(empty: pa.Table, identified: bool) -> pa.Schema:
    """Of what a stage puts out, the identity left out."""
    return (with_identity(empty).drop_columns([ID]) if identified else empty).schema


def with_identity(table: pa.Table) -> pa.Table:
    """What an evaluator found, its hidden names as one: the key's and the match's hashes.

    Numbers that shift under disorder (the match's, and those of its rows) are not shown: the
    listing tells its events by time and name.
    """
    parts = [flat(table, name).to_numpy().view(np.uint64) for name in (KEY, HIGH, LOW)]
    ids: list[str] = []
    seen: dict[str, int] = {}
    for key, high, low in zip(*parts, strict=True):
        name = f"{key ^ high:016x}{low:016x}"
        # ALL ROWS PER MATCH: the rows of a match stand together, in order.
        number = seen[name] = seen.get(name, -1) + 1
        ids.append(f"{name}-{number}" if number else name)
    table = table.append_column(ID, pa.array(ids, pa.string())).drop_columns([KEY, HIGH, LOW])
    if EVENTS in table.column_names:
        listed = table.column(EVENTS)
        table = table.drop_columns([EVENTS, "match_number"])
        table = table.set_column(table.schema.get_field_index("events"), "events", listed)
    return table


def rows_work(
    planned: Plan,
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> RowsWork:
    stage = RowsStage(planned, schema, time, settings.speculative)
    found = stage.found()
    query = planned.query
    return RowsWork(schema, found, query.partition_by, time, settings, description, planned)
