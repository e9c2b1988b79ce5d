"""The partial matches of an event pattern, row by row.

What the engine follows is shown: classes of partial matches that nothing ahead tells apart, each by
its longest one (of several the one with the earliest events), with how many they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ensue.automaton.subsets import DEAD, NOWHERE, START, Step
from ensue.operator.protocol import Events
from ensue.query.query import SkipMode
from ensue.sequences.batch import EventBatch
from ensue.sequences.guards import Guards
from ensue.sequences.listing import Collector
from ensue.sequences.runs import GraphAlgebra, Key, Partition, Runs
from ensue.why import account as a
from ensue.why.events import EventAttempts, Longest, Path, Value, Wait, consumed_starts
from ensue.why.trace import ASK, CONSUMED, DROP, MATCH, SKIP, TAKE, Trace


def follow(room: EventAttempts, events: Events, trace: Trace) -> None:
    """Adds the steps of one complete partition."""
    batch = EventBatch.of(room.plan, room.subsets, events)
    guards = Guards(room.plan, room.subsets, batch.columns)
    (part,) = batch.partitions()
    longest = Longest()
    runs = _Runs(room.subsets, guards, longest, longest, keep_first=True)
    runs.told = _Told(room, part, guards, Wait(room, part, batch, guards), trace)
    runs.run(part)
    if room.plan.query.skip.mode is not SkipMode.NONE:
        collector = Collector(room.plan.query.skip)
        Runs(room.subsets, guards, GraphAlgebra(), collector, keep_first=True).run(part)
        for row, text in sorted(consumed_starts(room.plan, collector, part).items()):
            trace.add(row, CONSUMED, (), start=row, reason=a.CONSUMED, text=text)


@dataclass
class _Runs(Runs[Value]):
    """The engine, which says what it does."""

    told: _Told = field(init=False)

    def _step(self, classes: dict[Key, Value], row: int, plain: int) -> dict[Key, Value]:
        for key, value in classes.items():
            self.told.step(key, value, row, self._bits(key, row, plain))
        self.told.step((START, row, self.guards.empty), (1, ()), row, self._bits(None, row, plain))
        return super()._step(classes, row, plain)

    def _bits(self, key: Key | None, row: int, plain: int) -> int:
        if not self.guards.needed:
            return plain
        state, _, memory = key or (START, row, self.guards.empty)
        return self.guards.bits(row, plain, state, memory)

    def _expire(
        self, classes: dict[Key, Value], oldest: int, row: int, timed: bool
    ) -> dict[Key, Value]:
        for key, value in classes.items():
            if key[1] < oldest:
                self.told.expire(key, value, row)
        return super()._expire(classes, oldest, row, timed)


@dataclass
class _Told:
    """Writes the steps of classes; rows come counted in the batch of one partition."""

    room: EventAttempts
    part: Partition
    guards: Guards
    wait: Wait
    trace: Trace

    def step(self, key: Key, value: Value, row: int, bits: int) -> None:
        """What becomes of a class at a row whose atoms are `bits`."""
        state, path = key[0], value[1]
        self._ask(key, value, row, bits)
        found = self.room.subsets.step(state, bits)
        for take in found.takes:
            longer = (*path, (row, take.label))
            name = self.room.plan.marks.labels[take.label]
            if take.target != NOWHERE:
                self._add(row, TAKE, longer, value[0], take.target, variable=name)
            if take.accept:
                text = _number(value[0])
                self._add(row, MATCH, longer, value[0], take.target, variable=name, text=text)
        if found.skip_accept:
            self._add(row, MATCH, path, value[0], NOWHERE, text=_number(value[0]))
        if state == START:
            return
        if found.skip != NOWHERE:
            self._add(row, SKIP, path, value[0], found.skip)
        elif not found.takes and not found.skip_accept:
            self._drop(key, value, row, bits, found)

    def _ask(self, key: Key, value: Value, row: int, bits: int) -> None:
        labels, mask = self.room.plan.marks.labels, self.room.subsets.masks[key[0]]
        for index, name in enumerate(labels):
            if mask >> index & 1:
                held, told = self.wait.asked(index, row, value[1])
                if (held is True) != bool(bits >> index & 1):
                    held, told = False, f"{told}; the row has no order value, and is in no window"
                text = f"{name}: {told}"
                self._add(row, ASK, value[1], value[0], key[0], variable=name, held=held, text=text)
        for offset, bound in enumerate(self.room.automaton.bounds):
            atom = len(labels) + offset
            if mask >> atom & 1 and value[1]:
                near = bool(bits >> atom & 1)
                last = value[1][-1][0]
                told = "in time" if near else self.wait.late(last, row, bound.within)
                text = f"the joint's bound: {told}"
                self._add(row, ASK, value[1], value[0], key[0], held=near, text=text)

    def _drop(self, key: Key, value: Value, row: int, bits: int, step: Step) -> None:
        assert step == DEAD
        reason, name, told = self.wait.dropped(value[1], row, self.room.subsets.sets[key[0]], bits)
        text = f"{name}: {told}"
        self._add(row, DROP, value[1], value[0], key[0], variable=name, reason=reason, text=text)

    def expire(self, key: Key, value: Value, row: int) -> None:
        """A class whose window, or whose partition, has ended."""
        ended = row == self.part.end
        what = "the partition ended" if ended else "the row lies outside the window"
        if self.room.subsets.pending[key[0]]:
            text = f"{what}, and no forbidden event came; {_number(value[0])}"
            self._add(row, MATCH, value[1], value[0], key[0], text=text)
            return
        reason = a.END if ended else a.WITHIN
        if not ended:
            what = self.wait.beyond(value[1][0][0], row)
        self._add(row, DROP, value[1], value[0], key[0], reason=reason, text=what)

    def _add(
        self,
        row: int,
        action: str,
        path: Path,
        partials: int,
        state: int,
        *,
        variable: str | None = None,
        held: bool | None = None,
        reason: str | None = None,
        text: str | None = None,
    ) -> None:
        labels, subsets = self.room.plan.marks.labels, self.room.subsets
        members = () if state == NOWHERE else subsets.sets[state]
        self.trace.add(
            row,
            action,
            [(labels[label], taken) for taken, label in path],
            start=row if not path else None,
            variable=variable,
            held=held,
            reason=reason,
            text=text,
            places=self.room.automaton.shown(members),
            partials=partials,
        )


def _number(count: int) -> str:
    return "a match" if count == 1 else f"{count:,} matches"
