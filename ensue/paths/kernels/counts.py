"""Counting paths without enumerating them, and telling whether there are finitely many.

The number of walks of each length into every (node, state) follows from those one step shorter:
cost O(levels x edges of the product), whatever the number of paths. Only additions occur, so exact
results of any size come from counting modulo several primes (`paths/counts.py` combines
them); a floating-point copy tells how large the result is.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.hashing import grown, slot_of
from ensue.kernels.stop import asked
from ensue.paths.kernels.graph import (
    Adjacency,
    Moves,
    Place,
    Search,
    before_moves,
    doubled,
    next_move,
)
from ensue.paths.kernels.paths import NO_RETURN


@njit(cache=True, nogil=True)
def count_paths(
    graph: Adjacency,
    automaton: Moves,
    search: Search,
    modulus: np.uint64,
) -> tuple[NDArray[np.uint64], NDArray[np.float64], int]:
    """Counts modulo `modulus` and as floats, per origin and query; and the work."""
    accept_offset, accept_query = automaton.accept_offset, automaton.accept_query
    origin_node, origin_state, wanted = search.origin_node, search.origin_state, search.wanted
    states, no_return = automaton.table.shape[0], search.mode == NO_RETURN
    exact = np.zeros((origin_node.shape[0], search.queries), np.uint64)
    rough = np.zeros((origin_node.shape[0], search.queries), np.float64)
    keys = np.zeros(1024, np.int64)
    stamps = np.zeros(1024, np.int32)
    index = np.zeros(1024, np.int64)
    now_key = np.empty(1024, np.int64)
    now_count = np.empty(1024, np.uint64)
    now_rough = np.empty(1024, np.float64)
    next_key = np.empty(1024, np.int64)
    next_count = np.empty(1024, np.uint64)
    next_rough = np.empty(1024, np.float64)
    generation = work = 0
    for o in range(origin_node.shape[0]):
        if origin_state[o] < 0:
            continue
        start = origin_node[o]
        now_key[0] = np.int64(start) * states + origin_state[o]
        now_count[0] = 1
        now_rough[0] = 1.0
        size, depth = 1, 0
        while size:
            for f in range(size):
                s, here = now_key[f] % states, now_key[f] // states
                if wanted.shape[0] and not wanted[here]:
                    continue
                for a in range(accept_offset[s], accept_offset[s + 1]):
                    query = accept_query[a]
                    exact[o, query] = (exact[o, query] + now_count[f]) % modulus
                    rough[o, query] += now_rough[f]
            if depth == search.hops:
                break
            depth += 1
            generation += 1
            if generation == 2**31 - 1:
                stamps[:] = 0
                generation = 1
            used = 0
            for f in range(size):
                if asked():
                    return exact, rough, work
                s, here = now_key[f] % states, now_key[f] // states
                move = before_moves(automaton, s)
                while True:
                    move, following = next_move(graph, automaton, s, here, move)
                    if following < 0:
                        break
                    there = graph.neighbour[move.entry]
                    if no_return and depth > 1 and there == start:
                        continue
                    work += 1
                    key = np.int64(there) * states + following
                    slot = slot_of(keys, stamps, generation, key)
                    if stamps[slot] != generation:
                        keys[slot] = key
                        stamps[slot] = generation
                        index[slot] = used
                        if used == next_key.shape[0]:
                            next_key, next_count = doubled(next_key), doubled(next_count)
                            next_rough = doubled(next_rough)
                        next_key[used] = key
                        next_count[used] = 0
                        next_rough[used] = 0.0
                        used += 1
                        if 2 * used > keys.shape[0]:
                            keys, stamps, index = grown(keys, stamps, index, generation)
                            slot = slot_of(keys, stamps, generation, key)
                    at = index[slot]
                    next_count[at] = (next_count[at] + now_count[f]) % modulus
                    next_rough[at] += now_rough[f]
            now_key, next_key = next_key, now_key
            now_count, next_count = next_count, now_count
            now_rough, next_rough = next_rough, now_rough
            size = used
    return exact, rough, work


@njit(cache=True, nogil=True)
def meets_cycle(graph: Adjacency, automaton: Moves, search: Search) -> int:
    """A node on a cycle of the product that some origin reaches, or -1: depth-first, O(product)."""
    origin_node, origin_state = search.origin_node, search.origin_state
    states = automaton.table.shape[0]
    keys = np.zeros(1024, np.int64)
    stamps = np.zeros(1024, np.int32)
    color = np.zeros(1024, np.int64)  # 1: on the present path, 2: done
    used = 0
    stack = np.empty((1024, 4), np.int64)  # the key, and where its moves go on
    for o in range(origin_node.shape[0]):
        if origin_state[o] < 0:
            continue
        depth = 0
        pending = np.int64(origin_node[o]) * states + origin_state[o]
        while True:
            if asked():
                return -1
            if pending >= 0:
                slot = slot_of(keys, stamps, 1, pending)
                if stamps[slot] == 1:
                    if color[slot] == 1:
                        return pending // states
                else:
                    keys[slot] = pending
                    stamps[slot] = 1
                    color[slot] = 1
                    used += 1
                    if 2 * used > keys.shape[0]:
                        keys, stamps, color = grown(keys, stamps, color, 1)
                    if depth == stack.shape[0]:
                        stack = doubled(stack)
                    stack[depth, 0] = pending
                    stack[depth, 1] = automaton.visit_offset[pending % states] - 1
                    stack[depth, 2:] = 0
                    depth += 1
                pending = -1
            if depth == 0:
                break
            top = stack[depth - 1]
            key = top[0]
            now = Place(top[1], top[2], top[3])
            now, following = next_move(graph, automaton, key % states, key // states, now)
            top[1], top[2], top[3] = now
            if following >= 0:
                pending = np.int64(graph.neighbour[top[2]]) * states + following
            else:
                color[slot_of(keys, stamps, 1, key)] = 2
                depth -= 1
    return -1
