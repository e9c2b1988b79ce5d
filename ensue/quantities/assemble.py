"""Expressions of a hierarchy as code for the stack machine of `quantities/kernels/code.py`.

An expression is typed first: an operation has an integer and a float form, and an argument is a
cell. What the machine does not do raises `NotNumericError` with the reason.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import numpy as np

from ensue.quantities.kernels import code as opcodes
from ensue.quantities.model import Operation
from ensue.scalar.infer import Typed, typed
from ensue.scalar.kinds import FLOAT, Kind

MAX_STACK = 60
_INTEGERS = ("int", "boolean", "date", "timestamp", "null")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_BINARY = {
    "add": opcodes.ADD,
    "sub": opcodes.SUBTRACT,
    "mul": opcodes.MULTIPLY,
    "mod": opcodes.MODULO,
    "intdiv": opcodes.DIVIDE_WHOLE,
    "greatest": opcodes.GREATEST,
    "least": opcodes.LEAST,
    "eq": opcodes.EQUAL,
    "neq": opcodes.NOT_EQUAL,
    "lt": opcodes.LESS,
    "lte": opcodes.LESS_EQUAL,
    "gt": opcodes.GREATER,
    "gte": opcodes.GREATER_EQUAL,
    "nullsafeeq": opcodes.SAME,
}
_FLOAT_ONLY = {
    "div": opcodes.DIVIDE,
    "sqrt": opcodes.ROOT,
    "exp": opcodes.EXPONENTIAL,
    "power": opcodes.POWER,
}
_UNARY = {"neg": opcodes.NEGATE, "abs": opcodes.ABSOLUTE}
_NARROWED = ("add", "sub", "mul", "neg", "abs")
_LOGIC = {
    "not": opcodes.NOT,
    "isnull": opcodes.IS_NULL,
    "istrue": opcodes.IS_TRUE,
    "isfalse": opcodes.IS_FALSE,
}


class NotNumericError(Exception):
    """Why a hierarchy cannot be compiled."""


def is_float(kind: Kind) -> bool:
    return kind.name == "float"


class Assembly:
    """Code and cells as they are written; an argument is a cell, or what `load` knows."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int]] = []
        self._cells: list[tuple[int, int]] = []
        self._constants: dict[tuple[int, int], int] = {}

    def load(self, argument: Any) -> None:
        """Put an argument on the stack."""
        self._code.append((opcodes.LOAD, argument))

    def _operation(
        self,
        operation: Operation,
        kinds: list[Kind | None],
        arguments: list[Any],  # a cell, or the place whose output it is
        result: Kind,
    ) -> tuple[int, int]:
        begin = len(self._code)
        if operation.is_identity:
            assert kinds[0] is not None
            self.load(arguments[0])
            kind = kinds[0]
        else:
            if operation.tree is None:
                raise NotNumericError(f"the operation {operation} is a Python callable")
            by_name = dict(zip(operation.names, kinds, strict=True))
            places = dict(zip(operation.names, arguments, strict=True))

            def kind_of(leaf: Any) -> Kind:
                known = by_name[leaf.name]
                assert known is not None
                return known

            node = typed(operation.tree, kind_of)
            self._expression(node, places)
            kind = node.kind
        if is_float(result) and not is_float(kind):
            self._to_float(result)
        return self._fits(begin)

    def _expression(self, node: Typed, cells: Mapping[str, Any]) -> None:
        floating = int(any(is_float(operand.kind) for operand in node.operands))
        operation = node.operation
        match operation:
            case "literal":
                require_number(node.kind)
                self._code.append((opcodes.LOAD, self._constant(*bits_of(node.value, node.kind))))
                return
            case "leaf":
                self.load(cells[node.origin.name])  # type: ignore[union-attr]
                return
            case "case":
                self._case(list(node.operands), cells)
                return
        operands = node.operands
        for index, operand in enumerate(operands):
            self._expression(operand, cells)
            if operation in ("greatest", "least", "coalesce") and index:
                code = (
                    opcodes.COALESCE if operation == "coalesce" else _BINARY[operation] + floating
                )
                self._code.append((code, 0))
        if operation in ("greatest", "least", "coalesce"):
            return
        if operation in _BINARY:
            self._code.append((_BINARY[operation] + floating, 0))
        elif operation in _FLOAT_ONLY and is_float(node.kind):
            self._code.append((_FLOAT_ONLY[operation], 0))
        elif operation in ("ln", "log") and len(operands) == 1:
            self._code.append((opcodes.LOGARITHM, 0))
        elif operation in _UNARY:
            self._code.append((_UNARY[operation] + floating, 0))
        elif operation in ("and", "or"):
            self._code.append((opcodes.AND if operation == "and" else opcodes.OR, 0))
        elif operation in _LOGIC:
            self._code.append((_LOGIC[operation], 0))
        elif operation == "cast" and is_float(node.kind) and operands[0].kind.name == "int":
            self._to_float(node.kind)
        elif operation == "cast" and node.kind.name == operands[0].kind.name != "decimal":
            if node.kind.bits < operands[0].kind.bits:
                self._narrow(node.kind)
        elif operation == "cast" and operands[0].kind.name == "null":
            pass
        else:
            raise NotNumericError(f"{operation} to {node.kind} is not compiled")
        require_number(node.kind)
        if operation in _NARROWED:
            self._narrow(node.kind)

    def _narrow(self, kind: Kind) -> None:
        """The result of an operator in its own width; Spark checks and rounds the narrow type."""
        bits = 32 if kind.name == "date" else kind.bits
        if kind == FLOAT:
            self._code.append((opcodes.TO_SINGLE, 0))
        elif kind.name in ("int", "date") and bits < 64:
            self._code.append((opcodes.FIT_BITS, bits))

    def _to_float(self, kind: Kind) -> None:
        self._code.append((opcodes.INT_TO_SINGLE if kind == FLOAT else opcodes.TO_FLOAT, 0))

    def _case(self, operands: list[Typed], cells: Mapping[str, Any]) -> None:
        *branches, default = operands
        pairs = list(zip(branches[::2], branches[1::2], strict=True))
        for condition, value in pairs:
            self._expression(condition, cells)
            self._expression(value, cells)
        self._expression(default, cells)
        self._code += [(opcodes.SELECT, 0)] * len(pairs)

    def _cell(self, bits: int, mark: int) -> int:
        self._cells.append((bits, mark))
        return len(self._cells) - 1

    def _constant(self, bits: int, mark: int) -> int:
        if (bits, mark) not in self._constants:
            self._constants[bits, mark] = self._cell(bits, mark)
        return self._constants[bits, mark]

    def _fits(self, begin: int) -> tuple[int, int]:
        """The range of an expression, once it is known to fit the machine's stack."""
        height = 0
        takes = {
            opcodes.SELECT: 2,
            opcodes.COALESCE: 1,
            opcodes.AND: 1,
            opcodes.OR: 1,
            opcodes.DIVIDE: 1,
            opcodes.POWER: 1,
        }
        unary = {opcodes.NEGATE, opcodes.NEGATE + 1, opcodes.ABSOLUTE, opcodes.ABSOLUTE + 1}
        for operation, _ in self._code[begin:]:
            if operation == opcodes.LOAD:
                height += 1
            elif opcodes.ADD <= operation < opcodes.DIVIDE and operation not in unary:
                height -= 1
            else:
                height -= takes.get(operation, 0)
            if height > MAX_STACK:
                raise NotNumericError("an operation is nested too deeply")
        return begin, len(self._code)


def require_number(kind: Kind | None) -> None:
    if kind is None or not (is_float(kind) or kind.name in _INTEGERS):
        raise NotNumericError(f"a value of type {kind} is not a number")


def bits_of(value: Any, kind: Kind | None) -> tuple[int, int]:
    """A constant as 64 bits and its mark."""
    if value is None:
        return 0, opcodes.NULL
    if kind is not None and is_float(kind):
        return int(np.float64(value).view(np.int64)), opcodes.VALUE
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // dt.timedelta(microseconds=1), opcodes.VALUE
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days, opcodes.VALUE
    if isinstance(value, (bool, int)) and -(2**63) <= value < 2**63:
        return int(value), opcodes.VALUE
    raise NotNumericError(f"the constant {value!r} does not fit 64 bits")
