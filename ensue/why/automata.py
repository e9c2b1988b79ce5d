"""Why the starts of an automaton with registers failed.

An attempt is the set of *ways* that begin at one row: a way is the arcs it took, and stands in a
state with a register. It gets as far as the longest run of rows that any way takes to a state from
which a final state can be reached. There it waits for the arc that leaves the fewest events to be
read; of equals, for that of the first way, where ways are compared row by row by the numbers of
their arcs. Ways that come to the same state and register are followed as one, the first of them, so
an attempt costs what the operator has partial matches; in plain Python, so a window should bound
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.registers import FIELD, INFINITY, Arc, RegisterAutomaton
from ensue.operator.arrange import arrange, arrays_of
from ensue.query import condition as c
from ensue.query.duration import parse_duration, spelled
from ensue.query.nodes import Empty
from ensue.query.query import OrderKey, Query, Window, WindowKind
from ensue.revision.evaluator import RevisionEvaluator
from ensue.revision.tier import ArcReader
from ensue.revision.timing import Timing
from ensue.stopping import look
from ensue.why import account as a
from ensue.why import words
from ensue.why.account import Account, Attempt
from ensue.why.trace import ASK, DROP, MATCH, TAKE, Trace

Register = dict[str, Any]
# Why no further row was taken.
_END, _WITHIN, _GAP, _ROW = "end", "within", "gap", "row"


@dataclass(frozen=True)
class _Way:
    """Where a way stands, and how it came there."""

    state: str
    register: Register
    arc: Arc | None = None  # the last that took a row
    before: _Way | None = None  # the way before that row

    @property
    def name(self) -> tuple[Any, ...]:
        return self.state, *self.register.values()

    @property
    def labels(self) -> tuple[str, ...]:
        """The arcs that took its rows."""
        found, way = [], self
        while way.arc is not None and way.before is not None:
            found.append(way.arc.text)
            way = way.before
        return tuple(reversed(found))


@dataclass(frozen=True)
class _Walk:
    """What became of a start row."""

    ways: list[_Way]  # at the last row that any of them took
    length: int
    stop: str
    matches: int
    longest: _Way | None  # that ends a match; None: none does


class AutomatonAttempts:
    """The attempts in whole partitions."""

    def __init__(
        self,
        keys: RevisionEvaluator,
        machine: RegisterAutomaton,
        timing: Timing,
        partition_by: tuple[str, ...],
        per: str,
    ) -> None:
        self.query = Query(
            pattern=Empty(), partition_by=partition_by, order_by=(OrderKey(timing.order_by),)
        )
        a.check(self.query, per)
        machine.check()
        self.machine, self.timing, self.per = machine, timing, per
        self.keys = keys  # of the same automaton: it knows which rows play a part
        self.reader = ArcReader(machine, self.keys.kinds)
        ways = _ways_to_a_final(machine)
        self.events = {state: way[0] for state, way in ways.items()}
        self.lacks = {
            state: tuple(arc.text for arc in map(machine.arcs.__getitem__, way[2]) if arc.takes)
            for state, way in ways.items()
        }
        self.first = {field.name: field.initial for field in machine.fields}
        self.leaving: dict[str, list[Arc]] = {name: [] for name in machine.states}
        for arc in machine.arcs:
            if arc.target in (machine.finals if arc.closing else self.events):
                self.leaving[arc.source].append(arc)
        self.begins = [_Way(name, self.first) for name in machine.begins]
        self.window = _window(timing, self.keys.clock.temporal)

    def nothing(self) -> pa.Table:
        """The answer for no rows: its columns and types."""
        return Account(self.per).table(self.query, arrays_of(self.keys.schema.empty_table()))

    def table(self, rows: pa.Table) -> pa.Table:
        """The answer about rows, which are whole partitions in any order."""
        account, arranged = Account(self.per), rows
        for begin, part in self.partitions(rows):
            arranged = part.table
            if self.per == a.PARTITION:
                self._best(account, part, begin)
            else:
                for start in range(part.rows):
                    walk = part.walk(start)
                    account.add(part.attempt(start, walk), begin + start, start, walk.matches)
        return account.table(self.query, arrays_of(arranged))

    def after(self, arc: Arc, row: dict[str, Any] | None, register: Register) -> Register | None:
        """The register behind an arc; None where it is not taken."""
        try:
            return self.reader.after(arc, row, register)
        except errors.EnsueError:
            raise
        except Exception as problem:  # whatever a user's function raises
            raise errors.DataError(
                f"{arc.text}: {type(problem).__name__}: {problem}",
                remedy="let the function return None where it does not apply",
            ) from problem

    def partitions(self, rows: pa.Table) -> Iterator[tuple[int, _Partition]]:
        """Partitions with their events in order, and where they begin in the rows together."""
        missing = rows.column(self.timing.order_by).null_count
        if missing:
            raise errors.DataError(
                f"{missing} rows have no event time ({self.timing.order_by})",
                remedy="leave them out: filter the data first",
            )
        times = self.keys.times(rows)
        ties = (times.sequence,) if self.timing.sequence else (times.name, times.tie)
        by_time = rows.take(pa.array(np.lexsort((*ties, times.le))))
        table, starts = arrange(by_time.combine_chunks(), self.query.partition_by, ())
        for begin, end in pairwise(starts.tolist()):
            yield begin, _Partition(self, table, begin, end)

    def _best(self, account: Account, part: _Partition, begin: int) -> None:
        """One row: the failed attempt with most rows, of several the latest."""
        walks = [part.walk(start) for start in range(part.rows)]
        failed = [start for start, walk in enumerate(walks) if walk.longest is None]
        told = a.MATCHED
        if failed:
            best = max(failed, key=lambda start: (walks[start].length, start))
            told = part.attempt(best, walks[best])
            if not walks[best].length:
                told = part.nowhere(told, failed)
        account.add(told, begin, 0, sum(walk.matches for walk in walks))


class _Partition:
    """The events of one partition."""

    def __init__(self, room: AutomatonAttempts, table: pa.Table, begin: int, end: int) -> None:
        self.room, self.table, self.begin = room, table, begin
        self.rows = end - begin
        part = table.slice(begin, self.rows)
        self._rows: list[dict[str, Any]] = part.to_pylist()
        times = room.keys.times(part)
        self._le, self._re = times.le.tolist(), times.re.tolist()
        self._sequence = times.sequence.tolist() if room.timing.sequence else None

    # -- walking ---------------------------------------------------------------------------------

    def walk(self, start: int, steps: Trace | None = None) -> _Walk:
        """All ways from a start row."""
        room = self.room
        ways = self._silent(room.begins, {})
        least, row, stop, matches = INFINITY, start, _END, 0
        longest: _Way | None = None
        while row < self.rows:
            look()
            if row > start and self._le[row] >= least:
                stop = _WITHIN
                break
            if row > start and self._sequence is not None and self._gap(row):
                stop = _GAP
                break
            after = self._taken(ways, row, start, steps)
            if not after:
                stop = _ROW
                break
            least = min(least, self._re[row])
            ways, row = after, row + 1
            ended = [way for way in ways if way.state in room.machine.finals]
            closed = self._closed(ways) if row == self.rows or self._le[row] >= least else []
            matches += len(ended) + len({name for name, _ in closed})
            longest = next((way for way in (*ended, *(w for _, w in closed))), longest)
            if steps is not None:
                for way in ended:
                    self._tell(steps, row - 1, MATCH, way, start)
        if steps is not None:
            self._dropped(steps, ways, row, start, stop)
        return _Walk(ways, row - start, stop, matches, longest)

    def _taken(self, ways: list[_Way], row: int, start: int, steps: Trace | None) -> list[_Way]:
        """The ways after a row, each state and register once."""
        found: dict[tuple[Any, ...], _Way] = {}
        after: list[_Way] = []
        for way in ways:
            for arc in self.room.leaving[way.state]:
                if arc.epsilon or arc.closing:
                    continue
                register = self.room.after(arc, self._rows[row], way.register)
                if steps is not None:
                    self._ask(steps, row, way, arc, register is not None, start)
                if register is None:
                    continue
                went = _Way(arc.target, register, arc, way)
                if steps is not None:
                    self._tell(steps, row, TAKE, went, start)
                after += self._silent([went], found)
        return after

    def _silent(self, ways: list[_Way], found: dict[tuple[Any, ...], _Way]) -> list[_Way]:
        """With the ways that ε-arcs lead to; those that were found before are left out."""
        after: list[_Way] = []
        stack = ways[::-1]
        while stack:
            way = stack.pop()
            if way.name in found:
                continue
            found[way.name] = way
            after.append(way)
            for arc in reversed(self.room.leaving[way.state]):
                if arc.epsilon:
                    register = self.room.after(arc, None, way.register)
                    if register is not None:
                        stack.append(_Way(arc.target, register, way.arc, way.before))
        return after

    def _closed(self, ways: list[_Way]) -> list[tuple[tuple[Any, ...], _Way]]:
        """What the end of the window completes."""
        found = []
        for way in ways:
            for arc in self.room.leaving[way.state]:
                if arc.closing:
                    register = self.room.after(arc, None, way.register)
                    if register is not None:
                        found.append(((arc.target, *register.values()), way))
        return found

    def _gap(self, row: int) -> bool:
        assert self._sequence is not None
        return bool(self._sequence[row] != self._sequence[row - 1] + 1)

    # -- telling ---------------------------------------------------------------------------------

    def attempt(self, start: int, walk: _Walk) -> Attempt:
        """What is said of a start row."""
        if walk.longest is not None:
            return Attempt(walk.longest.labels)
        row = start + walk.length
        stopped = self.begin + min(row, self.rows - 1)
        waits = self._waits(walk.ways)
        if waits is None:
            told = "no final state can be reached from a start state"
            return Attempt((), stopped, None, a.NO_START, told)
        way, arc = waits
        reason, text = self._reason(way, arc, start, row, walk.stop)
        if not walk.length:
            return Attempt((), stopped, arc.text, a.NO_START, f"{arc.text}: {text}")
        missing = () if arc.closing else self.room.lacks[arc.target]
        missing = (arc.text, *missing) if arc.takes else missing
        return Attempt(way.labels, stopped, arc.text, reason, f"{arc.text}: {text}", missing)

    def _waits(self, ways: list[_Way]) -> tuple[_Way, Arc] | None:
        """What an attempt waits for: the way, and the arc that it could not take."""
        best: tuple[int, _Way, Arc] | None = None
        for way in ways:
            for arc in self.room.leaving[way.state]:
                if arc.epsilon and self.room.after(arc, None, way.register) is not None:
                    continue
                need = 0 if arc.closing else self.room.events[arc.target] + (not arc.epsilon)
                if best is None or need < best[0]:
                    best = need, way, arc
        return None if best is None else best[1:]

    def _reason(self, way: _Way, arc: Arc, start: int, row: int, stop: str) -> tuple[str, str]:
        silent = arc.epsilon or arc.closing
        if arc.closing and stop in (_END, _WITHIN):
            return self._failure(arc, None, way)
        if arc.closing and stop == _ROW:
            return a.FORBIDDEN, f"row {row} came before the end of the window, and no arc takes it"
        if stop == _ROW:
            return self._failure(arc, None if silent else row, way)
        after = f"; {self._failure(arc, None, way)[1]}" if arc.epsilon else ""
        if stop == _END:
            return a.END, f"the partition ended{after}"
        if stop == _WITHIN:
            return a.WITHIN, self._beyond(start, row) + after
        assert self._sequence is not None
        told = f"{self._sequence[row]} follows {self._sequence[row - 1]} in the sequence"
        return a.NOT_ADJACENT, told + after

    def _failure(self, arc: Arc, row: int | None, way: _Way) -> tuple[str, str]:
        """Which part of a fence does not hold."""
        values = None if row is None else self._rows[row]
        if not isinstance(arc.when, c.CONDITIONS):
            return a.CONDITION, f"{arc.told} does not hold"
        parts = [(_plain(part), part) for part in c.conjuncts(arc.when)]
        leaf = self.room.reader.leaf(values, way.register)
        return words.failure(parts, self.room.reader, leaf)

    def _beyond(self, start: int, row: int) -> str:
        name, window = self.room.timing.order_by, self.room.window
        if window is None:
            least = self.room.keys.clock.time(min(self._re[start:row]))
            return f"an event before it counts only until {least}"
        return words.beyond(window, self._rows[start][name], self._rows[row][name], 0)

    def nowhere(self, attempt: Attempt, starts: list[int]) -> Attempt:
        """None of the rows can start: how often each part of the AND held."""
        waits = self._waits(self._silent(self.room.begins, {}))
        if waits is None:
            return attempt
        way, arc = waits
        counts = []
        for part in c.conjuncts(arc.when) if isinstance(arc.when, c.CONDITIONS) else ():
            test, held = self.room.reader.compiled(part), 0
            for row in map(self._rows.__getitem__, starts):
                with suppress(errors.DataError):  # another part rules the row out before
                    held += test(self.room.reader.leaf(row, way.register)) is True
            counts.append((_plain(part), held))
        return replace(attempt, text=f"{arc.text}: {words.counted(counts, len(starts))}")

    # -- step by step ----------------------------------------------------------------------------

    def trace(self, steps: Trace) -> None:
        """The steps from every start row."""
        for start in range(self.rows):
            self.walk(start, steps)

    def _path(self, way: _Way, row: int) -> list[tuple[str, int]]:
        labels = way.labels
        return list(zip(labels, range(row - len(labels) + 1, row + 1), strict=True))

    def _tell(self, steps: Trace, row: int, action: str, way: _Way, start: int) -> None:
        register = ", ".join(f"{name} = {value}" for name, value in way.register.items())
        variable = way.arc.text if action == TAKE and way.arc is not None else None
        steps.add(
            row, action, self._path(way, row), start=start, variable=variable,
            text=register or None, places=[way.state],
        )  # fmt: skip

    def _ask(self, steps: Trace, row: int, way: _Way, arc: Arc, held: bool, start: int) -> None:
        value: bool | None = held
        text = arc.told
        if isinstance(arc.when, c.CONDITIONS):
            parts = [(_plain(part), part) for part in c.conjuncts(arc.when)]
            leaf = self.room.reader.leaf(self._rows[row], way.register)
            value, text = words.asked(parts, self.room.reader, leaf)
        steps.add(
            row, ASK, self._path(way, row - 1), start=start, variable=arc.text, held=value,
            text=f"{arc.text}: {text}", places=[way.state],
        )  # fmt: skip

    def _dropped(self, steps: Trace, ways: list[_Way], row: int, start: int, stop: str) -> None:
        if row == start:
            return  # what was asked says it
        told = {
            _END: "the partition ended", _WITHIN: "out of the window",
            _GAP: "a number of the sequence is missing", _ROW: "nothing fits",
        }  # fmt: skip
        reason = {_END: a.END, _WITHIN: a.WITHIN, _GAP: a.NOT_ADJACENT, _ROW: a.CONDITION}
        for way in ways:
            steps.add(
                row, DROP, self._path(way, row - 1), start=start, reason=reason[stop],
                text=told[stop], places=[way.state],
            )  # fmt: skip


def _ways_to_a_final(
    machine: RegisterAutomaton,
) -> dict[str, tuple[int, int, tuple[int, ...]]]:
    """By state: the fewest events that it takes, the fewest arcs, and which, those given first.

    States that lead nowhere are left out.
    """
    found = {state: (0, 0, tuple[int, ...]()) for state in machine.finals}
    changed = True
    while changed:
        changed = False
        for number, arc in enumerate(machine.arcs):
            closes = arc.closing and arc.target in machine.finals
            if arc.target not in found or (arc.closing and not closes):
                continue
            events, length, arcs = (0, 0, ()) if closes else found[arc.target]
            way = (events + arc.takes, length + 1, (number, *arcs))
            if arc.source not in found or way < found[arc.source]:
                found[arc.source] = way
                changed = True
    return found


def _window(timing: Timing, temporal: bool) -> Window | None:
    if timing.within is None:
        return None
    given = spelled(timing.within)
    if temporal and isinstance(given, str):
        return Window(WindowKind.TIME, parse_duration(given))
    return Window(WindowKind.NUMBER, given)


def _plain(part: c.Condition) -> c.Condition:
    """As a user writes it: fields of the register by their names."""

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Column) and node.name.startswith(FIELD):
            return c.Column(node.name.removeprefix(FIELD))
        return None

    return c.transform(part, change)
