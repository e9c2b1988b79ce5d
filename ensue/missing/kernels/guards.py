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

from ensue.guards.machine import (
    MISSING_ROW,
    OVERFLOW,
    TRUE,
    miss_registers,
    run_guard,
    update_registers,
)
from ensue.missing.kernels.nodes import (
    GENERATION,
    NONE,
    USED,
    Machine,
    Nodes,
    Scratch,
    add_link,
    new_node,
)


class Guards(NamedTuple):
    """Conditions by label, and the rows of a batch that they read."""

    active: bool  # False: no condition reads another event
    part_offset: NDArray[np.int64]  # [label]
    code: NDArray[np.int64]
    code_offset: NDArray[np.int64]  # [part]
    row_offset: NDArray[np.int64]  # [part], into rows
    rows: NDArray[np.int64]  # registers of rows
    gone: NDArray[np.int64]  # [part]: labels aggregated, as bits
    updates: NDArray[np.int64]
    applies: NDArray[np.bool_]
    live_ints: NDArray[np.bool_]  # [state, register]
    live_floats: NDArray[np.bool_]
    live_gone: NDArray[np.int64]
    initial_ints: NDArray[np.int64]
    initial_floats: NDArray[np.float64]
    int_constants: NDArray[np.int64]
    float_constants: NDArray[np.float64]
    ints: NDArray[np.int64]  # [column, row]
    floats: NDArray[np.float64]
    int_nulls: NDArray[np.bool_]
    float_nulls: NDArray[np.bool_]
    letters: NDArray[np.int32]  # [state]
    skipped_offset: NDArray[np.int64]  # [link]
    skipped: NDArray[np.int32]  # labels
    inside: NDArray[np.int64]  # first and last row that PREV and NEXT may read
    here_ints: NDArray[np.int64]  # registers of the candidate that is asked
    here_floats: NDArray[np.float64]
    here_gone: NDArray[np.int64]
    cell_ints: NDArray[np.int64]
    cell_floats: NDArray[np.float64]
    cell_nulls: NDArray[np.bool_]


class Registers(NamedTuple):
    """Of each node; rows are those of the batch."""

    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    gone: NDArray[np.int64]


@njit(cache=True, nogil=True)
def join(
    guards: Guards, registers: Registers, before: int, link: int, target: int, row: int
) -> bool:
    """The registers behind a link and its event, into `here_*`; False: a sum leaves 64 bits."""
    ints, floats = guards.here_ints, guards.here_floats
    if before == NONE:
        ints[:] = guards.initial_ints
        floats[:] = guards.initial_floats
        guards.here_gone[0] = 0
    else:
        ints[:] = registers.ints[before]
        floats[:] = registers.floats[before]
        guards.here_gone[0] = registers.gone[before]
    for place in range(guards.skipped_offset[link], guards.skipped_offset[link + 1]):
        label = guards.skipped[place]
        miss_registers(guards.updates, guards.applies[label], ints)
        guards.here_gone[0] |= np.int64(1) << np.int64(label)
    return update_registers(
        guards.updates,
        guards.applies[guards.letters[target]],
        row,
        ints,
        floats,
        guards.ints,
        guards.floats,
        guards.int_nulls,
        guards.float_nulls,
    )


@njit(cache=True, nogil=True)
def asked(
    guards: Guards, registers: Registers, before: int, link: int, target: int, row: int
) -> int:
    """Whether the event may join: TRUE, FALSE, OVERFLOW or BY_ZERO; `here_*` are its registers."""
    if not join(guards, registers, before, link, target, row):
        return OVERFLOW
    label = guards.letters[target]
    for part in range(guards.part_offset[label], guards.part_offset[label + 1]):
        free = guards.gone[part] & guards.here_gone[0] != 0
        for place in range(guards.row_offset[part], guards.row_offset[part + 1]):
            free = free or guards.here_ints[guards.rows[place]] == MISSING_ROW
        if free:
            continue
        verdict = run_guard(
            guards.code,
            guards.code_offset[part],
            guards.code_offset[part + 1],
            row,
            row,
            guards.inside[0],
            guards.inside[1],
            0,
            guards.here_ints,
            guards.here_floats,
            guards.ints,
            guards.floats,
            guards.int_nulls,
            guards.float_nulls,
            guards.int_constants,
            guards.float_constants,
            guards.cell_ints,
            guards.cell_floats,
            guards.cell_nulls,
        )
        if verdict != TRUE:
            return verdict
    return TRUE


@njit(cache=True, nogil=True)
def _forget(guards: Guards, state: int) -> None:
    """Resets what nothing ahead reads."""
    for index in range(guards.here_ints.shape[0]):
        if not guards.live_ints[state, index]:
            guards.here_ints[index] = guards.initial_ints[index]
    for index in range(guards.here_floats.shape[0]):
        if not guards.live_floats[state, index]:
            guards.here_floats[index] = guards.initial_floats[index]
    guards.here_gone[0] &= guards.live_gone[state]


@njit(cache=True, nogil=True)
def _keep(guards: Guards, registers: Registers, node: int) -> None:
    registers.ints[node] = guards.here_ints
    registers.floats[node] = guards.here_floats
    registers.gone[node] = guards.here_gone[0]


@njit(cache=True, nogil=True)
def _same(guards: Guards, registers: Registers, node: int) -> bool:
    if registers.gone[node] != guards.here_gone[0]:
        return False
    for index in range(guards.here_ints.shape[0]):
        if registers.ints[node, index] != guards.here_ints[index]:
            return False
    for index in range(guards.here_floats.shape[0]):
        if registers.floats[node, index] != guards.here_floats[index]:
            return False
    return True


@njit(cache=True, nogil=True)
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
    """As `acep_nodes.extend`; the registers of the node are those in `here_*`."""
    _forget(guards, target)
    first = row if before == NONE else nodes.first[before]
    node = NONE
    slot, key = 0, np.int64(0)
    if machine.merge:
        mask = scratch.keys.shape[0] - 1
        mixed = np.uint64(target) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(error)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed += np.uint64(first)
        for index in range(guards.here_ints.shape[0]):
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed += np.uint64(guards.here_ints[index])
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        key = np.int64((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1))
        slot = key & mask
        while scratch.stamps[slot] == scratch.counters[GENERATION]:
            known = scratch.values[slot]
            if (
                scratch.keys[slot] == key
                and nodes.state[known] == target
                and nodes.error[known] == error
                and nodes.first[known] == first
                and _same(guards, registers, known)
            ):
                node = known
                break
            slot = (slot + 1) & mask
    if node == NONE:
        node = new_node(nodes, before, target, error, first, row, time)
        _keep(guards, registers, node)
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
        if not join(guards, registers, nodes.before[link], nodes.via[link], state, row):
            return False
        _forget(guards, state)
        _keep(guards, registers, node)
    return True
