"""Rows and partial matches of partitions that come in pieces, for engines that follow nodes.

A *track* is one partition: the rows that partial matches, and the conditions ahead, may still read,
and how far matching has come. What an engine keeps of it is the engine's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import Plan
from ensue.missing.columns import FoundMissing, MissingOutput
from ensue.missing.words import Answer
from ensue.operator.buffer import EVENT
from ensue.operator.listing import Listing
from ensue.operator.protocol import Events, Key, Metrics, Watermark, key_at
from ensue.operator.state import Kind, Parts, pack, unpack
from ensue.operator.window_clock import Clock
from ensue.sequences.batch import EventBatch
from ensue.sequences.limits import check_unbounded
from ensue.sequences.listing import too_many

CHUNK = 1 << 14
KIND = Kind("acep", version=2)
TOGETHER = Kind("acep together", version=2, order=("shared", "keys"))
Pairs = list[tuple[int, int]]


@dataclass
class Track:
    """One partition; local rows count from `base`, the first row held."""

    base: int = 0
    done: int = 0  # rows through the engine, of the whole partition
    number: int = 0  # matches reported
    rows: pa.Table | None = None
    kept: Any = None  # the engine's own
    last: float | None = None  # order value of the last row, where time matters

    @property
    def length(self) -> int:
        return 0 if self.rows is None else int(self.rows.num_rows)

    @property
    def waiting(self) -> bool:
        return self.kept is not None


class Engine(Protocol):
    """Matches node by node."""

    def matches(
        self, batch: EventBatch, begin: int, row: int, stop: int, end: int, track: Track
    ) -> Iterator[tuple[Pairs, Answer | None]]:
        """Matches that end in rows row..stop of a partition held in rows begin..end.

        Rows are those of the batch; an answer of None is worked out from the labels.
        """
        ...

    def keep_from(self, batch: EventBatch, begin: int, stop: int, track: Track) -> int:
        """The first row that must be held when rows before `stop` are through."""
        ...

    def save(self, track: Track) -> dict[str, pa.Table]: ...

    def load(self, track: Track, tables: dict[str, pa.Table]) -> None: ...

    def save_shared(self) -> bytes: ...

    def load_shared(self, blob: bytes) -> None: ...


def batch_of(plan: Plan, table: pa.Table, starts: np.ndarray) -> EventBatch:
    """Rows of partitions, for engines that follow nodes."""
    return EventBatch(plan, None, table, starts)


@dataclass
class Tracks:
    """All partitions of one task."""

    plan: Plan
    engine: Engine
    columns: MissingOutput
    listing: Listing
    metrics: Metrics
    open: dict[Key, Track] = field(default_factory=dict)
    reported: int = 0

    def __post_init__(self) -> None:
        self._clock = Clock(self.plan.query)

    @property
    def held(self) -> Mapping[Key, Track]:
        return self.open

    @property
    def nbytes(self) -> int:
        """Of the rows; match nodes are the engine's own."""
        return sum(track.rows.nbytes for track in self.open.values() if track.rows is not None)

    def drop(self, keys: Collection[Key]) -> None:
        for key in keys:
            self.open.pop(key, None)

    def next_time(self) -> int | None:
        """Only events complete a match."""
        return None

    def insert(self, events: Events) -> Iterator[pa.Table]:
        if not self.open and events.complete.all():
            batch = self._batch(events.table, events.starts)
            tracks = [Track() for _ in events.complete]
            yield from self._run(batch, tracks, events.complete)
            return
        for index in range(len(events.complete)):
            begin, end = int(events.starts[index]), int(events.starts[index + 1])
            rows = events.table.slice(begin, end - begin)
            key = key_at(rows, 0, self.plan.query.partition_by)
            yield from self._more(key, rows, bool(events.complete[index]))

    def advance(self, mark: Watermark) -> None:
        """Partitions that are out of the window with all their rows are let go of.

        Only where rows have names, since those of a partition that comes back count from 0 again.
        """
        some = next((track.rows for track in self.open.values() if track.rows is not None), None)
        if some is None or EVENT not in some.column_names or self.plan.lookback:
            return
        time = self._clock.moment(mark, some.schema)
        if time is None:
            return
        for key, track in list(self.open.items()):
            assert track.rows is not None
            through = track.done == track.base + track.rows.num_rows
            if through and track.last is not None and track.last < time - self._clock.size:
                del self.open[key]

    def end(self, keys: Iterable[Key] | None) -> Iterator[pa.Table]:
        for key in list(self.open if keys is None else keys):
            if key in self.open:
                yield from self._more(key, None, True)

    def _more(self, key: Key, rows: pa.Table | None, complete: bool) -> Iterator[pa.Table]:
        track = self.open.setdefault(key, Track())
        parts = [table for table in (track.rows, rows) if table is not None]
        table = pa.concat_tables(parts).combine_chunks()
        batch = self._batch(table, np.array([0, table.num_rows], np.int64))
        yield from self._run(batch, [track], np.array([complete]))
        if complete:
            del self.open[key]
            return
        done = track.done - track.base
        keep = self.engine.keep_from(batch, 0, done, track) if done else 0
        keep = max(0, min(keep, done) - self.plan.lookback)
        track.rows, track.base = table.slice(keep), track.base + keep
        self._note_last(track)

    def _note_last(self, track: Track) -> None:
        assert track.rows is not None
        times = self._clock.numbers(track.rows.slice(track.rows.num_rows - 1))
        track.last = None if times is None else times[-1].item()

    def _batch(self, table: pa.Table, starts: np.ndarray) -> EventBatch:
        return batch_of(self.plan, table, starts)

    def _run(
        self, batch: EventBatch, tracks: list[Track], complete: np.ndarray
    ) -> Iterator[pa.Table]:
        found = FoundMissing()
        for partition, (begin, end) in enumerate(batch.spans()):
            check_unbounded(self.plan, end - begin)
            track = tracks[partition]
            ahead = 0 if complete[partition] else self.plan.lookahead
            row = begin + track.done - track.base
            stop = max(row, end - ahead)
            shift = begin - track.base  # of a row of the partition in this batch
            for pairs, answer in self.engine.matches(batch, begin, row, stop, end, track):
                if self.listing.limit is not None and self.reported >= self.listing.limit:
                    break
                if self.reported >= self.listing.max_matches:
                    raise too_many(self.reported + 1, self.listing.max_matches)
                self.reported += 1
                track.number += 1
                told = answer or self.columns.words.missing(tuple(label for label, _ in pairs))
                assert told is not None
                found.add_answer(partition, track.number, pairs, told)
                if len(found) >= CHUNK:
                    yield self._table(batch, found, tracks)
                    found = FoundMissing()
            track.done = stop - shift
        self.metrics.matches = self.reported
        if len(found):
            yield self._table(batch, found, tracks)

    def _table(self, batch: EventBatch, found: FoundMissing, tracks: list[Track]) -> pa.Table:
        table = self.columns.table(batch, found)
        bases = np.array([track.base for track in tracks], np.int64)[found.partition]
        if not bases.any() or "events" not in table.column_names or self.plan.query.measures:
            return table
        return shifted_rows(table, bases)

    # -- state -----------------------------------------------------------------------------------

    def save(self, key: Key) -> bytes:
        track = self.open[key]
        assert track.rows is not None
        tables = {"rows": track.rows, **self.engine.save(track)}
        numbers = {"base": track.base, "done": track.done, "number": track.number}
        return pack(KIND, tables, numbers, self.plan.fingerprint)

    def load(self, key: Key, blob: bytes) -> None:
        self._resume(key, unpack(KIND, blob, self.plan.fingerprint))

    def _resume(self, key: Key, parts: Parts) -> None:
        tables = {name: parts.table(name) for name in parts}
        numbers = parts.numbers
        track = Track(numbers["base"], numbers["done"], numbers["number"], tables.pop("rows"))
        self.engine.load(track, tables)
        self._note_last(track)
        self.open[key] = track

    def together(self) -> bytes:
        """The state of all partitions, and what was learnt, as one blob."""
        keys = tuple(map(self.save, self.open))
        return pack(TOGETHER, {"shared": self.engine.save_shared(), "keys": keys})

    def restore_together(self, blob: bytes) -> None:
        together = unpack(TOGETHER, blob)
        self.engine.load_shared(together.state("shared"))
        for saved in together.states("keys"):
            parts = unpack(KIND, saved, self.plan.fingerprint)
            self._resume(key_at(parts.table("rows"), 0, self.plan.query.partition_by), parts)


def shifted_rows(table: pa.Table, bases: np.ndarray) -> pa.Table:
    """The listing with rows counted from the partition's first, of which some are gone."""
    index = table.column_names.index("events")
    events = table.column(index).combine_chunks()
    sizes = np.diff(events.offsets.to_numpy())
    values = events.flatten()
    rows = values.field("row").to_numpy() + np.repeat(bases, sizes)
    fields = [values.field("label"), pa.array(rows, values.field("row").type)]
    names = [field.name for field in values.type]
    lists = pa.ListArray.from_arrays(
        pa.array(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)),
        pa.StructArray.from_arrays(fields, names),
    )
    return table.set_column(index, table.schema.field(index), lists.cast(events.type))
