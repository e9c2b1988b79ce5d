"""Types of a hierarchy: the kind of every slot and output, or the mismatch and where it is.

The kinds of slots are a least fixed point: initial values and fold results are joined until nothing
changes (a slot that starts as a bigint and adds doubles is a double). `None` is a kind that a
Python callable leaves open; such a hierarchy is evaluated on plain values.
"""

from __future__ import annotations

from collections.abc import Mapping

from ensue import errors
from ensue.quantities.folds import FOLDS, is_known
from ensue.quantities.model import (
    Action,
    Automaton,
    Constant,
    Expression,
    Invocation,
    Result,
    Weight,
    constant_kind,
)
from ensue.scalar import kinds as k
from ensue.scalar.infer import infer, require_boolean
from ensue.scalar.kinds import Kind

MaybeKinds = tuple[Kind | None, ...]


class Types:
    """The kinds of a hierarchy over columns of these kinds."""

    def __init__(self, automaton: Automaton, columns: Mapping[str, Kind]) -> None:
        self._columns = {name.lower(): kind for name, kind in columns.items()}
        self._names = list(columns)
        self.slots: dict[int, MaybeKinds] = {}  # by id of the automaton
        self.outputs: dict[int, Kind | None] = {}
        self.results: dict[int, Kind | None] = {}  # by id of the invocation
        self.weights: dict[Weight, Kind | None] = {}
        for predicate in automaton.predicates():
            if isinstance(predicate, Expression):
                require_boolean(predicate.tree, self._infer(predicate), "the predicate")
        for weight in automaton.weights():
            self.weights[weight] = self._infer(weight) if isinstance(weight, Expression) else None
        self._automaton(automaton)

    @property
    def closed(self) -> bool:
        """Whether every kind is known."""
        slots = all(kind is not None for kinds in self.slots.values() for kind in kinds)
        return slots and all(kind is not None for kind in self.outputs.values())

    def all(self) -> set[Kind | None]:
        slots = (kind for kinds in self.slots.values() for kind in kinds)
        known = (*self.weights.values(), *self.outputs.values(), *self.results.values())
        return {*known, *slots}

    def weight(self, weight: Weight, result: Kind | None) -> Kind | None:
        """The kind of a weight; `result` is that of the invocation it may stand for."""
        match weight:
            case Constant():
                return constant_kind(weight.value)
            case Result():
                return result
            case _:
                return self.weights[weight]

    def _infer(self, expression: Expression) -> Kind:
        def column(leaf: object) -> Kind:
            name = leaf.name  # type: ignore[attr-defined]
            kind = self._columns.get(name.lower())
            if kind is None:
                raise errors.UnknownColumnError(
                    f"{expression} reads the column {name!r}, which the input does not have",
                    remedy=f"use one of {', '.join(self._names)}",
                )
            for step in leaf.path:  # type: ignore[attr-defined]
                inner = [found for field, found in kind.fields if field.lower() == step.lower()]
                if len(inner) != 1:
                    raise errors.UnknownColumnError(
                        f"{expression} reads the field {step!r} of {kind}",
                        remedy="check the name; a dot goes into a struct",
                    )
                kind = inner[0]
            return kind

        return infer(expression.tree, column)

    def _automaton(self, automaton: Automaton) -> None:
        if id(automaton) in self.outputs:
            return
        for below in automaton.invoked():
            self._automaton(below)
        for transition in automaton.transitions:
            if isinstance(transition, Invocation):
                self.results[id(transition)] = self._result(automaton, transition)
        slots: MaybeKinds = (k.NULL,) * automaton.width
        for values in automaton.initial.values():
            slots = self._joined(automaton, slots, tuple(map(constant_kind, values)))
        for _ in range(8):
            before = slots
            for transition in automaton.transitions:
                result = self.results.get(id(transition))
                slots = self._after(automaton, slots, transition.actions, result)
            slots = self._collected(automaton, slots)
            if slots == before:
                break
        else:
            raise errors.OperationTypeError(
                f"{automaton.name}: the type of the folded value grows with every step "
                f"({', '.join(map(str, slots))})",
                remedy="cast the result of the fold to one type",
            )
        self.slots[id(automaton)] = slots
        ends = slots
        for actions in automaton.final.values():
            ends = self._after(automaton, ends, actions, None)
        self.outputs[id(automaton)] = self._output(automaton, ends)

    def _result(self, automaton: Automaton, transition: Invocation) -> Kind | None:
        kinds = [self.outputs[id(a)] for a in transition.automata]
        if any(kind is None for kind in kinds):
            return None
        given = tuple(kind for kind in kinds if kind is not None)
        return transition.operation.kind(given, automaton.name)

    def _output(self, automaton: Automaton, slots: MaybeKinds) -> Kind | None:
        known = tuple(kind for kind in slots if kind is not None)
        if automaton.finish is None:
            return slots[0] if automaton.width == 1 else None
        if len(known) != len(slots):
            return automaton.finish.result
        return automaton.finish.kind(known, automaton.name)

    def _after(
        self,
        automaton: Automaton,
        slots: MaybeKinds,
        actions: tuple[Action, ...],
        result: Kind | None,
    ) -> MaybeKinds:
        for action in actions:
            end = action.slot + action.fold.width
            weights = tuple(self.weight(w, result) for w in action.weights)
            old = slots[action.slot : end]
            new: MaybeKinds = (None,) * action.fold.width
            open_kind = None in weights or None in old
            if action.fold.result is not None and not (open_kind and action.fold.weights == 1):
                try:
                    new = action.fold.result(_known(old), _known(weights))
                except errors.OperationTypeError as problem:
                    raise errors.OperationTypeError(
                        f"{automaton.name}, fold {action.fold}: {problem.problem}",
                        remedy=problem.remedy,
                    ) from None
            if action.fold.name in ("count", "rows"):
                new = (k.BIGINT,)
            changed = self._joined(automaton, old, new)
            slots = slots[: action.slot] + changed + slots[end:]
        return slots

    def _collected(self, automaton: Automaton, slots: MaybeKinds) -> MaybeKinds:
        """The kind of joined paths, which collect makes of two values of one kind."""
        collect = automaton.collect
        if collect is None or not is_known(collect) or automaton.width > 1 or slots[0] is None:
            return slots
        result = FOLDS[collect.name].result
        assert result is not None
        try:
            return self._joined(automaton, slots, result(_known(slots), _known(slots)))
        except errors.OperationTypeError as problem:
            raise errors.OperationTypeError(
                f"{automaton.name}, collect {collect}: {problem.problem}", remedy=problem.remedy
            ) from None

    def _joined(self, automaton: Automaton, old: MaybeKinds, new: MaybeKinds) -> MaybeKinds:
        joined: list[Kind | None] = []
        for a, b in zip(old, new, strict=True):
            if a is None or b is None:
                joined.append(None)
                continue
            kind = k.common(a, b)
            if kind is None:
                raise errors.OperationTypeError(
                    f"{automaton.name}: one value is both {a} and {b}",
                    remedy="give all parts values of one type, or cast one of them",
                )
            joined.append(kind)
        return tuple(joined)


def _known(kinds: MaybeKinds) -> tuple[Kind, ...]:
    return tuple(k.other("an open type") if kind is None else kind for kind in kinds)
