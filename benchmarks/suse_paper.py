"""SuSe's selection by the paper's own formula (§6.1 and §6.2), to compare the library's with.

B(c) = B_pres(c) + (B_exp(c, Δ_old) + B_exp(c, Δ_new)) / 2 looks ahead a whole window, as if all
that comes could be kept; Δ_old is what is left of the window of the oldest start that is open,
Δ_new of the newest start up to c. Old events are scored before the new one comes, and the least of
them gives way where its benefit is smaller than that of the new one. Probabilities are those of the
stream.
Counters are 64-bit floats, which is enough to rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from benchmarks import suse_streams as s
from ensue.summary.kernels import select as kernel
from ensue.summary.kernels.expect import coefficients
from ensue.summary.kernels.sweep import steps_left


@njit(cache=True, nogil=True)
def _expected(
    count: int, now: Any, window: Any, times: Any, classes: Any, coefficient: Any,
    class_offset: Any, arc_from: Any, arc_to: Any, starts: Any, final: Any, out: Any,
) -> None:  # fmt: skip
    """`out[c]`: the mean of B_exp over Δ_old and Δ_new; 0 outside the active window."""
    states = final.shape[0]
    most = coefficient.shape[0] - 1
    begin = 0
    while begin < count and (now - times[begin] > window or not starts[classes[begin]]):
        out[begin] = 0.0
        begin += 1
    before = np.zeros((count - begin + 1, states))
    for i in range(begin, count):
        row = before[i - begin]
        before[i - begin + 1] = row
        for a in range(class_offset[classes[i]], class_offset[classes[i] + 1]):
            p = arc_from[a]
            before[i - begin + 1, arc_to[a]] += row[p] if p != 0 else 1.0
    newest = np.zeros(count, np.int64)
    last = begin
    for i in range(begin, count):
        if starts[classes[i]]:
            last = i
        newest[i] = last
    after = np.eye(states)
    fresh = np.eye(states)
    for i in range(count - 1, begin - 1, -1):
        total = np.zeros(states)
        fresh[:] = after
        for a in range(class_offset[classes[i]], class_offset[classes[i] + 1]):
            p, q = arc_from[a], arc_to[a]
            total += (before[i - begin, p] if p != 0 else 1.0) * after[q]
            if p != 0:
                fresh[p] += after[q]
        after[:] = fresh
        out[i] = 0.0
        for start in (begin, newest[i]):
            row = coefficient[steps_left(window, now - times[start], 1.0, most)]
            # Column 0 is what later starts bring, which the paper's recurrence has too.
            found = row[0]
            for z in range(1, states):
                found += total[z] * (row[z] - (1.0 if final[z] else 0.0))
            out[i] += found / 2


@njit(cache=True, nogil=True)
def select(
    size: int, window: Any, new_times: Any, new_classes: Any, probability: Any,
    class_offset: Any, arc_from: Any, arc_to: Any, arc_valued: Any, ordered: Any, starts: Any,
    final: Any, numbers: Any, times: Any, classes: Any, past: Any,
) -> None:  # fmt: skip
    """Feeds events to a summary of size + 1 places; `numbers` and `past` as in the library."""
    states, room = final.shape[0], size + 1
    most = int(window)
    coefficient, exponent = np.zeros((most + 1, states)), np.zeros(most + 1)
    coefficients(
        probability, class_offset, arc_from, arc_to, final, coefficient, exponent, most + 1
    )
    for t in range(most + 1):
        coefficient[t] *= 2.0 ** exponent[t]
    lane_first, lane_last = np.empty(room, np.int64), np.empty(room, np.int64)
    terminal, work = np.empty((states, room)), np.empty((4, states, room))
    spare = np.empty((arc_from.shape[0], 2, room))
    kept, kept_sum = np.empty(16), np.empty(16)
    weights, ids = np.zeros(room), np.zeros(room, np.int64)
    levels, learning = np.zeros(5), np.zeros(3)
    scores, expected = np.empty(room), np.empty(room)
    for e in range(new_times.shape[0]):
        now, c = new_times[e], new_classes[e]
        if c < 0:
            continue
        at = numbers[kernel.COUNT]
        times[at], classes[at], past[at] = now, c, 0.0
        least = 0
        for count in (at, at + 1):
            if at < size:
                continue
            numbers[kernel.COUNT] = count
            kept, kept_sum = kernel.score(
                count, float(size), kernel.PRESENT, now, numbers, levels, times, classes, weights,
                past, scores, window, True, class_offset, arc_from, arc_to, arc_valued, ordered,
                starts, final, True, False, probability, coefficient, exponent, learning,
                lane_first, lane_last, terminal, work, kept, kept_sum, spare,
            )  # fmt: skip
            _expected(
                count, now, window, times, classes, coefficient, class_offset, arc_from, arc_to,
                starts, final, expected,
            )  # fmt: skip
            if count == at:
                for i in range(count):
                    if scores[i] + expected[i] < scores[least] + expected[least]:
                        least = i
                lowest = scores[least] + expected[least]
            elif scores[at] + expected[at] <= lowest:
                numbers[kernel.COUNT] = at
            else:
                gone, took_part = times[least], past[least] != 0.0
                kernel.drop(least, numbers, times, classes, weights, ids, past)
                if took_part:
                    kept, kept_sum = kernel.resettle(
                        gone, numbers, times, classes, weights, past, window, class_offset,
                        arc_from, arc_to, arc_valued, ordered, starts, final, True, False,
                        lane_first, lane_last, terminal, work, kept, kept_sum, spare,
                    )  # fmt: skip
        if at < size:
            numbers[kernel.COUNT] = at + 1


def counts(text: str, events: pa.Table, size: int, window: int, asked: Sequence[int]) -> list[int]:
    """Matches at each trigger, by the paper's formula; one event per unit of time."""
    asked_of = s.query(text, window)
    machine = asked_of.summarize(size=size)._selection.machine
    known = machine.automaton.labels
    kinds = events["kind"].to_pylist()
    classes = np.array([machine.class_of(1 << known.index(k)) if k in known else -1 for k in kinds])
    probability = np.bincount(classes + 1, minlength=machine.classes + 1)[1:] / len(classes)
    numbers = np.zeros(9, np.int64)
    held = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64), np.zeros(size + 1)
    moments = events["t"].to_numpy()
    found, begin = [], 0
    for stop in asked:
        select(
            size, window, moments[begin:stop], classes[begin:stop], probability,
            **machine.arrays(), numbers=numbers, times=held[0], classes=held[1], past=held[2],
        )  # fmt: skip
        begin = stop
        at = held[0][: numbers[kernel.COUNT]]
        rows = events.take(np.searchsorted(moments, at))
        found.append(asked_of.summarize(rows, size=size + 1).count())
    return found
