"""The history of match vectors as flat arrays (Definition 4), in full or as a sketch (§4).

A match vector (state, remaining window, error, time since the last event) is one small integer, its
parts being discretised. Its *entry* holds how often it was visited and a match map: one bit per
match bundle that was reached from it, in words of 64. The full history gives an entry to every
vector seen; the sketch hashes a vector to `depth` cells of `depth × length`, adds to each, and
reads the least count and the intersection of the maps, so errors are one-sided.

Everything is kept twice (§5): the first copy decides, the second fills up with new bundles and
takes over when it is full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating
from ensue.kernels.copies import copy_row

PRIME = 2147483647  # 2^31 - 1: hash(v) = (a v + b mod PRIME) mod length
# registers of a history
ENTRIES, BUNDLES, SECOND, PHASE, EPOCH, RING, DEPTH, LENGTH, BITS = range(9)
REGISTERS = 9
LEARNING, RUNNING = 0, 1


class History(NamedTuple):
    """`registers[DEPTH]` 0: the full history, else a sketch."""

    registers: NDArray[np.int64]
    slots: NDArray[np.int32]  # entry of each vector, or -1; full history only
    counts: NDArray[np.int64]  # [copy, entry]
    maps: NDArray[np.uint64]  # [copy, entry, word]
    scores: NDArray[np.float64]  # [entry]: bits set per visit; full history only
    factors: NDArray[np.int64]  # [row of the sketch, (a, b)]


@inner_allocating
def ones(word: np.uint64) -> int:
    """Bits set in a word."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    word = word + (word >> np.uint64(8))
    word = word + (word >> np.uint64(16))
    word = word + (word >> np.uint64(32))
    return int(np.int64(word & np.uint64(0x7F)))


@njit(cache=True, nogil=True)
def cell(history: History, row: int, vector: int) -> int:
    """The sketch's cell of a vector in one of its rows."""
    length = history.registers[LENGTH]
    mixed = (history.factors[row, 0] * (vector + 1) + history.factors[row, 1]) % PRIME
    return row * length + mixed % length


@inner_allocating
def _entry(history: History, vector: int) -> int:
    """The entry of a vector in the full history, made where there is none; -1: no room."""
    entry = history.slots[vector]
    if entry < 0:
        entry = history.registers[ENTRIES]
        if entry >= history.counts.shape[1]:
            return -1
        history.registers[ENTRIES] += 1
        history.slots[vector] = entry
        history.counts[:, entry] = 0
        history.maps[:, entry, :] = np.uint64(0)
        history.scores[entry] = 0.0
    return entry


@njit(cache=True, nogil=True)
def visit(history: History, copy: int, vector: int) -> bool:
    """Counts a visit; False where the full history has no room for a new vector."""
    depth = history.registers[DEPTH]
    if depth == 0:
        entry = _entry(history, vector)
        if entry < 0:
            return False
        history.counts[copy, entry] += 1
        return True
    for row in range(depth):
        history.counts[copy, cell(history, row, vector)] += 1
    return True


@njit(cache=True, nogil=True)
def credit(history: History, copy: int, vector: int, bit: int) -> None:
    """Notes that a bundle was reached from a vector, which was visited before."""
    word, mask = bit >> 6, np.uint64(1) << np.uint64(bit & 63)
    depth = history.registers[DEPTH]
    if depth == 0:
        entry = history.slots[vector]
        if entry >= 0:
            history.maps[copy, entry, word] |= mask
        return
    for row in range(depth):
        history.maps[copy, cell(history, row, vector), word] |= mask


@njit(cache=True, nogil=True)
def look(history: History, vector: int, words: NDArray[np.uint64]) -> int:
    """The visits of a vector in the deciding copy, and its match map (LOOKUPSKETCH)."""
    depth = history.registers[DEPTH]
    if depth == 0:
        entry = history.slots[vector]
        if entry < 0:
            words[:] = np.uint64(0)
            return 0
        copy_row(history.maps[0, entry], words)
        return history.counts[0, entry]
    first = cell(history, 0, vector)
    count = history.counts[0, first]
    copy_row(history.maps[0, first], words)
    for row in range(1, depth):
        other = cell(history, row, vector)
        count = min(count, history.counts[0, other])
        for word in range(words.shape[0]):
            words[word] &= history.maps[0, other, word]
    return count


@inner_allocating
def rescore(history: History, entry: int) -> None:
    """Bits per visit of one entry of the full history."""
    total = 0
    for word in range(history.maps.shape[2]):
        total += ones(history.maps[0, entry, word])
    count = history.counts[0, entry]
    history.scores[entry] = total / count if count else 0.0


@njit(cache=True, nogil=True)
def rescore_all(history: History) -> None:
    if history.registers[DEPTH] == 0:
        for entry in range(history.registers[ENTRIES]):
            rescore(history, entry)


@inner_allocating
def take_over(history: History) -> None:
    """The second copy decides from now on; a new second copy starts empty."""
    history.counts[0] = history.counts[1]
    history.maps[0] = history.maps[1]
    history.counts[1] = 0
    history.maps[1] = np.uint64(0)
    history.registers[SECOND] = 0
    history.registers[EPOCH] += 1
    rescore_all(history)


@njit(cache=True, nogil=True)
def new_bundle(history: History, adapts: bool) -> int:
    """The bit of a bundle that begins: while learning in the first copy, then in the second."""
    registers = history.registers
    if registers[PHASE] == LEARNING:
        if registers[BUNDLES] < registers[BITS]:
            registers[BUNDLES] += 1
            return registers[BUNDLES] - 1
        end_learning(history)
    registers[BUNDLES] += 1
    if not adapts:
        return 0
    if registers[SECOND] >= registers[BITS]:
        take_over(history)
    registers[SECOND] += 1
    return registers[SECOND] - 1


@njit(cache=True, nogil=True)
def end_learning(history: History) -> None:
    history.registers[PHASE] = RUNNING
    history.registers[EPOCH] += 1
    rescore_all(history)


@inner_allocating
def oldest_bit(history: History) -> int:
    """A bit of the deciding copy for a bundle that an agent found: the oldest is forgotten."""
    registers = history.registers
    bit = registers[RING] % registers[BITS]
    registers[RING] += 1
    word, mask = bit >> 6, np.uint64(1) << np.uint64(bit & 63)
    full = registers[DEPTH] == 0
    for entry in range(registers[ENTRIES] if full else history.counts.shape[1]):
        if history.maps[0, entry, word] & mask:
            history.maps[0, entry, word] ^= mask
            if full:
                rescore(history, entry)
    return bit
