"""The registers of partial matches: how every room that keeps them asks guards and takes rows in.

What the guards of a pattern read of the match so far stands in registers (`compile.py`). A row that
joins changes them; a guard is asked on the registers as they would be with the row; then those that
no guard ahead reads are reset. Partial matches in one state whose registers agree have the same
future: what tells them apart is here too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.guards.machine import run_guard, update_registers
from ensue.kernels.calls import inner_allocating, inner_inlined


class GuardMachine(NamedTuple):
    """The register machine with the code of a pattern and the rows of a batch."""

    code: NDArray[np.int64]
    guard_offset: NDArray[np.int64]  # per guard, into `code`
    updates: NDArray[np.int64]
    applies: NDArray[np.bool_]  # [label, update]
    live_ints: NDArray[np.bool_]  # [state, register]
    live_floats: NDArray[np.bool_]
    initial_ints: NDArray[np.int64]
    initial_floats: NDArray[np.float64]
    ints: NDArray[np.int64]  # [column, row]
    floats: NDArray[np.float64]
    int_nulls: NDArray[np.bool_]
    float_nulls: NDArray[np.bool_]
    int_constants: NDArray[np.int64]
    float_constants: NDArray[np.float64]
    cell_ints: NDArray[np.int64]
    cell_floats: NDArray[np.float64]
    cell_nulls: NDArray[np.bool_]


@inner_inlined
def take_row(
    machine: GuardMachine,
    label: int,
    row: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
) -> bool:
    """The registers after a row joined under a label; False where an integer sum overflows."""
    return update_registers(
        machine.updates,
        machine.applies[label],
        row,
        ints,
        floats,
        machine.ints,
        machine.floats,
        machine.int_nulls,
        machine.float_nulls,
    )


@inner_inlined
def copy_registers(
    known_ints: NDArray[np.int64],
    known_floats: NDArray[np.float64],
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
) -> None:
    for index in range(ints.shape[0]):
        ints[index] = known_ints[index]
    for index in range(floats.shape[0]):
        floats[index] = known_floats[index]


@inner_inlined
def ask_guard(
    machine: GuardMachine,
    guard: int,
    row: int,
    start: int,
    first: int,
    last: int,
    number: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
) -> int:
    """As `run_guard`: TRUE, FALSE, OVERFLOW or BY_ZERO."""
    return run_guard(
        machine.code,
        machine.guard_offset[guard],
        machine.guard_offset[guard + 1],
        row,
        start,
        first,
        last,
        number,
        ints,
        floats,
        machine.ints,
        machine.floats,
        machine.int_nulls,
        machine.float_nulls,
        machine.int_constants,
        machine.float_constants,
        machine.cell_ints,
        machine.cell_floats,
        machine.cell_nulls,
    )


@inner_inlined
def reset_registers(
    machine: GuardMachine, state: int, ints: NDArray[np.int64], floats: NDArray[np.float64]
) -> None:
    """Resets the registers that no guard ahead of the state reads."""
    for index in range(ints.shape[0]):
        if not machine.live_ints[state, index]:
            ints[index] = machine.initial_ints[index]
    for index in range(floats.shape[0]):
        if not machine.live_floats[state, index]:
            floats[index] = machine.initial_floats[index]


@inner_inlined
def same_registers(
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    place: int,
    other_ints: NDArray[np.int64],
    other_floats: NDArray[np.float64],
    other: int,
) -> bool:
    """Whether two partial matches agree in all registers; NaN is equal to itself."""
    for index in range(ints.shape[1]):
        if ints[place, index] != other_ints[other, index]:
            return False
    for index in range(floats.shape[1]):
        a, b = floats[place, index], other_floats[other, index]
        if a != b and not (np.isnan(a) and np.isnan(b)):
            return False
    return True


@inner_allocating
def hash_registers(
    seed: int, ints: NDArray[np.int64], floats: NDArray[np.float64], place: int
) -> int:
    """A number, not negative, that partial matches of equal registers and seed share."""
    code = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
    for index in range(ints.shape[1]):
        code = (code ^ np.uint64(ints[place, index])) * np.uint64(0xBF58476D1CE4E5B9)
    for index in range(floats.shape[1]):
        code = (code ^ np.uint64(hash(floats[place, index]))) * np.uint64(0xBF58476D1CE4E5B9)
    return int(np.int64((code ^ (code >> np.uint64(31))) >> np.uint64(1)))
