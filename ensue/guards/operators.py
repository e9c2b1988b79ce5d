"""Operators of guards: a typed expression to instructions of the register machine.

`scalar/infer.py` has typed the expression and made every cast explicit, as for the other
evaluators; here each kind is put in a bank, so that the machine of `guards/machine.py` knows only
integers and floats. What reads the match (navigation, aggregates) is added by `compile.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ensue.guards import machine as vm
from ensue.query import condition as c
from ensue.scalar import kinds
from ensue.scalar.casts import EPOCH, EXACT, MICROSECOND, is_fixed, is_utc, micros_of, never_fails
from ensue.scalar.functions import CATALOGUE
from ensue.scalar.infer import Typed, typed

_EXACT_POWERS = 22  # of ten, as floats
_DAY = 86_400_000_000
_COMPARE = {
    "eq": (vm.EQUAL, False),
    "neq": (vm.NOT_EQUAL, False),
    "lt": (vm.LESS, False),
    "lte": (vm.LESS_EQUAL, False),
    "gt": (vm.LESS, True),
    "gte": (vm.LESS_EQUAL, True),
    "nullsafeeq": (vm.SAME, False),
}
_SUMS = {"add": vm.ADD, "sub": vm.SUBTRACT}
_ARITHMETIC = {**_SUMS, "mul": vm.MULTIPLY, "mod": vm.MODULO}
_UNARY = {"neg": vm.NEGATE, "abs": vm.ABSOLUTE}
_FLOATING = {
    "sqrt": vm.ROOT,
    "exp": vm.EXPONENTIAL,
    "ln": vm.LOGARITHM,
    "log": vm.LOGARITHM,
    "power": vm.POWER,
}
_EXTREMES = {"greatest": vm.GREATEST, "least": vm.LEAST}
_LOGIC = {
    "not": vm.NOT,
    "isnull": vm.IS_NULL,
    "istrue": vm.IS_TRUE,
    "isfalse": vm.IS_FALSE,
}
_NUMBERED = ("int", "float", "decimal", "boolean", "date", "timestamp", "interval", "null")
_ORDERED = (*_NUMBERED, "string")


class TooHardError(Exception):
    """A condition that the register machine cannot hold; the message is the reason."""


@dataclass(frozen=True)
class Value:
    """A cell and what it holds."""

    cell: int
    kind: kinds.Kind

    @property
    def floating(self) -> bool:
        return self.kind.name == "float"


class Operators(ABC):
    """Emits code; a subclass knows the leaves."""

    def __init__(self, zone: str = kinds.DEFAULT_ZONE) -> None:
        self._zone = zone
        self._literals: dict[str, int] = {}
        self._code: list[list[int]] = []
        self._cells = 0
        self._int_constants: list[int] = []
        self._float_constants: list[float] = [1.0]

    @abstractmethod
    def _leaf(self, node: c.Condition) -> Value:
        """The value of a column, navigation, aggregate or match number."""

    @abstractmethod
    def _leaf_kind(self, node: c.Condition) -> kinds.Kind:
        """The kind of such a value."""

    def _condition(self, condition: c.Condition) -> Value:
        return self._expression(typed(condition, self._leaf_kind, self._zone))

    def _expression(self, node: Typed) -> Value:
        match node.operation:
            case "literal":
                return self._literal(node)
            case "leaf":
                return self._leaf(node.origin)
            case "cast":
                return self._cast(self._expression(node.operands[0]), node.kind)
            case "and" | "or":
                return self._logic(node)
            case "case":
                *branches, default = node.operands
                pairs = zip(branches[::2], branches[1::2], strict=True)
                return self._choice([*pairs, (None, default)], node.kind)
            case "coalesce":
                return self._coalesce(node)
            case "in":
                return self._in(node)
            case _:
                return self._function(node)

    # -- emitting --------------------------------------------------------------------------------

    def _cell(self) -> int:
        self._cells += 1
        return self._cells - 1

    def _emit(self, operation: int, target: int, a: int = 0, b: int = 0) -> int:
        self._code.append([operation, target, a, b])
        return len(self._code) - 1

    def _value(self, operation: int, kind: kinds.Kind, a: int = 0, b: int = 0) -> Value:
        target = self._cell()
        self._emit(operation, target, a, b)
        return Value(target, kind)

    def _literal(self, node: Typed) -> Value:
        value, kind = node.value, node.kind
        if value is None:
            return self._value(vm.NULL, kind)
        match kind.name:
            case "boolean" | "int":
                return self._int_constant(int(value), kind)
            case "float":
                return Value(self._float_constant(float(value)).cell, kind)
            case "decimal":
                return self._int_constant(int(value.scaleb(kind.scale, EXACT)), kind)
            case "date":
                return self._int_constant((value - EPOCH.date()).days, kind)
            case "timestamp":
                return self._int_constant(micros_of(value), kind)
            case "interval":
                return self._int_constant(value // MICROSECOND, kind)
            case "string":
                place = self._literals.setdefault(value, len(self._literals))
                return self._value(vm.INT_CONSTANT, kind, -1 - place)
            case _:
                raise TooHardError(f"a constant of type {kind}")

    def _int_constant(self, number: int, kind: kinds.Kind) -> Value:
        self._int_constants.append(self._fitting(number))
        return self._value(vm.INT_CONSTANT, kind, len(self._int_constants) - 1)

    @staticmethod
    def _fitting(number: int) -> int:
        if not -(2**63) <= number < 2**63:
            raise TooHardError("an exact number in it does not fit 64 bits")
        return number

    def _float_constant(self, number: float) -> Value:
        return self._value(vm.FLOAT_CONSTANT, kinds.DOUBLE, self._float_place(number))

    # -- functions -------------------------------------------------------------------------------

    def _function(self, node: Typed) -> Value:
        name = node.operation
        if name in _LOGIC:
            operand = self._expression(node.operands[0])
            return self._value(_LOGIC[name], kinds.BOOLEAN, operand.cell)
        if name in _COMPARE:
            if name == "nullsafeeq":
                return self._compare(name, *map(self._expression, node.operands))
            return self._stopping(node, lambda left, right: self._compare(name, left, right))
        if name in _UNARY and node.kind.numeric:
            value = self._expression(node.operands[0])
            operation = _UNARY[name] + value.floating
            return self._narrowed(self._value(operation, node.kind, value.cell))
        if name in (*_ARITHMETIC, "div", "intdiv"):
            return self._arithmetic(node)
        if name in _EXTREMES and node.kind.name in _NUMBERED:
            first, *others = map(self._expression, node.operands)
            operation = _EXTREMES[name] + (node.kind.name == "float")
            for other in others:
                first = self._value(operation, node.kind, first.cell, other.cell)
            return first
        if name in _FLOATING and node.kind == kinds.DOUBLE:
            if name == "power":
                return self._stopping(
                    node, lambda a, b: self._value(vm.POWER, node.kind, a.cell, b.cell)
                )
            if len(node.operands) == 1:
                value = self._expression(node.operands[0])
                return self._value(_FLOATING[name], node.kind, value.cell)
        written = node.origin.function if isinstance(node.origin, c.Call) else name
        if name == "trycast":
            written = "TRY_CAST"
        raise TooHardError(f"the function {written} over other events")

    def _compare(self, name: str, left: Value, right: Value) -> Value:
        if left.kind.name not in _ORDERED:
            raise TooHardError(f"values of type {left.kind} are compared")
        operation, swapped = _COMPARE[name]
        if swapped:
            left, right = right, left
        return self._value(operation + left.floating, kinds.BOOLEAN, left.cell, right.cell)

    def _arithmetic(self, node: Typed) -> Value:
        assert node.signature is not None
        name, result = node.operation, node.kind
        a, b = node.signature.parameters
        if a.numeric and b.numeric:
            if a.name == "decimal":
                self._require_exact(name, a, b, result)
            return self._stopping(node, lambda left, right: self._number(node, left, right))
        if name == "sub" and a.name == b.name == "timestamp" and not self._on_the_clock(a):
            left, right = map(self._clock_reading, node.operands)
            return self._value(vm.SUBTRACT, result, left.cell, right.cell)
        if name not in _SUMS or not self._is_plain_time(node):
            raise TooHardError(f"{name} of {a} and {b}")
        return self._stopping(node, lambda left, right: self._time(node, left, right))

    def _number(self, node: Typed, left: Value, right: Value) -> Value:
        name, result = node.operation, node.kind
        if name == "div":
            return self._divided(left, right)
        if name == "intdiv":
            return self._value(vm.DIVIDE_WHOLE, result, left.cell, right.cell)
        if result.name == "decimal" and name != "mul":
            left, right = self._scaled(left, result.scale), self._scaled(right, result.scale)
        operation = _ARITHMETIC[name] + left.floating
        return self._narrowed(self._value(operation, result, left.cell, right.cell))

    def _time(self, node: Typed, left: Value, right: Value) -> Value:
        name, result = node.operation, node.kind
        if left.kind.name == right.kind.name == "date":
            days = self._value(vm.SUBTRACT, kinds.BIGINT, left.cell, right.cell)
            day = self._int_constant(_DAY, kinds.BIGINT)
            return self._value(vm.MULTIPLY, result, days.cell, day.cell)
        return self._narrowed(self._value(_SUMS[name], result, left.cell, right.cell))

    @staticmethod
    def _skips(node: Typed) -> bool:
        """Whether an operand that can fail stands behind one that may be null."""
        entry = CATALOGUE.get(node.operation)
        if entry is None or not entry.stops_at_null:
            return False
        return any(node.operands[place].fails for place in entry.order(len(node.operands))[1:])

    def _stopping(self, node: Typed, operate: Callable[[Value, Value], Value]) -> Value:
        """The result of two operands; where the first of them is null, the other is not asked."""
        first, second = CATALOGUE[node.operation].order(2)
        values = {first: self._expression(node.operands[first])}
        target = self._cell() if self._skips(node) else -1
        jump = self._emit(vm.JUMP_IF_NULL, target, values[first].cell) if target >= 0 else -1
        values[second] = self._expression(node.operands[second])
        result = operate(values[0], values[1])
        if target < 0:
            return result
        # The last instruction leaves the result where the jump left a null.
        assert self._code[-1][1] == result.cell
        self._code[-1][1] = target
        self._code[jump][3] = len(self._code)
        return Value(target, result.kind)

    @staticmethod
    def _require_exact(name: str, a: kinds.Kind, b: kinds.Kind, result: kinds.Kind) -> None:
        """Sums and products that keep all their digits."""
        digits = a.scale + b.scale if name == "mul" else max(a.scale, b.scale)
        if name not in ("add", "sub", "mul") or result.scale != digits:
            raise TooHardError(f"{name} of decimals is computed exactly")

    def _is_plain_time(self, node: Typed) -> bool:
        """Whether times and intervals are moved by counting microseconds."""
        assert node.signature is not None
        a, b = node.signature.parameters
        if node.kind.name == "interval":
            return a.name == b.name and a.name in ("date", "timestamp", "interval")
        if node.kind.name == "date":
            return {a.name, b.name} == {"date", "int"}
        if {a.name, b.name} != {"timestamp", "interval"}:
            return False
        # Elsewhere a day is not always 24 hours.
        interval = node.operands[0 if a.name == "interval" else 1]
        short = isinstance(interval.value, timedelta) and abs(interval.value) < timedelta(days=1)
        return short or self._on_the_clock(node.kind)

    def _on_the_clock(self, kind: kinds.Kind) -> bool:
        """Whether a day of this kind always has 24 hours."""
        return not kind.zoned or is_fixed(self._zone)

    def _clock_reading(self, node: Typed) -> Value:
        """What the clocks of the zone show, by which Spark tells the time between two instants."""
        raise TooHardError(f"the time between two instants by the clocks of {self._zone}")

    def _narrowed(self, value: Value) -> Value:
        """The result of an operator in its own width; Spark checks and rounds the narrow type."""
        if value.kind == kinds.FLOAT:
            return self._value(vm.TO_SINGLE, value.kind, value.cell)
        bits = 32 if value.kind.name == "date" else value.kind.bits
        if value.kind.name in ("int", "date") and bits < 64:
            return self._value(vm.FIT_BITS, value.kind, value.cell, bits)
        return value

    def _divided(self, left: Value, right: Value) -> Value:
        return self._value(vm.DIVIDE_FLOAT, kinds.DOUBLE, left.cell, right.cell)

    # -- casts -----------------------------------------------------------------------------------

    def _cast(self, value: Value, wanted: kinds.Kind) -> Value:
        given = value.kind
        same = Value(value.cell, wanted)
        match given.name, wanted.name:
            case ("null", _) | ("interval", "interval") | ("boolean", "int"):
                return same
            case ("int", "int"):
                return same if wanted.bits >= given.bits else self._narrowed(same)
            case ("float", "float"):
                return same if wanted.bits >= given.bits else self._narrowed(same)
            case ("int" | "boolean", "float") if wanted.bits == 32:
                return self._value(vm.INT_TO_SINGLE, wanted, value.cell)
            case ("int" | "boolean" | "decimal", "float") if wanted.bits == 64:
                return self._as_float(value)
            case ("int" | "decimal", "decimal") if wanted.scale >= given.scale and never_fails(
                given, wanted
            ):
                return Value(self._scaled(value, wanted.scale).cell, wanted)
            case ("date", "timestamp") if not wanted.zoned or is_utc(self._zone):
                day = self._int_constant(_DAY, kinds.BIGINT)
                return self._value(vm.MULTIPLY, wanted, value.cell, day.cell)
            case ("timestamp", "timestamp") if given.zoned == wanted.zoned or is_utc(self._zone):
                return same
        raise TooHardError(f"a cast of {given} to {wanted}")

    def _scaled(self, value: Value, scale: int) -> Value:
        """A decimal with more digits after the point."""
        kind = kinds.decimal(kinds.as_decimal(value.kind).precision, scale)
        if scale == value.kind.scale:
            return Value(value.cell, kind)
        factor = self._int_constant(10 ** (scale - value.kind.scale), kinds.BIGINT)
        return self._value(vm.MULTIPLY, kind, value.cell, factor.cell)

    def _as_float(self, value: Value) -> Value:
        if value.floating or value.kind.name == "null":
            return Value(value.cell, kinds.DOUBLE)
        place = self._float_place(self._power_of_ten(value.kind.scale))
        return self._value(vm.TO_FLOAT, kinds.DOUBLE, value.cell, place)

    def _float_place(self, number: float) -> int:
        self._float_constants.append(number)
        return len(self._float_constants) - 1

    @staticmethod
    def _power_of_ten(scale: int) -> float:
        if scale > _EXACT_POWERS:
            raise TooHardError(f"a decimal of {scale} digits after the point is read as a double")
        return float(10**scale)

    # -- what looks at its operands one at a time ------------------------------------------------

    def _logic(self, node: Typed) -> Value:
        conjunctive = node.operation == "and"
        left = self._expression(node.operands[0])
        target = self._cell()
        self._emit(vm.MOVE_INT, target, left.cell)
        jump = self._emit(vm.JUMP_IF_FALSE if conjunctive else vm.JUMP_IF_TRUE, target, left.cell)
        right = self._expression(node.operands[1])
        self._emit(vm.AND if conjunctive else vm.OR, target, left.cell, right.cell)
        self._code[jump][3] = len(self._code)
        return Value(target, kinds.BOOLEAN)

    def _choice(self, branches: Sequence[tuple[Typed | None, Typed]], kind: kinds.Kind) -> Value:
        """The value of the first branch that holds (condition None: always)."""
        target, exits = self._cell(), []
        for condition, result in branches:
            skip = None
            if condition is not None:
                holds = self._expression(condition)
                skip = self._emit(vm.JUMP_UNLESS_TRUE, target, holds.cell)
            self._move(target, self._expression(result), kind)
            exits.append(self._emit(vm.JUMP, target))
            if skip is not None:
                self._code[skip][3] = len(self._code)
        return self._joined(target, exits, kind)

    def _coalesce(self, node: Typed) -> Value:
        target, exits = self._cell(), []
        for operand in node.operands:
            self._move(target, self._expression(operand), node.kind)
            exits.append(self._emit(vm.JUMP_IF_VALUE, target, target))
        return self._joined(target, exits, node.kind)

    def _in(self, node: Typed) -> Value:
        """The choices are asked in turn, and none where the subject is null."""
        subject = self._expression(node.operands[0])
        target = self._cell()
        self._emit(vm.NULL, target)
        null = self._value(vm.IS_NULL, kinds.BOOLEAN, subject.cell)
        exits = [self._emit(vm.JUMP_IF_TRUE, target, null.cell)]
        for index, choice in enumerate(node.operands[1:]):
            equal = self._compare("eq", subject, self._expression(choice))
            if index:
                self._emit(vm.OR, target, target, equal.cell)
            else:
                self._emit(vm.MOVE_INT, target, equal.cell)
            exits.append(self._emit(vm.JUMP_IF_TRUE, target, target))
        return self._joined(target, exits, kinds.BOOLEAN)

    def _move(self, target: int, value: Value, kind: kinds.Kind) -> None:
        self._emit(vm.MOVE_FLOAT if kind.name == "float" else vm.MOVE_INT, target, value.cell)

    def _joined(self, target: int, exits: list[int], kind: kinds.Kind) -> Value:
        for place in exits:
            self._code[place][3] = len(self._code)
        return Value(target, kind)
