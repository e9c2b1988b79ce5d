"""Hashes that name rows and sets of rows, the same in every process and on every machine."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]


@njit(cache=True, nogil=True)
def hash_bytes(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Hashes:
    """One FNV-1a hash per value; the caller mixes it."""
    basis, prime = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
    hashes = np.empty(offsets.shape[0] - 1, np.uint64)
    for value in range(hashes.shape[0]):
        found = basis
        for at in range(offsets[value], offsets[value + 1]):
            found = (found ^ np.uint64(data[at])) * prime
        hashes[value] = found
    return hashes
