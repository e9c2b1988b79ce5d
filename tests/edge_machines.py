"""The evaluators of conditions, asked for the value of an expression of `tests/edges.py`.

Not for matches of a pattern: the code comes from the compilers that the engines use, and is run row
by row. A machine that does not hold an expression gives its reason instead. `asks` names the
compiler and the loops of a machine; `compilers` and `loops` find those there are.
"""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

import ensue
from ensue import errors
from ensue.automaton.registers import FIELD, Arc, Field, RegisterAutomaton
from ensue.guards import machine as vm
from ensue.guards.compile import _Compiler
from ensue.guards.operators import Operators, TooHardError, Value
from ensue.operator.guard_banks import load_banks
from ensue.quantities.assemble import Assembly, bits_of, require_number
from ensue.quantities.model import Operation
from ensue.query import condition as c
from ensue.revision.code import Code
from ensue.revision.coder import ArcCoder
from ensue.revision.kernels.quick import run_quick
from ensue.revision.tier import run_compiled
from ensue.scalar import kinds as k
from ensue.scalar.columns import Rows, evaluate
from ensue.scalar.values import compile_value
from tests.edges import (
    COLUMNS,
    FAR,
    HANDED_OVER,
    KINDS,
    TABLE,
    UTC,
    Answer,
    Asked,
    answer,
    column_of,
    kind_of,
)

Ask = Callable[[Asked], list[Answer] | str]
MACHINES: dict[str, Ask] = {}
ASKED: set[Any] = set()


def asks(*parts: Any) -> Callable[[Ask], Ask]:
    """The compiler and the loops that give a machine's answers."""

    def register(machine: Ask) -> Ask:
        MACHINES[machine.__name__.removeprefix("by_")] = machine
        ASKED.update(parts)
        return machine

    return register


def compilers() -> set[type[Operators]]:
    """Those that write an operator their own way; the others differ in their leaves alone."""
    _modules()
    leaves = ("_leaf", "_leaf_kind", "_clock_reading")
    written = {
        name
        for name, part in vars(Operators).items()
        if isinstance(part, (FunctionType, staticmethod)) and name not in (*leaves, "__init__")
    }
    found: set[type[Operators]] = set()
    waiting = [Operators]
    while waiting:
        base = waiting.pop()
        below = [one for one in base.__subclasses__() if one.__module__.startswith("ensue.")]
        waiting += below
        found.update(one for one in below if base is Operators or written & set(vars(one)))
    return found


def loops() -> set[Any]:
    """Kernels that run code from one place to another."""
    found = set()
    for module in _modules():
        for value in vars(module).values():
            function = getattr(value, "py_func", None)
            if function is not None and function.__module__ == module.__name__:
                names = list(inspect.signature(function).parameters)
                if "code" in names and "end" in names:
                    found.add(value)
    return found


@cache
def _modules() -> tuple[ModuleType, ...]:
    names = [info.name for info in pkgutil.walk_packages(ensue.__path__, "ensue.")]
    wanted = [name for name in names if not name.startswith(("ensue.run.spark", "ensue.spark"))]
    return tuple(importlib.import_module(name) for name in wanted)


def by_values(case: Asked) -> list[Answer]:
    compiled = compile_value(case.condition, kind_of)

    def one(row: int) -> Any:
        return compiled(lambda leaf: COLUMNS[column_of(leaf)][row])

    return [answer(lambda row=row: one(row)) for row in case.rows]


def by_columns(case: Asked, expected: list[Answer]) -> list[Answer]:
    """Rows expected to raise are asked one by one, the others together."""
    found: dict[int, Answer] = {}
    fine = [row for row, (what, _) in zip(case.rows, expected, strict=True) if what == "value"]
    try:
        column = _over(case, fine)
        found = {row: ("value", x) for row, x in zip(fine, _listed(column), strict=True)}
    except errors.DataError:
        pass
    for row in case.rows:
        if row not in found:
            found[row] = answer(lambda row=row: _listed(_over(case, [row, row]))[0])
    return [found[row] for row in case.rows]


def _over(case: Asked, rows: list[int]) -> pa.Array:
    taken = TABLE.select(list(case.names)).take(pa.array(rows, pa.int64()))
    return evaluate(case.condition, Rows({n: taken[n].combine_chunks() for n in case.names},
                                         len(rows), zone="UTC"))  # fmt: skip


def _listed(column: pa.Array) -> list[Any]:
    found = []
    for value in column:
        try:
            found.append(value.as_py())
        except (OverflowError, ValueError):
            found.append(FAR)
    return found


class _Rows(_Compiler):
    """Guards over the columns of a row."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(None, {name: KINDS[name] for name in names})  # type: ignore[arg-type]

    def finished(self, case: Asked) -> Any:
        value = self._condition(case.condition)
        self._plan = _NoPlan()  # type: ignore[assignment]
        return value, self._finish([0, len(self._code)])


class _NoMarks:
    labels: tuple[str, ...] = ()
    count = 0


class _NoPlan:
    marks = _NoMarks()


@asks(_Compiler, vm.run_guard)
def by_guards(case: Asked) -> list[Answer] | str:
    """The register machine; the reason where it does not hold the expression."""
    try:
        value, guards = _Rows(case.names).finished(case)
    except TooHardError as problem:
        return str(problem)
    found: list[Answer] = []
    for row in case.rows:
        columns = {name: TABLE[name].combine_chunks().slice(row, 1) for name in case.names}
        banks = load_banks(guards, columns, 1)
        if banks is None:
            found.append(HANDED_OVER)
            continue
        cells = guards.cells + value.cell + 200
        ints, floats, nulls = np.zeros(cells, np.int64), np.zeros(cells), np.zeros(cells, np.bool_)
        none = np.zeros(1, np.int64)
        status = _run_alone(vm.run_guard)(
            guards.code, 0, len(guards.code), 0, 0, 0, 1, 1, none, np.zeros(1), banks.ints,
            banks.floats, banks.int_nulls, banks.float_nulls, banks.int_constants,
            guards.float_constants, ints, floats, nulls,
        )  # fmt: skip
        texts = _texts(guards, columns)
        number = floats[value.cell] if value.floating else ints[value.cell]
        found.append(_read(status, number, bool(nulls[value.cell]), value.kind, texts))
    return found


def _texts(guards: Any, columns: Any) -> list[str]:
    found = [v for name in guards.text_inputs for v in columns[name].to_pylist() if v is not None]
    return sorted({*found, *guards.literals}, key=lambda text: text.encode())


def _read(status: int, number: Any, null: bool, kind: k.Kind, texts: list[str]) -> Answer:
    if status == vm.OVERFLOW:
        return HANDED_OVER
    if status == vm.BY_ZERO:
        return "error", ("other", "division by zero")
    if null:
        return "value", None
    match kind.name:
        case "float":
            return "value", float(number)
        case "boolean":
            return "value", bool(number)
        case "int":
            return "value", int(number)
        case "decimal":
            return "value", Decimal(int(number)).scaleb(-kind.scale)
        case "string":
            return "value", texts[int(number)]
        case "interval":
            return "value", dt.timedelta(microseconds=int(number))
        case "date":
            try:
                return "value", dt.date(1970, 1, 1) + dt.timedelta(days=int(number))
            except OverflowError:
                return "value", FAR
        case "timestamp":
            zone = UTC if kind.zoned else None
            try:
                start = dt.datetime(1970, 1, 1, tzinfo=zone)
                return "value", start + dt.timedelta(microseconds=int(number))
            except OverflowError:
                return "value", FAR
        case _:
            return "value", None


@asks(Assembly, vm.run_cells)
def by_quantify(case: Asked) -> list[Answer] | str:
    """The operation of a quantity, on the cells of its arguments."""
    kinds = [KINDS[name] for name in case.names]
    assembly = Assembly()
    cells = [assembly._cell() for _ in case.names]
    result = assembly._cell()
    arguments = [
        (kind, lambda cell=cell, kind=kind: Value(cell, kind))
        for cell, kind in zip(cells, kinds, strict=True)
    ]
    try:
        for kind in (*kinds, case.kind):
            require_number(kind)
        operation = Operation(case.names, case.condition)
        begin, end = assembly._operation(operation, arguments, case.kind, result)
    except TooHardError as problem:
        return str(problem)
    code = np.array(assembly._code, np.int64).reshape(-1, 4)
    found = []
    for row in case.rows:
        bits = np.array([bits for bits, _ in assembly._contents], np.int64)
        nulls = np.array([mark for _, mark in assembly._contents], np.bool_)
        for cell, name, kind in zip(cells, case.names, kinds, strict=True):
            bits[cell], nulls[cell] = bits_of(COLUMNS[name][row], kind)
        floats = bits.view(np.float64)
        status = vm.run_cells(
            code, begin, end, bits, floats, nulls, np.zeros((1, 1)), np.zeros((1, 1), np.bool_)
        )
        number = floats[result] if case.kind.name == "float" else bits[result]
        found.append(_read(status, number, bool(nulls[result]), case.kind, []))
    return found


@asks(ArcCoder, run_compiled, run_quick)
def by_arcs(case: Asked) -> list[Answer] | str:
    """The transfer of an AFA's arc over its register; short ones run in the quick machine."""
    fields = tuple(Field(name, KINDS[name]) for name in case.names)
    machine = RegisterAutomaton((*fields, Field("out", case.kind)), starts=("q",))

    def into_register(node: c.Condition) -> c.Condition | None:
        return c.Column(FIELD + node.name) if isinstance(node, c.Column) else None

    moved = c.transform(case.condition, into_register)
    code = Code(machine, {})
    compiled = code.compiled(Arc("q", "q", set=(("out", moved),)))
    if compiled.slow is not None:
        return compiled.slow
    lines = np.array(code.code, np.int64).reshape(-1, 4)
    found = []
    for row in case.rows:
        cells, nulls = np.zeros(code.cells, np.int64), np.zeros(code.cells, np.bool_)
        for cell, bits in code._filled.items():
            cells[cell] = bits
        for place, name in enumerate(case.names):
            value = COLUMNS[name][row]
            nulls[place] = value is None
            if value is not None:
                cells[place] = _bits(code, value, KINDS[name])
        floats = cells.view(np.float64)
        if code.is_quick(compiled):
            status = _run_alone(run_quick)(
                lines, compiled.begin, compiled.end, cells, floats, nulls
            )
        else:
            status = run_compiled(lines, compiled.begin, compiled.end, cells, nulls)
        out = compiled.outputs[-1]
        number = floats[out] if case.kind.name == "float" else cells[out]
        found.append(_read(status, number, bool(nulls[out]), case.kind, code.texts.values))
    return found


def _bits(code: Code, value: Any, kind: k.Kind) -> int:
    return (
        value // dt.timedelta(microseconds=1)
        if kind.name == "interval"
        else code.encoded(value, kind)
    )


@cache
def _run_alone(kernel: Any) -> Any:
    """A kernel that only others call, with a way in from Python."""
    from numba import njit

    @njit
    def run(*given):  # type: ignore[no-untyped-def]
        return kernel(*given)

    return run
