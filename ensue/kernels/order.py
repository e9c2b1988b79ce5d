"""Whether rows are in order already, and where groups begin."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def is_grouped(groups: NDArray[np.int64], count: int) -> bool:
    """Whether each of `count` codes (0 .. count - 1) stands in one run."""
    seen = np.zeros(count, np.bool_)
    for row in range(groups.shape[0]):
        group = groups[row]
        if row > 0 and group == groups[row - 1]:
            continue
        if seen[group]:
            return False
        seen[group] = True
    return True


@njit(cache=True, nogil=True)
def is_ordered(groups: NDArray[np.int64], keys: NDArray[np.int64]) -> bool:
    """Whether the keys (first the most significant) never fall inside a group."""
    for row in range(1, groups.shape[0]):
        if groups[row] != groups[row - 1]:
            continue
        for key in range(keys.shape[0]):
            before, now = keys[key, row - 1], keys[key, row]
            if before < now:
                break
            if before > now:
                return False
    return True


@njit(cache=True, nogil=True)
def first_rows(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """First row of each run of equal codes."""
    count = 1
    for row in range(1, groups.shape[0]):
        if groups[row] != groups[row - 1]:
            count += 1
    firsts = np.empty(count, np.int64)
    firsts[0] = 0
    place = 1
    for row in range(1, groups.shape[0]):
        if groups[row] != groups[row - 1]:
            firsts[place] = row
            place += 1
    return firsts
