"""Partial matches of a workload as records in an arena (SHARP §4, sharing by view).

A record is the last event of a partial match and a link to the record before it, so that partial
matches share their beginnings; a count of references tells when a record is free again. An *open*
record also waits in the list of its node with the bitmap of the patterns it is kept for.

Numbers that change are in `meta` (`layout.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import borrowing, inner
from ensue.shared.kernels.layout import FREE, MOST, OPEN, RECORDS, SEED, USED, Arena, Lists


@inner
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


@inner
def release(record: int, arena: Arena, meta: NDArray[np.int64]) -> None:
    """One reference less; records that nothing refers to are free, and so on up the links."""
    while record >= 0:
        arena.references[record] -= 1
        if arena.references[record] > 0:
            return
        above = arena.parent[record]
        arena.following[record] = meta[FREE]
        meta[FREE] = record
        meta[RECORDS] -= 1
        record = above


@inner
def write(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Like `target[:] = source`, which would make room for a copy first."""
    for index in range(source.shape[0]):
        target[index] = source[index]


@inner
def any_bit(words: NDArray[np.uint64]) -> bool:
    found = np.uint64(0)
    for index in range(words.shape[0]):
        found |= words[index]
    return found != 0


@inner
def meets(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> bool:
    found = np.uint64(0)
    for index in range(left.shape[0]):
        found |= left[index] & right[index]
    return found != 0


@borrowing
def has(words: NDArray[np.uint64], pattern: int) -> bool:
    return (words[pattern >> 6] >> np.uint64(pattern & 63)) & np.uint64(1) != 0


@inner
def next_random(meta: NDArray[np.int64]) -> float:
    """A number in [0, 1) from a linear congruential sequence: the same for the same seed."""
    state = np.uint64(meta[SEED]) * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    meta[SEED] = np.int64(state)
    return float(state >> np.uint64(11)) / 9007199254740992.0


@inner
def close(
    run: int,
    before: int,
    slot: int,
    node: int,
    weight: float,
    arena: Arena,
    lists: Lists,
    meta: NDArray[np.int64],
) -> None:
    """A partial match leaves its list, where it stands behind `before` (-1: it is the first)."""
    if before < 0:
        lists.head[slot] = arena.following[run]
    else:
        arena.following[before] = arena.following[run]
    lists.waiting[node] -= weight
    meta[OPEN] -= 1
    release(run, arena, meta)


@borrowing
def survey(
    arena: Arena,
    lists: Lists,
    masks: NDArray[np.uint64],
    sizes: NDArray[np.float64],
    order: NDArray[np.float64],
) -> tuple[int, float]:
    """The earliest row of an open partial match, and when the first of their windows ends."""
    oldest, due = 1 << 62, np.inf
    for slot in range(lists.head.shape[0]):
        run = lists.head[slot]
        while run >= 0:
            first = arena.first[run]
            oldest = min(oldest, int(first))
            for window in range(sizes.shape[0]):
                if meets(arena.bits[run], masks[window]):
                    due = min(due, order[first] + sizes[window])
            run = arena.following[run]
    return oldest, due
