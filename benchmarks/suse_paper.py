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
from ensue.summary.kernels.arrays import Arcs, Retained, Tables, make_lanes
from ensue.summary.kernels.expect import coefficients
from ensue.summary.kernels.sweep import steps_left


@njit(cache=True, nogil=True)
def _expected(
    count: int, now: Any, window: Any, events: Retained, coefficient: Any, arcs: Arcs, out: Any
) -> None:
    """`out[c]`: the mean of B_exp over Δ_old and Δ_new; 0 outside the active window."""
    times, classes = events.times, events.classes
    class_offset, arc_from, arc_to = arcs.offset, arcs.source, arcs.target
    starts, final = arcs.starts, arcs.final
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
    size: int, window: Any, new_times: Any, new_classes: Any, probability: Any, arcs: Arcs,
    numbers: Any, events: Retained,
) -> None:  # fmt: skip
    """Feeds events to a summary of size + 1 places; `numbers` and `events` as in the library."""
    states, room = arcs.final.shape[0], size + 1
    times, past = events.times, events.past
    most = int(window)
    coefficient, exponent = np.zeros((most + 1, states)), np.zeros(most + 1)
    coefficients(probability, arcs, coefficient, exponent, most + 1)
    for t in range(most + 1):
        coefficient[t] *= 2.0 ** exponent[t]
    lanes = make_lanes(room, arcs)
    levels = np.zeros(5)
    tables = Tables(np.zeros(3), np.zeros(1), probability, coefficient, exponent)
    scores, expected = np.empty(room), np.empty(room)
    for e in range(new_times.shape[0]):
        now, c = new_times[e], new_classes[e]
        if c < 0:
            continue
        at = numbers[kernel.COUNT]
        times[at], events.classes[at], past[at] = now, c, 0.0
        least = 0
        for count in (at, at + 1):
            if at < size:
                continue
            numbers[kernel.COUNT] = count
            lanes = kernel.score(
                count, float(size), kernel.PRESENT, now, numbers, levels, events, scores, window,
                True, arcs, False, tables, lanes,
            )  # fmt: skip
            _expected(count, now, window, events, coefficient, arcs, expected)
            if count == at:
                for i in range(count):
                    if scores[i] + expected[i] < scores[least] + expected[least]:
                        least = i
                lowest = scores[least] + expected[least]
            elif scores[at] + expected[at] <= lowest:
                numbers[kernel.COUNT] = at
            else:
                gone, took_part = times[least], past[least] != 0.0
                kernel.drop(least, numbers, events)
                if took_part:
                    lanes = kernel.resettle(gone, numbers, events, window, arcs, False, lanes)
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
    kinds = (np.int64, np.int64, np.float64, np.int64, np.float64)
    held = Retained(*(np.zeros(size + 1, kind) for kind in kinds))
    moments = events["t"].to_numpy()
    found, begin = [], 0
    for stop in asked:
        select(
            size, window, moments[begin:stop], classes[begin:stop], probability,
            machine.arrays(), numbers, held,
        )  # fmt: skip
        begin = stop
        at = held.times[: numbers[kernel.COUNT]]
        rows = events.take(np.searchsorted(moments, at))
        found.append(asked_of.summarize(rows, size=size + 1).count())
    return found
