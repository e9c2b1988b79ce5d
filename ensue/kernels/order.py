"""Whether rows are in order, whether keys tie, and where groups begin."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def is_ordered(starts: NDArray[np.int64], keys: NDArray[np.int64]) -> bool:
    """Whether the keys (first the most significant) never fall inside a run."""
    for run in range(starts.shape[0] - 1):
        for row in range(starts[run] + 1, starts[run + 1]):
            for key in range(keys.shape[0]):
                before, now = keys[key, row - 1], keys[key, row]
                if before < now:
                    break
                if before > now:
                    return False
    return True


@njit(cache=True, nogil=True)
def has_ties(values: NDArray[np.int64], index: NDArray[np.int64]) -> bool:
    """Whether two rows that the sorting index puts side by side are equal."""
    for place in range(1, index.shape[0]):
        if values[index[place]] == values[index[place - 1]]:
            return True
    return False


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
