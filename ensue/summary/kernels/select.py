"""The selection loop of a summary: keep, replace or discard, event by event (SuSe §6.2).

While there is room an event is only appended: no counter exists until the first decision. Once
the summary is full, the arriving event is appended tentatively, all size + 1 events are scored by
the matches they take part in (`sweep.py`), and the least is dropped; of equals the arriving
one, else the oldest. That is the paper's rule with one change: old events are scored in the
presence of the new one, so that all are compared in the same summary. What is expected knows that
a full summary cannot grow (`expect.py`).

Scores have two parts. Starts whose window has closed add a fixed part (`past`); a start is swept
into it once, when its window closes. Open starts are swept at every decision, with what is
expected of the rest of their window. Removing an event disturbs only closed windows that hold it:
where it took part in none, nothing is done, else the events within one window of it are cleared and
the starts within two windows swept again. All by additions.

Cost of a decision: one sweep of the open starts. Cost of an insert with room: O(1).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ensue.kernels.calls import allocating, borrowing, inner_allocating
from ensue.kernels.copies import copy_row
from ensue.kernels.stop import asked
from ensue.summary.kernels.arrays import Arcs, Lanes, Retained, Tables, keeping, make_lanes
from ensue.summary.kernels.expect import (
    GAP_WEIGHT,
    GAPS,
    HOPE,
    arrival_rate,
    claim,
    foresight,
    remaining,
    retained_coefficients,
    windows_held,
)
from ensue.summary.kernels.sweep import find_lanes, lane_room, steps_left, sweep, sweep_scaled

BENEFIT, PRESENT, FIFO, RANDOM = 0, 1, 2, 3
CLOSED, OPEN, EXPECTED = 0, 1, 2  # parts of a score
# Places in `numbers` (integers that change) and `levels` (floats that change).
COUNT, SETTLED, ROWS, KEPT, REMOVED, DISCARDED, IRRELEVANT, SEED, RESCALED = range(9)
DETECTED, LATEST, FORESIGHT = 2, 3, 4  # after GAPS and GAP_WEIGHT
# Places in `learning`, which all keys share: weight of an event, events since the last refresh,
# rows of the coefficient table that are filled.
WEIGHT, AGE, FILLED = range(3)
_HUGE = 1e280
_LARGE = 400.0  # log2 of the most that is expected before exponents are needed


@allocating
def refresh_tables(
    learn: bool, counted: bool, window: Any, levels: Any, tables: Tables, arcs: Arcs
) -> None:
    """Observed shares of the classes, and the coefficients as far as a window reaches."""
    tables.learning[AGE] = 0.0
    rows = tables.coefficient.shape[0]
    reach = window * arrival_rate(levels, counted) + 2.0
    if reach < rows:
        rows = max(int(reach), 1)
    if learn:
        total = tables.class_weight.sum()
        for c in range(tables.probability.shape[0]):
            tables.probability[c] = tables.class_weight[c] / total
    elif rows <= tables.learning[FILLED]:
        return
    tables.learning[FILLED] = rows
    retained_coefficients(tables, arcs, rows)


@borrowing
def learn_class(event_class: int, decay: float, tables: Tables) -> None:
    """The weight of later events grows, which forgets earlier ones; class −1 is the last."""
    learning, class_weight = tables.learning, tables.class_weight
    learning[WEIGHT] *= decay
    class_weight[event_class] += learning[WEIGHT]
    if learning[WEIGHT] > 1e100:
        for c in range(class_weight.shape[0]):
            class_weight[c] /= learning[WEIGHT]
        learning[WEIGHT] = 1.0


@allocating
def next_random(numbers: Any, below: int) -> int:
    """SplitMix64: a small generator whose state is one stored integer."""
    numbers[SEED] += np.int64(-7046029254386353131)
    z = np.uint64(numbers[SEED])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return int(z % np.uint64(below))


@borrowing
def drop(at: int, numbers: Any, events: Retained) -> None:
    times, classes, weights, ids, past = events
    count = numbers[COUNT]
    for i in range(at, count - 1):
        times[i] = times[i + 1]
        classes[i] = classes[i + 1]
        weights[i] = weights[i + 1]
        ids[i] = ids[i + 1]
        past[i] = past[i + 1]
    numbers[COUNT] = count - 1
    if at < numbers[SETTLED]:
        numbers[SETTLED] -= 1


@inner_allocating
def ending_at_last(count: int, events: Retained, window: Any, arcs: Arcs) -> float:
    """Matches among the first `count` events that end at the last of them."""
    times, classes = events.times, events.classes
    states = arcs.final.shape[0]
    forward, fresh = np.zeros(states), np.zeros(states)
    now = times[count - 1]
    begin = count - 1
    while begin > 0 and now - times[begin - 1] <= window:
        begin -= 1
    total = 0.0
    for i in range(begin, count):
        copy_row(forward, fresh)
        for a in range(arcs.offset[classes[i]], arcs.offset[classes[i] + 1]):
            p, q = arcs.source[a], arcs.target[a]
            ways = forward[p] if p != 0 else 1.0
            if i == count - 1:
                if arcs.final[q]:
                    total += ways
            else:
                fresh[q] += ways
                if not arcs.fork and p != 0:
                    fresh[p] -= ways
        copy_row(fresh, forward)
    return total


@allocating
def score(
    count: int,
    size: float,
    mode: int,
    now: Any,
    numbers: Any,
    levels: Any,
    events: Retained,
    scores: Any,
    window: Any,
    counted: bool,
    arcs: Arcs,
    sums: bool,
    tables: Tables,
    lanes: Lanes,
) -> Lanes:
    """Fills `scores[:count]` (settling closed windows); returns the scratch, maybe grown.

    One sweep of the open starts where all of them keep their events, else one for the matches that
    are there and one, with the share that remains of these events, for those that are expected.
    """
    times, past = events.times, events.past
    final, fork, states = arcs.final, arcs.fork, arcs.final.shape[0]
    coefficient, exponent, probability = tables.coefficient, tables.exponent, tables.probability
    first, terminal = lanes.first, lanes.terminal
    settled = numbers[SETTLED]
    open_from = settled
    while open_from < count and now - times[open_from] > window:
        open_from += 1
    rate = arrival_rate(levels, counted)
    held = windows_held(size, window * rate, probability)
    pace = rate * claim(held, probability)
    weight = levels[FORESIGHT]
    if weight <= 0.0:
        weight = foresight(held)
    most = int(tables.learning[FILLED]) - 1
    share = np.ones(count)
    evicts, overflow = False, False
    hopes = np.zeros(count)
    for i in range(count):
        scores[i] = 0.0
    for part in (CLOSED, OPEN, EXPECTED):
        if part == EXPECTED and not evicts:
            break
        low, high = (settled, open_from) if part == CLOSED else (open_from, count)
        width = find_lanes(events, arcs, low, high, count, window, lanes)
        if width == 0:
            continue
        if part == OPEN and mode == BENEFIT:
            for k in range(width):
                t = steps_left(window, now - times[first[k]], pace, most)
                evicts |= remaining(size, t, count - 1 - first[k], fork) < 1.0
        for k in range(width):
            here = 0.0 if part == EXPECTED else 1.0
            for z in range(states):
                terminal[z, k] = here if final[z] else 0.0
            if part == EXPECTED or (part == OPEN and mode == BENEFIT and not evicts):
                t = steps_left(window, now - times[first[k]], pace, most)
                share[k] = remaining(size, t, count - 1 - first[k], fork)
                overflow |= exponent[t] > _LARGE
                scale = 2.0 ** min(exponent[t], _LARGE)
                for z in range(states):
                    done = 1.0 if final[z] else 0.0
                    terminal[z, k] += weight * (scale * coefficient[t, z] - done)
        if overflow and part != CLOSED:
            break
        lanes = keeping(lanes, lane_room(events.classes, arcs, lanes, width), sums)
        out = past if part == CLOSED else hopes if part == EXPECTED else scores
        sweep(events, arcs, sums, lanes, width, part == EXPECTED, share, 0, count, out)
    numbers[SETTLED] = open_from
    for i in range(count):
        scores[i] += past[i]
        if not scores[i] + hopes[i] < _HUGE:
            overflow = True
    if evicts and not overflow:
        most_there, most_hoped = scores[:count].max(), hopes.max()
        scale = 1.0
        if 0.0 < HOPE * most_there < most_hoped:
            scale = HOPE * most_there / most_hoped
        for i in range(count):
            scores[i] += scale * hopes[i]
    if overflow:
        numbers[RESCALED] += 1
        logs = np.zeros(count)
        for i in range(count):
            scores[i] = hopes[i] = -np.inf
            share[i] = 1.0
        for part in (OPEN, EXPECTED):
            if part == EXPECTED and mode != BENEFIT:
                break
            low = open_from if part == EXPECTED else 0
            width = find_lanes(events, arcs, low, count, count, window, lanes)
            if width == 0:
                continue
            for k in range(width):
                for z in range(states):
                    terminal[z, k] = 1.0 if final[z] and part == OPEN else 0.0
                if part == EXPECTED:
                    t = steps_left(window, now - times[first[k]], pace, most)
                    share[k] = remaining(size, t, count - 1 - first[k], fork)
                    logs[k] = exponent[t]
                    for z in range(states):
                        now_done = 2.0 ** (-exponent[t]) if final[z] else 0.0
                        terminal[z, k] = weight * (coefficient[t, z] - now_done)
            lanes = keeping(lanes, lane_room(events.classes, arcs, lanes, width), False)
            out = scores if part == OPEN else hopes
            sweep_scaled(events.classes, arcs, lanes, width, share, logs, out)
        shift, most_there = 0.0, scores[:count].max()
        if evicts and most_there > -np.inf:
            shift = min(0.0, math.log2(HOPE) + most_there - hopes.max())
        for i in range(count):
            high, low = max(scores[i], hopes[i] + shift), min(scores[i], hopes[i] + shift)
            scores[i] = high + math.log2(1.0 + 2.0 ** (low - high)) if low > -np.inf else high
    return lanes


@inner_allocating
def resettle(
    removed: Any,
    numbers: Any,
    events: Retained,
    window: Any,
    arcs: Arcs,
    sums: bool,
    lanes: Lanes,
) -> Lanes:
    """Clears `past` within a window of the removed time and sweeps the closed starts again."""
    times, past = events.times, events.past
    count, settled = numbers[COUNT], numbers[SETTLED]
    low_out = 0
    while low_out < count and removed - times[low_out] > window:
        low_out += 1
    high_out = low_out
    while high_out < count and times[high_out] - removed <= window:
        past[high_out] = 0.0
        high_out += 1
    low = low_out
    if low < count:
        while low > 0 and times[low_out] - times[low - 1] <= window:
            low -= 1
    high = min(high_out, settled)
    if low >= high:
        return lanes
    width = find_lanes(events, arcs, low, high, count, window, lanes)
    if width == 0:
        return lanes
    for k in range(width):
        for z in range(arcs.final.shape[0]):
            lanes.terminal[z, k] = 1.0 if arcs.final[z] else 0.0
    lanes = keeping(lanes, lane_room(events.classes, arcs, lanes, width), sums)
    sweep(events, arcs, sums, lanes, width, False, np.ones(width), low_out, high_out, past)
    return lanes


@allocating
def run(
    size: int,
    mode: int,
    learn: bool,
    decay: float,
    refresh: int,
    detect: bool,
    counted: bool,
    window: Any,
    new_times: Any,
    new_classes: Any,
    new_weights: Any,
    new_ids: Any,
    sums: bool,
    numbers: Any,
    levels: Any,
    times: Any,
    classes: Any,
    weights: Any,
    ids: Any,
    past: Any,
    learning: Any,
    class_weight: Any,
    probability: Any,
    coefficient: Any,
    exponent: Any,
    offset: Any,
    source: Any,
    target: Any,
    valued: Any,
    ordered: Any,
    starts: Any,
    final: Any,
    fork: bool,
) -> None:
    """Feeds a batch in order to one summary; arrays hold size + 1 events.

    Called for every key, so it takes `Retained`, `Tables` and `Arcs` array by array: a tuple of
    arrays takes some microseconds to get here.
    """
    events = Retained(times, classes, weights, ids, past)
    tables = Tables(learning, class_weight, probability, coefficient, exponent)
    arcs = Arcs(offset, source, target, valued, ordered, starts, final, fork)
    room = past.shape[0]
    lanes = make_lanes(0, arcs)
    scores = np.empty(room)
    for e in range(new_times.shape[0]):
        if asked():
            return
        now, c = new_times[e], new_classes[e]
        numbers[ROWS] += 1
        if numbers[ROWS] > 1:
            levels[GAPS] = levels[GAPS] / decay + (now - levels[LATEST])
            levels[GAP_WEIGHT] = levels[GAP_WEIGHT] / decay + 1.0
        levels[LATEST] = now
        learning[AGE] += 1.0
        if learn:
            learn_class(c, decay, tables)
        if c < 0:
            numbers[IRRELEVANT] += 1
            continue
        full = numbers[COUNT] == size
        if full and mode == FIFO:
            drop(0, numbers, events)
        elif full and mode == RANDOM:
            drop(next_random(numbers, size), numbers, events)
        at = numbers[COUNT]
        events.times[at], events.classes[at], events.weights[at] = now, c, new_weights[e]
        events.ids[at], past[at] = new_ids[e], 0.0
        numbers[COUNT] = at + 1
        numbers[KEPT] += 1
        if full and mode <= PRESENT:
            if mode == BENEFIT and learning[AGE] >= refresh:
                refresh_tables(learn, counted, window, levels, tables, arcs)
            if not lanes.first.shape[0]:
                lanes = make_lanes(room, arcs)
            lanes = score(
                at + 1, float(size), mode, now, numbers, levels, events, scores, window, counted,
                arcs, sums, tables, lanes,
            )  # fmt: skip
            least = 0
            for i in range(1, at):
                if scores[i] < scores[least]:
                    least = i
            if scores[at] <= scores[least]:
                numbers[COUNT] = at
                numbers[KEPT] -= 1
                numbers[DISCARDED] += 1
                continue
            gone, took_part = events.times[least], past[least] != 0.0
            drop(least, numbers, events)
            if took_part or (not arcs.fork and least < numbers[SETTLED]):
                lanes = resettle(gone, numbers, events, window, arcs, sums, lanes)
        if full:
            numbers[REMOVED] += 1
        if detect:
            levels[DETECTED] += ending_at_last(numbers[COUNT], events, window, arcs)
