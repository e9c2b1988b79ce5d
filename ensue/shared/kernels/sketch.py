"""The historical data sketch and what it says of a partial match (SHARP §4.2, Algorithm 3).

A *bucket* stands for partial matches of one node whose attributes agree after binning: what the
conditions ahead read of the events taken so far. Per bucket it counts the partial matches seen (pn,
each by the ways that its time left gives it) and the complete matches per pattern (cn_i). Both
fade, so that the estimates follow the data.

A match is credited step by step: to the partial match that it completes, and a new partial match is
credited, with what its own bucket is worth, to the one it extends. So what is shed later takes
nothing from the worth of what came before it; with cn_i counted over whole prefixes, as Algorithm 3
writes it, patterns whose last steps are shed once look worthless for good. A partial match that is
shed at birth had no chance, so its share of pn is taken back. Credit reaches the first steps late;
so the mean of each node is solved by the controller, and a bucket says how it differs from it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.guards.machine import run_guard
from ensue.kernels.calls import borrowing, inner_inlined
from ensue.shared.constants import SKETCH_PRIOR
from ensue.shared.kernels import layout as at
from ensue.shared.kernels.layout import Handed, Sketch

LEVELS = 256  # quality on a logarithmic scale, eight levels to a factor of two
MIDDLE = 200
EDGES = 63
SAMPLE = 512
REMEMBERED = 4096  # buckets, by the registers that they are computed from
VALUE, NOTED = 0, 1  # columns of `latest`: the last value, and how many went into the sample
NOTED_BITS = 6  # of 2 ** 6 births, one tells the sample of values
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


@borrowing
def level_of(quality: float) -> int:
    """The level of a quality; 0 only for nothing at all."""
    if quality <= 0.0:
        return 0
    found = int(np.floor(np.log2(quality) * 8.0)) + MIDDLE
    return min(max(found, 1), LEVELS - 1)


@inner_inlined
def bin_of(value: float, edges: NDArray[np.float64], bins: int) -> int:
    """The bin of a value between `EDGES` = 2 ** 6 - 1 edges, in six steps that branch nowhere."""
    low, step = 0, 32
    while step > 0:
        low += step if edges[low + step - 1] < value else 0
        step >>= 1
    return low * bins // (EDGES + 1)


@inner_inlined
def bucket_of(node: int, row: int, given: Handed) -> int:
    """hash(<d_1.A, ..., d_j.A>) of a partial match that waits at `node` since `row`.

    Numbers without holes, so that buckets fall together only where there are too many of them.
    Attributes are computed from a few registers, and an event extends many partial matches whose
    registers are the same (they are in the scratch): buckets are remembered by them. Of births, one
    in 2 ** `NOTED_BITS` tells the sample of values.
    """
    features, guards, scratch, meta = given.features, given.guards, given.scratch, given.meta
    ints, floats, number = scratch.ints, scratch.floats, meta[at.CREATED]
    first, last = meta[at.BEGIN], meta[at.END]
    offset, chosen, read = features.offset, features.chosen, features.read
    seen, latest, bins = features.seen, features.latest, features.bins[node]
    key = np.uint64(node) * _FIRST_FACTOR
    for place in range(features.read_offset[node], features.read_offset[node + 1]):
        key = (key ^ np.uint64(ints[read[place]])) * _SECOND_FACTOR
        key ^= key >> np.uint64(31)
    slot = np.int64(key & np.uint64(REMEMBERED - 1))
    begins = offset[node]
    early = begins < offset[node + 1] and seen[chosen[begins]] < SAMPLE
    noted = early or (np.uint64(number) * _FIRST_FACTOR) >> np.uint64(64 - NOTED_BITS) == 0
    if features.known[slot] == key and features.memorable[node] and not noted:
        return int(features.remembered[slot])
    mixed = 0
    for place in range(begins, offset[node + 1]):
        feature = chosen[place]
        run_guard(
            features.code, features.begin[feature], features.end[feature], row, first, first, last,
            0, ints, floats, guards.ints, guards.floats, guards.int_nulls, guards.float_nulls,
            guards.int_constants, guards.float_constants, scratch.cell_ints, scratch.cell_floats,
            scratch.cell_nulls,
        )  # fmt: skip
        found = 0
        source = features.cell[feature]
        if not scratch.cell_nulls[source]:
            value = float(scratch.cell_ints[source])
            if features.floating[feature]:
                value = scratch.cell_floats[source]
            if noted:
                seen[feature] += 1 if early else 1 << NOTED_BITS
                if value != latest[feature, VALUE]:  # partial matches of one event come together
                    latest[feature, VALUE] = value
                    chance = int(latest[feature, NOTED])
                    if chance >= SAMPLE:  # overwritten here and there: of the recent values
                        chance = (chance * 40503 >> 3) % SAMPLE
                    features.sample[feature, chance] = value
                    latest[feature, NOTED] += 1.0
            found = 1 + bin_of(value, features.edges[feature], bins)
        mixed = mixed * (bins + 1) + found
    bucket = np.int64((features.base[node] + mixed) % given.sketch.bucket_seen.shape[0])
    features.known[slot], features.remembered[slot] = key, bucket
    return int(bucket)


@inner_inlined
def column_of(pattern: int, columns: int) -> int:
    """Patterns beyond the columns of the sketch share them; a division is saved for the others."""
    return pattern if pattern < columns else pattern % columns


@inner_inlined
def relative_of(bucket: int, node: int, column: int, sketch: Sketch) -> float:
    """How much better than its node a bucket is: what was credited to both lags alike."""
    prior = (sketch.node_completed[node, column] + 0.1) / (sketch.node_seen[node] + 1.0)
    return float(
        (sketch.completed[bucket, column] + SKETCH_PRIOR * prior)
        / ((sketch.bucket_seen[bucket] + SKETCH_PRIOR) * prior)
    )


@inner_inlined
def rate_of(bucket: int, node: int, column: int, sketch: Sketch) -> float:
    """Complete matches of a pattern per partial match of the bucket, drawn to its node's mean."""
    return float(sketch.means[node, column] * relative_of(bucket, node, column, sketch))


@inner_inlined
def ways_of(left: float, node: int, sketch: Sketch) -> float:
    """With k events to come, the ways to take them grow with the k-th power of the time left."""
    ways = 1.0
    for _ in range(sketch.steps[node]):
        ways *= left
    return ways


@inner_inlined
def credit(
    bucket: int,
    node: int,
    child_bucket: int,
    child_node: int,
    ways: float,
    patterns: NDArray[np.uint64],
    sketch: Sketch,
) -> float:
    """A partial match was extended: what the longer one is worth counts for it.

    `ways` are those of the longer one. Returned is what one way of it is worth to the overloaded
    patterns (itself counted). Bucket -1: it extends nothing.
    """
    completed, node_completed, weights = sketch.completed, sketch.node_completed, sketch.weights
    columns = weights.shape[0]
    seen = 1.0 / (sketch.bucket_seen[child_bucket] + ways + SKETCH_PRIOR)
    node_seen = sketch.node_seen[child_node] + ways + 1.0
    total, better, owners = 0.0, 0.0, 0
    for word in range(patterns.shape[0]):
        left, wanted = patterns[word], sketch.overloaded[word]
        pattern = word << 6
        while left != 0:
            if left & np.uint64(1):
                column = column_of(pattern, columns)
                prior = node_seen / (node_completed[child_node, column] + 0.1)
                relative = (completed[child_bucket, column] * prior + SKETCH_PRIOR) * seen
                worth = sketch.means[child_node, column] * relative
                if wanted & np.uint64(1):
                    total += weights[column] * worth
                if bucket >= 0:
                    completed[bucket, column] += ways * worth
                    node_completed[node, column] += ways * worth
                better += relative
                owners += 1
            left >>= np.uint64(1)
            wanted >>= np.uint64(1)
            pattern += 1
    followed = sketch.flow.shape[0]
    if bucket >= 0 and owners > 0 and node < followed and child_node < followed:
        sketch.flow[node, child_node] += ways * better / owners
    return total
