"""Predicates that compare numbers, as code for the machine: all of them in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ensue.guards import machine as vm
from ensue.guards.operators import TooHardError, Value
from ensue.quantities.assemble import Assembly, bits_of, is_float, require_number
from ensue.quantities.generated.code import Cell, number, truth
from ensue.quantities.model import ALWAYS, Expression, Predicate
from ensue.query import condition as c
from ensue.scalar.kinds import DOUBLE, Kind

_ROWS = range(vm.INT_CONSTANT)  # instructions that read rows


class Conditions(Assembly):
    """The code of those predicates that have one; `others` are evaluated on Arrow columns."""

    def __init__(self, predicates: Sequence[Predicate], kinds: dict[str, Kind]) -> None:
        super().__init__()
        self._kinds = {name.lower(): kind for name, kind in kinds.items()}
        self.columns: list[tuple[Expression, bool]] = []  # and whether they are read as floats
        self.cells: dict[int, int] = {}  # cell of a column: its place in `columns`
        self.codes: dict[int, tuple[int, int, int]] = {}  # bit: begin, end, result
        self.others: list[int] = []
        for bit, predicate in enumerate(predicates):
            if not isinstance(predicate, Expression) or predicate == ALWAYS:
                self.others.append(bit)
                continue
            begin = len(self._code)
            try:
                value = self._condition(predicate.tree)
                self._require_safe(begin)
            except TooHardError:
                del self._code[begin:]
                self.others.append(bit)
            else:
                self.codes[bit] = begin, len(self._code), value.cell
        self.code = np.array(self._code, np.int64).reshape(-1, 4)

    def _require_safe(self, begin: int) -> None:
        """What can fail is evaluated on Arrow columns, which say what failed."""
        for operation, _, _, b in self._code[begin:]:
            if operation == vm.TO_FLOAT and self._contents[b] != bits_of(1.0, DOUBLE):
                raise TooHardError("a decimal becomes a double")
            if vm.ADD <= operation < vm.EQUAL or operation in (vm.FIT_BITS, *_ROWS):
                raise TooHardError("a predicate that can fail")

    def fingerprint(self) -> tuple[Any, ...]:
        """Equal where the machine code is."""
        cells, codes = tuple(self.cells.items()), tuple(self.codes.items())
        return self.code.tobytes(), cells, codes, tuple(self._contents)

    def contents(self, cell: int) -> Cell:
        bits, mark = self._contents[cell]
        return Cell(number(bits), truth(mark))

    def _leaf(self, node: c.Condition) -> Value:
        kind = self._leaf_kind(node)
        require_number(kind)
        column = Expression(node), is_float(kind)
        if column not in self.columns:
            self.columns.append(column)
            self.cells[self._cell()] = len(self.columns) - 1
        place = self.columns.index(column)
        return Value(next(cell for cell, i in self.cells.items() if i == place), kind)

    def _leaf_kind(self, node: c.Condition) -> Kind:
        if not isinstance(node, c.Column) or node.path:
            raise TooHardError("not a plain column")
        kind = self._kinds[node.name.lower()]
        if kind.temporal:
            raise TooHardError("a time may need a zone")
        return kind
