"""Evaluation by stack tokens, on any Python value (paper, Figures 6 and 7).

A *token* is a stack of slot tuples: the top belongs to the automaton the token stands in, what is
below to those that invoked it. Since the automaton is unambiguous no two tokens ever meet on a
state, so a configuration is one token per state and its size that of the automaton: time per
event and space are quadratic in the automaton and independent of the stream (Theorem 4).

ε is eliminated as the paper asks, half ahead of time and half in place: what a started automaton
can reach without reading is a constant (`closure`), and after each event tokens follow silent
transitions in topological order. An invocation whose automata accept the empty input is such a
silent transition too, with op of their constant outputs as its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ensue import errors
from ensue.quantities.model import Automaton, Invocation, Silent, State, Step, Value, Weight, folded

Stack = tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Undefined:
    """Not in the domain, which differs from a null value."""

    def __repr__(self) -> str:
        return "undefined"

    def __bool__(self) -> bool:
        return False


UNDEFINED = Undefined()


def silent_order(
    automaton: Automaton, empty: Callable[[Automaton], Value] | None = None
) -> list[tuple[int, Value]]:
    """Transitions that may read nothing, sources first, each with its result on the empty input.

    `empty` gives the output of an automaton there; left out, that of the one path. Raises where
    they form a cycle: the automaton is then not well-formed (paper, section 2).
    """
    empty = empty or empty_output
    key = f"silent by {empty.__name__}"
    if key not in automaton._cache:
        results: dict[int, Value] = {}
        for index, transition in enumerate(automaton.transitions):
            if isinstance(transition, Silent):
                results[index] = None
            elif isinstance(transition, Invocation):
                outputs = [empty(a) for a in transition.automata]
                if all(o is not UNDEFINED for o in outputs):
                    results[index] = transition.operation(*outputs)
        ordered = _sources_first(automaton, list(results))
        automaton._cache[key] = [(index, results[index]) for index in ordered]
    return list(automaton._cache[key])


def _sources_first(automaton: Automaton, silent: list[int]) -> list[int]:
    """Silent transitions in an order in which each comes after those that lead to it."""
    ordered: list[int] = []
    while silent:
        targets = {automaton.transitions[index].target for index in silent}
        ready = [index for index in silent if automaton.transitions[index].source not in targets]
        if not ready:
            raise _cycle(automaton, silent)
        ordered += ready
        silent = [index for index in silent if index not in ready]
    return ordered


def _cycle(automaton: Automaton, indices: list[int]) -> errors.EmptyCycleError:
    following = {automaton.transitions[i].source: automaton.transitions[i].target for i in indices}
    state = next(iter(following))
    seen: list[State] = []
    while state not in seen:
        seen.append(state)
        state = following.get(state, seen[0])
    shown = " → ".join([*seen[seen.index(state) :], state])
    return errors.EmptyCycleError(
        f"{automaton.name} can go round {shown} without reading an event, so its value would "
        "depend on how often it does",
        remedy="repeat only what reads at least one event",
    )


def closure(automaton: Automaton) -> dict[State, tuple[Value, ...]]:
    """What a started automaton holds before any event: slots per state, all constants.

    Where the automaton is ambiguous on the empty input the last path wins here; `checks.py` has
    refused it before.
    """
    cached = automaton._cache.get("closure")
    if cached is None:
        reached = dict(automaton.initial)
        for index, result in silent_order(automaton):
            transition = automaton.transitions[index]
            if transition.source in reached:
                slots = reached[transition.source]
                reached[transition.target] = folded(slots, transition.actions, {}, result)
        cached = automaton._cache["closure"] = reached
    return dict(cached)


def empty_output(automaton: Automaton) -> Value:
    """The output on the empty input, or UNDEFINED."""
    for state, slots in closure(automaton).items():
        if state in automaton.final:
            return automaton.ending(state, slots)
    return UNDEFINED


class Configuration:
    """Tokens on the states of one automaton, and the configurations of those it invokes."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.tokens: dict[State, Stack] = {}
        self.below: dict[int, list[Configuration]] = {
            index: [Configuration(a) for a in transition.automata]
            for index, transition in enumerate(automaton.transitions)
            if isinstance(transition, Invocation)
        }
        self._silent = silent_order(automaton)
        self._closure = closure(automaton)

    def copy(self) -> Configuration:
        """Another configuration with the same tokens, which are never changed in place."""
        made = Configuration(self.automaton)
        made.tokens = dict(self.tokens)
        made.below = {i: [c.copy() for c in below] for i, below in self.below.items()}
        return made

    def start(self, context: Stack = ()) -> None:
        """A new input thread: a token with `context` below it on each state reached at once."""
        placed = {state: (*context, slots) for state, slots in self._closure.items()}
        self._invoke(placed)
        self.tokens.update(placed)

    def next(self, holds: Mapping[Any, bool], weights: Mapping[Weight, Value]) -> None:
        """One event, given by the truth of each predicate and the value of each weight."""
        after: dict[State, Stack] = {}
        transitions = self.automaton.transitions
        for transition in transitions:
            if not isinstance(transition, Step) or transition.source not in self.tokens:
                continue
            if holds[transition.predicate]:
                stack = self.tokens[transition.source]
                top = folded(stack[-1], transition.actions, weights)
                after[transition.target] = (*stack[:-1], top)
        for index, configurations in self.below.items():
            transition = transitions[index]
            assert isinstance(transition, Invocation)
            for configuration in configurations:
                configuration.next(holds, weights)
            first = configurations[0].ended()
            if first is None:
                continue
            outputs = [configuration.output() for configuration in configurations]
            if any(output is UNDEFINED for output in outputs):
                continue
            result = transition.operation(*outputs)
            stack = first[:-1]
            top = folded(stack[-1], transition.actions, {}, result)
            after[transition.target] = (*stack[:-1], top)
        for index, result in self._silent:
            transition = transitions[index]
            if transition.source in after:
                stack = after[transition.source]
                top = folded(stack[-1], transition.actions, {}, result)
                after[transition.target] = (*stack[:-1], top)
        self._invoke(after)
        self.tokens = after

    def _invoke(self, placed: Mapping[State, Stack]) -> None:
        for index, configurations in self.below.items():
            stack = placed.get(self.automaton.transitions[index].source)
            if stack is not None:
                configurations[0].start(stack)
                for configuration in configurations[1:]:
                    configuration.start()

    def ended(self) -> Stack | None:
        """The token on a final state: at most one, by unambiguity."""
        for state in self.automaton.final:
            if state in self.tokens:
                return self.tokens[state]
        return None

    def output(self) -> Value:
        for state in self.automaton.final:
            if state in self.tokens:
                return self.automaton.ending(state, self.tokens[state][-1])
        return UNDEFINED
