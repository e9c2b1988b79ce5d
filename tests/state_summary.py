"""The StateSummary: how many partial and complete matches are in each state, in all and by event.

Four families of counters, each a vector over the states (SuSe §5.1, Table 2): global and active
ones for the whole summary, local and active local ones for each event; *active* counts only
matches whose start is still in the window. Kept as two halves: `closed` for starts whose window is
over, which only a removal can change, and `active`; their sum is the global (local) counter.

INSERT applies the COUNT rules to the active half (§5.2, algorithm 1). When a start leaves the
window its matches move to the closed half. REMOVE replaces the paper's three replays: it clears
what the removed event could have touched and adds it up again, one forward–backward pass per
start that can reach it, by additions only. All numbers are Python integers.

This is the structure as the paper defines it, which tests compare with brute force and with the
library. The library's selection loop needs one number per event, not one per state, and gets it
from `summary/kernels/sweep.py` much faster.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ensue.summary.machine import ClassedAutomaton

Vector = list[int]


@dataclass
class Element:
    """A retained event with both halves of its local counters."""

    time: int | float
    event_class: int
    closed: Vector
    active: Vector  # 𝒜_c#Z

    @property
    def local(self) -> Vector:  # c_#Z
        return [x + y for x, y in zip(self.closed, self.active, strict=True)]


@dataclass
class StateSummary:
    """INITIALIZE is the constructor; `window` in units of time, right edge included."""

    machine: ClassedAutomaton
    window: int | float
    elements: list[Element] = field(default_factory=list)  # 𝒮
    closed: Vector = field(default_factory=list)
    active: Vector = field(default_factory=list)  # 𝒜_#Z
    _open: int = 0  # first element that is still in the window

    def __post_init__(self) -> None:
        self.closed = self.closed or self._zeros()
        self.active = self.active or self._zeros()

    @property
    def counters(self) -> Vector:
        """The global state counters, 𝒮_#Z."""
        return [x + y for x, y in zip(self.closed, self.active, strict=True)]

    def insert(self, time: int | float, event_class: int) -> None:
        """INSERT: append an event; events come in order of time."""
        self.advance(time)
        for element in self.elements[self._open :]:
            element.active = self._stepped(element.active, event_class)
        born = self._born(self.active, event_class)
        self.active = self._sum(self._stepped(self.active, event_class), self._starts(event_class))
        self.elements.append(Element(time, event_class, self._zeros(), born))

    def advance(self, now: int | float) -> None:
        """Matches whose start left the window move to the closed half."""
        was = self._open
        while (
            self._open < len(self.elements) and now - self.elements[self._open].time > self.window
        ):
            self._open += 1
        if self._open == was:
            return
        for index in range(was, self._open):
            self._settle(index, 0, len(self.elements), whole=True)
        self._replay_active()

    def remove(self, index: int) -> None:
        """REMOVE: take an event out, as if it had never come."""
        gone = self.elements.pop(index)
        was_open = index >= self._open
        if not was_open:
            self._open -= 1
        near = [i for i, e in enumerate(self.elements) if abs(e.time - gone.time) <= self.window]
        if any(gone.closed) or not self.machine.fork:
            self._resettle(gone, near)
        self._replay_active()

    def _resettle(self, gone: Element, near: list[int]) -> None:
        self.closed = [x - y for x, y in zip(self.closed, gone.closed, strict=True)]
        if not near:
            return
        low, high = near[0], near[-1] + 1
        if not self.machine.fork:
            # Partial matches that had moved on at the removed event stay: add all up again.
            low, high = 0, len(self.elements)
            self.closed = self._zeros()
        for element in self.elements[low:high]:
            element.closed = self._zeros()
        for start in range(min(high, self._open)):
            if self.elements[low].time - self.elements[start].time <= self.window:
                self._settle(start, low, high, whole=not self.machine.fork)

    def _settle(self, start: int, low: int, high: int, whole: bool) -> None:
        """Adds a closed start's matches to the elements low … high − 1 (and to the total)."""
        first = self._starts(self.elements[start].event_class)
        if not any(first):
            return
        end = start
        limit = self.elements[start].time
        while end + 1 < len(self.elements) and self.elements[end + 1].time - limit <= self.window:
            end += 1
        through = self._through(start, end, self._zeros(), {start})
        for index in range(max(low, start), min(high, end + 1)):
            element = self.elements[index]
            element.closed = self._sum(element.closed, through[index - start])
        if whole:
            # Every match of the start goes through the start.
            self.closed = self._sum(self.closed, through[0])

    def _replay_active(self) -> None:
        for element in self.elements[: self._open]:
            element.active = self._zeros()
        self.active = self._zeros()
        if self._open == len(self.elements):
            return
        last = len(self.elements) - 1
        starts = set(range(self._open, last + 1))
        through = self._through(self._open, last, self._zeros(), starts)
        for index in range(self._open, last + 1):
            self.elements[index].active = through[index - self._open]
            event_class = self.elements[index].event_class
            self.active = self._sum(
                self._stepped(self.active, event_class), self._starts(event_class)
            )

    def _through(self, begin: int, end: int, ways: Vector, starts: set[int]) -> list[Vector]:
        """For begin … end: matches of these starts through each element, by state at the end."""
        states = self.machine.states
        before = []
        for index in range(begin, end + 1):
            before.append(ways)
            event_class = self.elements[index].event_class
            ways = self._stepped(ways, event_class)
            if index in starts:
                ways = self._sum(ways, self._starts(event_class))
        rows = [[int(z == q) for q in range(states)] for z in range(states)]
        found: list[Vector] = []
        for index in range(end, begin - 1, -1):
            arcs = self.machine.arcs[self.elements[index].event_class]
            total = self._zeros()
            fresh = list(rows)
            for p, _, _ in arcs:
                if not self.machine.fork and p != 0:
                    fresh[p] = self._zeros()
            for p, q, _ in arcs:
                count = before[index - begin][p] if p else int(index in starts)
                if count:
                    total = [x + count * y for x, y in zip(total, rows[q], strict=True)]
                if p:
                    fresh[p] = self._sum(fresh[p], rows[q])
            rows = fresh
            found.append(total)
        found.reverse()
        return found

    def _stepped(self, ways: Vector, event_class: int) -> Vector:
        """The COUNT rules for one event, without new matches from the start state."""
        arcs = self.machine.arcs[event_class]
        fresh = list(ways)
        if not self.machine.fork:
            for p, _, _ in arcs:
                if p:
                    fresh[p] = 0
        for p, q, _ in arcs:
            if p:
                fresh[q] += ways[p]
        return fresh

    def _born(self, ways: Vector, event_class: int) -> Vector:
        """Matches that end at the event itself."""
        born = self._starts(event_class)
        for p, q, _ in self.machine.arcs[event_class]:
            if p:
                born[q] += ways[p]
        return born

    def _starts(self, event_class: int) -> Vector:
        fresh = self._zeros()
        for p, q, _ in self.machine.arcs[event_class]:
            if p == 0:
                fresh[q] += 1
        return fresh

    def _zeros(self) -> Vector:
        return [0] * self.machine.states

    @staticmethod
    def _sum(left: Vector, right: Vector) -> Vector:
        return [x + y for x, y in zip(left, right, strict=True)]
