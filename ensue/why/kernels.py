"""How far every start row gets, and which rows an earlier match has used up."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.automaton import next_start
from ensue.kernels.stop import asked

_AT_START = 1
_FIRST_ROW, _LENGTH, _OFFSET = 1, 2, 4  # columns of an entry, as in kernels/measures.py


@njit(cache=True, nogil=True)
def depths(
    bits: NDArray[np.uint64],  # [row, word]: labels that the row satisfies
    starts: NDArray[np.int64],  # first row of each partition, and the number of rows
    label: NDArray[np.int32],
    arc_offset: NDArray[np.int32],
    arc_target: NDArray[np.int32],
    arc_flags: NDArray[np.uint8],
    useful: NDArray[np.bool_],  # per state: an end of the pattern can be reached from it
) -> NDArray[np.int64]:
    """Per row as a first row: the most rows that any path takes, correlated parts left open.

    One backward pass; of a row it keeps, by state, how far the paths from there get.
    """
    states = label.shape[0]
    depth = np.zeros(bits.shape[0], np.int64)
    ahead = np.zeros(states, np.int64)
    here = np.zeros(states, np.int64)
    for partition in range(starts.shape[0] - 1):
        begin, end = starts[partition], starts[partition + 1]
        ahead[:] = 0
        for row in range(end - 1, begin - 1, -1):
            if asked():
                return depth
            for state in range(1, states):
                here[state] = 0
                name = label[state]
                if not useful[state]:
                    continue
                if (bits[row, name >> 6] >> np.uint64(name & 63)) & np.uint64(1):
                    longest = np.int64(0)
                    for arc in range(arc_offset[state], arc_offset[state + 1]):
                        if arc_target[arc] != 0:
                            longest = max(longest, ahead[arc_target[arc]])
                    here[state] = longest + 1
            longest = np.int64(0)
            for arc in range(arc_offset[0], arc_offset[1]):
                if arc_target[arc] != 0 and (row == begin or not arc_flags[arc] & _AT_START):
                    longest = max(longest, here[arc_target[arc]])
            depth[row] = longest
            ahead, here = here, ahead
    return depth


@njit(cache=True, nogil=True)
def consumers(
    match: NDArray[np.int64],
    positions: NDArray[np.int32],
    skip_mode: int,
    skip_states: NDArray[np.bool_],
    by: NDArray[np.int64],
    base: int,
) -> None:
    """by[row] becomes the number of the entry that starts there or skips over the row."""
    for entry in range(match.shape[0]):
        first = match[entry, _FIRST_ROW]
        following = next_start(
            first, match[entry, _LENGTH], skip_mode, skip_states, positions, match[entry, _OFFSET]
        )
        for row in range(first, following):
            by[row] = base + entry
