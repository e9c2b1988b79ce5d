"""Which match nodes to extend first: online greedy maximum coverage (Algorithm 2, lines 4–20).

Candidates of one match vector have the same visits and match map, so they form one *group*. A
group's score is the sum over its bundles of how much its multiplicity m = z / visits exceeds what
was covered so far. Groups stand in a heap with the score they had at some *version*; a popped group
is up to date if no bundle of its map was covered more since then. That is asked of the version
table: a Fenwick tree of bitmaps, in which "everything covered after version v" is the union of at
most log(versions) words per word. Otherwise its score is worked out anew (it can only have become
smaller, so the heap is right: A* with an admissible bound) and it goes back.

When every bundle is covered by what is left, a new round begins: the budget then goes to further
candidates of the same vectors, one of each in turn. Groups of no known bundle come last. Within an
event only the set that is chosen matters, not its order, so a round that the budget can finish is
not put in order: greedy selection is for the first round, where groups are more than the budget.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating
from ensue.missing.kernels.history import DEPTH, History, look, ones


class Choice(NamedTuple):
    """Scratch arrays: candidates of one event, their groups, and the coverage so far."""

    nodes: NDArray[np.int32]  # [candidate]: node to extend, -1 for a seed
    targets: NDArray[np.int32]  # L-state that the event matches
    errors: NDArray[np.int32]  # after the extension
    links: NDArray[np.int32]
    vectors: NDArray[np.int32]
    holds: NDArray[np.bool_]  # its conditions on other events
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


@inner_allocating
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


@inner_allocating
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


@inner_allocating
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
    """Writes the candidates to extend to `order`; how many (at most `budget`)."""
    groups = group_candidates(choice, count, event)
    size = 0
    if history.registers[DEPTH] == 0:
        for group in range(groups):
            entry = history.slots[choice.group_vector[group]]
            score = 0.0 if entry < 0 else history.scores[entry]
            choice.score[group] = score
            choice.promise[0] += score
            if score > 0.0:
                choice.heap[size] = group
                size += 1
        if size > budget:
            for place in range(size):
                group = choice.heap[place]
                entry = history.slots[choice.group_vector[group]]
                choice.maps[group] = history.maps[0, entry]
                choice.weight[group] = 1.0 / history.counts[0, entry]
    else:
        for group in range(groups):
            visits = look(history, choice.group_vector[group], choice.maps[group])
            bits = 0
            for word in range(choice.maps.shape[1]):
                bits += ones(choice.maps[group, word])
            choice.weight[group] = 1.0 / visits if visits else 0.0
            choice.score[group] = bits * choice.weight[group]
            choice.promise[0] += choice.score[group]
            if choice.score[group] > 0.0:
                choice.heap[size] = group
                size += 1
    if size > budget:
        return greedy(choice, size, budget)
    for place in range(size):
        choice.promise[1] += choice.score[choice.heap[place]]
    chosen = _in_turn(choice, size, 0, budget)
    if chosen < budget:
        for group in range(groups):
            choice.heap[group] = group
        chosen = _in_turn(choice, groups, chosen, budget)
    return chosen


@inner_allocating
def _in_turn(choice: Choice, size: int, chosen: int, budget: int) -> int:
    """One candidate of each group in the heap's array, again and again."""
    while size and chosen < budget:
        left = 0
        for place in range(size):
            if chosen >= budget:
                return chosen
            group = choice.heap[place]
            candidate = choice.group_head[group]
            if candidate >= 0:
                choice.order[chosen] = candidate
                chosen += 1
                choice.group_head[group] = choice.onward[candidate]
                if choice.onward[candidate] >= 0:
                    choice.heap[left] = group
                    left += 1
        size = left
    return chosen


@inner_allocating
def greedy(choice: Choice, size: int, budget: int) -> int:
    """The first candidates of the groups that cover most, by lazy evaluation of their gains."""
    for group in range(size):
        choice.version[choice.heap[group]] = 0
        choice.initial[choice.heap[group]] = choice.score[choice.heap[group]]
        _sift_up(choice, group)
    chosen, latest = 0, 0
    spare = choice.heap.shape[0] - 1
    waiting = 0
    choice.covered[:] = 0.0
    while chosen < budget and size > 0:
        group = choice.heap[0]
        if choice.score[group] > 0.0:
            if covered_since(choice, group, latest):
                choice.score[group] = gain(choice, group)
                choice.version[group] = latest
                _sift_down(choice, size)
                continue
            choice.order[chosen] = choice.group_head[group]
            chosen += 1
            choice.promise[1] += choice.initial[group]
            choice.group_head[group] = choice.onward[choice.group_head[group]]
            if cover(choice, group, latest + 1):
                latest += 1
        else:
            # Nothing new to cover: such groups come last, as they were found.
            choice.heap[spare - waiting] = group
            waiting += 1
        size -= 1
        choice.heap[0] = choice.heap[size]
        if size:
            _sift_down(choice, size)
    for place in range(waiting):
        if chosen >= budget:
            break
        group = choice.heap[spare - place]
        choice.order[chosen] = choice.group_head[group]
        chosen += 1
        choice.group_head[group] = choice.onward[choice.group_head[group]]
    for version in range(1, latest + 1):
        choice.table[version] = np.uint64(0)
    return chosen
