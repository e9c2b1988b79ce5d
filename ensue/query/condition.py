"""Conditions and measures as one frozen expression tree.

Scalar SQL is kept generically: `Call` mirrors one operator or function of the parsed text, by its
canonical name, so that any Spark function survives the trip and prints back. Only what depends on
the match is a node of its own:

- `Navigate`: the value of a row expression at one row of the match. `A.x` is
  `Navigate(x, "A", LAST)`, a bare `x` is `Navigate(x, None, LAST)`, `PREV(FIRST(A.x, 1), 2)` is
  `Navigate(x, "A", FIRST, offset=1, shift=-2)`.
- `Aggregate`: an aggregate over the rows of a variable (None: all rows of the match).
- `Classifier`: the label of the row at hand; stands only inside `Navigate` and `Aggregate`.
- `MatchNumber`.

Below a `Navigate` or `Aggregate`, a `Column` means "of the row at hand".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from functools import reduce


class Anchor(Enum):
    FIRST = "FIRST"
    LAST = "LAST"


@dataclass(frozen=True)
class Literal:
    """`kind` is int, decimal, double, string, boolean or null: 1 and 1.0 and true differ."""

    kind: str
    value: int | Decimal | float | str | bool | None


@dataclass(frozen=True)
class Column:
    """A column of the row at hand; `path` goes into a struct."""

    name: str
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class TypeName:
    """A type as Spark SQL writes it (the target of a CAST)."""

    text: str


@dataclass(frozen=True)
class Call:
    """An operator or function; `arguments` are (role, value) pairs in a fixed order."""

    function: str
    arguments: tuple[tuple[str, Argument], ...]

    def __getitem__(self, role: str) -> Argument:
        for name, value in self.arguments:
            if name == role:
                return value
        return None


@dataclass(frozen=True)
class Classifier:
    """The label of the row at hand; null outside the match."""


@dataclass(frozen=True)
class MatchNumber:
    """The number of the match in its partition, from 1."""


@dataclass(frozen=True)
class Navigate:
    """`argument` at the row found by FIRST/LAST of `variable`, then moved by `shift` rows."""

    argument: Condition
    variable: str | None = None
    anchor: Anchor = Anchor.LAST
    offset: int = 0  # logical: rows of that variable
    shift: int = 0  # physical: rows of the partition, PREV negative
    final: bool = False


@dataclass(frozen=True)
class Aggregate:
    """`function` over the rows of `variable`; no argument means count the rows."""

    function: str
    arguments: tuple[Condition, ...]
    variable: str | None = None
    distinct: bool = False
    final: bool = False
    where: Condition | None = None  # FILTER (WHERE ...)


Condition = Literal | Column | TypeName | Call | Classifier | MatchNumber | Navigate | Aggregate
Argument = Condition | str | bool | int | None | tuple["Argument", ...]

CHAINED = ("and", "or", "dpipe")  # (a AND b) AND c is a AND (b AND c), nulls and all
LONG_CHAIN = 100  # operands; a chain of more is a balanced tree, a shorter one as it was written
TRUE = Literal("boolean", True)
FALSE = Literal("boolean", False)
CONDITIONS = (Literal, Column, TypeName, Call, Classifier, MatchNumber, Navigate, Aggregate)


def call(function: str, **arguments: Argument) -> Call:
    return Call(function, tuple(arguments.items()))


def binary(function: str, left: Condition, right: Condition) -> Call:
    return call(function, this=left, expression=right)


def conjunction(parts: list[Condition]) -> Condition:
    """The parts joined by AND; TRUE where there are none."""
    parts = [part for part in parts if part != TRUE]
    return chain("and", parts) if parts else TRUE


def chain(function: str, parts: Sequence[Condition]) -> Condition:
    """Operands joined by an operator that may be grouped in any way: a long chain is balanced."""
    if len(parts) <= LONG_CHAIN:
        return reduce(lambda left, right: binary(function, left, right), parts)
    middle = len(parts) // 2
    return binary(
        function, _balanced(function, parts[:middle]), _balanced(function, parts[middle:])
    )


def _balanced(function: str, parts: Sequence[Condition]) -> Condition:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return binary(
        function, _balanced(function, parts[:middle]), _balanced(function, parts[middle:])
    )


def operands(function: str, condition: Condition) -> list[Condition]:
    """The operands of the outermost calls of an operator, however they are grouped."""
    found, waiting = [], [condition]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.function == function and len(node.arguments) == 2:
            waiting += [_as_condition(value) for _, value in reversed(node.arguments)]
        else:
            found.append(node)
    return found


def conjuncts(condition: Condition) -> list[Condition]:
    """The operands of the outermost ANDs."""
    parts = [part for part in operands("and", condition) if part != TRUE]
    return [FALSE] if FALSE in parts else parts  # `x / 0 > 0 AND false` never divides


def _as_condition(argument: Argument) -> Condition:
    assert isinstance(argument, CONDITIONS)
    return argument


def _argument_conditions(argument: Argument) -> Iterator[Condition]:
    if isinstance(argument, CONDITIONS):
        yield argument
    elif isinstance(argument, tuple):
        for item in argument:
            yield from _argument_conditions(item)


def children(condition: Condition) -> tuple[Condition, ...]:
    match condition:
        case Call(arguments=arguments):
            return tuple(c for _, value in arguments for c in _argument_conditions(value))
        case Navigate(argument=argument):
            return (argument,)
        case Aggregate(arguments=arguments, where=where):
            return arguments if where is None else (*arguments, where)
        case _:
            return ()


def walk(condition: Condition) -> Iterator[Condition]:
    """All nodes, each before those below it, from left to right."""
    waiting = [condition]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children(node))


def has(condition: Condition, *kinds: type) -> bool:
    """Whether one of its nodes is of these kinds."""
    return any(isinstance(node, kinds) for node in walk(condition))


def transform(condition: Condition, change: Callable[[Condition], Condition | None]) -> Condition:
    """A copy in which each node that `change` answers is replaced (and not entered)."""
    replaced = change(condition)
    if replaced is not None:
        return replaced
    match condition:
        case Call(function=function, arguments=arguments):
            return Call(
                function, tuple((role, _transform_argument(v, change)) for role, v in arguments)
            )
        case Navigate(argument=argument):
            return replace(condition, argument=transform(argument, change))
        case Aggregate(arguments=arguments, where=where):
            return replace(
                condition,
                arguments=tuple(transform(a, change) for a in arguments),
                where=None if where is None else transform(where, change),
            )
        case _:
            return condition


def _transform_argument(
    argument: Argument, change: Callable[[Condition], Condition | None]
) -> Argument:
    if isinstance(argument, CONDITIONS):
        return transform(argument, change)
    if isinstance(argument, tuple):
        return tuple(_transform_argument(item, change) for item in argument)
    return argument


def atoms(condition: Condition) -> tuple[Condition, ...]:
    """The outermost nodes that depend on the match, in order of first appearance."""
    found: dict[Condition, None] = {}

    def visit(node: Condition) -> Condition | None:
        if isinstance(node, (Navigate, Aggregate, MatchNumber)):
            found.setdefault(node)
            return node
        return None

    transform(condition, visit)
    return tuple(found)


def columns(condition: Condition) -> tuple[str, ...]:
    """Names of the columns read anywhere below."""
    return tuple(dict.fromkeys(c.name for c in walk(condition) if isinstance(c, Column)))


def dump(condition: Argument) -> str:
    """A compact, stable text of the tree (for programs and tests; SQL is printed by `front`)."""
    match condition:
        case Literal(kind=kind, value=value):
            return repr(value) if kind in ("string", "boolean", "null") else f"{value}"
        case Column(name=name, path=path):
            return ".".join((name, *path))
        case TypeName(text=text):
            return text
        case Classifier():
            return "classifier"
        case MatchNumber():
            return "match_number"
        case Navigate():
            text = dump(condition.argument)
            if condition.variable is not None or condition.anchor is Anchor.FIRST:
                text = f"{condition.anchor.value.lower()}[{condition.variable or ''}]({text}"
                text += f", {condition.offset})" if condition.offset else ")"
            elif condition.offset:
                text = f"last[]({text}, {condition.offset})"
            if condition.shift:
                text = f"shift({text}, {condition.shift})"
            return f"final {text}" if condition.final else text
        case Aggregate():
            inside = ", ".join(dump(a) for a in condition.arguments) or "*"
            if condition.distinct:
                inside = f"distinct {inside}"
            text = f"{condition.function}[{condition.variable or ''}]({inside})"
            if condition.where is not None:
                text += f" where {dump(condition.where)}"
            return f"final {text}" if condition.final else text
        case Call(function=function, arguments=arguments):
            shown = [dump(v) for _, v in arguments if v is not None and v is not False]
            return f"{function}({', '.join(shown)})"
        case tuple():
            return "[" + ", ".join(dump(item) for item in condition) + "]"
        case _:
            return str(condition)
