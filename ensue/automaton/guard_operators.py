"""Operators of guards: an expression over values to instructions of the register machine.

Types are resolved here, so that the machine of `kernels/guards.py` knows only integers and floats.
What reads the match (navigation, aggregates) is added by `guards.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal

from ensue.kernels import guards as vm
from ensue.pattern import condition as c
from ensue.pattern import kinds
from ensue.pattern.duration import MICROSECONDS

_DIGITS = 38
_COMPARE = {
    "eq": (vm.EQUAL, False),
    "neq": (vm.NOT_EQUAL, False),
    "lt": (vm.LESS, False),
    "lte": (vm.LESS_EQUAL, False),
    "gt": (vm.LESS, True),
    "gte": (vm.LESS_EQUAL, True),
    "nullsafeeq": (vm.SAME, False),
}
_ARITHMETIC = {"add": vm.ADD, "sub": vm.SUBTRACT, "mul": vm.MULTIPLY, "mod": vm.MODULO}


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

    def __init__(self) -> None:
        self._literals: dict[str, int] = {}
        self._code: list[list[int]] = []
        self._cells = 0
        self._int_constants: list[int] = []
        self._float_constants: list[float] = [1.0]

    @abstractmethod
    def _leaf(self, node: c.Condition) -> Value:
        """The value of a column, navigation, aggregate or match number."""

    def _expression(self, node: c.Condition) -> Value:
        match node:
            case c.Literal():
                return self._literal(node)
            case c.Call():
                return self._call(node)
            case _:
                return self._leaf(node)

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

    def _literal(self, node: c.Literal) -> Value:
        match node.kind:
            case "null":
                return self._value(vm.NULL, kinds.NULL)
            case "boolean":
                return self._int_constant(int(bool(node.value)), kinds.BOOLEAN)
            case "int":
                number = int(node.value)  # type: ignore[arg-type]
                kind = kinds.INT if abs(number) < 2**31 else kinds.BIGINT
                return self._int_constant(number, kind)
            case "double":
                return self._float_constant(float(node.value))  # type: ignore[arg-type]
            case "decimal":
                value = Decimal(node.value)  # type: ignore[arg-type]
                digits, exponent = value.as_tuple().digits, int(value.as_tuple().exponent)
                scale = max(0, -exponent)
                precision = max(len(digits) + max(0, exponent), scale)
                return self._int_constant(
                    int(value.scaleb(scale)), self._fitting(kinds.decimal(precision, scale))
                )
            case _:
                text = str(node.value)
                place = self._literals.setdefault(text, len(self._literals))
                return self._value(vm.INT_CONSTANT, kinds.STRING, -1 - place)

    def _int_constant(self, number: int, kind: kinds.Kind) -> Value:
        if abs(number) > 2**63 - 1:
            raise TooHardError("an exact number in it does not fit 64 bits")
        self._int_constants.append(number)
        return self._value(vm.INT_CONSTANT, kind, len(self._int_constants) - 1)

    def _float_constant(self, number: float) -> Value:
        self._float_constants.append(number)
        return self._value(vm.FLOAT_CONSTANT, kinds.DOUBLE, len(self._float_constants) - 1)

    def _fitting(self, kind: kinds.Kind) -> kinds.Kind:
        if kind.precision > _DIGITS:
            raise TooHardError(f"{kind} has more than {_DIGITS} digits")
        return kind

    # -- operators -------------------------------------------------------------------------------

    def _call(self, node: c.Call) -> Value:
        name = node.function
        if name in ("and", "or"):
            return self._logic(node)
        if name in _COMPARE:
            return self._compare(name, *(self._operand(node, r) for r in ("this", "expression")))
        if name in _ARITHMETIC:
            left, right = (self._operand(node, r) for r in ("this", "expression"))
            return self._arithmetic(name, left, right)
        match name:
            case "not":
                return self._value(vm.NOT, kinds.BOOLEAN, self._boolean(node["this"]).cell)
            case "neg" | "abs":
                value = self._operand(node, "this")
                if not value.kind.numeric:
                    raise TooHardError(f"{name} of {value.kind}")
                operation = vm.NEGATE if name == "neg" else vm.ABSOLUTE
                return self._value(operation + value.floating, value.kind, value.cell)
            case "is":
                return self._is(node)
            case "between":
                value = self._operand(node, "this")
                low = self._compare("gte", value, self._operand(node, "low"))
                high = self._compare("lte", value, self._operand(node, "high"))
                return self._value(vm.AND, kinds.BOOLEAN, low.cell, high.cell)
            case "in":
                return self._in(node)
            case "div":
                left, right = (self._operand(node, r) for r in ("this", "expression"))
                if "decimal" in (left.kind.name, right.kind.name) and not (
                    left.floating or right.floating
                ):
                    raise TooHardError("a division of decimals is computed exactly")
                return self._divided(self._as_float(left), self._as_float(right))
            case "intdiv":
                left, right = (self._operand(node, r) for r in ("this", "expression"))
                if left.kind.name != "int" or right.kind.name != "int":
                    raise TooHardError("DIV of anything but integers")
                return self._value(vm.DIVIDE_WHOLE, kinds.BIGINT, left.cell, right.cell)
            case "interval":
                return self._interval(node)
            case "coalesce":
                return self._choice(
                    [(None, v) for v in (node["this"], *_items(node["expressions"]))], None
                )
            case "case":
                return self._case(node)
            case "if":
                return self._choice([(node["this"], node["true"])], node["false"])
            case "cast":
                return self._cast(node)
            case _:
                raise TooHardError(f"the function {name} over other events")

    def _operand(self, node: c.Call, role: str) -> Value:
        value = node[role]
        if not isinstance(value, c.CONDITIONS):
            raise TooHardError(f"the form of {node.function}")
        return self._expression(value)

    def _boolean(self, argument: c.Argument) -> Value:
        if not isinstance(argument, c.CONDITIONS):
            raise TooHardError("a condition is missing")
        value = self._expression(argument)
        if value.kind.name not in ("boolean", "null"):
            raise TooHardError(f"{value.kind} used as a condition")
        return value

    def _logic(self, node: c.Call) -> Value:
        conjunctive = node.function == "and"
        left = self._boolean(node["this"])
        target = self._cell()
        self._emit(vm.MOVE_INT, target, left.cell)
        jump = self._emit(vm.JUMP_IF_FALSE if conjunctive else vm.JUMP_IF_TRUE, target, left.cell)
        right = self._boolean(node["expression"])
        self._emit(vm.AND if conjunctive else vm.OR, target, left.cell, right.cell)
        self._code[jump][3] = len(self._code)
        return Value(target, kinds.BOOLEAN)

    def _compare(self, name: str, left: Value, right: Value) -> Value:
        operation, swapped = _COMPARE[name]
        left, right = self._alike(left, right)
        if swapped:
            left, right = right, left
        return self._value(operation + left.floating, kinds.BOOLEAN, left.cell, right.cell)

    def _alike(self, left: Value, right: Value) -> tuple[Value, Value]:
        """Both in one bank and scale, so that comparing numbers compares values."""
        if left.kind.numeric and right.kind.numeric:
            if left.floating or right.floating:
                return self._as_float(left), self._as_float(right)
            if "decimal" in (left.kind.name, right.kind.name):
                scale = max(left.kind.scale, right.kind.scale)
                return self._scaled(left, scale), self._scaled(right, scale)
            return left, right
        names = {left.kind.name, right.kind.name} - {"null"}
        if len(names) <= 1:
            if left.kind.name == "null" and right.floating:
                left = self._value(vm.MOVE_FLOAT, kinds.DOUBLE, left.cell)
            if right.kind.name == "null" and left.floating:
                right = self._value(vm.MOVE_FLOAT, kinds.DOUBLE, right.cell)
            if left.kind.zoned == right.kind.zoned or "timestamp" not in names:
                return left, right
        raise TooHardError(f"{left.kind} compared with {right.kind}")

    def _scaled(self, value: Value, scale: int) -> Value:
        exact = kinds.as_decimal(value.kind)
        digits = exact.precision + scale - exact.scale
        kind = self._fitting(kinds.decimal(max(digits, 1), scale))
        if scale == exact.scale:
            return Value(value.cell, kind)
        factor = self._int_constant(10 ** (scale - exact.scale), kinds.BIGINT)
        return self._value(vm.MULTIPLY, kind, value.cell, factor.cell)

    def _as_float(self, value: Value) -> Value:
        if value.floating:
            return value
        if not (value.kind.numeric or value.kind.name == "null"):
            raise TooHardError(f"{value.kind} used as a number")
        self._float_constants.append(float(10**value.kind.scale))
        place = len(self._float_constants) - 1
        return self._value(vm.TO_FLOAT, kinds.DOUBLE, value.cell, place)

    def _divided(self, left: Value, right: Value) -> Value:
        return self._value(vm.DIVIDE_FLOAT, kinds.DOUBLE, left.cell, right.cell)

    def _arithmetic(self, name: str, left: Value, right: Value) -> Value:
        operation = _ARITHMETIC[name]
        if left.kind.numeric and right.kind.numeric:
            return self._numeric(name, operation, left, right)
        pair = (left.kind.name, right.kind.name)
        if name == "sub" and pair == ("timestamp", "timestamp"):
            return self._value(operation, kinds.INTERVAL, left.cell, right.cell)
        if name == "sub" and pair == ("date", "date"):
            day = self._int_constant(86_400_000_000, kinds.BIGINT)
            days = self._value(operation, kinds.BIGINT, left.cell, right.cell)
            return self._value(vm.MULTIPLY, kinds.DAYS, days.cell, day.cell)
        if name in ("add", "sub") and pair == ("timestamp", "interval"):
            return self._value(operation, left.kind, left.cell, right.cell)
        if name in ("add", "sub") and pair == ("interval", "interval"):
            return self._value(operation, kinds.INTERVAL, left.cell, right.cell)
        raise TooHardError(f"{name} of {left.kind} and {right.kind}")

    def _numeric(self, name: str, operation: int, left: Value, right: Value) -> Value:
        if left.floating or right.floating:
            left, right = self._as_float(left), self._as_float(right)
            return self._value(operation + 1, kinds.DOUBLE, left.cell, right.cell)
        if left.kind.name == right.kind.name == "int":
            result = left.kind if left.kind.bits >= right.kind.bits else right.kind
            if result.bits < 64 and name != "mod":
                # Spark checks the narrow type; the wide result would hide its overflow.
                return self._checked(operation, left, right, result)
            return self._value(operation, result, left.cell, right.cell)
        a, b = kinds.as_decimal(left.kind), kinds.as_decimal(right.kind)
        if name == "mul":
            kind = self._fitting(kinds.product_kind(a, b))
            return self._value(operation, kind, left.cell, right.cell)
        if name == "mod":
            raise TooHardError("the remainder of decimals is computed exactly")
        kind = self._fitting(kinds.sum_kind(a, b))
        left, right = self._scaled(left, kind.scale), self._scaled(right, kind.scale)
        return self._value(operation, kind, left.cell, right.cell)

    def _checked(self, operation: int, left: Value, right: Value, result: kinds.Kind) -> Value:
        value = self._value(operation, result, left.cell, right.cell)
        # Scaling up and back by 2**(64 - bits) overflows exactly where the narrow type does.
        factor = self._int_constant(2 ** (64 - result.bits), kinds.BIGINT)
        self._value(vm.MULTIPLY, kinds.BIGINT, value.cell, factor.cell)
        return value

    def _is(self, node: c.Call) -> Value:
        literal = node["expression"]
        value = self._operand(node, "this")
        if isinstance(literal, c.Literal) and literal.kind == "null":
            return self._value(vm.IS_NULL, kinds.BOOLEAN, value.cell)
        if isinstance(literal, c.Literal) and literal.kind == "boolean":
            operation = vm.IS_TRUE if literal.value else vm.IS_FALSE
            return self._value(operation, kinds.BOOLEAN, value.cell)
        raise TooHardError("IS with anything but NULL, TRUE or FALSE")

    def _in(self, node: c.Call) -> Value:
        value = self._operand(node, "this")
        result: Value | None = None
        for item in _items(node["expressions"]):
            if not isinstance(item, c.CONDITIONS):
                raise TooHardError("the form of IN")
            equal = self._compare("eq", value, self._expression(item))
            result = (
                equal
                if result is None
                else self._value(vm.OR, kinds.BOOLEAN, result.cell, equal.cell)
            )
        if result is None:
            raise TooHardError("IN over a sub-query or array")
        return result

    def _interval(self, node: c.Call) -> Value:
        amount, unit = node["this"], node["unit"]
        word = str(unit["this"]).lower() if isinstance(unit, c.Call) else ""
        if not isinstance(amount, c.Literal) or word not in MICROSECONDS:
            raise TooHardError("an interval that is not a number of days or smaller units")
        try:
            size = Decimal(str(amount.value)) * MICROSECONDS[word]
        except ArithmeticError:
            raise TooHardError("an interval of several fields") from None
        return self._int_constant(int(size), kinds.INTERVAL)

    def _case(self, node: c.Call) -> Value:
        if node["this"] is not None:
            raise TooHardError("CASE with an operand")
        branches: list[tuple[c.Argument, c.Argument]] = []
        for branch in _items(node["ifs"]):
            if not isinstance(branch, c.Call):
                raise TooHardError("the form of CASE")
            branches.append((branch["this"], branch["true"]))
        return self._choice(branches, node["default"])

    def _choice(
        self, branches: list[tuple[c.Argument, c.Argument]], otherwise: c.Argument
    ) -> Value:
        """The value of the first branch that holds (condition None: that is not null)."""
        target, exits, kind = self._cell(), [], kinds.NULL
        for condition, result in [*branches, (True, otherwise)]:
            skip = None
            if isinstance(condition, c.CONDITIONS):
                skip = self._emit(vm.JUMP_UNLESS_TRUE, target, self._boolean(condition).cell)
            if result is None:
                self._emit(vm.NULL, target)
                continue
            if not isinstance(result, c.CONDITIONS):
                raise TooHardError("the form of CASE")
            value = self._expression(result)
            kind = self._one_kind(kind, value.kind)
            self._emit(vm.MOVE_FLOAT if value.floating else vm.MOVE_INT, target, value.cell)
            if condition is None:
                exits.append(self._emit(vm.JUMP_IF_VALUE, target, target))
            else:
                exits.append(self._emit(vm.JUMP, target))
            if skip is not None:
                self._code[skip][3] = len(self._code)
        for place in exits:
            self._code[place][3] = len(self._code)
        return Value(target, kind)

    def _one_kind(self, known: kinds.Kind, found: kinds.Kind) -> kinds.Kind:
        if known in (kinds.NULL, found):
            return found
        if found == kinds.NULL:
            return known
        if known.name == found.name == "int":
            return known if known.bits >= found.bits else found
        raise TooHardError(f"a choice between {known} and {found}")

    def _cast(self, node: c.Call) -> Value:
        target = node["to"]
        wanted = kinds.from_name(target.text) if isinstance(target, c.TypeName) else None
        value = self._operand(node, "this")
        if wanted is not None and wanted.name == "float" and wanted.bits == 64:
            return self._as_float(value)
        if (
            wanted is not None
            and wanted.name == value.kind.name == "int"
            and wanted.bits >= value.kind.bits
        ):
            return Value(value.cell, wanted)
        raise TooHardError(f"a cast to {target}")


def _items(argument: c.Argument) -> tuple[c.Argument, ...]:
    return argument if isinstance(argument, tuple) else ()
