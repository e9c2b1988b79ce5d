"""Evaluation without the restrictions, at the price that Theorems 5 and 6 say it has.

Every invocation keeps a configuration of its own. Paths of one automaton that meet on a state are
joined by ⊕, which is right because ⊗ distributes over it from the left; so rank 0 costs one value
per state and event, whatever the ambiguity. Two kinds of paths keep no law but are all alike, so
that their number says everything: those with null, to which SQL's folds are as to nothing yet, and
those whose value a fold has just replaced (`Paths`). Above rank 0 the number of invocations in
flight grows with the stream (Theorem 5). Where the automaton is known to be unambiguous, two
invocations in the same states have the same futures, so neither can be accepted and both are
dropped: that leaves one per set of states, exponential in the automaton (Theorem 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ensue import errors
from ensue.quantities.folds import REPLACE, is_known
from ensue.quantities.model import (
    Action,
    Automaton,
    Invocation,
    State,
    Step,
    Value,
    Weight,
    folded,
)
from ensue.quantities.tokens import UNDEFINED, silent_order

Slots = tuple[Value, ...]


def _unjoined(automaton: Automaton) -> errors.AmbiguousError:
    return errors.AmbiguousError(
        f"{automaton.name} has two paths for one input and no collect operation to join them",
        remedy="give a collect operation, or make the paths exclusive",
    )


def joined(automaton: Automaton, old: Slots, new: Slots) -> Slots:
    """⊕ of two paths on one state; the slot, or the tuple of slots, is one value."""
    if automaton.collect is None:
        raise _unjoined(automaton)
    if automaton.width == 1:
        return (automaton.collect.function(old[0], new[0]),)
    return tuple(automaton.collect.function(old, new))


@dataclass(frozen=True)
class Paths:
    """Paths on one state, those with null apart: all others are joined into one value.

    Numbers count where they matter: of paths with null where ⊕ is not idempotent, and of the others
    where a fold may replace their values too. Otherwise they are 0 or 1.
    """

    value: Slots | None = None
    number: int = 0
    nulls: int = 0

    def joined(self, automaton: Automaton, other: Paths) -> Paths:
        value = self.value if other.value is None else other.value
        if self.value is not None and other.value is not None:
            value = joined(automaton, self.value, other.value)
        elif self.nulls + other.nulls + (value is not None) > 1 and automaton.collect is None:
            raise _unjoined(automaton)
        counted, replaced = _counting(automaton)
        number, nulls = self.number + other.number, self.nulls + other.nulls
        return Paths(
            value, number if replaced else min(number, 1), nulls if counted else min(nulls, 1)
        )

    def folded(
        self,
        automaton: Automaton,
        actions: tuple[Action, ...],
        weights: Mapping[Weight, Value],
        result: Value = None,
    ) -> Paths:
        """All paths after one transition."""
        if not actions:
            return self
        found = Paths()
        if self.value is not None:
            after = folded(self.value, actions, weights, result)
            if any(action.fold is REPLACE for action in actions) and automaton.width == 1:
                found = _alike(automaton, after, self.number)
            else:
                found = Paths.of(after, self.number)
        if self.nulls:
            after = folded((None,), actions, weights, result)
            found = found.joined(automaton, _alike(automaton, after, self.nulls))
        return found

    @staticmethod
    def of(slots: Slots, number: int = 1) -> Paths:
        return Paths(nulls=number) if slots == (None,) else Paths(slots, number)

    def total(self, automaton: Automaton) -> Slots:
        """⊕ of the values of all paths."""
        if not self.nulls:
            assert self.value is not None
            return self.value
        null = _repeated(automaton, (None,), self.nulls)
        return null if self.value is None else joined(automaton, self.value, null)


def _alike(automaton: Automaton, slots: Slots, number: int) -> Paths:
    """That many paths, all with one value."""
    if slots == (None,):
        return Paths(nulls=number)
    return Paths(_repeated(automaton, slots, number), number)


def _repeated(automaton: Automaton, slots: Slots, number: int) -> Slots:
    """⊕ of a value with itself, by doubling."""
    total: Slots | None = None
    while number:
        if number & 1:
            total = slots if total is None else joined(automaton, total, slots)
        number >>= 1
        if number:
            slots = joined(automaton, slots, slots)
    assert total is not None
    return total


def _counting(automaton: Automaton) -> tuple[bool, bool]:
    """Whether paths with null are counted, and whether the others are."""
    collect = automaton.collect
    if collect is None or (is_known(collect) and collect.name != "sum"):
        return False, False  # max, min, any and all of a value with itself are that value
    return True, any(action.fold is REPLACE for action in automaton.actions())


@dataclass
class _Flight:
    """An invocation in flight: the paths that made it, and those it invoked."""

    paths: Paths
    below: list[GeneralConfiguration]

    def shape(self) -> Any:
        return tuple(configuration.shape() for configuration in self.below)


class GeneralConfiguration:
    """One value per state, and the invocations in flight; one input thread."""

    def __init__(self, automaton: Automaton, unambiguous: bool = False) -> None:
        self.automaton = automaton
        self.unambiguous = unambiguous
        self.values: dict[State, Paths] = {}
        self.flights: dict[int, list[_Flight]] = {
            index: []
            for index, transition in enumerate(automaton.transitions)
            if isinstance(transition, Invocation)
        }

    def copy(self) -> GeneralConfiguration:
        made = GeneralConfiguration(self.automaton, self.unambiguous)
        made.values = dict(self.values)
        made.flights = {
            i: [_Flight(f.paths, [c.copy() for c in f.below]) for f in flights]
            for i, flights in self.flights.items()
        }
        return made

    def start(self) -> None:
        placed = {state: Paths.of(slots) for state, slots in self.automaton.initial.items()}
        self._silent(placed)
        self.values = placed
        self._invoke(placed)

    def next(self, holds: Mapping[Any, bool], weights: Mapping[Weight, Value]) -> None:
        after: dict[State, Paths] = {}
        transitions = self.automaton.transitions
        for transition in transitions:
            if not isinstance(transition, Step) or transition.source not in self.values:
                continue
            if holds[transition.predicate]:
                paths = self.values[transition.source]
                moved = paths.folded(self.automaton, transition.actions, weights)
                self._add(after, transition.target, moved)
        for index, flights in self.flights.items():
            transition = transitions[index]
            assert isinstance(transition, Invocation)
            alive = []
            for flight in flights:
                for configuration in flight.below:
                    configuration.next(holds, weights)
                if all(configuration.alive() for configuration in flight.below):
                    alive.append(flight)
                outputs = [configuration.output() for configuration in flight.below]
                if all(o is not UNDEFINED for o in outputs):
                    result = transition.operation(*outputs)
                    moved = flight.paths.folded(self.automaton, transition.actions, {}, result)
                    self._add(after, transition.target, moved)
            self.flights[index] = _distinct(alive) if self.unambiguous else alive
        self._silent(after)
        self.values = after
        self._invoke(after)

    def _silent(self, placed: dict[State, Paths]) -> None:
        for index, result in silent_order(self.automaton, general_empty):
            transition = self.automaton.transitions[index]
            if transition.source in placed:
                paths = placed[transition.source]
                moved = paths.folded(self.automaton, transition.actions, {}, result)
                self._add(placed, transition.target, moved)

    def _invoke(self, placed: Mapping[State, Paths]) -> None:
        for index, flights in self.flights.items():
            transition = self.automaton.transitions[index]
            assert isinstance(transition, Invocation)
            paths = placed.get(transition.source)
            if paths is not None:
                below = [GeneralConfiguration(a, self.unambiguous) for a in transition.automata]
                for configuration in below:
                    configuration.start()
                flights.append(_Flight(paths, below))

    def _add(self, placed: dict[State, Paths], state: State, paths: Paths) -> None:
        known = placed.get(state)
        placed[state] = paths if known is None else known.joined(self.automaton, paths)

    def joined_values(self) -> dict[State, Slots]:
        """One value per state, all its paths joined."""
        return {state: paths.total(self.automaton) for state, paths in self.values.items()}

    def alive(self) -> bool:
        return bool(self.values) or any(self.flights.values())

    def shape(self) -> Any:
        flights = tuple(frozenset(f.shape() for f in flights) for flights in self.flights.values())
        return frozenset(self.values), flights

    def output(self) -> Value:
        ends = [
            self.values[state].folded(self.automaton, actions, {})
            for state, actions in self.automaton.final.items()
            if state in self.values
        ]
        if not ends:
            return UNDEFINED
        total = ends[0]
        for paths in ends[1:]:
            total = total.joined(self.automaton, paths)
        return self.automaton.output(total.total(self.automaton))


def general_empty(automaton: Automaton) -> Value:
    """The output on the empty input with all paths joined, or UNDEFINED."""
    if "general empty" not in automaton._cache:
        configuration = GeneralConfiguration(automaton)
        configuration.start()
        automaton._cache["general empty"] = configuration.output()
    return automaton._cache["general empty"]


def _distinct(flights: list[_Flight]) -> list[_Flight]:
    shapes: dict[Any, list[_Flight]] = {}
    for flight in flights:
        shapes.setdefault(flight.shape(), []).append(flight)
    return [same[0] for same in shapes.values() if len(same) == 1]
