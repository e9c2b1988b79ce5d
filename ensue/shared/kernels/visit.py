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
from ensue.kernels.calls import inner, inner_inlined
from ensue.shared.constants import LEAST_LIFE, PATIENCE
from ensue.shared.kernels import layout as at
from ensue.shared.kernels.arena import allocate, any_bit, meets, next_random, write
from ensue.shared.kernels.layout import Arena, Found, Guards, Handed, Prices, Rows, Scratch, Sketch
from ensue.shared.kernels.price import age_bin, cell_of, note_created
from ensue.shared.kernels.select import age_of, least_of, quality_of, record_shed
from ensue.shared.kernels.sketch import bucket_of, column_of, credit, ways_of

# What becomes of a partial match that an event concerns; `VISIT`: that has to be asked.
VISIT, WAITS_ON, CLOSED, TOO_LARGE, BY_ZERO = 2, 1, 0, -1, -2


@inner_inlined
def common(target: NDArray[np.uint64], left: NDArray[np.uint64], right: NDArray[np.uint64]) -> bool:
    """The patterns of both, into `target`; whether there are any."""
    found = np.uint64(0)
    for word in range(target.shape[0]):
        target[word] = left[word] & right[word]
        found |= target[word]
    return found != 0


@inner_inlined
def expired_bits(
    run: int,
    row: int,
    rows: Rows,
    arena: Arena,
    mine: NDArray[np.uint64],
    some: NDArray[np.uint64],
    pending: NDArray[np.uint64],
    meta: NDArray[np.int64],
) -> int:
    """Takes patterns whose window has ended out of `mine`.

    Those for which the partial match is thereby complete are in `some`, and the row that settled it
    is returned; -1 where there is none.
    """
    low, masks, end = rows.low, rows.masks, meta[at.END]
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
            begin, stop = meta[at.BEGIN], end
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


@inner
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
    written = meta[at.WRITTEN]
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
    meta[at.WRITTEN] = written + size
    found.chain_end[meta[at.CHAINS]] = written + size
    found.settled[meta[at.CHAINS]] = settled
    columns = sketch.weights.shape[0]
    for word in range(patterns.shape[0]):
        left = patterns[word]
        pattern = word << 6
        while left != 0:
            while left & np.uint64(0xFF) == 0:
                left >>= np.uint64(8)
                pattern += 8
            if left & np.uint64(1):
                found.pattern[meta[at.ENTRIES]] = pattern
                found.chain[meta[at.ENTRIES]] = meta[at.CHAINS]
                meta[at.ENTRIES] += 1
                if learn and run >= 0:
                    column, node = column_of(pattern, columns), arena.node[run]
                    bucket = arena.bucket[run]
                    sketch.completed[bucket, column] += 1.0
                    sketch.direct[node, column] += 1.0
                    sketch.node_completed[node, column] += 1.0
                    if meta[at.CELL] >= 0:
                        prices.done[meta[at.CELL]] += prices.scale[0] * sketch.weights[column]
                    elif meta[at.CELL] > at.UNCOUNTED:
                        prices.waited[bucket] += prices.scale[0] * sketch.weights[column]
            left >>= np.uint64(1)
            pattern += 1
    meta[at.CHAINS] += 1


@inner_inlined
def _shed_at_birth(
    target: int, bucket: int, worth: float, ways: float, left: float, given: Handed
) -> bool:
    """Whether a new partial match is below the cut, and not kept to explore."""
    prices, meta, knobs = given.prices, given.meta, given.knobs
    if knobs[at.PRICED] != 0.0:
        low = int(prices.best[bucket, age_bin(left)]) < meta[at.CUT]
    else:
        low = quality_of(target, worth, ways, left, given.sketch, knobs) < least_of(meta[at.CUT])
    if not low or next_random(meta) < knobs[at.EXPLORE]:
        return False
    if knobs[at.PRICED] != 0.0:
        prices.lost[target] += prices.value[bucket, age_bin(left)]
    return True


@inner_inlined
def _add(
    target: int,
    run: int,
    label: int,
    row: int,
    begin: int,
    patterns: NDArray[np.uint64],
    given: Handed,
) -> None:
    """A new open partial match, unless it is shed at once (its quality is below the cut).

    It is `run` with the row as `label`, or, below 0, the same events; its registers are in the
    scratch.
    """
    arena, sketch, meta, scratch = given.arena, given.sketch, given.meta, given.scratch
    above, taken = run, row
    if label < 0:
        above, label, taken = arena.parent[run], arena.label[run], arena.row[run]
    bucket = 0
    meta[at.CREATED] += 1
    kept = patterns
    if given.knobs[at.LEARN] != 0.0:
        left = max(1.0 - age_of(begin, row, given.rows), LEAST_LIFE)
        bucket = bucket_of(target, row, given)
        ways = ways_of(left, target, sketch)
        above_bucket, above_node = -1, -1
        if above >= 0:
            above_bucket, above_node = arena.bucket[above], arena.node[above]
        worth = credit(above_bucket, above_node, bucket, target, ways, patterns, sketch)
        if meta[at.CELL] > at.UNCOUNTED:
            draw = next_random(meta)
            note_created(meta[at.CELL], meta[at.CELL_NODE], bucket, target, draw, given.prices)
        if (
            meta[at.CUT] > 0
            and meets(patterns, sketch.overloaded)
            and _shed_at_birth(target, bucket, worth, ways, left, given)
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
    arena.label[record], arena.row[record] = label, taken
    arena.first[record], arena.bucket[record] = begin, bucket
    arena.length[record] = 1 if above < 0 else arena.length[above] + 1
    arena.references[record] = 1
    if above >= 0:
        arena.references[above] += 1
    write(arena.bits[record], kept)
    write(arena.ints[record], scratch.ints)
    write(arena.floats[record], scratch.floats)
    arena.following[record] = meta[at.FRESH]
    meta[at.FRESH] = record


@inner_inlined
def _registers_at(
    run: int, label: int, row: int, guards: Guards, arena: Arena, scratch: Scratch
) -> bool:
    """The registers of a partial match once it has taken the row; False: a number is too large.

    Without a label it takes none.
    """
    if run >= 0:
        write(scratch.ints, arena.ints[run])
        write(scratch.floats, arena.floats[run])
    else:
        write(scratch.ints, guards.initial_ints)
        write(scratch.floats, guards.initial_floats)
    if label < 0:
        return True
    return update_registers(
        guards.updates, guards.applies[label], row, scratch.ints, scratch.floats, guards.ints,
        guards.floats, guards.int_nulls, guards.float_nulls,
    )  # fmt: skip


@inner_inlined
def _answers(run: int, row: int, begin: int, component: int, given: Handed) -> int:
    """Which guards of a component hold, as bits; below 0: one failed."""
    rows, steps, guards, arena, scratch = (
        given.rows,
        given.steps,
        given.guards,
        given.arena,
        given.scratch,
    )
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
                guards.code, guards.offset[atom], guards.offset[atom + 1], row, begin,
                given.meta[at.BEGIN], given.meta[at.END], 0, scratch.ints, scratch.floats,
                guards.ints, guards.floats, guards.int_nulls, guards.float_nulls,
                guards.int_constants, guards.float_constants, scratch.cell_ints,
                scratch.cell_floats, scratch.cell_nulls,
            )  # fmt: skip
            if verdict < 0:
                return TOO_LARGE if verdict == OVERFLOW else BY_ZERO
            holds = verdict == 1
        if holds:
            answers |= 1 << (place - first)
    return answers


@inner_inlined
def _counted(
    run: int, row: int, rows: Rows, arena: Arena, prices: Prices, meta: NDArray[np.int64]
) -> None:
    """The visit counts for the index of visits."""
    node, bucket, scale = arena.node[run], arena.bucket[run], prices.scale[0]
    cell = cell_of(node, bucket, rows.event_class[row], prices)
    meta[at.CELL], meta[at.CELL_NODE] = cell, node
    prices.asked[cell] += scale
    if prices.latest[cell] != row:
        prices.latest[cell] = row
        prices.distinct[cell] += scale
    prices.visits[bucket] += scale


@inner_inlined
def visit(run: int, row: int, components_begin: int, components_end: int, given: Handed) -> int:
    """What becomes of a partial match that is asked about a row. Run -1 is "no event yet"."""
    steps, arena, meta, scratch = given.steps, given.arena, given.meta, given.scratch
    found, sketch, prices = given.found, given.sketch, given.prices
    mine, some, left = scratch.mine, scratch.some, scratch.left
    learn = given.knobs[at.LEARN] != 0.0
    words = mine.shape[0]
    begin = row
    meta[at.CELL] = at.NO_CELL if given.knobs[at.COUNTED] != 0.0 else at.UNCOUNTED
    if run >= 0:
        begin = arena.first[run]
        write(mine, arena.bits[run])
        settled = expired_bits(run, row, given.rows, arena, mine, some, steps.pending, meta)
        if settled >= 0:
            emit(run, -1, row, settled, some, arena, found, sketch, prices, meta, learn)
        if not any_bit(mine):
            return CLOSED
        meta[at.WORK] += 1
        if meta[at.CELL] > at.UNCOUNTED:
            _counted(run, row, given.rows, arena, prices, meta)
    else:
        for word in range(words):
            mine[word] = ~np.uint64(0)
    write(left, mine)
    for component in range(components_begin, components_end):
        if not meets(mine, steps.component_mask[component]):
            continue
        answers = _answers(run, row, begin, component, given)
        if answers < 0:
            return answers
        outcome = steps.outcome[component] + answers
        for change in range(steps.change_offset[outcome], steps.change_offset[outcome + 1]):
            label, target = steps.change_label[change], steps.change_target[change]
            if label < 0 and run < 0:
                continue
            if common(some, mine, steps.change_accept[change]):
                emit(run, label, row, row, some, arena, found, sketch, prices, meta, learn)
            if target < 0 or not common(some, mine, steps.change_going[change]):
                continue
            if not _registers_at(run, label, row, given.guards, arena, scratch):
                return TOO_LARGE
            _add(target, run, label, row, begin, some, given)
        for word in range(words):
            left[word] &= ~(steps.component_mask[component, word] & ~steps.stay[outcome, word])
    if run < 0:
        return CLOSED
    write(arena.bits[run], left)
    if any_bit(left):
        return WAITS_ON
    if meta[at.CELL] > at.UNCOUNTED:
        prices.leaving[arena.bucket[run]] += prices.scale[0]
    return CLOSED


@inner_inlined
def passed(run: int, row: int, patient: bool, given: Handed) -> int:
    """Whether a visit is worth the price; if not, the partial match waits on or is given up.

    Where a visit may do more than take the event (end the partial match, move it), it cannot be
    left out without the partial match.
    """
    rows, arena, prices, meta = given.rows, given.arena, given.prices, given.meta
    left = 1.0 - (rows.position[row] - rows.position[arena.first[run]]) / rows.size
    if left < 0.0:
        return VISIT
    age, bucket, node = age_bin(left), arena.bucket[run], arena.node[run]
    cell = cell_of(node, bucket, rows.event_class[row], prices)
    level = int(prices.pays[cell, age])
    prices.levels[level] += 1.0
    if level >= meta[at.CUT] or next_random(meta) < given.knobs[at.EXPLORE]:
        return VISIT
    if patient and int(prices.best[bucket, age]) + PATIENCE >= meta[at.CUT]:
        prices.lost[node] += prices.gain[cell, age]
        return WAITS_ON
    prices.lost[node] += prices.value[bucket, age]
    given.sketch.unlived[node] += ways_of(left, node, given.sketch)
    meta[at.SHED] += 1
    return CLOSED


@inner_inlined
def has_room(
    run: int, most: int, patterns: int, arena: Arena, found: Found, meta: NDArray[np.int64]
) -> bool:
    """Whether all that a visit may write fits."""
    size = 2 + (arena.length[run] if run >= 0 else 0)
    return (
        meta[at.RECORDS] + most + 2 < arena.length.shape[0]
        and meta[at.CHAINS] + most + 2 < found.chain_end.shape[0]
        and meta[at.WRITTEN] + (most + 2) * size < found.label.shape[0]
        and meta[at.ENTRIES] + (most + 2) * patterns < found.pattern.shape[0]
    )
