"""Spark's `xxhash64` over columns of a batch: each call takes the hashes on by one column.

The hash of a row is that of its columns in turn, each seeded with the hash of those before; a null
leaves it as it is. Numbers of up to 32 bits, longs and bytes have a form each (XXH64, with the
lengths 4, 8 and any). What Spark would compute and send along as a column costs more than computing
it again where the rows are packed (`run/lanes/hashes.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating

SEED = 42

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_FOUR, _EIGHT = np.uint64(4), np.uint64(8)
_WORD = np.uint64(64)
_BYTE, _HALF = 8, 32

Hashes = NDArray[np.uint64]


@njit(cache=True, nogil=True, inline="always")
def _turned(value: Any, bits: int) -> Any:
    by = np.uint64(bits)
    return (value << by) | (value >> (_WORD - by))


@njit(cache=True, nogil=True, inline="always")
def _mixed(value: Any) -> Any:
    value ^= value >> np.uint64(33)
    value *= _P2
    value ^= value >> np.uint64(29)
    value *= _P3
    return value ^ (value >> np.uint64(32))


@njit(cache=True, nogil=True)
def hash_longs(values: NDArray[np.int64], valid: NDArray[np.bool_], hashes: Hashes) -> None:
    """`valid` is empty where all are."""
    for row in range(values.shape[0]):
        if valid.shape[0] and not valid[row]:
            continue
        seen = hashes[row] + _P5 + _EIGHT
        seen ^= _turned(np.uint64(values[row]) * _P2, 31) * _P1
        hashes[row] = _mixed(_turned(seen, 27) * _P1 + _P4)


@njit(cache=True, nogil=True)
def hash_ints(values: NDArray[np.uint32], valid: NDArray[np.bool_], hashes: Hashes) -> None:
    for row in range(values.shape[0]):
        if valid.shape[0] and not valid[row]:
            continue
        seen = hashes[row] + _P5 + _FOUR
        seen ^= np.uint64(values[row]) * _P1
        hashes[row] = _mixed(_turned(seen, 23) * _P2 + _P3)


@njit(cache=True, nogil=True, inline="always")
def _number(data: NDArray[np.uint8], at: int, size: int) -> Any:
    """Little-endian, wherever it stands."""
    value = np.uint64(0)
    for place in range(size):
        value |= np.uint64(data[at + place]) << np.uint64(_BYTE * place)
    return value


@njit(cache=True, nogil=True, inline="always")
def _round(lane: Any, word: Any) -> Any:
    return _turned(lane + word * _P2, 31) * _P1


@inner_allocating
def _hash_of(data: NDArray[np.uint8], begin: int, end: int, seed: Any) -> Any:
    at = begin
    if end - begin >= _HALF:
        first, second, third, fourth = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at <= end - _HALF:
            first = _round(first, _number(data, at, 8))
            second = _round(second, _number(data, at + 8, 8))
            third = _round(third, _number(data, at + 16, 8))
            fourth = _round(fourth, _number(data, at + 24, 8))
            at += _HALF
        seen = _turned(first, 1) + _turned(second, 7) + _turned(third, 12) + _turned(fourth, 18)
        for lane in (first, second, third, fourth):
            seen = (seen ^ _round(np.uint64(0), lane)) * _P1 + _P4
    else:
        seen = seed + _P5
    seen += np.uint64(end - begin)
    while at + 8 <= end:
        seen ^= _round(np.uint64(0), _number(data, at, 8))
        seen = _turned(seen, 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        seen ^= _number(data, at, 4) * _P1
        seen = _turned(seen, 23) * _P2 + _P3
        at += 4
    while at < end:
        seen ^= np.uint64(data[at]) * _P5
        seen = _turned(seen, 11) * _P1
        at += 1
    return _mixed(seen)


@njit(cache=True, nogil=True)
def hash_bytes(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    valid: NDArray[np.bool_],
    hashes: Hashes,
) -> None:
    """Values one after the other in `data`; the offsets are one more than there are values."""
    for row in range(hashes.shape[0]):
        if valid.shape[0] and not valid[row]:
            continue
        hashes[row] = _hash_of(data, offsets[row], offsets[row + 1], hashes[row])
