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
remembered, so a pattern that never matches is linear and not quadratic.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.guards.machine import FALSE, OVERFLOW, run_guard, update_registers
from ensue.kernels.automaton import DONE, FULL, NEVER, UNMATCHED, next_start

TOO_MANY_THREADS, TOO_LONG, GUARD_OVERFLOW, GUARD_BY_ZERO = 10, 11, 12, 13
_AT_START, _AT_END = 1, 2
_PLACES = 1 << 18  # failed places remembered at a time


@njit(cache=True, nogil=True)
def _same_registers(
    ints: NDArray[np.int64], floats: NDArray[np.float64], first: int, second: int
) -> bool:
    for index in range(ints.shape[1]):
        if ints[first, index] != ints[second, index]:
            return False
    for index in range(floats.shape[1]):
        a, b = floats[first, index], floats[second, index]
        if a != b and not (a != a and b != b):
            return False
    return True


@njit(cache=True, nogil=True)
def _find_place(
    place_of: NDArray[np.int32],
    place_row: NDArray[np.int64],
    place_state: NDArray[np.int32],
    place_ints: NDArray[np.int64],
    place_floats: NDArray[np.float64],
    row: int,
    state: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
) -> np.int64:
    """The slot of a place in the open-addressed table, or the empty slot where it would go."""
    code = np.uint64(row) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(state)
    for index in range(ints.shape[0]):
        code = (code ^ np.uint64(ints[index])) * np.uint64(0xBF58476D1CE4E5B9)
    for index in range(floats.shape[0]):
        code = (code ^ np.uint64(hash(floats[index]))) * np.uint64(0xBF58476D1CE4E5B9)
    code ^= code >> np.uint64(31)
    size = place_of.shape[0]
    slot = np.int64(code % np.uint64(size))
    while place_of[slot] >= 0:
        place = place_of[slot]
        if place_row[place] == row and place_state[place] == state:
            same = True
            for index in range(ints.shape[0]):
                same = same and place_ints[place, index] == ints[index]
            for index in range(floats.shape[0]):
                a, b = place_floats[place, index], floats[index]
                same = same and (a == b or (a != a and b != b))
            if same:
                return slot
        slot = np.int64(slot + 1) if slot + 1 < size else np.int64(0)
    return slot


@njit(cache=True, nogil=True)
def run_threads(
    least: NDArray[np.int32],
    limits: NDArray[np.int32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    heads: NDArray[np.bool_],
    is_open: NDArray[np.bool_],
    label: NDArray[np.int32],
    arc_offset: NDArray[np.int32],
    arc_target: NDArray[np.int32],
    arc_flags: NDArray[np.uint8],
    skip_mode: int,
    skip_states: NDArray[np.bool_],
    show_unmatched: bool,
    cursor: NDArray[np.int64],
    first_partition: int,
    code: NDArray[np.int64],
    guard_offset: NDArray[np.int64],  # per label, into `code`
    cells: int,
    updates: NDArray[np.int64],
    applies: NDArray[np.bool_],  # [label, update]
    live_ints: NDArray[np.bool_],  # [state, register]
    live_floats: NDArray[np.bool_],
    initial_ints: NDArray[np.int64],
    initial_floats: NDArray[np.float64],
    int_columns: NDArray[np.int64],
    float_columns: NDArray[np.float64],
    int_nulls: NDArray[np.bool_],
    float_nulls: NDArray[np.bool_],
    int_constants: NDArray[np.int64],
    float_constants: NDArray[np.float64],
    share: bool,
    max_threads: int,
    trace_size: int,
    out_match: NDArray[np.int64],
    out_positions: NDArray[np.int32],
) -> tuple[int, int, int, int]:
    """As `automaton.walk`: (status, partition, entries, positions written)."""
    states = label.shape[0]
    ints_width, floats_width = initial_ints.shape[0], initial_floats.shape[0]
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
    cell_ints = np.zeros(cells, np.int64)
    cell_floats = np.zeros(cells, np.float64)
    cell_nulls = np.zeros(cells, np.bool_)
    entries, written = 0, 0
    bounded = limits.shape[0] > 0
    remembering = share and not bounded
    places = _PLACES if remembering else 1
    place_of = np.full(4 * places, -1, np.int32)
    place_row = np.empty(places, np.int64)
    place_state = np.empty(places, np.int32)
    place_start = np.empty(places, np.int64)
    place_ints = np.empty((places, ints_width), np.int64)
    place_floats = np.empty((places, floats_width), np.float64)
    remembered = 0

    for partition in range(first_partition, ends.shape[0]):
        begin, end = starts[partition], ends[partition]
        physical_end = starts[partition + 1]
        start = cursor[partition, 0]
        if remembered:
            place_of[:] = -1
            remembered = 0
        while start < end:
            limit = limits[start] if bounded else NEVER
            if limit == NEVER:
                limit = np.int32(NEVER - 1)
            number = cursor[partition, 1] + 1
            traced = 0
            count = 1
            state_now[0] = 0
            trace_now[0] = -1
            ints_now[0, :] = initial_ints
            floats_now[0, :] = initial_floats
            matched, best_trace, best_length = False, -1, 0
            undecided = False
            row = start
            while count > 0:
                made = 0
                stop = False
                for thread in range(count):
                    state = state_now[thread]
                    for arc in range(arc_offset[state], arc_offset[state + 1]):
                        target, flags = arc_target[arc], arc_flags[arc]
                        if flags & _AT_START and not (heads[partition] and start == begin):
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
                        ints_next[made, :] = ints_now[thread, :]
                        floats_next[made, :] = floats_now[thread, :]
                        fits = update_registers(
                            updates,
                            applies[name],
                            row,
                            ints_next[made],
                            floats_next[made],
                            int_columns,
                            float_columns,
                            int_nulls,
                            float_nulls,
                        )
                        if not fits:
                            cursor[partition, 0] = start
                            return GUARD_OVERFLOW, partition, entries, written
                        if guard_offset[name + 1] > guard_offset[name]:
                            verdict = run_guard(
                                code,
                                guard_offset[name],
                                guard_offset[name + 1],
                                row,
                                start,
                                begin,
                                physical_end,
                                number,
                                ints_next[made],
                                floats_next[made],
                                int_columns,
                                float_columns,
                                int_nulls,
                                float_nulls,
                                int_constants,
                                float_constants,
                                cell_ints,
                                cell_floats,
                                cell_nulls,
                            )
                            if verdict == FALSE:
                                continue
                            if verdict < 0:
                                cursor[partition, 0] = start
                                status = GUARD_OVERFLOW if verdict == OVERFLOW else GUARD_BY_ZERO
                                return status, partition, entries, written
                        for index in range(ints_width):
                            if not live_ints[target, index]:
                                ints_next[made, index] = initial_ints[index]
                        for index in range(floats_width):
                            if not live_floats[target, index]:
                                floats_next[made, index] = initial_floats[index]
                        other = in_state[target]
                        while other >= 0 and not _same_registers(
                            ints_next, floats_next, other, made
                        ):
                            other = link[other]
                        if other >= 0:
                            continue
                        if remembering:
                            slot = _find_place(
                                place_of,
                                place_row,
                                place_state,
                                place_ints,
                                place_floats,
                                row,
                                target,
                                ints_next[made],
                                floats_next[made],
                            )
                            if place_of[slot] >= 0 and place_start[place_of[slot]] != start:
                                continue
                            if remembered < places and place_of[slot] < 0:
                                place_of[slot] = remembered
                                place_row[remembered] = row
                                place_state[remembered] = target
                                place_start[remembered] = start
                                place_ints[remembered] = ints_next[made]
                                place_floats[remembered] = floats_next[made]
                                remembered += 1
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
            unmatched = not matched and show_unmatched and start >= cursor[partition, 2]
            length = best_length if matched else 1
            if matched or unmatched:
                if entries >= out_match.shape[0] or written + length > out_positions.shape[0]:
                    cursor[partition, 0] = start
                    return FULL, partition, entries, written
                out_match[entries, 0] = partition
                out_match[entries, 1] = start
                out_match[entries, 2] = length
                out_match[entries, 4] = written
            if remembered and (matched or remembered == places):
                place_of[:] = -1
                remembered = 0
            if matched:
                cursor[partition, 1] += 1
                out_match[entries, 3] = cursor[partition, 1]
                node = best_trace
                for index in range(length - 1, -1, -1):
                    out_positions[written + index] = trace_state[node]
                    node = trace_parent[node]
                following = next_start(
                    start, length, skip_mode, skip_states, out_positions, written
                )
                if following < 0:
                    cursor[partition, 0] = start
                    return -following, partition, entries, written
                cursor[partition, 2] = max(cursor[partition, 2], start + length)
                entries += 1
                written += length
                start = following
            else:
                if unmatched:
                    out_match[entries, 3] = UNMATCHED
                    out_positions[written] = 0
                    entries += 1
                    written += 1
                start += 1
        cursor[partition, 0] = start
    return DONE, ends.shape[0], entries, written


@njit(cache=True, nogil=True)
def _grown(array, room):  # type: ignore[no-untyped-def]
    larger = np.empty(room, array.dtype)
    larger[: array.shape[0]] = array
    return larger


@njit(cache=True, nogil=True)
def _grown_rows(array, room):  # type: ignore[no-untyped-def]
    larger = np.empty((room, array.shape[1]), array.dtype)
    larger[: array.shape[0]] = array
    return larger
