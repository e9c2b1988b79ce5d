"""Why the starts of an automaton failed: brute force, from the definitions.

Every way from a start is followed on its own, none is merged with another. A way's name is, row by
row, the numbers of the arcs that it took; ways are compared by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests import oracle_revision
from tests.oracle_revision import INFINITY, OracleArc, Register

Part = Callable[[dict[str, Any] | None, Register], bool | None]


@dataclass(frozen=True)
class Fence:
    """An arc's condition, part by part, each of which may be unknown."""

    parts: tuple[Part, ...]

    def __call__(self, event: dict[str, Any] | None, register: Register) -> bool:
        return all(part(event, register) is True for part in self.parts)

    def failure(self, event: dict[str, Any] | None, register: Register) -> str:
        values = [part(event, register) for part in self.parts]
        return "condition" if False in values else "null"


@dataclass(frozen=True)
class _Way:
    name: tuple[tuple[int, ...], ...]
    state: str
    register: Register
    matched: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    matched: list[str]
    stopped: int | None
    variable: str | None
    reason: str | None
    matches: int


class Oracle:
    def __init__(
        self,
        events: Sequence[dict[str, Any]],
        arcs: Sequence[OracleArc],
        starts: Sequence[str],
        finals: set[str],
        sequenced: bool = False,
    ) -> None:
        self.events, self.arcs, self.finals = events, arcs, finals
        self.starts, self.sequenced = starts, sequenced
        self.initial = (0, 0)
        self.waited: dict[int, tuple[_Way, OracleArc]] = {}
        self.found = oracle_revision.matches(
            events, arcs, starts, finals, self.initial, sequenced=sequenced
        )

    def need(self, state: str, passed: frozenset[str] = frozenset()) -> float:
        """Events to a final state, over all paths without a cycle."""
        if state in self.finals:
            return 0
        return min((self.leaves(arc, passed | {state}) for arc in self.from_(state)), default=9e9)

    def leaves(self, arc: OracleArc, passed: frozenset[str] = frozenset()) -> float:
        if arc.closing:
            return 0 if arc.target in self.finals else 9e9
        if arc.target in passed:
            return 9e9
        return self.need(arc.target, passed) + (not arc.epsilon)

    def lacks(self, first: int) -> list[str] | None:
        """The arcs that take the fewest events to a final state, once `first` was told of."""
        way, arc = self.waited.get(first, (None, None))
        if way is None or arc is None or not way.matched:
            return None
        if arc.closing:
            return []
        return [self.text(arc)] * (not arc.epsilon) + self.shortest(arc.target, frozenset())[3]

    def shortest(
        self, state: str, passed: frozenset[str]
    ) -> tuple[float, int, list[int], list[str]]:
        """Events, arcs, the numbers of these, and what the taking ones are called."""
        if state in self.finals:
            return 0, 0, [], []
        found = []
        for number, arc in enumerate(self.arcs):
            if arc.source != state or self.leaves(arc, passed | {state}) >= 9e9:
                continue
            rest = self.shortest(arc.target, passed | {state})
            called = [] if arc.epsilon or arc.closing else [self.text(arc)]
            found.append((rest[0] + len(called), rest[1] + 1, [number, *rest[2]], called + rest[3]))
        return min(found)

    def from_(self, state: str) -> list[OracleArc]:
        return [arc for arc in self.arcs if arc.source == state]

    def text(self, arc: OracleArc) -> str:
        return f"a{self.arcs.index(arc)}"

    def silent(self, way: _Way) -> list[_Way]:
        found = [way]
        for number, arc in enumerate(self.arcs):
            if arc.epsilon and arc.source == way.state and arc.when(None, way.register):
                name = (*way.name[:-1], (*way.name[-1], number))
                after = arc.set(None, way.register)
                found += self.silent(_Way(name, arc.target, after, way.matched))
        return [way for way in found if self.need(way.state) < 9e9]

    def after(self, ways: list[_Way], event: dict[str, Any]) -> list[_Way]:
        found = []
        for way in ways:
            for number, arc in enumerate(self.arcs):
                if arc.source != way.state or arc.epsilon or arc.closing:
                    continue
                if arc.when(event, way.register):
                    register = arc.set(event, way.register)
                    matched = (*way.matched, self.text(arc))
                    went = _Way((*way.name, (number,)), arc.target, register, matched)
                    found += self.silent(went)
        return found

    def start(self, first: int) -> Told:
        matches = [match for match in self.found if match[0] == first]
        ways: list[_Way] = []
        for number, state in enumerate(self.starts):
            ways += self.silent(_Way(((number,),), state, self.initial, ()))
        least, longest = INFINITY, None
        for row in count(first):
            if row == len(self.events):
                stop = "end"
                break
            event = self.events[row]
            if row > first and event["le"] >= least:
                stop = "within"
                break
            if row > first and self.sequenced and event["seq"] != self.events[row - 1]["seq"] + 1:
                stop = "not adjacent"
                break
            went = self.after(ways, event)
            if not went:
                stop = "row"
                break
            ways, least = went, min(least, event["re"])
            ends = {m[2:4] for m in matches if m[1] == row and m[5] == least}
            closes = {m[2:4] for m in matches if m[1] == row and m[4] == least}
            ended = [way for way in ways if (way.state, way.register) in ends]
            for way in ways if closes and not ended else ():
                shuts = [arc for arc in self.from_(way.state) if arc.closing]
                fit = [arc for arc in shuts if arc.when(None, way.register)]
                ended += [way for arc in fit if (arc.target, arc.set(None, way.register)) in closes]
            longest = min(ended, key=lambda way: way.name) if ended else longest
        if matches:
            assert longest is not None
            return Told(list(longest.matched), None, None, None, len(matches))
        stopped = min(row, len(self.events) - 1)
        waits = [
            (self.leaves(arc), way.name, number, way, arc)
            for way in ways
            for number, arc in enumerate(self.arcs)
            if arc.source == way.state and self.leaves(arc) < 9e9
            if not (arc.epsilon and arc.when(None, way.register))
        ]
        if not waits:
            return Told([], stopped, None, "no start", 0)
        _, _, _, way, arc = min(waits, key=lambda wait: wait[:3])
        self.waited[first] = way, arc
        return Told(list(way.matched), stopped, self.text(arc), self.reason(way, arc, stop, row), 0)

    def reason(self, way: _Way, arc: OracleArc, stop: str, row: int) -> str:
        if not way.matched:
            return "no start"
        assert isinstance(arc.when, Fence)
        if arc.closing and stop == "row":
            return "forbidden"
        if arc.closing and stop != "not adjacent":
            return arc.when.failure(None, way.register)
        if stop != "row":
            return stop
        event = None if arc.epsilon else self.events[row]
        return arc.when.failure(event, way.register)

    def starts_told(self) -> list[Told]:
        return [self.start(first) for first in range(len(self.events))]


def best(told: list[Told]) -> Told:
    """Of the starts of a partition: the failed attempt with most rows, of several the latest."""
    failed = [(len(one.matched), place) for place, one in enumerate(told) if one.reason is not None]
    matches = sum(one.matches for one in told)
    if not failed:
        return Told([], None, None, None, matches)
    found = told[max(failed)[1]]
    return Told(found.matched, found.stopped, found.variable, found.reason, matches)
