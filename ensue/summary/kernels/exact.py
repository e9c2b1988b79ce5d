"""Exact counts for many keys at once, in integers of as many 64-bit limbs as they need.

For keys that fit their summary whole nothing is selected, so nothing is ranked: one pass over the
events of a key counts its matches. Where a key is no longer than the window all starts share
one vector; else each start is followed through its own window. Additions only; the number of limbs
grows with a carry. Cost: events × arcs × limbs, and × open starts where windows bind.

Sums are kept beside the counts (§5.3): sum[q] += sum[p] + value · count[p], with the magnitudes of
values as limbs; values below 0 are summed by themselves. Which events take part in a match, for the
least and the greatest value, comes from one pass forward and one backward over sets of states.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ensue.kernels.calls import allocating, inner, inner_allocating
from ensue.kernels.copies import copy_row
from ensue.kernels.stop import asked
from ensue.summary.kernels.arrays import Arcs


@inner
def _add(numbers: Any, target: int, given: Any, source: int, used: int) -> int:
    """numbers[target] += given[source]; returns the limbs in use."""
    carry = np.uint64(0)
    one, zero = np.uint64(1), np.uint64(0)
    for limb in range(used):
        before = numbers[target, limb]
        total = before + given[source, limb]
        over = one if total < before else zero
        again = total + carry
        carry = over + (one if again < total else zero)
        numbers[target, limb] = again
    if carry:
        numbers[target, used] = carry
        return used + 1
    return used


@inner
def _add_one(numbers: Any, target: int, used: int) -> int:
    for limb in range(used):
        numbers[target, limb] += np.uint64(1)
        if numbers[target, limb]:
            return used
    numbers[target, used] = np.uint64(1)
    return used + 1


_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@inner
def _add_limb(numbers: Any, target: int, limb: int, value: Any) -> int:
    """numbers[target] += value · 2^(64·limb); returns the limbs in use up to there."""
    while value:
        before = numbers[target, limb]
        total = before + value
        numbers[target, limb] = total
        value = np.uint64(1) if total < before else np.uint64(0)
        limb += 1
    return limb


@inner
def _add_product(
    sums: Any, target: int, numbers: Any, source: int, used: int, used_sum: int, value: Any
) -> int:
    """sums[target] += numbers[source] · value, where value is limbs; returns the limbs in use."""
    for k in range(value.shape[0]):
        if not value[k]:
            continue
        b0, b1 = value[k] & _LOW, value[k] >> _HALF
        for limb in range(used):
            a = numbers[source, limb]
            if not a:
                continue
            a0, a1 = a & _LOW, a >> _HALF
            p00, p01, p10 = a0 * b0, a0 * b1, a1 * b0
            middle = (p00 >> _HALF) + (p01 & _LOW) + (p10 & _LOW)
            low = (p00 & _LOW) | ((middle & _LOW) << _HALF)
            high = a1 * b1 + (p01 >> _HALF) + (p10 >> _HALF) + (middle >> _HALF)
            used_sum = max(used_sum, _add_limb(sums, target, limb + k, low))
            used_sum = max(used_sum, _add_limb(sums, target, limb + k + 1, high))
    return used_sum


@inner_allocating
def _follow(
    numbers: Any,
    sums: Any,
    used: int,
    used_sum: int,
    begin: int,
    end: int,
    every_start: bool,
    classes: Any,
    values: Any,
    arcs: Arcs,
) -> Any:
    """Events begin … end − 1 from the start at `begin`, or from every start: the limbs in use."""
    offset, source, target, valued = arcs.offset, arcs.source, arcs.target, arcs.valued
    for i in range(begin, end):
        c = classes[i]
        if c < 0:
            continue
        # Where a state would be read after it was written, a copy is read.
        given = numbers if arcs.ordered[c] else numbers.copy()
        given_sums = sums if arcs.ordered[c] else sums.copy()
        for a in range(offset[c], offset[c + 1]):
            p, q = source[a], target[a]
            if p != 0:
                if values is not None:
                    used_sum = _add(sums, q, given_sums, p, used_sum)
                    if valued[a]:
                        used_sum = _add_product(sums, q, given, p, used, used_sum, values[i])
                used = _add(numbers, q, given, p, used)
            elif every_start or i == begin:
                if values is not None and valued[a]:
                    for k in range(values.shape[1]):
                        used_sum = max(used_sum, _add_limb(sums, q, k, values[i, k]))
                used = _add_one(numbers, q, used)
    return used, used_sum


@inner_allocating
def _mark_used(
    begin: int, end: int, every_start: bool, classes: Any, arcs: Arcs, reached: Any, out: Any
) -> None:
    """Marks the events that take part in a match of these starts under a label with a value."""
    offset, source, target, valued = arcs.offset, arcs.source, arcs.target, arcs.valued
    now = np.zeros(arcs.final.shape[0], np.bool_)
    for i in range(begin, end):
        copy_row(now, reached[i - begin])
        c = classes[i]
        if c < 0:
            continue
        for a in range(offset[c], offset[c + 1]):
            p = source[a]
            if now[p] or (p == 0 and (every_start or i == begin)):
                now[target[a]] = True
    ahead, fresh = arcs.final.copy(), arcs.final.copy()
    for i in range(end - 1, begin - 1, -1):
        c = classes[i]
        if c < 0:
            continue
        copy_row(ahead, fresh)
        for a in range(offset[c], offset[c + 1]):
            p = source[a]
            if not ahead[target[a]]:
                continue
            from_start = p == 0 and (every_start or i == begin)
            if valued[a] and (from_start or reached[i - begin, p]):
                out[i] = True
            fresh[p] = True
        copy_row(fresh, ahead)


@allocating
def measure_keys(
    firsts: Any,
    wanted: Any,
    times: Any,
    classes: Any,
    values: Any,
    window: Any,
    arcs: Arcs,
    bits_per_event: int,
) -> Any:
    """Counts and sums of each wanted key as limbs, and the events that count for least and most.

    (offset of each key's count, of its sum, limbs; for each event whether it takes part.) Values
    None: no sum is asked for, and no event is marked.
    """
    keys, states, wide = firsts.shape[0] - 1, arcs.final.shape[0], 0
    if values is not None:
        wide = values.shape[1]
    offsets, middle = np.zeros(keys + 1, np.int64), np.zeros(keys, np.int64)
    out = np.empty(max(8 * keys, 16), np.uint64)
    taking = np.zeros(classes.shape[0], np.bool_)
    filled = 0
    numbers = np.zeros((states + 1, 4), np.uint64)
    sums = np.zeros((states + 1, 8 + wide if wide else 0), np.uint64)
    reached = np.zeros((1, states), np.bool_)
    for key in range(keys):
        begin, end = firsts[key], firsts[key + 1]
        used, used_sum = 0, 0
        if wanted[key] and end > begin:
            room = 3 + ((end - begin) * bits_per_event + 64) // 64
            if numbers.shape[1] < room:
                numbers = np.zeros((states + 1, room), np.uint64)
                if wide:
                    sums = np.zeros((states + 1, room + wide + 4), np.uint64)
            if wide and reached.shape[0] < end - begin:
                reached = np.zeros((end - begin, states), np.bool_)
            used, used_sum = 1, 1 if wide else 0
            numbers[:, :] = np.uint64(0)
            sums[:, :] = np.uint64(0)
            whole = times[end - 1] - times[begin] <= window
            last = begin
            for s in range(begin, end):
                if asked():
                    return offsets, middle, out[:filled], taking
                if classes[s] < 0 or not arcs.starts[classes[s]]:
                    continue
                last = end if whole else max(last, s + 1)
                while last < end and times[last] - times[s] <= window:
                    last += 1
                numbers[:states, :used] = np.uint64(0)
                sums[:states, :used_sum] = np.uint64(0)
                used, used_sum = _follow(
                    numbers, sums, used, used_sum, s, last, whole, classes, values, arcs
                )
                if values is not None:
                    _mark_used(s, last, whole, classes, arcs, reached, taking)
                for z in range(states):
                    if arcs.final[z]:
                        used = _add(numbers, states, numbers, z, used)
                        if values is not None:
                            used_sum = _add(sums, states, sums, z, used_sum)
                if whole:
                    break
        if filled + used + used_sum > out.shape[0]:
            grown = np.empty(2 * (filled + used + used_sum), np.uint64)
            copy_row(out[:filled], grown)
            out = grown
        for limb in range(used):
            out[filled + limb] = numbers[states, limb]
        middle[key] = filled + used
        for limb in range(used_sum):
            out[filled + used + limb] = sums[states, limb]
        filled += used + used_sum
        offsets[key + 1] = filled
    return offsets, middle, out[:filled], taking
