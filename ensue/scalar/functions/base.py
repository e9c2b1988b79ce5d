"""What a catalogue entry is.

An entry types itself (`resolve`: the kinds each argument is cast to, and the kind of the result)
and evaluates itself on plain Python values (`implement`). The Arrow evaluator has faster versions
of many entries and falls back to this one, so that a function means one thing everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ensue.scalar.kinds import DEFAULT_ZONE, NULL, Kind, common

NOT_CONSTANT: Any = object()
# What to do about a function that Ensue does not compute.
COLUMN_FIRST = (
    "compute it as a column first; on Spark, a condition on one row may use all that Spark has"
)


@dataclass(frozen=True)
class Given:
    """An argument as it was written: its kind, and its value where it is a literal."""

    kind: Kind
    constant: Any = NOT_CONSTANT

    @property
    def literal(self) -> bool:
        return self.constant is not NOT_CONSTANT


@dataclass(frozen=True)
class Signature:
    """Arguments are cast to `parameters` before the call."""

    parameters: tuple[Kind, ...]
    result: Kind
    fails: bool = False  # some values raise
    zone: str = DEFAULT_ZONE  # of the session
    strings_as: Kind | None = None  # what strings are read as, before the cast to the parameter


Resolve = Callable[[Sequence[Given]], Signature | None]
Scalar = Callable[..., Any]


@dataclass(frozen=True)
class Function:
    """One entry of the catalogue; `name` is Spark's name, or sqlglot's key of an operator."""

    name: str
    usage: str
    group: str
    doc: str
    least: int
    most: int | None
    resolve: Resolve
    implement: Callable[[Signature], Scalar]
    sees_null: bool = False  # else: a null argument gives null
    # Spark stops at the first null, so that what comes after it cannot fail.
    eager: bool = False  # except here
    last_first: bool = False  # and here it begins with the last argument

    def order(self, count: int) -> tuple[int, ...]:
        """In which order the arguments are evaluated."""
        return tuple(range(count - 1, -1, -1) if self.last_first else range(count))

    @property
    def stops_at_null(self) -> bool:
        return not (self.sees_null or self.eager)


def implicit(source: Kind, target: Kind) -> bool:
    """Whether Spark casts `source` to a parameter of kind `target` on its own (ANSI)."""
    if source in (target, NULL):
        return True
    if target.name == "string":
        return source.numeric or source.temporal or source.name in ("boolean", "binary")
    if source.name == "string":
        return target.numeric or target.temporal or target.name in ("boolean", "binary")
    return (source.numeric and target.numeric) or (source.temporal and target.temporal)


def fixed(*parameters: Kind, result: Kind, fails: bool = False) -> Resolve:
    """Each argument is cast to its parameter; arguments that are left out are no parameters."""

    def resolve(given: Sequence[Given]) -> Signature | None:
        wanted = parameters[: len(given)]
        if all(implicit(g.kind, k) for g, k in zip(given, wanted, strict=True)):
            return Signature(tuple(wanted), result, fails)
        return None

    return resolve


def same(function: Scalar) -> Callable[[Signature], Scalar]:
    """An implementation that does not depend on the kinds."""
    return lambda _signature: function


def alike(given: Sequence[Given]) -> Kind | None:
    """The kind that all arguments share; a string only with strings."""
    shared = NULL
    for argument in given:
        names = {shared.name, argument.kind.name}
        wider = common(shared, argument.kind)
        if wider is None or ("string" in names and not names <= {"string", "null"}):
            return None
        shared = wider
    return shared


def function(
    group: str,
    usage: str,
    doc: str,
    resolve: Resolve,
    implementation: Scalar,
    *,
    by_signature: bool = False,
    least: int | None = None,
    most: int | None = None,
    sees_null: bool = False,
    eager: bool = False,
) -> Function:
    """An entry whose usage says its name and arity: `split(text, regex[, limit])` takes 2 or 3.

    With `by_signature`, the implementation depends on the kinds: it is a function of the signature.
    """
    name, _, arguments = usage.rstrip(")").partition("(")
    required, _, optional = arguments.partition("[")
    count = len(required.split(","))
    if required.endswith("..."):
        fewest, greatest = count - 1, None
    else:
        fewest, greatest = count, most or count + optional.count(",")
    fewest = fewest if least is None else least
    implement = implementation if by_signature else same(implementation)
    return Function(name, usage, group, doc, fewest, greatest, resolve, implement, sees_null, eager)
