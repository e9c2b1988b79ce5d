"""Event patterns whose conditions read the match so far: classes of partial matches, flat.

A *class* is (state, registers): partial matches that agree on everything the conditions ahead can
read behave alike and share one node of the match graph (`match_graph.py`, whose node arrays,
windows and listing are used unchanged). A register is the row of the last A, a count, a sum: what
the guards of `guards/machine.py` read. Registers that nothing ahead reads are reset, so classes
merge.

An event touches only the classes that it can change:

- A state whose step for the event is "stay as you are" is passed over at once.
- Where one guard decides and it has a comparison of the event with a remembered row (equality or
  order), the classes of the state are sorted by that row's value, and only the range that the
  comparison allows is asked.

Where classes lie and are found is in `classes.py`. Cost per event: the classes in the range,
times a guard; a sorted insert is one move of the entries behind it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.guards.machine import FALSE, OVERFLOW, TRUE, run_guard, update_registers
from ensue.sequences.kernels.classes import (
    EMPTY,
    Classes,
    class_hash,
    clear,
    first_place,
    forget,
    insertion,
    rehash,
    same_class,
)
from ensue.sequences.kernels.match_graph import NOTHING, join_nodes

DONE, FULL_NODES, FULL_ROOTS, FULL_CLASSES, GUARD_OVERFLOW, GUARD_BY_ZERO = 0, 1, 2, 3, 4, 5
NO_INDEX, EQUAL, ABOVE, FROM, BELOW, UPTO = 0, 1, 2, 3, 4, 5  # the event's value against the row's


class Steps(NamedTuple):
    """Per state, the step for every combination of the atoms that it tests."""

    mask: NDArray[np.int64]
    position_offset: NDArray[np.int64]  # per state, into `positions`
    positions: NDArray[np.int64]  # atoms of the mask, in order
    entry_offset: NDArray[np.int64]  # per state, into the arrays below
    skip: NDArray[np.int32]  # state after leaving the event out, -1: none
    skip_accept: NDArray[np.bool_]
    idle: NDArray[np.bool_]  # nothing changes
    take_offset: NDArray[np.int64]
    take_label: NDArray[np.int32]
    take_target: NDArray[np.int32]
    take_accept: NDArray[np.bool_]


class Machine(NamedTuple):
    """Guards and registers, and how the classes of each state are sorted."""

    code: NDArray[np.int64]
    guard_offset: NDArray[np.int64]
    updates: NDArray[np.int64]
    applies: NDArray[np.bool_]
    live_ints: NDArray[np.bool_]
    live_floats: NDArray[np.bool_]
    initial_ints: NDArray[np.int64]
    initial_floats: NDArray[np.float64]
    int_constants: NDArray[np.int64]
    float_constants: NDArray[np.float64]
    bounds: NDArray[np.float64]  # of joints, in the unit of `order`
    last_register: int  # row of the last event, where there are bounds
    labels: int
    correlated: int  # bits of the labels that have a guard
    sorting: NDArray[
        np.int64
    ]  # [state, (comparison, label, register, column of its row, of event)]


class Data(NamedTuple):
    """The rows."""

    bits: NDArray[np.int64]
    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    int_nulls: NDArray[np.bool_]
    float_nulls: NDArray[np.bool_]
    sort_keys: NDArray[np.int64]  # [column, row]: values as integers that sort alike
    sort_nulls: NDArray[np.bool_]
    order: NDArray[np.float64]
    lows: NDArray[np.int64]
    starts: NDArray[np.int64]


class Nodes(NamedTuple):
    rows: NDArray[np.int64]
    labels: NDArray[np.int32]
    lefts: NDArray[np.int32]
    rights: NDArray[np.int32]
    newest: NDArray[np.int64]
    oldest: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _entry(steps: Steps, state: int, bits: int) -> int:
    found = 0
    begin = steps.position_offset[state]
    for index in range(begin, steps.position_offset[state + 1]):
        found |= ((bits >> steps.positions[index]) & 1) << (index - begin)
    return steps.entry_offset[state] + found


@njit(cache=True, nogil=True)
def _sort_key(machine: Machine, data: Data, state: int, ints: NDArray[np.int64]) -> int:
    if machine.sorting[state, 0] == NO_INDEX:
        return 0
    row = ints[machine.sorting[state, 2]]
    column = machine.sorting[state, 3]
    if row < 0 or data.sort_nulls[column, row]:
        return np.iinfo(np.int64).max
    return data.sort_keys[column, row]


@njit(cache=True, nogil=True)
def _range(machine: Machine, data: Data, classes: Classes, state: int, row: int) -> tuple[int, int]:
    """Places of the classes that the comparison allows; others stay as they are."""
    column = machine.sorting[state, 4]
    if data.sort_nulls[column, row]:
        return 0, 0
    value = data.sort_keys[column, row]
    keys, count = classes.keys[state], classes.counts[state]
    comparison = machine.sorting[state, 0]
    if comparison == EQUAL:
        return first_place(keys, count, value, False), first_place(keys, count, value, True)
    if comparison == ABOVE:
        return 0, first_place(keys, count, value, False)
    if comparison == FROM:
        return 0, first_place(keys, count, value, True)
    if comparison == BELOW:
        return first_place(keys, count, value, True), count
    return first_place(keys, count, value, False), count


@njit(cache=True, nogil=True)
def _verdict(
    machine: Machine,
    data: Data,
    label: int,
    row: int,
    first: int,
    last: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    scratch_ints: NDArray[np.int64],
    scratch_floats: NDArray[np.float64],
    cell_ints: NDArray[np.int64],
    cell_floats: NDArray[np.float64],
    cell_nulls: NDArray[np.bool_],
) -> int:
    scratch_ints[:] = ints
    scratch_floats[:] = floats
    fits = update_registers(
        machine.updates,
        machine.applies[label],
        row,
        scratch_ints,
        scratch_floats,
        data.ints,
        data.floats,
        data.int_nulls,
        data.float_nulls,
    )
    if not fits:
        return OVERFLOW
    return run_guard(
        machine.code,
        machine.guard_offset[label],
        machine.guard_offset[label + 1],
        row,
        row,
        first,
        last,
        0,
        scratch_ints,
        scratch_floats,
        data.ints,
        data.floats,
        data.int_nulls,
        data.float_nulls,
        machine.int_constants,
        machine.float_constants,
        cell_ints,
        cell_floats,
        cell_nulls,
    )


@njit(cache=True, nogil=True)
def _add(
    machine: Machine,
    data: Data,
    classes: Classes,
    place: int,
    state: int,
    node: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    label: int,
    row: int,
) -> bool:
    """Notes a class for after the event; `label` -1: the event was skipped. False: overflow."""
    classes.new_state[place] = state
    classes.new_node[place] = node
    classes.new_ints[place] = ints
    classes.new_floats[place] = floats
    if label >= 0 and not update_registers(
        machine.updates,
        machine.applies[label],
        row,
        classes.new_ints[place],
        classes.new_floats[place],
        data.ints,
        data.floats,
        data.int_nulls,
        data.float_nulls,
    ):
        return False
    for index in range(ints.shape[0]):
        if not machine.live_ints[state, index]:
            classes.new_ints[place, index] = machine.initial_ints[index]
    for index in range(floats.shape[0]):
        if not machine.live_floats[state, index]:
            classes.new_floats[place, index] = machine.initial_floats[index]
    return True


@njit(cache=True, nogil=True)
def _settle(
    machine: Machine, data: Data, classes: Classes, nodes: Nodes, added: int, used: int, low: int
) -> int:
    """Puts what the event added into the lists of the states; the nodes used."""
    states = classes.ids.shape[0]
    room = classes.table.shape[0] - 1
    for place in range(added):
        state, node = classes.new_state[place], classes.new_node[place]
        where = class_hash(state, classes.new_ints[place], classes.new_floats[place]) & room
        known = EMPTY
        while classes.table[where] != EMPTY:
            slot = classes.table[where]
            if slot >= 0 and same_class(classes, slot, state, place):
                known = slot
                break
            where = (where + 1) & room
        if known >= 0:
            before = classes.node[known]
            if nodes.newest[before] < low:
                classes.node[known] = node
            else:
                classes.node[known] = join_nodes(
                    before,
                    node,
                    used,
                    nodes.rows,
                    nodes.lefts,
                    nodes.rights,
                    nodes.newest,
                    nodes.oldest,
                )
                used += 1
            continue
        slot = classes.free[classes.counts[states]]
        classes.counts[states] += 1
        classes.counts[states + 1] += 1
        classes.table[where] = slot
        classes.state[slot] = state
        classes.node[slot] = node
        classes.ints[slot] = classes.new_ints[place]
        classes.floats[slot] = classes.new_floats[place]
        key = _sort_key(machine, data, state, classes.new_ints[place])
        keys, ids, count = classes.keys[state], classes.ids[state], classes.counts[state]
        at = insertion(classes, state, key, place)
        for index in range(count, at, -1):
            keys[index] = keys[index - 1]
            ids[index] = ids[index - 1]
        keys[at], ids[at] = key, slot
        classes.counts[state] = count + 1
    return used


@njit(cache=True, nogil=True)
def advance(
    steps: Steps,
    machine: Machine,
    data: Data,
    classes: Classes,
    nodes: Nodes,
    roots: NDArray[np.int64],
    place: NDArray[np.int64],
    begins: NDArray[np.int64],
    stops: NDArray[np.int64],
    fresh: NDArray[np.int64],
    edges: NDArray[np.int64],
    live: NDArray[np.int64],
    used: int,
    most_takes: int,
    cells: int,
) -> tuple[int, int, int]:
    """Rows from `place` (partition, row) on: (status, nodes used, roots found).

    Roots, `fresh`, `edges` and `live` are those of `match_graph.advance`. A row is begun only if
    everything it may need has room, so that the caller can make room and go on.
    """
    states = classes.ids.shape[0]
    found = 0
    scratch_ints = machine.initial_ints.copy()
    scratch_floats = machine.initial_floats.copy()
    cell_ints = np.zeros(cells, np.int64)
    cell_floats = np.zeros(cells, np.float64)
    cell_nulls = np.zeros(cells, np.bool_)
    while place[0] < begins.shape[0]:
        partition, row = place[0], place[1]
        if row >= stops[partition]:
            live[partition] = stops[partition]
            for state in range(states):
                for index in range(classes.counts[state]):
                    node = classes.node[classes.ids[state, index]]
                    if nodes.newest[node] >= edges[partition]:
                        held = max(edges[partition], nodes.oldest[node])
                        live[partition] = min(live[partition], held)
            clear(classes)
            place[0] += 1
            if place[0] < begins.shape[0]:
                place[1] = begins[place[0]]
            continue
        amount = classes.counts[states] + 1
        if used + 2 * amount * (most_takes + 1) > nodes.rows.shape[0]:
            return FULL_NODES, used, found
        if found + amount * (most_takes + 1) > roots.shape[0]:
            return FULL_ROOTS, used, found
        if amount * (most_takes + 2) > classes.node.shape[0]:
            return FULL_CLASSES, used, found
        if 3 * classes.counts[states + 1] + 3 * amount * most_takes > 2 * classes.table.shape[0]:
            rehash(classes)
        plain = data.bits[row]
        low = data.lows[row] if data.lows.shape[0] else 0
        first, last = data.starts[partition], data.starts[partition + 1]
        reported = row >= fresh[partition]
        added = 0
        for state in range(states):
            count = classes.counts[state]
            if state > 0 and count == 0:
                continue
            mask = steps.mask[state]
            hard = plain & machine.correlated & mask
            base = plain & ~machine.correlated
            bounded = machine.bounds.shape[0] > 0 and (mask >> machine.labels) != 0
            common = -1
            begin, end = 0, count
            if state == 0:
                begin, end = -1, 0
            elif hard == 0 and not bounded:
                common = _entry(steps, state, base)
                if steps.idle[common]:
                    continue
            elif (
                not bounded
                and machine.sorting[state, 0] != NO_INDEX
                and hard == 1 << machine.sorting[state, 1]
                and steps.idle[_entry(steps, state, base)]
            ):
                begin, end = _range(machine, data, classes, state, row)
                if begin >= end:
                    continue
            kept = begin
            for index in range(begin, end):
                slot, node = NOTHING, NOTHING
                ints, floats = machine.initial_ints, machine.initial_floats
                if state > 0:
                    slot = classes.ids[state, index]
                    node = classes.node[slot]
                    ints, floats = classes.ints[slot], classes.floats[slot]
                    if nodes.newest[node] < low:
                        forget(classes, slot)
                        continue
                entry = common
                if entry < 0:
                    bits = base
                    if hard:
                        for label in range(machine.labels):
                            if (hard >> label) & 1:
                                verdict = _verdict(
                                    machine,
                                    data,
                                    label,
                                    row,
                                    first,
                                    last,
                                    ints,
                                    floats,
                                    scratch_ints,
                                    scratch_floats,
                                    cell_ints,
                                    cell_floats,
                                    cell_nulls,
                                )
                                if verdict == TRUE:
                                    bits |= 1 << label
                                elif verdict != FALSE:
                                    overflow = verdict == OVERFLOW
                                    return (
                                        GUARD_OVERFLOW if overflow else GUARD_BY_ZERO,
                                        used,
                                        found,
                                    )
                    for index_of in range(machine.bounds.shape[0]):
                        since = ints[machine.last_register] if machine.last_register >= 0 else -1
                        gap = data.order[row] - data.order[since] if since >= 0 else 0.0
                        if gap <= machine.bounds[index_of]:
                            bits |= 1 << (machine.labels + index_of)
                    entry = _entry(steps, state, bits)
                if steps.skip_accept[entry] and state > 0 and reported:
                    roots[found, 0], roots[found, 1], roots[found, 2] = row, node, low
                    found += 1
                for take in range(steps.take_offset[entry], steps.take_offset[entry + 1]):
                    target = steps.take_target[take]
                    accepted = steps.take_accept[take] and reported
                    if target < 0 and not accepted:
                        continue
                    nodes.rows[used] = row
                    nodes.labels[used] = steps.take_label[take]
                    nodes.lefts[used] = node
                    nodes.newest[used] = row if node == NOTHING else nodes.newest[node]
                    nodes.oldest[used] = row if node == NOTHING else nodes.oldest[node]
                    if accepted:
                        roots[found, 0], roots[found, 1], roots[found, 2] = row, used, low
                        found += 1
                    if target >= 0:
                        label = steps.take_label[take]
                        if not _add(
                            machine,
                            data,
                            classes,
                            added,
                            target,
                            used,
                            ints,
                            floats,
                            label,
                            row,
                        ):
                            return GUARD_OVERFLOW, used, found
                        added += 1
                    used += 1
                if state == 0:
                    continue
                following = steps.skip[entry]
                if following == state:
                    classes.ids[state, kept] = slot
                    classes.keys[state, kept] = classes.keys[state, index]
                    kept += 1
                    continue
                if following >= 0:
                    _add(machine, data, classes, added, following, node, ints, floats, -1, row)
                    added += 1
                forget(classes, slot)
            if state > 0 and kept < end:
                for index in range(end, count):
                    classes.ids[state, kept] = classes.ids[state, index]
                    classes.keys[state, kept] = classes.keys[state, index]
                    kept += 1
                classes.counts[state] = kept
        used = _settle(machine, data, classes, nodes, added, used, low)
        place[1] += 1
    return DONE, used, found
