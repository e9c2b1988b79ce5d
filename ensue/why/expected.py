"""Rows that were expected to match: the first rule that they break.

They are followed in order, each as the label it was given. The rules of the pattern come first, row
by row; then that the pattern is complete; then that no other match has the rows instead. Rows that
were given no label are followed as every label that the pattern asks for there, all ways side by
side: the way that gets farthest is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from ensue import errors
from ensue.automaton.places import Kind, Place
from ensue.automaton.program import ACCEPT, AT_END, AT_START
from ensue.guards.reader import Lists
from ensue.kernels.measures import FIRST_ROW, LENGTH, NUMBER
from ensue.operator.batch import Batch
from ensue.operator.protocol import Events
from ensue.query.query import SkipMode
from ensue.sequences.batch import EventBatch
from ensue.sequences.guards import Guards
from ensue.sequences.listing import Collector, listed
from ensue.sequences.runs import GraphAlgebra, Partition, Runs
from ensue.why import account as a
from ensue.why.account import Account, Attempt
from ensue.why.events import EventAttempts, Longest, Path, Wait, consumed_starts
from ensue.why.rows import RowAttempts, Walk, consumed

Pairs = Sequence[tuple[int, str]]  # (row, label) in the order of the rows
Wanted = Sequence[tuple[int, str | None]]  # without a label: any that the pattern asks for there
Way = tuple[tuple[int, str], ...]
MOST_WAYS = 1_000  # to give rows to variables, at once


def explain(room: RowAttempts | EventAttempts, events: Events, wanted: Wanted) -> pa.Table:
    """One row: what is to be said of rows of one partition."""
    found = Account(a.PARTITION)
    if isinstance(room, RowAttempts):
        batch = room.batch(events.table, events.starts)
        attempt, matches = _of_rows(room, batch, wanted)
        columns = dict(batch.columns)
    else:
        attempt, matches, columns = _of_events(room, events, wanted)
    found.add(attempt, 0, 0, matches)
    return found.table(room.plan.query, columns)


def _farthest(wanted: Wanted, walk: _Rows | _Events, told: Callable[[Way], Attempt]) -> Attempt:
    """What is told of the way to label the rows that gets farthest, of several of the first."""
    first = walk.onward(())
    ways: list[tuple[Way, list[str]]] = [((), first)]
    attempts: list[Attempt] = []
    if not first and not wanted[0][1]:
        return Attempt((), wanted[0][0], None, a.REPETITION, "the pattern takes no row")
    for row, given in wanted:
        further: list[tuple[Way, list[str]]] = []
        broken: list[Attempt] = []
        attempts = []
        for way, labels in ways:
            # Where it takes no further row, any label stands for the row that is too many.
            for label in [given] if given else labels or first[:1]:
                longer = (*way, (row, label))
                attempt = told(longer)
                if attempt.matched is not None and len(attempt.matched) == len(longer):
                    further.append((longer, walk.onward(longer)))
                    attempts.append(attempt)
                elif given or labels:
                    broken.append(attempt)
                else:
                    text = (attempt.text or "").removeprefix(f"{label}: ")
                    broken.append(replace(attempt, variable=None, text=text))
        if not further:
            return broken[0]
        if len(further) > MOST_WAYS:
            raise errors.LimitError(
                f"there are more than {MOST_WAYS:,} ways to give the rows up to row {row} to "
                "variables",
                remedy='say which variable each row should be: rows={"A": 0, "B": [1, 2]}',
            )
        ways = further
    return min(attempts, key=lambda one: (one.reason is not None, one.reason != a.CONSUMED))


# -- row patterns ---------------------------------------------------------------------------------


def _of_rows(room: RowAttempts, batch: Batch, wanted: Wanted) -> tuple[Attempt, int]:
    entries, labels, by = room.found(batch)
    start = wanted[0][0]
    number = int((entries[:, FIRST_ROW] < start).sum()) + 1
    walk = _Rows(room, batch, batch.label_bits(), batch.window_limits(), Lists(batch.columns))
    walk.enter(0)
    entry = int(by[start])

    def told(way: Way) -> Attempt:
        attempt = walk.follow(way, number)
        if attempt.reason is not None or entry < 0:
            return attempt
        first, length = int(entries[entry][FIRST_ROW]), int(entries[entry][LENGTH])
        if first != start:
            return replace(consumed(entries[entry], start, 0), matched=attempt.matched)
        if labels[entry] == attempt.matched:
            return attempt
        shown = " ".join(labels[entry]) or "the empty match"
        rows = f", of rows {first} to {first + length - 1}" if length else ""
        text = f"match {entries[entry][NUMBER]} is preferred: {shown}{rows}"
        return Attempt(attempt.matched, start, None, a.CONSUMED, text)

    return _farthest(wanted, walk, told), len(entries)


class _Rows(Walk):
    def onward(self, way: Way) -> list[str]:
        """The labels that may follow, that which is nearest to the end of the pattern first."""
        live = [0]
        for _, label in way:
            arcs = [arc for state in live for arc in self._room.arcs[state]]
            live = list(dict.fromkeys(t for t, f in arcs if self._leads(t, f, label)))
        states = [t for s in live for t, _ in self._room.arcs[s] if t != ACCEPT]
        states.sort(key=lambda state: int(self._room.remaining[state]))
        return list(dict.fromkeys(map(self._name, states)))

    def follow(self, pairs: Pairs, number: int) -> Attempt:
        """The first rule of the pattern that the rows break; no reason if they break none."""
        self._start, self.number, self._path = pairs[0][0], number, []
        live, before = [0], pairs[0][0] - 1
        for index, (row, label) in enumerate(pairs):
            matched = tuple(name for _, name in pairs[:index])
            if row != before + 1:
                told = f"row {before + 1} comes before it, and only the next row may"
                return _broken(matched, before + 1, label, a.NOT_ADJACENT, told)
            onward = [t for s in live for t, f in self._room.arcs[s] if self._leads(t, f, label)]
            live_now, live = live, list(dict.fromkeys(onward))
            if not live:
                return self._unasked(live_now, matched, row, label)
            if row >= self._limit(self._start):
                return _broken(matched, row, label, *self.outside(row))
            if not self._fits(live[0], row) or not self._took(live[0], row):
                reason, told = self.failed(live[0], row)
                return _broken(matched, row, label, reason, told)
            self._path.append(live[0])
            before = row
        return self._whole(live, tuple(name for _, name in pairs), before)

    def _leads(self, target: int, flags: int, label: str) -> bool:
        if target == ACCEPT or (flags & AT_START and self._start != self._begin):
            return False
        return self._name(target) == label

    def _name(self, state: int) -> str:
        return self._program.labels[self._program.label[state]]

    def _took(self, state: int, row: int) -> bool:
        self._path.append(state)
        held = self._holds(state, row)
        self._path.pop()
        return held

    def _unasked(self, live: list[int], matched: tuple[str, ...], row: int, label: str) -> Attempt:
        """The pattern takes no such row here."""
        arcs = [arc for state in live for arc in self._room.arcs[state]]
        if not matched and any(f & AT_START for t, f in arcs if t and self._name(t) == label):
            return Attempt(matched, row, "^", a.NO_START, "^: not the first row")
        reason, wanted, told = self._lacking(arcs)
        if wanted is None:
            return _broken(matched, row, label, a.REPETITION, "the pattern takes no further row")
        return _broken(matched, row, label, reason, f"the pattern asks for {wanted} here{told}")

    def _lacking(self, arcs: list[tuple[int, int]]) -> tuple[str, str | None, str]:
        """The label that would bring the match nearest to its end."""
        states = [t for t, f in arcs if t != ACCEPT and not (f & AT_START and self._path)]
        if not states:
            return a.MISSING, None, ""
        state = min(states, key=lambda state: int(self._room.remaining[state]))
        if state in self._room.begun:
            done, least = self._room.begun[state]
            return a.REPETITION, self._name(state), f", {done} of at least {least}"
        return a.MISSING, self._name(state), ""

    def _whole(self, live: list[int], matched: tuple[str, ...], last: int) -> Attempt:
        ends = [f for s in live for t, f in self._room.arcs[s] if t == ACCEPT]
        if any(not flags & AT_END or last + 1 == self._end for flags in ends):
            return Attempt(matched)
        if ends:
            told = f"$: {self._end - last - 1:,} more rows follow"
            return Attempt(matched, last + 1, "$", a.CONDITION, told)
        reason, wanted, told = self._lacking([arc for s in live for arc in self._room.arcs[s]])
        assert wanted is not None
        return _broken(matched, last, wanted, reason, f"the pattern asks for it next{told}")


def _broken(matched: tuple[str, ...], row: int, name: str, reason: str, told: str) -> Attempt:
    return Attempt(matched, row, name, reason, f"{name}: {told}")


# -- event patterns -------------------------------------------------------------------------------


def _of_events(
    room: EventAttempts, events: Events, wanted: Wanted
) -> tuple[Attempt, int, dict[str, pa.Array]]:
    batch = EventBatch.of(room.plan, room.subsets, events)
    guards = Guards(room.plan, room.subsets, batch.columns)
    (part,) = batch.partitions()
    longest, collector = Longest(), Collector(room.plan.query.skip)
    Runs(room.subsets, guards, longest, longest, keep_first=True).run(part)
    matches = sum(longest.matches.values())
    reported: list[Path] | None = None
    if room.plan.query.skip.mode is not SkipMode.NONE:
        Runs(room.subsets, guards, GraphAlgebra(), collector, keep_first=True).run(part)
        reported = [
            tuple((r, lab) for lab, r in found) for found, _ in listed(room.plan.query, collector)
        ]
        matches = len(reported)
    walk, names = _Events(room, part, batch, guards), room.plan.marks.labels

    def told(way: Way) -> Attempt:
        path = tuple((row, names.index(label)) for row, label in way)
        attempt = walk.follow(path)
        if attempt.reason is None and reported is not None and path not in reported:
            return _instead(room, collector, part, path, reported, attempt)
        return attempt

    return _farthest(wanted, walk, told), matches, dict(batch.columns)


def _instead(
    room: EventAttempts,
    collector: Collector,
    part: Partition,
    path: Path,
    reported: list[Path],
    attempt: Attempt,
) -> Attempt:
    """The match that an after-match strategy leaves in place of these events."""
    start = path[0][0]
    told = consumed_starts(room.plan, collector, part).get(start)
    if told is None:
        number = next(n for n, other in enumerate(reported, 1) if other[0][0] == start)
        other = reported[number - 1]
        told = f"match {number}, of rows {start} to {other[-1][0]}, is complete before it"
    return Attempt(attempt.matched, start, None, a.CONSUMED, told)


class _Events(Wait):
    def onward(self, way: Way) -> list[str]:
        """The labels that may follow, that which is nearest to the end of the pattern first."""
        path = tuple((row, self._names.index(label)) for row, label in way)
        places: frozenset[Place] = self._room.automaton.first()
        for index, (row, label) in enumerate(path):
            before = path[:index]
            for between in range(before[-1][0] + 1 if before else row, row):
                places = self._moved(places, self._bits(between, before)).skip or frozenset()
            takes = {n: to for n, to, _ in self._moved(places, self._bits(row, before)).takes}
            places = takes.get(label) or frozenset()
        nearest = sorted({(need, label) for need, label, *_ in self._room.waits.takes(places)})
        return list(dict.fromkeys(self._names[label] for _, label in nearest))

    def follow(self, path: Path) -> Attempt:
        """The first rule of the pattern that the events break; no reason if they break none."""
        places: frozenset[Place] = self._room.automaton.first()
        complete = False
        for index, (row, label) in enumerate(path):
            before = path[:index]
            needs = [need for need, name, *_ in self._room.waits.takes(places) if name == label]
            if not needs:
                return self._unasked(places, before, row, label)
            wanted = (min(needs), label)
            for between in range(before[-1][0] + 1 if before else row, row):
                broken, places = self._skipped(places, before, between, wanted)
                if broken is not None:
                    return broken
            if self._beyond_window(before, row):
                told = self.beyond(before[0][0], row)
                return self._broken(before, row, label, a.WITHIN, told)
            bits = self._bits(row, before)
            found = {name: (to, done) for name, to, done in self._moved(places, bits).takes}
            if label not in found:
                return self._refused(places, before, row, wanted, bits, itself=True)
            target, complete = found[label]
            places = target or frozenset()
        return Attempt(self.labels(path)) if complete else self._whole(places, path)

    def _beyond_window(self, before: Path, row: int) -> bool:
        low = self._part.low
        return bool(before) and low is not None and low[row] > before[0][0]

    def _skipped(
        self, places: frozenset[Place], before: Path, row: int, wanted: tuple[int, int]
    ) -> tuple[Attempt | None, frozenset[Place]]:
        """A row between two of the events."""
        if self._beyond_window(before, row):
            told = self.beyond(before[0][0], row)
            return self._broken(before, row, wanted[1], a.WITHIN, told), places
        bits = self._bits(row, before)
        left = self._moved(places, bits).skip or frozenset()
        if any(label == wanted[1] for _, label, *_ in self._room.waits.takes(left)):
            return None, left
        return self._refused(places, before, row, wanted, bits), left

    def _refused(
        self,
        places: frozenset[Place],
        before: Path,
        row: int,
        wanted: tuple[int, int],
        bits: int,
        itself: bool = False,
    ) -> Attempt:
        """A row that ends the wait for what was expected, or is not what it was expected to be."""
        label, fits = wanted[1], bits >> wanted[1] & 1
        waits = self._room.waits
        waiting = {p for p in places if any(name == label for _, name, *_ in waits.takes({p}))}
        if halted := self._halted(bits):
            reason, told = a.FORBIDDEN, halted
        elif not before and fits:
            reason, told = a.FORBIDDEN, "the event that ends its loop came"
        elif before and (fits or not itself):
            reason, _, told = self._ended(before, row, waiting, wanted, bits, self._names[label])
        else:
            reason, told = self._failure(label, row, before)
        return self._broken(before, row, label, reason, told)

    def _unasked(self, places: frozenset[Place], before: Path, row: int, label: int) -> Attempt:
        reason, name, told = self._lacking(places)
        if name is None:
            told = "the pattern takes no further event"
            return self._broken(before, row, label, a.REPETITION, told)
        told = f"the pattern asks for {name} here{told}"
        return self._broken(before, row, label, reason, told)

    def _lacking(self, places: frozenset[Place]) -> tuple[str, str | None, str]:
        takes = list(self._room.waits.takes(places))
        if not takes:
            return a.MISSING, None, ""
        need, label, place, _ = min(takes, key=lambda take: take[:2])
        rounds = [p.round for n, name, p, _ in takes if (n, name) == (need, label) and p.round]
        if place.round and rounds:
            return a.REPETITION, self._names[label], f", {rounds[0][0]} of at least {rounds[0][1]}"
        return a.MISSING, self._names[label], ""

    def _whole(self, places: frozenset[Place], path: Path) -> Attempt:
        """After the last event: what is left of the pattern is the absence of events, or more."""
        row, matched = path[-1][0] + 1, self.labels(path)
        wanted = self._room.waits.wanted(places) if places else (1, -1)
        if wanted[0]:
            reason, name, told = self._lacking(places)
            assert name is not None
            told = f"{name}: the pattern asks for it next{told}"
            return Attempt(matched, path[-1][0], name, reason, told)
        while row < self._part.end and not self._beyond_window(path, row):
            bits = self._bits(row, path)
            move = self._moved(places, bits)
            if move.skip_accept:
                return Attempt(matched)
            waiting = {p for p in places if self._room.waits.carries(p, wanted)}
            left = {p for p in move.skip or () if self._room.waits.carries(p, wanted)}
            if self._halted(bits) or not left:
                told = self._halted(bits)
                name = self._absent(waiting, bits)
                told = told or f"{name[1:]} came"
                return Attempt(matched, row, name, a.FORBIDDEN, f"{name}: {told}")
            places, row = frozenset(left), row + 1
        if any(p.kind is Kind.PENDING for q in places for p in self._room.waits.behind({q})):
            return Attempt(matched)
        name = self._absent(set(places), -1)
        ended = min(row, self._part.end - 1)
        return Attempt(matched, ended, name, a.END, f"{name}: no further row can prove it")

    def _broken(self, before: Path, row: int, label: int, reason: str, told: str) -> Attempt:
        return _broken(self.labels(before), row, self._names[label], reason, told)
