"""Why the starts of an event pattern failed.

Every row is a start. Its attempt is the partial match with most events that begins there, of
several the one with the earliest events; it failed where no match begins there. What it waited for
then is followed on its own, through the places of the automaton, to the row that ended the wait.

Partial matches are followed as classes by `sequences/runs.py`, with a value that holds how many
they are and the longest of them: O(rows · classes), where starts are distinguished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

import pyarrow as pa

from ensue import errors
from ensue.automaton.events import EventAutomaton
from ensue.automaton.places import Action, Edge, Kind, Place, atoms, holds
from ensue.automaton.plan import Plan
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.subsets import Move, Subsets
from ensue.automaton.walks import reached
from ensue.guards.reader import Lists, Match, Reader
from ensue.operator.batch import check_types, order_kind
from ensue.operator.protocol import Events
from ensue.query import condition as c
from ensue.query.query import Query, SkipMode, Window
from ensue.scalar.values import Leaf
from ensue.sequences.batch import EventBatch
from ensue.sequences.guards import Guards
from ensue.sequences.listing import Collector, listed, resume
from ensue.sequences.runs import GraphAlgebra, Partition, Runs
from ensue.why import account as a
from ensue.why import words
from ensue.why.account import Account, Attempt

Path = tuple[tuple[int, int], ...]  # (row, label) of its events
Value = tuple[int, Path]  # how many partial matches, and the longest of them


def fewest(query: Query) -> int:
    """How many events a match of an event pattern has at least."""
    automaton = compile_sequence(query)
    return Waits(automaton).begins(automaton.first())[0]


class EventAttempts:
    """The attempts in whole partitions; the plan is one with its `parts`."""

    def __init__(self, plan: Plan, schema: pa.Schema, per: str) -> None:
        self.plan, self._per = plan, per
        try:
            check_types(plan, schema)
            self.automaton = compile_sequence(plan.query)
        except errors.EnsueError as problem:
            raise plan.readable(problem) from None
        self.subsets = Subsets(self.automaton)
        self.waits = Waits(self.automaton)

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """The answer for no rows: its columns and types."""
        empty = {name: schema.empty_table().column(name).combine_chunks() for name in schema.names}
        return Account(self._per).table(self.plan.query, empty)

    def tables(self, events: Events) -> Iterator[pa.Table]:
        batch = EventBatch.of(self.plan, self.subsets, events)
        try:
            guards = Guards(self.plan, self.subsets, batch.columns)
            found = Account(self._per)
            for part in batch.partitions():
                self._explain(part, batch, guards, found)
            yield found.table(self.plan.query, batch.columns)
        except errors.EnsueError as problem:
            raise self.plan.readable(problem) from None

    def _explain(self, part: Partition, batch: EventBatch, guards: Guards, found: Account) -> None:
        longest = Longest()
        Runs(self.subsets, guards, longest, longest, keep_first=True).run(part)
        matches, complete, consumed = longest.matches, longest.complete, {}
        query = self.plan.query
        if query.skip.mode is not SkipMode.NONE:
            collector = Collector(query.skip)
            Runs(self.subsets, guards, GraphAlgebra(), collector, keep_first=True).run(part)
            matches, complete, consumed = Counter(), {}, consumed_starts(self.plan, collector, part)
            for pairs, _ in listed(query, collector):
                first = pairs[0][1]
                matches[first] += 1
                path = tuple((row, label) for label, row in pairs)
                complete[first] = longer(complete.get(first, ()), path)
        walk = Wait(self, part, batch, guards)
        if self._per != a.PARTITION:
            for start in range(part.begin, part.end):
                if start in consumed:
                    attempt = Attempt((), start, None, a.CONSUMED, consumed[start])
                elif matches[start]:
                    attempt = Attempt(walk.labels(complete[start]))
                else:
                    attempt = walk.attempt(start, longest.paths.get(start, ()))
                found.add(attempt, start, start - part.begin, matches[start])
            return
        failed = [s for s in range(part.begin, part.end) if not matches[s] and s not in consumed]
        count = sum(matches.values())
        if not failed:
            found.add(a.MATCHED, part.begin, 0, count)
            return
        best = max(failed, key=lambda start: (len(longest.paths.get(start, ())), start))
        path = longest.paths.get(best, ())
        attempt = walk.attempt(best, path) if path else walk.no_start(failed)
        found.add(attempt, part.begin, 0, count)


def consumed_starts(plan: Plan, collector: Collector, part: Partition) -> dict[int, str]:
    """Starts that an after-match strategy rules out, and by which match."""
    found: dict[int, str] = {}
    floor = -1
    for number, (pairs, _) in enumerate(listed(plan.query, collector), 1):
        first, last = pairs[0][1] - part.begin, pairs[-1][1] - part.begin
        told = f"used up by match {number}, of rows {first} to {last}"
        after = resume(plan.query, pairs)
        for row in range(max(pairs[0][1] + 1, floor), after):
            found[row] = told
        floor = max(floor, after)
    return found


@dataclass
class Longest:
    """Algebra and sink: counts the matches of a start, and keeps its longest partial match."""

    paths: dict[int, Path] = field(default_factory=dict)
    matches: Counter[int] = field(default_factory=Counter)
    complete: dict[int, Path] = field(default_factory=dict)

    def begin(self, label: int, row: int) -> Value:
        return self._noted(1, ((row, label),))

    def take(self, value: Value, label: int, row: int) -> Value:
        return self._noted(value[0], (*value[1], (row, label)))

    def join(self, left: Value, right: Value) -> Value:
        return left[0] + right[0], longer(left[1], right[1])

    def _noted(self, count: int, path: Path) -> Value:
        first = path[0][0]
        self.paths[first] = longer(self.paths.get(first, ()), path)
        return count, path

    def match(self, first: int, row: int, value: Value) -> bool:
        self.matches[first] += value[0]
        self.complete[first] = longer(self.complete.get(first, ()), value[1])
        return True

    def absent(self, first: int, row: int, value: Value) -> None:
        self.match(first, row, value)

    def timeout(self, first: int, row: int, value: Value) -> None:
        raise AssertionError("time-outs were not asked for")


def longer(left: Path, right: Path) -> Path:
    if len(left) != len(right):
        return left if len(left) > len(right) else right
    return min(left, right)


def _proves(place: Place) -> bool:
    """Whether events that do not come, or the next one that is not this, complete a match."""
    skips = (edge.target.kind for edge in place.edges if edge.action is Action.SKIP)
    return place.kind is Kind.PENDING or Kind.ACCEPT in skips


class Waits:
    """How many events each place still needs, and what it waits for."""

    def __init__(self, automaton: EventAutomaton) -> None:
        # The labels of the fewest events to the end; of several ways, the first by label.
        self._ways: dict[Place, tuple[int, ...]] = {
            place: () for place in automaton.places if place.kind in (Kind.ACCEPT, Kind.PENDING)
        }
        changed = True
        while changed:
            changed = False
            for place in automaton.places:
                for edge in place.edges:
                    if edge.target.kind is Kind.STOP or edge.target not in self._ways:
                        continue
                    way = self._ways[edge.target]
                    way = (edge.label, *way) if edge.action is Action.TAKE else way
                    known = self._ways.get(place)
                    if known is None or (len(way), way) < (len(known), known):
                        self._ways[place] = way
                        changed = True
        self._needs = {place: len(way) for place, way in self._ways.items()}
        # What only an absence is missing at. A partial match that waits where the rest may be left
        # out was asked for that with its last event, and refused (`A !B C?`).
        self._pending = {
            place for place in automaton.places if any(map(_proves, self.behind({place})))
        }

    def behind(self, places: frozenset[Place] | set[Place]) -> list[Place]:
        return list(
            reached(places, lambda p: [e.target for e in p.edges if e.action is Action.GO_ON])
        )

    def takes(
        self, places: frozenset[Place] | set[Place]
    ) -> Iterator[tuple[int, int, Place, Edge]]:
        """Events needed and label, with the place and the edge that takes it."""
        for place in self.behind(places):
            for edge in place.edges:
                if edge.action is Action.TAKE and edge.target in self._needs:
                    yield self._needs[edge.target] + 1, edge.label, place, edge

    def wanted(self, places: frozenset[Place] | set[Place]) -> tuple[int, int]:
        """What brings the match nearest to its end: events needed and label; (0, -1): none."""
        if not self._pending.isdisjoint(places):
            return 0, -1
        return self.begins(places)

    def begins(self, places: frozenset[Place] | set[Place]) -> tuple[int, int]:
        """The same of a start: no match is empty, even where the pattern could be."""
        return min((need, label) for need, label, _, _ in self.takes(places))

    def completion(
        self, places: frozenset[Place] | set[Place], wanted: tuple[int, int]
    ) -> tuple[int, ...]:
        """The labels of the events that are needed, beginning with the one wanted."""
        return min(
            (
                (label, *self._ways[edge.target])
                for need, label, _, edge in self.takes(places)
                if (need, label) == wanted
            ),
            default=(),
        )

    def carries(self, place: Place, wanted: tuple[int, int]) -> bool:
        if wanted[0] == 0:
            return place in self._pending
        return any((need, label) == wanted for need, label, _, _ in self.takes({place}))


class _Moved(Protocol):
    """A `Move` of places."""

    takes: tuple[tuple[int, frozenset[Place] | None, bool], ...]
    skip: frozenset[Place] | None
    skip_accept: bool


class Wait(Match):
    """What ended the wait of an attempt, in one partition."""

    def __init__(
        self, room: EventAttempts, part: Partition, batch: EventBatch, guards: Guards
    ) -> None:
        reader: Reader = guards.reader
        lists: Lists = guards.lists
        super().__init__(reader, lists)
        self._room, self._part, self._batch = room, part, batch
        self._plan, self._names = room.plan, room.plan.marks.labels
        self._pairs: Path = ()

    def labels(self, path: Path) -> tuple[str, ...]:
        return tuple(self._names[label] for _, label in path)

    # -- what a condition reads ------------------------------------------------------------------

    def rows_read(self, node: c.Navigate | c.Aggregate) -> Sequence[int]:
        members = self._plan.query.members(node.variable)
        every = node.variable is None
        return [row for row, label in self._pairs if every or self._names[label] in members]

    def label_at(self, row: int) -> str | None:
        return next((self._names[label] for r, label in self._pairs if r == row), None)

    def inside(self, row: int) -> bool:
        return self._part.inside[0] <= row < self._part.inside[1]

    def _fits(self, label: int, row: int, path: Path) -> bool:
        self._pairs = (*path, (row, label))
        plain = self._part.bits[row] >> label & 1
        return bool(plain) and self.holds(self._reader.tests[label], row)

    def _bits(self, row: int, path: Path) -> int:
        bits = sum(self._fits(label, row, path) << label for label in range(len(self._names)))
        for offset, bound in enumerate(self._room.automaton.bounds):
            order = self._part.order
            assert order is not None
            near = not path or order[row] - order[path[-1][0]] <= bound.within
            bits |= near << (len(self._names) + offset)
        return bits

    def _moved(self, places: frozenset[Place], bits: int) -> _Moved:
        """What an event does whose atoms are `bits`."""
        if bits & self._room.automaton.without:
            return cast(_Moved, Move((), None))
        return cast(_Moved, self._room.automaton.move(places, bits))

    # -- the reason ------------------------------------------------------------------------------

    def attempt(self, start: int, path: Path) -> Attempt:
        """Where an attempt stopped, and why."""
        if not path:
            _, label = self._room.waits.begins(self._room.automaton.first())
            name = self._names[label]
            told = self._halted(self._bits(start, path))
            told = told or self._failure(label, start, path)[1]
            return Attempt((), start, name, a.NO_START, f"{name}: {told}")
        places = self._reached(path)
        wanted = self._room.waits.wanted(places)
        row, reason, name, told = self._stopped(path, places, wanted)
        if reason in (a.END, a.WITHIN) and wanted[0]:
            told += self._nearly(wanted[1], range(path[-1][0] + 1, row), path)
        stopped = min(row, self._part.end - 1)
        missing = tuple(self._names[label] for label in self._room.waits.completion(places, wanted))
        return Attempt(self.labels(path), stopped, name, reason, f"{name}: {told}", missing)

    def no_start(self, starts: list[int]) -> Attempt:
        """No row can start: how often each part of the condition held."""
        _, label = self._room.waits.begins(self._room.automaton.first())
        counts = []
        for written, part in self._plan.parts[label]:
            held = 0
            for row in starts:
                self._pairs = ((row, label),)
                try:
                    held += self._reader.compiled(part)(self.leaf(row)) is True
                except errors.DataError:
                    continue
            counts.append((written, held))
        told = f"{self._names[label]}: {words.counted(counts, len(starts))}"
        return Attempt((), starts[-1], self._names[label], a.NO_START, told)

    def _reached(self, path: Path) -> frozenset[Place]:
        """The places at which a partial match waits after its events."""
        places = self._room.automaton.first()
        for index, (row, label) in enumerate(path):
            before = path[:index]
            for skipped in range(before[-1][0] + 1 if before else row, row):
                left = self._room.automaton.move(places, self._bits(skipped, before)).skip
                assert left is not None
                places = cast(frozenset[Place], left)
            move = self._room.automaton.move(places, self._bits(row, before))
            taken = next(target for name, target, _ in move.takes if name == label)
            assert taken is not None
            places = cast(frozenset[Place], taken)
        return places

    def _stopped(
        self, path: Path, places: frozenset[Place], wanted: tuple[int, int]
    ) -> tuple[int, str, str, str]:
        """The row that ended the wait, the reason, the variable and the text."""
        waits, automaton, low = self._room.waits, self._room.automaton, self._part.low
        waiting = {place for place in places if waits.carries(place, wanted)}
        name = self._names[wanted[1]] if wanted[0] else self._absent(waiting, -1)
        row = path[-1][0] + 1
        while row < self._part.end:
            if low is not None and low[row] > path[0][0]:
                return row, a.WITHIN, name, self.beyond(path[0][0], row)
            bits = self._bits(row, path)
            if self._halted(bits):
                return (row, *self._ended(path, row, waiting, wanted, bits, name))
            left = automaton.move(frozenset(waiting), bits).skip or ()
            onward = {p for p in cast(frozenset[Place], left) if waits.carries(p, wanted)}
            if not onward:
                if not wanted[0]:
                    name = self._absent(waiting, bits)
                return (row, *self._ended(path, row, waiting, wanted, bits, name))
            waiting, row = onward, row + 1
        return row, a.END, name, "the partition ended" if wanted[0] else "its time is not over yet"

    def dropped(
        self, path: Path, row: int, places: frozenset[Place], bits: int
    ) -> tuple[str, str, str]:
        """Why a row, with these atoms, ends a partial match: reason, variable and text."""
        wanted = self._room.waits.wanted(places)
        waiting = {place for place in places if self._room.waits.carries(place, wanted)}
        name = self._names[wanted[1]] if wanted[0] else self._absent(waiting, bits)
        return self._ended(path, row, waiting, wanted, bits, name)

    def asked(self, label: int, row: int, path: Path) -> tuple[bool | None, str]:
        """What a label's condition gives, as the next event of a partial match."""
        self._pairs = (*path, (row, label))
        return words.asked(self._plan.parts[label], self._reader, self.leaf(row))

    def _halted(self, bits: int) -> str:
        """The event of `without` that ends every partial match."""
        names = [self._names[i] for i in range(len(self._names)) if bits >> i & 1]
        return next((f"{name} came" for name in names if name in self._plan.query.without), "")

    def _absent(self, places: set[Place], bits: int) -> str:
        """The negated step that ends the pattern; `bits` say which one of several came."""
        stops = [
            edge.target.forbids
            for place in self._room.waits.behind(places)
            for edge in place.edges
            if edge.target.kind is Kind.STOP and holds(edge.test, bits)
        ]
        known = [name for name in self._names if name in stops]
        return f"!{known[0]}" if known else "the end"

    def _ended(
        self,
        path: Path,
        row: int,
        places: set[Place],
        wanted: tuple[int, int],
        bits: int,
        name: str,
    ) -> tuple[str, str, str]:
        takes = [
            (place, edge)
            for need, label, place, edge in self._room.waits.takes(places)
            if (need, label) == wanted
        ]
        if late := self._late(path, row, takes, bits):
            return a.WITHIN, name, late
        if halted := self._halted(bits):
            return a.FORBIDDEN, name, halted
        behind = self._room.waits.behind(places)
        came = self._absent(places, bits)
        if came.startswith("!"):
            return a.FORBIDDEN, name, f"{came[1:]} came"
        skips = any(
            edge.action is Action.SKIP and self._room.waits.carries(edge.target, wanted)
            for place in behind
            for edge in place.edges
        )
        if skips or bits >> wanted[1] & 1:
            fitting = [n for i, n in enumerate(self._names) if bits >> i & 1]
            return (
                a.FORBIDDEN,
                name,
                f"{', '.join(fitting) or 'an event'} came, which ends the wait",
            )
        reason, told = self._failure(wanted[1], row, path)
        rounds = [place.round for place, _ in takes if place.round]
        if rounds:
            return a.REPETITION, name, f"{rounds[0][0]} of at least {rounds[0][1]}; {told}"
        later = self._later(wanted[1], row, path)
        if later is not None:
            away = f"the next row that fits comes {later - row:,} later"
            return a.NOT_ADJACENT, name, f"{told}; {away}"
        return reason, name, told

    def _late(self, path: Path, row: int, takes: list[tuple[Place, Edge]], bits: int) -> str:
        """How far the row lies behind the joint's own `within`, if it does."""
        for _, edge in takes:
            late = [atom for atom in atoms(edge.test) if atom >= len(self._names)]
            if any(not bits >> atom & 1 for atom in late):
                bound = self._room.automaton.bounds[late[0] - len(self._names)].within
                return self.late(path[-1][0], row, bound)
        return ""

    def _failure(self, label: int, row: int, path: Path) -> tuple[str, str]:
        self._pairs = (*path, (row, label))
        return words.failure(self._plan.parts[label], self._reader, self.leaf(row))

    def _nearly(self, label: int, rows: range, path: Path) -> str:
        """Which of these rows came nearest to fitting."""

        def leaf_at(row: int) -> Leaf:
            self._pairs = (*path, (row, label))
            return self.leaf(row)

        return words.nearly(self._plan.parts[label], self._reader, rows, leaf_at)

    def _later(self, label: int, row: int, path: Path) -> int | None:
        low = self._part.low
        for later in range(row + 1, self._part.end):
            if low is not None and low[later] > path[0][0]:
                return None
            if self._fits(label, later, path):
                return later
        return None

    def late(self, last: int, row: int, bound: int) -> str:
        order, query = self._part.order, self._plan.query
        assert order is not None
        column = self._batch.columns[query.order_by[0].column]
        window = Window(order_kind(query, column), bound)
        return words.after("event before", window, order[row] - order[last])

    def beyond(self, first: int, row: int) -> str:
        window = self._plan.query.within
        assert window is not None
        if not self._plan.query.order_by:
            return words.beyond(window, None, None, row - first + 1)
        values = self._lists[self._plan.query.order_by[0].column]
        if values[first] is None or values[row] is None:
            return "the row has no order value, and is in no window"
        return words.beyond(window, values[first], values[row], row - first + 1)
