"""Evaluation without the restrictions, at the price that Theorems 5 and 6 say it has.

Every invocation keeps a configuration of its own. Two paths of one automaton that meet on a state
are joined by ⊕, which is right because ⊗ distributes over it from the left; so rank 0 costs one
value per state and event, whatever the ambiguity. Above rank 0 the number of invocations in flight
grows with the stream (Theorem 5). Where the automaton is known to be unambiguous, two invocations
in the same states have the same futures, so neither can be accepted and both are dropped: that
leaves one per set of states, exponential in the automaton (Theorem 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ensue import errors
from ensue.evaluate.quantify.model import (
    Automaton,
    Invocation,
    Silent,
    State,
    Step,
    Value,
    Weight,
    folded,
)
from ensue.evaluate.quantify.tokens import UNDEFINED

Slots = tuple[Value, ...]


def joined(automaton: Automaton, old: Slots, new: Slots) -> Slots:
    """⊕ of two paths on one state; the slot, or the tuple of slots, is one value."""
    if automaton.collect is None:
        raise errors.AmbiguousError(
            f"{automaton.name} has two paths for one input and no collect operation to join them",
            remedy="give a collect operation, or make the paths exclusive",
        )
    if automaton.width == 1:
        return (automaton.collect.function(old[0], new[0]),)
    return tuple(automaton.collect.function(old, new))


@dataclass
class _Flight:
    """An invocation in flight: the value of the path that made it, and those it invoked."""

    slots: Slots
    below: list[GeneralConfiguration]

    def shape(self) -> Any:
        return tuple(configuration.shape() for configuration in self.below)


class GeneralConfiguration:
    """One value per state, and the invocations in flight; one input thread."""

    def __init__(self, automaton: Automaton, unambiguous: bool = False) -> None:
        self.automaton = automaton
        self.unambiguous = unambiguous
        self.values: dict[State, Slots] = {}
        self.flights: dict[int, list[_Flight]] = {
            index: []
            for index, transition in enumerate(automaton.transitions)
            if isinstance(transition, Invocation)
        }
        self._empty: dict[int, Value] = {}
        for index, transition in enumerate(automaton.transitions):
            if isinstance(transition, Invocation):
                outputs = [general_empty(a) for a in transition.automata]
                if all(o is not UNDEFINED for o in outputs):
                    self._empty[index] = transition.operation(*outputs)

    def copy(self) -> GeneralConfiguration:
        made = GeneralConfiguration(self.automaton, self.unambiguous)
        made.values = dict(self.values)
        made.flights = {
            i: [_Flight(f.slots, [c.copy() for c in f.below]) for f in flights]
            for i, flights in self.flights.items()
        }
        return made

    def start(self) -> None:
        placed = dict(self.automaton.initial)
        self._silent(placed)
        self.values = placed
        self._invoke(placed)

    def next(self, holds: Mapping[Any, bool], weights: Mapping[Weight, Value]) -> None:
        after: dict[State, Slots] = {}
        transitions = self.automaton.transitions
        for transition in transitions:
            if not isinstance(transition, Step) or transition.source not in self.values:
                continue
            if holds[transition.predicate]:
                slots = self.values[transition.source]
                self._add(after, transition.target, folded(slots, transition.actions, weights))
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
                    slots = folded(flight.slots, transition.actions, {}, result)
                    self._add(after, transition.target, slots)
            self.flights[index] = _distinct(alive) if self.unambiguous else alive
        self._silent(after)
        self.values = after
        self._invoke(after)

    def _silent(self, placed: dict[State, Slots]) -> None:
        for index in self._order():
            transition = self.automaton.transitions[index]
            if transition.source in placed:
                slots = folded(
                    placed[transition.source], transition.actions, {}, self._empty.get(index)
                )
                self._add(placed, transition.target, slots)

    def _order(self) -> list[int]:
        """Silent transitions, sources first; the check for cycles is that of `tokens.py`."""
        cached = self.automaton._cache.get("general order")
        if cached is None:
            silent = [
                index
                for index, transition in enumerate(self.automaton.transitions)
                if isinstance(transition, Silent) or index in self._empty
            ]
            cached = self.automaton._cache["general order"] = _sorted(self.automaton, silent)
        return list(cached)

    def _invoke(self, placed: Mapping[State, Slots]) -> None:
        for index, flights in self.flights.items():
            transition = self.automaton.transitions[index]
            assert isinstance(transition, Invocation)
            slots = placed.get(transition.source)
            if slots is not None:
                below = [GeneralConfiguration(a, self.unambiguous) for a in transition.automata]
                for configuration in below:
                    configuration.start()
                flights.append(_Flight(slots, below))

    def _add(self, placed: dict[State, Slots], state: State, slots: Slots) -> None:
        known = placed.get(state)
        placed[state] = slots if known is None else joined(self.automaton, known, slots)

    def alive(self) -> bool:
        return bool(self.values) or any(self.flights.values())

    def shape(self) -> Any:
        flights = tuple(frozenset(f.shape() for f in flights) for flights in self.flights.values())
        return frozenset(self.values), flights

    def output(self) -> Value:
        ends = [
            folded(self.values[state], actions, {})
            for state, actions in self.automaton.final.items()
            if state in self.values
        ]
        if not ends:
            return UNDEFINED
        total = ends[0]
        for slots in ends[1:]:
            total = joined(self.automaton, total, slots)
        return self.automaton.output(total)

    def footprint(self) -> int:
        inside = sum(
            len(flight.slots) + sum(configuration.footprint() for configuration in flight.below)
            for flights in self.flights.values()
            for flight in flights
        )
        return inside + sum(len(slots) for slots in self.values.values())


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


def _sorted(automaton: Automaton, silent: list[int]) -> list[int]:
    ordered: list[int] = []
    waiting = silent
    while waiting:
        targets = {automaton.transitions[index].target for index in waiting}
        ready = [w for w in waiting if automaton.transitions[w].source not in targets]
        if not ready:
            from ensue.evaluate.quantify.tokens import silent_order

            silent_order(automaton)
            raise AssertionError("a cycle that the ordering of tokens.py does not see")
        ordered += ready
        waiting = [w for w in waiting if w not in ready]
    return ordered
