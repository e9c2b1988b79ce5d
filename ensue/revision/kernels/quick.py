"""The machine of `guards/machine.py` cut down to what fences and transfers are mostly made of.

`Arcs.quick` says for which arcs that is enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.guards import machine as vm
from ensue.kernels.arithmetic import checked_difference, checked_sum, compare_floats
from ensue.kernels.calls import inner_inlined

QUICK = frozenset(
    {
        vm.ADD, vm.SUBTRACT, vm.ADD + 1, vm.SUBTRACT + 1, vm.MULTIPLY + 1, vm.EQUAL, vm.NOT_EQUAL,
        vm.LESS, vm.LESS_EQUAL, vm.EQUAL + 1, vm.NOT_EQUAL + 1, vm.LESS + 1, vm.LESS_EQUAL + 1,
        vm.MOVE_INT, vm.MOVE_FLOAT, vm.TO_FLOAT, vm.JUMP_UNLESS_TRUE, vm.JUMP_IF_NULL,
    }
)  # fmt: skip


@inner_inlined
def run_quick(
    code: NDArray[np.int64],
    place: int,
    end: int,
    cells: NDArray[np.int64],
    floats: NDArray[np.float64],
    nulls: NDArray[np.bool_],
) -> int:
    """As `run_guard`, for the instructions in QUICK, and TRUE where no fence was."""
    while place < end:
        operation, target = code[place, 0], code[place, 1]
        a, b = code[place, 2], code[place, 3]
        place += 1
        if operation == vm.JUMP_UNLESS_TRUE:
            if nulls[a] or cells[a] == 0:
                return vm.FALSE
            continue
        if operation == vm.JUMP_IF_NULL:
            if nulls[a]:
                nulls[target] = True
                place = b
            continue
        if operation < 30:
            nulls[target] = nulls[a]
            if operation == vm.TO_FLOAT:
                floats[target] = float(cells[a]) / floats[b]
            else:
                cells[target] = cells[a]
            continue
        if nulls[a] or nulls[b]:
            nulls[target] = True
            continue
        nulls[target] = False
        if operation == vm.ADD:
            total, fits = checked_sum(cells[a], cells[b])
            if not fits:
                return vm.OVERFLOW
            cells[target] = total
        elif operation == vm.SUBTRACT:
            total, fits = checked_difference(cells[a], cells[b])
            if not fits:
                return vm.OVERFLOW
            cells[target] = total
        elif operation == vm.EQUAL:
            cells[target] = cells[a] == cells[b]
        elif operation == vm.NOT_EQUAL:
            cells[target] = cells[a] != cells[b]
        elif operation == vm.LESS:
            cells[target] = cells[a] < cells[b]
        elif operation == vm.LESS_EQUAL:
            cells[target] = cells[a] <= cells[b]
        elif operation == vm.ADD + 1:
            floats[target] = floats[a] + floats[b]
        elif operation == vm.SUBTRACT + 1:
            floats[target] = floats[a] - floats[b]
        elif operation == vm.MULTIPLY + 1:
            floats[target] = floats[a] * floats[b]
        else:
            order = compare_floats(floats[a], floats[b])
            if operation == vm.EQUAL + 1:
                cells[target] = order == 0
            elif operation == vm.NOT_EQUAL + 1:
                cells[target] = order != 0
            elif operation == vm.LESS + 1:
                cells[target] = order < 0
            else:
                cells[target] = order <= 0
    return vm.TRUE
