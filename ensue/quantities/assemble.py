"""Expressions of a hierarchy as code for the machine of `guards/machine.py`.

An operation op(A1, ..., Am), the finish of an automaton and a fold given as SQL read no rows: their
arguments, constants and results are cells. What is no number of 64 bits is refused with the reason.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ensue.guards import machine as vm
from ensue.guards.operators import Operators, TooHardError, Value
from ensue.quantities.kernels.loop import NULL, VALUE
from ensue.quantities.model import Operation
from ensue.query import condition as c
from ensue.scalar import kinds as k
from ensue.scalar.casts import EPOCH, micros_of
from ensue.scalar.infer import Typed
from ensue.scalar.kinds import Kind

_OF_RANKS = ("eq", "neq", "lt", "lte", "gt", "gte", "nullsafeeq", "isnull")
_INTEGERS = ("int", "boolean", "date", "timestamp", "null")
Argument = tuple[Kind, Callable[[], Value]]


def is_float(kind: Kind) -> bool:
    return kind.name == "float"


class Assembly(Operators):
    """Code and cells as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self._contents: list[tuple[int, int]] = []  # bits and mark of each cell at the start
        self._constants: dict[tuple[int, int], int] = {}
        self._arguments: dict[str, Argument] = {}

    def _operation(
        self, operation: Operation, arguments: Sequence[Argument], result: Kind, into: int
    ) -> tuple[int, int]:
        """Where the code stands that leaves op of the arguments in a cell."""
        begin = len(self._code)
        value = self._applied(operation, arguments, result)
        self._emit(vm.MOVE_INT, into, value.cell)
        return begin, len(self._code)

    def _applied(self, operation: Operation, arguments: Sequence[Argument], result: Kind) -> Value:
        if operation.is_identity:
            value = arguments[0][1]()
        elif operation.tree is None:
            raise TooHardError(f"the operation {operation} is a Python callable")
        else:
            outer = self._arguments
            self._arguments = dict(zip(operation.names, arguments, strict=True))
            value = self._condition(operation.tree)
            self._arguments = outer
        if not is_float(result) or value.floating:
            return value
        if result == k.FLOAT:
            return self._value(vm.INT_TO_SINGLE, result, value.cell)
        return self._as_float(value)

    def _expression(self, node: Typed) -> Value:
        # Strings are ranks, which can be handed on and compared with each other, and no more.
        if node.operation != "leaf" or node.kind.name != "string":
            require_number(node.kind)
        if node.operation not in _OF_RANKS:
            for operand in node.operands:
                require_number(operand.kind)
        return super()._expression(node)

    def _leaf(self, node: c.Condition) -> Value:
        return self._arguments[node.name][1]()  # type: ignore[union-attr]

    def _leaf_kind(self, node: c.Condition) -> Kind:
        return self._arguments[node.name][0]  # type: ignore[union-attr]

    def _cell(self, bits: int = 0, mark: int = NULL) -> int:
        self._contents.append((bits, mark))
        return len(self._contents) - 1

    def _constant(self, bits: int, mark: int = VALUE) -> int:
        if (bits, mark) not in self._constants:
            self._constants[bits, mark] = self._cell(bits, mark)
        return self._constants[bits, mark]

    def _int_constant(self, number: int, kind: Kind) -> Value:
        return Value(self._constant(self._fitting(number)), kind)

    def _float_constant(self, number: float) -> Value:
        return Value(self._float_place(number), k.DOUBLE)

    def _float_place(self, number: float) -> int:
        return self._constant(*bits_of(number, k.DOUBLE))


def require_number(kind: Kind | None) -> None:
    if kind is None or not (is_float(kind) or kind.name in _INTEGERS):
        raise TooHardError(f"a value of type {kind} is not a number")


def bits_of(value: Any, kind: Kind | None) -> tuple[int, int]:
    """A constant as 64 bits and its mark."""
    if value is None:
        return 0, NULL
    if kind is not None and is_float(kind):
        return int(np.float64(value).view(np.int64)), VALUE
    if isinstance(value, dt.datetime):
        return micros_of(value), VALUE
    if isinstance(value, dt.date):
        return (value - EPOCH.date()).days, VALUE
    if isinstance(value, (bool, int)) and -(2**63) <= value < 2**63:
        return int(value), VALUE
    raise TooHardError(f"the constant {value!r} does not fit 64 bits")
