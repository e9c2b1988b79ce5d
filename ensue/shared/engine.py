"""One workload of event patterns over batches: arrays for the kernels, and what they found.

The engine keeps what outlives a batch: the shared automaton, the compiled guards, the sketch and
the state of the controller. Arrays grow on demand; the kernel says when (`FULL`).
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.share import Union
from ensue.automaton.share_automaton import SharedAutomaton
from ensue.operator.batch import Batch, order_kind, order_numbers
from ensue.operator.budget import Budget
from ensue.operator.guard_banks import load_banks
from ensue.query.query import Query, WindowKind
from ensue.scalar.arrow_kinds import from_arrow
from ensue.shared.controller import Controller
from ensue.shared.features import Bins, compile_features
from ensue.shared.kernels import arena as at
from ensue.shared.kernels import loop as shared
from ensue.shared.kernels import select as knob
from ensue.shared.prices import EventClasses
from ensue.shared.tables import Tables, as_integers, build, words_of

VIEW, INSTANCE, SEPARATE = "view", "instance", "separate"
MATERIALISATIONS = (VIEW, INSTANCE, SEPARATE)
MAX_RECORDS = 20_000_000
MAX_LISTS = 1 << 20  # states times partitions that take turns; above, one comes after the other
FEW, MANY = 1 << 6, 1 << 12  # records to begin with: of one partition, and of all in turn


class TooLargeError(Exception):
    """A number does not fit 64 bits: the batch is answered exactly, pattern by pattern."""


@dataclass
class Lane:
    """Open partial matches of one partition (or of complete ones, one after the other)."""

    words: int
    ints: int
    floats: int
    averaged: int = 1  # events whose work is averaged: under a bound
    capacity: int = FEW
    meta: NDArray[np.int64] = field(default_factory=lambda: np.zeros(at.META, np.int64))
    arena: tuple[NDArray[Any], ...] = ()
    # The first of each list of open partial matches, how many wait at each node (by how often an
    # event is of their partition), and the work of the last events.
    heads: tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]] = field(
        default_factory=lambda: (
            np.zeros(0, np.int32),
            np.zeros(0, np.float64),
            np.zeros(0, np.int64),
        )
    )
    stale: bool = False  # registers have to be computed from the events again

    def __post_init__(self) -> None:
        self.meta[[at.FREE, at.FRESH, at.PLACE]] = -1
        self.meta[at.RUN] = -2
        self.heads = (*self.heads[:2], np.zeros(self.averaged, np.int64))
        self.grow(self.capacity)

    def grow(self, capacity: int) -> None:
        shapes: list[tuple[Any, int]] = [
            (np.int32, 0), (np.int32, 0), (np.int32, 0), (np.int64, 0), (np.int64, 0),
            (np.uint64, self.words), (np.int32, 0), (np.int32, 0), (np.int32, 0), (np.int32, 0),
            (np.int64, self.ints), (np.float64, self.floats), (np.int64, 0),
        ]  # fmt: skip
        before = self.arena
        found = []
        for index, (kind, width) in enumerate(shapes):
            flat = index not in (5, 10, 11)
            array = np.zeros(capacity if flat else (capacity, width), kind)
            if before:
                array[: len(before[index])] = before[index]
            found.append(array)
        self.arena = tuple(found)

    def cover(self, nodes: int, partitions: int = 1) -> None:
        """Lists for nodes found since; where partitions take turns, no list may be in use."""
        head, count, recent = self.heads
        grown = max(nodes, len(count))
        count = np.concatenate([count, np.zeros(grown - len(count), np.float64)])
        if partitions > 1 or len(head) > grown:
            count[:] = 0.0
            head = np.zeros(0, np.int32)
        more = np.full(partitions * grown - len(head), -1, np.int32)
        self.heads = (np.concatenate([head, more]), count, recent)

    @property
    def bytes_per_record(self) -> int:
        return self.nbytes // len(self.arena[0])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arena)

    def nodes(self) -> list[int]:
        """Nodes at which partial matches wait."""
        return [int(node) for node in np.flatnonzero(self.heads[0] >= 0)]

    def copy(self) -> Lane:
        """The same partial matches, to go on with by themselves."""
        made = copy.copy(self)
        made.meta = self.meta.copy()
        made.arena = tuple(array.copy() for array in self.arena)
        head, count, recent = self.heads
        made.heads = (head.copy(), count.copy(), recent.copy())
        return made


@dataclass(frozen=True)
class Chains:
    """Matches of one call: chains of events, and which patterns each is a match of."""

    offset: NDArray[np.int64]
    settled: NDArray[np.int64]
    labels: NDArray[np.int32]  # common labels
    rows: NDArray[np.int64]
    pattern: NDArray[np.int32]  # per entry
    chain: NDArray[np.int64]  # per entry


@dataclass
class Prepared:
    """A batch of rows as the kernels read it."""

    rows: tuple[Any, ...]
    tables: Tables
    guards: tuple[Any, ...]
    length: int
    sizes: NDArray[np.float64]  # of the windows, where they are of time
    sequence: NDArray[np.int64] | None = None  # rows in the order of time, where partitions mix


class Engine:
    def __init__(
        self,
        union: Union,
        schema: pa.Schema,
        materialise: str = VIEW,
        budget: Budget | None = None,
        weights: Mapping[str, float] | None = None,
        order_by: str = "ratio",
        strategy: int = knob.QUALITY,
        seed: int = 0,
        part: float = 1.0,
    ) -> None:
        self.union = union
        self.automaton = SharedAutomaton(union, share=materialise != SEPARATE)
        self.compiled = compile_features(union.plan, {f.name: from_arrow(f.type) for f in schema})
        self.bins = Bins(self.compiled, self.automaton)
        self.event_classes = EventClasses(union.plan)
        self.words = (len(union.members) + 63) // 64
        guards = self.compiled.guards
        self._ints, self._floats = len(guards.initial_ints), len(guards.initial_floats)
        self._applies = self._applying()
        self._instance = materialise == INSTANCE
        self._output = self._new_output(1 << 12, 1 << 14, 1 << 13)
        self.controller = Controller(
            self.automaton, budget, weights or {}, order_by, strategy, self._instance, part
        )
        self._seed = seed
        self.work: list[NDArray[np.int32]] = []
        self.keep_work = False
        self.seconds = 0.0

    def _applying(self) -> NDArray[np.bool_]:
        """Per label the registers it updates; features update none."""
        applies = self.compiled.guards.applies
        return applies if applies.shape[1] else np.zeros((len(applies), 0), np.bool_)

    def copy(self) -> Engine:
        """An engine that learns and counts by itself from here on; what is compiled is shared."""
        made = copy.copy(self)
        alike = {id(thing): thing for thing in (self.automaton, self.compiled, self.union)}
        learned = (self.controller, self.bins, self.event_classes)
        made.controller, made.bins, made.event_classes = copy.deepcopy(learned, alike)
        made._output = tuple(array.copy() for array in self._output)
        made.work = list(self.work)
        return made

    def lane(self, capacity: int = FEW) -> Lane:
        averaged = knob.AVERAGED - knob.AHEAD if self.controller.active else 1
        lane = Lane(self.words, self._ints, self._floats, averaged, capacity)
        lane.meta[at.SEED] = self._seed * 2 + 1
        return lane

    # -- a batch ---------------------------------------------------------------------------------

    def prepare(
        self, columns: Mapping[str, pa.Array], starts: NDArray[np.int64], used: list[int]
    ) -> Prepared:
        length = int(starts[-1])
        banks = load_banks(self.compiled.guards, columns, length)
        if banks is None:
            raise TooLargeError
        partitions = len(starts) - 1
        batch = Batch(
            self.union.plan, columns, starts, np.zeros(partitions, np.bool_),
            np.ones(partitions, np.bool_), np.zeros(partitions, np.int64),
            np.zeros((partitions, 3), np.int64),
        )  # fmt: skip
        kinds, classes = _kinds(batch.label_bits())
        tables = build(self.automaton, kinds, used)
        low, masks, order, oldest, sizes = self._windows(columns, starts)
        rows = (
            classes.astype(np.int32), low, masks, order,
            np.array(self.union.bounds or (0,), np.float64), 0, length,
            *self._ages(order, length), self._classes(kinds, classes, columns),
        )  # fmt: skip
        guards = self.compiled.guards
        compiled = (
            guards.code, guards.guard_offset, guards.updates, self._applies, guards.initial_ints,
            banks.ints, banks.floats, banks.int_nulls, banks.float_nulls, banks.int_constants,
            guards.float_constants,
        )  # fmt: skip
        sequence = self._turns(order, starts, tables.nodes)
        spans = np.arange(length) - oldest
        if sequence is not None:
            turn = np.empty(length, np.int64)
            turn[sequence] = np.arange(length)
            spans = turn - turn[oldest]
        share = 1.0
        if sequence is not None:
            share = float(((np.diff(starts) / max(1, length)) ** 2).sum())
        self.controller.seen(tables, np.bincount(classes, minlength=len(kinds)), spans, share)
        if self.controller.active:
            concerned = self.event_classes.of_kinds(as_integers(kinds), tables.concerns)
            self.controller.prices.cover(self.bins.bases(), concerned)
        return Prepared(rows, tables, compiled, length, sizes, sequence)

    def _classes(
        self, kinds: NDArray[np.uint64], of_row: NDArray[np.int64], columns: Mapping[str, pa.Array]
    ) -> NDArray[np.int32]:
        if not self.controller.active:
            return np.zeros(1, np.int32)
        return self.event_classes.classes(as_integers(kinds), of_row, columns)

    def _turns(
        self, order: NDArray[np.float64], starts: NDArray[np.int64], nodes: int
    ) -> NDArray[np.int64] | None:
        """Rows of all partitions in the order of time, as they would come in a stream.

        So they are taken under a bound, where windows are of time: the load of a partition after
        the other would swing with each of them. None: one partition comes after the other.
        """
        windows = [member.plan.query.within for member in self.union.members]
        partitions = len(starts) - 1
        if not self.controller.active or not 1 < partitions <= MAX_LISTS // max(1, nodes):
            return None
        if len(order) != starts[-1] or any(w and w.kind is WindowKind.ROWS for w in windows):
            return None
        return np.argsort(order, kind="stable").astype(np.int64)

    def _windows(
        self, columns: Mapping[str, pa.Array], starts: NDArray[np.int64]
    ) -> tuple[
        NDArray[np.int64], NDArray[np.uint64], NDArray[np.float64], NDArray[np.int64],
        NDArray[np.float64],
    ]:  # fmt: skip
        queries = [member.plan.query for member in self.union.members]
        windows = list(dict.fromkeys(query.within for query in queries if query.within is not None))
        length = int(starts[-1])
        rows = np.arange(length, dtype=np.int64)
        begins = np.repeat(starts[:-1], np.diff(starts))
        timed = any(w.kind is not WindowKind.ROWS for w in windows) or bool(self.union.bounds)
        order = order_of(queries[0], columns, starts) if timed else np.zeros(0, np.float64)
        low = np.zeros((len(windows), length), np.int64)
        masks, sizes = [], []
        for index, window in enumerate(windows):
            masks.append(sum(1 << i for i, q in enumerate(queries) if q.within == window))
            sizes.append(math.inf if window.kind is WindowKind.ROWS else float(window.size))
            if window.kind is WindowKind.ROWS:
                low[index] = np.maximum(begins, rows - int(window.size) + 1)
                continue
            for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
                inside = order[begin:end]
                low[index, begin:end] = begin + np.searchsorted(inside, inside - window.size)
        oldest = (
            low.min(axis=0) if len(windows) == len({id(w) for w in windows}) and windows else begins
        )
        return (
            low,
            words_of(masks, self.words)[: max(1, len(masks))],
            order.astype(np.float64),
            oldest,
            np.array(sizes if any(map(math.isfinite, sizes)) else [], np.float64),
        )

    def _ages(self, order: NDArray[np.float64], length: int) -> tuple[NDArray[np.float64], float]:
        """Where rows stand in the longest window, and its size; without one nothing ages."""
        windows = [member.plan.query.within for member in self.union.members]
        if any(window is None for window in windows):
            return np.zeros(length), 1.0
        known = [window for window in windows if window is not None]
        if any(window.kind is not WindowKind.ROWS for window in known):
            return order, max(float(window.size) for window in known) or 1.0
        return np.arange(length, dtype=np.float64), max(float(window.size) for window in known)

    def run(
        self, prepared: Prepared, starts: NDArray[np.int64], lane: Lane, stop: int, complete: bool
    ) -> Iterator[Chains]:
        """Matches of rows up to `stop`; of complete partitions also what their end settles."""
        parts = self._parts(prepared, starts)
        lane.cover(prepared.tables.nodes, len(starts) - 1 if parts[5] else 1)
        lane.meta[at.STRIDE] = prepared.tables.most
        work = np.zeros(prepared.length, np.int32)
        scratch = self._scratch()
        size = max(1, self.compiled.guards.cells)
        cells = (np.zeros(size, np.int64), np.zeros(size, np.float64), np.zeros(size, np.bool_))
        control = self.controller
        features = self.bins.arrays(prepared.guards[0], prepared.guards[1])
        for until in control.stops(int(lane.meta[at.POSITION]), stop):
            spent, began, before = 0.0, time.thread_time(), int(lane.meta[at.WORK])
            self.bins.settled = self.controller.prices.ready
            self.bins.learn()
            model, knobs = control.arrays(lane)
            rows_before = int(lane.meta[at.POSITION])
            while True:
                status = shared.run_rows(
                    until, complete, prepared.rows, parts, prepared.tables.arrays, prepared.guards,
                    features, lane.arena, lane.heads, self._output, model, lane.meta, knobs, work,
                    scratch, cells,
                )  # fmt: skip
                if status == shared.FULL:
                    # What is done with matches is not matching: its time does not count.
                    spent += time.thread_time() - began
                    yield from self._drained(lane)
                    began = time.thread_time()
                    self._make_room(lane)
                    continue
                if status == shared.GUARD_OVERFLOW:
                    raise TooLargeError
                if status == shared.GUARD_BY_ZERO:
                    raise errors.DataError(
                        "a division by zero in DEFINE", remedy="guard it with nullif(divisor, 0)"
                    )
                break
            spent += time.thread_time() - began
            self.seconds += spent
            control.measured(
                int(lane.meta[at.POSITION]) - rows_before,
                int(lane.meta[at.WORK]) - before,
                spent,
                lane,
            )
            yield from self._drained(lane)
        if self.keep_work:
            self.work.append(work)

    def settle(self, prepared: Prepared, lane: Lane, stop: int, now: float) -> Iterator[Chains]:
        """Matches of one partition that the time completes, as a row after `stop` rows would."""
        kinds, low, masks, order, bounds, _, _, *more = prepared.rows
        floors = np.searchsorted(order[:stop], now - prepared.sizes)
        low = np.concatenate([low[:, :stop], floors[:, None]], axis=1)
        rows = (kinds, low, masks, order, bounds, 0, stop + 1, *more)
        starts, reached = np.array([0, stop + 1]), np.array([stop])
        nothing = np.zeros(0, np.int64)
        parts = (nothing, nothing.astype(np.int32), starts, np.ones(1), reached, False)
        lane.cover(prepared.tables.nodes)
        model, knobs = self.controller.arrays(lane)
        while not shared.sweep(
            0, len(lane.heads[0]), 0, False, rows, parts, prepared.tables.arrays, lane.arena,
            lane.heads, self._output, model, lane.meta, knobs, self._scratch(),
        ):  # fmt: skip
            yield from self._drained(lane)
            self._make_room(lane)
        yield from self._drained(lane)

    def held(self, prepared: Prepared, lane: Lane) -> tuple[int, float]:
        """The earliest row that an open partial match has, and when the first window ends."""
        return at.survey(lane.arena, lane.heads, prepared.rows[2], prepared.sizes, prepared.rows[3])

    def _scratch(self) -> tuple[NDArray[Any], ...]:
        bare = np.zeros(self.words, np.uint64)
        return (
            bare, bare.copy(), bare.copy(), np.zeros(self._ints, np.int64),
            np.zeros(self._floats, np.float64), self.compiled.guards.initial_floats, bare.copy(),
        )  # fmt: skip

    def _parts(self, prepared: Prepared, starts: NDArray[np.int64]) -> tuple[Any, ...]:
        """The order of rows for the kernel, their partitions, and how often each has a row."""
        partitions = len(starts) - 1
        part = np.repeat(np.arange(partitions, dtype=np.int32), np.diff(starts))
        turns = prepared.sequence is not None
        weight = np.diff(starts) / max(1, prepared.length) if turns else np.ones(partitions)
        sequence = prepared.sequence
        if sequence is None:
            sequence = np.arange(prepared.length, dtype=np.int64)
        return sequence, part, starts, weight, np.zeros(partitions, np.int64), turns

    def replay(self, lane: Lane, prepared: Prepared) -> None:
        """Registers of a restored lane: those of the record before, and its own event."""
        if not lane.stale:
            return
        lane.stale = False
        used = int(lane.meta[at.USED])
        order = np.argsort(lane.arena[9][:used], kind="stable")
        initial = (prepared.guards[4], self.compiled.guards.initial_floats)
        shared.replay(order, initial, prepared.guards, lane.arena)

    # -- room ------------------------------------------------------------------------------------

    def _new_output(self, chains: int, events: int, entries: int) -> tuple[NDArray[Any], ...]:
        return (
            np.zeros(chains, np.int64), np.zeros(chains, np.int64), np.zeros(events, np.int32),
            np.zeros(events, np.int64), np.zeros(entries, np.int32), np.zeros(entries, np.int64),
        )  # fmt: skip

    def _drained(self, lane: Lane) -> Iterator[Chains]:
        chains, entries = int(lane.meta[at.CHAINS]), int(lane.meta[at.ENTRIES])
        if entries:
            end, settled, labels, rows, pattern, chain = self._output
            written = int(lane.meta[at.WRITTEN])
            yield Chains(
                np.concatenate([[0], end[:chains]]).astype(np.int64), settled[:chains].copy(),
                labels[:written].copy(), rows[:written].copy(), pattern[:entries].copy(),
                chain[:entries].copy(),
            )  # fmt: skip
        lane.meta[[at.CHAINS, at.ENTRIES, at.WRITTEN]] = 0

    def _make_room(self, lane: Lane) -> None:
        """Output was drained: what is short is doubled until a visit fits again."""
        most = int(lane.meta[at.STRIDE]) + 2
        longest = int(lane.arena[9].max()) + 2
        records = most * (longest if self._instance else 1)
        while len(lane.arena[0]) < int(lane.meta[at.RECORDS]) + 2 * records + 16:
            if len(lane.arena[0]) >= MAX_RECORDS:
                raise errors.LimitError(
                    f"more than {MAX_RECORDS:,} partial matches are open",
                    remedy="bound the patterns with within(...), give a budget, or raise "
                    "ensue.shared.engine.MAX_RECORDS",
                )
            lane.grow(2 * len(lane.arena[0]))
        chains, events, entries = (len(self._output[i]) for i in (0, 2, 4))
        needed = (4 * most, 4 * most * longest, 4 * most * 64 * self.words)
        if chains < needed[0] or events < needed[1] or entries < needed[2]:
            self._output = self._new_output(
                max(2 * chains, needed[0]), max(2 * events, needed[1]), max(2 * entries, needed[2])
            )
        elif chains < 1 << 17:
            self._output = self._new_output(2 * chains, 2 * events, 2 * entries)


def _kinds(words: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Distinct rows of label bits, and which one each row is."""
    if words.shape[1] == 1:
        kinds, classes = np.unique(words[:, 0], return_inverse=True)
        return kinds.reshape(-1, 1), classes
    flat = np.ascontiguousarray(words).view([("", np.uint64)] * words.shape[1]).ravel()
    found, classes = np.unique(flat, return_inverse=True)
    return found.view(np.uint64).reshape(-1, words.shape[1]), classes


def order_of(
    query: Query, columns: Mapping[str, pa.Array], starts: NDArray[np.int64]
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Order values as numbers that ascend; rows without one stand at the edge they sort to."""
    key = query.order_by[0]
    column = columns[key.column]
    numbers = order_numbers(column, order_kind(query, column), key.column)
    if key.descending:
        numbers = -numbers if numbers.dtype == np.float64 else np.invert(numbers)
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        numbers = numbers.copy()
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            present = numbers[begin:end][valid[begin:end]]
            if 0 < len(present) < end - begin:
                edge = present[-1] if valid[begin] else present[0]
                numbers[begin:end][~valid[begin:end]] = edge
    return numbers
