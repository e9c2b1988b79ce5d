"""Match nodes whose conditions read other events, some of which may be missing: registers.

A node has the registers of `guards/machine.py`: rows looked up, counts, sums. A row register that
stands for a missing event says so; an aggregate is asked whether an event of its labels is missing,
which is a bit of `gone`. A part of a condition that reads a missing event holds.

Registers that no condition ahead reads are reset, so that nodes which agree in all that is left
(and in state, event, error and first event) are one, where `machine.merge` allows it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.guards.machine import MISSING_ROW, OVERFLOW, TRUE, miss_registers
from ensue.guards.registers import (
    GuardMachine,
    ask_guard,
    copy_registers,
    hash_registers,
    reset_registers,
    same_registers,
    take_row,
)
from ensue.kernels.calls import inner_allocating, inner_inlined
from ensue.missing.kernels.nodes import (
    GENERATION,
    MOST,
    NONE,
    USED,
    Machine,
    Nodes,
    Scratch,
    add_link,
    new_node,
)


class Guards(NamedTuple):
    """Conditions by label, cut into parts, and the rows of a batch that they read."""

    active: bool  # False: no condition reads another event
    machine: GuardMachine  # a guard per part
    part_offset: NDArray[np.int64]  # [label]
    row_offset: NDArray[np.int64]  # [part], into rows
    rows: NDArray[np.int64]  # registers of rows
    gone: NDArray[np.int64]  # [part]: labels aggregated, as bits
    live_gone: NDArray[np.int64]  # [state]
    letters: NDArray[np.int32]  # [state]
    skipped_offset: NDArray[np.int64]  # [link]
    skipped: NDArray[np.int32]  # labels
    inside: NDArray[np.int64]  # first and last row that PREV and NEXT may read


class Registers(NamedTuple):
    """Of each node; rows are those of the batch."""

    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    gone: NDArray[np.int64]


@inner_inlined
def join(
    guards: Guards, registers: Registers, node: int, before: int, link: int, target: int, row: int
) -> bool:
    """The registers of a node behind a link and its event; False: a sum leaves 64 bits."""
    ints, floats = registers.ints[node], registers.floats[node]
    if before == NONE:
        copy_registers(guards.machine.initial_ints, guards.machine.initial_floats, ints, floats)
        registers.gone[node] = 0
    else:
        copy_registers(registers.ints[before], registers.floats[before], ints, floats)
        registers.gone[node] = registers.gone[before]
    for place in range(guards.skipped_offset[link], guards.skipped_offset[link + 1]):
        label = guards.skipped[place]
        miss_registers(guards.machine.updates, guards.machine.applies[label], ints)
        registers.gone[node] |= np.int64(1) << np.int64(label)
    return take_row(guards.machine, guards.letters[target], row, ints, floats)


@inner_inlined
def asked(
    guards: Guards, registers: Registers, node: int, before: int, link: int, target: int, row: int
) -> int:
    """Whether the event may join: TRUE, FALSE, OVERFLOW or BY_ZERO.

    `node` is the one that it would be, whose registers are overwritten.
    """
    if not join(guards, registers, node, before, link, target, row):
        return OVERFLOW
    ints, floats = registers.ints[node], registers.floats[node]
    first, last = guards.inside[0], guards.inside[1]
    label = guards.letters[target]
    for part in range(guards.part_offset[label], guards.part_offset[label + 1]):
        free = guards.gone[part] & registers.gone[node] != 0
        for place in range(guards.row_offset[part], guards.row_offset[part + 1]):
            free = free or ints[guards.rows[place]] == MISSING_ROW
        if free:
            continue
        verdict = ask_guard(guards.machine, part, row, row, first, last, 0, ints, floats)
        if verdict != TRUE:
            return verdict
    return TRUE


@inner_inlined
def _forget(guards: Guards, registers: Registers, node: int, state: int) -> None:
    """Resets what nothing ahead reads."""
    reset_registers(guards.machine, state, registers.ints[node], registers.floats[node])
    registers.gone[node] &= guards.live_gone[state]


@inner_allocating
def extend_guarded(
    machine: Machine,
    nodes: Nodes,
    guards: Guards,
    registers: Registers,
    scratch: Scratch,
    before: int,
    target: int,
    error: int,
    via: int,
    vector: int,
    row: int,
    time: float,
) -> int:
    """As `nodes.extend`; the registers of the node to come are there, see `join`."""
    fresh = nodes.registers[USED]
    _forget(guards, registers, fresh, target)
    first = row if before == NONE else nodes.first[before]
    node, slot, key = NONE, 0, 0
    if machine.merge:
        mask = scratch.keys.shape[0] - 1
        seed = (np.int64(first) * machine.finals.shape[0] + target) * (machine.bound[MOST] + 1)
        key = hash_registers(seed + error, registers.ints, registers.floats, fresh)
        slot = key & mask
        while scratch.stamps[slot] == scratch.counters[GENERATION]:
            known = scratch.values[slot]
            if (
                scratch.keys[slot] == key
                and nodes.state[known] == target
                and nodes.error[known] == error
                and nodes.first[known] == first
                and registers.gone[known] == registers.gone[fresh]
                and same_registers(
                    registers.ints,
                    registers.floats,
                    known,
                    registers.ints,
                    registers.floats,
                    fresh,
                )
            ):
                node = known
                break
            slot = (slot + 1) & mask
    if node == NONE:
        node = new_node(nodes, before, target, error, first, row, time)
        if machine.merge:
            scratch.keys[slot] = key
            scratch.stamps[slot] = scratch.counters[GENERATION]
            scratch.values[slot] = node
    add_link(nodes, node, before, vector, via)
    return node


@njit(cache=True, nogil=True)
def rebuild(nodes: Nodes, guards: Guards, registers: Registers, shift: int) -> bool:
    """The registers of all nodes anew, from the rows of a batch; False where a sum overflows.

    A node comes after the one before it. Nodes that are one agree in what is live, so any of their
    links will do.
    """
    for node in range(nodes.registers[USED]):
        link = nodes.head[node]
        state = nodes.state[node]
        row = nodes.row[node] + shift
        if not join(guards, registers, node, nodes.before[link], nodes.via[link], state, row):
            return False
        _forget(guards, registers, node, state)
    return True
