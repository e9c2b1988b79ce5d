"""Label bits: which labels each row satisfies, as words of 64."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def set_label(bits: NDArray[np.uint64], label: int, holds: NDArray[np.bool_]) -> None:
    """Set the label's bit on the rows where it holds."""
    word, bit = label >> 6, np.uint64(1) << np.uint64(label & 63)
    for row in range(bits.shape[0]):
        if holds[row]:
            bits[row, word] |= bit


@njit(cache=True, nogil=True)
def set_label_everywhere(bits: NDArray[np.uint64], label: int) -> None:
    word, bit = label >> 6, np.uint64(1) << np.uint64(label & 63)
    for row in range(bits.shape[0]):
        bits[row, word] |= bit


@njit(cache=True, nogil=True)
def packed_flag(packed: NDArray[np.int64], index: int) -> NDArray[np.bool_]:
    """One flag out of a packed column."""
    flag = np.empty(packed.shape[0], np.bool_)
    for row in range(packed.shape[0]):
        flag[row] = (packed[row] >> index) & 1
    return flag
