"""How many matches each retained event takes part in: one forward–backward sweep, lanes = starts.

A match has one start s and lies in the window of s. With `forward[z, s]` the ways to be in state z
before event i and `backward[z, s]` the ways to complete from z after it, event i takes part in
Σ_s Σ_(p→q by i) forward[p, s] · backward[q, s] matches. Both vectors advance by additions only, so
nothing cancels. At the end of its window a start's `backward` is 1 in the final states; for a
window that is still open it is the expected number of completions in the time that is left, and
the sweep yields present and expected benefit in one number (SuSe §6.1, per start instead of the
mean of the oldest and the newest).

Starts are the lanes of the inner loops (SIMD): all windows have one length, so the lanes that are
open at an event are one contiguous range. Cost: Σ over events of open starts × arcs of the event's
class, a few operations each; the paper's REMOVE is quadratic in the events times states squared.

The arcs of a class stand in an order in which no state is read after it was written (`ordered`);
classes that have no such order, and the policy "next" (partial matches move), copy first.
Values are 64-bit floats: good for ranking, never used for answers. Where they overflow,
`sweep_scaled` repeats the work lane by lane with an exponent beside each vector.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ensue.kernels.calls import borrowing
from ensue.kernels.copies import copy_row
from ensue.summary.kernels.arrays import Arcs, Lanes, Retained

_FAST = {"reassoc", "contract", "nsz"}
_ROOM = 2.0**200


@njit(cache=True, nogil=True)
def steps_left(window: Any, passed: Any, rate: float, most: int) -> int:
    """Expected arrivals in what is left of a window."""
    left = (window - passed) * rate
    if left >= most:
        return most
    return int(left + 0.5) if left > 0 else 0


@borrowing
def find_lanes(
    events: Retained, arcs: Arcs, low: int, high: int, count: int, window: Any, lanes: Lanes
) -> int:
    """Starts among events low … high − 1, and the last event in the window of each."""
    times, width = events.times, 0
    end = low
    for i in range(low, high):
        if arcs.starts[events.classes[i]]:
            end = max(end, i)
            while end + 1 < count and times[end + 1] - times[i] <= window:
                end += 1
            lanes.first[width] = i
            lanes.last[width] = end
            width += 1
    return width


@borrowing
def lane_room(classes: Any, arcs: Arcs, lanes: Lanes, count: int) -> int:
    """Numbers the sweep keeps between its two passes."""
    room = 0
    low, high = 0, 0
    for i in range(lanes.first[0], lanes.last[count - 1] + 1):
        while low < count and lanes.last[low] < i:
            low += 1
        while high < count and lanes.first[high] < i:
            high += 1
        room += (arcs.offset[classes[i] + 1] - arcs.offset[classes[i]]) * max(high - low, 0)
    return room


@njit(cache=True, nogil=True, fastmath=_FAST)
def sweep(
    events: Retained,
    arcs: Arcs,
    sums: bool,
    scratch: Lanes,
    lanes: int,
    thinned: bool,
    share: Any,
    low_out: int,
    high_out: int,
    out: Any,
) -> None:
    """Adds to `out[low_out:high_out]` the matches of these lanes, by event.

    `share[lane]`: how many of the *other* events of a match remain, 1 unless `thinned`.
    """
    classes, weights = events.classes, events.weights
    class_offset, arc_from, arc_to = arcs.offset, arcs.source, arcs.target
    arc_valued, ordered, fork = arcs.valued, arcs.ordered, arcs.fork
    lane_first, lane_last, terminal = scratch.first, scratch.last, scratch.terminal
    forward, backward = scratch.work[0], scratch.work[1]
    forward_sum, backward_sum = scratch.work[2], scratch.work[3]
    kept, kept_sum, spare = scratch.kept, scratch.kept_sum, scratch.spare
    states = terminal.shape[0]
    for z in range(states):
        for k in range(lanes):
            forward[z, k] = 0.0
            backward[z, k] = 0.0
            if sums:
                forward_sum[z, k] = 0.0
                backward_sum[z, k] = 0.0
    begin, end = lane_first[0], lane_last[lanes - 1]
    low, high, place = 0, 0, 0
    for i in range(begin, end + 1):
        while low < lanes and lane_last[low] < i:
            low += 1
        c = classes[i]
        first, last = class_offset[c], class_offset[c + 1]
        width = high - low
        if fork and ordered[c] and not sums:
            for a in range(first, last):
                p, q = arc_from[a], arc_to[a]
                if p != 0:
                    if thinned:
                        for k in range(width):
                            ways = forward[p, low + k]
                            kept[place + k] = ways
                            forward[q, low + k] += share[low + k] * ways
                    else:
                        for k in range(width):
                            ways = forward[p, low + k]
                            kept[place + k] = ways
                            forward[q, low + k] += ways
                    place += width
        else:
            mark = place
            for a in range(first, last):
                p = arc_from[a]
                if p != 0:
                    weight = weights[i] if arc_valued[a] else 0.0
                    for k in range(width):
                        kept[place + k] = forward[p, low + k]
                    if sums:
                        for k in range(width):
                            kept_sum[place + k] = (
                                forward_sum[p, low + k] + weight * forward[p, low + k]
                            )
                    place += width
            if not fork:
                for a in range(first, last):
                    if arc_from[a] != 0:
                        for k in range(low, high):
                            forward[arc_from[a], k] = 0.0
                            if sums:
                                forward_sum[arc_from[a], k] = 0.0
            for a in range(first, last):
                if arc_from[a] != 0:
                    q = arc_to[a]
                    for k in range(width):
                        forward[q, low + k] += share[low + k] * kept[mark + k]
                    if sums:
                        for k in range(width):
                            forward_sum[q, low + k] += share[low + k] * kept_sum[mark + k]
                    mark += width
        if high < lanes and lane_first[high] == i:
            for a in range(first, last):
                if arc_from[a] == 0:
                    forward[arc_to[a], high] += share[high]
                    if sums and arc_valued[a]:
                        forward_sum[arc_to[a], high] += share[high] * weights[i]
            high += 1
    low = lanes
    high = lanes
    for i in range(end, begin - 1, -1):
        while low > 0 and lane_last[low - 1] >= i:
            low -= 1
            for z in range(states):
                backward[z, low] = terminal[z, low]
        own = -1
        if high > 0 and lane_first[high - 1] == i:
            high -= 1
            own = high
        c = classes[i]
        first, last = class_offset[c], class_offset[c + 1]
        width = max(high - low, 0)
        total = 0.0
        if own >= low:
            for a in range(first, last):
                if arc_from[a] == 0:
                    total += backward[arc_to[a], own]
                    if sums:
                        # The weighted total replaces the count below.
                        total -= backward[arc_to[a], own]
                        total += backward_sum[arc_to[a], own]
                        if arc_valued[a]:
                            total += weights[i] * backward[arc_to[a], own]
        if fork and ordered[c] and not sums:
            for a in range(last - 1, first - 1, -1):
                p, q = arc_from[a], arc_to[a]
                if p != 0:
                    place -= width
                    if thinned:
                        for k in range(width):
                            ways = backward[q, low + k]
                            total += kept[place + k] * ways
                            backward[p, low + k] += share[low + k] * ways
                    else:
                        for k in range(width):
                            ways = backward[q, low + k]
                            total += kept[place + k] * ways
                            backward[p, low + k] += ways
        else:
            for a in range(last - 1, first - 1, -1):
                p, q = arc_from[a], arc_to[a]
                if p != 0:
                    place -= width
                    for k in range(width):
                        spare[a - first, 0, k] = backward[q, low + k]
                        if sums:
                            total += (
                                kept_sum[place + k] * backward[q, low + k]
                                + kept[place + k] * backward_sum[q, low + k]
                            )
                            spare[a - first, 1, k] = backward_sum[q, low + k] + (
                                weights[i] * backward[q, low + k] if arc_valued[a] else 0.0
                            )
                        else:
                            total += kept[place + k] * backward[q, low + k]
            if not fork:
                for a in range(first, last):
                    if arc_from[a] != 0:
                        for k in range(low, low + width):
                            backward[arc_from[a], k] = 0.0
                            if sums:
                                backward_sum[arc_from[a], k] = 0.0
            for a in range(first, last):
                p = arc_from[a]
                if p != 0:
                    for k in range(width):
                        backward[p, low + k] += share[low + k] * spare[a - first, 0, k]
                        if sums:
                            backward_sum[p, low + k] += share[low + k] * spare[a - first, 1, k]
        if low_out <= i < high_out:
            out[i] += total


@njit(cache=True, nogil=True)
def _log_add(left: float, right: float) -> float:
    if left < right:
        left, right = right, left
    if right == -np.inf:
        return left
    return left + math.log2(1.0 + 2.0 ** (right - left))


@njit(cache=True, nogil=True)
def sweep_scaled(
    classes: Any,
    arcs: Arcs,
    scratch: Lanes,
    lanes: int,
    share: Any,
    terminal_log: Any,
    out_log: Any,
) -> None:
    """`sweep` with an exponent beside each vector; adds to binary logarithms, of counts only."""
    class_offset, arc_from, arc_to, fork = arcs.offset, arcs.source, arcs.target, arcs.fork
    states = arcs.final.shape[0]
    forward, backward = np.zeros(states), np.zeros(states)
    fresh = np.zeros(states)
    for lane in range(lanes):
        begin, end = scratch.first[lane], scratch.last[lane]
        before = np.zeros((end - begin + 1, states))
        exponent = np.zeros(end - begin + 1)
        forward[:] = 0.0
        scale = 0.0
        for i in range(begin, end + 1):
            copy_row(forward, before[i - begin])
            exponent[i - begin] = scale
            first, last = class_offset[classes[i]], class_offset[classes[i] + 1]
            copy_row(forward, fresh)
            for a in range(first, last):
                if not fork and arc_from[a] != 0:
                    fresh[arc_from[a]] = 0.0
            for a in range(first, last):
                p = arc_from[a]
                if p == 0:
                    if i == begin:
                        fresh[arc_to[a]] += share[lane]
                else:
                    fresh[arc_to[a]] += share[lane] * forward[p]
            copy_row(fresh, forward)
            if forward.max() > _ROOM:
                forward /= _ROOM
                scale += 200.0
        copy_row(scratch.terminal[:, lane], backward)
        scale = terminal_log[lane]
        for i in range(end, begin - 1, -1):
            first, last = class_offset[classes[i]], class_offset[classes[i] + 1]
            copy_row(backward, fresh)
            total = 0.0
            for a in range(first, last):
                p = arc_from[a]
                if p == 0:
                    if i == begin:
                        total += backward[arc_to[a]]
                else:
                    total += before[i - begin, p] * backward[arc_to[a]]
                    if not fork:
                        fresh[p] = 0.0
            for a in range(first, last):
                if arc_from[a] != 0:
                    fresh[arc_from[a]] += share[lane] * backward[arc_to[a]]
            if total > 0.0:
                out_log[i] = _log_add(out_log[i], math.log2(total) + exponent[i - begin] + scale)
            copy_row(fresh, backward)
            if backward.max() > _ROOM:
                backward /= _ROOM
                scale += 200.0
