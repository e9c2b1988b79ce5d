"""Distinct end points without enumerating paths: breadth-first search of the product.

Two ways to remember what has been seen. `search_ends` keeps a hash set per origin: its memory is
that of one origin's search, and it wins while searches are small. `search_ends_bits` advances 64
origins together, one bit each, over one word per (node, state): an edge is followed once for all
origins whose bit arrives together, which wins where searches overlap (loops over a large part of
the graph). docs/decisions has the measurements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ensue.kernels.calls import inner_allocating
from ensue.kernels.hashing import grown, slot_of
from ensue.kernels.stop import asked
from ensue.paths.kernels.graph import (
    Adjacency,
    Moves,
    Search,
    before_moves,
    doubled,
    next_move,
)
from ensue.paths.kernels.paths import NO_RETURN

_NO_VALUES = np.zeros(0, np.int64)


@njit(cache=True, nogil=True)
def search_ends(
    graph: Adjacency,
    automaton: Moves,
    search: Search,
    several: bool,  # two states can accept one query at one node: ends need a set of their own
    count_only: bool,
) -> tuple[Any, ...]:
    """Rows of origin, node and query, one per distinct end; counts per origin and query; work."""
    accept_offset, accept_query = automaton.accept_offset, automaton.accept_query
    origin_node, origin_state, wanted = search.origin_node, search.origin_state, search.wanted
    states, no_return = automaton.table.shape[0], search.mode == NO_RETURN
    queries, limit = search.queries, search.limit
    found = np.empty((1024, 3), np.int32)  # origin, node, query
    counts = np.zeros((origin_node.shape[0] if count_only else 0, queries), np.int64)
    taken = np.zeros(queries, np.int64)
    keys = np.zeros(1024, np.int64)
    stamps = np.zeros(1024, np.int32)
    end_keys = np.zeros(1024, np.int64)
    end_stamps = np.zeros(1024, np.int32)
    queue = np.empty((1024, 2), np.int32)  # node, state
    outs = work = 0
    for o in range(origin_node.shape[0]):
        generation = o + 1
        if origin_state[o] < 0:
            continue
        start = origin_node[o]
        queue[0, 0], queue[0, 1] = start, origin_state[o]
        key = np.int64(start) * states + origin_state[o]
        slot = slot_of(keys, stamps, generation, key)
        keys[slot] = key
        stamps[slot] = generation
        used, end_used = 1, 0
        if limit:
            taken[:] = 0
        begin, end, depth = 0, 0, 0
        while True:
            begin, end = end, used
            for at in range(begin, end):
                here, s = queue[at, 0], queue[at, 1]
                if accept_offset[s] == accept_offset[s + 1]:
                    continue
                if wanted.shape[0] and not wanted[here]:
                    continue
                for a in range(accept_offset[s], accept_offset[s + 1]):
                    query = accept_query[a]
                    if several:
                        key = np.int64(here) * queries + query
                        slot = slot_of(end_keys, end_stamps, generation, key)
                        if end_stamps[slot] == generation:
                            continue
                        end_keys[slot] = key
                        end_stamps[slot] = generation
                        end_used += 1
                        if 2 * end_used > end_keys.shape[0]:
                            end_keys, end_stamps, _ = grown(
                                end_keys, end_stamps, _NO_VALUES, generation
                            )
                    if limit:
                        if taken[query] >= limit:
                            continue
                        taken[query] += 1
                    if count_only:
                        counts[o, query] += 1
                        continue
                    if outs == found.shape[0]:
                        found = doubled(found)
                    found[outs, 0], found[outs, 1], found[outs, 2] = o, here, query
                    outs += 1
            if begin == end or depth == search.hops:
                break
            depth += 1
            for at in range(begin, end):
                if asked():
                    return found[:outs], counts, work
                here, s = queue[at, 0], queue[at, 1]
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
                    if stamps[slot] == generation:
                        continue
                    keys[slot] = key
                    stamps[slot] = generation
                    if used == queue.shape[0]:
                        queue = doubled(queue)
                    queue[used, 0], queue[used, 1] = there, following
                    used += 1
                    if 2 * used > keys.shape[0]:
                        keys, stamps, _ = grown(keys, stamps, _NO_VALUES, generation)
    return found[:outs], counts, work


@inner_allocating
def _lowest(word: np.uint64) -> int:
    """The number of the lowest bit that is set."""
    place = 0
    for width in (32, 16, 8, 4, 2, 1):
        if word & ((np.uint64(1) << np.uint64(width)) - np.uint64(1)) == 0:
            word >>= np.uint64(width)
            place += width
    return place


@njit(cache=True, nogil=True)
def search_ends_bits(
    graph: Adjacency,
    automaton: Moves,
    search: Search,
    first_state: int,
    count_only: bool,
) -> tuple[Any, ...]:
    """As `search_ends`, for one query and many origins; rows of origin and node."""
    origin_node, wanted = search.origin_node, search.wanted
    accept_offset, states = automaton.accept_offset, automaton.table.shape[0]
    nodes, no_return = wanted.shape[0], search.mode == NO_RETURN
    seen = np.zeros(nodes * states, np.uint64)
    now = np.zeros(nodes * states, np.uint64)
    later = np.zeros(nodes * states, np.uint64)
    ended = np.zeros(nodes, np.uint64)
    own = np.zeros(nodes, np.uint64)  # bits of the origins that are this node
    frontier = np.empty(1024, np.int64)
    following_frontier = np.empty(1024, np.int64)
    found = np.empty((1024, 2), np.int32)  # origin, node
    counts = np.zeros(origin_node.shape[0], np.int64)
    planes = np.zeros(64, np.uint64)
    one = np.uint64(1)
    none = np.uint64(0)
    outs = work = 0
    for base in range(0, origin_node.shape[0], 64):
        if base:
            seen[:] = none
            ended[:] = none
        lanes = min(64, origin_node.shape[0] - base)
        size = 0
        for lane in range(lanes):
            bit = one << np.uint64(lane)
            own[origin_node[base + lane]] |= bit
            key = np.int64(origin_node[base + lane]) * states + first_state
            if now[key] == none:
                if size == frontier.shape[0]:
                    frontier = doubled(frontier)
                frontier[size] = key
                size += 1
            now[key] |= bit
            seen[key] |= bit
        depth = 0
        while size:
            for f in range(size):
                if asked():
                    return found[:outs], counts, work
                s, here = frontier[f] % states, frontier[f] // states
                if accept_offset[s] == accept_offset[s + 1] or not wanted[here]:
                    continue
                fresh = now[frontier[f]] & ~ended[here]
                ended[here] |= fresh
                if count_only:
                    continue
                while fresh:
                    lane = _lowest(fresh)
                    fresh &= fresh - one
                    if outs == found.shape[0]:
                        found = doubled(found)
                    found[outs, 0], found[outs, 1] = base + lane, here
                    outs += 1
            if depth == search.hops:
                for f in range(size):
                    now[frontier[f]] = none
                break
            depth += 1
            following_size = 0
            for f in range(size):
                key = frontier[f]
                bits = now[key]
                now[key] = none
                s, here = key % states, key // states
                move = before_moves(automaton, s)
                while True:
                    move, following = next_move(graph, automaton, s, here, move)
                    if following < 0:
                        break
                    work += 1
                    there = graph.neighbour[move.entry]
                    next_key = np.int64(there) * states + following
                    fresh = bits & ~seen[next_key]
                    if no_return and depth > 1:
                        fresh &= ~own[there]
                    if fresh == none:
                        continue
                    seen[next_key] |= fresh
                    if later[next_key] == none:
                        if following_size == following_frontier.shape[0]:
                            following_frontier = doubled(following_frontier)
                        following_frontier[following_size] = next_key
                        following_size += 1
                    later[next_key] |= fresh
            now, later = later, now
            frontier, following_frontier = following_frontier, frontier
            size = following_size
        for lane in range(lanes):
            own[origin_node[base + lane]] = none
        if count_only:
            # Columns are added as bits: planes[b] holds bit b of every lane's count.
            planes[:] = none
            for here in range(nodes):
                carry, place = ended[here], 0
                while carry:
                    planes[place], carry = planes[place] ^ carry, planes[place] & carry
                    place += 1
            for place in range(64):
                for lane in range(lanes):
                    bit = (planes[place] >> np.uint64(lane)) & one
                    counts[base + lane] += np.int64(bit) << place
    return found[:outs], counts, work
