"""What is held of open partitions: the rows from the first one that a partial match still needs.

A partition that comes in pieces is matched again from there on with each piece, and only what is
settled in the new rows is reported: state is rows and a few numbers, whatever the engine. Rows
before the first live start are let go of (but for those that PREV may read), so that `within`
bounds the state; a partition without partial matches holds no row at all.

The rows of many partitions lie in one *block*, written when their piece has been matched, so that
thousands of keys per call cost two takes and no table per key. Blocks that mostly hold rows that
have been let go of are rewritten.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.automaton.program import AT_START
from ensue.operator.protocol import (
    Events,
    Key,
    LaneDefaults,
    Snapshot,
    key_table,
    keys_in,
    keys_of,
)
from ensue.operator.state import Kind, from_bytes, to_bytes
from ensue.query import condition as c
from ensue.query.query import Rows, WindowKind

KIND = Kind("sequences", version=2)
TOGETHER = Kind("sequences together", version=2)
Order = Callable[[pa.Table], NDArray[np.int64] | NDArray[np.float64] | None]


@dataclass
class Carried:
    """What an after-match strategy knows of the pieces before, in rows of the batch."""

    floor: int = -1  # starts below are ruled out
    head: int = -1  # a start whose matches are reported as they complete: no earlier one is open


@dataclass(frozen=True)
class Reach:
    """How far each partition has been matched before, and how far it can be now; in batch rows."""

    base: NDArray[np.int64]  # number of the first row here inside its partition
    begins: NDArray[np.int64]  # first row at which a match may begin
    fresh: NDArray[np.int64]  # first row of which no earlier piece has reported the matches
    stops: NDArray[np.int64]  # end of the rows that can be decided
    floors: NDArray[np.int64]  # starts below are out of time once the rows are through
    is_open: NDArray[np.bool_]  # more rows may come

    @staticmethod
    def whole(starts: NDArray[np.int64]) -> Reach:
        """Complete partitions, never seen before."""
        begins, ends = starts[:-1], starts[1:]
        nothing = np.zeros(len(begins), np.int64)
        return Reach(nothing, begins, begins, ends, ends, np.zeros(len(begins), np.bool_))


class OpenPartition(Protocol):
    """What is held of one partition."""

    @property
    def length(self) -> int:
        """Rows."""

    @property
    def waiting(self) -> bool:
        """Whether there is a partial match."""


class Kept(Protocol):
    """All open partitions of an evaluator."""

    @property
    def held(self) -> Mapping[Key, OpenPartition]: ...
    @property
    def nbytes(self) -> int: ...
    def drop(self, keys: Collection[Key]) -> None: ...
    def next_time(self) -> int | None: ...
    def together(self) -> bytes: ...
    def restore_together(self, blob: bytes) -> None: ...


class HoldsRows(LaneDefaults):
    """What a lane asks of an evaluator that holds rows per key."""

    @property
    @abstractmethod
    def tails(self) -> Kept:
        """What is held of open partitions; `operator/replay.py` puts earlier states back."""

    @property
    def nbytes(self) -> int:
        return self.tails.nbytes

    def next_time(self) -> int | None:
        return self.tails.next_time()

    def sizes(self) -> Mapping[Key, int]:
        """Only the largest: it is the first to pass a limit."""
        held = self.tails.held
        largest = max((part.length for part in held.values()), default=0)
        return {key: largest for key, part in held.items() if part.length == largest and largest}

    def drop(self, keys: Collection[Key]) -> None:
        self.tails.drop(keys)

    def known(self) -> list[Key]:
        return list(self.tails.held)

    @property
    def open_keys(self) -> int:
        return len(self.tails.held)

    @property
    def partials(self) -> int:
        return sum(part.waiting for part in self.tails.held.values())

    def snapshot_together(self) -> Snapshot:
        """The state of all open partitions as one shared blob: cheaper where most are touched."""
        return Snapshot(shared=self.tails.together())


def lasting(plan: Plan) -> bool:
    """Whether the next row of a partition is distinguished from a first row."""
    query = plan.query
    return bool(
        (query.measures is None and not query.rows.all_rows)
        or query.rows is Rows.ALL_WITH_UNMATCHED
        or (query.row_semantics and (plan.program.arc_flags & AT_START).any())
        or any(c.has(atom, c.MatchNumber) for atom in plan.atoms)
    )


@dataclass(slots=True)
class Held:
    """An open partition; places are relative to its first row held."""

    block: pa.Table
    offset: int
    length: int
    base: int  # number of the first row held, inside its partition
    begin: int  # first row at which a match may begin
    fresh: int  # rows before have been matched
    matches: int  # reported so far
    floor: int  # starts below are ruled out by an after-match strategy
    head: int  # see `Carried`
    since: float | None  # order value of the first live start, where time matters

    @property
    def waiting(self) -> bool:
        return self.begin < self.length


@dataclass
class Piece:
    """Rows of several partitions, those held of each before its new ones."""

    keys: list[Key]
    table: pa.Table
    starts: NDArray[np.int64]
    base: NDArray[np.int64]
    begins: NDArray[np.int64]
    fresh: NDArray[np.int64]
    matches: NDArray[np.int64]
    floor: NDArray[np.int64]
    head: NDArray[np.int64]
    complete: NDArray[np.bool_]

    def reach(self, lookahead: int, floors: NDArray[np.int64] | None = None) -> Reach:
        """`floors`: starts below are out of time; of complete partitions all are."""
        ends = self.starts[1:]
        late = np.where(self.complete, ends, ends - lookahead)
        stops = np.maximum(late, self.fresh)
        open_floors = self.begins if floors is None else np.minimum(floors, stops)
        settled = np.where(self.complete, ends, open_floors)
        return Reach(self.base, self.begins, self.fresh, stops, settled, ~self.complete)

    def carried(self, index: int) -> Carried:
        return Carried(int(self.floor[index]), int(self.head[index]))


class Tails:
    """The open partitions of an evaluator."""

    def __init__(self, plan: Plan, schema: pa.Schema, order: Order) -> None:
        self._plan = plan
        self._schema = schema.remove_metadata()
        self._order = order
        self.held: dict[Key, Held] = {}

    @property
    def nbytes(self) -> int:
        """Of the blocks, with rows that were let go of and are still in them."""
        blocks = {id(held.block): held.block for held in self.held.values()}
        return sum(block.nbytes for block in blocks.values())

    # -- pieces ----------------------------------------------------------------------------------

    def join(self, events: Events) -> Piece:
        """New rows, each partition's after those held of it."""
        if not self.held and events.complete.all():
            return _piece([], events.table, events.starts, [None] * len(events.complete), events)
        keys = keys_of(events, self._plan.query.partition_by)
        found = [self.held.get(key) for key in keys]
        if not any(held is not None and held.length for held in found):
            return _piece(keys, events.table, events.starts, found, events)
        table, places = _blocks([h for h in found if h is not None and h.length], events.table)
        news = np.diff(events.starts)
        olds = np.array([0 if h is None else h.length for h in found], np.int64)
        offsets = np.array(
            [0 if h is None or not h.length else places[id(h.block)] + h.offset for h in found],
            np.int64,
        )
        begins = np.stack([offsets, events.starts[:-1] + places[id(events.table)]], axis=1)
        index = _ranges(begins.ravel(), np.stack([olds, news], axis=1).ravel())
        starts = np.concatenate(([0], np.cumsum(olds + news))).astype(np.int64)
        return _piece(keys, table.take(pa.array(index)), starts, found, events)

    def take(self, keys: Sequence[Key], complete: bool) -> Piece | None:
        """The rows held of some partitions, with nothing new."""
        keys = [key for key in keys if key in self.held]
        if complete:
            for key in [key for key in keys if not self.held[key].length]:
                del self.held[key]
        keys = [key for key in keys if key in self.held and self.held[key].length]
        if not keys:
            return None
        found = [self.held[key] for key in keys]
        rows, lengths = self._packed(found)
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        nothing = Events(rows, starts, np.full(len(keys), complete))
        return _piece(list(keys), rows, starts, [*found], nothing)

    def keep(
        self,
        piece: Piece,
        reach: Reach,
        live: NDArray[np.int64],
        matches: NDArray[np.int64],
        carried: Sequence[Carried] | None,
    ) -> None:
        """Holds on to open partitions from `live` on (rows of the piece); ends the others."""
        if not piece.keys:
            return
        for done in np.flatnonzero(piece.complete).tolist():
            self.held.pop(piece.keys[done], None)
        chosen = np.flatnonzero(~piece.complete)
        if not len(chosen):
            return
        begins = np.minimum(live[chosen], reach.stops[chosen])
        kept = np.maximum(piece.starts[chosen], begins - self._plan.lookback)
        # Without a partial match, and with no PREV to answer, nothing is held.
        lengths = piece.starts[chosen + 1] - kept
        block = piece.table.take(pa.array(_ranges(kept, lengths)))
        offsets = np.cumsum(lengths) - lengths
        order = self._order(block) if block.num_rows else None
        for place, index in enumerate(chosen.tolist()):
            first = int(kept[place])
            strategy = carried[index] if carried is not None else Carried()
            begin = int(begins[place]) - first
            since = None
            if order is not None and begin < int(lengths[place]):
                since = order[int(offsets[place]) + begin].item()
            self.held[piece.keys[index]] = Held(
                block,
                int(offsets[place]),
                int(lengths[place]),
                int(piece.base[index]) + first - int(piece.starts[index]),
                begin,
                int(reach.stops[index]) - first,
                int(matches[index]),
                max(-1, strategy.floor - first),
                max(-1, strategy.head - first),
                since,
            )
        self._tidy()

    def drop(self, keys: Collection[Key]) -> None:
        for key in keys:
            self.held.pop(key, None)

    def expired(self, time: float) -> list[Key]:
        """Partitions whose first live start is out of the window at that time."""
        return [
            key for key, held in self.held.items() if held.since is not None and held.since < time
        ]

    def next_time(self) -> int | None:
        """The least watermark that ends the window of a live start."""
        window = self._plan.query.within
        if window is None or window.kind is WindowKind.ROWS:
            return None
        waiting = [held.since for held in self.held.values() if held.since is not None]
        return int(min(waiting) + window.size) + 1 if waiting else None

    def packed(self, keys: Sequence[Key]) -> Events:
        """The rows held of these partitions, as rows of open ones."""
        rows, lengths = self._packed([self.held[key] for key in keys])
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return Events(rows, starts, np.zeros(len(keys), np.bool_))

    def _tidy(self) -> None:
        """Rewrites the blocks when most of their rows are let go of."""
        blocks = {id(held.block): held.block for held in self.held.values()}
        if len(blocks) < 2:
            return
        stored = sum(block.num_rows for block in blocks.values())
        live = sum(held.length for held in self.held.values())
        if stored > 4096 + 2 * live or len(blocks) > 256:
            found = list(self.held.values())
            block, lengths = self._packed(found)
            for held, offset in zip(found, np.cumsum(lengths) - lengths, strict=True):
                held.block, held.offset = block, int(offset)

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self, touched: Iterable[Key] | None) -> dict[Key, bytes]:
        keys = self.held if touched is None else [key for key in touched if key in self.held]
        return {key: self._bytes(self.held[key]) for key in keys}

    def _bytes(self, held: Held) -> bytes:
        numbers = {name: getattr(held, name) for name in _NUMBERS}
        rows = held.block.slice(held.offset, held.length)
        return to_bytes(KIND, rows, numbers, self._plan.fingerprint)

    def restore(self, blobs: Mapping[Key, bytes]) -> None:
        if not blobs:
            return
        read = [from_bytes(KIND, blob, self._plan.fingerprint) for blob in blobs.values()]
        tables = [table for table, _ in read]
        block = pa.concat_tables(tables).combine_chunks()
        order = self._order(block) if block.num_rows else None
        offset = 0
        for key, table, (_, numbers) in zip(blobs, tables, read, strict=True):
            since = None
            if order is not None and numbers["begin"] < table.num_rows:
                since = order[offset + numbers["begin"]].item()
            self.held[key] = Held(block, offset, table.num_rows, **numbers, since=since)
            offset += table.num_rows

    def together(self) -> bytes:
        """The state of all partitions as one blob: one row each, the rows held as a list.

        One that holds no row, and whose next row needs no number, is as new and left out.
        """
        empty = lasting(self._plan)
        open_ = {key: held for key, held in self.held.items() if held.length or empty}
        found = list(open_.values())
        block, lengths = self._packed(found)
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        rows = pa.StructArray.from_arrays(
            [column.combine_chunks() for column in block.columns], block.column_names
        )
        kinds = [block.schema.field(name) for name in self._plan.query.partition_by]
        keys = key_table(open_, [f.with_name(f"key_{place}") for place, f in enumerate(kinds)])
        columns: dict[str, pa.Array] = dict(zip(keys.column_names, keys.columns, strict=True))
        for name in _NUMBERS:
            columns[name] = pa.array([getattr(held, name) for held in found], pa.int64())
        columns["rows"] = pa.ListArray.from_arrays(pa.array(offsets), rows)
        return to_bytes(TOGETHER, pa.table(columns), query=self._plan.fingerprint)

    def restore_together(self, blob: bytes) -> None:
        table, _ = from_bytes(TOGETHER, blob, self._plan.fingerprint)
        table = table.combine_chunks()
        if not table.num_rows:
            return
        rows = table.column("rows").combine_chunks()
        offsets = rows.offsets.to_numpy().astype(np.int64)
        block = pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows.values)])
        order = self._order(block) if block.num_rows else None
        size = len(self._plan.query.partition_by)
        keys = keys_in(table, [f"key_{place}" for place in range(size)])
        numbers = [table.column(name).to_pylist() for name in _NUMBERS]
        for index, values in enumerate(zip(*numbers, strict=True)):
            known = dict(zip(_NUMBERS, values, strict=True))
            offset, length = int(offsets[index]), int(offsets[index + 1] - offsets[index])
            since = None
            if order is not None and known["begin"] < length:
                since = order[offset + known["begin"]].item()
            self.held[keys[index]] = Held(block, offset, length, **known, since=since)

    def _packed(self, found: Sequence[Held]) -> tuple[pa.Table, NDArray[np.int64]]:
        """The rows of these partitions, one after the other, and how many each has."""
        lengths = np.array([h.length for h in found], np.int64)
        if not found:
            return self._schema.empty_table(), lengths
        table, places = _blocks(found, None)
        offsets = np.array([places[id(h.block)] + h.offset for h in found], np.int64)
        return table.take(pa.array(_ranges(offsets, lengths))).combine_chunks(), lengths


_NUMBERS = ("base", "begin", "fresh", "matches", "floor", "head")


def _piece(
    keys: list[Key],
    table: pa.Table,
    starts: NDArray[np.int64],
    found: Sequence[Held | None],
    events: Events,
) -> Piece:
    if all(held is None for held in found):
        zeros = np.zeros(len(found), np.int64)
        begins, nothing = starts[:-1], zeros - 1
        return Piece(
            keys, table, starts, zeros, begins, begins, zeros, nothing, nothing, events.complete
        )
    numbers = np.array(
        [
            (0, 0, 0, 0, -1, -1)
            if h is None
            else (h.base, h.begin, h.fresh, h.matches, h.floor, h.head)
            for h in found
        ],
        np.int64,
    ).reshape(-1, 6)
    base, begin, fresh, matches, floor, head = numbers.T
    rows = starts[:-1]
    floor, head = (np.where(v < 0, -1, v + rows) for v in (floor, head))
    return Piece(
        keys, table, starts, base, rows + begin, rows + fresh, matches, floor, head, events.complete
    )


def cut_piece(events: Events, fresh: NDArray[np.int64], base: NDArray[np.int64]) -> Piece:
    """Complete partitions of which the rows before `fresh` only fill the window."""
    begins, nothing = events.starts[:-1], np.full(len(base), -1, np.int64)
    return Piece(
        [],
        events.table,
        events.starts,
        base,
        begins,
        fresh,
        np.zeros(len(base), np.int64),
        nothing,
        nothing,
        np.ones(len(base), np.bool_),
    )


def _blocks(found: Sequence[Held], more: pa.Table | None) -> tuple[pa.Table, dict[int, int]]:
    """The blocks of these partitions (and one more table) as one, and where each begins."""
    blocks = {id(held.block): held.block for held in found}
    if more is not None:
        blocks[id(more)] = more
    places, place = {}, 0
    for name, block in blocks.items():
        places[name] = place
        place += block.num_rows
    tables = [block.replace_schema_metadata(None) for block in blocks.values()]
    # Rows out of a stored state do not know which columns are never null.
    return pa.concat_tables(tables, promote_options="default").combine_chunks(), places


def _ranges(begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """begin, begin + 1, ... for each range, one after the other."""
    before = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    return np.repeat(begins - before, lengths) + np.arange(total, dtype=np.int64)
