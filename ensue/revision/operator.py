"""The AFA operator of one partition: events, retractions, time and changes of arcs in; changes out.

`events.py` takes events and time. Here arcs are the second input (§2.3). Added or removed
without a lifetime, an arc changes what happens to events after max(newest timestamp, watermark)
only, so nothing has to be made again, and a whole schedule of edits can come along with a batch of
events (`arc_schedule.py`). With a lifetime in the past, everything from the first event it concerns
on is made again, and what did not change is not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.registers import INFINITY, MINUS_INFINITY, Arc, RegisterAutomaton
from ensue.query import condition as c
from ensue.revision import promises as revision_promises
from ensue.revision.arc_book import ArcBook
from ensue.revision.arc_schedule import ArcSchedule
from ensue.revision.events import EventOperator
from ensue.revision.kernels import layout
from ensue.revision.kernels.arcs import begins_of
from ensue.revision.kernels.layout import NONE
from ensue.revision.parts import Delta, Times, chosen, identity, joined, nothing
from ensue.revision.rows import input_cells, rows_of, test_bits


class Operator(EventOperator):
    """See the module."""

    def promise(self, time: int, condition: c.Condition) -> int:
        """A watermark for events with this property; the number of partial matches that went."""
        if self._retracted:
            raise errors.UnsupportedError(
                "a watermark with a predicate is valid only where no event is ever retracted, "
                "and one was",
                remedy="use plain watermarks",
            )
        promised = max(time, self._promises.get(condition, MINUS_INFINITY))
        gone = revision_promises.keep(self, self._promises | {condition: promised})
        self._promises[condition] = promised
        return gone

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
        """Add and remove arcs; the lifetime it resolved to, and what changes for past events."""
        add, remove, finals, starts = list(add), list(remove), list(finals), list(starts)
        begin = min(self.now, INFINITY - 1) + 1 if since is None else since
        if self.now == MINUS_INFINITY and since is None:
            begin = MINUS_INFINITY
        end = INFINITY if till is None else till
        self._check_lifetime(begin, end)
        affected = begin <= self.newest and self.newest != MINUS_INFINITY
        if (
            till is None
            and not affected
            and not set(finals) - self.machine.finals
            and not set(starts).difference(self.machine.begins)
            and self._swap(begin, remove, add)
        ):
            return begin, end, nothing(self.code.fields)
        machine = replace(
            self.machine,
            finals=self.machine.finals | frozenset(finals),
            starts=tuple(dict.fromkeys((*self.machine.begins, *starts))),
        )
        added = [replace(arc, since=begin, till=end) for arc in add]
        arcs = self._without(remove, begin) + added
        self._check_change(machine, added, arcs)
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
        if affected and not self._ignoring and self._wants_intervals(arcs):
            self._start_intervals()  # as long as the arcs are those that made what is there
        self._take_over(machine, arcs)
        if not affected:
            self._verify()
            return begin, end, nothing(self.code.fields)
        delta = self._again(begin)
        self._verify()
        return begin, end, delta

    def _swap(self, begin: int, remove: Sequence[str], add: Sequence[Arc]) -> bool:
        """A change from now on, made in place where that is possible."""
        if self._slow:
            return False
        done = self._opened().swap(begin, self.settled, remove, add)
        return self._edited(done, len(remove))

    def _opened(self) -> ArcBook:
        if self._book is None:
            self._book = ArcBook(self.code, self._arcs, self.table)
        return self._book

    def _edited(self, done: bool, ended: int) -> bool:
        """After a change of the book: its arrays are those that run."""
        assert self._book is not None
        self.table = self._book.table
        if done:
            self._ended += ended
            self._verify()
        return done

    # -- edits along with events -----------------------------------------------------------------

    def change_with_edits(
        self, table: pa.Table, times: Times, operations: NDArray[np.int8], edits: ArcSchedule
    ) -> tuple[NDArray[np.int64], Delta]:
        """As `change`, with edits between the events; from which time on each of them applies."""
        edits.check(len(times.le))
        begins = begins_of(edits.at, self.now, operations, times.le, times.re)
        self.schedule(edits, begins)
        return begins, self.change(table, times, operations)

    def schedule(self, edits: ArcSchedule, begins: NDArray[np.int64]) -> None:
        """Edits that apply from times after all events that are here; all of them, or an error."""
        if not len(edits.at):
            return
        if self._book is None or not self._book.knows(edits.palette):
            self._prepare(edits.palette.arcs)
        if self._slow is None:
            done = self._opened().run(edits, begins, self.settled)
            if self._edited(done, len(edits.at)):
                return
        before, machine = self.arcs, self.machine
        try:
            for row, names, added in edits.edits():
                self.revise(added, names, int(begins[row]))
        except errors.EnsueError:
            self._take_over(machine, before)
            raise

    def _prepare(self, arcs: Sequence[Arc]) -> None:
        """Arcs that were never seen are checked and compiled, before one of them is in force."""
        fresh = [arc for arc in arcs if self.code.known(arc) is None]
        if not fresh:
            return
        for arc in fresh:
            self.machine.check_arc(arc)
            self.machine.check_types(arc, self.code.kinds)
        known = len(self.code.inputs)
        for arc in fresh:
            self.code.compiled(arc)
        self._rebuild()
        if len(self.code.inputs) > known:
            self._widen()

    # -- arcs made anew --------------------------------------------------------------------------

    def _take_over(self, machine: RegisterAutomaton, arcs: list[Arc]) -> None:
        if any(arc.closing for arc in arcs) and not len(self.table.closing):
            self._keep_more()
        known = len(self.code.inputs)
        self.code.machine = machine
        self._set_arcs(arcs)
        self._rebuild()
        if len(self.code.inputs) > known:
            self._widen()

    def _start_intervals(self) -> None:
        self._ignoring = True
        self._keep_more()

    def _keep_more(self) -> None:
        """From here on more is kept of partial matches; those there are, are made once more."""
        first = int(self.store.control[layout.FIRST])
        if first >= 0:
            self._complete()
            self._made_again(first)

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

    def replace_arcs(self, machine: RegisterAutomaton, arcs: Sequence[Arc]) -> None:
        """The arcs that another operator of the same automaton has; before the first event."""
        self._take_over(machine, list(arcs))

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
                f"the lifetime from {begin} to {end} is empty",
                remedy="give a since that is before till",
            )
        if begin < self.settled:
            raise errors.LifetimeError(
                f"a lifetime from {begin} on reaches behind {self.settled}, up to where the "
                "output is final",
                remedy="begin at the watermark or later; an arc input with a watermark of its own "
                "(arc_watermark=True) holds the past open",
            )

    def _check_change(
        self, machine: RegisterAutomaton, added: Sequence[Arc], arcs: Sequence[Arc]
    ) -> None:
        reached = set(machine.begins) | {arc.target for arc in arcs}
        lasting = [arc for arc in arcs if arc.till == INFINITY]
        if not any(arc.target in machine.finals for arc in lasting):
            raise errors.NoFinalStateError(
                "the change would remove the last arc to a final state: nothing could match "
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
        rows = np.zeros((64, layout.OUTPUT_REGISTER + self.code.fields), np.int64)
        counts = np.zeros(layout.COUNTS, np.int64)
        rows = self.kernels.take_away(self.store, before, self.ignoring, rows, counts)
        went = Delta(rows[: counts[layout.ROWS]], np.zeros(0, np.int8))
        resume = layout.FROM_START if before == NONE else before
        came = self._process(
            np.zeros(0, np.int8),
            np.zeros((0, layout.GIVEN), np.int64),
            np.zeros((0, len(self.code.inputs)), np.int64),
            resume,
        )
        return self._net(went, came)

    def _net(self, went: Delta, came: Delta) -> Delta:
        """What both withdrew and reported stays, under its old number."""
        known: dict[object, list[int]] = {}
        for row in range(len(went.rows)):
            known.setdefault(identity(went, row), []).append(row)
        gone, fresh = set(range(len(went.rows))), []
        for row in range(len(came.rows)):
            same = known.get(identity(came, row))
            if same:
                old = same.pop()
                gone.discard(old)
                node = int(came.rows[row, layout.NODE])
                self.store.nodes[node, layout.MATCH] = went.rows[old, layout.MATCH_ID]
            else:
                fresh.append(row)
        return joined([chosen(went, sorted(gone)), chosen(came, fresh)])
