"""What a visit is worth at a price of work: an index by partial match and event (SHARP §4.2).

Work has a price: so many matches per visit. A *cell* is a bucket of partial matches together with a
class of events (binned values that conditions read). A visit gains the matches that it completes,
and what the partial matches that it creates are worth; a partial match is worth the visits to come,
as many as its time left allows, each less the price and only where it gains more than that. Solved
from the last events of the patterns to the first, for falling prices. The *index* of a cell is the
highest price at which a visit still pays: whatever is above the present price is visited, so that
choosing needs one look-up, and the price follows the load. What is worth little because all that
follows from it would be left out is left out too.

Counted are visits, what they completed and created, all growing by `scale`, so that older counts
weigh less; of what they created a sample per node is kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import allocating, borrowing, inner_inlined
from ensue.shared.constants import GROWTH, PRICE_PRIOR, STEP
from ensue.shared.kernels.layout import Prices
from ensue.shared.kernels.sketch import LEVELS, level_of

BUCKET, CELL = 0, 1  # columns of `first`
CELLS = 1 << 16
AGES = 8
CLASSES = 1024  # of events, over all kinds
PRICES = 20


@borrowing
def cell_of(node: int, bucket: int, event: int, prices: Prices) -> int:
    """Numbers without holes, so that cells fall together only where there are too many of them."""
    # Both sizes are powers of two.
    inside = (bucket - prices.first[node, BUCKET]) & (prices.owner.shape[0] - 1)
    found = prices.first[node, CELL] + inside * prices.width[node] + prices.slot[node, event]
    return int(found & (prices.asked.shape[0] - 1))


@borrowing
def age_bin(left: float) -> int:
    return min(max(int(left * AGES), 0), AGES - 1)


@inner_inlined
def note_created(
    cell: int, node: int, child: int, child_node: int, draw: float, prices: Prices
) -> None:
    """A partial match of the bucket `child` came of a visit (`cell` -1: of a first event)."""
    scale = prices.scale[0]
    prices.owner[child] = child_node
    prices.born[child] += scale
    if cell < 0:
        return
    prices.taken[cell] += scale
    size = prices.log_cell.shape[1]
    slot = int(prices.logged[node])
    prices.logged[node] += 1.0
    if slot >= size:
        slot = int(draw * prices.logged[node])
    if slot < size:
        prices.log_cell[node, slot] = cell
        prices.log_child[node, slot] = child


@inner_inlined
def fade_prices(prices: Prices) -> None:
    """What is counted from now on weighs more."""
    prices.scale[0] *= GROWTH
    logged, size = prices.logged, prices.log_cell.shape[1]
    for node in range(logged.shape[0]):
        if logged[node] > size:
            logged[node] = max(logged[node] / GROWTH, float(size))


@allocating
def solve(
    order: NDArray[np.int64],
    meets: NDArray[np.float64],
    top: float,
    rounds: int,
    prices: Prices,
) -> None:
    """Index, best index of a bucket, and gains and values at no price, from what was counted.

    `order` are nodes, those nearest to a match first; `meets` the visits of a partial match per
    bin of age; loops take more `rounds` than one.
    """
    asked, taken, done, distinct = prices.asked, prices.taken, prices.done, prices.distinct
    owner, born, waited = prices.owner, prices.born, prices.waited
    visits, leaving = prices.visits, prices.leaving
    log_cell, log_child, logged = prices.log_cell, prices.log_child, prices.logged
    events, index, best = prices.events, prices.pays, prices.best
    free_gain, free_value = prices.gain, prices.value
    scale = prices.scale[0]
    buckets, size = owner.shape[0], log_cell.shape[1]
    count = np.zeros(order.shape[0] + 1, np.int64)
    for bucket in range(buckets):
        if owner[bucket] >= 0 and born[bucket] > 0:
            count[owner[bucket] + 1] += 1
    for node in range(order.shape[0]):
        count[node + 1] += count[node]
    members = np.empty(count[-1], np.int64)
    place = count.copy()
    for bucket in range(buckets):
        if owner[bucket] >= 0 and born[bucket] > 0:
            members[place[owner[bucket]]] = bucket
            place[owner[bucket]] += 1
    value = np.zeros((buckets, AGES))
    sums, totals = np.zeros((CELLS, AGES)), np.zeros((CELLS, AGES))
    entries = np.zeros(CELLS)
    before = np.zeros((CELLS, AGES), np.float32)
    open_still = np.ones((CELLS, AGES), np.bool_)
    listed = np.empty(events.shape[1], np.int64)
    by_class = np.zeros((events.shape[1], AGES))
    class_asked, class_distinct = np.zeros(events.shape[1]), np.zeros(events.shape[1])
    by_bucket, whole, mean = np.zeros(AGES), np.zeros(AGES), np.zeros(AGES)
    # What was never seen is tried.
    index[:] = LEVELS - 1
    best[:] = LEVELS - 1
    for place_ in range(members.shape[0]):
        best[members[place_]] = 0
    last = 0.0
    for number in range(PRICES + 1):
        cost = 0.0 if number == 0 else top * 2.0 ** (-STEP * (PRICES - number))
        for round_ in range(rounds):
            for step in range(order.shape[0]):
                node = order[step]
                if count[node + 1] == count[node]:
                    continue
                filled = min(int(logged[node]), size)
                for entry in range(filled):
                    cell = log_cell[node, entry]
                    child = log_child[node, entry]
                    entries[cell] += 1.0
                    for age in range(AGES):
                        sums[cell, age] += value[child, age]
                classes, frequency = 0, 0.0
                for event in range(events.shape[1]):
                    if events[node, event] > 0:
                        listed[classes] = event
                        classes += 1
                        frequency += events[node, event]
                mean[:] = 0.0
                known = 0.0
                for entry in range(filled):
                    child = log_child[node, entry]
                    for age in range(AGES):
                        mean[age] += value[child, age] / filled
                for at in range(classes):
                    by_class[at] = 0.0
                    class_asked[at] = class_distinct[at] = 0.0
                whole[:] = 0.0
                for position in range(count[node], count[node + 1]):
                    bucket = members[position]
                    for at in range(classes):
                        cell = cell_of(node, bucket, listed[at], prices)
                        if asked[cell] <= 0:
                            continue
                        known += asked[cell]
                        class_asked[at] += asked[cell]
                        class_distinct[at] += distinct[cell]
                        for age in range(AGES):
                            child_mean = mean[age]
                            if entries[cell] > 0:
                                child_mean = sums[cell, age] / entries[cell]
                            total = done[cell] + taken[cell] * child_mean
                            totals[cell, age] = total
                            by_class[at, age] += total
                            whole[age] += total
                if known > 0:
                    for age in range(AGES):
                        whole[age] /= known
                weight = PRICE_PRIOR * scale
                for at in range(classes):
                    for age in range(AGES):
                        own = class_distinct[at]
                        found = by_class[at, age] / class_asked[at] if own > 0 else 0.0
                        by_class[at, age] = (own * found + weight * whole[age]) / (own + weight)
                for position in range(count[node], count[node + 1]):
                    bucket = members[position]
                    bucket_asked, bucket_distinct = 0.0, 0.0
                    by_bucket[:] = 0.0
                    for at in range(classes):
                        cell = cell_of(node, bucket, listed[at], prices)
                        if asked[cell] > 0:
                            bucket_asked += asked[cell]
                            bucket_distinct += distinct[cell]
                            for age in range(AGES):
                                by_bucket[age] += totals[cell, age]
                    for age in range(AGES):
                        own = bucket_distinct
                        found = by_bucket[age] / bucket_asked if own > 0 else 0.0
                        by_bucket[age] = (own * found + weight * whole[age]) / (own + weight)
                    stay = 1.0 - min(1.0, leaving[bucket] / max(visits[bucket], scale))
                    often = meets[node]
                    rest = 0.0
                    end = waited[bucket] / max(born[bucket], scale)
                    for age in range(AGES):
                        now = 0.0
                        for at in range(classes):
                            cell = cell_of(node, bucket, listed[at], prices)
                            prior = 0.0
                            if whole[age] > 0:
                                prior = by_bucket[age] * by_class[at, age] / whole[age]
                            own = distinct[cell]
                            found = totals[cell, age] / asked[cell] if own > 0 else 0.0
                            gain = (own * found + weight * prior) / (own + weight)
                            more = gain - cost
                            if more > 0:
                                now += events[node, listed[at]] / frequency * more
                            if round_ < rounds - 1:
                                continue
                            if number == 0:
                                # Of what is lost much lies where a class never fits a bucket.
                                free_gain[cell, age] = found if own >= weight else gain
                            if not open_still[cell, age]:
                                continue
                            if more > 0:
                                before[cell, age] = more
                                if number == PRICES:
                                    index[cell, age] = level_of(cost)
                            else:
                                open_still[cell, age] = False
                                had = before[cell, age]
                                paid = 0.0
                                if had > 0:
                                    paid = last + (cost - last) * had / (had - more)
                                index[cell, age] = level_of(paid)
                            if not open_still[cell, age] or number == PRICES:
                                best[bucket, age] = max(best[bucket, age], index[cell, age])
                        half, full = 0.5 * often, often
                        staying = 1.0
                        if stay < 0.999:
                            staying = stay**often
                            half = (1.0 - stay ** (0.5 * often)) / (1.0 - stay)
                            full = (1.0 - staying) / (1.0 - stay)
                        after = staying if stay >= 0.999 else stay ** (0.5 * often)
                        value[bucket, age] = half * now + after * rest + end
                        rest = full * now + staying * rest
                        if number == 0:
                            free_value[bucket, age] = value[bucket, age]
                        if end > cost:
                            best[bucket, age] = max(best[bucket, age], level_of(end))
                for entry in range(filled):
                    cell = log_cell[node, entry]
                    entries[cell] = 0.0
                    for age in range(AGES):
                        sums[cell, age] = 0.0
        last = cost
