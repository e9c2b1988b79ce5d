"""Machine code of expressions: the instructions of `guards/machine.py`, written out.

The interpreter's instructions are data; here each becomes a few of LLVM's. Values are 64 bits with
a null mark, as there, and what can fail branches to where the failure is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from ensue.guards import machine as vm
from ensue.guards.operators import TooHardError

I1, I8, I64, DOUBLE = ir.IntType(1), ir.IntType(8), ir.IntType(64), ir.DoubleType()
SINGLE = ir.FloatType()
Number = Any  # an ir.Value
Fault = Callable[[Any, int], None]  # branches away where the condition holds

_COMPARISONS = (vm.EQUAL, vm.NOT_EQUAL, vm.LESS, vm.LESS_EQUAL)
_JUMPS = (
    vm.JUMP, vm.JUMP_UNLESS_TRUE, vm.JUMP_IF_FALSE, vm.JUMP_IF_TRUE, vm.JUMP_IF_VALUE,
    vm.JUMP_IF_NULL,
)  # fmt: skip


class Cell(NamedTuple):
    """64 bits and whether they are null."""

    bits: Number
    null: Number


def number(value: int) -> Number:
    return ir.Constant(I64, value)


def truth(value: bool | int) -> Number:
    return ir.Constant(I1, int(value))


class Writer:
    """Instructions into one builder; `fault` is told which condition is which failure."""

    def __init__(self, builder: ir.IRBuilder, fault: Fault) -> None:
        self.b = builder
        self.fault = fault

    # -- numbers ---------------------------------------------------------------------------------

    def as_float(self, bits: Number) -> Number:
        if isinstance(bits, ir.Constant):
            return ir.Constant(DOUBLE, float(np.int64(bits.constant).view(np.float64)))
        if isinstance(bits, ir.CastInstr) and bits.operands[0].type == DOUBLE:
            return bits.operands[0]
        return self.b.bitcast(bits, DOUBLE)

    def as_bits(self, value: Number) -> Number:
        return self.b.bitcast(value, I64)

    # Most marks are known, so these decide what they can.

    def both(self, a: Number, b: Number) -> Number:
        if isinstance(a, ir.Constant):
            return b if a.constant else a
        if isinstance(b, ir.Constant):
            return a if b.constant else b
        return self.b.and_(a, b)

    def either(self, a: Number, b: Number) -> Number:
        if isinstance(a, ir.Constant):
            return a if a.constant else b
        if isinstance(b, ir.Constant):
            return b if b.constant else a
        return self.b.or_(a, b)

    def negated(self, a: Number) -> Number:
        return truth(not a.constant) if isinstance(a, ir.Constant) else self.b.not_(a)

    def select(self, when: Number, a: Number, b: Number) -> Number:
        if isinstance(when, ir.Constant):
            return a if when.constant else b
        return self.b.select(when, a, b)

    def nan(self, a: Number) -> Number:
        return self.b.fcmp_unordered("uno", a, a)

    def float_less(self, a: Number, b: Number) -> Number:
        """a < b, where NaN is greater than any number."""
        return self.either(
            self.b.fcmp_ordered("<", a, b), self.both(self.nan(b), self.negated(self.nan(a)))
        )

    def float_equal(self, a: Number, b: Number) -> Number:
        return self.either(self.b.fcmp_ordered("==", a, b), self.both(self.nan(a), self.nan(b)))

    def less(self, a: Number, b: Number, floating: bool) -> Number:
        if floating:
            return self.float_less(self.as_float(a), self.as_float(b))
        return self.b.icmp_signed("<", a, b)

    def compare(self, operation: int, a: Number, b: Number, floating: bool) -> Number:
        if operation in (vm.EQUAL, vm.NOT_EQUAL):
            if floating:
                same = self.float_equal(self.as_float(a), self.as_float(b))
            else:
                same = self.b.icmp_signed("==", a, b)
            return same if operation == vm.EQUAL else self.negated(same)
        if operation == vm.LESS:
            return self.less(a, b, floating)
        return self.negated(self.less(b, a, floating))

    def checked(self, operation: str, a: Number, b: Number, applies: Number) -> Number:
        """A sum, difference or product, or the failure where it `applies` and leaves 64 bits."""
        pair = getattr(self.b, f"s{operation}_with_overflow")(a, b)
        self.fault(self.both(applies, self.b.extract_value(pair, 1)), vm.OVERFLOW)
        return self.b.extract_value(pair, 0)

    # -- code ------------------------------------------------------------------------------------

    def run(
        self, code: Any, begin: int, end: int, contents: Callable[[int], Cell],
        inputs: Mapping[int, Cell], result: int,
    ) -> Cell:  # fmt: skip
        """The result cell after the instructions `begin` to `end`."""
        used, written = {result, *inputs}, set(inputs)
        targets = {int(code[i, 3]) for i in range(begin, end) if int(code[i, 0]) in _JUMPS}
        for place in range(begin, end):
            operation, target, a, b = map(int, code[place])
            used |= {target, a} | ({b} if operation not in (*_JUMPS, vm.FIT_BITS) else set())
            if operation not in _JUMPS or operation == vm.JUMP_IF_NULL:
                written.add(target)
        if not targets:
            cells = {cell: inputs.get(cell) or contents(cell) for cell in used}
            for place in range(begin, end):
                target, made = self._instruction(code, place, cells)
                cells[target] = made
            return cells[result]
        fixed = {cell: contents(cell) for cell in used - written}
        start = {cell: inputs.get(cell) or contents(cell) for cell in sorted(written)}
        return self._branching(code, begin, end, start, fixed, targets, result)

    def _branching(
        self, code: Any, begin: int, end: int, start: Mapping[int, Cell],
        fixed: Mapping[int, Cell], targets: set[int], result: int,
    ) -> Cell:  # fmt: skip
        """As `run`, where cells are places in memory until LLVM makes them registers."""
        b = self.b
        with b.goto_entry_block():
            places = {cell: (b.alloca(I64), b.alloca(I1)) for cell in start}

        def store(cell: int, value: Cell) -> None:
            b.store(value.bits, places[cell][0])
            b.store(value.null, places[cell][1])

        for place, value in start.items():
            store(place, value)
        after = {i + 1 for i in range(begin, end) if int(code[i, 0]) in _JUMPS}
        blocks = {t: b.append_basic_block("at") for t in sorted({*targets, *after, end})}
        loaded = _Loaded(b, places, fixed)
        for place in range(begin, end):
            if place in blocks:
                if not b.block.is_terminated:
                    b.branch(blocks[place])
                b.position_at_end(blocks[place])
            operation, target, a, there = map(int, code[place])
            if operation not in _JUMPS:
                store(*self._instruction(code, place, loaded))
                continue
            if operation == vm.JUMP:
                b.branch(blocks[there])
                continue
            cell = loaded[a]
            set_ = b.icmp_signed("!=", cell.bits, number(0))
            holds = {
                vm.JUMP_UNLESS_TRUE: lambda c, s: self.either(c.null, self.negated(s)),
                vm.JUMP_IF_FALSE: lambda c, s: self.negated(self.either(c.null, s)),
                vm.JUMP_IF_TRUE: lambda c, s: self.both(self.negated(c.null), s),
                vm.JUMP_IF_VALUE: lambda c, s: self.negated(c.null),
                vm.JUMP_IF_NULL: lambda c, s: c.null,
            }[operation](cell, set_)
            if operation == vm.JUMP_IF_NULL:  # which then is the result
                b.store(self.either(loaded[target].null, holds), places[target][1])
            b.cbranch(holds, blocks[there], blocks[place + 1])
        if not b.block.is_terminated:
            b.branch(blocks[end])
        b.position_at_end(blocks[end])
        return loaded[result]

    def _instruction(self, code: Any, place: int, cells: Any) -> tuple[int, Cell]:
        operation, target, a, b = map(int, code[place])
        if operation in (vm.NULL, vm.MOVE_INT, vm.MOVE_FLOAT):
            return target, Cell(number(0), truth(1)) if operation == vm.NULL else cells[a]
        if operation in (vm.TO_FLOAT, vm.TO_SINGLE, vm.INT_TO_SINGLE, vm.FIT_BITS):
            return target, self._converted(operation, cells[a], b, cells)
        if vm.NOT <= operation <= vm.OR:
            return target, self._logic(operation, cells[a], cells[b])
        if operation in (vm.SAME, vm.SAME + 1):
            equal = self.compare(vm.EQUAL, cells[a].bits, cells[b].bits, operation != vm.SAME)
            nulls = self.both(cells[a].null, cells[b].null)
            some = self.either(cells[a].null, cells[b].null)
            return target, self._boolean(self.select(some, nulls, equal), truth(0))
        if operation & ~1 in _COMPARISONS:
            floating = bool(operation & 1)
            found = self.compare(operation & ~1, cells[a].bits, cells[b].bits, floating)
            return target, self._boolean(found, self.either(cells[a].null, cells[b].null))
        if operation & ~1 in (vm.GREATEST, vm.LEAST):
            return target, self._extreme(operation, cells[a], cells[b])
        return target, self._arithmetic(operation, cells[a], cells[b])

    def _boolean(self, value: Number, null: Number) -> Cell:
        return Cell(self.b.zext(value, I64), null)

    def _converted(self, operation: int, a: Cell, b: int, cells: Any) -> Cell:
        if operation == vm.TO_FLOAT:
            scale = cells[b].bits
            if not isinstance(scale, ir.Constant) or scale.constant != _ONE:
                raise TooHardError("a decimal becomes a double")
            return Cell(self.as_bits(self.b.sitofp(a.bits, DOUBLE)), a.null)
        if operation == vm.FIT_BITS:
            top = 1 << (b - 1)
            low = self.b.icmp_signed("<", a.bits, number(-top))
            high = self.b.icmp_signed(">", a.bits, number(top - 1))
            self.fault(self.both(self.negated(a.null), self.either(low, high)), vm.OVERFLOW)
            return a
        if operation == vm.TO_SINGLE:
            short = self.b.fptrunc(self.as_float(a.bits), SINGLE)
        else:
            short = self.b.sitofp(a.bits, SINGLE)
        return Cell(self.as_bits(self.b.fpext(short, DOUBLE)), a.null)

    def _logic(self, operation: int, a: Cell, b: Cell) -> Cell:
        yes = self.b.icmp_signed("!=", a.bits, number(0))
        if operation == vm.NOT:
            return Cell(self.b.sub(number(1), a.bits), a.null)
        if operation == vm.IS_NULL:
            return self._boolean(a.null, truth(0))
        if operation == vm.IS_TRUE:
            return self._boolean(self.both(self.negated(a.null), yes), truth(0))
        if operation == vm.IS_FALSE:
            return self._boolean(self.negated(self.either(a.null, yes)), truth(0))
        other = self.b.icmp_signed("!=", b.bits, number(0))
        some = self.either(a.null, b.null)
        if operation == vm.AND:
            false = self.either(
                self.negated(self.either(a.null, yes)), self.negated(self.either(b.null, other))
            )
            return self._boolean(self.negated(false), self.both(some, self.negated(false)))
        true = self.either(
            self.both(self.negated(a.null), yes), self.both(self.negated(b.null), other)
        )
        return self._boolean(true, self.both(some, self.negated(true)))

    def _extreme(self, operation: int, a: Cell, b: Cell) -> Cell:
        """The greater or lesser value, skipping a null; the first of equal ones."""
        first, second = (a, b) if operation & ~1 == vm.GREATEST else (b, a)
        other = self.less(first.bits, second.bits, bool(operation & 1))
        takes = self.either(a.null, self.both(self.negated(b.null), other))
        return Cell(self.select(takes, b.bits, a.bits), self.both(a.null, b.null))

    def _arithmetic(self, operation: int, a: Cell, b: Cell) -> Cell:
        build, null = self.b, self.either(a.null, b.null)
        valid = self.negated(null)
        floats = {vm.ADD + 1: build.fadd, vm.SUBTRACT + 1: build.fsub, vm.MULTIPLY + 1: build.fmul}
        whole = {vm.ADD: "add", vm.SUBTRACT: "sub", vm.MULTIPLY: "mul"}
        if operation in floats:
            made = floats[operation](self.as_float(a.bits), self.as_float(b.bits))
            return Cell(self.as_bits(made), null)
        if operation in whole:
            return Cell(self.checked(whole[operation], a.bits, b.bits, valid), null)
        given = self.negated(a.null)
        if operation == vm.NEGATE:
            return Cell(self.checked("sub", number(0), a.bits, given), a.null)
        if operation == vm.ABSOLUTE:
            negative = build.icmp_signed("<", a.bits, number(0))
            turned = self.checked("sub", number(0), a.bits, self.both(given, negative))
            return Cell(build.select(negative, turned, a.bits), a.null)
        if operation == vm.NEGATE + 1:
            return Cell(self.as_bits(build.fneg(self.as_float(a.bits))), a.null)
        if operation == vm.ABSOLUTE + 1:
            return Cell(build.and_(a.bits, number(2**63 - 1)), a.null)
        if operation == vm.DIVIDE_FLOAT:
            divisor = self.as_float(b.bits)
            zero = build.fcmp_ordered("==", divisor, ir.Constant(DOUBLE, 0.0))
            self.fault(self.both(valid, zero), vm.BY_ZERO)
            return Cell(self.as_bits(build.fdiv(self.as_float(a.bits), divisor)), null)
        if operation in (vm.DIVIDE_WHOLE, vm.MODULO):
            return Cell(self._whole_quotient(operation, a.bits, b.bits, valid), null)
        raise TooHardError(f"the instruction {operation} has no machine code")

    def _whole_quotient(self, operation: int, a: Number, b: Number, valid: Number) -> Number:
        build = self.b
        zero = build.icmp_signed("==", b, number(0))
        self.fault(self.both(valid, zero), vm.BY_ZERO)
        minus = build.icmp_signed("==", b, number(-1))  # the processor traps on -2**63 / -1
        by = build.select(self.either(minus, zero), number(1), b)
        if operation == vm.MODULO:
            return build.select(minus, number(0), build.srem(a, by))
        turned = self.checked("sub", number(0), a, self.both(valid, minus))
        return build.select(minus, turned, build.sdiv(a, by))


_ONE = int(np.float64(1.0).view(np.int64))


class _Loaded:
    """Cells in memory, read where they are asked for."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        places: Mapping[int, tuple[Any, Any]],
        fixed: Mapping[int, Cell],
    ) -> None:
        self._builder, self._places, self._fixed = builder, places, fixed

    def __getitem__(self, cell: int) -> Cell:
        if cell in self._fixed:
            return self._fixed[cell]
        bits, null = self._places[cell]
        return Cell(self._builder.load(bits), self._builder.load(null))
