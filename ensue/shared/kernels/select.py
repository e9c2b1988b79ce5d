"""Which partial matches are kept when a bound is exceeded (SHARP §4.3, Algorithm 4, Equation 3).

The expected work of the next event is the sum, over open partial matches, of how often an event
concerns their node. Where it exceeds a bound, partial matches are taken in order of their quality
until the bound is used up; the others lose the bits of the overloaded patterns, and are dropped
once no bit is left, so that patterns within their bounds lose nothing (sharing by view).

Quality depends on bucket and node only, and is one of `LEVELS` levels: partial matches are put in
order by counting, each in constant time, in place of a heap per cluster. Between selections the
level at which the last one stopped (the cut) decides about new partial matches at once; it falls
while there is room and is set anew by the next selection.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import allocating, inlined
from ensue.shared.kernels.arena import (
    AGED,
    CUT,
    OPEN,
    RECORDS,
    SELECT_WORK,
    SELECTIONS,
    SHED,
    TICK,
    WINDOWED,
    any_bit,
    close,
    has,
    meets,
    next_random,
)
from ensue.shared.kernels.price import fade_prices
from ensue.shared.kernels.sketch import (
    LEVELS,
    MIDDLE,
    column_of,
    level_of,
    rate_of,
    relative_of,
    ways_of,
)

# Knobs: what may be changed from outside while running.
LIMIT_WORK, LIMIT_RECORDS, BY_RATIO, LEARN, INSTANCE, CHECK = 0, 1, 2, 3, 4, 5
EXPLORE, STRATEGY, FADE_EVERY, FADE = 6, 7, 8, 9
# Work alone is bounded and the index of visits is known; the bound itself, without reserve.
PRICED, BOUND = 10, 11
COUNTED = 12  # visits are counted for the index
KNOBS = 16
QUALITY, RANDOM, SELECTIVITY = 0, 1, 2  # strategies; the last two are baselines
CHECK_EVERY = 16
LEAST_LIFE = 1e-3  # of a window: what is nearly over still costs a little
ROOM = 0.95  # a selection leaves this much of the bound used
FREE_AGAIN = 0.95
_LEAST_QUALITY = 2.0 ** ((np.arange(LEVELS) - MIDDLE) / 8.0)  # by level
_LEAST_QUALITY[:2] = -np.inf, np.nextafter(0.0, 1.0)
_LEAST_QUALITY[-1] = np.inf  # no quality is enough
FAR_OVER = 1.05  # up to here a higher cut is enough
AVERAGED, AHEAD = 1000, 50  # rows of the moving average, and those of them still to come
# What the last rows left of the bound is spent over so many rows; never less and never more than
# these parts of the bound, so that one tight stretch does not shed everything.
SPREAD, CAREFUL, LEAST, GREATEST = 300.0, 0.93, 0.5, 3.0
# Prices: what the last rows left is spent over so many rows; of the visits by level so much is left
# after each check; levels that the price may fall with each; above this share of the bound it rises
# by so many levels per bound (seeds 10 to 13, 15, 16).
STEADY, SLOWLY, FORGET, FALL, NEARLY, STEEP = 0.88, 500.0, 0.9, 3, 0.95, 60.0


@inlined
def age_of(first: int, row: int, rows_: Any) -> float:
    """The share of the longest window that has passed since the first event."""
    position, size = rows_[7], rows_[8]
    return min(1.0, (position[row] - position[first]) / size)


@inlined
def left_of(run: int, row: int, rows_: Any, arena: Any) -> float:
    """The share of the longest window that a partial match still has."""
    return max(1.0 - age_of(arena[4][run], row, rows_), LEAST_LIFE)


@inlined
def expired_bits(
    run: int,
    row: int,
    rows_: Any,
    arena: Any,
    mine: NDArray[np.uint64],
    some: NDArray[np.uint64],
    pending: NDArray[np.uint64],
) -> int:
    """Takes patterns whose window has ended out of `mine`.

    Those for which the partial match is thereby complete are in `some`, and the row that settled it
    is returned; -1 where there is none.
    """
    low, masks, end = rows_[1], rows_[2], rows_[6]
    first, node = arena[4], arena[0]
    settled = -1
    for word in range(some.shape[0]):
        some[word] = 0
    for window in range(low.shape[0]):
        ended = row >= end or low[window, row] > first[run]
        if not ended:
            continue
        for word in range(mine.shape[0]):
            gone = mine[word] & masks[window, word]
            some[word] |= gone & pending[node[run], word]
            mine[word] &= ~masks[window, word]
        if any_bit(some) and settled < 0:
            begin, stop = rows_[5], end
            while begin < stop:
                middle = (begin + stop) >> 1
                if low[window, middle] > first[run]:
                    stop = middle
                else:
                    begin = middle + 1
            settled = begin
    if row >= end:
        for word in range(mine.shape[0]):
            some[word] |= mine[word] & pending[node[run], word]
            mine[word] = 0
        if any_bit(some) and settled < 0:
            settled = end
    return settled if any_bit(some) else -1


@inlined
def least_of(cut: int) -> float:
    """The least quality at the level of the cut: that of most births is only compared with it."""
    return float(_LEAST_QUALITY[cut])


@inlined
def worth_of(node: int, bucket: int, patterns: NDArray[np.uint64], model: Any) -> float:
    """Expected weighted matches of the overloaded patterns, per way to take the events to come."""
    overloaded, weights = model[10], model[5]
    columns = weights.shape[0]
    total = 0.0
    for word in range(patterns.shape[0]):
        left = patterns[word] & overloaded[word]
        pattern = word << 6
        while left != 0:
            if left & np.uint64(1):
                column = column_of(pattern, columns)
                total += weights[column] * rate_of(bucket, node, column, model)
            left >>= np.uint64(1)
            pattern += 1
    return total


@inlined
def quality_of(
    node: int,
    worth: float,
    ways: float,
    left: float,
    model: Any,
    knobs: NDArray[np.float64],
) -> float:
    """Expected matches, per overhead where asked for so.

    `left` is what is left of the window: the own work shrinks with it, matches with a power.
    """
    total = worth * ways
    if knobs[BY_RATIO] != 0.0:
        total /= model[7][node] * left
    return total


@inlined
def record_shed(
    node: int,
    bucket: int,
    before: NDArray[np.uint64],
    after: NDArray[np.uint64],
    ways: float,
    model: Any,
    meta: NDArray[np.int64],
) -> bool:
    """What shedding gave up, as a multiple of what a partial match of the node is worth.

    Whether nothing is left of it is returned.
    """
    lost, mass, columns = model[8], model[11], model[5].shape[0]
    meta[SHED] += 1
    gone = False
    for word in range(before.shape[0]):
        left = before[word] & ~after[word]
        pattern = word << 6
        while left != 0:
            if left & np.uint64(1):
                gone = True
                column = column_of(pattern, columns)
                lost[node, column] += ways * relative_of(bucket, node, column, model)
                mass[bucket, column] += ways
            left >>= np.uint64(1)
            pattern += 1
    return gone and not any_bit(after)


@inlined
def room_now(
    recent: NDArray[np.int64], meta: NDArray[np.int64], knobs: NDArray[np.float64]
) -> float:
    """Work that the next rows may need each, so that the moving average keeps to the bound."""
    limit = knobs[LIMIT_WORK]
    if limit < np.inf:
        spare = limit * min(meta[TICK], recent.shape[0]) - meta[WINDOWED]
        limit = min(max(CAREFUL * limit + spare / SPREAD, LEAST * limit), GREATEST * limit)
    return float(limit)


@inlined
def set_price(
    recent: NDArray[np.int64], model: Any, meta: NDArray[np.int64], knobs: NDArray[np.float64]
) -> None:
    """The cut at which the visits of the last rows would have kept to the bound.

    It follows slowly, since a price that swings with every burst pays too much in one stretch and
    too little in the next; where the moving average is nearly at the bound, it rises at once.
    """
    levels, overloaded = model[16][16], model[10]
    limit = knobs[LIMIT_WORK]
    rows = min(meta[TICK], recent.shape[0])
    spare = limit * rows - meta[WINDOWED]
    limit = min(max(STEADY * limit + spare / SLOWLY, LEAST * limit), GREATEST * limit)
    levels[LEVELS] = FORGET * levels[LEVELS] + CHECK_EVERY
    work, cut = 0.0, 0
    for down in range(LEVELS):
        level = LEVELS - 1 - down
        work += levels[level]
        levels[level] *= FORGET
        if cut == 0 and work > limit * levels[LEVELS]:
            cut = min(level + 1, LEVELS - 1)
    cut = max(cut, int(levels[LEVELS + 1]) - FALL)
    levels[LEVELS + 1] = cut
    used = meta[WINDOWED] / (knobs[BOUND] * max(rows, 1))
    meta[CUT] = 0
    if cut > 0:
        meta[CUT] = min(cut + int(max(0.0, used - NEARLY) * STEEP), LEVELS - 1)
    for word in range(overloaded.shape[0]):
        overloaded[word] = ~np.uint64(0) if meta[CUT] > 0 else np.uint64(0)


@allocating
def check_load(
    row: int,
    rows_: Any,
    parts: Any,
    tables: Any,
    arena: Any,
    heads: Any,
    model: Any,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
) -> None:
    """The overload detector, called every few rows: the expected work against the bounds."""
    meta[AGED] += CHECK_EVERY
    if knobs[FADE_EVERY] > 0 and meta[AGED] >= knobs[FADE_EVERY]:
        meta[AGED] = 0
        fade_prices(model[16])
        fade = knobs[FADE]
        for index in range(model[0].shape[0]):
            if model[0][index] < 1.0:
                continue  # too little to forget: what is known of it stays
            model[0][index] *= fade
            for column in range(model[2].shape[1]):
                model[2][index, column] *= fade
        for index in range(model[3].shape[0]):
            if model[3][index] < 5.0:
                continue
            model[3][index] *= fade
            model[15][index] *= fade
            for column in range(model[4].shape[1]):
                model[4][index, column] *= fade
                model[14][index, column] *= fade
            if index < model[1].shape[0]:
                for child in range(model[1].shape[1]):
                    model[1][index, child] *= fade
    if knobs[PRICED] != 0.0:
        set_price(heads[2], model, meta, knobs)
        return
    count, recent = heads[1], heads[2]
    node_rate, limits, node_bits = model[6], model[12], tables[22]
    overloaded = model[10]
    load = 0.0
    single = limits.shape[0] > 0
    loads = np.zeros(limits.shape[0], np.float64)
    for at in range(count.shape[0]):
        if count[at] <= 0.0:
            continue
        part = count[at] * node_rate[at]
        load += part
        if single:
            for pattern in range(limits.shape[0]):
                if limits[pattern] < np.inf and has(node_bits[at], pattern):
                    loads[pattern] += part
    # The moving average may be used up: what the last rows left over is there for the next ones.
    limit = room_now(recent, meta, knobs)
    over = load > limit or meta[RECORDS] > knobs[LIMIT_RECORDS]
    full = load > FREE_AGAIN * limit or meta[RECORDS] > FREE_AGAIN * knobs[LIMIT_RECORDS]
    everyone = over
    if over or (full and not single):
        for word in range(overloaded.shape[0]):
            overloaded[word] = ~np.uint64(0)
    if single and not everyone:
        tight = False
        for pattern in range(limits.shape[0]):
            bit = np.uint64(1) << np.uint64(pattern & 63)
            if loads[pattern] > limits[pattern]:
                over = True
                overloaded[pattern >> 6] |= bit
            elif loads[pattern] < FREE_AGAIN * limits[pattern] and meta[CUT] <= 1:
                overloaded[pattern >> 6] &= ~bit
            if loads[pattern] > FREE_AGAIN * limits[pattern]:
                tight = True
        full = full or tight
    if (
        over
        and everyone
        and meta[CUT] > 0
        and load < FAR_OVER * limit
        and (meta[RECORDS] <= knobs[LIMIT_RECORDS])
    ):
        meta[CUT] = min(meta[CUT] + 2, LEVELS - 2)
    elif over:
        select(row, rows_, parts, arena, heads, limit, everyone, model, meta, knobs)
    elif not full and meta[CUT] > 0:
        # The further below the bound, the faster new partial matches are let in again.
        used = max(load / limit, meta[RECORDS] / knobs[LIMIT_RECORDS])
        if used < 0.5 and not single:
            meta[CUT] = 0
        else:
            meta[CUT] = max(0, meta[CUT] - (8 if used < 0.8 else 2))
        if meta[CUT] == 0:
            overloaded[:] = 0
    # Where windows are shorter than the time between checks, or all is of the same quality, no cut
    # tells births apart: above the bound itself none is let in until the next check.
    used_up = meta[WINDOWED] > knobs[BOUND] * min(meta[TICK], recent.shape[0])
    if used_up and knobs[LIMIT_WORK] < np.inf and knobs[STRATEGY] == QUALITY:
        meta[CUT] = LEVELS - 1
        for word in range(overloaded.shape[0]):
            overloaded[word] = ~np.uint64(0)


@allocating
def select(
    row: int,
    rows_: Any,
    parts: Any,
    arena: Any,
    heads: Any,
    limit: float,
    everyone: bool,
    model: Any,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
) -> None:
    """Algorithm 4: by falling quality, until the bound of Equation 3 is used up."""
    node, first, bits, following, bucket, length = (
        arena[0], arena[4], arena[5], arena[7], arena[8], arena[9],
    )  # fmt: skip
    head, nodes = heads[0], heads[1].shape[0]
    part, weight = parts[1], parts[3]
    overloaded, node_rate, limits = model[10], model[6], model[12]
    meta[SELECTIONS] += 1
    meta[SELECT_WORK] += meta[OPEN]
    ranked = np.empty(meta[OPEN], np.int32)
    levels = np.zeros(meta[OPEN], np.int32)
    sizes = np.zeros(LEVELS + 1, np.int64)
    found = 0
    for slot in range(head.shape[0]):
        run, at = head[slot], slot % nodes
        while run >= 0:
            level = LEVELS - 1
            if meets(bits[run], overloaded):
                if knobs[STRATEGY] == RANDOM:
                    level = 1 + int(next_random(meta) * (LEVELS - 2))
                elif knobs[STRATEGY] == SELECTIVITY:
                    level = level_of(1.0 / (1e-9 + node_rate[at]))
                else:
                    left = left_of(run, row, rows_, arena)
                    worth = worth_of(at, bucket[run], bits[run], model)
                    ways = ways_of(left, at, model)
                    quality = quality_of(at, worth, ways, left, model, knobs)
                    level = min(level_of(quality), LEVELS - 2)
            ranked[found], levels[found] = run, level
            sizes[LEVELS - 1 - level + 1] += 1
            found += 1
            run = following[run]
    for level in range(LEVELS):
        sizes[level + 1] += sizes[level]
    order = np.empty(found, np.int32)
    for index in range(found):
        place = LEVELS - 1 - levels[index]
        order[sizes[place]] = index
        sizes[place] += 1
    room_work = ROOM * limit
    room_records = ROOM * knobs[LIMIT_RECORDS]
    used_work, used_records = 0.0, 0.0
    used = np.zeros(limits.shape[0], np.float64)
    kept = np.empty(bits.shape[1], np.uint64)
    cut = 0
    for index in range(found):
        run = ranked[order[index]]
        cost = weight[part[first[run]]] * node_rate[node[run]]
        size = float(length[run]) if knobs[INSTANCE] != 0.0 else 1.0
        kept[:] = bits[run]
        if meets(kept, overloaded):
            if everyone:
                if used_work + cost > room_work or used_records + size > room_records:
                    for word in range(kept.shape[0]):
                        kept[word] &= ~overloaded[word]
            else:
                for pattern in range(limits.shape[0]):
                    if not has(overloaded, pattern) or not has(kept, pattern):
                        continue
                    if used[pattern] + cost > ROOM * limits[pattern]:
                        kept[pattern >> 6] &= ~(np.uint64(1) << np.uint64(pattern & 63))
                        if knobs[INSTANCE] != 0.0:
                            kept[:] = 0
            lost = False
            for word in range(kept.shape[0]):
                if kept[word] != bits[run, word]:
                    lost = True
            if lost:
                cut = max(cut, levels[order[index]])
                ways = ways_of(left_of(run, row, rows_, arena), node[run], model)
                if record_shed(node[run], bucket[run], bits[run], kept, ways, model, meta):
                    model[15][node[run]] += ways
                bits[run, :] = kept
        if any_bit(kept):
            used_work += cost
            used_records += size
            for pattern in range(used.shape[0]):
                if has(kept, pattern):
                    used[pattern] += cost
    meta[CUT] = cut if knobs[STRATEGY] == QUALITY else 0
    for slot in range(head.shape[0]):
        run, before = head[slot], -1
        while run >= 0:
            after = following[run]
            if any_bit(bits[run]):
                before = run
            else:
                close(run, before, slot, slot % nodes, weight[part[first[run]]], arena, heads, meta)
            run = after
