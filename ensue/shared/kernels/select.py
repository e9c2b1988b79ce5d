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

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating, inner_inlined
from ensue.kernels.copies import copy_row
from ensue.shared import constants as chosen
from ensue.shared.kernels import layout as at
from ensue.shared.kernels.arena import any_bit, close, has, meets
from ensue.shared.kernels.layout import Arena, Handed, Lists, Parts, Rows, Sketch
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

LOOKED_AT, LAST_CUT = LEVELS, LEVELS + 1  # behind the visits by level
_LEAST_QUALITY = 2.0 ** ((np.arange(LEVELS) - MIDDLE) / 8.0)  # by level
_LEAST_QUALITY[:2] = -np.inf, np.nextafter(0.0, 1.0)
_LEAST_QUALITY[-1] = np.inf  # no quality is enough


@inner_inlined
def age_of(first: int, row: int, rows: Rows) -> float:
    """The share of the longest window that has passed since the first event."""
    return min(1.0, (rows.position[row] - rows.position[first]) / rows.size)


@inner_inlined
def left_of(run: int, row: int, rows: Rows, arena: Arena) -> float:
    """The share of the longest window that a partial match still has."""
    return max(1.0 - age_of(arena.first[run], row, rows), chosen.LEAST_LIFE)


@inner_inlined
def least_of(cut: int) -> float:
    """The least quality at the level of the cut: that of most births is only compared with it."""
    return float(_LEAST_QUALITY[cut])


@inner_inlined
def worth_of(node: int, bucket: int, patterns: NDArray[np.uint64], sketch: Sketch) -> float:
    """Expected weighted matches of the overloaded patterns, per way to take the events to come."""
    columns = sketch.weights.shape[0]
    total = 0.0
    for word in range(patterns.shape[0]):
        left = patterns[word] & sketch.overloaded[word]
        pattern = word << 6
        while left != 0:
            if left & np.uint64(1):
                column = column_of(pattern, columns)
                total += sketch.weights[column] * rate_of(bucket, node, column, sketch)
            left >>= np.uint64(1)
            pattern += 1
    return total


@inner_inlined
def quality_of(
    node: int,
    worth: float,
    ways: float,
    left: float,
    sketch: Sketch,
    knobs: NDArray[np.float64],
) -> float:
    """Expected matches, per overhead where asked for so.

    `left` is what is left of the window: the own work shrinks with it, matches with a power.
    """
    total = worth * ways
    if knobs[at.BY_RATIO] != 0.0:
        total /= sketch.theta[node] * left
    return total


@inner_inlined
def record_shed(
    node: int,
    bucket: int,
    before: NDArray[np.uint64],
    after: NDArray[np.uint64],
    ways: float,
    sketch: Sketch,
    meta: NDArray[np.int64],
) -> bool:
    """What shedding gave up, as a multiple of what a partial match of the node is worth.

    Whether nothing is left of it is returned.
    """
    columns = sketch.weights.shape[0]
    meta[at.SHED] += 1
    gone = False
    for word in range(before.shape[0]):
        left = before[word] & ~after[word]
        pattern = word << 6
        while left != 0:
            if left & np.uint64(1):
                gone = True
                column = column_of(pattern, columns)
                sketch.lost[node, column] += ways * relative_of(bucket, node, column, sketch)
                sketch.mass[bucket, column] += ways
            left >>= np.uint64(1)
            pattern += 1
    return gone and not any_bit(after)


@inner_inlined
def overload(overloaded: NDArray[np.uint64], every: bool) -> None:
    """Every pattern is above its bound, or none."""
    for word in range(overloaded.shape[0]):
        overloaded[word] = ~np.uint64(0) if every else np.uint64(0)


@inner_inlined
def room_now(given: Handed, careful: float, spread: float) -> float:
    """Work that the next rows may need each, so that the moving average keeps to the bound."""
    recent, meta, limit = given.lists.recent, given.meta, given.knobs[at.LIMIT_WORK]
    if limit < np.inf:
        spare = limit * min(meta[at.TICK], recent.shape[0]) - meta[at.WINDOWED]
        limit = min(
            max(careful * limit + spare / spread, chosen.LEAST * limit), chosen.GREATEST * limit
        )
    return float(limit)


@inner_inlined
def set_price(given: Handed) -> None:
    """The cut at which the visits of the last rows would have kept to the bound.

    It follows slowly, since a price that swings with every burst pays too much in one stretch and
    too little in the next; where the moving average is nearly at the bound, it rises at once.
    """
    levels, meta = given.prices.levels, given.meta
    limit = room_now(given, chosen.STEADY, chosen.SLOWLY)
    levels[LOOKED_AT] = chosen.FORGET * levels[LOOKED_AT] + chosen.CHECK_EVERY
    work, cut = 0.0, 0
    for down in range(LEVELS):
        level = LEVELS - 1 - down
        work += levels[level]
        levels[level] *= chosen.FORGET
        if cut == 0 and work > limit * levels[LOOKED_AT]:
            cut = min(level + 1, LEVELS - 1)
    cut = max(cut, int(levels[LAST_CUT]) - chosen.FALL)
    levels[LAST_CUT] = cut
    averaged = max(min(meta[at.TICK], given.lists.recent.shape[0]), 1)
    used = meta[at.WINDOWED] / (given.knobs[at.BOUND] * averaged)
    meta[at.CUT] = 0
    if cut > 0:
        meta[at.CUT] = min(cut + int(max(0.0, used - chosen.NEARLY) * chosen.STEEP), LEVELS - 1)
    overload(given.sketch.overloaded, meta[at.CUT] > 0)


@inner_allocating
def fade(sketch: Sketch, left: float) -> None:
    """What was learned counts for less; where there is too little to forget, it stays."""
    seen, completed, flow = sketch.bucket_seen, sketch.completed, sketch.flow
    node_seen, node_completed = sketch.node_seen, sketch.node_completed
    direct, unlived = sketch.direct, sketch.unlived
    for bucket in range(seen.shape[0]):
        if seen[bucket] < 1.0:
            continue
        seen[bucket] *= left
        for column in range(completed.shape[1]):
            completed[bucket, column] *= left
    for node in range(node_seen.shape[0]):
        if node_seen[node] < 5.0:
            continue
        node_seen[node] *= left
        unlived[node] *= left
        for column in range(node_completed.shape[1]):
            node_completed[node, column] *= left
            direct[node, column] *= left
        if node < flow.shape[0]:
            for child in range(flow.shape[1]):
                flow[node, child] *= left


@inner_allocating
def check_load(row: int, given: Handed) -> None:
    """The overload detector, called every few rows: the expected work against the bounds."""
    sketch, meta, knobs = given.sketch, given.meta, given.knobs
    meta[at.AGED] += chosen.CHECK_EVERY
    if knobs[at.FADE_EVERY] > 0 and meta[at.AGED] >= knobs[at.FADE_EVERY]:
        meta[at.AGED] = 0
        fade_prices(given.prices)
        fade(sketch, knobs[at.FADE])
    count = given.lists.waiting
    if knobs[at.PRICED] != 0.0:
        set_price(given)
        return
    node_rate, limits, overloaded = sketch.rate, sketch.limits, sketch.overloaded
    load = 0.0
    single = limits.shape[0] > 0
    loads = np.zeros(limits.shape[0], np.float64)
    for node in range(count.shape[0]):
        if count[node] <= 0.0:
            continue
        part = count[node] * node_rate[node]
        load += part
        if single:
            for pattern in range(limits.shape[0]):
                if limits[pattern] < np.inf and has(given.steps.node_bits[node], pattern):
                    loads[pattern] += part
    # The moving average may be used up: what the last rows left over is there for the next ones.
    limit = room_now(given, chosen.CAREFUL, chosen.SPREAD)
    over = load > limit or meta[at.RECORDS] > knobs[at.LIMIT_RECORDS]
    full = (
        load > chosen.FREE_AGAIN * limit
        or meta[at.RECORDS] > chosen.FREE_AGAIN * knobs[at.LIMIT_RECORDS]
    )
    everyone = over
    if over or (full and not single):
        overload(overloaded, True)
    if single and not everyone:
        tight = False
        for pattern in range(limits.shape[0]):
            bit = np.uint64(1) << np.uint64(pattern & 63)
            if loads[pattern] > limits[pattern]:
                over = True
                overloaded[pattern >> 6] |= bit
            elif loads[pattern] < chosen.FREE_AGAIN * limits[pattern] and meta[at.CUT] <= 1:
                overloaded[pattern >> 6] &= ~bit
            if loads[pattern] > chosen.FREE_AGAIN * limits[pattern]:
                tight = True
        full = full or tight
    if (
        over
        and everyone
        and meta[at.CUT] > 0
        and load < chosen.FAR_OVER * limit
        and (meta[at.RECORDS] <= knobs[at.LIMIT_RECORDS])
    ):
        meta[at.CUT] = min(meta[at.CUT] + 2, LEVELS - 2)
    elif over:
        select(row, limit, everyone, given)
    elif not full and meta[at.CUT] > 0:
        # The further below the bound, the faster new partial matches are let in again.
        used = max(load / limit, meta[at.RECORDS] / knobs[at.LIMIT_RECORDS])
        if used < 0.5 and not single:
            meta[at.CUT] = 0
        else:
            meta[at.CUT] = max(0, meta[at.CUT] - (8 if used < 0.8 else 2))
        if meta[at.CUT] == 0:
            overload(overloaded, False)
    # Where windows are shorter than the time between checks, or all is of the same quality, no cut
    # tells births apart: above the bound itself none is let in until the next check.
    used_up = meta[at.WINDOWED] > knobs[at.BOUND] * min(meta[at.TICK], given.lists.recent.shape[0])
    if used_up and knobs[at.LIMIT_WORK] < np.inf and sketch.priority.shape[0] == 0:
        meta[at.CUT] = LEVELS - 1
        overload(overloaded, True)


@inner_allocating
def rank(row: int, given: Handed) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Open partial matches by falling quality, and the level of each."""
    arena, sketch, meta = given.arena, given.sketch, given.meta
    following, bits, bucket = arena.following, arena.bits, arena.bucket
    head, nodes, priority = given.lists.head, given.lists.waiting.shape[0], sketch.priority
    found = np.empty(meta[at.OPEN], np.int32)
    levels = np.zeros(meta[at.OPEN], np.int32)
    sizes = np.zeros(LEVELS + 1, np.int64)
    count = 0
    for slot in range(head.shape[0]):
        run, node = head[slot], slot % nodes
        while run >= 0:
            level = LEVELS - 1
            if meets(bits[run], sketch.overloaded):
                if node < priority.shape[0]:
                    level = level_of(priority[node, run % priority.shape[1]])
                else:
                    left = left_of(run, row, given.rows, arena)
                    worth = worth_of(node, bucket[run], bits[run], sketch)
                    ways = ways_of(left, node, sketch)
                    quality = quality_of(node, worth, ways, left, sketch, given.knobs)
                    level = min(level_of(quality), LEVELS - 2)
            found[count], levels[count] = run, level
            sizes[LEVELS - 1 - level + 1] += 1
            count += 1
            run = following[run]
    for level in range(LEVELS):
        sizes[level + 1] += sizes[level]
    ranked, level_at = np.empty(count, np.int32), np.empty(count, np.int32)
    for index in range(count):
        place = LEVELS - 1 - levels[index]
        ranked[sizes[place]], level_at[sizes[place]] = found[index], levels[index]
        sizes[place] += 1
    return ranked, level_at


@inner_allocating
def select(row: int, limit: float, everyone: bool, given: Handed) -> None:
    """Algorithm 4: by falling quality, until the bound of Equation 3 is used up."""
    arena, sketch, meta = given.arena, given.sketch, given.meta
    node, first, bits, bucket = arena.node, arena.first, arena.bits, arena.bucket
    part, weight = given.parts.part, given.parts.weight
    overloaded, node_rate, limits = sketch.overloaded, sketch.rate, sketch.limits
    meta[at.SELECTIONS] += 1
    meta[at.SELECT_WORK] += meta[at.OPEN]
    ranked, levels = rank(row, given)
    room_work = chosen.ROOM * limit
    room_records = chosen.ROOM * given.knobs[at.LIMIT_RECORDS]
    used_work, used_records = 0.0, 0.0
    used = np.zeros(limits.shape[0], np.float64)
    kept = np.empty(bits.shape[1], np.uint64)
    cut = 0
    for index in range(ranked.shape[0]):
        run = ranked[index]
        cost = weight[part[first[run]]] * node_rate[node[run]]
        copy_row(bits[run], kept)
        if meets(kept, overloaded):
            if everyone:
                if used_work + cost > room_work or used_records + 1.0 > room_records:
                    for word in range(kept.shape[0]):
                        kept[word] &= ~overloaded[word]
            else:
                for pattern in range(limits.shape[0]):
                    if not has(overloaded, pattern) or not has(kept, pattern):
                        continue
                    if used[pattern] + cost > chosen.ROOM * limits[pattern]:
                        kept[pattern >> 6] &= ~(np.uint64(1) << np.uint64(pattern & 63))
            lost = False
            for word in range(kept.shape[0]):
                if kept[word] != bits[run, word]:
                    lost = True
            if lost:
                cut = max(cut, levels[index])
                ways = ways_of(left_of(run, row, given.rows, arena), node[run], sketch)
                if record_shed(node[run], bucket[run], bits[run], kept, ways, sketch, meta):
                    sketch.unlived[node[run]] += ways
                copy_row(kept, bits[run])
        if any_bit(kept):
            used_work += cost
            used_records += 1.0
            for pattern in range(used.shape[0]):
                if has(kept, pattern):
                    used[pattern] += cost
    meta[at.CUT] = cut if sketch.priority.shape[0] == 0 else 0
    drop_empty(given.parts, arena, given.lists, meta)


@inner_inlined
def drop_empty(parts: Parts, arena: Arena, lists: Lists, meta: NDArray[np.int64]) -> None:
    """Partial matches that no pattern keeps leave their lists."""
    nodes = lists.waiting.shape[0]
    for slot in range(lists.head.shape[0]):
        run, before = lists.head[slot], -1
        while run >= 0:
            after = arena.following[run]
            if any_bit(arena.bits[run]):
                before = run
            else:
                weight = parts.weight[parts.part[arena.first[run]]]
                close(run, before, slot, slot % nodes, weight, arena, lists, meta)
            run = after
