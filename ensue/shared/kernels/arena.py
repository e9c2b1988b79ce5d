"""Partial matches of a workload as records in an arena (SHARP §4, sharing by view).

A record is the last event of a partial match and a link to the record before it, so that partial
matches share their beginnings; a count of references tells when a record is free again. An *open*
record also waits in the list of its node with the bitmap of the patterns it is kept for.

The arrays travel as one tuple; numbers that change are in `meta`, by the names below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import borrowing

FREE, USED, OPEN, RECORDS, FRESH = 0, 1, 2, 3, 4
PHASE, PLACE, RUN, BEFORE, POSITION = 5, 6, 7, 8, 9  # where an interrupted event goes on
WORK, CHAINS, ENTRIES, WRITTEN, SWEPT = 10, 11, 12, 13, 14
SHED, CREATED, CUT, SELECTIONS, CHECKED, SEED, AGED, SELECT_WORK, MOST, STRIDE = (
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
)  # fmt: skip
WINDOWED, TICK = 25, 26
CELL, CELL_NODE = 27, 28  # of the present visit; -1: none
META = 32


@borrowing
def allocate(meta: NDArray[np.int64], following: NDArray[np.int32]) -> int:
    """A free record; the caller has made sure that there is one."""
    record = meta[FREE]
    if record >= 0:
        meta[FREE] = following[record]
    else:
        record = meta[USED]
        meta[USED] += 1
    meta[RECORDS] += 1
    meta[MOST] = max(meta[MOST], meta[RECORDS])
    return record


@borrowing
def release(
    record: int,
    meta: NDArray[np.int64],
    parent: NDArray[np.int32],
    references: NDArray[np.int32],
    following: NDArray[np.int32],
) -> None:
    """One reference less; records that nothing refers to are free, and so on up the links."""
    while record >= 0:
        references[record] -= 1
        if references[record] > 0:
            return
        above = parent[record]
        following[record] = meta[FREE]
        meta[FREE] = record
        meta[RECORDS] -= 1
        record = above


@borrowing
def write(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Like `target[:] = source`, which would make room for a copy first."""
    for index in range(source.shape[0]):
        target[index] = source[index]


@borrowing
def any_bit(words: NDArray[np.uint64]) -> bool:
    found = np.uint64(0)
    for index in range(words.shape[0]):
        found |= words[index]
    return found != 0


@borrowing
def meets(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> bool:
    found = np.uint64(0)
    for index in range(left.shape[0]):
        found |= left[index] & right[index]
    return found != 0


@borrowing
def has(words: NDArray[np.uint64], pattern: int) -> bool:
    return (words[pattern >> 6] >> np.uint64(pattern & 63)) & np.uint64(1) != 0


@borrowing
def next_random(meta: NDArray[np.int64]) -> float:
    """A number in [0, 1) from a linear congruential sequence: the same for the same seed."""
    state = np.uint64(meta[SEED]) * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    meta[SEED] = np.int64(state)
    return float(state >> np.uint64(11)) / 9007199254740992.0


@borrowing
def close(
    run: int,
    before: int,
    slot: int,
    node: int,
    weight: float,
    arena: Any,
    heads: Any,
    meta: NDArray[np.int64],
) -> None:
    """A partial match leaves its list, where it stands behind `before` (-1: it is the first)."""
    following = arena[7]
    if before < 0:
        heads[0][slot] = following[run]
    else:
        following[before] = following[run]
    heads[1][node] -= weight
    meta[OPEN] -= 1
    release(run, meta, arena[1], arena[6], following)


@borrowing
def survey(
    arena: Any,
    heads: Any,
    masks: NDArray[np.uint64],
    sizes: NDArray[np.float64],
    order: NDArray[np.float64],
) -> tuple[int, float]:
    """The earliest row of an open partial match, and when the first of their windows ends."""
    first, bits, following = arena[4], arena[5], arena[7]
    head = heads[0]
    oldest, due = 1 << 62, np.inf
    for slot in range(head.shape[0]):
        run = head[slot]
        while run >= 0:
            oldest = min(oldest, int(first[run]))
            for window in range(sizes.shape[0]):
                if meets(bits[run], masks[window]):
                    due = min(due, order[first[run]] + sizes[window])
            run = following[run]
    return oldest, due
