"""A set of 64-bit keys in two flat arrays, emptied in constant time.

`stamps[slot] == generation` marks a slot in use; a new generation empties the set. Open addressing
with linear probing; the caller grows the table at half load (`grown`), so probes stay short.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating


@inner_allocating
def slot_of(keys: NDArray[np.int64], stamps: NDArray[np.int32], generation: int, key: int) -> int:
    """The slot that holds the key, or the free one where it belongs."""
    mask = keys.shape[0] - 1
    # SplitMix64's last rounds, in signed arithmetic: neighbouring keys land far apart.
    mixed = np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    slot = np.int64(mixed ^ (mixed >> np.uint64(31))) & mask
    while stamps[slot] == generation and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@inner_allocating
def grown(
    keys: NDArray[np.int64], stamps: NDArray[np.int32], values: NDArray[np.int64], generation: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Twice the table, with the present generation's keys and their values."""
    size = 2 * keys.shape[0]
    new_keys = np.zeros(size, np.int64)
    new_stamps = np.zeros(size, np.int32)
    new_values = np.zeros(size if values.shape[0] else 0, np.int64)
    for old in range(keys.shape[0]):
        if stamps[old] == generation:
            slot = slot_of(new_keys, new_stamps, generation, keys[old])
            new_keys[slot] = keys[old]
            new_stamps[slot] = generation
            if values.shape[0]:
                new_values[slot] = values[old]
    return new_keys, new_stamps, new_values
