"""Answers of many keys whose events all fit: one kernel call, exact at any size.

Nothing was dropped, so nothing is ranked and no key needs a store. With `equal`, every key is read
once per value and once without any (`groups.py`), as a *reading*: a key of its own to the kernel,
whose answer is added with a sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.stopping import look
from ensue.summary.answers import Answer
from ensue.summary.kernels.exact import measure_keys
from ensue.summary.limbs import Limbs
from ensue.summary.machine import ClassedAutomaton
from ensue.summary.reading import Scale

Numbers = NDArray[np.int64]
_Measured = tuple[list[int], list[int], NDArray[np.bool_]]  # counts, sums, events that take part
MOST_OPEN = 2_000  # events in a window


@dataclass(frozen=True)
class Readings:
    """Parts of the rows that are counted by themselves: those of a key, or of a key and value."""

    key: Numbers
    sign: Numbers
    starts: Numbers
    rows: Numbers | None  # rows of the table, end to end; None: all, in order
    classes: Numbers


def quick(starts: Numbers, times: NDArray[Any], window: Any) -> NDArray[np.bool_]:
    """Keys for which the kernel is the faster way: it follows every start through its window.

    `exact.py` does not depend on how many starts are open, at a higher price per event.
    """
    rows = np.diff(starts)
    span = (times[starts[1:] - 1] - times[starts[:-1]]).astype(np.float64)
    open_rows = rows * np.minimum(float(window) / np.maximum(span, 1e-300), 1.0)
    return (span <= window) | (open_rows <= MOST_OPEN)


def plain_readings(starts: Numbers, classes: Numbers) -> Readings:
    keys = len(starts) - 1
    return Readings(np.arange(keys), np.ones(keys, np.int64), starts, None, classes)


def value_readings(
    machine: ClassedAutomaton,
    starts: Numbers,
    wanted: NDArray[np.bool_],
    masks: Numbers,
    groups: Numbers,
    keyed: int,
) -> Readings:
    """Each wanted key once per value of its keyed events, and once without any of them."""
    bound = np.where(masks & keyed != 0, groups, -1)
    key_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    width = int(bound.max(initial=-1)) + 1
    held = np.unique((key_of * width + bound)[(bound >= 0) & wanted[key_of]])
    pairs = np.column_stack([held // max(width, 1), held % max(width, 1)])
    count = np.bincount(pairs[:, 0], minlength=len(starts) - 1)
    alone = np.flatnonzero(wanted)
    key = np.concatenate([pairs[:, 0], alone])
    value = np.concatenate([pairs[:, 1], np.full(len(alone), -1)])
    sign = np.where(value >= 0, 1, 1 - count[key])
    needed = sign != 0
    key, value, sign = key[needed], value[needed], sign[needed]
    lengths = np.diff(starts)[key]
    bounds = np.append(0, np.cumsum(lengths))
    rows = np.arange(bounds[-1]) - np.repeat(bounds[:-1] - starts[key], lengths)
    here = np.repeat(value, lengths)
    seen = np.where((bound[rows] == here) & (here >= 0), masks[rows], masks[rows] & ~keyed)
    return Readings(key, sign, bounds, rows, machine.classes_of(seen))


def answers_together(
    machine: ClassedAutomaton,
    readings: Readings,
    starts: Numbers,
    wanted: NDArray[np.bool_],
    times: NDArray[Any],
    window: Any,
    values: tuple[pa.Array, Limbs] | None,
) -> dict[int, Answer]:
    """By key; `values` with their limbs where there is a total."""
    labels = max(mask.bit_count() for mask in machine.masks)
    rows = slice(None) if readings.rows is None else readings.rows
    clock = np.ascontiguousarray(times[rows])
    chosen = wanted[readings.key]

    def measured(magnitude: NDArray[np.uint64] | None) -> _Measured:
        offsets, middle, limbs, used = measure_keys(
            readings.starts, chosen, clock, readings.classes, magnitude,
            times.dtype.type(window), machine.arrays(), (labels + 1).bit_length(),
        )  # fmt: skip
        look()
        counts = _integers(limbs, offsets[:-1], middle)
        sums = [0] * len(counts)
        return counts, sums if magnitude is None else _integers(limbs, middle, offsets[1:]), used

    ranges: dict[int, tuple[int, int]] = {}
    if values is None:
        counts, sums, _ = measured(None)
        scale = Scale(1, [], False, None)
    else:
        column, parts = values
        scale = parts.scale
        counts, sums, taking = [], [], np.zeros(len(times), np.bool_)
        for negative in (False, True):
            mine = parts.negative == negative
            if negative and not parts.negative.any():
                break
            magnitude = np.ascontiguousarray(
                np.where(mine[:, None], parts.magnitude, np.uint64(0))[rows]
            )
            counts, found, used = measured(magnitude)
            sums = [a - b for a, b in zip(sums, found, strict=True)] if negative else found
            taking[np.flatnonzero(used) if readings.rows is None else readings.rows[used]] = True
        ranges = _ranges(column, taking, starts, scale)
    return _by_key(readings, chosen, counts, sums, ranges, scale)


def _by_key(
    readings: Readings,
    chosen: NDArray[np.bool_],
    counts: list[int],
    sums: list[int],
    ranges: dict[int, tuple[int, int]],
    scale: Scale,
) -> dict[int, Answer]:
    found: dict[int, tuple[int, int]] = {}
    for number in np.flatnonzero(chosen).tolist():
        key, sign = int(readings.key[number]), int(readings.sign[number])
        count, total = found.get(key, (0, 0))
        found[key] = count + sign * counts[number], total + sign * sums[number]
    answers = {}
    for key, (count, total) in found.items():
        least, greatest = ranges.get(key, (None, None))
        answers[key] = Answer(count, total, least, greatest, [], scale)
    return answers


def _integers(limbs: NDArray[np.uint64], low: Numbers, high: Numbers) -> list[int]:
    raw = limbs.tobytes()
    return [
        int.from_bytes(raw[8 * a : 8 * b], "little")
        for a, b in zip(low.tolist(), high.tolist(), strict=True)
    ]


def _ranges(
    column: pa.Array, taking: NDArray[np.bool_], starts: Numbers, scale: Scale
) -> dict[int, tuple[int, int]]:
    """Least and greatest value of the events that take part, by key, in units of the scale."""
    rows = np.flatnonzero(taking)
    keys = np.searchsorted(starts, rows, side="right") - 1
    table = pa.table({"key": keys, "value": column.take(pa.array(rows))})
    found = table.group_by("key").aggregate([("value", "min"), ("value", "max")])
    lists = (found[name].to_pylist() for name in ("key", "value_min", "value_max"))
    return {
        key: (_units(least, scale), _units(greatest, scale))
        for key, least, greatest in zip(*lists, strict=True)
    }


def _units(value: Any, scale: Scale) -> int:
    return int(Fraction(value) * scale.denominator)
