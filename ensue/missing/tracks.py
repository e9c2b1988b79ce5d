"""Rows and partial matches of partitions that come in pieces, under a budget."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import Plan
from ensue.missing.budget import BudgetEngine
from ensue.missing.columns import FoundMissing, MissingOutput
from ensue.missing.nodes import Track
from ensue.operator.buffer import EVENT
from ensue.operator.hold import Reach
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


@dataclass
class Tracks:
    """All partitions of one task."""

    plan: Plan
    engine: BudgetEngine
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
            batch = EventBatch(self.plan, None, events.table, events.starts)
            yield from self._run(batch, [Track() for _ in events.complete], events.complete)
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
        starts = np.array([0, table.num_rows], np.int64)
        reach = replace(Reach.whole(starts), base=np.array([track.base], np.int64))
        batch = EventBatch(self.plan, None, table, starts, reach)
        yield from self._run(batch, [track], np.array([complete]))
        if complete:
            del self.open[key]
            return
        done = track.done - track.base
        keep = 0 if batch.low is None or not done else int(batch.low[done - 1])
        keep = max(0, min(keep, done) - self.plan.lookback)
        track.rows, track.base = table.slice(keep), track.base + keep
        self._note_last(track)

    def _note_last(self, track: Track) -> None:
        assert track.rows is not None
        times = self._clock.numbers(track.rows.slice(track.rows.num_rows - 1))
        track.last = None if times is None else times[-1].item()

    def _run(
        self, batch: EventBatch, tracks: list[Track], complete: np.ndarray
    ) -> Iterator[pa.Table]:
        found = FoundMissing()
        most = self.listing.max_matches + (self.reported if self.listing.per_call else 0)
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
                if self.reported >= most:
                    raise too_many(self.reported + 1, self.listing.max_matches)
                self.reported += 1
                track.number += 1
                told = answer or self.columns.words.missing(tuple(label for label, _ in pairs))
                assert told is not None
                found.add_answer(partition, track.number, pairs, told)
                if len(found) >= CHUNK:
                    yield self.columns.table(batch, found)
                    found = FoundMissing()
            track.done = stop - shift
            if complete[partition] and self.engine.audit is not None:
                self.engine.audit.ended(track)
        self.metrics.matches = self.reported
        if len(found):
            yield self.columns.table(batch, found)

    # -- state -----------------------------------------------------------------------------------

    def save(self, key: Key) -> bytes:
        track = self.open[key]
        assert track.rows is not None
        tables = {"rows": track.rows, **({} if track.kept is None else track.kept.tables())}
        numbers = {"base": track.base, "done": track.done, "number": track.number}
        return pack(KIND, tables, numbers, self.plan.fingerprint)

    def load(self, key: Key, blob: bytes) -> None:
        self._resume(key, unpack(KIND, blob, self.plan.fingerprint))

    def _resume(self, key: Key, parts: Parts) -> None:
        tables = {name: parts.table(name) for name in parts}
        numbers = parts.numbers
        track = Track(numbers["base"], numbers["done"], numbers["number"], tables.pop("rows"))
        track.kept = self.engine.restored(tables) if tables else None
        self._note_last(track)
        self.open[key] = track

    def together(self) -> bytes:
        """The state of all partitions, and what was learned, as one blob."""
        keys = tuple(map(self.save, self.open))
        return pack(TOGETHER, {"shared": self.engine.save_shared(), "keys": keys})

    def restore_together(self, blob: bytes) -> None:
        together = unpack(TOGETHER, blob)
        self.engine.load_shared(together.state("shared"))
        for saved in together.states("keys"):
            parts = unpack(KIND, saved, self.plan.fingerprint)
            self._resume(key_at(parts.table("rows"), 0, self.plan.query.partition_by), parts)
