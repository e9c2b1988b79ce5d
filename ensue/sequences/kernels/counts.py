"""Counting the matches of an event pattern whose conditions look at single rows.

The deterministic automaton (automaton/subsets.py) is a table over *event classes* (rows that fit
the same labels are one class). For a class c, `M_c` is the matrix of steps between states: M[s, t]
ways to get from s to t by skipping or taking the event; state 0 is "not begun" and stays.
`ends[c, s]` is the number of matches completed by the event from s. The number of matches that end
at row i and begin at row l or later is then  e0 · M_l · ... · M_(i-1) · ends_i.

- Without a window l is the first row: one vector, O(arcs of the class) per event.
- With a window l moves on. Products over a sliding window by two stacks: from the last flip at row
  m, `front[j]` = e0 · M_j · ... · M_(m-1) is kept for every j, and B = M_m · ... · M_(i-1) is
  updated; the answer is front[l] · B · ends. When l passes m, the front is computed anew from the
  rows in the window. Every row is flipped once, so the cost per event is O(states · arcs) whatever
  the window, and 0 for rows that change nothing.

Numbers are checked: a kernel stops before anything leaves 62 bits and says so; the caller then
continues with Python integers. Sums are kept in two 62-bit limbs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating
from ensue.kernels.copies import copy_row, copy_rows
from ensue.kernels.stop import asked


class Counting(NamedTuple):
    """Steps by event class: arcs source -> target, and matches completed per state."""

    idle: NDArray[np.bool_]  # per class: the event changes nothing
    offsets: NDArray[np.int32]
    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    ends: NDArray[np.int64]  # [class, state]
    pending: NDArray[np.bool_]  # per state


LIMIT = np.int64(1) << 62
MASK = LIMIT - 1
OVERFLOW = -1


@njit(cache=True, nogil=True)
def window_lows(
    order: NDArray[np.int64] | NDArray[np.float64],
    starts: NDArray[np.int64],
    size: float,
    floor: float,
) -> NDArray[np.int64]:
    """Per row: the first row of its partition whose order value is at most `size` smaller.

    No number is more than `size` below one that is less than `floor`.
    """
    lows = np.empty(order.shape[0], np.int64)
    for partition in range(starts.shape[0] - 1):
        low = starts[partition]
        for row in range(starts[partition], starts[partition + 1]):
            if order[row] >= floor:
                edge = order[row] - size
                while order[low] < edge:
                    low += 1
            lows[row] = low
    return lows


@njit(cache=True, nogil=True)
def count_vector(
    classes: NDArray[np.int32],
    begin: int,
    end: int,
    steps: Counting,
    vector: NDArray[np.int64],
) -> tuple[np.int64, np.int64, int]:
    """Matches in rows begin..end without a window: (high, low, row reached).

    `vector` holds the partial matches per state and is updated; short of `end` on overflow.
    """
    idle, offsets, sources, targets, ends, _ = steps
    states = vector.shape[0]
    after = np.zeros(states, np.int64)
    high, low = np.int64(0), np.int64(0)
    for row in range(begin, end):
        if asked():
            return high, low, row
        kind = classes[row]
        if idle[kind]:
            continue
        found = 0.0
        for state in range(states):
            if ends[kind, state] and vector[state]:
                found += float(vector[state]) * float(ends[kind, state])
        if found > 2.0e18:
            return high, low, row
        after[:] = 0
        after[0] = vector[0]
        for arc in range(offsets[kind], offsets[kind + 1]):
            after[targets[arc]] += vector[sources[arc]]
            if after[targets[arc]] >= LIMIT >> 8:
                return high, low, row
        for state in range(states):
            if ends[kind, state]:
                low += vector[state] * ends[kind, state]
        high += low >> 62
        low &= MASK
        copy_row(after, vector)
    return high, low, end


@inner_allocating
def _multiply(
    matrix: NDArray[np.int64],
    kind: int,
    offsets: NDArray[np.int32],
    out_of: NDArray[np.int32],
    into: NDArray[np.int32],
    scratch: NDArray[np.int64],
) -> bool:
    """Adds rows of a matrix by the arcs of a class; False where a number grows too large.

    From sources into targets: of the transpose of B, that of B · M_kind. From targets into sources:
    M_kind · B.
    """
    states = matrix.shape[0]
    scratch[:] = 0
    for column in range(states):
        scratch[0, column] = matrix[0, column]
    for arc in range(offsets[kind], offsets[kind + 1]):
        source, target = out_of[arc], into[arc]
        for column in range(states):
            scratch[target, column] += matrix[source, column]
            if scratch[target, column] >= LIMIT >> 8:
                return False
    copy_rows(scratch, matrix)
    return True


@inner_allocating
def _waiting(
    front: NDArray[np.int64],
    matrix: NDArray[np.int64],
    result: NDArray[np.int64],
) -> bool:
    """result <- front · the transpose of matrix; False where a number grows too large."""
    states = matrix.shape[0]
    for column in range(states):
        exact, shadow = np.int64(0), 0.0
        for state in range(states):
            if front[state] and matrix[column, state]:
                shadow += float(front[state]) * float(matrix[column, state])
                exact += front[state] * matrix[column, state]
        if shadow > 4.0e18:
            return False
        result[column] = exact
    return True


@njit(cache=True, nogil=True)
def count_window(
    classes: NDArray[np.int32],
    begin: int,
    first: int,
    end: int,
    lows: NDArray[np.int64],
    steps: Counting,
    floor: int,
) -> tuple[np.int64, np.int64, bool]:
    """Matches that end in rows first..end, each within its window: (high, low, exact).

    `lows[i]` is the earliest row at which a match that ends at i may begin; rows begin..first only
    fill the window. Pending states count when their first row leaves the window, and at the end
    those that begin before `floor`. `matrix` is the transpose of B, but for the time of a flip.
    """
    idle, offsets, sources, targets, ends, pending = steps
    states = ends.shape[1]
    matrix = np.zeros((states, states), np.int64)
    scratch = np.zeros((states, states), np.int64)
    waiting = np.zeros(states, np.int64)
    before = np.zeros(states, np.int64)
    front = np.zeros((1024, states), np.int64)
    for state in range(states):
        matrix[state, state] = 1
    middle, oldest, base = begin, begin, begin
    has_pending = pending.any()
    high, low = np.int64(0), np.int64(0)
    start = np.zeros(states, np.int64)
    start[0] = 1
    for row in range(begin, end + 1):
        if asked():
            return high, low, False
        edge = lows[row] if row < end else floor
        moved = edge > oldest
        if row == end and not (moved and has_pending):
            break
        if not moved and idle[classes[row]]:
            continue
        counting = row >= first
        if has_pending and counting and moved:
            current = front[oldest - base] if oldest < middle else start
            if not _waiting(current, matrix, before):
                return high, low, False
        if moved:
            oldest = edge
            if oldest >= middle:
                # flip: the front is computed anew from the rows in the window
                base, middle = oldest, row
                if row - base > front.shape[0]:
                    front = np.zeros((2 * (row - base), states), np.int64)
                matrix[:] = 0
                for state in range(states):
                    matrix[state, state] = 1
                for back in range(row - 1, oldest - 1, -1):
                    if asked():
                        return high, low, False
                    if not idle[classes[back]] and not _multiply(
                        matrix, classes[back], offsets, targets, sources, scratch
                    ):
                        return high, low, False
                    front[back - base] = matrix[0]
                matrix[:] = 0
                for state in range(states):
                    matrix[state, state] = 1
            if has_pending and counting:
                current = front[oldest - base] if oldest < middle else start
                if not _waiting(current, matrix, waiting):
                    return high, low, False
                for state in range(states):
                    if pending[state]:
                        low += before[state] - waiting[state]
                        high += low >> 62
                        low &= MASK
        if row == end:
            break
        kind = classes[row]
        if idle[kind]:
            continue
        ending = False
        for state in range(states):
            if ends[kind, state]:
                ending = True
        if ending and counting:
            current = front[oldest - base] if oldest < middle else start
            if not _waiting(current, matrix, waiting):
                return high, low, False
            shadow, exact = 0.0, np.int64(0)
            for state in range(states):
                if ends[kind, state]:
                    shadow += float(waiting[state]) * float(ends[kind, state])
                    exact += waiting[state] * ends[kind, state]
            if shadow > 4.0e18:
                return high, low, False
            low += exact
            high += low >> 62
            low &= MASK
        if not _multiply(matrix, kind, offsets, sources, targets, scratch):
            return high, low, False
    return high, low, True
