"""The automaton of an event pattern: waiting places, and edges that are asked for every event.

What places and edges are is in `places.py`, how a pattern becomes them in `sequence.py`, how sets
of places become deterministic states in `subsets.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ensue.automaton.places import (
    Action,
    And,
    Atom,
    Bound,
    Edge,
    Kind,
    Not,
    Place,
    Test,
    atoms,
    both,
    conjuncts,
    either,
    holds,
    negated,
)
from ensue.automaton.subsets import Move
from ensue.automaton.view import ACCEPT, START, Arc, Shown, State, View
from ensue.automaton.walks import merged, reached


@dataclass(frozen=True, eq=False)
class EventAutomaton(Shown):
    """The automaton: places, and what the atoms mean (a label's index, or a bound).

    It is determinised by `subsets.Subsets`: its members are sets of places.
    """

    labels: tuple[str, ...]
    places: tuple[Place, ...]
    start: Place
    bounds: tuple[Bound, ...]  # atoms after the labels'
    without: int  # bits of the atoms that end every partial match

    @property
    def absences(self) -> bool:
        """Whether a negated step ends the pattern: time completes its matches."""
        return any(place.kind is Kind.PENDING for place in self.places)

    # -- sets of places --------------------------------------------------------------------------

    def first(self) -> frozenset[Place]:
        return frozenset((self.start,))

    def numbers(self, members: frozenset[Place]) -> tuple[int, ...]:
        return tuple(sorted(place.number for place in members))

    def members(self, numbers: Sequence[int]) -> frozenset[Place]:
        return frozenset(self.places[number] for number in numbers)

    def waits(self, members: frozenset[Place]) -> bool:
        return any(p.kind is Kind.PENDING for member in members for p in self._behind(member))

    def _behind(self, place: Place) -> tuple[Place, ...]:
        """Places reached by going on, whatever the event."""
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = tuple(_closure((place,)))
        return known

    @cached_property
    def _known(self) -> dict[Place, tuple[Place, ...]]:
        return {}

    def tested(self, members: frozenset[Place]) -> tuple[int, int]:
        mask, own = self.without, 0
        for place in {p for member in members for p in self._behind(member)}:
            for edge in place.edges:
                own |= _bits(edge.test)
                if edge.action is Action.TAKE:
                    # whether the take completes the match is asked of the same event
                    for after in self._behind(edge.target):
                        for onward in after.edges:
                            if onward.action is Action.GO_ON:
                                mask |= _bits(onward.test)
        return mask | own, own

    def ahead(self, members: frozenset[Place]) -> frozenset[int]:
        found = frozenset(i for i in range(len(self.labels)) if self.without >> i & 1)
        for place in _closure(members, (Action.TAKE, Action.SKIP, Action.GO_ON)):
            for edge in place.edges:
                found |= atoms(edge.test)
        return found

    def move(self, members: frozenset[Place], bits: int) -> Move:
        """What an event does whose atoms are `bits`."""
        taken: dict[int, set[Place]] = {}
        accepted: set[int] = set()
        skipped: set[Place] = set()
        skip_accept = False
        for place in sorted(members, key=lambda p: p.number):
            for edge in _enabled(place, bits):
                ends = edge.target.kind is Kind.ACCEPT
                if edge.action is Action.SKIP:
                    skip_accept |= ends
                    targets = skipped
                else:
                    targets = taken.setdefault(edge.label, set())
                    if _accepts(edge.target, bits):
                        accepted.add(edge.label)
                if not ends:
                    targets.add(edge.target)
        takes = tuple(
            (label, frozenset(targets) or None, label in accepted)
            for label, targets in taken.items()
            if targets or label in accepted
        )
        return Move(takes, frozenset(skipped) or None, skip_accept)

    # -- for a reader ----------------------------------------------------------------------------

    def view(self) -> View:
        """Without ε-moves, places with the same future as one; numbered as they are met."""
        return _Reader(self).view()

    def shown(self, members: Iterable[Place]) -> list[str]:
        """What the view calls these places."""
        return sorted({self._keys[place] for place in members if place in self._keys}, key=int)

    @cached_property
    def _keys(self) -> dict[Place, str]:
        return _Reader(self).keys()


def _bits(test: Test) -> int:
    return sum(1 << atom for atom in atoms(test))


def _closure(places: Iterable[Place], by: Collection[Action] = (Action.GO_ON,)) -> Iterator[Place]:
    """Places reached by going on, whatever the event."""
    return reached(places, lambda place: [e.target for e in place.edges if e.action in by])


def _enabled(start: Place, bits: int) -> list[Edge]:
    """TAKE and SKIP edges that the event enables.

    A place does not skip what it forbids, and does not take it where the STOP is firm. This and
    `_accepts` run for every new step while matching, so they walk by themselves.
    """
    found: list[Edge] = []
    seen, stack = {start}, [start]
    while stack:
        held = [edge for edge in stack.pop().edges if holds(edge.test, bits)]
        stops = [edge.target for edge in held if edge.target.kind is Kind.STOP]
        barred = any(stop.firm for stop in stops)
        for edge in held:
            if edge.action is Action.GO_ON:
                if edge.target not in seen:
                    seen.add(edge.target)
                    stack.append(edge.target)
            elif not (barred if edge.action is Action.TAKE else stops):
                found.append(edge)
    return found


def _accepts(place: Place, bits: int) -> bool:
    if place.kind is Kind.ACCEPT:
        return True
    seen, stack = {place}, [place]
    while stack:
        for edge in stack.pop().edges:
            if edge.action is Action.GO_ON and edge.target not in seen and holds(edge.test, bits):
                if edge.target.kind is Kind.ACCEPT:
                    return True
                seen.add(edge.target)
                stack.append(edge.target)
    return False


# -- for a reader ---------------------------------------------------------------------------------

# Of an event: what is done with it, its text, the label it gets, where it leads.
_Way = tuple[Action, str, str, Place]


def _kind(place: Place, leaving: Iterable[_Way]) -> object:
    return place.kind, any(action is Action.SKIP for action, *_ in leaving)


def _going_on(start: Place) -> Iterator[tuple[Place, Test]]:
    """Places reached by going on, each with every test of a way there that differs."""
    seen: set[tuple[Place, frozenset[Test]]] = {(start, frozenset())}
    queue: deque[tuple[Place, Test]] = deque([(start, True)])
    while queue:
        place, before = queue.popleft()
        yield place, before
        for edge in place.edges:
            if edge.action is not Action.GO_ON or edge.target.kind is Kind.STOP:
                continue
            test = both(before, edge.test)
            key = (edge.target, frozenset(conjuncts(test)))
            if key not in seen and (edge.target, frozenset[Test]()) not in seen:
                seen.add(key)
                queue.append((edge.target, test))


class _Reader:
    """Follows ε-moves, so that every arc says what is done with one event."""

    def __init__(self, automaton: EventAutomaton) -> None:
        self._automaton = automaton
        self._accept = Place(-1, Kind.ACCEPT)

    def view(self) -> View:
        automaton = self._automaton
        ways, block, numbers = self._merged()
        states, arcs = [], []
        for place, number in numbers.items():
            states.append(self._state(number, place))
            arcs += [
                Arc(number, numbers[block[target]], text, action is Action.SKIP, label)
                for action, text, label, target in dict.fromkeys(ways[place])
            ]
        names = [n for i, n in enumerate(automaton.labels) if automaton.without >> i & 1]
        notes = [f"without {name}: such an event ends every partial match" for name in names]
        return View(tuple(states), tuple(dict.fromkeys(arcs)), tuple(notes))

    def keys(self) -> dict[Place, str]:
        """Per place that is not the end: its state of the view."""
        _, block, numbers = self._merged()
        return {p: str(numbers[block[p]]) for p in block if p is not self._accept}

    def _merged(self) -> tuple[dict[Place, list[_Way]], dict[Place, Place], dict[Place, int]]:
        """What leaves each place, the place that stands for it, and the numbers of these."""
        automaton = self._automaton
        ways = {automaton.start: [w for w in self._ways(automaton.start) if w[0] is Action.TAKE]}
        frontier = [automaton.start]
        for place in frontier:
            for *_, target in ways[place]:
                if target not in ways:
                    ways[target] = self._ways(target)
                    frontier.append(target)
        block = merged(
            {place: _kind(place, leaving) for place, leaving in ways.items()},
            lambda place, block: frozenset((a, text, block[t]) for a, text, _, t in ways[place]),
        )
        kept = sorted(dict.fromkeys(block.values()), key=lambda place: place is self._accept)
        return ways, block, {place: number for number, place in enumerate(kept)}

    def _state(self, number: int, place: Place) -> State:
        if place is self._accept:
            return State(ACCEPT, ACCEPT, (ACCEPT,), "accept")
        if place is self._automaton.start:
            return State(str(number), START, (START,), "start")
        if place.kind is Kind.PENDING:
            note = "a match once time proves that no forbidden event came"
            return State(str(number), "", ("pending",), note)
        return State(str(number))

    def _ways(self, place: Place) -> list[_Way]:
        """What events do at a place; a take that completes the match also leads to `accept`."""
        found: list[_Way] = []
        for edge, test in self._edges(place):
            complete = self._completes(edge.target)
            if edge.action is Action.SKIP:
                complete = edge.target.kind is Kind.ACCEPT
            label = self._automaton.labels[edge.label] if edge.action is Action.TAKE else ""
            if complete is not False:
                text = self._arc_text(edge, both(test, complete))
                found.append((edge.action, text, label, self._accept))
            if any(edge.target.edges) and self._edges(edge.target):
                found.append((edge.action, self._arc_text(edge, test), label, edge.target))
        return found

    def _edges(self, start: Place) -> list[tuple[Edge, Test]]:
        """TAKE and SKIP edges of all that is reached by going on, as `_enabled` finds them."""
        found: list[tuple[Edge, Test]] = []
        for place, before in _going_on(start):
            stops: Test = False
            firm: Test = False
            for edge in place.edges:
                if edge.target.kind is Kind.STOP:
                    stops = either(stops, edge.test)
                    firm = either(firm, edge.test) if edge.target.firm else firm
            for edge in place.edges:
                if edge.action is not Action.GO_ON:
                    barred = firm if edge.action is Action.TAKE else stops
                    found.append((edge, both(before, both(edge.test, negated(barred)))))
        return found

    @staticmethod
    def _completes(place: Place) -> Test:
        """When an event that leads here completes the match."""
        found: Test = False
        for behind, before in _going_on(place):
            if behind.kind is Kind.ACCEPT:
                found = either(found, before)
        return found

    def _arc_text(self, edge: Edge, test: Test) -> str:
        parts = conjuncts(test)
        verb = edge.action.value
        if edge.action is Action.TAKE:
            verb += f" {self._automaton.labels[edge.label]}"
            parts = [part for part in parts if part != Atom(edge.label)]
        texts = sorted(self._text(part) for part in parts)
        return f"{verb} if {' and '.join(texts)}" if texts else verb

    def _text(self, test: Test) -> str:
        labels, bounds = self._automaton.labels, self._automaton.bounds
        match test:
            case Atom(index=index) if index < len(labels):
                return labels[index]
            case Atom(index=index):
                return f"gap <= {bounds[index - len(labels)].within}"
            case Not(part=And(left=left, right=right)):
                return f"({self._text(negated(left))} or {self._text(negated(right))})"
            case Not(part=part):
                return f"not {self._text(part)}"
            case And(left=left, right=right):
                return f"({self._text(left)} and {self._text(right)})"
            case _:
                return str(test).lower()
