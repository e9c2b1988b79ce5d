"""Which kernels run an automaton: the compiled ones, or the same source in plain Python.

An arc with a Python function, or with an expression the register machine cannot hold, is answered
by calling Python. The algorithm around it stays one: its functions are taken as they stand in the
kernels' source, uncompiled, with `run_arc` replaced, and `asked`, which has no way in from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from ensue import errors
from ensue.automaton.registers import FIELD, Arc, Expression, RegisterAutomaton
from ensue.guards import machine as guards
from ensue.kernels import copies
from ensue.kernels.stop import asked_in_python
from ensue.query import condition as c
from ensue.revision.code import Code, Compiled
from ensue.revision.kernels import (
    arcs,
    changes,
    intervals,
    layout,
    output,
    retract,
    steps,
    store,
    time,
)
from ensue.revision.rows import RowStore
from ensue.scalar import kinds as k
from ensue.scalar.values import Compiled as CompiledValue
from ensue.scalar.values import Leaf, compile_value

_MODULES = (copies, store, arcs, output, steps, intervals, retract, changes, time)
FAILED = -3  # of an arc: its Python function raised
Answer = Callable[..., int]


@cache
def compiled_kernels() -> Any:
    """Those that Python may call."""
    found = {n: v for module in _MODULES for n, v in vars(module).items()}
    inner = "no_cpython_wrapper"
    return SimpleNamespace(
        **{n: v for n, v in found.items() if inner not in getattr(v, "targetoptions", ())}
    )


def plain_kernels(run_arc: Answer) -> Any:
    """The kernels' functions in plain Python, with `run_arc` in its place."""
    space: dict[str, Any] = {}
    for module in _MODULES:
        space.update(vars(module))
    names = {module.__name__ for module in _MODULES}
    for name, found in list(space.items()):
        plain = getattr(found, "py_func", found)
        if isinstance(plain, FunctionType) and plain.__module__ in names:
            space[name] = FunctionType(plain.__code__, space, name, plain.__defaults__)
    space |= {"run_arc": run_arc, "asked": asked_in_python}
    return SimpleNamespace(**space)


def run_compiled(code: Any, begin: int, end: int, cells: Any, nulls: Any) -> int:
    """As `run_arc` of the kernels."""
    no_nulls = np.zeros((1, 1), np.bool_)
    floats = cells.view(np.float64)
    return int(guards.run_cells(code, begin, end, cells, floats, nulls, np.zeros((1, 1)), no_nulls))


class ArcReader:
    """Fences and transfers on plain Python values: an event and a register, each a dict."""

    def __init__(self, machine: RegisterAutomaton, kinds: Mapping[str, k.Kind]) -> None:
        self._machine, self._kinds = machine, kinds
        self._compiled: dict[int, tuple[c.Condition, CompiledValue]] = {}

    def compiled(self, condition: c.Condition) -> CompiledValue:
        """The function that a condition is; typed once."""
        known = self._compiled.get(id(condition))
        if known is None:
            found = compile_value(condition, self._machine.kind_of(self._kinds))
            known = self._compiled[id(condition)] = condition, found
        return known[1]

    def leaf(self, row: Mapping[str, Any] | None, register: Mapping[str, Any]) -> Leaf:
        """What a leaf of a condition is worth."""

        def read(node: c.Condition) -> Any:
            assert isinstance(node, c.Column)
            if node.name.startswith(FIELD):
                return register[node.name.removeprefix(FIELD)]
            assert row is not None
            value = row.get(node.name)
            if node.name not in row:
                value = {name.lower(): v for name, v in row.items()}.get(node.name.lower())
            for step in node.path:
                value = None if value is None else value[step]
            return value

        return read

    def value(self, given: Expression, row: dict[str, Any] | None, register: dict[str, Any]) -> Any:
        if not isinstance(given, c.CONDITIONS):
            return given(row, dict(register))
        return self.compiled(given)(self.leaf(row, register))

    def after(
        self, arc: Arc, row: dict[str, Any] | None, register: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The register behind an arc; None where its fence does not hold."""
        if arc.when is not None and not self.value(arc.when, row, register):
            return None
        found = dict(register)
        if arc.transfer is not None:
            found.update(arc.transfer(row, dict(register)))
        for name, value in arc.set:
            found[name] = self.value(value, row, register)
        return {
            item.name: None
            if found[item.name] is None
            else self._fitting(found[item.name], item.kind)
            for item in self._machine.fields
        }

    @staticmethod
    def _fitting(value: Any, kind: k.Kind) -> Any:
        if kind.name == "int" and (
            isinstance(value, bool) or not isinstance(value, int | np.integer)
        ):
            raise errors.ColumnTypeError(f"{value!r} is not of type {kind}", remedy="return an int")
        if kind.name == "int" and not -(2 ** (kind.bits - 1)) <= value < 2 ** (kind.bits - 1):
            raise errors.OverflowDataError(f"{value!r} does not fit {kind}", remedy="use bigint")
        if kind.name == "float":
            return float(value)
        return value


class SlowTier:
    """Answers arcs in plain Python."""

    def __init__(self, code: Code, rows: RowStore) -> None:
        self._code = code
        self._rows = rows
        self._arcs: Sequence[Arc] = ()
        self._compiled: Sequence[Compiled] = ()
        self.problems: list[str] = []  # what Python functions raised, since last asked
        self._reader = ArcReader(code.machine, code.kinds)

    def set_arcs(self, arcs: Sequence[Arc], compiled: Sequence[Compiled]) -> None:
        self._arcs, self._compiled = arcs, compiled

    def run_arc(self, table: arcs.Arcs, arc: int, event: int, cells: steps.Cells) -> int:
        if self._compiled[arc].slow is None:
            begin, end = table.table[arc, layout.BEGIN], table.table[arc, layout.FINISH]
            return run_compiled(table.code, begin, end, cells.bits, cells.nulls)
        return self.answer(self._arcs[arc], self._compiled[arc], event, cells.bits, cells.nulls)

    def answer(self, arc: Arc, compiled: Compiled, event: int, cells: Any, nulls: Any) -> int:
        """TRUE, FALSE or FAILED; the new register is left in the arc's output cells."""
        fields = self._code.machine.fields
        register = {
            item.name: None if nulls[place] else self.decoded(int(cells[place]), item.kind)
            for place, item in enumerate(fields)
        }
        row = None if event < 0 else self._rows.row(event)
        try:
            after = self._reader.after(arc, row, register)
            if after is None:
                return guards.FALSE
            for place, item in enumerate(fields):
                result: Any = after[item.name]
                cell = compiled.outputs[place]
                nulls[cell] = result is None
                if result is not None:
                    cells[cell] = self._code.encoded(result, item.kind)
        except errors.EnsueError as problem:
            self.problems.append(f"{arc.text}: {problem.problem}")
            return FAILED
        except Exception as problem:  # whatever the user's function raises
            self.problems.append(f"{arc.text}: {type(problem).__name__}: {problem}")
            return FAILED
        return guards.TRUE

    def decoded(self, bits: int, kind: k.Kind) -> Any:
        return decoded(bits, kind, self._code)


def decoded(bits: int, kind: k.Kind, code: Code) -> Any:
    """The plain value of a cell."""
    match kind.name:
        case "int":
            return bits
        case "float":
            return float(np.int64(bits).view(np.float64))
        case "boolean":
            return bool(bits)
        case "timestamp":
            found: datetime = np.datetime64(bits, "us").astype(object)
            return found
        case "date":
            day: date = np.datetime64(bits, "D").astype(object)
            return day
        case _:
            return code.texts.values[bits]
