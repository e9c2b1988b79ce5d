"""The subset construction over what a partial match did with each event: took it, and as what.

A match is the set of its (label, event) pairs, and two ways through the automaton can give the same
set. So places are followed together: a *state* is the set of places that partial matches with one
history can be at. Out of a state, an event leads to at most one state per label (it was taken so)
and at most one more (it was skipped). Every match is then exactly one path, which makes counting
and listing without repetition possible (CORE's I/O-deterministic automata do the same).

States are found on demand; in theory there are exponentially many, in practice about as many as
places. A step depends only on the atoms that the state's places test, so it is kept per state and
these bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ensue import errors
from ensue.automaton.places import Action, Edge, EventAutomaton, Kind, Place, atoms, holds

MAX_STATES = 50_000
NOWHERE = -1
START = 0


@dataclass(frozen=True)
class Take:
    """The event joins under `label`; `accept`: the match is complete with it."""

    label: int
    target: int  # NOWHERE: nothing can follow
    accept: bool


@dataclass(frozen=True)
class Step:
    takes: tuple[Take, ...]
    skip: int  # state after leaving the event out, or NOWHERE
    skip_accept: bool  # the match is complete without the event (a trailing strict "not")


DEAD = Step((), NOWHERE, False)


class Subsets:
    """States and steps, found on demand. State 0 is before the first event: it never skips."""

    def __init__(self, automaton: EventAutomaton) -> None:
        self.automaton = automaton
        self._ids: dict[frozenset[Place], int] = {}
        self.sets: list[frozenset[Place]] = []
        self.masks: list[int] = []  # atoms that the state's steps depend on
        self.bounds: list[int] = []  # of these, the joints' bounds that its places wait under
        self.pending: list[bool] = []  # complete once time proves an absence
        self._steps: dict[tuple[int, int], Step] = {}
        self._state(frozenset((automaton.start,)))

    def step(self, state: int, bits: int) -> Step:
        """What an event does whose atoms are `bits`."""
        key = (state, bits & self.masks[state])
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._compute(state, key[1])
        return found

    def canonical(self, state: int) -> tuple[int, ...]:
        """What a state is, whenever it was found: the numbers of its places; the start is first."""
        return () if state == START else tuple(sorted(p.number for p in self.sets[state]))

    def find(self, places: Sequence[int]) -> int:
        """The state of these places; the inverse of `canonical`."""
        if not places:
            return START
        return self._state(frozenset(self.automaton.places[number] for number in places))

    def state_of(self, places: Iterable[int]) -> int:
        """The state of a set of places by their numbers, which do not depend on what was asked."""
        return self._state(frozenset(self.automaton.places[number] for number in places))

    def labels_ahead(self, state: int) -> frozenset[int]:
        """Atoms that some step from here on may test."""
        seen: set[Place] = set()
        stack = list(self.sets[state])
        found: frozenset[int] = frozenset()
        while stack:
            place = stack.pop()
            if place in seen:
                continue
            seen.add(place)
            for edge in place.edges:
                found |= atoms(edge.test)
                stack.append(edge.target)
        return found | frozenset(
            i for i in range(len(self.automaton.labels)) if self.automaton.without >> i & 1
        )

    def _state(self, places: frozenset[Place]) -> int:
        if places not in self._ids:
            if len(self.sets) >= MAX_STATES:
                raise errors.LimitError(
                    f"the pattern needs more than {MAX_STATES:,} deterministic states",
                    remedy="bound repetitions, or split the pattern",
                )
            self._ids[places] = len(self.sets)
            self.sets.append(places)
            mask, own = self.automaton.without, 0
            for place in self._closure(places):
                for edge in place.edges:
                    own |= sum(1 << atom for atom in atoms(edge.test))
                    if edge.action is Action.TAKE:
                        # whether the take completes the match is asked of the same event
                        for after in self._closure(frozenset((edge.target,))):
                            for onward in after.edges:
                                if onward.action is Action.GO_ON:
                                    mask |= sum(1 << atom for atom in atoms(onward.test))
            self.masks.append(mask | own)
            self.bounds.append(own >> len(self.automaton.labels))
            self.pending.append(any(p.kind is Kind.PENDING for p in self._closure(places)))
        return self._ids[places]

    @staticmethod
    def _closure(places: frozenset[Place]) -> set[Place]:
        """Places reached by going on, whatever the event."""
        seen, stack = set(places), list(places)
        while stack:
            for edge in stack.pop().edges:
                if edge.action is Action.GO_ON and edge.target not in seen:
                    seen.add(edge.target)
                    stack.append(edge.target)
        return seen

    def _compute(self, state: int, bits: int) -> Step:
        if bits & self.automaton.without:
            return DEAD
        taken: dict[int, set[Place]] = {}
        accepted: set[int] = set()
        skipped: set[Place] = set()
        skip_accept = False
        for place in sorted(self.sets[state], key=lambda p: p.number):
            for edge in self._enabled(place, bits):
                if edge.action is Action.TAKE:
                    targets = taken.setdefault(edge.label, set())
                    if self._accepts(edge.target, bits):
                        accepted.add(edge.label)
                    if edge.target.kind is not Kind.ACCEPT:
                        targets.add(edge.target)
                elif state != START:
                    if edge.target.kind is Kind.ACCEPT:
                        skip_accept = True
                    else:
                        skipped.add(edge.target)
        takes = tuple(
            Take(
                label,
                self._state(frozenset(targets)) if targets else NOWHERE,
                label in accepted,
            )
            for label, targets in taken.items()
            if targets or label in accepted
        )
        return Step(takes, self._state(frozenset(skipped)) if skipped else NOWHERE, skip_accept)

    @staticmethod
    def _enabled(start: Place, bits: int) -> list[Edge]:
        """TAKE and SKIP edges that the event enables.

        A place does not skip what it forbids, and does not take it where the STOP is firm.
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

    @staticmethod
    def _accepts(place: Place, bits: int) -> bool:
        seen, stack = {place}, [place]
        while stack:
            current = stack.pop()
            if current.kind is Kind.ACCEPT:
                return True
            for edge in current.edges:
                if (
                    edge.action is Action.GO_ON
                    and edge.target not in seen
                    and holds(edge.test, bits)
                ):
                    seen.add(edge.target)
                    stack.append(edge.target)
        return False
