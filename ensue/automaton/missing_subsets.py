"""Exact matching with events missing as a deterministic automaton over what a match does.

A state maps L-states to the least error with which partial matches of one history can be there. Out
of it, an event leads to at most one state per label, so every set of (label, event) pairs is one
path, with its least error at the end: the shared match graph (`sequences/match_graph.py`) lists the
matches of ACEP as it lists exact ones, at the same cost per event. For k = 0 it is the same
automaton.

It has the shape of `automaton.subsets.Subsets`, which the engines of event patterns read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from ensue import errors
from ensue.automaton.places import Bound, Place
from ensue.automaton.plan import Plan
from ensue.automaton.subsets import DEAD, MAX_STATES, NOWHERE, Step, Subsets, Take
from ensue.automaton.thompson import START, LetterStates, letter_states

Costs = tuple[tuple[int, int], ...]  # (L-state, least error), sorted


@dataclass(frozen=True)
class NoPlaces:
    """What the engines ask of an automaton of places: nothing is bounded, forbidden or pending."""

    labels: tuple[str, ...]
    places: tuple[Place, ...] = ()
    bounds: tuple[Bound, ...] = ()
    without: int = 0


@dataclass(frozen=True)
class NoSubsets:
    """In place of subsets, for engines that need none: what a batch of events asks of them."""

    automaton: NoPlaces


def no_subsets(plan: Plan) -> Subsets:
    """For batches of engines that follow nodes."""
    return cast(Subsets, NoSubsets(NoPlaces(plan.query.labels)))


class WeightedSubsets:
    """States and steps, found on demand; state 0 is before the first event."""

    def __init__(self, states: LetterStates) -> None:
        self.automaton = NoPlaces(states.labels)
        self._states = states
        self._links = [
            [(link.target, link.cost, states.letter[link.target]) for link in links]
            for links in states.links
        ]
        self._ids: dict[Costs, int] = {}
        self.sets: list[Costs] = []
        self.masks: list[int] = []
        self.pending: list[bool] = []
        self._steps: dict[tuple[int, int], Step] = {}
        self._state(((START, 0),))

    def canonical(self, state: int) -> tuple[int, ...]:
        return () if state == 0 else tuple(n for pair in self.sets[state] for n in pair)

    def labels_ahead(self, state: int) -> frozenset[int]:
        return frozenset()

    def step(self, state: int, bits: int) -> Step:
        key = (state, bits & self.masks[state])
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._compute(state, key[1])
        return found

    def _state(self, costs: Costs) -> int:
        if costs not in self._ids:
            if len(self.sets) >= MAX_STATES:
                raise errors.LimitError(
                    f"the pattern needs more than {MAX_STATES:,} deterministic states",
                    remedy="allow fewer missing events, bound repetitions, or give a budget",
                )
            self._ids[costs] = len(self.sets)
            self.sets.append(costs)
            mask = 0
            for state, cost in costs:
                for _, more, letter in self._links[state]:
                    if cost + more <= self._states.bound:
                        mask |= 1 << letter
            self.masks.append(mask)
            self.pending.append(False)
        return self._ids[costs]

    def _compute(self, state: int, bits: int) -> Step:
        stays = NOWHERE if state == 0 else state
        if not bits:
            return Step((), stays, False) if state else DEAD
        bound = self._states.bound
        taken: dict[int, dict[int, int]] = {}
        for source, cost in self.sets[state]:
            for target, more, letter in self._links[source]:
                if bits >> letter & 1 and cost + more <= bound:
                    targets = taken.setdefault(letter, {})
                    targets[target] = min(cost + more, targets.get(target, bound))
        takes = []
        for letter, targets in sorted(taken.items()):
            accept = any(
                cost + link.cost <= bound
                for target, cost in targets.items()
                for link in self._states.finals[target]
            )
            onward = tuple(
                sorted(
                    (target, cost)
                    for target, cost in targets.items()
                    if any(cost + more <= bound for _, more, _ in self._links[target])
                )
            )
            goes = self._state(onward) if onward else NOWHERE
            if accept or goes != NOWHERE:
                takes.append(Take(letter, goes, accept))
        return Step(tuple(takes), stays, False)


def missing_subsets(plan: Plan) -> Subsets:
    """What counting and aggregating read in place of the exact pattern's subsets."""
    if plan.correlated:
        raise errors.UnsupportedError(
            "count and aggregate with allow_missing need conditions on single rows: which events "
            "are missing decides whether the others hold",
            remedy="list the matches with matches(...), or leave allow_missing out",
        )
    return cast(Subsets, WeightedSubsets(letter_states(plan.query, every_way=False)))
