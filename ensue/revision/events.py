"""The AFA operator's inputs of events and time, over arcs that stay as they are.

`EventOperator` holds the kernels' arrays (`revision/kernels/store.py`) and what cannot be an array:
the arcs with their lifetimes, the code made of them, and the rows. Timestamps are codes
(`operator/clock.py`). `operator.py` adds the input of arcs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.registers import INFINITY, MINUS_INFINITY, Arc, RegisterAutomaton
from ensue.guards import machine as guards
from ensue.query import condition as c
from ensue.revision import limits
from ensue.revision.arc_book import ArcBook
from ensue.revision.code import Code
from ensue.revision.invariants import verify
from ensue.revision.kernels import layout
from ensue.revision.kernels.layout import NONE, Numbers
from ensue.revision.kernels.store import Store, new_store
from ensue.revision.parts import (
    DEFAULT,
    EMPTY_LIFETIME,
    FINAL,
    LATE,
    TWICE,
    Delta,
    Settings,
    Times,
)
from ensue.revision.rows import RowStore, input_cells, rows_of, test_bits
from ensue.revision.tier import SlowTier, compiled_kernels, plain_kernels, run_compiled
from ensue.scalar import kinds as k
from ensue.stopping import look

MAX_FAULTS = 1_000
MANY_ENDED, FEW_TESTS = 1024, 16  # arcs that are over go when so many are, or so few bits are left
MANY_LIVES = 1 << 14  # the same of arcs edited in place, which cost a few bytes each


class EventOperator(ABC):
    """See the module."""

    def __init__(
        self,
        machine: RegisterAutomaton,
        kinds: dict[str, k.Kind],
        settings: Settings = DEFAULT,
    ) -> None:
        machine.check()
        for arc in machine.arcs:
            machine.check_types(arc, kinds)
        self.settings = settings
        self.code = Code(machine, kinds)
        self._arcs: list[Arc] = list(machine.arcs)
        self.rows = RowStore()
        self.slow = SlowTier(self.code, self.rows)
        self.watermark = MINUS_INFINITY  # t_e
        self.arc_watermark = MINUS_INFINITY if settings.arc_watermark else INFINITY  # t_a
        self.newest = MINUS_INFINITY
        self.next_event = 0
        self._gone: dict[tuple[int, int, int], None] = {}
        self._promises: dict[c.Condition, int] = {}
        self._retracted = False
        self._disordered = False  # changes came that are not events in order
        self._ignoring = False
        self.elsewhere = 0  # partial matches that other partitions hold
        self._book: ArcBook | None = None
        self._rebuild()
        self.store = new_store(len(self.code.inputs), self.code.fields, settings.sequenced)

    # -- what runs -------------------------------------------------------------------------------

    @property
    def arcs(self) -> list[Arc]:
        """All arcs with their lifetimes, in force or over."""
        return self._arcs if self._book is None else self._book.arcs

    @property
    def machine(self) -> RegisterAutomaton:
        return self.code.machine

    @property
    def ignoring(self) -> bool:
        """Whether intervals are kept: only since an event came that an ignorable arc may take."""
        return self._ignoring

    @property
    def may_ignore(self) -> bool:
        """Whether there are intervals to keep, now or later."""
        return self._ignoring or self._wants_intervals(self.arcs)

    @property
    def tier(self) -> str:
        """`compiled`, or why it is plain Python."""
        return self._slow or "compiled"

    @property
    def keeps_rows(self) -> bool:
        return self.settings.keep_rows or self.tier != "compiled"

    def _rebuild(self) -> None:
        """Arrays of the arcs there are; what was edited in place becomes part of them."""
        self._arcs, self._book = self.arcs, None
        if self.settings.sequenced and any(arc.closing for arc in self._arcs):
            raise errors.UnsupportedError(
                "with sequence numbers, no arc can fire at the end of a window: a number that is "
                "missing may stand for the event that forbids it",
                remedy="leave the sequence numbers out",
            )
        compiled = [self.code.compiled(arc) for arc in self._arcs]
        self.slow.set_arcs(self._arcs, compiled)
        self.table = self.code.arrays(self._arcs, self._answer_silent)
        self._ended = sum(arc.till != INFINITY for arc in self._arcs)
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
        code = np.array(self.code.code, np.int64).reshape(-1, 4)
        return run_compiled(code, found.begin, found.end, cells, nulls)

    # -- events ----------------------------------------------------------------------------------

    def insert(self, table: pa.Table, times: Times) -> Delta:
        """Events in any order; `status` says what became of each."""
        return self.change(table, times, np.ones(len(times.le), np.int8))

    def retract(self, table: pa.Table, times: Times) -> Delta:
        """Corrections: the same row and lifetime as the event that is withdrawn."""
        return self.change(table, times, np.full(len(times.le), -1, np.int8))

    def change(self, table: pa.Table, times: Times, operations: NDArray[np.int8]) -> Delta:
        """Inserts (1) and retractions (-1) in the order of arrival."""
        count = len(times.le)
        status = np.zeros(count, np.int8)
        late = times.le < self.watermark
        inserted = operations == layout.INSERT
        if late.any():
            status[late & inserted] = LATE
            status[late & ~inserted] = FINAL
        empty = (times.le >= times.re) & inserted
        if empty.any():
            status[empty] = EMPTY_LIFETIME
        chosen = np.flatnonzero(status == 0)
        rows = rows_of(table)
        bits = test_bits(self.code, rows)
        if self._ignores(bits):
            self._start_intervals()
        cells, nulls = input_cells(self.code, rows)
        keys = np.empty((count, layout.GIVEN), np.int64)
        keys[:, layout.LE], keys[:, layout.RE] = times.le, times.re
        keys[:, layout.TIE] = times.sequence if self.settings.sequenced else times.tie
        keys[:, layout.CONTENT], keys[:, layout.SEQUENCE] = times.name, times.sequence
        keys[:, layout.IDENTITY] = np.arange(self.next_event, self.next_event + count)
        keys[:, layout.BITS], keys[:, layout.EVENT_NULLS] = bits, nulls
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
        taken = inserted & (status == layout.DONE)
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

    def _ignores(self, bits: Numbers) -> bool:
        """Whether intervals, of which there are none so far, may begin with one of these events."""
        if self._ignoring or self.settings.sequenced or not self.settings.ignoring:
            return False
        table = self.table.table
        for arc in np.flatnonzero(table[:, layout.IGNORABLE]).tolist():
            if (bits & table[arc, layout.MASK] == table[arc, layout.VALUE]).any():
                return True
        return False

    @abstractmethod
    def _start_intervals(self) -> None:
        """From now on events that change nothing are kept as intervals: the arcs are made anew."""

    def _remember(self, times: Times, retracted: Any, status: NDArray[np.int8]) -> None:
        """Which events were retracted: a second time differs from an event never seen."""
        for row in np.flatnonzero(retracted).tolist():
            key = (int(times.le[row]), int(times.name[row]), int(times.sequence[row]))
            if status[row] == layout.DONE:
                self._gone[key] = None
            elif status[row] == layout.UNKNOWN and key in self._gone:
                status[row] = TWICE

    def _process(self, operations: Any, keys: Any, cells: Any, resume: int = NONE) -> Delta:
        status = np.zeros(len(operations), np.int8)
        faults = np.zeros((MAX_FAULTS, 3), np.int64)
        counts = limits.counts(self.elsewhere)
        rows = np.zeros((64, layout.OUTPUT_REGISTER + self.code.fields), np.int64)
        walk, done = layout.walk_from(resume), False
        kept = self.ignoring, self.settings.sequenced, self.settings.unique
        if not self._disordered and resume == NONE:
            done, self.store, rows = self.kernels.process_in_order(
                self.store, self.table, operations, keys, cells, *kept, walk, faults, counts, rows
            )
        if not done:
            self._disordered = self._disordered or resume == NONE
            self.store, rows = self.kernels.process(
                self.store, self.table, operations, keys, cells, *kept, walk, status, faults,
                counts, rows,
            )  # fmt: skip
        look()
        limits.check(counts)
        return Delta(
            rows[: counts[layout.ROWS]],
            status,
            self._faults(faults, int(counts[layout.FAULTS])),
        )

    def _faults(self, faults: Numbers, count: int) -> list[tuple[int, str, str]]:
        reasons = {
            guards.OVERFLOW: "a number left 64 bits, or its narrower type",
            guards.BY_ZERO: "division by zero",
        }
        problems, self.slow.problems = self.slow.problems, []
        found = []
        for event, arc, status in faults[:count].tolist():
            text = self._arcs[arc].text if self._book is None else self._book.text(arc)
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
            self.kernels.clean_sequenced(self.store, settled)
        else:
            self.kernels.clean(self.store, settled, self.ignoring)
        self._gone = {key: None for key in self._gone if key[0] >= self.watermark}
        self._drop_arcs(settled)
        self.rows.drop_before(settled)
        self._shrink()
        self._verify()
        return delta

    def end(self) -> Delta:
        """No event comes any more: windows that are still open end here."""
        return self._close(ending=True)

    def _close(self, ending: bool) -> Delta:
        rows = np.zeros((64, layout.OUTPUT_REGISTER + self.code.fields), np.int64)
        counts = np.zeros(layout.COUNTS, np.int64)
        if len(self.table.closing):
            rows = self.kernels.close_windows(
                self.store, self.table, self.settled, ending, rows, counts
            )
        found = rows[: counts[layout.ROWS]]
        if len(found) > 1:
            # Two ways to one register are one match; elsewhere that is one node, here it is not.
            told = (layout.FIRST_EVENT, layout.LAST_EVENT, layout.FINAL_STATE, layout.OUTPUT_NULLS)
            columns = [*told, *range(layout.OUTPUT_REGISTER, found.shape[1])]
            _, first = np.unique(found[:, columns], axis=0, return_index=True)
            found = found[np.sort(first)]
        return Delta(found, np.zeros(0, np.int8))

    def _drop_arcs(self, settled: int) -> None:
        """An arc can be discarded once the punctuation has passed its end (§5.4); a few at once."""
        if self.code.free_tests > FEW_TESTS:
            if self._book is not None:
                if self._ended >= MANY_LIVES:
                    self._book.drop(settled)
                    self._ended = self._book.over
                return
            if self._ended < MANY_ENDED:
                return
        kept = [arc for arc in self.arcs if arc.till > settled]
        if len(kept) < len(self.arcs):
            self._set_arcs(kept)
            in_use = {
                place
                for arc in kept
                for place in range(len(self.code.tests))
                if self.code.compiled(arc).mask >> place & 1
            }
            self.code.release(in_use)
            self._rebuild()

    def _set_arcs(self, arcs: list[Arc]) -> None:
        """Before `_rebuild`: other arcs than there are."""
        self._arcs, self._book = arcs, None

    def _wants_intervals(self, arcs: Sequence[Arc]) -> bool:
        return (
            self.settings.ignoring
            and not self.settings.sequenced
            and any(arc.ignorable for arc in arcs)
        )

    def _shrink(self) -> None:
        """After a burst, arrays of which little is in use are given back."""
        control = self.store.control
        if control[layout.NODES] == 0 and self.store.nodes.shape[0] > 4096:
            control[layout.FREE_NODE], control[layout.HIGH_NODE] = NONE, 0
            small = np.full((64, self.store.nodes.shape[1]), NONE, np.int64)
            self.store = self.store._replace(nodes=small)

    # -- state -----------------------------------------------------------------------------------

    def retracted_keys(self) -> list[list[int]]:
        return [list(key) for key in self._gone]

    def resume(self, arcs: list[Arc], told: dict[str, Any], store: Store) -> None:
        """Go on from stored state (`state.py`)."""
        self.code.machine = replace(
            self.machine, finals=frozenset(told["finals"]), starts=tuple(told["starts"])
        )
        self._set_arcs(arcs)
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
            verify(self)
