"""Where classes of partial matches lie: slots with a free list, a hash table, a list per state.

A class is (state, registers), see `runs.py`. The table over (state, registers) finds the one
to merge with; each state's list is sorted by what a comparison asks for, then by registers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.guards.registers import hash_registers, same_registers
from ensue.kernels.calls import borrowing, inner, inner_allocating
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
    sorted: NDArray[np.int64]  # per state: entries that were there before the event
    new_state: NDArray[np.int32]
    new_node: NDArray[np.int32]
    new_ints: NDArray[np.int64]
    new_floats: NDArray[np.float64]


@inner
def same_class(classes: Classes, slot: int, state: int, added: int) -> bool:
    return classes.state[slot] == state and same_registers(
        classes.ints, classes.floats, slot, classes.new_ints, classes.new_floats, added
    )


@inner
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


@borrowing
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


@inner
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


@inner
def _before(classes: Classes, slot: int, key: int, other: int, other_key: int) -> bool:
    """Whether a class comes before another one of its state: by key, then by registers.

    Not by age: an order that old starts decide would change when they are forgotten.
    """
    if key != other_key:
        return key < other_key
    for index in range(classes.ints.shape[1]):
        left, right = classes.ints[slot, index], classes.ints[other, index]
        if left != right:
            return left < right
    for index in range(classes.floats.shape[1]):
        known, new = classes.floats[slot, index], classes.floats[other, index]
        if known != new:
            return known < new
    return True


@inner
def merge(classes: Classes, state: int, count: int) -> None:
    """Sorts a state's list, whose first `count` entries are sorted."""
    keys, ids = classes.keys[state], classes.ids[state]
    if classes.counts[state] > count + 1:
        _merge_many(classes, state, count)
        return
    key, slot = keys[count], ids[count]
    to = count
    while to > 0 and not _before(classes, ids[to - 1], keys[to - 1], slot, key):
        keys[to], ids[to] = keys[to - 1], ids[to - 1]
        to -= 1
    keys[to], ids[to] = key, slot


@inner_allocating
def _merge_many(classes: Classes, state: int, count: int) -> None:
    keys, ids, upto = classes.keys[state], classes.ids[state], classes.counts[state]
    order = np.argsort(keys[count:upto], kind="mergesort")
    new_keys, new_ids = keys[count:upto][order], ids[count:upto][order]
    for place in range(1, upto - count):  # of equal keys: nearly in order, as classes are visited
        key, slot, to = new_keys[place], new_ids[place], place
        while to > 0 and not _before(classes, new_ids[to - 1], new_keys[to - 1], slot, key):
            new_keys[to], new_ids[to] = new_keys[to - 1], new_ids[to - 1]
            to -= 1
        new_keys[to], new_ids[to] = key, slot
    old, to = count - 1, upto - 1
    for place in range(upto - count - 1, -1, -1):
        key, slot = new_keys[place], new_ids[place]
        while old >= 0 and not _before(classes, ids[old], keys[old], slot, key):
            keys[to], ids[to] = keys[old], ids[old]
            old -= 1
            to -= 1
        keys[to], ids[to] = key, slot
        to -= 1


@borrowing
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


@inner
def clear(classes: Classes) -> None:
    states = classes.ids.shape[0]
    for state in range(states):
        for index in range(classes.counts[state]):
            forget(classes, classes.ids[state, index])
        classes.counts[state] = 0
    classes.table[:] = EMPTY
    classes.counts[states + 1] = 0
