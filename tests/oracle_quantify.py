"""The definition of streaming automata, read aloud: every path is enumerated. Never shipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ensue.quantities.model import (
    Automaton,
    Constant,
    Expression,
    Function,
    Invocation,
    Result,
    Silent,
    Step,
)
from tests.plain_values import evaluate_value

NOTHING = object()
Event = dict[str, Any]


def value_of(part: Any, event: Event) -> Any:
    if isinstance(part, Constant):
        return part.value
    if isinstance(part, Function):
        return part.call(event)
    assert isinstance(part, Expression)
    return evaluate_value(part.tree, lambda leaf: event[leaf.name])  # type: ignore[union-attr]


def outputs(automaton: Automaton, events: Sequence[Event]) -> list[Any]:
    """The slots of every accepting path, F included, before collect and finish."""
    found = []
    for start, slots in automaton.initial.items():
        for state, value in paths(automaton, start, slots, events):
            if state in automaton.final:
                found.append(_fold(value, automaton.final[state], {}, None))
    return found


def paths(
    automaton: Automaton, state: str, slots: tuple[Any, ...], events: Sequence[Event]
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Ends of all paths from a state that read all the events."""
    if not events:
        yield state, slots
    for transition in automaton.transitions:
        if transition.source != state:
            continue
        match transition:
            case Step():
                if events and value_of(transition.predicate, events[0]) is True:
                    after = _fold(slots, transition.actions, events[0], None)
                    yield from paths(automaton, transition.target, after, events[1:])
            case Silent():
                after = _fold(slots, transition.actions, {}, None)
                yield from paths(automaton, transition.target, after, events)
            case Invocation():
                for length in range(len(events) + 1):
                    values = [evaluate(a, events[:length]) for a in transition.automata]
                    if any(v is NOTHING for v in values):
                        continue
                    result = transition.operation(*values)
                    after = _fold(slots, transition.actions, {}, result)
                    yield from paths(automaton, transition.target, after, events[length:])


def evaluate(automaton: Automaton, events: Sequence[Event]) -> Any:
    """The value on the events, or NOTHING where it is undefined."""
    found = outputs(automaton, events)
    if not found:
        return NOTHING
    total = found[0]
    for other in found[1:]:
        assert automaton.collect is not None, "two paths and no collect"
        if automaton.width == 1:
            total = (automaton.collect.function(total[0], other[0]),)
        else:
            total = automaton.collect.function(total, other)
    return automaton.output(total)


def _fold(slots: tuple[Any, ...], actions: Any, event: Event, result: Any) -> tuple[Any, ...]:
    for action in actions:
        weights = tuple(
            result if isinstance(w, Result) else value_of(w, event) for w in action.weights
        )
        slots = action.apply(slots, weights)
    return slots
