"""One workload of event patterns over batches: arrays for the kernels, and what they found.

The engine keeps what outlives a batch: the shared automaton, the compiled guards, the sketch and
the state of the controller. Arrays grow on demand; the kernel says when (`FULL`).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.share import Union
from ensue.automaton.share_automaton import SharedAutomaton
from ensue.operator.budget import Budget
from ensue.scalar.arrow_kinds import from_arrow
from ensue.sequences.batch import EventBatch
from ensue.shared.constants import AHEAD, AVERAGED
from ensue.shared.controller import Controller
from ensue.shared.features import Bins, compile_features
from ensue.shared.kernels import arena, layout, loop
from ensue.shared.kernels import layout as at
from ensue.shared.merged import Trial
from ensue.shared.options import DEFAULT, Sharing
from ensue.shared.partials import FEW, Partials
from ensue.shared.prepare import (
    Prepared,
    TooLargeError,
    guards_of,
    parts_of,
    rows_of,
    turns,
    windows_of,
)
from ensue.shared.prices import EventClasses
from ensue.shared.tables import build
from ensue.stopping import look

MAX_RECORDS = 20_000_000
MOST_CHAINS = 1 << 17  # of one output; then it is drained more often


@dataclass(frozen=True)
class Chains:
    """Matches of one call: chains of events, and which patterns each is a match of."""

    offset: NDArray[np.int64]
    settled: NDArray[np.int64]
    labels: NDArray[np.int32]  # common labels
    rows: NDArray[np.int64]
    pattern: NDArray[np.int32]  # per entry
    chain: NDArray[np.int64]  # per entry


class Engine:
    def __init__(
        self,
        union: Union,
        schema: pa.Schema,
        budget: Budget | None = None,
        sharing: Sharing = DEFAULT,
    ) -> None:
        self.union = union
        self.automaton = SharedAutomaton(union, share=sharing.share)
        self.compiled = compile_features(union.plan, {f.name: from_arrow(f.type) for f in schema})
        self.bins = Bins(self.compiled, self.automaton, budget is not None)
        self.event_classes = EventClasses(union.plan)
        self.words = (len(union.members) + 63) // 64
        guards = self.compiled.guards
        self._ints, self._floats = len(guards.initial_ints), len(guards.initial_floats)
        self._scratch = layout.new_scratch(self.words, guards, self._ints, self._floats)
        self._found = _new_found(1 << 12, 1 << 14, 1 << 13)
        self.controller = Controller(self.automaton, budget, sharing)
        self._seed = sharing.seed
        self.work: list[NDArray[np.int32]] = []
        self.keep_work = False
        self.seconds = 0.0

    def copy(self) -> Engine:
        """An engine that learns and counts by itself from here on; what is compiled is shared."""
        made = copy.copy(self)
        alike = {id(thing): thing for thing in (self.automaton, self.compiled, self.union)}
        learned = (self.controller, self.bins, self.event_classes)
        made.controller, made.bins, made.event_classes = copy.deepcopy(learned, alike)
        made._found = layout.copied(self._found)
        made.work = list(self.work)
        return made

    def partials(self, capacity: int = FEW) -> Partials:
        """Room for the partial matches of a partition."""
        averaged = AVERAGED - AHEAD if self.controller.active else 1
        made = Partials(self.words, self._ints, self._floats, averaged, capacity)
        made.meta[at.SEED] = self._seed * 2 + 1
        return made

    # -- a batch ---------------------------------------------------------------------------------

    def prepare(self, table: pa.Table, starts: NDArray[np.int64], used: list[int]) -> Prepared:
        control, length = self.controller, int(starts[-1])
        batch = EventBatch(self.union.plan, None, table, starts)
        guards = guards_of(self.compiled.guards, batch.columns, length)
        of_row, kinds = batch.classes
        tables = build(self.automaton, kinds, used)
        windows = windows_of(self.union, table, starts, self.words)
        classes, sequence = np.zeros(1, np.int32), None
        if control.active:
            classes = self.event_classes.classes(kinds, of_row, batch.columns)
            sequence = turns(self.union, windows.order, starts, tables.nodes)
        spans, share = np.arange(length) - windows.oldest, 1.0
        if sequence is not None:
            turn = np.empty(length, np.int64)
            turn[sequence] = np.arange(length)
            spans = turn - turn[windows.oldest]
            share = float(((np.diff(starts) / max(1, length)) ** 2).sum())
        control.seen(tables, np.bincount(of_row, minlength=len(kinds)), spans, share)
        if control.active:
            concerned = self.event_classes.of_kinds(kinds, tables.concerns)
            control.prices.cover(self.bins.bases(), concerned)
        rows = rows_of(self.union, windows, of_row, classes)
        features = self.bins.arrays(guards.code, guards.offset)
        parts = parts_of(starts, sequence)
        return Prepared(rows, parts, tables, guards, features, windows.sizes)

    def window(self, table: pa.Table, starts: NDArray[np.int64]) -> int:
        """How many rows of its partition most windows hold."""
        oldest = windows_of(self.union, table, starts, self.words).oldest
        return int(np.quantile(np.arange(len(oldest)) - oldest, 0.9)) + 1 if len(oldest) else 1

    def run(
        self,
        prepared: Prepared,
        partials: Partials,
        stop: int,
        complete: bool,
        trial: Trial | None = None,
    ) -> Iterator[Chains]:
        """Matches of rows up to `stop`; of complete partitions also what their end settles.

        A trial may end them by TooDearError.
        """
        parts, tables, meta = prepared.parts, prepared.tables, partials.meta
        partials.cover(tables.nodes, len(parts.starts) - 1 if parts.turns else 1)
        meta[at.STRIDE] = tables.most
        work = np.zeros(prepared.length, np.int32)
        control = self.controller
        first, done = int(meta[at.POSITION]), int(meta[at.WORK])
        window = 0 if trial is None else prepared.window
        stops = control.stops(first, stop) if trial is None else trial.stops(first, stop, window)
        for until in stops:
            spent, began, before = 0.0, time.thread_time(), int(meta[at.WORK])
            self.bins.settled = control.prices.ready
            self.bins.learn()
            given = self._handed(prepared, partials)
            rows_before = int(meta[at.POSITION])
            while (status := loop.run_rows(until, complete, given, work)) == loop.FULL:
                look()
                # What is done with matches is not matching: its time does not count.
                spent += time.thread_time() - began
                yield from self._drained(partials)
                began = time.thread_time()
                given = self._more_room(partials, given)
            if status == loop.GUARD_OVERFLOW:
                raise TooLargeError
            if status == loop.GUARD_BY_ZERO:
                raise errors.DataError(
                    "a division by zero in DEFINE", remedy="guard it with nullif(divisor, 0)"
                )
            spent += time.thread_time() - began
            self.seconds += spent
            rows = int(meta[at.POSITION]) - rows_before
            control.measured(rows, int(meta[at.WORK]) - before, spent, partials)
            if trial is not None:
                trial.check(int(meta[at.POSITION]), int(meta[at.WORK]) - done)
            yield from self._drained(partials)
        if self.keep_work:
            self.work.append(work)

    def settle(
        self, prepared: Prepared, partials: Partials, stop: int, now: float
    ) -> Iterator[Chains]:
        """Matches of one partition that the time completes, as a row after `stop` rows would."""
        rows = prepared.rows
        floors = np.searchsorted(rows.order[:stop], now - prepared.sizes)
        low = np.concatenate([rows.low[:, :stop], floors[:, None]], axis=1)
        parts = parts_of(np.array([0, stop + 1]), None)
        parts.reached[:] = stop
        partials.cover(prepared.tables.nodes)
        given = self._handed(prepared, partials)._replace(rows=rows._replace(low=low), parts=parts)
        while not loop.sweep(0, given):
            yield from self._drained(partials)
            given = self._more_room(partials, given)
        yield from self._drained(partials)

    def _handed(self, prepared: Prepared, partials: Partials) -> layout.Handed:
        control = self.controller
        sketch, prices = control.arrays(partials), control.prices.arrays()
        return layout.Handed(
            prepared.rows, prepared.parts, prepared.tables.steps, prepared.guards,
            prepared.features, partials.arena, partials.lists, self._found, sketch, prices,
            partials.meta, control.knobs, self._scratch,
        )  # fmt: skip

    def held(self, prepared: Prepared, partials: Partials) -> tuple[int, float]:
        """The earliest row that an open partial match has, and when the first window ends."""
        rows = prepared.rows
        return arena.survey(partials.arena, partials.lists, rows.masks, prepared.sizes, rows.order)

    def replay(self, partials: Partials, prepared: Prepared) -> None:
        """Registers of restored partial matches: those of the record before, and the own event."""
        if partials.stale:
            partials.stale = False
            lengths = partials.arena.length[: int(partials.meta[at.USED])]
            loop.replay(np.argsort(lengths, kind="stable"), prepared.guards, partials.arena)

    # -- room ------------------------------------------------------------------------------------

    def _drained(self, partials: Partials) -> Iterator[Chains]:
        chains, written, entries = partials.meta[[at.CHAINS, at.WRITTEN, at.ENTRIES]].tolist()
        if entries:
            found = self._found
            yield Chains(
                np.concatenate([[0], found.chain_end[:chains]]).astype(np.int64),
                found.settled[:chains].copy(), found.label[:written].copy(),
                found.row[:written].copy(), found.pattern[:entries].copy(),
                found.chain[:entries].copy(),
            )  # fmt: skip
        partials.meta[[at.CHAINS, at.ENTRIES, at.WRITTEN]] = 0

    def _more_room(self, partials: Partials, given: layout.Handed) -> layout.Handed:
        """Output was drained: what is short is doubled until a visit fits again."""
        most = int(partials.meta[at.STRIDE]) + 2
        longest = int(partials.arena.length.max()) + 2
        while partials.capacity < int(partials.meta[at.RECORDS]) + 2 * most + 16:
            if partials.capacity >= MAX_RECORDS:
                raise errors.LimitError(
                    f"more than {MAX_RECORDS:,} partial matches are open",
                    remedy="bound the patterns with within(...), give a budget, or raise "
                    "ensue.shared.engine.MAX_RECORDS",
                )
            partials.grow(2 * partials.capacity)
        found = self._found
        sizes = len(found.chain_end), len(found.label), len(found.pattern)
        needed = 4 * most, 4 * most * longest, 4 * most * 64 * self.words
        short = any(size < least for size, least in zip(sizes, needed, strict=True))
        if short or len(found.chain_end) < MOST_CHAINS:
            least = needed if short else (0, 0, 0)
            self._found = _new_found(
                *(max(2 * size, room) for size, room in zip(sizes, least, strict=True))
            )
        return given._replace(arena=partials.arena, found=self._found)


def _new_found(chains: int, events: int, entries: int) -> layout.Found:
    return layout.Found(
        np.zeros(chains, np.int64), np.zeros(chains, np.int64), np.zeros(events, np.int32),
        np.zeros(events, np.int64), np.zeros(entries, np.int32), np.zeros(entries, np.int64),
    )  # fmt: skip
