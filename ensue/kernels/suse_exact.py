"""Exact counts for many keys at once, in integers of as many 64-bit limbs as they need.

For keys that fit their summary whole nothing is selected, so nothing is ranked: one pass over the
events of a key counts its matches. Where a key is no longer than the window all starts share
one vector; else each start is followed through its own window. Additions only; the number of limbs
grows with a carry. Cost: events × arcs × limbs, and × open starts where windows bind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _add(numbers: Any, target: int, source: int, used: int) -> int:
    """numbers[target] += numbers[source]; returns the limbs in use."""
    carry = np.uint64(0)
    one, zero = np.uint64(1), np.uint64(0)
    for limb in range(used):
        before = numbers[target, limb]
        total = before + numbers[source, limb]
        over = one if total < before else zero
        again = total + carry
        carry = over + (one if again < total else zero)
        numbers[target, limb] = again
    if carry:
        numbers[target, used] = carry
        return used + 1
    return used


@njit(cache=True, nogil=True)
def _add_one(numbers: Any, target: int, used: int) -> int:
    for limb in range(used):
        numbers[target, limb] += np.uint64(1)
        if numbers[target, limb]:
            return used
    numbers[target, used] = np.uint64(1)
    return used + 1


@njit(cache=True, nogil=True)
def _follow(
    numbers: Any,
    used: int,
    begin: int,
    end: int,
    every_start: bool,
    classes: Any,
    class_offset: Any,
    arc_from: Any,
    arc_to: Any,
) -> int:
    """Events begin … end − 1 from the start at `begin`, or from every start."""
    for i in range(begin, end):
        c = classes[i]
        if c < 0:
            continue
        for a in range(class_offset[c], class_offset[c + 1]):
            p, q = arc_from[a], arc_to[a]
            if p != 0:
                used = _add(numbers, q, p, used)
            elif every_start or i == begin:
                used = _add_one(numbers, q, used)
    return used


@njit(cache=True, nogil=True)
def count_keys(
    firsts: Any,
    wanted: Any,
    times: Any,
    classes: Any,
    window: Any,
    class_offset: Any,
    arc_from: Any,
    arc_to: Any,
    starts: Any,
    final: Any,
    bits_per_event: int,
) -> Any:
    """Matches of each wanted key as limbs: (offset of each key, limbs, least significant first)."""
    keys = firsts.shape[0] - 1
    states = final.shape[0]
    offsets = np.zeros(keys + 1, np.int64)
    out = np.empty(max(4 * keys, 16), np.uint64)
    filled = 0
    numbers = np.zeros((states + 1, 4), np.uint64)
    for key in range(keys):
        begin, end = firsts[key], firsts[key + 1]
        if wanted[key] and end > begin:
            room = 3 + ((end - begin) * bits_per_event + 64) // 64
            if numbers.shape[1] < room:
                numbers = np.zeros((states + 1, room), np.uint64)
            used = 1
            numbers[:, :] = np.uint64(0)
            if times[end - 1] - times[begin] <= window:
                used = _follow(
                    numbers, used, begin, end, True, classes, class_offset, arc_from, arc_to
                )
                for z in range(states):
                    if final[z]:
                        used = _add(numbers, states, z, used)
            else:
                last = begin
                for s in range(begin, end):
                    if classes[s] < 0 or not starts[classes[s]]:
                        continue
                    last = max(last, s + 1)
                    while last < end and times[last] - times[s] <= window:
                        last += 1
                    numbers[:states, :used] = np.uint64(0)
                    used = _follow(
                        numbers, used, s, last, False, classes, class_offset, arc_from, arc_to
                    )
                    for z in range(states):
                        if final[z]:
                            used = _add(numbers, states, z, used)
            if filled + used > out.shape[0]:
                grown = np.empty(2 * (filled + used), np.uint64)
                grown[:filled] = out[:filled]
                out = grown
            for limb in range(used):
                out[filled + limb] = numbers[states, limb]
            filled += used
        offsets[key + 1] = filled
    return offsets, out[:filled]
