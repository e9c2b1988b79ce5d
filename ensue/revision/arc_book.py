"""Edits of arcs in place: arrays with room, of which a change touches only its own rows.

An arc is a row of the kernels' table for as long as the arrays live; *lives* say when it was in
force, and the epochs of its state what holds when (`revision/kernels/arcs.py`). So an edit that
applies from now on costs the arcs of the states it touches, whatever the size of the automaton, and
a schedule of thousands costs one call.

The book says no to everything else: ε-arcs, lifetimes that end, fences that were never compiled,
names that are not there. Then the arrays are made again (`Code.arrays`), which also drops what is
over, or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ensue.automaton.registers import INFINITY, MINUS_INFINITY, Arc
from ensue.revision.arc_schedule import ArcSchedule, Palette
from ensue.revision.code import Code
from ensue.revision.kernels import arcs as kernel
from ensue.revision.kernels import layout
from ensue.revision.kernels.layout import NONE, Numbers


class ArcBook:
    """See the module."""

    def __init__(self, code: Code, arcs: Sequence[Arc], table: kernel.Arcs) -> None:
        self._code, self.table = code, table
        self._reached = {*code.machine.begins, *(arc.target for arc in arcs)}
        self._simple = not any(arc.epsilon for arc in arcs)
        self._ends = max((arc.till for arc in arcs if arc.till != INFINITY), default=MINUS_INFINITY)
        self._kinds: list[Arc] = []  # arcs without their lifetimes
        self._slots: dict[Arc, int] = {}
        self._names: dict[str, int] = {}
        self._bearers: list[list[int]] = []
        marks = np.zeros(len(table.table), np.int64)
        in_force = np.full(len(table.table), NONE, np.int64)
        for slot, arc in enumerate(arcs):
            self._enter(slot, arc)
            marks[slot] = self._mark(arc)
            if arc.till == INFINITY:
                in_force[slot] = slot
        spans = [(slot, arc.since, arc.till) for slot, arc in enumerate(arcs)]
        lives = np.array(spans, np.int64).reshape(-1, 3)
        lasting = int((marks[in_force >= 0] & layout.TO_FINAL).sum())
        numbers = np.array([len(lives), len(table.listed), lasting], np.int64)
        self._book = kernel.Book(marks, *self._by_name(), in_force, lives, numbers)
        limits = table.epochs_of[:, layout.END_EPOCH].copy()
        self._epochs = kernel.Epochs(
            table.epochs_of, table.epoch_since, table.epoch_arcs, table.listed, limits
        )
        self._arcs: list[Arc] | None = list(arcs)
        self._fresh = np.zeros(len(limits), np.int64)
        self._palette: Palette | None = None
        self._by_arc = np.zeros(0, np.int64)

    # -- what there is ---------------------------------------------------------------------------

    @property
    def arcs(self) -> list[Arc]:
        """All arcs with their lifetimes; made on demand, since edits can be frequent."""
        if self._arcs is None:
            lives = self._book.lives[: self._book.numbers[layout.LIVES]]
            self._arcs = [
                self._kinds[slot].living(since, till) for slot, since, till in lives.tolist()
            ]
        return self._arcs

    def text(self, slot: int) -> str:
        return self._kinds[slot].text

    def drop(self, settled: int) -> None:
        """Lives that are over can be discarded once the punctuation has passed their end (§5.4)."""
        book = self._book
        lives = book.lives[: book.numbers[layout.LIVES]]
        kept = lives[lives[:, layout.LIFE_TILL] > settled]
        if len(kept) == len(lives):
            return
        book.open[:] = NONE
        lasting = kept[:, layout.LIFE_TILL] == INFINITY
        book.open[kept[lasting, layout.SLOT]] = np.flatnonzero(lasting)
        book.lives[: len(kept)] = kept  # its room is kept for edits to come
        book.numbers[layout.LIVES] = len(kept)
        self._arcs = None

    @property
    def over(self) -> int:
        """Lives that have an end."""
        lives = self._book.lives[: self._book.numbers[layout.LIVES]]
        return int((lives[:, layout.LIFE_TILL] != INFINITY).sum())

    # -- edits -----------------------------------------------------------------------------------

    def swap(self, begin: int, settled: int, names: Sequence[str], added: Sequence[Arc]) -> bool:
        """Arcs of these names end at a time after all events, others begin; False: not here."""
        count = len(names) + len(added)
        slots = self._slots_of(added)
        if slots is None or not all(name in self._names for name in names):
            return False
        gone, came = np.full(count, NONE, np.int64), np.full(count, NONE, np.int64)
        gone[: len(names)] = [self._names[name] for name in names]
        came[len(names) :] = slots
        begins, groups = np.full(count, begin, np.int64), np.zeros(count, np.int64)
        return self._enact(settled, begins, gone, came, groups)

    def run(self, schedule: ArcSchedule, begins: Numbers, settled: int) -> bool:
        """All edits of a schedule, each from its time on; False: not here."""
        if self._palette is not schedule.palette:
            found = [self._slots_of([arc]) for arc in schedule.palette.arcs]
            slots = [layout.UNFIT if slot is None else slot[0] for slot in found]
            self._palette, self._by_arc = schedule.palette, np.array([*slots, NONE], np.int64)
        if not all(name in self._names for name in schedule.names):
            return False
        # One place more than there are names and arcs, so that NONE finds NONE.
        by_name = np.array([*(self._names[name] for name in schedule.names), NONE], np.int64)
        return self._enact(
            settled, begins, by_name[schedule.remove], self._by_arc[schedule.add], schedule.at
        )

    def knows(self, palette: Palette) -> bool:
        """Whether the arcs have their rows already."""
        return self._palette is palette

    def _enact(
        self, settled: int, begins: Numbers, gone: Numbers, came: Numbers, groups: Numbers
    ) -> bool:
        if not self._simple or (len(begins) and self._ends > begins[0]):
            return False
        missing = self._write(begins, gone, came, groups)
        if missing > 0:
            self._make_room(len(begins), missing, settled)
            missing = self._write(begins, gone, came, groups)
        if missing == 0:
            self._arcs = None
        return missing == 0

    def _write(self, begins: Numbers, gone: Numbers, came: Numbers, groups: Numbers) -> int:
        return kernel.enact(
            self.table.table, self._epochs, self._book, begins, gone, came, groups, self._fresh
        )

    def _make_room(self, edits: int, places: int, settled: int) -> None:
        lives, count = self._book.lives, int(self._book.numbers[layout.LIVES])
        if count + edits > len(lives):
            self._book = self._book._replace(lives=_roomy(lives, count + 2 * edits))
        found = kernel.more_epochs(self._epochs, self._book, settled, self._fresh, places)
        self._epochs = found
        self.table = self.table._replace(
            epoch_since=found.since, epoch_arcs=found.arcs, listed=found.listed
        )

    # -- arcs ------------------------------------------------------------------------------------

    def _slots_of(self, arcs: Sequence[Arc]) -> list[int] | None:
        """The arcs' rows; those that are new get one. None: they are not made of what is here."""
        plain = [arc.living(MINUS_INFINITY, INFINITY) for arc in arcs]
        fresh = [arc for arc in dict.fromkeys(plain) if arc not in self._slots]
        if not all(self._fits(arc) for arc in fresh):
            return None
        if fresh:
            self._add(fresh)
        return [self._slots[arc] for arc in plain]

    def _fits(self, arc: Arc) -> bool:
        code = self._code.known(arc)
        return (
            code is not None
            and code.slow is None
            and code.end <= len(self.table.code)
            and not (arc.epsilon or arc.closing)
            and arc.source in self._reached
            and arc.target in self._reached
        )

    def _add(self, fresh: Sequence[Arc]) -> None:
        table, first = self.table, len(self._kinds)
        room = max(0, first + len(fresh) - len(table.table))
        if room:
            room += first
            self.table = table = table._replace(
                table=_roomy(table.table, room),
                outputs=_roomy(table.outputs, room),
                quick=_roomy(table.quick, room),
            )
            self._book = self._book._replace(
                marks=_roomy(self._book.marks, room), open=_roomy(self._book.open, room, NONE)
            )
        for slot, arc in enumerate(fresh, first):
            code = self._code.known(arc)
            assert code is not None
            self._enter(slot, arc)
            table.table[slot] = self._code.line(arc, code, restless=False)
            table.outputs[slot] = code.outputs
            table.quick[slot] = self._code.is_quick(code)
            self._book.marks[slot] = self._mark(arc)
        named, bearers = self._by_name()
        self._book = self._book._replace(named=named, bearers=bearers)

    def _enter(self, slot: int, arc: Arc) -> None:
        plain = arc.living(MINUS_INFINITY, INFINITY)
        self._kinds.append(plain)
        if arc.till == INFINITY or plain not in self._slots:
            self._slots[plain] = slot
        for name in dict.fromkeys((arc.name, arc.pattern)):
            if not name:
                continue
            if name not in self._names:
                self._names[name] = len(self._bearers)
                self._bearers.append([])
            self._bearers[self._names[name]].append(slot)

    def _mark(self, arc: Arc) -> int:
        final = layout.TO_FINAL if arc.target in self._code.machine.finals else 0
        return final | (layout.FIXED if arc.closing else 0)

    def _by_name(self) -> tuple[Numbers, Numbers]:
        ends = np.cumsum([0, *map(len, self._bearers)])
        flat = [slot for slots in self._bearers for slot in slots]
        return ends.astype(np.int64), np.array(flat, np.int64)


def _roomy(array: np.ndarray, room: int, filled: int = 0) -> np.ndarray:
    """A copy with that many more rows."""
    found = np.full((len(array) + room, *array.shape[1:]), filled, array.dtype)
    found[: len(array)] = array
    return found
