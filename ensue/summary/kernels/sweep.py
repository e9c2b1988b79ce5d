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
`sweep_scaled` repeats the work with an exponent beside each lane.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ensue.kernels.calls import inner, with_options
from ensue.summary.kernels.arrays import Arcs, Lanes, Retained
from ensue.summary.kernels.follow import log_add

_FAST = {"reassoc", "contract", "nsz"}
_EVERY = 8  # events between two looks at exponents
_ROOM, _SHIFT = 2.0**200, 200.0


@inner
def steps_left(window: Any, passed: Any, rate: float, most: int) -> int:
    """Expected arrivals in what is left of a window."""
    left = (window - passed) * rate
    if left >= most:
        return most
    return int(left + 0.5) if left > 0 else 0


@inner
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


@inner
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


@with_options(_nrt=False, no_cpython_wrapper=True, fastmath=_FAST)
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


@with_options(_nrt=False, no_cpython_wrapper=True, fastmath=_FAST)
def _rescaled(values: Any, exponent: Any, low: int, high: int) -> bool:
    """Takes a power of two out of the lanes that grew; whether there were any."""
    states, found = values.shape[0], False
    for k in range(low, high):
        most = 0.0
        for z in range(states):
            most = max(most, values[z, k])
        if most > _ROOM:
            found = True
            exponent[k] += _SHIFT
            for z in range(states):
                values[z, k] /= _ROOM
    return found


@with_options(_nrt=True, no_cpython_wrapper=True, fastmath=_FAST)
def sweep_scaled(
    classes: Any,
    arcs: Arcs,
    scratch: Lanes,
    lanes: int,
    share: Any,
    terminal_log: Any,
    out_log: Any,
) -> None:
    """`sweep` with an exponent beside each lane; adds to binary logarithms, of counts only.

    Exponents change every few events, and so do the factors by which the lanes of an event add up.
    """
    class_offset, arc_from, arc_to, fork = arcs.offset, arcs.source, arcs.target, arcs.fork
    lane_first, lane_last, terminal = scratch.first, scratch.last, scratch.terminal
    forward, backward = scratch.work[0], scratch.work[1]
    kept, spare = scratch.kept, scratch.spare
    states = terminal.shape[0]
    for z in range(states):
        for k in range(lanes):
            forward[z, k] = 0.0
    begin, end = lane_first[0], lane_last[lanes - 1]
    grown = np.zeros(((end - begin) // _EVERY + 1, lanes))  # exponents by stretch of events
    exponent, part, factor = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
    low, high, place = 0, 0, 0
    for i in range(begin, end + 1):
        while low < lanes and lane_last[low] < i:
            low += 1
        if (i - begin) % _EVERY == 0:
            _rescaled(forward, exponent, low, high)
            for k in range(low, high):
                grown[(i - begin) // _EVERY, k] = exponent[k]
        first, last = class_offset[classes[i]], class_offset[classes[i] + 1]
        width, mark = high - low, place
        for a in range(first, last):
            if arc_from[a] != 0:
                for k in range(width):
                    kept[place + k] = forward[arc_from[a], low + k]
                place += width
        if not fork:
            for a in range(first, last):
                for k in range(low, high):
                    forward[arc_from[a], k] = 0.0
        for a in range(first, last):
            if arc_from[a] != 0:
                for k in range(width):
                    forward[arc_to[a], low + k] += share[low + k] * kept[mark + k]
                mark += width
        if high < lanes and lane_first[high] == i:
            for a in range(first, last):
                if arc_from[a] == 0:
                    forward[arc_to[a], high] += share[high]
            high += 1
    low, high, scale, changed = lanes, lanes, 0.0, True
    for i in range(end, begin - 1, -1):
        stretch = (i - begin) // _EVERY
        while low > 0 and lane_last[low - 1] >= i:
            low -= 1
            exponent[low] = terminal_log[low]
            changed = True
            for z in range(states):
                backward[z, low] = terminal[z, low]
        if changed or (i + 1 - begin) % _EVERY == 0:
            changed, scale = False, -np.inf
            for k in range(low, high):
                scale = max(scale, exponent[k] + grown[stretch, k])
            for k in range(low, high):
                apart = exponent[k] + grown[stretch, k] - scale
                factor[k] = 1.0 if apart == 0.0 else 2.0**apart
        first, last = class_offset[classes[i]], class_offset[classes[i] + 1]
        own = high - 1 if high > 0 and lane_first[high - 1] == i else -1
        for k in range(low, high):
            part[k] = 0.0
        if own >= low:
            for a in range(first, last):
                if arc_from[a] == 0:
                    part[own] += backward[arc_to[a], own]
        if own >= 0:
            high -= 1
        width = max(high - low, 0)
        for a in range(last - 1, first - 1, -1):
            if arc_from[a] != 0:
                place -= width
                for k in range(width):
                    ways = backward[arc_to[a], low + k]
                    spare[a - first, 0, k] = ways
                    part[low + k] += kept[place + k] * ways
        if not fork:
            for a in range(first, last):
                for k in range(low, low + width):
                    backward[arc_from[a], k] = 0.0
        for a in range(first, last):
            if arc_from[a] != 0:
                for k in range(width):
                    backward[arc_from[a], low + k] += share[low + k] * spare[a - first, 0, k]
        total = 0.0
        top = max(high, own + 1)
        for k in range(low, top):
            total += part[k] * factor[k]
        if total > 0.0:
            out_log[i] = log_add(out_log[i], math.log2(total) + scale)
        else:  # lanes so far below the others that their factor is 0
            for k in range(low, top):
                if part[k] > 0.0:
                    each = math.log2(part[k]) + exponent[k] + grown[stretch, k]
                    out_log[i] = log_add(out_log[i], each)
        if (i - begin) % _EVERY == 0:
            changed |= _rescaled(backward, exponent, low, high)
