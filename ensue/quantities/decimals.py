"""Decimals as Spark types them: folds are exact, operations go by the columns' types.

How many digits `a / b` has hangs on the types of a and b, which their values do not tell: 3.50 may
be of decimal(3,2) or decimal(14,2). `settled` therefore writes the types that `typing.py` found
into the operations of a hierarchy. A fold keeps all digits there are, so that it does not matter
where the input was cut; whether the type holds them is asked when the value leaves its automaton.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from ensue.quantities.model import (
    Action,
    Automaton,
    Invocation,
    Operation,
    Transition,
    fitted,
)
from ensue.quantities.typing import MaybeKinds, Types
from ensue.query.condition import Column
from ensue.scalar import kinds as k
from ensue.scalar.casts import EXACT
from ensue.scalar.kinds import Kind

_MORE = 4  # digits that an average has beside those of the values


def settled(automaton: Automaton, types: Types) -> Automaton:
    """The hierarchy with the types of its values in its operations, where one is a decimal."""
    if not any(kind is not None and kind.name == "decimal" for kind in types.all()):
        return automaton
    return _settled(automaton, types)


def _settled(automaton: Automaton, types: Types) -> Automaton:
    slots, output = types.slots[id(automaton)], types.outputs[id(automaton)]
    finish = automaton.finish
    if finish is not None:
        finish = _typed(finish, slots)
    elif automaton.width == 1 and output is not None:
        finish = Operation(("a",), tree=Column("a"), text="", kinds=(output,))
    transitions: list[Transition] = []
    for transition in automaton.transitions:
        result = types.results.get(id(transition))
        actions = tuple(_action(a, slots, types, result) for a in transition.actions)
        changed: Transition = replace(transition, actions=actions)
        if isinstance(transition, Invocation):
            given = tuple(types.outputs[id(below)] for below in transition.automata)
            changed = replace(
                transition,
                actions=actions,
                operation=_typed(transition.operation, given),
                automata=tuple(_settled(below, types) for below in transition.automata),
            )
        transitions.append(changed)
    return replace(automaton, transitions=tuple(transitions), finish=finish, _cache={})


def _action(action: Action, slots: MaybeKinds, types: Types, result: Kind | None) -> Action:
    operation = action.fold.operation
    if operation is None:
        return action
    (weight,) = action.weights
    typed = _typed(operation, (slots[action.slot], types.weight(weight, result)))
    return replace(action, fold=replace(action.fold, function=typed, operation=typed))


def _typed(operation: Operation, kinds: MaybeKinds) -> Operation:
    known = tuple(kind for kind in kinds if kind is not None)
    if len(known) != len(kinds) or any(kind.name == "other" for kind in known):
        return operation
    return operation.typed(known)


@dataclass(frozen=True)
class Mean(Operation):
    """A sum (typed as the values are) by a count; of decimals as Spark's avg, rounded once."""

    def kind(self, kinds: tuple[Kind, ...], where: str) -> Kind | None:
        if kinds[0].name != "decimal":
            return super().kind(kinds, where)
        precision, scale = kinds[0].precision + _MORE, kinds[0].scale + _MORE
        return k.decimal(min(k.MAX_PRECISION, precision), min(k.MAX_PRECISION, scale))

    def typed(self, kinds: tuple[Kind, ...]) -> Operation:
        if kinds[0].name != "decimal":
            return super().typed(kinds)
        kind = self.kind(kinds, "")
        assert kind is not None
        return Operation(self.names, function=_Average(kind), text=self.text, result=kind)


@dataclass(frozen=True)
class _Average:
    """A class, so that it travels to workers."""

    kind: Kind

    def __call__(self, total: Any, count: Any) -> Any:
        exact = EXACT.divide(Decimal(total), Decimal(count)) if count else None
        return fitted(exact, self.kind)
