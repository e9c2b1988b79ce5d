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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import borrowing, inlined
from ensue.kernels.guards import run_guard

LEVELS = 256  # quality on a logarithmic scale, eight levels to a factor of two
MIDDLE = 200
EDGES = 63
SAMPLE = 512
PRIOR = 1.0  # partial matches with a whole window: what the mean of the node weighs


@borrowing
def level_of(quality: float) -> int:
    """The level of a quality; 0 only for nothing at all."""
    if quality <= 0.0:
        return 0
    found = int(np.floor(np.log2(quality) * 8.0)) + MIDDLE
    return min(max(found, 1), LEVELS - 1)


@inlined
def bin_of(value: float, edges: NDArray[np.float64], bins: int) -> int:
    low, high = 0, edges.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low * bins // (EDGES + 1)


@inlined
def bucket_of(
    node: int,
    row: int,
    first: int,
    last: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    features: Any,
    guards: Any,
    cells: Any,
    buckets: int,
) -> int:
    """hash(<d_1.A, ..., d_j.A>) of a partial match that waits at `node` since `row`."""
    offset, chosen, bins, code, begin, end, cell, floating, edges, seen, sample = features
    int_columns, float_columns, int_nulls, float_nulls, int_constants, float_constants = guards[5:]
    cell_ints, cell_floats, cell_nulls = cells
    mixed = np.uint64(node) * np.uint64(0x9E3779B97F4A7C15)
    for place in range(offset[node], offset[node + 1]):
        feature = chosen[place]
        run_guard(
            code, begin[feature], end[feature], row, first, first, last, 0,
            ints, floats, int_columns, float_columns, int_nulls, float_nulls,
            int_constants, float_constants, cell_ints, cell_floats, cell_nulls,
        )  # fmt: skip
        found = 0
        source = cell[feature]
        if not cell_nulls[source]:
            value = cell_floats[source] if floating[feature] else float(cell_ints[source])
            slot = seen[feature]
            if slot >= SAMPLE:  # overwritten here and there: a sample of the recent values
                slot = (slot * 40503 >> 3) % SAMPLE
            sample[feature, slot] = value
            seen[feature] += 1
            found = 1 + bin_of(value, edges[feature], bins[node])
        mixed = (mixed ^ np.uint64(found)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x94D049BB133111EB)
    return int((mixed >> np.uint64(20)) % np.uint64(buckets))


@inlined
def relative_of(bucket: int, node: int, column: int, sketch: Any) -> float:
    """How much better than its node a bucket is: what was credited to both lags alike."""
    prior = (sketch[4][node, column] + 0.1) / (sketch[3][node] + 1.0)
    found = (sketch[2][bucket, column] + PRIOR * prior) / (sketch[0][bucket] + PRIOR)
    return float(found / prior)


@inlined
def rate_of(bucket: int, node: int, column: int, sketch: Any) -> float:
    """Complete matches of a pattern per partial match of the bucket, drawn to its node's mean."""
    return float(sketch[9][node, column] * relative_of(bucket, node, column, sketch))


@inlined
def ways_of(left: float, node: int, sketch: Any) -> float:
    """With k events to come, the ways to take them grow with the k-th power of the time left."""
    return float(max(left, 0.0) ** sketch[13][node])


@inlined
def credit(
    bucket: int,
    node: int,
    child_bucket: int,
    child_node: int,
    given: float,
    patterns: NDArray[np.uint64],
    sketch: Any,
) -> None:
    """A partial match was extended: what the longer one is worth counts for it.

    `given` is the share of the window that the longer one has.
    """
    columns = sketch[5].shape[0]
    ways = ways_of(given, child_node, sketch)
    better, owners = 0.0, 0
    for word in range(patterns.shape[0]):
        left = patterns[word]
        pattern = word << 6
        while left != 0:
            if left & np.uint64(1):
                column = pattern % columns
                worth = ways * rate_of(child_bucket, child_node, column, sketch)
                sketch[2][bucket, column] += worth
                sketch[4][node, column] += worth
                better += relative_of(child_bucket, child_node, column, sketch)
                owners += 1
            left >>= np.uint64(1)
            pattern += 1
    followed = sketch[1].shape[0]
    if owners > 0 and node < followed and child_node < followed:
        sketch[1][node, child_node] += ways * better / owners
