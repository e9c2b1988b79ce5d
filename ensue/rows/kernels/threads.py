"""Row matching for conditions that read the match so far: ordered threads in lock step.

A thread is a partial match: a state, its registers and a trace of the states it went through.
Threads stand in order of preference. At each row every thread tries its arcs in order; a guard sees
the registers as they would be with the row under the label tested, and the change is kept only if
it holds. Accepting cuts off all threads of lower preference, and those of higher preference go on,
so what is recorded last is the preferred match.

Two threads in the same state whose live registers agree have the same future: the one of lower
preference is dropped. Registers that no guard ahead can read are not live and are reset, so
`(A+)+ B` keeps one thread per state. A thread also dies where the backward pass (all guards taken
as true) finds no way to an end.

Where no guard asks how far the start is (`share`), a place (row, state, live registers) that an
earlier start reached without finding a match leads nowhere for later starts either; such places are
remembered, so a pattern that never matches is linear and not quadratic. States whose registers
tell every start from the others (they keep its row) never meet such a place: after some places
without a hit they are given up, since looking up is most of what a step costs. Where a guard
compares a number of the row with one of a row that the match keeps, a thread also dies once no row
ahead can satisfy it (`reach.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.guards.machine import FALSE, OVERFLOW
from ensue.guards.registers import (
    GuardMachine,
    ask_guard,
    copy_registers,
    hash_registers,
    reset_registers,
    same_registers,
    take_row,
)
from ensue.kernels.automaton import DONE, FULL, Task, limit_of, settle
from ensue.kernels.calls import inner_allocating, inner_inlined
from ensue.kernels.stop import asked
from ensue.rows.kernels.reach import Reach, is_hopeless

TOO_MANY_THREADS, TOO_LONG, GUARD_OVERFLOW, GUARD_BY_ZERO, STOPPED = 10, 11, 12, 13, 14
_AT_START, _AT_END = 1, 2
_PLACES = 1 << 18  # failed places remembered at a time
_PATIENCE = 1 << 14  # places of a state remembered without a hit, until it is given up
_WORTH_IT = -(1 << 62)  # of a state that had one


class Places(NamedTuple):
    """Places that earlier starts reached without finding a match, in an open-addressed table.

    They are numbered on from those forgotten, so that forgetting all of them costs nothing: a slot
    that holds a number below `floor` is empty.
    """

    table: NDArray[np.int64]  # the number of a place; a power of two
    row: NDArray[np.int64]
    state: NDArray[np.int32]
    start: NDArray[np.int64]  # the start that reached it
    ints: NDArray[np.int64]
    floats: NDArray[np.float64]


@inner_inlined
def _find_place(
    places: Places,
    floor: int,
    row: int,
    state: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    thread: int,
) -> int:
    """The slot of a place in the table, or the empty slot where it would go."""
    mask = places.table.shape[0] - 1
    slot = ((hash_registers(row, ints, floats, thread) & mask) + state) & mask
    while places.table[slot] >= floor:
        place = places.table[slot] - floor
        if (
            places.row[place] == row
            and places.state[place] == state
            and same_registers(places.ints, places.floats, place, ints, floats, thread)
        ):
            return slot
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True)
def run_threads(
    task: Task,
    machine: GuardMachine,
    reach: Reach,
    share: bool,
    max_threads: int,
    trace_size: int,
    first_partition: int,
    out_match: NDArray[np.int64],
    out_positions: NDArray[np.int32],
) -> tuple[int, int, int, int]:
    """As `automaton.walk`: (status, partition, entries, positions written)."""
    label, cursor, is_open, least = task.label, task.cursor, task.is_open, task.least
    arc_offset, arc_target, arc_flags = task.arc_offset, task.arc_target, task.arc_flags
    guard_offset = machine.guard_offset
    states = label.shape[0]
    ints_width, floats_width = machine.initial_ints.shape[0], machine.initial_floats.shape[0]
    room = 64
    state_now = np.empty(room, np.int32)
    trace_now = np.empty(room, np.int64)
    ints_now = np.empty((room, ints_width), np.int64)
    floats_now = np.empty((room, floats_width), np.float64)
    state_next = np.empty(room, np.int32)
    trace_next = np.empty(room, np.int64)
    ints_next = np.empty((room, ints_width), np.int64)
    floats_next = np.empty((room, floats_width), np.float64)
    link = np.empty(room, np.int64)
    in_state = np.full(states, -1, np.int64)
    trace_parent = np.empty(trace_size, np.int64)
    trace_state = np.empty(trace_size, np.int32)
    entries, written = 0, 0
    remembering = share and task.limits.shape[0] == 0
    room_for = _PLACES if remembering else 1
    places = Places(
        np.zeros(4 * room_for, np.int64),
        np.empty(room_for, np.int64),
        np.empty(room_for, np.int32),
        np.empty(room_for, np.int64),
        np.empty((room_for, ints_width), np.int64),
        np.empty((room_for, floats_width), np.float64),
    )
    remembered, floor = 0, 1
    without_hit = np.empty(states, np.int64)

    for partition in range(first_partition, task.ends.shape[0]):
        begin, end = task.starts[partition], task.ends[partition]
        physical_end = task.starts[partition + 1]
        start = cursor[partition, 0]
        floor, remembered = floor + remembered, 0
        for state in range(states):
            without_hit[state] = 0
        while start < end:
            limit = limit_of(task, start)
            number = cursor[partition, 1] + 1
            traced = 0
            count = 1
            state_now[0] = 0
            trace_now[0] = -1
            copy_registers(machine.initial_ints, machine.initial_floats, ints_now[0], floats_now[0])
            matched, best_trace, best_length = False, -1, 0
            undecided = False
            row = start
            while count > 0:
                if asked():
                    return STOPPED, partition, entries, written
                made = 0
                stop = False
                for thread in range(count):
                    state = state_now[thread]
                    for arc in range(arc_offset[state], arc_offset[state + 1]):
                        target, flags = arc_target[arc], arc_flags[arc]
                        if flags & _AT_START and not (task.heads[partition] and start == begin):
                            continue
                        if target == 0:
                            if flags & _AT_END:
                                if row < end:
                                    continue
                                if is_open[partition]:
                                    undecided = True
                                    stop = True
                                    break
                            matched = True
                            best_trace, best_length = trace_now[thread], row - start
                            stop = True
                            break
                        if row == end:
                            if is_open[partition] and end + 1 <= limit:
                                undecided = True
                                stop = True
                                break
                            continue
                        if least[row, target] > limit:
                            continue
                        if made == room:
                            if room >= max_threads:
                                cursor[partition, 0] = start
                                return TOO_MANY_THREADS, partition, entries, written
                            room *= 2
                            state_now = _grown(state_now, room)
                            trace_now = _grown(trace_now, room)
                            ints_now = _grown_rows(ints_now, room)
                            floats_now = _grown_rows(floats_now, room)
                            state_next = _grown(state_next, room)
                            trace_next = _grown(trace_next, room)
                            ints_next = _grown_rows(ints_next, room)
                            floats_next = _grown_rows(floats_next, room)
                            link = _grown(link, room)
                        name = label[target]
                        ints, floats = ints_next[made], floats_next[made]
                        copy_registers(ints_now[thread], floats_now[thread], ints, floats)
                        if not take_row(machine, name, row, ints, floats):
                            cursor[partition, 0] = start
                            return GUARD_OVERFLOW, partition, entries, written
                        if guard_offset[name + 1] > guard_offset[name]:
                            verdict = ask_guard(
                                machine, name, row, start, begin, physical_end, number, ints, floats
                            )
                            if verdict == FALSE:
                                continue
                            if verdict < 0:
                                cursor[partition, 0] = start
                                status = GUARD_OVERFLOW if verdict == OVERFLOW else GUARD_BY_ZERO
                                return status, partition, entries, written
                        if is_hopeless(reach, row, target, start, ints):
                            continue
                        reset_registers(machine, target, ints, floats)
                        other = in_state[target]
                        while other >= 0 and not same_registers(
                            ints_next, floats_next, other, ints_next, floats_next, made
                        ):
                            other = link[other]
                        if other >= 0:
                            continue
                        if remembering and without_hit[target] < _PATIENCE:
                            slot = _find_place(
                                places, floor, row, target, ints_next, floats_next, made
                            )
                            place = places.table[slot] - floor
                            if place >= 0 and places.start[place] != start:
                                without_hit[target] = _WORTH_IT
                                continue
                            if remembered < room_for and place < 0:
                                places.table[slot] = floor + remembered
                                places.row[remembered] = row
                                places.state[remembered] = target
                                places.start[remembered] = start
                                copy_registers(
                                    ints, floats, places.ints[remembered], places.floats[remembered]
                                )
                                remembered += 1
                                without_hit[target] += 1
                        if traced == trace_size:
                            cursor[partition, 0] = start
                            return TOO_LONG, partition, entries, written
                        trace_parent[traced] = trace_now[thread]
                        trace_state[traced] = target
                        state_next[made] = target
                        trace_next[made] = traced
                        link[made] = in_state[target]
                        in_state[target] = made
                        traced += 1
                        made += 1
                    if stop:
                        break
                for thread in range(made):
                    in_state[state_next[thread]] = -1
                if undecided:
                    break
                state_now, state_next = state_next, state_now
                trace_now, trace_next = trace_next, trace_now
                ints_now, ints_next = ints_next, ints_now
                floats_now, floats_next = floats_next, floats_now
                count = made
                row += 1
            if undecided:
                break
            length = best_length if matched else 1
            if entries >= out_match.shape[0] or written + length > out_positions.shape[0]:
                cursor[partition, 0] = start
                return FULL, partition, entries, written
            if matched or remembered == room_for:
                floor, remembered = floor + remembered, 0
            if matched:
                node = best_trace
                for index in range(length - 1, -1, -1):
                    out_positions[written + index] = trace_state[node]
                    node = trace_parent[node]
            status, entries, written, start = settle(
                task, partition, start, matched, length, out_match, out_positions, entries, written
            )
            if status != DONE:
                cursor[partition, 0] = start
                return status, partition, entries, written
        cursor[partition, 0] = start
    return DONE, task.ends.shape[0], entries, written


@inner_allocating
def _grown(array, room):  # type: ignore[no-untyped-def]
    larger = np.empty(room, array.dtype)
    for index in range(array.shape[0]):
        larger[index] = array[index]
    return larger


@inner_allocating
def _grown_rows(array, room):  # type: ignore[no-untyped-def]
    larger = np.empty((room, array.shape[1]), array.dtype)
    for index in range(array.shape[0]):
        for part in range(array.shape[1]):
            larger[index, part] = array[index, part]
    return larger
