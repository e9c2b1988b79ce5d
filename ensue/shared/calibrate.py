"""A sample of whole partitions to learn from before the others are matched under a bound.

It tells what the unbounded run needs, so that a share of that holds from the first row on, and what
partial matches are worth. It is drawn evenly over the lengths of the partitions, since the work of
a row grows with what came before it. Where partitions are few or long there is none: then the first
rows tell what they need as they are matched (`Controller.calibrating`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

PART, MOST = 0.05, 10_000  # of the partitions, and rows, are matched twice: about so many
LEAST, SMALL = 16, 0.2  # partitions: fewer say little; of small tables up to this part, for these
LONG = 0.1  # of the rows may be of partitions that are too long for a sample


def sampled(starts: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The numbers of the partitions; none where they would be too few or too long."""
    sizes, rows = np.diff(starts), int(starts[-1])
    short = np.flatnonzero((sizes > 0) & (sizes <= PART * rows))
    total = int(sizes[short].sum())
    if SMALL * len(short) < LEAST or total < (1 - LONG) * rows:
        return np.zeros(0, np.int64)
    count = max(LEAST, int(min(PART * len(short), MOST * len(short) / total)))
    step = len(short) / count
    places = (np.random.default_rng(seed).random() + np.arange(count)) * step
    by_size = short[np.argsort(sizes[short], kind="stable")]
    return np.sort(by_size[places.astype(np.int64)])


def partitions(
    table: pa.Table, starts: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[pa.Table, NDArray[np.int64]]:
    """The rows of some partitions, and where each begins."""
    rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in chosen])
    ends = np.cumsum(starts[chosen + 1] - starts[chosen])
    return table.take(pa.array(rows)).combine_chunks(), np.append(0, ends).astype(np.int64)
