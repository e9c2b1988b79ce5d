"""Correlated conditions to code for the register machine of `kernels/guards.py`.

Each label's correlated parts become one guard. What a guard reads of the match (the last A, a
running sum) becomes a register with an update rule per label. Types are resolved here, so the
machine knows only integers and floats: strings are ranks in a dictionary of the batch, times are
microseconds, decimals are integers of a fixed scale. Arithmetic is checked, and a batch in which a
number leaves 64 bits is matched again in plain Python, which is exact. A condition that the machine
cannot hold at all raises `TooHardError`; the plan then takes the Python tier and says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ensue.automaton import conditions
from ensue.automaton.plan import Plan
from ensue.automaton.program import START
from ensue.kernels import guards as vm
from ensue.pattern import condition as c
from ensue.pattern import kinds
from ensue.pattern.duration import MICROSECONDS

MAX_OFFSET = 16  # LAST(A.x, n) keeps n + 1 row numbers per partial match
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
class Guards:
    """Everything `kernels.threads.run_threads` needs beside the program and the data."""

    int_inputs: tuple[str, ...]
    float_inputs: tuple[str, ...]
    text_inputs: tuple[str, ...]  # those of the int inputs that are ranks
    scales: Mapping[str, int]  # decimal inputs: digits after the point
    literals: tuple[str, ...]  # string constants; their ranks fill the last int constants
    code: NDArray[np.int64]
    guard_offset: NDArray[np.int64]
    cells: int
    updates: NDArray[np.int64]
    applies: NDArray[np.bool_]
    live_ints: NDArray[np.bool_]
    live_floats: NDArray[np.bool_]
    initial_ints: NDArray[np.int64]
    initial_floats: NDArray[np.float64]
    int_constants: NDArray[np.int64]
    float_constants: NDArray[np.float64]
    share: bool  # no guard asks how far the start is, or which match this is


def compile_guards(plan: Plan, input_kind: Mapping[str, kinds.Kind]) -> Guards:
    """Code for all correlated parts of a plan, or `TooHardError`."""
    return _Compiler(plan, input_kind).compile()


@dataclass(frozen=True)
class _Value:
    """A cell and what it holds."""

    cell: int
    kind: kinds.Kind

    @property
    def floating(self) -> bool:
        return self.kind.name == "float"


@dataclass
class _Register:
    updates: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    ints: list[int] = field(default_factory=list)  # registers it owns
    floats: list[int] = field(default_factory=list)
    variable: str | None = None


class _Compiler:
    def __init__(self, plan: Plan, input_kind: Mapping[str, kinds.Kind]) -> None:
        self._plan = plan
        self._kinds = input_kind
        self._int_inputs: dict[str, int] = {}
        self._float_inputs: dict[str, int] = {}
        self._text: dict[str, None] = {}
        self._scales: dict[str, int] = {}
        self._literals: dict[str, int] = {}
        self._code: list[list[int]] = []
        self._cells = 0
        self._most_cells = 1
        self._int_constants: list[int] = []
        self._float_constants: list[float] = [1.0]
        self._int_registers: list[int] = []  # initial values
        self._float_registers = 0
        self._registers: dict[object, _Register] = {}
        self._reads: dict[int, set[object]] = {}  # label -> registers its guard reads
        self._label = 0

    def compile(self) -> Guards:
        offsets = [0]
        for index, test in enumerate(self._plan.tests):
            self._label, self._cells = index, 0
            self._reads[index] = set()
            if test.correlated:
                value = self._expression(c.conjunction(list(test.correlated)))
                if value.kind.name not in ("boolean", "null"):
                    raise TooHardError(
                        f"the condition of {test.label} is {value.kind}, not boolean"
                    )
                # The verdict is read from the last destination, whatever the code's shape.
                self._emit(vm.MOVE_INT, self._cell(), value.cell)
            self._most_cells = max(self._most_cells, self._cells)
            offsets.append(len(self._code))
        return self._finish(offsets)

    # -- emitting --------------------------------------------------------------------------------

    def _cell(self) -> int:
        self._cells += 1
        return self._cells - 1

    def _emit(self, operation: int, target: int, a: int = 0, b: int = 0) -> int:
        self._code.append([operation, target, a, b])
        return len(self._code) - 1

    def _value(self, operation: int, kind: kinds.Kind, a: int = 0, b: int = 0) -> _Value:
        target = self._cell()
        self._emit(operation, target, a, b)
        return _Value(target, kind)

    # -- expressions -----------------------------------------------------------------------------

    def _expression(self, node: c.Condition) -> _Value:
        match node:
            case c.Literal():
                return self._literal(node)
            case c.Column(name=name):
                row = self._cell()
                self._emit(vm.ROW, row)
                return self._load(name, row)
            case c.Navigate():
                return self._navigate(node)
            case c.Aggregate():
                return self._aggregate(node)
            case c.MatchNumber():
                return self._value(vm.NUMBER, kinds.BIGINT)
            case c.Call():
                return self._call(node)
            case _:
                raise TooHardError("it reads labels")

    def _literal(self, node: c.Literal) -> _Value:
        match node.kind:
            case "null":
                return self._value(vm.NULL, kinds.NULL)
            case "boolean":
                return self._int_constant(int(bool(node.value)), kinds.BOOLEAN)
            case "int":
                number = int(node.value)  # type: ignore[arg-type]
                if abs(number) > 2**63 - 1:
                    raise TooHardError("an integer literal does not fit 64 bits")
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

    def _int_constant(self, number: int, kind: kinds.Kind) -> _Value:
        self._int_constants.append(number)
        return self._value(vm.INT_CONSTANT, kind, len(self._int_constants) - 1)

    def _float_constant(self, number: float) -> _Value:
        self._float_constants.append(number)
        return self._value(vm.FLOAT_CONSTANT, kinds.DOUBLE, len(self._float_constants) - 1)

    def _load(self, name: str, row: int) -> _Value:
        column, kind = self._input(name)
        operation = vm.LOAD_FLOAT if kind.name == "float" else vm.LOAD_INT
        return self._value(operation, kind, row, column)

    def _input(self, name: str) -> tuple[int, kinds.Kind]:
        kind = self._kinds[name]
        if kind.name == "float":
            return self._float_inputs.setdefault(name, len(self._float_inputs)), kinds.DOUBLE
        if kind.name == "decimal":
            self._scales[name] = self._fitting(kind).scale
        elif kind.name == "string":
            self._text.setdefault(name)
        elif kind.name not in ("int", "boolean", "date", "timestamp", "null"):
            raise TooHardError(f"it reads a value of type {kind}")
        return self._int_inputs.setdefault(name, len(self._int_inputs)), kind

    def _fitting(self, kind: kinds.Kind) -> kinds.Kind:
        if kind.precision > _DIGITS:
            raise TooHardError(f"{kind} has more than {_DIGITS} digits")
        return kind

    # -- what the match holds --------------------------------------------------------------------

    def _navigate(self, node: c.Navigate) -> _Value:
        if not isinstance(node.argument, c.Column):
            raise TooHardError(
                "it reads labels"
                if conditions.reads_label(node.argument)
                else "it navigates over a constant"
            )
        row = self._cell()
        if conditions.is_neighbour(node):
            self._emit(vm.ROW, row)
        elif node.variable is None:
            first = node.anchor is c.Anchor.FIRST
            self._emit(vm.FIRST_ROW if first else vm.LAST_ROW, row, node.offset)
        else:
            if node.offset > MAX_OFFSET:
                raise TooHardError(f"an offset of {node.offset} is above {MAX_OFFSET}")
            register = self._row_register(node.variable, node.anchor, node.offset)
            self._emit(vm.REGISTER_ROW, row, register)
        if node.shift:
            shifted = self._cell()
            self._emit(vm.SHIFT_ROW, shifted, row, node.shift)
            row = shifted
        return self._load(node.argument.name, row)

    def _row_register(self, variable: str, anchor: c.Anchor, offset: int) -> int:
        key = (anchor, variable, offset)
        self._reads[self._label].add(key)
        if key not in self._registers:
            slots = self._new_ints(offset + 1, -1)
            kind = vm.KEEP_LAST if anchor is c.Anchor.LAST else vm.KEEP_FIRST
            self._registers[key] = _Register(
                [(kind, slots[0], -1, -1, -1, offset)], slots, [], variable
            )
        return self._registers[key].ints[offset]

    def _new_ints(self, count: int, initial: int) -> list[int]:
        first = len(self._int_registers)
        self._int_registers.extend([initial] * count)
        return list(range(first, first + count))

    def _aggregate(self, node: c.Aggregate) -> _Value:
        if node.distinct or node.function not in ("count", "sum", "avg", "min", "max"):
            raise TooHardError(
                f"{node.function}{' distinct' if node.distinct else ''} is kept as a list"
            )
        where = -1
        if node.where is not None:
            where, _ = self._plain_input(node.where)
        if not node.arguments:
            register = self._count_register(node.variable, where, None)
            return self._value(vm.INT_REGISTER, kinds.BIGINT, register, -1)
        column, kind = self._plain_input(node.arguments[0])
        count = self._count_register(node.variable, where, (column, kind.name == "float"))
        if node.function == "count":
            return self._value(vm.INT_REGISTER, kinds.BIGINT, count, -1)
        if node.function in ("min", "max"):
            return self._extremum(node, column, kind, where, count)
        total = self._sum(node, column, kind, where, count)
        if node.function == "sum":
            return total
        if kind.name == "decimal":
            raise TooHardError("the average of decimals is computed exactly")
        number = self._value(vm.INT_REGISTER, kinds.BIGINT, count, -1)
        # No value: the sum is null, and null divided by anything is null.
        return self._divided(self._as_float(total), self._as_float(number))

    def _plain_input(self, node: c.Condition) -> tuple[int, kinds.Kind]:
        if not isinstance(node, c.Column):
            raise TooHardError("it aggregates labels or constants")
        return self._input(node.name)

    def _count_register(
        self, variable: str | None, where: int, column: tuple[int, bool] | None
    ) -> int:
        key = ("count", variable, where, column)
        self._reads[self._label].add(key)
        if key not in self._registers:
            slot = self._new_ints(1, 0)
            kind = vm.COUNT_ROWS if column is None else vm.COUNT_VALUES
            index, floating = column or (-1, False)
            self._registers[key] = _Register(
                [(kind, slot[0], index, where, -1, int(floating))], slot, [], variable
            )
        return self._registers[key].ints[0]

    def _sum(
        self, node: c.Aggregate, column: int, kind: kinds.Kind, where: int, count: int
    ) -> _Value:
        if not kind.numeric:
            raise TooHardError(f"a sum of {kind}")
        floating = kind.name == "float"
        register = self._accumulator(
            "sum",
            node.variable,
            vm.SUM_FLOAT if floating else vm.SUM_INT,
            column,
            where,
            count,
            floating,
        )
        if floating:
            return self._value(vm.FLOAT_REGISTER, kinds.DOUBLE, register, count)
        result = kinds.BIGINT
        if kind.name == "decimal":
            result = self._fitting(kinds.decimal(min(38, kind.precision + 10), kind.scale))
        return self._value(vm.INT_REGISTER, result, register, count)

    def _extremum(
        self, node: c.Aggregate, column: int, kind: kinds.Kind, where: int, count: int
    ) -> _Value:
        floating = kind.name == "float"
        update = vm.MIN_INT if node.function == "min" else vm.MAX_INT
        register = self._accumulator(
            node.function, node.variable, update + floating, column, where, count, floating
        )
        operation = vm.FLOAT_REGISTER if floating else vm.INT_REGISTER
        return self._value(operation, kind, register, count)

    def _accumulator(
        self,
        name: str,
        variable: str | None,
        update: int,
        column: int,
        where: int,
        count: int,
        floating: bool,
    ) -> int:
        key = (name, variable, column, where, floating)
        self._reads[self._label].add(key)
        if key not in self._registers:
            if floating:
                slot, ints, floats = self._float_registers, [], [self._float_registers]
                self._float_registers += 1
            else:
                ints, floats = self._new_ints(1, 0), []
                slot = ints[0]
            self._registers[key] = _Register(
                [(update, slot, column, where, count, 0)], ints, floats, variable
            )
        found = self._registers[key]
        return found.floats[0] if floating else found.ints[0]

    # -- operators -------------------------------------------------------------------------------

    def _call(self, node: c.Call) -> _Value:
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

    def _operand(self, node: c.Call, role: str) -> _Value:
        value = node[role]
        if not isinstance(value, c.CONDITIONS):
            raise TooHardError(f"the form of {node.function}")
        return self._expression(value)

    def _boolean(self, argument: c.Argument) -> _Value:
        if not isinstance(argument, c.CONDITIONS):
            raise TooHardError("a condition is missing")
        value = self._expression(argument)
        if value.kind.name not in ("boolean", "null"):
            raise TooHardError(f"{value.kind} used as a condition")
        return value

    def _logic(self, node: c.Call) -> _Value:
        conjunctive = node.function == "and"
        left = self._boolean(node["this"])
        target = self._cell()
        self._emit(vm.MOVE_INT, target, left.cell)
        jump = self._emit(vm.JUMP_IF_FALSE if conjunctive else vm.JUMP_IF_TRUE, target, left.cell)
        right = self._boolean(node["expression"])
        self._emit(vm.AND if conjunctive else vm.OR, target, left.cell, right.cell)
        self._code[jump][3] = len(self._code)
        return _Value(target, kinds.BOOLEAN)

    def _compare(self, name: str, left: _Value, right: _Value) -> _Value:
        operation, swapped = _COMPARE[name]
        left, right = self._alike(left, right)
        if swapped:
            left, right = right, left
        return self._value(operation + left.floating, kinds.BOOLEAN, left.cell, right.cell)

    def _alike(self, left: _Value, right: _Value) -> tuple[_Value, _Value]:
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

    def _scaled(self, value: _Value, scale: int) -> _Value:
        exact = kinds.as_decimal(value.kind)
        digits = exact.precision + scale - exact.scale
        kind = self._fitting(kinds.decimal(max(digits, 1), scale))
        if scale == exact.scale:
            return _Value(value.cell, kind)
        factor = self._int_constant(10 ** (scale - exact.scale), kinds.BIGINT)
        return self._value(vm.MULTIPLY, kind, value.cell, factor.cell)

    def _as_float(self, value: _Value) -> _Value:
        if value.floating:
            return value
        if not (value.kind.numeric or value.kind.name == "null"):
            raise TooHardError(f"{value.kind} used as a number")
        self._float_constants.append(float(10**value.kind.scale))
        place = len(self._float_constants) - 1
        return self._value(vm.TO_FLOAT, kinds.DOUBLE, value.cell, place)

    def _divided(self, left: _Value, right: _Value) -> _Value:
        return self._value(vm.DIVIDE_FLOAT, kinds.DOUBLE, left.cell, right.cell)

    def _arithmetic(self, name: str, left: _Value, right: _Value) -> _Value:
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

    def _numeric(self, name: str, operation: int, left: _Value, right: _Value) -> _Value:
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

    def _checked(self, operation: int, left: _Value, right: _Value, result: kinds.Kind) -> _Value:
        value = self._value(operation, result, left.cell, right.cell)
        # Scaling up and back by 2**(64 - bits) overflows exactly where the narrow type does.
        factor = self._int_constant(2 ** (64 - result.bits), kinds.BIGINT)
        self._value(vm.MULTIPLY, kinds.BIGINT, value.cell, factor.cell)
        return value

    def _is(self, node: c.Call) -> _Value:
        literal = node["expression"]
        value = self._operand(node, "this")
        if isinstance(literal, c.Literal) and literal.kind == "null":
            return self._value(vm.IS_NULL, kinds.BOOLEAN, value.cell)
        if isinstance(literal, c.Literal) and literal.kind == "boolean":
            operation = vm.IS_TRUE if literal.value else vm.IS_FALSE
            return self._value(operation, kinds.BOOLEAN, value.cell)
        raise TooHardError("IS with anything but NULL, TRUE or FALSE")

    def _in(self, node: c.Call) -> _Value:
        value = self._operand(node, "this")
        result: _Value | None = None
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

    def _interval(self, node: c.Call) -> _Value:
        amount, unit = node["this"], node["unit"]
        word = str(unit["this"]).lower() if isinstance(unit, c.Call) else ""
        if not isinstance(amount, c.Literal) or word not in MICROSECONDS:
            raise TooHardError("an interval that is not a number of days or smaller units")
        try:
            size = Decimal(str(amount.value)) * MICROSECONDS[word]
        except ArithmeticError:
            raise TooHardError("an interval of several fields") from None
        return self._int_constant(int(size), kinds.INTERVAL)

    def _case(self, node: c.Call) -> _Value:
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
    ) -> _Value:
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
        return _Value(target, kind)

    def _one_kind(self, known: kinds.Kind, found: kinds.Kind) -> kinds.Kind:
        if known in (kinds.NULL, found):
            return found
        if found == kinds.NULL:
            return known
        if known.name == found.name == "int":
            return known if known.bits >= found.bits else found
        raise TooHardError(f"a choice between {known} and {found}")

    def _cast(self, node: c.Call) -> _Value:
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
            return _Value(value.cell, wanted)
        raise TooHardError(f"a cast to {target}")

    # -- result ----------------------------------------------------------------------------------

    def _finish(self, offsets: list[int]) -> Guards:
        program = self._plan.program
        order = sorted(self._registers.items(), key=lambda item: _rank(item[1]))
        updates = [update for _, register in order for update in register.updates]
        owners = [register for _, register in order for _ in register.updates]
        applies = np.zeros((len(program.labels), len(updates)), np.bool_)
        for index, register in enumerate(owners):
            names = program.query.members(register.variable)
            for label, name in enumerate(program.labels):
                applies[label, index] = name in names
        live_ints = np.zeros((program.states, len(self._int_registers)), np.bool_)
        live_floats = np.zeros((program.states, self._float_registers), np.bool_)
        for state, keys in enumerate(self._live()):
            for key in keys:
                live_ints[state, self._registers[key].ints] = True
                live_floats[state, self._registers[key].floats] = True
        literals = tuple(self._literals)
        constants = self._int_constants + [0] * len(literals)
        for line in self._code:
            if line[0] == vm.INT_CONSTANT and line[2] < 0:
                line[2] = len(self._int_constants) + (-1 - line[2])
        return Guards(
            int_inputs=tuple(self._int_inputs),
            float_inputs=tuple(self._float_inputs),
            text_inputs=tuple(self._text),
            scales=self._scales,
            literals=literals,
            code=np.array(self._code, np.int64).reshape(-1, 4),
            guard_offset=np.array(offsets, np.int64),
            cells=self._most_cells,
            updates=np.array(updates, np.int64).reshape(-1, 6),
            applies=applies,
            live_ints=live_ints,
            live_floats=live_floats,
            initial_ints=np.array(self._int_registers, np.int64),
            initial_floats=np.zeros(self._float_registers, np.float64),
            int_constants=np.array(constants or [0], np.int64),
            float_constants=np.array(self._float_constants, np.float64),
            share=not any(line[0] in (vm.LAST_ROW, vm.FIRST_ROW, vm.NUMBER) for line in self._code),
        )

    def _live(self) -> list[set[object]]:
        """Per state: the registers that a guard on some way ahead may read."""
        program = self._plan.program
        live: list[set[object]] = [set() for _ in range(program.states)]
        changed = True
        while changed:
            changed = False
            for state in range(program.states - 1, START - 1, -1):
                found = set(live[state])
                for target, _ in program.arcs_of(state):
                    if target:
                        found |= live[target] | self._reads[int(program.label[target])]
                if found != live[state]:
                    live[state], changed = found, True
        return live


def _rank(register: _Register) -> int:
    """Counts are updated first: sums and extrema read them to know their first value."""
    return 0 if register.updates[0][0] <= vm.COUNT_VALUES else 1


def _items(argument: c.Argument) -> tuple[c.Argument, ...]:
    return argument if isinstance(argument, tuple) else ()
