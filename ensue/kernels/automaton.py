"""Row matching for conditions known before matching starts: one backward and one forward pass.

`viability` walks each partition backwards and finds, for every row and state, the least end of a
match that consumes the row in that state (or that there is none). `walk` then goes forward: at
each step it takes the first arc, in order of preference, whose target can still reach an end
inside the window. No choice is ever undone, so the cost is O(rows · arcs) for the backward pass
plus the total length of the matches; SQL:2016 preferment without backtracking.

A partition may be *open*: more rows may follow. Then an end beyond the last row is possible but
unknown, and is written as `end + 1`. A start whose preferred choice rests on it is undecided; the
walk stops there and goes on when more rows have come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_inlined
from ensue.kernels.stop import asked

NEVER = np.int32(2**31 - 1)
DONE, FULL, SKIP_MISSING, SKIP_FIRST = 0, 1, 2, 3
PAST_LAST_ROW, TO_NEXT_ROW, TO_FIRST, TO_LAST = 0, 1, 2, 3
_AT_START, _AT_END = 1, 2
UNMATCHED = 0  # as a match number


@njit(cache=True, nogil=True)
def viability(
    bits: NDArray[np.uint64],  # [row, word]: labels that the row satisfies
    starts: NDArray[np.int64],  # first row of each partition
    ends: NDArray[np.int64],  # end of the rows that may be matched
    is_open: NDArray[np.bool_],
    label: NDArray[np.int32],
    arc_offset: NDArray[np.int32],
    arc_target: NDArray[np.int32],
    arc_flags: NDArray[np.uint8],
) -> NDArray[np.int32]:
    """least[row, state]: least end of a match consuming `row` in `state`, else NEVER."""
    rows, states = bits.shape[0], label.shape[0]
    least = np.empty((rows, states), np.int32)
    for partition in range(ends.shape[0]):
        begin, end = starts[partition], ends[partition]
        unknown = np.int32(end + 1) if is_open[partition] else NEVER
        for row in range(end - 1, begin - 1, -1):
            if asked():
                return least
            last = row + 1 == end
            least[row, 0] = NEVER
            for state in range(1, states):
                best = NEVER
                name = label[state]
                if (bits[row, name >> 6] >> np.uint64(name & 63)) & np.uint64(1):
                    for arc in range(arc_offset[state], arc_offset[state + 1]):
                        target = arc_target[arc]
                        if target == 0:
                            if arc_flags[arc] & _AT_END:
                                if last:
                                    ahead = np.int32(end) if not is_open[partition] else unknown
                                else:
                                    ahead = NEVER
                            else:
                                ahead = np.int32(row + 1)
                        elif last:
                            ahead = unknown
                        else:
                            ahead = least[row + 1, target]
                        best = min(best, ahead)
                least[row, state] = best
    return least


@njit(cache=True, nogil=True)
def window_limits(
    order: NDArray[np.int64] | NDArray[np.float64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    is_open: NDArray[np.bool_],
    valid: NDArray[np.bool_],  # empty: every row has an order value
    size: float,
    greatest: float,  # of the type of `order`: bounds saturate there instead of wrapping
    rows_window: bool,
) -> NDArray[np.int32]:
    """Per row as a first row: the last end that the window allows (NEVER: no bound known yet).

    `order` is ascending inside a partition; it is not read for a window counted in rows. A row
    without an order value is in no window: it reaches nothing and nothing reaches over it.
    """
    limits = np.empty(ends[-1], np.int32)
    for partition in range(ends.shape[0]):
        begin, end = starts[partition], ends[partition]
        reach = begin
        for row in range(begin, end):
            if rows_window:
                reach = np.int64(row + size)
            elif valid.shape[0] > 0 and not valid[row]:
                limits[row] = np.int32(row)
                continue
            else:
                reach = max(reach, row)
                bound = order[row] + size if order[row] <= greatest - size else greatest
                while reach < end and order[reach] <= bound:
                    if valid.shape[0] > 0 and not valid[reach]:
                        break
                    reach += 1
            if reach >= end and is_open[partition]:
                limits[row] = NEVER
            else:
                limits[row] = np.int32(min(reach, np.int64(NEVER)))
    return limits


@njit(cache=True, nogil=True)
def next_start(
    first: int,
    length: int,
    skip_mode: int,
    skip_states: NDArray[np.bool_],
    positions: NDArray[np.int32],
    offset: int,
) -> int:
    """Where matching resumes; -SKIP_MISSING or -SKIP_FIRST where the target is not allowed."""
    if length == 0 or skip_mode == TO_NEXT_ROW:
        return first + 1
    if skip_mode == PAST_LAST_ROW:
        return first + length
    found = -1
    for index in range(length):
        if skip_states[positions[offset + index]]:
            found = index
            if skip_mode == TO_FIRST:
                break
    if found < 0:
        return -SKIP_MISSING
    if found == 0:
        return -SKIP_FIRST
    return first + found


class Task(NamedTuple):
    """Partitions to be matched, the arcs of the program, and where matching stands."""

    least: NDArray[np.int32]  # of `viability`
    limits: NDArray[np.int32]  # empty: no window
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    heads: NDArray[np.bool_]  # the partition's first row here is its very first row
    is_open: NDArray[np.bool_]
    label: NDArray[np.int32]
    arc_offset: NDArray[np.int32]
    arc_target: NDArray[np.int32]
    arc_flags: NDArray[np.uint8]
    skip_mode: int
    skip_states: NDArray[np.bool_]
    show_unmatched: bool
    cursor: NDArray[np.int64]  # [partition, (next start, matches so far, end of matched rows)]


@inner_inlined
def limit_of(task: Task, start: int) -> np.int32:
    """The last end that the window of a start allows."""
    limit = task.limits[start] if task.limits.shape[0] > 0 else NEVER
    return min(limit, np.int32(NEVER - 1))


@inner_inlined
def settle(
    task: Task,
    partition: int,
    start: int,
    matched: bool,
    length: int,
    out_match: NDArray[np.int64],
    out_positions: NDArray[np.int32],
    entries: int,
    written: int,
) -> tuple[int, int, int, int]:
    """A start is decided: (status, entries, positions written, next start).

    The positions of a match are written, and there is room for an entry more. Where all rows are
    shown, a start that no match holds is an entry too.
    """
    cursor = task.cursor
    if not matched and not (task.show_unmatched and start >= cursor[partition, 2]):
        return DONE, entries, written, start + 1
    out_match[entries, 0] = partition
    out_match[entries, 1] = start
    out_match[entries, 2] = length
    out_match[entries, 3] = UNMATCHED
    out_match[entries, 4] = written
    if not matched:
        out_positions[written] = 0
        return DONE, entries + 1, written + 1, start + 1
    cursor[partition, 1] += 1
    out_match[entries, 3] = cursor[partition, 1]
    following = next_start(start, length, task.skip_mode, task.skip_states, out_positions, written)
    if following < 0:
        return -following, entries, written, start
    cursor[partition, 2] = max(cursor[partition, 2], start + length)
    return DONE, entries + 1, written + length, following


@njit(cache=True, nogil=True)
def walk(
    task: Task,
    first_partition: int,
    out_match: NDArray[np.int64],  # [entry, (partition, first row, length, number, offset)]
    out_positions: NDArray[np.int32],
) -> tuple[int, int, int, int]:
    """Matches from the cursors on: (status, partition, entries, positions written)."""
    arc_offset, arc_target, arc_flags = task.arc_offset, task.arc_target, task.arc_flags
    least, is_open = task.least, task.is_open
    entries, written = 0, 0
    for partition in range(first_partition, task.ends.shape[0]):
        begin, end = task.starts[partition], task.ends[partition]
        start = task.cursor[partition, 0]
        while start < end:
            limit = limit_of(task, start)
            state, row, length = 0, start, 0
            matched, undecided = False, False
            if asked():
                task.cursor[partition, 0] = start
                return FULL, partition, entries, written
            while True:
                moved = False
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
                                break
                        matched = True
                        break
                    if row == end:
                        if is_open[partition] and end + 1 <= limit:
                            undecided = True
                            break
                        continue
                    ahead = least[row, target]
                    if ahead <= limit:
                        if ahead > end:
                            undecided = True
                            break
                        if written + length >= out_positions.shape[0]:
                            task.cursor[partition, 0] = start
                            return FULL, partition, entries, written
                        out_positions[written + length] = target
                        state = target
                        row += 1
                        length += 1
                        moved = True
                        break
                if not moved:
                    break
            if undecided:
                break
            if not matched:
                length = 1
            if entries >= out_match.shape[0] or written + length > out_positions.shape[0]:
                task.cursor[partition, 0] = start
                return FULL, partition, entries, written
            status, entries, written, start = settle(
                task, partition, start, matched, length, out_match, out_positions, entries, written
            )
            if status != DONE:
                task.cursor[partition, 0] = start
                return status, partition, entries, written
        task.cursor[partition, 0] = start
    return DONE, task.ends.shape[0], entries, written
