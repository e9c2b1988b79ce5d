"""Automata from combinators: quantitative regular expressions to streaming automata.

Each function is one operator of the expressions (paper, Related work): the translation is that of
regular expressions to NFAs, so an unambiguous expression gives an unambiguous automaton. A query
that reads one event is written into its user as a step; any other is invoked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ensue import errors
from ensue.quantities.folds import FOLDS, REPLACE
from ensue.quantities.model import (
    RESULT,
    Action,
    Automaton,
    Fold,
    Invocation,
    Operation,
    Predicate,
    Silent,
    Step,
    Transition,
    Weight,
)
from ensue.query import condition as c

ARGUMENTS = tuple("abcdefghijklmnopqrstuvwxyz")
MISSING: Any = object()
MAX_TEXT = 2_000  # of operations applied to each other


def event(predicate: Predicate, value: Weight) -> Automaton:
    """Defined on one event that satisfies the predicate."""
    step = Step("before", "after", predicate, (Action(REPLACE, (value,)),))
    name = f"event({predicate})"
    return Automaton(("before", "after"), (step,), {"before": (None,)}, {"after": ()}, name=name)


def _single(f: Automaton) -> Step | None:
    """The step of a query that reads exactly one event, and does nothing else."""
    if f.finish is None and len(f.transitions) == 1 and f.width == 1:
        (step,) = f.transitions
        plain = isinstance(step, Step) and not any(f.final.values()) and len(f.states) == 2
        if plain and isinstance(step, Step) and step.source in f.initial and step.target in f.final:
            folds = [a.fold for a in step.actions]
            if folds == [REPLACE] and step.source not in f.final and step.target not in f.initial:
                return step
    return None


def reading(source: str, target: str, f: Automaton, fold: Fold, slot: int = 0) -> Transition:
    """A transition that reads what f accepts and folds its value into a slot."""
    step = _single(f)
    if step is not None:
        return Step(source, target, step.predicate, (Action(fold, step.actions[0].weights, slot),))
    return Invocation(source, target, Operation.identity(), (f,), (Action(fold, (RESULT,), slot),))


def split(operation: Operation, parts: Sequence[Automaton]) -> Automaton:
    """The stream cut into one stretch per part; the value is op of the parts' values."""
    _same_number(operation, len(parts), "split")
    states = tuple(f"{i}" for i in range(len(parts) + 1))
    transitions = tuple(
        reading(states[i], states[i + 1], f, REPLACE, i) for i, f in enumerate(parts)
    )
    inside = ", ".join(f.name for f in parts)
    return Automaton(
        states,
        transitions,
        {states[0]: (None,) * len(parts)},
        {states[-1]: ()},
        finish=operation,
        name=f"split({inside})",
    )


def iterate(fold: Fold, f: Automaton, start: Any = MISSING) -> Automaton:
    """Stretches of f one after the other, their values folded; at least one without a start."""
    if fold.width != 1 or fold.weights != 1:
        raise errors.AutomatonError(
            f"iter folds one value at a time; {fold} takes {fold.weights}",
            remedy="use one of sum, product, min, max, count, last, first, any, all, or SQL text",
        )
    name = f"iter({fold}, {f.name})"
    if start is not MISSING:
        loop = reading("at", "at", f, fold)
        return Automaton(("at",), (loop,), {"at": (start,)}, {"at": ()}, name=name)
    none = {"none": (0 if fold.name in ("count", "rows") else None,)}
    takes_first = fold if fold.name in FOLDS else REPLACE
    if _single(f) is not None or takes_first is REPLACE:
        steps: tuple[Transition, ...] = (
            reading("none", "some", f, takes_first),
            reading("some", "some", f, fold),
        )
        return Automaton(("none", "some"), steps, none, {"some": ()}, name=name)
    steps = (
        Silent("none", "next"),
        reading("next", "some", f, fold),
        Silent("some", "next"),
    )
    return Automaton(("none", "next", "some"), steps, none, {"some": ()}, name=name)


def choose(options: Sequence[Automaton]) -> Automaton:
    """The value of the one option that is defined."""
    steps = tuple(reading("before", "after", f, REPLACE) for f in options)
    name = f"choose({', '.join(f.name for f in options)})"
    return Automaton(("before", "after"), steps, {"before": (None,)}, {"after": ()}, name=name)


def combine(operation: Operation, parts: Sequence[Automaton]) -> Automaton:
    """op of the values of all parts on the same stream."""
    _same_number(operation, len(parts), "combine")
    call = Invocation("before", "after", operation, tuple(parts), (Action(REPLACE, (RESULT,)),))
    name = f"combine({', '.join(f.name for f in parts)})"
    return Automaton(("before", "after"), (call,), {"before": (None,)}, {"after": ()}, name=name)


def apply(operation: Operation, f: Automaton) -> Automaton:
    """op of the value of f."""
    _same_number(operation, 1, "apply")
    name = f"apply({operation}, {f.name})"
    if f.collect is not None or (f.width > 1 and f.finish is None):
        return replace(combine(operation, [f]), name=name)
    if f.finish is None:
        return replace(f, finish=operation, name=name, _cache={})
    return replace(f, finish=_composed(operation, f.finish), name=name, _cache={})


def _composed(outer: Operation, inner: Operation) -> Operation:
    text = f"{outer} of {inner}"
    if outer.tree is not None and inner.tree is not None:
        (argument,) = outer.names
        substitute = inner.tree

        def change(node: c.Condition) -> c.Condition | None:
            return substitute if node == c.Column(argument) else None

        if len(text) < MAX_TEXT:
            return Operation(inner.names, tree=c.transform(outer.tree, change), text=text)
        raise errors.LimitError(
            "operations are applied to each other until their text is longer than "
            f"{MAX_TEXT:,} characters",
            remedy="write them as one operation, or give a Python callable",
        )
    return Operation(inner.names, function=_Then(outer, inner), text=text)


class _Then:
    """Two operations in turn; a class, so that it travels to workers."""

    def __init__(self, outer: Operation, inner: Operation) -> None:
        self._outer, self._inner = outer, inner

    def __call__(self, *values: Any) -> Any:
        return self._outer(self._inner(*values))


def aggregate(
    actions: tuple[Action, ...],
    slots: tuple[Any, ...],
    *,
    over: Predicate,
    counted: Predicate | None = None,
    skipped: Predicate | None = None,
    finish: Operation | None = None,
    empty: bool = False,
    name: str = "aggregate",
) -> Automaton:
    """All events satisfy `over`; those `counted` are folded, those `skipped` are passed."""
    ways: list[tuple[Predicate, tuple[Action, ...], bool]] = [(over, actions, False)]
    if counted is not None and skipped is not None:
        ways = [(counted, actions, False), (skipped, (), True)]
    if empty:
        steps = tuple(Step("at", "at", *way) for way in ways)
        return Automaton(("at",), steps, {"at": slots}, {"at": ()}, finish=finish, name=name)
    steps = tuple(Step(source, "some", *way) for source in ("none", "some") for way in ways)
    return Automaton(
        ("none", "some"), steps, {"none": slots}, {"some": ()}, finish=finish, name=name
    )


def _same_number(operation: Operation, given: int, what: str) -> None:
    if len(operation.names) != given:
        raise errors.OperationTypeError(
            f"{what}: the operation {operation} takes {len(operation.names)} arguments, "
            f"{given} queries given",
            remedy="name the values of the queries in turn a, b, c, ... in the operation",
        )
