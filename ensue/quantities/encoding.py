"""Conditions as z3 terms: what Spark computes exactly is modelled, the rest is opaque.

A term that z3 does not model as Spark computes it (float arithmetic, a string function) is an
unknown value, the same wherever the same text stands; so what z3 calls impossible is impossible.
AND, OR, NOT, CASE and comparisons keep their meaning around opaque parts: of two values, one is
less, equal or greater, whatever they are. A column is what its type holds: whole numbers of its
width, decimals of its scale, any other number real; dates and times are whole numbers of their
unit. A double is a real too, and what rounding makes of a witness is tried out by `predicates.py`.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ensue import errors
from ensue.quantities.assemble import bits_of
from ensue.quantities.model import Event
from ensue.query import condition as c
from ensue.scalar import kinds as k
from ensue.scalar.casts import EPOCH, EPOCH_NTZ, EXACT
from ensue.scalar.infer import Typed, require_boolean, typed
from ensue.scalar.kinds import Kind

_STRICT = {"lt": operator.lt, "lte": operator.le, "gt": operator.gt, "gte": operator.ge}
_COMPARED: dict[str, Callable[[Any, Any], Any]]
_COMPARED = {**_STRICT, "eq": operator.eq, "neq": operator.ne, "nullsafeeq": operator.eq}
_ARITHMETIC: dict[str, Callable[..., Any]]
_ARITHMETIC = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg}
_MODELLED = ("boolean", "string", "int", "float", "decimal", "date", "timestamp")
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 to 9999
_DAY = 86_400_000_000  # microseconds
_EXACT = 2**53  # whole numbers up to it are doubles
_DIGITS = 15  # decimals of so many digits are distinguished as doubles
_ROUNDING = Fraction(1, 2**53)
_ROUNDED = ("int", "decimal")


@dataclass(frozen=True)
class _Term:
    """A z3 term and when it is null."""

    value: Any
    null: Any


class Encoder:
    """Conditions to z3 terms."""

    def __init__(self, z3: Any, kind: Callable[[c.Condition], Kind]) -> None:
        self._z3 = z3
        self._kind = kind
        self._columns: dict[c.Column, _Term] = {}
        self._opaque: dict[tuple[str, str], _Term] = {}
        self.facts: list[Any] = []
        self.preferred: list[Any] = []  # true of events that are easily confirmed: nothing is
        self.handy: list[Any] = []  # rounded, and better still, numbers are small and double

    def truth(self, tree: c.Condition) -> Any:
        """Whether the condition is true, neither false nor null."""
        try:
            node = typed(tree, self._kind)
        except errors.EnsueError:
            term = self._untyped(tree)
        else:
            require_boolean(tree, node.kind, "the predicate")
            if node.kind.name != "boolean":  # a bare NULL
                return self._z3.BoolVal(False)
            term = self._term(node)
        return self._true(term)

    def _true(self, term: _Term) -> Any:
        return self._z3.And(self._z3.Not(term.null), term.value)

    def _false(self, term: _Term) -> Any:
        return self._z3.And(self._z3.Not(term.null), self._z3.Not(term.value))

    def _untyped(self, tree: c.Condition) -> _Term:
        """A condition with a function that only Spark can type: its logic is known all the same."""
        if isinstance(tree, c.Call):
            operands = [v for _, value in tree.arguments for v in flat(value)]
            if tree.function in ("and", "or", "not", "paren"):
                terms = [self._readable(operand) for operand in operands]
                if tree.function == "paren":
                    return terms[0]
                if tree.function == "not":
                    return _Term(self._z3.Not(terms[0].value), terms[0].null)
                return self._joined(tree.function, *terms)
            if tree.function in _COMPARED and len(operands) == 2:
                return self._opaque_order(tree.function, *operands)
        return self._unknown(c.dump(tree))

    def _readable(self, tree: c.Condition) -> _Term:
        try:
            node = typed(tree, self._kind)
        except errors.EnsueError:
            return self._untyped(tree)
        return self._term(node) if node.kind.name == "boolean" else self._unknown(c.dump(tree))

    def _opaque_order(self, function: str, a: c.Condition, b: c.Condition) -> _Term:
        """Of one pair of values: less, equal or greater. Nothing is known across pairs."""
        left, right = c.dump(a), c.dump(b)
        swapped = left > right
        first, second = (right, left) if swapped else (left, right)
        order = self._order(f"{first} | {second}")
        nulls = [self._unknown(text).null for text in (left, right)]
        return self._comparison(function, -order if swapped else order, 0, nulls)

    def _order(self, pair: str) -> Any:
        """How two values of the pair compare, as a number below, at or above 0."""
        order = self._z3.Int(f"order {pair}")
        self.facts.append(self._z3.And(order >= -1, order <= 1))
        return order

    def _comparison(self, function: str, a: Any, b: Any, nulls: list[Any]) -> _Term:
        z3, truth = self._z3, _COMPARED[function](a, b)
        null = z3.Or(nulls)
        if function == "nullsafeeq":
            return _Term(z3.Or(z3.And(nulls), z3.And(z3.Not(null), truth)), z3.BoolVal(False))
        return _Term(truth, null)

    def event(self, model: Any) -> Event:
        """Concrete values of the columns in a model of the solver."""
        event: dict[str, Any] = {}
        for column, term in self._columns.items():
            # z3's name for the value of a term in a model: no text is executed.
            null = model.eval(term.null, model_completion=True)
            value = model.eval(term.value, model_completion=True)
            missing = self._z3.is_true(null)
            event[dotted(column)] = None if missing else self._plain(value, self._kind(column))
        return event

    def _plain(self, value: Any, kind: Kind) -> Any:
        if kind.name == "boolean":
            return self._z3.is_true(value)
        if kind.name == "string":
            return value.as_string()
        if kind.name == "int":
            return value.as_long()
        if kind.name == "date":
            return (EPOCH + dt.timedelta(days=value.as_long())).date()
        if kind.name == "timestamp":
            moment = EPOCH_NTZ + dt.timedelta(microseconds=value.as_long())
            return moment.replace(tzinfo=dt.UTC) if kind.zoned else moment
        number = Fraction(value.as_fraction()) if hasattr(value, "as_fraction") else Fraction(0)
        if kind.name == "decimal":
            return Decimal(int(number * 10**kind.scale)).scaleb(-kind.scale, EXACT)
        if number.denominator == 1 and kind.bits == 64:
            return int(number)
        with np.errstate(over="ignore"):
            return float(np.float32(number) if kind.bits == 32 else np.float64(number))

    def _term(self, node: Typed) -> _Term:
        z3 = self._z3
        match node.operation:
            case "literal":
                return self._literal(node)
            case "leaf":
                return self._column(node)
            case "and" | "or":
                return self._joined(node.operation, *map(self._term, node.operands))
            case "not":
                inner = self._term(node.operands[0])
                return _Term(z3.Not(inner.value), inner.null)
            case "isnull":
                return _Term(self._term(node.operands[0]).null, z3.BoolVal(False))
            case "istrue":
                return _Term(self._true(self._term(node.operands[0])), z3.BoolVal(False))
            case "isfalse":
                return _Term(self._false(self._term(node.operands[0])), z3.BoolVal(False))
            case "in":
                return self._in(node)
            case "cast" if _exact_cast(node):
                inner = self._term(node.operands[0])
                return _Term(self._as_sort(inner.value, node.kind), inner.null)
            case "cast" if _from_days(node):
                inner = self._term(node.operands[0])
                return _Term(inner.value * _DAY, inner.null)
            case "cast" if node.kind == k.DOUBLE and node.operands[0].kind.name in _ROUNDED:
                return self._rounded(node)
            case operation if operation in _COMPARED:
                return self._compare(node)
            case "add" | "sub" | "mul" | "neg" if _whole(node) or _all_digits(node):
                return self._arithmetic(node)
            case "case":
                return self._case(node)
            case _:
                return self._unknown(_text(node), node.kind)

    def _rounded(self, node: Typed) -> _Term:
        """A wide integer or a decimal as a double: nearly the same, and often the same."""
        z3, inner = self._z3, self._term(node.operands[0])
        exact = self._as_sort(inner.value, node.kind)
        rounded = self._unknown(_text(node), node.kind).value
        low, high = exact * z3.RealVal(str(1 - _ROUNDING)), exact * z3.RealVal(str(1 + _ROUNDING))
        self.facts.append(
            z3.If(exact >= 0, _within(z3, low, rounded, high), _within(z3, high, rounded, low))
        )
        fits = z3.And(exact >= -_EXACT, exact <= _EXACT)
        if node.operands[0].kind.name == "decimal":
            fits = self._sixteenths(node.operands[0])
        self.facts.append(z3.Implies(fits, rounded == exact))
        self.preferred.append(rounded == exact)
        self.handy.append(z3.And(fits, exact >= -1000, exact <= 1000))
        return _Term(rounded, inner.null)

    def _sixteenths(self, node: Typed) -> Any:
        """Whether a short decimal column is a multiple of 1/16, which a double holds as it is."""
        kind = node.kind
        if node.operation != "leaf" or kind.precision > _DIGITS:
            return self._z3.BoolVal(False)
        step = 10**kind.scale // math.gcd(10**kind.scale, 16)
        return self._units(c.dump(node.origin).lower()) % step == 0

    def _units(self, name: str) -> Any:
        """A decimal column as a number of its last digit."""
        return self._z3.Int(f"units {name}")

    def _sort(self, kind: Kind) -> Any:
        z3 = self._z3
        match kind.name:
            case "boolean":
                return z3.BoolSort()
            case "string":
                return z3.StringSort()
            case "int" | "date" | "timestamp":
                return z3.IntSort()
            case _:
                return z3.RealSort()

    def _literal(self, node: Typed) -> _Term:
        z3, value = self._z3, node.value
        false = z3.BoolVal(False)
        if value is None:
            return _Term(z3.FreshConst(self._sort(node.kind)), z3.BoolVal(True))
        match node.kind.name:
            case "boolean":
                return _Term(z3.BoolVal(bool(value)), false)
            case "string":
                return _Term(z3.StringVal(value), false)
            case "int":
                return _Term(z3.IntVal(value), false)
            case "date" | "timestamp":
                return self._moment(node)
            case "float" | "decimal" if not isinstance(value, float) or math.isfinite(value):
                return _Term(z3.RealVal(str(Fraction(value))), false)
            case _:
                return self._unknown(_text(node), node.kind)

    def _column(self, node: Typed) -> _Term:
        column = node.origin
        assert isinstance(column, c.Column)
        if node.kind.name not in _MODELLED:
            return self._unknown(c.dump(column), node.kind)
        if column not in self._columns:
            name = c.dump(column).lower()
            value = self._z3.Const(name, self._sort(node.kind))
            self._columns[column] = _Term(value, self._z3.Bool(f"null {name}"))
            self._held(value, node.kind, name)
        return self._columns[column]

    def _held(self, value: Any, kind: Kind, name: str) -> None:
        """What a column of the type can hold."""
        z3 = self._z3
        if kind.temporal:
            unit = 1 if kind.name == "date" else _DAY
            self.facts.append(z3.And(value >= _FIRST_DAY * unit, value <= _LAST_DAY * unit))
        elif kind.name == "int":
            first, last = k.bounds(kind)
            self.facts.append(z3.And(value >= first, value <= last))
        elif kind.name == "decimal":
            units, most = self._units(name), 10**kind.precision
            self.facts.append(z3.And(units > -most, units < most))
            self.facts.append(value * 10**kind.scale == z3.ToReal(units))

    def _unknown(self, text: str, kind: Kind = k.BOOLEAN) -> _Term:
        key = (text, kind.name)
        if key not in self._opaque:
            value = self._z3.Const(f"opaque {text}", self._sort(kind))
            self._opaque[key] = _Term(value, self._z3.Bool(f"null opaque {text}"))
        return self._opaque[key]

    def _joined(self, operation: str, a: _Term, b: _Term) -> _Term:
        z3 = self._z3
        null = z3.Or(a.null, b.null)
        if operation == "and":
            false = z3.Or(self._false(a), self._false(b))
            return _Term(z3.And(a.value, b.value), z3.And(null, z3.Not(false)))
        true = z3.Or(self._true(a), self._true(b))
        return _Term(true, z3.And(null, z3.Not(true)))

    def _case(self, node: Typed) -> _Term:
        z3 = self._z3
        *branches, default = node.operands
        result = self._term(default)
        for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
            asked, chosen = self._term(condition), self._term(value)
            if chosen.value.sort() != result.value.sort():
                return self._unknown(_text(node), node.kind)
            holds = self._true(asked)
            result = _Term(
                z3.If(holds, chosen.value, result.value), z3.If(holds, chosen.null, result.null)
            )
        return result

    def _moment(self, node: Typed) -> _Term:
        """A date or time written out, as a number of days or microseconds."""
        if not isinstance(node.value, (dt.date, dt.datetime)):
            return self._unknown(_text(node), node.kind)
        number, _ = bits_of(node.value, node.kind)
        return _Term(self._z3.IntVal(number), self._z3.BoolVal(False))

    def _in(self, node: Typed) -> _Term:
        z3 = self._z3
        subject, *choices = (self._term(operand) for operand in node.operands)
        if any(str(choice.value.sort()) != str(subject.value.sort()) for choice in choices):
            return self._unknown(_text(node), node.kind)
        equal = z3.Or([z3.And(z3.Not(x.null), subject.value == x.value) for x in choices])
        null = z3.Or(subject.null, z3.And(z3.Not(equal), z3.Or([x.null for x in choices])))
        return _Term(equal, null)

    def _compare(self, node: Typed) -> _Term:
        one, two = node.operands
        a, b = self._beside(one, two), self._beside(two, one)
        left, right = a.value, b.value
        if node.operation in _STRICT and one.kind.name == "boolean":
            return self._unknown(_text(node), node.kind)
        if node.operation in _STRICT and one.kind.name == "string":
            # Spark orders strings by bytes, z3 by code points: keep trichotomy, nothing more.
            order = self._order(f"of texts {left} | {right}")
            self.facts.append((order == 0) == (left == right))
            left, right = order, 0
        return self._comparison(node.operation, left, right, [a.null, b.null])

    def _beside(self, node: Typed, other: Typed) -> _Term:
        """An operand of a comparison. A short decimal compares with a double as with the decimal
        that is read as that double, if there is one: no two are read alike."""
        if _short_decimal(node) and other.operation == "literal":
            return self._term(node.operands[0])
        if node.operation == "literal" and node.value is not None and _short_decimal(other):
            value = float(node.value)
            if math.isfinite(value):
                written = round(Fraction(value), other.operands[0].kind.scale)
                exact = written if float(written) == value else Fraction(value)
                return _Term(self._z3.RealVal(str(exact)), self._z3.BoolVal(False))
        return self._term(node)

    def _arithmetic(self, node: Typed) -> _Term:
        terms = [self._term(operand) for operand in node.operands]
        value = _ARITHMETIC[node.operation](*(term.value for term in terms))
        return _Term(value, self._z3.Or([term.null for term in terms]))

    def _as_sort(self, value: Any, kind: Kind) -> Any:
        real = self._sort(kind) == self._z3.RealSort()
        return self._z3.ToReal(value) if real and value.is_int() else value


def dotted(column: c.Column) -> str:
    return ".".join((column.name, *column.path))


def _text(node: Typed) -> str:
    """The same for nodes that compute the same. A cast that types have put in has no text of its
    own, and one text may hold two comparisons (BETWEEN)."""
    if node.operation in ("cast", "trycast"):
        return f"{node.operation} {_text(node.operands[0])} as {node.kind}"
    return f"{node.operation} {c.dump(node.origin)}"


def _exact_cast(node: Typed) -> bool:
    """Casts that keep the value, where they do not fail."""
    given, wanted = node.operands[0].kind, node.kind
    match given.name, wanted.name:
        case ("int", "int") | ("float", "float"):
            return given.bits <= wanted.bits
        case "int", "decimal":
            return True
        case "decimal", "decimal":
            return given.scale <= wanted.scale
        case "int", "float":
            return given.bits <= wanted.bits // 2
        case "decimal", "float":
            return given.scale == 0 and given.precision <= _DIGITS and wanted.bits == 64
        case _:
            return False


def _short_decimal(node: Typed) -> bool:
    """A decimal of so few digits, cast to a double, that the double tells which it was."""
    given = node.operands[0].kind if node.operation == "cast" else node.kind
    return node.kind == k.DOUBLE and given.name == "decimal" and given.precision <= _DIGITS


def _within(z3: Any, low: Any, value: Any, high: Any) -> Any:
    return z3.And(low <= value, value <= high)


def _from_days(node: Typed) -> bool:
    """A date as the midnight it begins with, which in a time zone takes a calendar."""
    wall = node.kind.name == "timestamp" and not node.kind.zoned
    return wall and node.operands[0].kind.name == "date"


def _whole(node: Typed) -> bool:
    return node.kind.name == "int" and all(o.kind.name == "int" for o in node.operands)


def _all_digits(node: Typed) -> bool:
    """Whether the decimal that Spark computes has all digits of the result."""
    if node.kind.name != "decimal" or any(o.kind.name != "decimal" for o in node.operands):
        return False
    scales = [operand.kind.scale for operand in node.operands]
    return node.kind.scale == (sum(scales) if node.operation == "mul" else max(scales))


def flat(value: c.Argument) -> list[Any]:
    """The conditions of an argument, which may be several."""
    if isinstance(value, tuple):
        return [inner for item in value for inner in flat(item)]
    return [value] if isinstance(value, c.Condition) else []
