"""Which match nodes to extend first: online greedy maximum coverage (Algorithm 2, lines 4–20).

Candidates of one match vector have the same visits and match map, so they form one *group*. A
group's score is the sum over its bundles of how much its multiplicity m = z / visits exceeds what
was covered so far. Groups stand in a heap with the score they had at some *version*; a popped group
is up to date if no bundle of its map was covered more since then. That is asked of the version
table: a Fenwick tree of bitmaps, in which "everything covered after version v" is the union of at
most log(versions) words per word. Otherwise its score is worked out anew (it can only have become
smaller, so the heap is right: A* with an admissible bound) and it goes back.

When every bundle is covered by what is left, a new round begins with nothing covered: the budget
then goes to further candidates of the same vectors. Groups of no known bundle come last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.acep_history import DEPTH, History, look, ones


class Choice(NamedTuple):
    """Scratch arrays: candidates of one event, their groups, and the coverage so far."""

    nodes: NDArray[np.int32]  # [candidate]: node to extend, -1 for a seed
    targets: NDArray[np.int32]  # L-state that the event matches
    errors: NDArray[np.int32]  # after the extension
    links: NDArray[np.int32]
    vectors: NDArray[np.int32]
    onward: NDArray[np.int32]  # next candidate of the group
    group_of: NDArray[np.int32]  # [vector]
    stamps: NDArray[np.int64]  # [vector]: event in which group_of was set
    group_vector: NDArray[np.int32]
    group_head: NDArray[np.int32]
    weight: NDArray[np.float64]  # m, with z = 1
    maps: NDArray[np.uint64]  # [group, word]
    score: NDArray[np.float64]
    initial: NDArray[np.float64]  # score before anything was covered
    version: NDArray[np.int64]
    heap: NDArray[np.int32]  # groups that wait for the next round stand at its end
    covered: NDArray[np.float64]  # max[bundle]
    table: NDArray[np.uint64]  # Fenwick tree over versions, [version, word]
    order: NDArray[np.int32]  # candidates as chosen
    promise: NDArray[np.float64]  # scores of all groups, and of those extended; summed over events


@njit(cache=True, nogil=True)
def _sift_up(choice: Choice, place: int) -> None:
    heap, score = choice.heap, choice.score
    moving = heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        if score[heap[parent]] >= score[moving]:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = moving


@njit(cache=True, nogil=True)
def _sift_down(choice: Choice, size: int) -> None:
    heap, score = choice.heap, choice.score
    moving, place = heap[0], 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and score[heap[child + 1]] > score[heap[child]]:
            child += 1
        if score[moving] >= score[heap[child]]:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moving


@njit(cache=True, nogil=True)
def covered_since(choice: Choice, group: int, latest: int) -> bool:
    """Whether a bundle of the group's map was covered more after the group's version."""
    version = choice.version[group] + 1
    while version <= latest:
        for word in range(choice.maps.shape[1]):
            if choice.table[version, word] & choice.maps[group, word]:
                return True
        version += version & -version
    return False


@njit(cache=True, nogil=True)
def gain(choice: Choice, group: int) -> float:
    """What extending a candidate of the group would cover beyond what is covered."""
    total = 0.0
    weight = choice.weight[group]
    for word in range(choice.maps.shape[1]):
        left = choice.maps[group, word]
        while left:
            low = left & (~left + np.uint64(1))
            excess = weight - choice.covered[64 * word + ones(low - np.uint64(1))]
            if excess > 0.0:
                total += excess
            left ^= low
    return total


@njit(cache=True, nogil=True)
def cover(choice: Choice, group: int, version: int) -> bool:
    """Covers the group's bundles; their change becomes part of the table at `version`."""
    changed = False
    weight = choice.weight[group]
    for word in range(choice.maps.shape[1]):
        left = choice.maps[group, word]
        update = np.uint64(0)
        while left:
            low = left & (~left + np.uint64(1))
            bundle = 64 * word + ones(low - np.uint64(1))
            if choice.covered[bundle] < weight:
                choice.covered[bundle] = weight
                update |= low
            left ^= low
        if update:
            changed = True
            place = version
            while place > 0:
                choice.table[place, word] |= update
                place -= place & -place
    return changed


@njit(cache=True, nogil=True)
def group_candidates(choice: Choice, count: int, event: int) -> int:
    """Puts candidates of one vector together; the number of groups."""
    groups = 0
    for candidate in range(count):
        vector = choice.vectors[candidate]
        if choice.stamps[vector] != event:
            choice.stamps[vector] = event
            choice.group_of[vector] = groups
            choice.group_vector[groups] = vector
            choice.group_head[groups] = -1
            groups += 1
        group = choice.group_of[vector]
        choice.onward[candidate] = choice.group_head[group]
        choice.group_head[group] = candidate
    return groups


@njit(cache=True, nogil=True)
def choose(choice: Choice, history: History, count: int, event: int, budget: int) -> int:
    """Writes the candidates to extend, best first, to `order`; how many (at most `budget`)."""
    groups = group_candidates(choice, count, event)
    full = history.registers[DEPTH] == 0
    size = 0
    for group in range(groups):
        vector = choice.group_vector[group]
        if full:
            entry = history.slots[vector]
            choice.score[group] = 0.0 if entry < 0 else history.scores[entry]
            if choice.score[group] > 0.0:
                choice.maps[group] = history.maps[0, entry]
                choice.weight[group] = 1.0 / history.counts[0, entry]
        else:
            visits = look(history, vector, choice.maps[group])
            bits = 0
            for word in range(choice.maps.shape[1]):
                bits += ones(choice.maps[group, word])
            choice.weight[group] = 1.0 / visits if visits else 0.0
            choice.score[group] = bits * choice.weight[group]
        choice.version[group] = 0
        choice.initial[group] = choice.score[group]
        choice.promise[0] += choice.score[group]
        if choice.score[group] > 0.0:
            choice.heap[size] = group
            size += 1
            _sift_up(choice, size - 1)
    chosen, waiting, rounds = 0, 0, 0
    latest = 0
    capacity = choice.table.shape[0] - 1
    choice.covered[:] = 0.0
    while chosen < budget and size > 0:
        group = choice.heap[0]
        if choice.score[group] > 0.0 and covered_since(choice, group, latest):
            choice.score[group] = gain(choice, group)
            choice.version[group] = latest
            _sift_down(choice, size)
            continue
        if choice.score[group] > 0.0:
            candidate = choice.group_head[group]
            choice.order[chosen] = candidate
            chosen += 1
            if rounds == 0:
                choice.promise[1] += choice.initial[group]
            choice.group_head[group] = choice.onward[candidate]
            if latest < capacity and cover(choice, group, latest + 1):
                latest += 1
            choice.score[group] = 0.0
            choice.version[group] = latest
        # Nothing new to cover: it waits for the next round, or leaves if no candidate is left.
        size -= 1
        choice.heap[0] = choice.heap[size]
        if size:
            _sift_down(choice, size)
        if choice.group_head[group] >= 0:
            choice.heap[choice.heap.shape[0] - 1 - waiting] = group
            waiting += 1
        if size == 0 and waiting:
            size = _next_round(choice, waiting, latest)
            waiting, latest = 0, 0
            rounds += 1
    if chosen < budget:
        chosen = _unknown(choice, groups, chosen, budget)
    for version in range(1, latest + 1):
        choice.table[version] = np.uint64(0)
    return chosen


@njit(cache=True, nogil=True)
def _next_round(choice: Choice, waiting: int, latest: int) -> int:
    """All groups that wait enter the heap again, nothing being covered."""
    for version in range(1, latest + 1):
        choice.table[version] = np.uint64(0)
    choice.covered[:] = 0.0
    last = choice.heap.shape[0] - 1
    size = 0
    for place in range(waiting):
        group = choice.heap[last - place]
        choice.score[group] = choice.initial[group]
        choice.version[group] = 0
        choice.heap[size] = group
        size += 1
        _sift_up(choice, size - 1)
    return size


@njit(cache=True, nogil=True)
def _unknown(choice: Choice, groups: int, chosen: int, budget: int) -> int:
    """Candidates of which the history knows no bundle, one of each vector in turn."""
    more = True
    while more and chosen < budget:
        more = False
        for group in range(groups):
            candidate = choice.group_head[group]
            if candidate >= 0 and chosen < budget:
                choice.order[chosen] = candidate
                chosen += 1
                choice.group_head[group] = choice.onward[candidate]
                more = True
    return chosen
