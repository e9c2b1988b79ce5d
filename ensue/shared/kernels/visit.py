"""One visit: an open partial match is asked about an event, and all that follows from it.

A visit asks the guards of each component (patterns that ask the same conditions), and the answers
choose an outcome: events taken, patterns for which the partial match waits on, matches. Under a
bound it also teaches the sketch, and a new partial match may be shed at birth.

A visit is never interrupted: `has_room` is asked before whether all that it may write fits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.guards.machine import OVERFLOW, run_guard, update_registers
from ensue.kernels.calls import borrowing, inlined
from ensue.shared.constants import LEAST_LIFE, PATIENCE
from ensue.shared.kernels.arena import allocate, any_bit, meets, next_random, write
from ensue.shared.kernels.layout import (
    CELL,
    CELL_NODE,
    CHAINS,
    COUNTED,
    CREATED,
    CUT,
    ENTRIES,
    EXPLORE,
    FRESH,
    LEARN,
    NO_CELL,
    PRICED,
    RECORDS,
    SHED,
    UNCOUNTED,
    WORK,
    WRITTEN,
    Arena,
    Features,
    Found,
    Guards,
    Prices,
    Rows,
    Scratch,
    Sketch,
    Steps,
)
from ensue.shared.kernels.price import age_bin, cell_of, note_created
from ensue.shared.kernels.select import age_of, least_of, quality_of, record_shed
from ensue.shared.kernels.sketch import bucket_of, column_of, credit, ways_of

VISIT, PASS, DROP = 0, 1, 2
WAITS_ON, CLOSED, TOO_LARGE, BY_ZERO = 1, 0, -1, -2  # what became of a partial match


@inlined
def common(target: NDArray[np.uint64], left: NDArray[np.uint64], right: NDArray[np.uint64]) -> bool:
    """The patterns of both, into `target`; whether there are any."""
    found = np.uint64(0)
    for word in range(target.shape[0]):
        target[word] = left[word] & right[word]
        found |= target[word]
    return found != 0


@inlined
def expired_bits(
    run: int,
    row: int,
    rows: Rows,
    arena: Arena,
    mine: NDArray[np.uint64],
    some: NDArray[np.uint64],
    pending: NDArray[np.uint64],
) -> int:
    """Takes patterns whose window has ended out of `mine`.

    Those for which the partial match is thereby complete are in `some`, and the row that settled it
    is returned; -1 where there is none.
    """
    low, masks, end = rows.low, rows.masks, rows.end
    first, waiting = arena.first[run], pending[arena.node[run]]
    settled = -1
    for word in range(some.shape[0]):
        some[word] = 0
    for window in range(low.shape[0]):
        if row < end and low[window, row] <= first:
            continue
        for word in range(mine.shape[0]):
            some[word] |= mine[word] & masks[window, word] & waiting[word]
            mine[word] &= ~masks[window, word]
        if any_bit(some) and settled < 0:
            begin, stop = rows.begin, end
            while begin < stop:
                middle = (begin + stop) >> 1
                if low[window, middle] > first:
                    stop = middle
                else:
                    begin = middle + 1
            settled = begin
    if row >= end:
        for word in range(mine.shape[0]):
            some[word] |= mine[word] & waiting[word]
            mine[word] = 0
        if any_bit(some) and settled < 0:
            settled = end
    return settled if any_bit(some) else -1


@borrowing
def emit(
    run: int,
    label: int,
    row: int,
    settled: int,
    patterns: NDArray[np.uint64],
    arena: Arena,
    found: Found,
    sketch: Sketch,
    prices: Prices,
    meta: NDArray[np.int64],
    learn: bool,
) -> None:
    """One match of every pattern in the bitmap: the events of `run`, and `row` where label >= 0."""
    written = meta[WRITTEN]
    size = (arena.length[run] if run >= 0 else 0) + (1 if label >= 0 else 0)
    place = written + size - 1
    if label >= 0:
        found.label[place], found.row[place] = label, row
        place -= 1
    record = run
    while record >= 0:
        found.label[place], found.row[place] = arena.label[record], arena.row[record]
        place -= 1
        record = arena.parent[record]
    meta[WRITTEN] = written + size
    found.chain_end[meta[CHAINS]] = written + size
    found.settled[meta[CHAINS]] = settled
    columns = sketch.weights.shape[0]
    for word in range(patterns.shape[0]):
        left = patterns[word]
        pattern = word << 6
        while left != 0:
            while left & np.uint64(0xFF) == 0:
                left >>= np.uint64(8)
                pattern += 8
            if left & np.uint64(1):
                found.pattern[meta[ENTRIES]] = pattern
                found.chain[meta[ENTRIES]] = meta[CHAINS]
                meta[ENTRIES] += 1
                if learn and run >= 0:
                    column, node, bucket = (
                        column_of(pattern, columns),
                        arena.node[run],
                        arena.bucket[run],
                    )
                    sketch.completed[bucket, column] += 1.0
                    sketch.direct[node, column] += 1.0
                    sketch.node_completed[node, column] += 1.0
                    if meta[CELL] >= 0:
                        prices.done[meta[CELL]] += prices.scale[0] * sketch.weights[column]
                    elif meta[CELL] > UNCOUNTED:
                        prices.waited[bucket] += prices.scale[0] * sketch.weights[column]
            left >>= np.uint64(1)
            pattern += 1
    meta[CHAINS] += 1


@inlined
def _shed_at_birth(
    target: int,
    bucket: int,
    worth: float,
    ways: float,
    left: float,
    sketch: Sketch,
    prices: Prices,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
) -> bool:
    """Whether a new partial match is below the cut, and not kept to explore."""
    if knobs[PRICED] != 0.0:
        low = int(prices.best[bucket, age_bin(left)]) < meta[CUT]
    else:
        low = quality_of(target, worth, ways, left, sketch, knobs) < least_of(meta[CUT])
    if not low or next_random(meta) < knobs[EXPLORE]:
        return False
    if knobs[PRICED] != 0.0:
        prices.lost[target] += prices.value[bucket, age_bin(left)]
    return True


@inlined
def _add(
    target: int,
    above: int,
    label: int,
    row: int,
    begin: int,
    now: int,
    patterns: NDArray[np.uint64],
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    rows: Rows,
    guards: Guards,
    features: Features,
    arena: Arena,
    sketch: Sketch,
    prices: Prices,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
    scratch: Scratch,
) -> None:
    """A new open partial match, unless it is shed at once (its quality is below the cut)."""
    bucket = 0
    meta[CREATED] += 1
    kept = patterns
    if knobs[LEARN] != 0.0:
        left = max(1.0 - age_of(begin, now, rows), LEAST_LIFE)
        bucket = bucket_of(
            target, now, rows.begin, rows.end, ints, floats, features, guards, scratch,
            sketch.bucket_seen.shape[0], meta[CREATED],
        )  # fmt: skip
        ways = ways_of(left, target, sketch)
        above_bucket, above_node = -1, -1
        if above >= 0:
            above_bucket, above_node = arena.bucket[above], arena.node[above]
        worth = credit(above_bucket, above_node, bucket, target, ways, patterns, sketch)
        if meta[CELL] > UNCOUNTED:
            draw = next_random(meta)
            note_created(meta[CELL], meta[CELL_NODE], bucket, target, draw, prices)
        if (
            meta[CUT] > 0
            and meets(patterns, sketch.overloaded)
            and _shed_at_birth(target, bucket, worth, ways, left, sketch, prices, meta, knobs)
        ):
            kept = scratch.spare
            for word in range(kept.shape[0]):
                kept[word] = patterns[word] & ~sketch.overloaded[word]
            record_shed(target, bucket, patterns, kept, ways, sketch, meta)
        if not any_bit(kept):
            return
        sketch.bucket_seen[bucket] += ways
        sketch.node_seen[target] += ways
    record = allocate(meta, arena.following)
    arena.node[record], arena.parent[record] = target, above
    arena.label[record], arena.row[record] = label, row
    arena.first[record], arena.bucket[record] = begin, bucket
    arena.length[record] = 1 if above < 0 else arena.length[above] + 1
    arena.references[record] = 1
    if above >= 0:
        arena.references[above] += 1
    write(arena.bits[record], kept)
    write(arena.ints[record], ints)
    write(arena.floats[record], floats)
    arena.following[record] = meta[FRESH]
    meta[FRESH] = record


@inlined
def _registers_at(
    run: int, label: int, row: int, guards: Guards, arena: Arena, scratch: Scratch
) -> bool:
    """The registers of a partial match once it has taken the row; False: a number is too large."""
    if run >= 0:
        write(scratch.ints, arena.ints[run])
        write(scratch.floats, arena.floats[run])
    else:
        write(scratch.ints, guards.initial_ints)
        write(scratch.floats, guards.initial_floats)
    return update_registers(
        guards.updates, guards.applies[label], row, scratch.ints, scratch.floats, guards.ints,
        guards.floats, guards.int_nulls, guards.float_nulls,
    )  # fmt: skip


@inlined
def _answers(
    run: int,
    row: int,
    begin: int,
    component: int,
    rows: Rows,
    steps: Steps,
    guards: Guards,
    arena: Arena,
    scratch: Scratch,
) -> int:
    """Which guards of a component hold, as bits; below 0: one failed."""
    answers = 0
    first = steps.guard_offset[component]
    for place in range(first, steps.guard_offset[component + 1]):
        atom = steps.guard[place]
        if atom >= steps.labels:
            gap = rows.bounds[atom - steps.labels]
            holds = run < 0 or rows.order[row] - rows.order[arena.row[run]] <= gap
        else:
            if not _registers_at(run, atom, row, guards, arena, scratch):
                return TOO_LARGE
            verdict = run_guard(
                guards.code, guards.offset[atom], guards.offset[atom + 1], row, begin, rows.begin,
                rows.end, 0, scratch.ints, scratch.floats, guards.ints, guards.floats,
                guards.int_nulls, guards.float_nulls, guards.int_constants, guards.float_constants,
                scratch.cell_ints, scratch.cell_floats, scratch.cell_nulls,
            )  # fmt: skip
            if verdict < 0:
                return TOO_LARGE if verdict == OVERFLOW else BY_ZERO
            holds = verdict == 1
        if holds:
            answers |= 1 << (place - first)
    return answers


@inlined
def _counted(
    run: int, row: int, rows: Rows, arena: Arena, prices: Prices, meta: NDArray[np.int64]
) -> None:
    """The visit counts for the index of visits."""
    node, bucket, scale = arena.node[run], arena.bucket[run], prices.scale[0]
    cell = cell_of(node, bucket, rows.event_class[row], prices)
    meta[CELL], meta[CELL_NODE] = cell, node
    prices.asked[cell] += scale
    if prices.latest[cell] != row:
        prices.latest[cell] = row
        prices.distinct[cell] += scale
    prices.visits[bucket] += scale


@inlined
def visit(
    run: int,
    row: int,
    components_begin: int,
    components_end: int,
    rows: Rows,
    steps: Steps,
    guards: Guards,
    features: Features,
    arena: Arena,
    found: Found,
    sketch: Sketch,
    prices: Prices,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
    scratch: Scratch,
) -> int:
    """What becomes of a partial match that is asked about a row. Run -1 is "no event yet"."""
    mine, some, left = scratch.mine, scratch.some, scratch.left
    learn = knobs[LEARN] != 0.0
    words = mine.shape[0]
    begin = row
    meta[CELL] = NO_CELL if knobs[COUNTED] != 0.0 else UNCOUNTED
    if run >= 0:
        begin = arena.first[run]
        write(mine, arena.bits[run])
        settled = expired_bits(run, row, rows, arena, mine, some, steps.pending)
        if settled >= 0:
            emit(run, -1, -1, settled, some, arena, found, sketch, prices, meta, learn)
        if not any_bit(mine):
            return CLOSED
        meta[WORK] += 1
        if meta[CELL] > UNCOUNTED:
            _counted(run, row, rows, arena, prices, meta)
    else:
        for word in range(words):
            mine[word] = ~np.uint64(0)
    write(left, mine)
    for component in range(components_begin, components_end):
        if not meets(mine, steps.component_mask[component]):
            continue
        answers = _answers(run, row, begin, component, rows, steps, guards, arena, scratch)
        if answers < 0:
            return answers
        outcome = steps.outcome[component] + answers
        for take in range(steps.take_offset[outcome], steps.take_offset[outcome + 1]):
            label, target = steps.take_label[take], steps.take_target[take]
            if common(some, mine, steps.take_accept[take]):
                emit(run, label, row, row, some, arena, found, sketch, prices, meta, learn)
            if target < 0 or not common(some, mine, steps.take_going[take]):
                continue
            if not _registers_at(run, label, row, guards, arena, scratch):
                return TOO_LARGE
            _add(
                target, run, label, row, begin, row, some, scratch.ints, scratch.floats, rows,
                guards, features, arena, sketch, prices, meta, knobs, scratch,
            )  # fmt: skip
        if run >= 0:
            for move in range(steps.move_offset[outcome], steps.move_offset[outcome + 1]):
                if common(some, mine, steps.move_mask[move]):
                    _add(
                        steps.move_node[move], arena.parent[run], arena.label[run], arena.row[run],
                        begin, row, some, arena.ints[run], arena.floats[run], rows, guards,
                        features, arena, sketch, prices, meta, knobs, scratch,
                    )  # fmt: skip
            if common(some, mine, steps.accept[outcome]):
                emit(run, -1, -1, row, some, arena, found, sketch, prices, meta, learn)
            for word in range(words):
                gone = steps.component_mask[component, word] & ~steps.stay[outcome, word]
                left[word] &= ~gone
    if run < 0:
        return CLOSED
    write(arena.bits[run], left)
    if any_bit(left):
        return WAITS_ON
    if meta[CELL] > UNCOUNTED:
        prices.leaving[arena.bucket[run]] += prices.scale[0]
    return CLOSED


@inlined
def passed(
    run: int,
    row: int,
    patient: bool,
    rows: Rows,
    arena: Arena,
    sketch: Sketch,
    prices: Prices,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
) -> int:
    """Whether a visit is not worth the price: PASS leaves the partial match, DROP gives it up.

    Where a visit may do more than take the event (end the partial match, move it), it cannot be
    left out without the partial match.
    """
    left = 1.0 - (rows.position[row] - rows.position[arena.first[run]]) / rows.size
    if left < 0.0:
        return VISIT
    age, bucket, node = age_bin(left), arena.bucket[run], arena.node[run]
    cell = cell_of(node, bucket, rows.event_class[row], prices)
    level = int(prices.pays[cell, age])
    prices.levels[level] += 1.0
    if level >= meta[CUT] or next_random(meta) < knobs[EXPLORE]:
        return VISIT
    if patient and int(prices.best[bucket, age]) + PATIENCE >= meta[CUT]:
        prices.lost[node] += prices.gain[cell, age]
        return PASS
    prices.lost[node] += prices.value[bucket, age]
    sketch.unlived[node] += ways_of(left, node, sketch)
    meta[SHED] += 1
    return DROP


@inlined
def has_room(
    run: int, most: int, patterns: int, arena: Arena, found: Found, meta: NDArray[np.int64]
) -> bool:
    """Whether all that a visit may write fits."""
    size = 2 + (arena.length[run] if run >= 0 else 0)
    return (
        meta[RECORDS] + most + 2 < arena.length.shape[0]
        and meta[CHAINS] + most + 2 < found.chain_end.shape[0]
        and meta[WRITTEN] + (most + 2) * size < found.label.shape[0]
        and meta[ENTRIES] + (most + 2) * patterns < found.pattern.shape[0]
    )
