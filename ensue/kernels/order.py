"""Whether rows are in order, whether keys tie, where groups begin, and rows almost in order."""

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


@njit(cache=True, nogil=True)
def index_by_group(groups: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """A stable index that brings the rows of each group (0 to count - 1) together."""
    places = np.zeros(count + 1, np.int64)
    for row in range(groups.shape[0]):
        places[groups[row] + 1] += 1
    for group in range(count):
        places[group + 1] += places[group]
    index = np.empty(groups.shape[0], np.int64)
    for row in range(groups.shape[0]):
        group = groups[row]
        index[places[group]] = row
        places[group] += 1
    return index


@njit(cache=True, nogil=True)
def put_in_order(
    index: NDArray[np.int64],
    groups: NDArray[np.int64],
    keys: NDArray[np.int64],
    budget: int,
) -> bool:
    """Sort the keys inside each group of the index by insertion; False: that took too many moves.

    Rows that arrive almost in the order of time need a move each at most; others are for a sort
    that is made for them.
    """
    for place in range(1, index.shape[0]):
        row = index[place]
        at = place
        while at > 0:
            before = index[at - 1]
            if groups[before] != groups[row]:
                break
            less = False
            for key in range(keys.shape[0]):
                if keys[key, before] != keys[key, row]:
                    less = keys[key, row] < keys[key, before]
                    break
            if not less:
                break
            index[at] = before
            at -= 1
        if at != place:
            index[at] = row
            budget -= place - at
            if budget < 0:
                return False
    return True


@njit(cache=True, nogil=True)
def has_equal(hashes: NDArray[np.int64]) -> bool:
    """Whether a hash comes twice; found without sorting, in a table of twice their number."""
    size = 16
    while size < 2 * hashes.shape[0]:
        size *= 2
    table = np.zeros(size, np.int64)
    zeros = 0
    for value in hashes:
        if value == 0:
            zeros += 1
            if zeros == 2:
                return True
            continue
        place = (value ^ (value >> 32)) & (size - 1)
        while table[place] != 0:
            if table[place] == value:
                return True
            place = (place + 1) & (size - 1)
        table[place] = value
    return False
