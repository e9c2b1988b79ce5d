"""Hashing texts into vectors: words and the pieces of words, one pass over the bytes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating

_SHORTEST, _LONGEST = 3, 5  # pieces of words, in bytes


@inner_allocating
def _is_word(byte: int) -> bool:
    return byte >= 128 or 48 <= byte <= 57 or 97 <= byte <= 122


@njit(cache=True, nogil=True)
def hash_texts(
    data: NDArray[np.uint8],
    offset: NDArray[np.int64],
    vectors: NDArray[np.float32],
    word_weight: float,
    piece_weight: float,
) -> None:
    """Adds each text's words and pieces (marked where a word begins) to its row."""
    mask = np.uint64(vectors.shape[1] - 1)
    basis, prime = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
    for t in range(offset.shape[0] - 1):
        at = offset[t]
        while at < offset[t + 1]:
            if not _is_word(data[at]):
                at += 1
                continue
            end = at
            whole = basis
            while end < offset[t + 1] and _is_word(data[end]):
                whole = (whole ^ np.uint64(data[end])) * prime
                end += 1
            place = (whole ^ (whole >> np.uint64(29))) & mask
            vectors[t, place] += word_weight
            for begin in range(at, end - _SHORTEST + 1):
                piece = basis
                if begin == at:
                    piece = (piece ^ np.uint64(60)) * prime
                for last in range(begin, min(end, begin + _LONGEST)):
                    piece = (piece ^ np.uint64(data[last])) * prime
                    if last - begin + 1 >= _SHORTEST:
                        place = (piece ^ (piece >> np.uint64(31))) & mask
                        vectors[t, place] += piece_weight
            at = end
