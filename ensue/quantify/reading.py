"""What users write of a query: SQL text or Python callables, read into the model.

Text is parsed, never executed. A predicate and a value read the event's columns, an operation the
values named a, b, c, ..., a fold `state` and `value`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ensue import errors
from ensue.api.quantity import Quantity
from ensue.front.expressions import Scope, parse_condition
from ensue.quantities import folds
from ensue.quantities.laws import require_monoid
from ensue.quantities.model import (
    ALWAYS,
    ARGUMENTS,
    Automaton,
    Collect,
    Constant,
    Expression,
    Fold,
    Function,
    Operation,
    Predicate,
    Weight,
)
from ensue.quantities.stages import AutomatonQuestion, Question
from ensue.query import condition as c

Given = str | Callable[..., Any] | int | float | bool | None
MISSING: Any = object()
_groups = itertools.count(1)


def read_row_tree(text: str, where: str) -> c.Condition:
    """SQL text over the columns of one event."""
    tree = parse_condition(text, Scope(where=where))

    def plain(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Navigate):
            whole = not (node.offset or node.shift) and node.anchor is c.Anchor.LAST
            if whole and not isinstance(node.argument, c.Classifier):
                return node.argument
        if isinstance(node, (c.Navigate, c.Aggregate, c.MatchNumber, c.Classifier)):
            raise errors.QueryError(
                f"{where}: {c.dump(node)} reads other events, and only the event at hand is known",
                remedy="fold over events with iter, sum, max, ...",
                place=errors.Place.at_offset(text, 0),
            )
        return None

    return c.transform(tree, plain)


def read_predicate(given: Given | Predicate) -> Predicate:
    if isinstance(given, (Expression, Function)):
        return given
    if given is None or given is True:
        return ALWAYS
    if isinstance(given, str):
        return Expression(read_row_tree(given, "the predicate"))
    if callable(given):
        return Function(given)
    raise _not_readable(given, "a predicate")


def read_weight(given: Given | Weight) -> Weight:
    if isinstance(given, (Constant, Expression, Function)):
        return given
    if isinstance(given, str):
        return Expression(read_row_tree(given, "the value"))
    if callable(given):
        return Function(given)
    return Constant(given)


def _not_readable(given: object, what: str) -> errors.QueryError:
    return errors.QueryError(
        f"{given!r} is not {what}", remedy="give SQL text or a Python callable of the event"
    )


def read_operation(given: Given | Operation, count: int, what: str) -> Operation:
    """An operation on values named a, b, c, ...; decimals in its text are doubles."""
    names = ARGUMENTS[:count]
    if isinstance(given, str):
        return Operation(names, tree=read_argument_tree(given, names), text=given)
    if isinstance(given, Operation):
        if len(given.names) != count:
            raise errors.OperationTypeError(
                f"{what}: the operation {given} takes {len(given.names)} arguments, "
                f"{count} queries given",
                remedy="name the values of the queries in turn a, b, c, ... in the operation",
            )
        return given
    if callable(given):
        return Operation(names, function=given)
    raise errors.QueryError(
        f"{given!r} is not an operation",
        remedy=f"give SQL over {', '.join(names)} or a Python callable of {count} values",
    )


def read_argument_tree(text: str, names: tuple[str, ...]) -> c.Condition:
    tree = read_row_tree(text, f"the operation {text!r}")

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Column):
            name = node.name.lower()
            if name not in names or node.path:
                raise errors.OperationTypeError(
                    f"the operation {text!r} reads {c.dump(node)!r}, which is not "
                    f"one of its arguments: {', '.join(names)}",
                    remedy="name the values of the queries in turn a, b, c, ..., or, in a fold, "
                    "state and value",
                    place=errors.Place.at_offset(text, text.lower().find(name)),
                )
            return c.Column(name)
        if isinstance(node, c.Literal) and node.kind == "decimal":
            return c.Literal("double", float(node.value))  # type: ignore[arg-type]
        return None

    return c.transform(tree, change)


def read_fold(given: str | Fold | Callable[..., Any]) -> Fold:
    if isinstance(given, str):
        if given.lower() in folds.FOLDS:
            return folds.FOLDS[given.lower()]
        names = ("state", "value")
        return folds.fold_of(Operation(names, tree=read_argument_tree(given, names), text=given))
    return folds.fold_of(given)


def monoid(fold: str | Callable[..., Any], identity: Any, *, samples: Sequence[Any] = ()) -> Fold:
    """A fold declared to be associative with an identity, so that it may run in parallel.

    That is tried out on values of the identity's type, or on `samples`: the values that occur.

    Examples:
        >>> longest = q.monoid("greatest(state, value)", 0, samples=[1, 2, 3])
    """
    read = read_fold(fold)
    require_monoid(read, identity, samples)
    return replace(read, associative=True, identity=identity)


def read_collect(given: str | Collect | Callable[..., Any] | None) -> Collect | None:
    if given is None or isinstance(given, Collect):
        return given
    if isinstance(given, str):
        if given not in folds.COLLECTS:
            raise errors.AutomatonError(
                f"{given!r} is not a collect operation",
                remedy=f"use one of {', '.join(folds.COLLECTS)} or a callable of two values",
            )
        return folds.COLLECTS[given]
    if callable(given):
        return Collect(folds.users_name(given, "collect"), given)
    raise errors.AutomatonError(
        f"{given!r} is not a collect operation",
        remedy=f"use one of {', '.join(folds.COLLECTS)} or a callable of two values",
    )


def query_of(f: Quantity, what: str) -> Quantity:
    """A query where one is needed, or an error that names what was given."""
    if not isinstance(f, Quantity):
        raise errors.QueryError(
            f"{what} takes queries, not {type(f).__name__}",
            remedy="wrap a value in event(...), or use sum, mean, last, ...",
        )
    return f


def stage_of(f: Quantity, what: str) -> Question:
    return query_of(f, what).stage


def automaton_of(f: Quantity, what: str) -> Automaton:
    stage = stage_of(f, what)
    if not isinstance(stage, AutomatonQuestion):
        raise errors.QueryError(
            f"{what} cannot hold a window, a group or a pipeline",
            remedy=f"apply {what} inside the window, or continue with >> after it",
        )
    return stage.automaton


def some_parts(parts: tuple[Quantity, ...], what: str, most: int | None = len(ARGUMENTS)) -> None:
    """At least one part, and at most as many as there are names for their values."""
    if not parts:
        raise errors.QueryError(f"{what} has no parts", remedy="give at least one query")
    if most is not None and len(parts) > most:
        raise errors.QueryError(
            f"{what} takes at most {most} queries, not {len(parts)}",
            remedy=f"nest one {what} in another",
        )


def disjoint(
    *predicates: str | Callable[..., Any], complete: bool = False
) -> tuple[Predicate, ...]:
    """Predicates declared to exclude each other; `complete`: one of them always holds.

    For what no solver decides: Python callables, and SQL functions such as LIKE.

    Examples:
        >>> a, b = q.disjoint("k LIKE 'a%'", "k LIKE 'b%'")
        >>> q.choose(q.event(a, 1), q.event(b, 2)).eval(pa.table({"k": ["boat"]}))
        2
    """
    group = next(_groups)
    read = [read_predicate(p) for p in predicates]
    return tuple(replace(p, group=group, complete=complete) for p in read)
