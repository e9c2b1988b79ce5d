"""Conditions on plain Python values, one evaluation at a time: the slow tier.

For conditions that read other events and hold something the compiled guards do not know, such as
a string function. The tree is typed once and turned into closures; three-valued logic, laziness
and errors are those of `ensue.scalar.columns`, from the same catalogue of functions.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from ensue.query.condition import Condition
from ensue.scalar import kinds as k
from ensue.scalar.casts import BadValueError, caster, zone_of
from ensue.scalar.columns.faults import data_error
from ensue.scalar.functions import CATALOGUE
from ensue.scalar.functions.operators import equal
from ensue.scalar.infer import ColumnKind, Typed, typed
from ensue.scalar.kinds import Kind

Leaf = Callable[[Condition], Any]
Compiled = Callable[[Leaf], Any]


def compile_value(
    condition: Condition, column_kind: ColumnKind, zone: str = k.DEFAULT_ZONE
) -> Compiled:
    """A function from the values of the leaves to that of the condition, to be called often."""
    return _compiled(typed(condition, column_kind, zone))


def kind_of_value(value: Any) -> Kind:
    """The kind of a plain Python value."""
    match value:
        case None:
            return k.NULL
        case bool():
            return k.BOOLEAN
        case int():
            return k.BIGINT if abs(value) < 2**63 else k.decimal(len(str(abs(value))))
        case float():
            return k.DOUBLE
        case Decimal():
            _, digits, exponent = value.as_tuple()
            scale = max(0, -int(exponent))
            return k.decimal(max(len(digits) + max(0, int(exponent)), scale, 1), scale)
        case str():
            return k.STRING
        case bytes():
            return k.BINARY
        case datetime():
            return k.TIMESTAMP_NTZ if value.tzinfo is None else k.timestamp(str(value.tzinfo))
        case date():
            return k.DATE
        case timedelta():
            return k.INTERVAL
        case list():
            element: Kind | None = k.NULL
            for item in value:
                element = None if element is None else k.common(element, kind_of_value(item))
            return k.array(element or k.other("mixed"))
        case dict():
            return k.struct(tuple((name, kind_of_value(item)) for name, item in value.items()))
        case _:
            return k.other(type(value).__name__)


def _compiled(node: Typed) -> Compiled:
    operands = [_compiled(operand) for operand in node.operands]
    match node.operation:
        case "literal":
            constant = node.value
            return lambda _leaf: constant
        case "leaf":
            return _leaf_reader(node)
        case "cast" | "trycast":
            return _cast(node, operands[0])
        case "and":
            return _logical(*operands, decided=False)
        case "or":
            return _logical(*operands, decided=True)
        case "not":
            return _not(operands[0])
        case "isnull":
            return lambda leaf: operands[0](leaf) is None
        case "istrue":
            return lambda leaf: operands[0](leaf) is True
        case "isfalse":
            return lambda leaf: operands[0](leaf) is False
        case "case":
            return _case(operands)
        case "coalesce":
            return _coalesce(operands)
        case "in":
            return _in(operands)
        case _:
            return _function(node, operands)


def _leaf_reader(node: Typed) -> Compiled:
    origin, kind = node.origin, node.kind
    if not kind.zoned:
        return lambda leaf: leaf(origin)
    place = zone_of(kind.zone)

    def read(leaf: Leaf) -> Any:
        value = leaf(origin)
        if value is None:
            return None
        return value.replace(tzinfo=place) if value.tzinfo is None else value.astimezone(place)

    return read


def _cast(node: Typed, operand: Compiled) -> Compiled:
    convert = caster(node.operands[0].kind, node.kind)
    assert convert is not None
    tries = node.operation == "trycast"

    def cast(leaf: Leaf) -> Any:
        value = operand(leaf)
        if value is None:
            return None
        try:
            return convert(value)
        except BadValueError as problem:
            if tries:
                return None
            raise data_error(problem, node.origin, None) from None

    return cast


def _logical(first: Compiled, second: Compiled, *, decided: bool) -> Compiled:
    """AND is decided by false, OR by true; the second side is evaluated only if still open."""

    def join(leaf: Leaf) -> Any:
        left = first(leaf)
        if left is decided:
            return decided
        right = second(leaf)
        if right is decided:
            return decided
        return None if left is None or right is None else not decided

    return join


def _not(operand: Compiled) -> Compiled:
    def negate(leaf: Leaf) -> Any:
        value = operand(leaf)
        return None if value is None else not value

    return negate


def _case(operands: list[Compiled]) -> Compiled:
    *branches, default = operands
    pairs = list(zip(branches[::2], branches[1::2], strict=True))

    def choose(leaf: Leaf) -> Any:
        for condition, value in pairs:
            if condition(leaf) is True:
                return value(leaf)
        return default(leaf)

    return choose


def _coalesce(operands: list[Compiled]) -> Compiled:
    def first(leaf: Leaf) -> Any:
        values = (operand(leaf) for operand in operands)
        return next((value for value in values if value is not None), None)

    return first


def _in(operands: list[Compiled]) -> Compiled:
    subject, *choices = operands

    def contained(leaf: Leaf) -> Any:
        value = subject(leaf)
        if value is None:
            return None
        unknown = False
        for choice in choices:
            other = choice(leaf)
            if other is None:
                unknown = True
            elif equal(value, other):
                return True
        return None if unknown else False

    return contained


def _function(node: Typed, operands: list[Compiled]) -> Compiled:
    assert node.signature is not None
    entry = CATALOGUE[node.operation]
    function = entry.implement(node.signature)
    order = [(place, operands[place]) for place in entry.order(len(operands))]
    strict, stops = not entry.sees_null, entry.stops_at_null

    def apply(leaf: Leaf) -> Any:
        values: list[Any] = [None] * len(order)
        for place, operand in order:
            values[place] = operand(leaf)
            if stops and values[place] is None:
                return None
        if strict and None in values:
            return None
        try:
            return function(*values)
        except BadValueError as problem:
            raise data_error(problem, node.origin, None) from None

    return apply
