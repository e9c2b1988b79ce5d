"""Where classes of partial matches lie: slots with a free list, a hash table, a list per state.

A class is (state, registers), see `runs.py`. The table over (state, registers) finds the one
to merge with; each state's list is sorted by what a comparison asks for, then by registers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.guards.registers import hash_registers, same_registers
from ensue.sequences.kernels.match_graph import NOTHING

EMPTY, GONE = -1, -2


class Classes(NamedTuple):
    """Slots of classes, the sorted lists of each state, and what an event adds."""

    node: NDArray[np.int32]
    state: NDArray[np.int32]
    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    free: NDArray[np.int32]
    table: NDArray[np.int32]
    ids: NDArray[np.int32]  # [state, place]
    keys: NDArray[np.int64]
    counts: NDArray[np.int64]  # per state; then: slots in use, entries of the table ever used
    new_state: NDArray[np.int32]
    new_node: NDArray[np.int32]
    new_ints: NDArray[np.int64]
    new_floats: NDArray[np.float64]


@njit(cache=True, nogil=True)
def same_class(classes: Classes, slot: int, state: int, added: int) -> bool:
    return classes.state[slot] == state and same_registers(
        classes.ints, classes.floats, slot, classes.new_ints, classes.new_floats, added
    )


@njit(cache=True, nogil=True)
def forget(classes: Classes, slot: int) -> None:
    """Takes a class out of the hash table and frees its slot."""
    room = classes.table.shape[0] - 1
    place = hash_registers(classes.state[slot], classes.ints, classes.floats, slot) & room
    while classes.table[place] != slot:
        place = (place + 1) & room
    classes.table[place] = GONE
    classes.node[slot] = NOTHING
    states = classes.ids.shape[0]
    classes.counts[states] -= 1
    classes.free[classes.counts[states]] = slot


@njit(cache=True, nogil=True)
def rehash(classes: Classes) -> None:
    """Fills the hash table anew from the lists of the states."""
    classes.table[:] = EMPTY
    room = classes.table.shape[0] - 1
    states = classes.ids.shape[0]
    for state in range(states):
        for index in range(classes.counts[state]):
            slot = classes.ids[state, index]
            place = hash_registers(state, classes.ints, classes.floats, slot) & room
            while classes.table[place] != EMPTY:
                place = (place + 1) & room
            classes.table[place] = slot
    classes.counts[states + 1] = classes.counts[states]


@njit(cache=True, nogil=True)
def first_place(keys: NDArray[np.int64], count: int, key: int, after: bool) -> int:
    """The first place whose key is not below (after: is above) `key`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key or (after and keys[middle] == key):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _before(classes: Classes, slot: int, added: int) -> bool:
    """Whether a class comes before an added one of equal key: by registers.

    Not by age: an order that old starts decide would change when they are forgotten.
    """
    for index in range(classes.ints.shape[1]):
        left, right = classes.ints[slot, index], classes.new_ints[added, index]
        if left != right:
            return left < right
    for index in range(classes.floats.shape[1]):
        known, new = classes.floats[slot, index], classes.new_floats[added, index]
        if known != new:
            return known < new
    return True


@njit(cache=True, nogil=True)
def insertion(classes: Classes, state: int, key: int, added: int) -> int:
    keys, ids = classes.keys[state], classes.ids[state]
    low, high = 0, classes.counts[state]
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key or (keys[middle] == key and _before(classes, ids[middle], added)):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def sweep(classes: Classes, newest: NDArray[np.int64], low: int) -> None:
    """Forgets classes whose matches have all left the window."""
    for state in range(classes.ids.shape[0]):
        kept = 0
        for index in range(classes.counts[state]):
            slot = classes.ids[state, index]
            if newest[classes.node[slot]] < low:
                forget(classes, slot)
                continue
            classes.ids[state, kept] = slot
            classes.keys[state, kept] = classes.keys[state, index]
            kept += 1
        classes.counts[state] = kept


@njit(cache=True, nogil=True)
def clear(classes: Classes) -> None:
    states = classes.ids.shape[0]
    for state in range(states):
        for index in range(classes.counts[state]):
            forget(classes, classes.ids[state, index])
        classes.counts[state] = 0
    classes.table[:] = EMPTY
    classes.counts[states + 1] = 0
