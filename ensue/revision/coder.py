"""Code of one arc's fence and transfer for the machine of `guards/machine.py`.

The operators are those of all guards (`guards/operators.py`). Only the leaves differ: a field of
the register is a cell, and what reads the event alone is an input, computed for all events at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ensue.automaton.registers import FIELD
from ensue.guards import machine as vm
from ensue.guards.operators import Operators, TooHardError, Value
from ensue.query import condition as c
from ensue.scalar import kinds as k
from ensue.scalar.infer import Typed, typed

if TYPE_CHECKING:
    from ensue.revision.code import Code

TEMPORARIES = 200  # cells that one arc may compute with
_BRANCHING = ("and", "or", "case", "coalesce", "in")
_EXACT_DIGITS = 15  # of a decimal that is a float once divided
_EXACT = ("int", "boolean", "date", "timestamp", "interval")


def reads_register(condition: c.Condition) -> bool:
    return any(isinstance(n, c.Column) and n.name.startswith(FIELD) for n in c.walk(condition))


def _shape(node: Typed) -> object:
    """Equal for nodes that compute the same."""
    if node.operation in ("leaf", "literal"):
        return node.operation, node.kind, node.origin, repr(node.value)
    return node.operation, node.kind, tuple(map(_shape, node.operands))


class ArcCoder(Operators):
    """Code of one arc, appended to that of the automaton."""

    def __init__(self, code: Code, where: c.Condition | None) -> None:
        super().__init__()
        self._whole = code
        self._where = where
        self._code = code.code
        self._cells = code.fields
        self._jumps: list[int] = []
        self._done: dict[object, Value] = {}
        self._branches = 0
        self._kind_of = code.machine.kind_of(code.kinds)

    def fence(self, parts: Sequence[c.Condition]) -> None:
        """Code behind it runs only where every part is true."""
        for part in parts:
            value = self._condition(part)
            if value.kind.name not in ("boolean", "null"):
                raise TooHardError(f"the fence is {value.kind}")
            self._jumps.append(self._emit(vm.JUMP_UNLESS_TRUE, value.cell, value.cell))

    def transfer(self, condition: c.Condition, kind: k.Kind) -> int:
        if kind.name not in (*_EXACT, "float", "string") or kind == k.FLOAT:
            raise TooHardError(f"a field of type {kind}")
        value = self._condition(condition)
        if kind.name == "float":
            return self._as_float(value).cell
        if value.kind.name not in (kind.name, "null"):
            raise TooHardError(f"{value.kind} kept as {kind}")
        return value.cell

    def finish(self) -> None:
        # The verdict is read from the last destination, whatever came between.
        self._emit(vm.MOVE_INT, self._cell(), self._whole.constant("int", 1))
        for jump in self._jumps:
            self._code[jump][3] = len(self._code)

    # -- leaves ----------------------------------------------------------------------------------

    def _leaf_kind(self, node: c.Condition) -> k.Kind:
        return self._kind_of(node)

    def _expression(self, node: Typed) -> Value:
        if not reads_register(node.origin) and c.columns(node.origin):
            return self._input(node.origin)
        if not node.operands:
            return super()._expression(node)
        # `r + 1` of the fence is that of the transfer, unless a branch may have passed it by.
        shape = _shape(node)
        known = self._done.get(shape)
        if known is None:
            branching = node.operation in _BRANCHING or self._skips(node)
            self._branches += branching
            known = super()._expression(node)
            self._branches -= branching
            if not self._branches:
                self._done[shape] = known
        return known

    def _input(self, node: c.Condition) -> Value:
        """An expression over the event alone; one that may fail only where the fence lets it."""
        known = typed(node, self._leaf_kind)
        kind = known.kind
        if kind.name not in (*_EXACT, "float", "string", "null"):
            raise TooHardError(f"it reads a value of type {kind}")
        if known.fails and self._where is not None:
            node = c.call("case", ifs=(c.call("if", this=self._where, true=node),))
        return Value(self._whole.input(node, kind).cell, kind)

    def _leaf(self, node: c.Condition) -> Value:
        assert isinstance(node, c.Column) and node.name.startswith(FIELD)
        names = [item.name for item in self._whole.machine.fields]
        place = names.index(node.name.removeprefix(FIELD))
        kind = self._whole.machine.fields[place].kind
        if kind.name not in (*_EXACT, "float", "string") or kind == k.FLOAT:
            raise TooHardError(f"a field of type {kind}")
        return Value(place, kind)

    def _cell(self) -> int:
        if self._cells - self._whole.fields >= TEMPORARIES:
            raise TooHardError("it needs too many steps")
        return super()._cell()

    def _literal(self, node: Typed) -> Value:
        if node.kind.name == "string" and node.value is not None:
            return Value(self._whole.constant("int", self._whole.texts.code(node.value)), k.STRING)
        return super()._literal(node)

    def _int_constant(self, number: int, kind: k.Kind) -> Value:
        return Value(self._whole.constant("int", self._fitting(number)), kind)

    def _float_constant(self, number: float) -> Value:
        return Value(self._whole.constant("float", number), k.DOUBLE)

    def _as_float(self, value: Value) -> Value:
        if value.floating or value.kind.name == "null":
            return Value(value.cell, k.DOUBLE)
        if value.kind.precision > _EXACT_DIGITS:
            raise TooHardError(f"{value.kind} is read as a double")
        scale = self._whole.constant("float", self._power_of_ten(value.kind.scale))
        return self._value(vm.TO_FLOAT, k.DOUBLE, value.cell, scale)

    def _compare(self, name: str, left: Value, right: Value) -> Value:
        if "string" in (left.kind.name, right.kind.name) and name not in (
            "eq",
            "neq",
            "nullsafeeq",
        ):
            raise TooHardError("an order of strings")
        return super()._compare(name, left, right)
