"""Correlated conditions to code for the register machine of `guards/machine.py`.

Each label's correlated parts become one guard. What a guard reads of the match (the last A, a
running sum) becomes a register with an update rule per label. The machine knows only integers and
floats: strings are ranks in a dictionary of the batch, times are
microseconds, decimals are integers of a fixed scale. Arithmetic is checked, and a batch in which a
number leaves 64 bits is matched again in plain Python, which is exact. A condition that the machine
cannot hold at all raises `TooHardError`; the plan then takes the Python tier and says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ensue.automaton import conditions
from ensue.automaton.plan import Plan
from ensue.automaton.program import Program
from ensue.automaton.walks import gathered
from ensue.guards import machine as vm
from ensue.guards.operators import Operators, TooHardError, Value
from ensue.guards.reader import leaf_kind
from ensue.query import condition as c
from ensue.scalar import kinds
from ensue.scalar.infer import Typed

# A value that comes twice changes nothing for these: DISTINCT is the aggregate itself.
_EXTREMA = {"min": "min", "max": "max", "bool_and": "min", "bool_or": "max"}
MAX_OFFSET = 16  # LAST(A.x, n) keeps n + 1 row numbers per partial match


@dataclass(frozen=True)
class Guards:
    """Everything `kernels.threads.run_threads` needs beside the program and the data."""

    int_inputs: tuple[str, ...]
    float_inputs: tuple[str, ...]
    text_inputs: tuple[str, ...]  # those of the int inputs that are ranks
    scales: Mapping[str, int]  # decimal inputs: digits after the point
    clocks: Mapping[str, tuple[str, str]]  # inputs read off the clocks: the column and the zone
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
    row_registers: Mapping[tuple[c.Anchor, str], int]  # of FIRST(A.x) and LAST(A.x)
    share: bool  # no guard asks how far the start is, or which match this is


def compile_guards(plan: Plan, input_kind: Mapping[str, kinds.Kind]) -> Guards:
    """Code for all correlated parts of a plan, or `TooHardError`."""
    return _Compiler(plan, input_kind).compile()


def session_zone(input_kind: Mapping[str, kinds.Kind]) -> str:
    """The session's zone: timestamps carry it."""
    zones = (kind.zone for kind in input_kind.values() if kind.zoned and kind.zone)
    return next(zones, kinds.DEFAULT_ZONE)


@dataclass
class _Register:
    updates: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    ints: list[int] = field(default_factory=list)  # registers it owns
    floats: list[int] = field(default_factory=list)
    variable: str | None = None


class _Compiler(Operators):
    _side_by_side = True  # the rows of a match, so that the first and the last are known

    def __init__(self, plan: Plan, input_kind: Mapping[str, kinds.Kind]) -> None:
        super().__init__(session_zone(input_kind))
        self._plan = plan
        self._kinds = input_kind
        self._int_inputs: dict[str, int] = {}
        self._float_inputs: dict[str, int] = {}
        self._text: dict[str, None] = {}
        self._scales: dict[str, int] = {}
        self._clocks: dict[str, tuple[str, str]] = {}
        self._by_the_clocks = False
        self._most_cells = 1
        self._int_registers: list[int] = []  # initial values
        self._float_registers = 0
        self._registers: dict[object, _Register] = {}
        self._reads: dict[int, set[object]] = {}  # label -> registers its guard reads
        self._label = 0

    def compile(self) -> Guards:
        return self._finish(self._verdicts())

    def _verdicts(self) -> list[int]:
        """Code for the guards of all labels, and where each ends."""
        offsets = [0]
        for index, test in enumerate(self._plan.tests):
            self._label, self._cells = index, 0
            self._reads[index] = set()
            if test.correlated:
                self._verdict(c.conjunction(list(test.correlated)), test.label)
            offsets.append(len(self._code))
        return offsets

    def _verdict(self, condition: c.Condition, label: str) -> None:
        value = self._condition(condition)
        if value.kind.name not in ("boolean", "null"):
            raise TooHardError(f"the condition of {label} is {value.kind}, not boolean")
        # The verdict is read from the last destination, whatever the code's shape.
        self._emit(vm.MOVE_INT, self._cell(), value.cell)
        self._most_cells = max(self._most_cells, self._cells)

    def _leaf(self, node: c.Condition) -> Value:
        match node:
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
            case _:
                raise TooHardError("it reads labels")

    def _leaf_kind(self, node: c.Condition) -> kinds.Kind:
        return leaf_kind(node, self._kinds.__getitem__, self._zone)

    def _clock_reading(self, node: Typed) -> Value:
        if not isinstance(node.origin, c.Column | c.Navigate):
            return super()._clock_reading(node)
        self._by_the_clocks = True
        value = self._leaf(node.origin)
        self._by_the_clocks = False
        return value

    def _load(self, name: str, row: int) -> Value:
        column, kind = self._input(name)
        operation = vm.LOAD_FLOAT if kind.name == "float" else vm.LOAD_INT
        return self._value(operation, kind, row, column)

    def _input(self, name: str) -> tuple[int, kinds.Kind]:
        kind = self._kinds[name]
        if self._by_the_clocks:
            column, name = name, f"{name} by the clocks"
            self._clocks[name] = column, self._zone
        if kind.name == "float":
            return self._float_inputs.setdefault(name, len(self._float_inputs)), kind
        if kind.name == "decimal":
            self._scales[name] = kind.scale
        elif kind.name == "string":
            self._text.setdefault(name)
        elif kind.name not in ("int", "boolean", "date", "timestamp", "null"):
            raise TooHardError(f"it reads a value of type {kind}")
        return self._int_inputs.setdefault(name, len(self._int_inputs)), kind

    # -- what the match holds --------------------------------------------------------------------

    def _navigate(self, node: c.Navigate) -> Value:
        if not isinstance(node.argument, c.Column):
            raise TooHardError(
                "it reads labels"
                if conditions.reads_label(node.argument)
                else "it navigates over a constant"
            )
        row = self._cell()
        if conditions.is_neighbour(node):
            self._emit(vm.ROW, row)
        elif node.variable is None and self._side_by_side:
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

    def _row_register(self, variable: str | None, anchor: c.Anchor, offset: int) -> int:
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

    def _aggregate(self, node: c.Aggregate) -> Value:
        of_booleans = node.function in ("bool_and", "bool_or")
        if node.function in _EXTREMA:
            node = replace(node, function=_EXTREMA[node.function], distinct=False)
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
        if node.function == "avg" and kind.name == "decimal":
            raise TooHardError("the average of decimals is computed exactly")
        if of_booleans and kind.name != "boolean":
            raise TooHardError(f"it asks {kind} for true and false")
        count = self._count_register(node.variable, where, (column, kind.name == "float"))
        if node.function == "count":
            return self._value(vm.INT_REGISTER, kinds.BIGINT, count, -1)
        if node.function in ("min", "max"):
            return self._extremum(node, column, kind, where, count)
        total = self._sum(node, column, kind, where, count)
        if node.function == "sum":
            return total
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
    ) -> Value:
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
        result = self._leaf_kind(replace(node, function="sum"))
        return self._value(vm.INT_REGISTER, result, register, count)

    def _extremum(
        self, node: c.Aggregate, column: int, kind: kinds.Kind, where: int, count: int
    ) -> Value:
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

    # -- result ----------------------------------------------------------------------------------

    def _finish(self, offsets: list[int]) -> Guards:
        marks = self._plan.marks
        order = sorted(self._registers.items(), key=lambda item: _rank(item[1]))
        updates = [update for _, register in order for update in register.updates]
        owners = [register for _, register in order for _ in register.updates]
        applies = np.zeros((len(marks.labels), len(updates)), np.bool_)
        for index, register in enumerate(owners):
            names = marks.query.members(register.variable)
            for label, name in enumerate(marks.labels):
                applies[label, index] = name in names
        live_ints = np.zeros((marks.count, len(self._int_registers)), np.bool_)
        live_floats = np.zeros((marks.count, self._float_registers), np.bool_)
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
            clocks=self._clocks,
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
            row_registers={
                key[:2]: register.ints[0]
                for key, register in self._registers.items()
                if isinstance(key, tuple) and isinstance(key[0], c.Anchor) and key[2] == 0
            },
            share=not any(line[0] in (vm.LAST_ROW, vm.FIRST_ROW, vm.NUMBER) for line in self._code),
        )

    def _live(self) -> list[set[object]]:
        """Per state: the registers that a guard on some way ahead may read."""
        program = self._plan.marks
        if not isinstance(program, Program):
            return [set() for _ in range(program.count)]  # engines of event patterns know it
        arcs = [program.followers(state) for state in range(program.states)]
        asked = [
            {r for t in targets for r in self._reads[int(program.label[t])]} for targets in arcs
        ]
        return gathered(asked, arcs)


def _rank(register: _Register) -> int:
    """Counts are updated first: sums and extrema read them to know their first value."""
    return 0 if register.updates[0][0] <= vm.COUNT_VALUES else 1
