"""How many matches there were, whatever was kept: forward vectors of every start (or of a sample).

A lane is a start whose window is open, with the ways to be in each state by all events since, kept
or not. Lanes stand in the order of their starts, so those of closed windows are the first ones;
what they came to is added to a sum. An event costs its arcs times the open lanes, in SIMD.

Where more lanes are open than there is room for, half of them are given up, by a number that each
start drew, and those that stay count twice: an unbiased estimate, whose variance is summed as well.
Ways are floats with a binary exponent per lane, sums are binary logarithms.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import allocating, inner
from ensue.kernels.copies import copy_row
from ensue.kernels.stop import asked
from ensue.summary.kernels.arrays import Arcs

# Places in `numbers`: the open lanes, starts seen, the share of starts that is followed, log2 of
# matches of closed windows and of the variance of that sum, events since exponents were read.
LOW, HIGH, STARTS, RATE, TOTAL, VARIANCE, AGE = range(7)
NUMBERS = 7
_EVERY = 16
_ROOM = 2.0**200
_SHIFT = 200.0


class Followed(NamedTuple):
    """The lanes of one key."""

    numbers: NDArray[np.float64]
    times: NDArray[Any]  # [lane]: of the start
    drawn: NDArray[np.float64]  # [lane]: its random number
    exponent: NDArray[np.float64]  # [lane]
    ways: NDArray[np.float64]  # [state, lane]


@inner
def log_add(left: float, right: float) -> float:
    """log2(2^left + 2^right)."""
    if left < right:
        left, right = right, left
    if right == -np.inf:
        return left
    return left + math.log2(1.0 + 2.0 ** (right - left))


@inner
def drawn_of(start: int) -> float:
    """A number in [0, 1) by the number of the start (SplitMix64)."""
    z = np.uint64(start) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) / 9007199254740992.0


@inner
def close(followed: Followed, lane: int, arcs: Arcs, sums: NDArray[np.float64]) -> None:
    """Adds what the start came to: to `sums[TOTAL]`, and to `sums[VARIANCE]` where starts count
    for others."""
    found = 0.0
    for z in range(arcs.final.shape[0]):
        if arcs.final[z]:
            found += followed.ways[z, lane]
    if found > 0.0:
        rate = followed.numbers[RATE]
        told = math.log2(found) + followed.exponent[lane] - math.log2(rate)
        sums[TOTAL] = log_add(sums[TOTAL], told)
        if rate < 1.0:
            sums[VARIANCE] = log_add(sums[VARIANCE], 2.0 * told + math.log2(1.0 - rate))


@inner
def _move(followed: Followed, place: int, lane: int) -> None:
    followed.times[place] = followed.times[lane]
    followed.drawn[place] = followed.drawn[lane]
    followed.exponent[place] = followed.exponent[lane]
    for z in range(followed.ways.shape[0]):
        followed.ways[z, place] = followed.ways[z, lane]


@inner
def _make_room(followed: Followed) -> None:
    """Open lanes to the front; where they fill more than half of the arrays, half of them go."""
    numbers = followed.numbers
    low, high = int(numbers[LOW]), int(numbers[HIGH])
    if 2 * (high - low) > followed.drawn.shape[0]:
        numbers[RATE] /= 2.0
    kept = 0
    for lane in range(low, high):
        if followed.drawn[lane] < numbers[RATE]:
            _move(followed, kept, lane)
            kept += 1
    numbers[LOW], numbers[HIGH] = 0, kept


@allocating
def follow(
    followed: Followed, arcs: Arcs, window: Any, times: Any, classes: Any, grows: bool
) -> int:
    """Events in order of time; how many were taken before there was no more room (`grows`)."""
    numbers, ways = followed.numbers, followed.ways
    states, room = ways.shape[0], ways.shape[1]
    before = np.empty((states, room))
    for e in range(times.shape[0]):
        if asked():
            return e
        c, now = classes[e], times[e]
        if c < 0:
            continue
        if arcs.starts[c] and numbers[HIGH] == room:
            if grows and 2 * (numbers[HIGH] - numbers[LOW]) > room:
                return e
            _make_room(followed)
        low, high = int(numbers[LOW]), int(numbers[HIGH])
        while low < high and now - followed.times[low] > window:
            close(followed, low, arcs, numbers)
            low += 1
        numbers[LOW] = low
        first, last = arcs.offset[c], arcs.offset[c + 1]
        if arcs.fork and arcs.ordered[c]:
            for a in range(first, last):
                p, q = arcs.source[a], arcs.target[a]
                if p != 0:
                    for k in range(low, high):
                        ways[q, k] += ways[p, k]
        else:
            for z in range(states):
                for k in range(low, high):
                    before[z, k] = ways[z, k]
            if not arcs.fork:
                for a in range(first, last):
                    for k in range(low, high):
                        ways[arcs.source[a], k] = 0.0
            for a in range(first, last):
                p, q = arcs.source[a], arcs.target[a]
                if p != 0:
                    for k in range(low, high):
                        ways[q, k] += before[p, k]
        if arcs.starts[c]:
            drawn = drawn_of(int(numbers[STARTS]))
            numbers[STARTS] += 1.0
            if drawn < numbers[RATE]:
                followed.times[high], followed.drawn[high] = now, drawn
                followed.exponent[high] = 0.0
                for z in range(states):
                    ways[z, high] = 0.0
                for a in range(first, last):
                    if arcs.source[a] == 0:
                        ways[arcs.target[a], high] += 1.0
                numbers[HIGH] = high + 1
        numbers[AGE] += 1.0
        if numbers[AGE] >= _EVERY:
            numbers[AGE] = 0.0
            for k in range(low, high):
                most = 0.0
                for z in range(states):
                    most = max(most, ways[z, k])
                if most > _ROOM:
                    for z in range(states):
                        ways[z, k] /= _ROOM
                    followed.exponent[k] += _SHIFT
    return int(times.shape[0])


@allocating
def told(followed: Followed, arcs: Arcs) -> NDArray[np.float64]:
    """`numbers` as if all windows closed now."""
    sums = np.empty(followed.numbers.shape[0])
    copy_row(followed.numbers, sums)
    for lane in range(int(sums[LOW]), int(sums[HIGH])):
        close(followed, lane, arcs, sums)
    return sums
