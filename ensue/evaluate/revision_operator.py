"""The AFA operator of one partition: events, retractions, time and changes of arcs in; changes out.

`Operator` holds the kernels' arrays (`kernels/revision_store.py`) and what cannot be an array: the
arcs with their lifetimes, the code made of them, and the rows. Timestamps are codes (`clock.py`).

Arcs are a second input (§2.3). Added or removed without a lifetime, an arc changes what happens to
events after max(newest timestamp, watermark) only, so nothing has to be made again. With a lifetime
in the past, everything from the first event it concerns on is made again, and what did not change
is not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.register_code import Code
from ensue.automaton.register_paths import arc_punctuation, path_punctuations
from ensue.automaton.registers import Arc, Machine
from ensue.evaluate.arc_book import ArcBook
from ensue.evaluate.revision_rows import RowStore, input_cells, rows_of, test_bits
from ensue.evaluate.revision_tier import SlowTier, compiled_kernels, plain_kernels
from ensue.kernels import guards
from ensue.kernels import revision as kernel
from ensue.kernels import revision_steps as steps
from ensue.kernels import revision_store as layout
from ensue.kernels.revision_store import INFINITY, MINUS_INFINITY, NONE
from ensue.pattern import condition as c
from ensue.pattern import kinds as k

Numbers = NDArray[np.int64]
LATE, EMPTY_LIFETIME, FINAL, TWICE = 5, 6, 7, 8  # beside the kernel's DONE, UNKNOWN, ...
MAX_FAULTS = 1_000
MANY_ENDED, FEW_TESTS = 1024, 16  # arcs that are over go when so many are, or so few bits are left


@dataclass(frozen=True)
class Settings:
    """How an operator works."""

    ignoring: bool = True  # ignorable arcs as intervals (Appendix D)
    sequenced: bool = False  # events carry sequence numbers (AFA+O)
    unique: bool = False  # equal timestamps are refused, not ordered by content
    keep_rows: bool = True  # needed for arcs with a lifetime in the past
    arc_watermark: bool = False  # arcs may come late: their input has a watermark of its own
    debug: bool = False  # the paper's invariants are checked after every call


DEFAULT = Settings()


@dataclass
class Delta:
    """What one call changed."""

    rows: Numbers  # columns as in `kernels/revision_steps.py`
    pairs: Numbers  # with traces: (label, event number), last event first
    status: NDArray[np.int8]
    faults: list[tuple[int, str, str]] = field(default_factory=list)  # event, arc, reason


@dataclass(frozen=True)
class Times:
    """Keys of events: lifetimes, what orders equal timestamps, a name, a sequence number."""

    le: Numbers
    re: Numbers
    tie: Numbers
    name: Numbers
    sequence: Numbers

    @staticmethod
    def of(le: Numbers, re: Numbers) -> Times:
        zeros = np.zeros(len(le), np.int64)
        return Times(le, re, zeros, zeros, zeros)


class Operator:
    """See the module."""

    def __init__(
        self,
        machine: Machine,
        kinds: dict[str, k.Kind],
        settings: Settings = DEFAULT,
    ) -> None:
        machine.check()
        for arc in machine.arcs:
            machine.check_types(arc, kinds)
        self.settings = settings
        self.code = Code(machine, kinds)
        self.arcs: list[Arc] = list(machine.arcs)
        self.rows = RowStore()
        self.slow = SlowTier(self.code, self.rows)
        self.watermark = MINUS_INFINITY  # t_e
        self.arc_watermark = MINUS_INFINITY if settings.arc_watermark else INFINITY  # t_a
        self.newest = MINUS_INFINITY
        self.next_event = 0
        self._gone: dict[tuple[int, int, int], None] = {}
        self._promises: dict[c.Condition, int] = {}
        self._retracted = False
        self._ignoring = False
        self._book: ArcBook | None = None
        self._rebuild()
        self.store = layout.new_store(len(self.code.inputs), self.code.fields, settings.sequenced)

    # -- what runs -------------------------------------------------------------------------------

    @property
    def machine(self) -> Machine:
        return self.code.machine

    @property
    def ignoring(self) -> bool:
        """Whether intervals are kept: only where there is an ignorable arc to keep."""
        return self._ignoring

    @property
    def traced(self) -> bool:
        return self.machine.traced

    @property
    def tier(self) -> str:
        """`compiled`, or why it is plain Python."""
        return self._slow or "compiled"

    @property
    def keeps_rows(self) -> bool:
        return self.settings.keep_rows or self.traced or self.tier != "compiled"

    def _rebuild(self) -> None:
        if self.settings.sequenced and any(arc.closing for arc in self.arcs):
            raise errors.UnsupportedError(
                "with sequence numbers, no arc can fire at the end of a window: a number that is "
                "missing may stand for the event that forbids it",
                remedy="leave the sequence numbers out",
            )
        compiled = [self.code.compiled(arc) for arc in self.arcs]
        self.slow.set_arcs(self.arcs, compiled)
        self._ignoring = self._ignoring or self._wants_intervals(self.arcs)
        self.table = self.code.arrays(self.arcs, self._answer_silent)
        self._book = None
        self._ended = sum(arc.till != INFINITY for arc in self.arcs)
        self._slow = next((found.slow for found in compiled if found.slow), None)
        if self._slow:
            self.kernels = plain_kernels(self.slow.run_arc)
        else:
            self.kernels = compiled_kernels()

    def _answer_silent(self, index: int, arc: Arc, cells: Any, nulls: Any) -> int:
        """An ε-arc before the first event."""
        found = self.code.compiled(arc)
        if found.slow is not None:
            return self.slow.answer(arc, found, NONE, cells, nulls)
        no_ints, no_nulls = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.bool_)
        code = np.array(self.code.code, np.int64).reshape(-1, 4)
        run: Any = steps.run_arc
        return int(
            run(
                index, NONE, code, found.begin, found.end, cells, cells.view(np.float64), nulls,
                no_ints, np.zeros((1, 1)), no_nulls,
            )
        )  # fmt: skip

    # -- events ----------------------------------------------------------------------------------

    def insert(self, table: pa.Table, times: Times) -> Delta:
        """Events in any order; `status` says what became of each."""
        return self.change(table, times, np.ones(len(times.le), np.int8))

    def retract(self, table: pa.Table, times: Times) -> Delta:
        """Corrections: the same row and lifetime as the event that is withdrawn."""
        return self.change(table, times, np.full(len(times.le), -1, np.int8))

    def change(
        self,
        table: pa.Table,
        times: Times,
        operations: NDArray[np.int8],
        bits: Numbers | None = None,
    ) -> Delta:
        """Inserts (1) and retractions (-1) in the order of arrival; `bits` where they are known."""
        count = len(times.le)
        status = np.zeros(count, np.int8)
        late = times.le < self.watermark
        inserted = operations == kernel.INSERT
        if late.any():
            status[late & inserted] = LATE
            status[late & ~inserted] = FINAL
        empty = (times.le >= times.re) & inserted
        if empty.any():
            status[empty] = EMPTY_LIFETIME
        chosen = np.flatnonzero(status == 0)
        rows = rows_of(table)
        if bits is None:
            bits = test_bits(self.code, rows)
        cells, nulls = input_cells(self.code, rows)
        keys = np.empty((count, 8), np.int64)
        keys[:, 0], keys[:, 1], keys[:, 2], keys[:, 3] = times.le, times.tie, times.name, times.re
        keys[:, 4] = np.arange(self.next_event, self.next_event + count)
        keys[:, 5], keys[:, 6], keys[:, 7] = times.sequence, bits, nulls
        if self.settings.sequenced:
            keys[:, 1] = times.sequence
        if self.keeps_rows and count:
            self.rows.add(self.next_event, table, int(times.le.max()))
        self.next_event += count
        if len(chosen) == count:
            delta = self._process(operations, keys, cells)
            status = delta.status
        else:
            delta = self._process(
                np.ascontiguousarray(operations[chosen]),
                np.ascontiguousarray(keys[chosen]),
                np.ascontiguousarray(cells[chosen]),
            )
            status[chosen] = delta.status
        taken = inserted & (status == kernel.DONE)
        if taken.any():
            self.newest = max(self.newest, int(times.le[taken].max()))
        if not inserted.all():
            if self._promises:
                raise errors.UnsupportedError(
                    "watermarks with predicates were given, so no event can be retracted",
                    remedy="use plain watermarks where the input has retractions",
                )
            self._retracted = True
            self._remember(times, ~inserted, status)
        delta.status = status
        self._verify()
        return delta

    def _remember(self, times: Times, retracted: Any, status: NDArray[np.int8]) -> None:
        """Which events were retracted, so that a second time is told from never seen."""
        for row in np.flatnonzero(retracted).tolist():
            key = (int(times.le[row]), int(times.name[row]), int(times.sequence[row]))
            if status[row] == kernel.DONE:
                self._gone[key] = None
            elif status[row] == kernel.UNKNOWN and key in self._gone:
                status[row] = TWICE

    def _process(self, operations: Any, keys: Any, cells: Any, resume: int = NONE) -> Delta:
        status = np.zeros(len(operations), np.int8)
        faults = np.zeros((MAX_FAULTS, 3), np.int64)
        counts = np.zeros(4, np.int64)
        rows = np.zeros((64, steps.OUTPUT_REGISTER + self.code.fields), np.int64)
        pairs = np.zeros((64, 2), np.int64)
        self.store, rows, pairs = self.kernels.process(
            self.store, self.table, operations, keys, cells, self.ignoring, self.traced,
            self.settings.sequenced, self.settings.unique, resume, status, faults, counts, rows,
            pairs,
        )  # fmt: skip
        return Delta(
            rows[: counts[steps.ROWS]],
            pairs[: counts[steps.PAIRS]],
            status,
            self._faults(faults, int(counts[steps.FAULTS])),
        )

    def _faults(self, faults: Numbers, count: int) -> list[tuple[int, str, str]]:
        reasons = {guards.OVERFLOW: "a number left 64 bits", guards.BY_ZERO: "division by zero"}
        problems, self.slow.problems = self.slow.problems, []
        found = []
        for event, arc, status in faults[:count].tolist():
            text = self.arcs[arc].text
            reason = reasons.get(status) or (problems.pop(0) if problems else "the function failed")
            found.append((event, text, reason))
        return found

    # -- time ------------------------------------------------------------------------------------

    @property
    def settled(self) -> int:
        """The effective punctuation t_p = min(t_e, t_a): nothing before it can change."""
        return min(self.watermark, self.arc_watermark)

    def advance(self, time: int, on_arcs: bool = False) -> Delta:
        """A watermark on the event input (or on the arcs'): no event (arc) before it will come."""
        if on_arcs:
            self.arc_watermark = max(self.arc_watermark, time)
        else:
            self.watermark = max(self.watermark, time)
        delta = self._close(ending=False)
        settled = self.settled
        if settled == MINUS_INFINITY:
            return delta
        if self.settings.sequenced:
            self.kernels.clean_sequenced(self.store, settled, self.traced)
        else:
            self.kernels.clean(self.store, settled, self.ignoring, self.traced)
        self._gone = {key: None for key in self._gone if key[0] >= self.watermark}
        self._drop_arcs(settled)
        self.rows.drop_before(self._oldest(settled))
        self._shrink()
        self._verify()
        return delta

    def end(self) -> Delta:
        """No event comes any more: windows that are still open end here."""
        return self._close(ending=True)

    def _close(self, ending: bool) -> Delta:
        rows = np.zeros((64, steps.OUTPUT_REGISTER + self.code.fields), np.int64)
        pairs, counts = np.zeros((64, 2), np.int64), np.zeros(4, np.int64)
        if len(self.table.closing):
            rows, pairs = self.kernels.close_windows(
                self.store, self.table, self.settled, ending, self.traced, rows, pairs, counts
            )
        found = rows[: counts[steps.ROWS]]
        if len(found) > 1 and not self.traced:
            # Two ways to one register are one match; elsewhere that is one node, here it is not.
            told = (steps.FIRST_EVENT, steps.LAST_EVENT, steps.FINAL_STATE, steps.OUTPUT_NULLS)
            columns = [*told, *range(steps.OUTPUT_REGISTER, found.shape[1])]
            _, first = np.unique(found[:, columns], axis=0, return_index=True)
            found = found[np.sort(first)]
        return Delta(found, pairs[: counts[steps.PAIRS]], np.zeros(0, np.int8))

    def _drop_arcs(self, settled: int) -> None:
        """An arc can be discarded once the punctuation has passed its end (§5.4); a few at once."""
        if self._ended < MANY_ENDED and self.code.free_tests > FEW_TESTS:
            return
        kept = [arc for arc in self.arcs if arc.till > settled]
        if len(kept) < len(self.arcs):
            self.arcs = kept
            in_use = {
                place
                for arc in kept
                for place in range(len(self.code.tests))
                if self.code.compiled(arc).mask >> place & 1
            }
            self.code.release(in_use)
            self._rebuild()

    def _live_nodes(self) -> Numbers:
        nodes = self.store.nodes[: int(self.store.control[layout.HIGH_NODE])]
        return nodes[nodes[:, layout.AT] != NONE]

    def _oldest(self, settled: int) -> int:
        """Rows from here on may still be asked for."""
        if not self.traced:
            return settled
        live = self._live_nodes()
        return min(settled, int(live[:, layout.START].min())) if len(live) else settled

    def _shrink(self) -> None:
        """After a burst, arrays of which little is in use are given back."""
        control = self.store.control
        if control[layout.NODES] == 0 and self.store.nodes.shape[0] > 4096:
            control[layout.FREE_NODE], control[layout.HIGH_NODE] = NONE, 0
            small = np.full((64, self.store.nodes.shape[1]), NONE, np.int64)
            self.store = self.store._replace(nodes=small)

    def promise(self, time: int, condition: c.Condition) -> int:
        """No event for which the condition holds comes before `time`: partial matches that only
        such an event could lead to a match go (Appendix F.2). The number that went."""
        if (
            self.ignoring
            or self.settings.sequenced
            or any(arc.epsilon or arc.closing for arc in self.arcs)
        ):
            raise errors.UnsupportedError(
                "a watermark with a predicate needs an automaton without intervals, ε-arcs, "
                "arcs at the end of the window and sequence numbers",
                remedy="use plain watermarks, or matcher(ignorable_intervals=False)",
            )
        if self._retracted:
            raise errors.UnsupportedError(
                "a watermark with a predicate is valid only where no event is ever retracted, "
                "and one was",
                remedy="use plain watermarks",
            )
        self._promises[condition] = max(time, self._promises.get(condition, MINUS_INFINITY))
        starts = path_punctuations(
            self.arcs, self.machine.finals, self._punctuation, self._earliest, self.arc_watermark
        )
        covers = np.full(len(self.code.states), NONE, np.int64)
        for state, limit in starts.items():
            covers[self.code.state(state)] = self._cover(limit)
        return int(self.kernels.clean_states(self.store, covers, self.traced))

    def _cover(self, time: int) -> int:
        if time == MINUS_INFINITY:
            return NONE
        return int(self.kernels.at_or_before(self.store, time - 1, INFINITY, INFINITY))

    def _punctuation(self, index: int) -> int:
        return arc_punctuation(self.arcs[index], self.watermark, self._promises)

    def _earliest(self, index: int, time: int) -> int:
        """The first event from a time on that the row-local fence of an arc accepts."""
        mask, value = self.table.table[index, [steps.MASK, steps.VALUE]]
        events = self.store.events[: int(self.store.control[layout.HIGH_EVENT])]
        fits = (
            (events[:, layout.IDENTITY] >= 0)
            & (events[:, layout.LE] >= time)
            & (events[:, layout.BITS] & mask == value)
        )
        return int(events[fits, layout.LE].min()) if fits.any() else INFINITY

    # -- arcs ------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """t_curr: a change without a lifetime applies to events after this."""
        return max(self.newest, self.watermark)

    def revise(
        self,
        add: Iterable[Arc] = (),
        remove: Iterable[str] = (),
        since: int | None = None,
        till: int | None = None,
        finals: Iterable[str] = (),
        starts: Iterable[str] = (),
    ) -> tuple[int, int, Delta]:
        """Arcs come and go; the lifetime that it resolved to, and what changes for past events."""
        add, remove, finals, starts = list(add), list(remove), list(finals), list(starts)
        begin = min(self.now, INFINITY - 1) + 1 if since is None else since
        if self.now == MINUS_INFINITY and since is None:
            begin = MINUS_INFINITY
        end = INFINITY if till is None else till
        self._check_lifetime(begin, end)
        if (
            till is None
            and begin > self.newest
            and not set(finals) - self.machine.finals
            and not set(starts).difference(self.machine.begins)
            and self._swap(begin, remove, add)
        ):
            return begin, end, _nothing(self.code.fields)
        machine = replace(
            self.machine,
            finals=self.machine.finals | frozenset(finals),
            starts=tuple(dict.fromkeys((*self.machine.begins, *starts))),
        )
        added = [replace(arc, since=begin, till=end) for arc in add]
        arcs = self._without(remove, begin) + added
        self._check_change(machine, added, arcs)
        affected = begin <= self.newest
        if affected and self.settings.sequenced:
            raise errors.UnsupportedError(
                "with sequence numbers, arcs cannot be given a lifetime in the past",
                remedy="leave the lifetime out, or run without sequence numbers",
            )
        if affected and not self.keeps_rows:
            raise errors.UnsupportedError(
                "events are kept as their triggering sets only, so arcs cannot be applied to "
                "past ones",
                remedy="leave the lifetime out, or keep rows (keep_rows=True)",
            )
        self._take_over(machine, arcs)
        if not affected:
            self._verify()
            return begin, end, _nothing(self.code.fields)
        delta = self._again(begin)
        self._verify()
        return begin, end, delta

    def _swap(self, begin: int, remove: Sequence[str], add: Sequence[Arc]) -> bool:
        """A change from now on, made in place where that is possible."""
        if self._slow or (not self._ignoring and self._wants_intervals(add)):
            return False
        if self._book is None:
            self._book = ArcBook(self.code, self.arcs, self.table)
            self.table = self._book.table
        if not self._book.swap(begin, self.settled, remove, add):
            return False
        self._ended += len(remove)
        self._verify()
        return True

    def _take_over(self, machine: Machine, arcs: list[Arc]) -> None:
        intervals = not self._ignoring and self._wants_intervals(arcs)
        closing = any(arc.closing for arc in arcs) and not len(self.table.closing)
        if intervals or closing:
            # From here on more is kept of partial matches; those there are, are made once more.
            self._ignoring = self._ignoring or intervals
            first = int(self.store.control[layout.FIRST])
            if first >= 0:
                self._complete()
                self._made_again(first)
        known = len(self.code.inputs)
        self.code.machine = machine
        self.arcs = arcs
        self._rebuild()
        if len(self.code.inputs) > known:
            self._widen()

    def _complete(self) -> None:
        """What the loop over events in order does not keep of nodes."""
        nodes, events = self.store.nodes, self.store.events
        here = np.flatnonzero(nodes[:, layout.AT] >= 0)
        event = nodes[here, layout.AT]
        for column, value in (layout.EDGE, NONE), (layout.SUPPORT, 1), (layout.FIRED, 0):
            nodes[here, column] = value
        nodes[here, layout.UNTIL] = event
        for column, source in (
            (layout.EVENT, layout.IDENTITY),
            (layout.END, layout.LE),
            (layout.END_NAME, layout.CONTENT),
        ):
            nodes[here, column] = events[event, source]

    def replace_arcs(self, machine: Machine, arcs: Sequence[Arc]) -> None:
        """The arcs that another operator of the same automaton has; before the first event."""
        self._take_over(machine, list(arcs))

    def _wants_intervals(self, arcs: Sequence[Arc]) -> bool:
        return (
            self.settings.ignoring
            and not self.settings.sequenced
            and any(arc.ignorable for arc in arcs)
        )

    def _without(self, names: Iterable[str], end: int) -> list[Arc]:
        arcs = list(self.arcs)
        for name in names:
            found = [arc for arc in arcs if name in (arc.name, arc.pattern) and arc.till > end]
            if not found:
                known = sorted({n for a in arcs for n in (a.name, a.pattern) if n})
                raise errors.UnknownArcError(
                    f"there is no arc or pattern {name!r} to remove",
                    remedy=f"there are: {', '.join(known) or 'none with a name'}",
                )
            arcs = [
                replace(arc, till=end) if arc in found and arc.since < end else arc
                for arc in arcs
                if arc not in found or arc.since < end
            ]
        return arcs

    def _check_lifetime(self, begin: int, end: int) -> None:
        if begin >= end:
            raise errors.LifetimeError(
                f"the lifetime from {begin} to {end} is empty", remedy="let since be before till"
            )
        if begin < self.settled:
            raise errors.LifetimeError(
                f"a lifetime from {begin} on reaches behind {self.settled}, up to where the "
                "output is final",
                remedy="begin at the watermark or later; an arc input with a watermark of its own "
                "(arc_watermark=True) holds the past open",
            )

    def _check_change(self, machine: Machine, added: Sequence[Arc], arcs: Sequence[Arc]) -> None:
        reached = set(machine.begins) | {arc.target for arc in arcs}
        lasting = [arc for arc in arcs if arc.till == INFINITY]
        if not any(arc.target in machine.finals for arc in lasting):
            raise errors.NoFinalStateError(
                "the change would take the last arc to a final state away: nothing could match "
                "any more",
                remedy="add the new arc in the same call, or remove another one",
            )
        for arc in added:
            if arc.source not in reached:
                raise errors.UnknownStateError(
                    f"the arc {arc.text} leaves the state {arc.source!r}, which no arc leads to",
                    remedy=f"the states are {', '.join(sorted(reached))}",
                )
        replace(machine, arcs=tuple(arcs))._check_silent_cycles()
        for arc in added:
            machine.check_arc(arc)
            machine.check_types(arc, self.code.kinds)

    def _widen(self) -> None:
        """Columns of events for inputs that are new; no arc in force reads them of past events."""
        events = self.store.events
        wider = np.zeros((events.shape[0], layout.COLUMNS + len(self.code.inputs)), np.int64)
        wider[:, : events.shape[1]] = events
        self.store = self.store._replace(events=wider)

    def _again(self, begin: int) -> Delta:
        """Everything from a time on, under the arcs that are in force now."""
        events = self.store.events
        used = np.flatnonzero(
            events[: int(self.store.control[layout.HIGH_EVENT]), layout.IDENTITY] >= 0
        )
        used = used[events[used, layout.LE] >= begin]
        if len(used):
            rows = rows_of(self.rows.take(events[used, layout.IDENTITY]))
            events[used, layout.BITS] = test_bits(self.code, rows)
            cells, nulls = input_cells(self.code, rows)
            events[used, layout.COLUMNS :] = cells
            events[used, layout.EVENT_NULLS] = nulls
        if begin == MINUS_INFINITY:
            return self._made_again(NONE)
        return self._made_again(
            int(self.kernels.at_or_before(self.store, begin - 1, INFINITY, INFINITY))
        )

    def _made_again(self, before: int) -> Delta:
        """All nodes behind an event."""
        rows = np.zeros((64, steps.OUTPUT_REGISTER + self.code.fields), np.int64)
        pairs, counts = np.zeros((64, 2), np.int64), np.zeros(4, np.int64)
        rows, pairs = self.kernels.take_away(
            self.store, before, self.code.fields, self.ignoring, self.traced, rows, pairs, counts
        )
        went = Delta(rows[: counts[steps.ROWS]], pairs[: counts[steps.PAIRS]], np.zeros(0, np.int8))
        resume = kernel.FROM_START if before == NONE else before
        came = self._process(
            np.zeros(0, np.int8),
            np.zeros((0, 8), np.int64),
            np.zeros((0, len(self.code.inputs)), np.int64),
            resume,
        )
        return self._net(went, came)

    def _net(self, went: Delta, came: Delta) -> Delta:
        """What both withdrew and reported stays, under its old number."""
        known: dict[object, list[int]] = {}
        for row in range(len(went.rows)):
            known.setdefault(_identity(went, row), []).append(row)
        gone, fresh = set(range(len(went.rows))), []
        for row in range(len(came.rows)):
            same = known.get(_identity(came, row))
            if same:
                old = same.pop()
                gone.discard(old)
                node = int(came.rows[row, steps.NODE])
                self.store.nodes[node, layout.MATCH] = went.rows[old, steps.MATCH_ID]
            else:
                fresh.append(row)
        return joined([_chosen(went, sorted(gone)), _chosen(came, fresh)])

    # -- state -----------------------------------------------------------------------------------

    def retracted_keys(self) -> list[list[int]]:
        return [list(key) for key in self._gone]

    def resume(self, arcs: list[Arc], told: dict[str, Any], store: layout.Store) -> None:
        """Go on from stored state (`revision_state.py`)."""
        self.code.machine = replace(
            self.machine, finals=frozenset(told["finals"]), starts=tuple(told["starts"])
        )
        self.arcs = arcs
        self.watermark, self.arc_watermark = told["watermark"], told["arc_watermark"]
        self.newest, self.next_event = told["newest"], told["next_event"]
        self._gone = {(key[0], key[1], key[2]): None for key in told["retracted"]}
        self._ignoring = told["ignoring"]
        self._rebuild()
        self.store = store
        self._verify()

    # -- size and invariants ---------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of all state."""
        return sum(array.nbytes for array in self.store) + self.rows.nbytes

    @property
    def partials(self) -> int:
        return int(self.store.control[layout.NODES])

    @property
    def events(self) -> int:
        return int(self.store.control[layout.EVENTS])

    def _verify(self) -> None:
        if self.settings.debug:
            from ensue.evaluate.revision_invariants import verify

            verify(self)


def _nothing(fields: int) -> Delta:
    return Delta(
        np.zeros((0, steps.OUTPUT_REGISTER + fields), np.int64),
        np.zeros((0, 2), np.int64),
        np.zeros(0, np.int8),
    )


def _identity(delta: Delta, row: int) -> object:
    found = delta.rows[row]
    begin, length = int(found[steps.TRACE_BEGIN]), int(found[steps.TRACE_LENGTH])
    names = (steps.FIRST_EVENT, steps.LAST_EVENT, steps.LIFETIME_RE, steps.FINAL_STATE)
    return (
        tuple(found[list(names)].tolist()),
        tuple(found[steps.OUTPUT_NULLS : steps.OUTPUT_NULLS + 1].tolist()),
        tuple(found[steps.OUTPUT_REGISTER :].tolist()),
        delta.pairs[begin : begin + length].tobytes(),
    )


def _chosen(delta: Delta, rows: Sequence[int]) -> Delta:
    return Delta(delta.rows[list(rows)], delta.pairs, delta.status, delta.faults)


def joined(deltas: Sequence[Delta]) -> Delta:
    """Several changes in turn as one."""
    rows, before = [], 0
    for delta in deltas:
        moved = delta.rows.copy()
        moved[:, steps.TRACE_BEGIN] += before
        before += len(delta.pairs)
        rows.append(moved)
    return Delta(
        np.concatenate(rows),
        np.concatenate([delta.pairs for delta in deltas]),
        np.concatenate([delta.status for delta in deltas]),
        [fault for delta in deltas for fault in delta.faults],
    )
