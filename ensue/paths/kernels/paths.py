"""Enumerating paths: the product of a graph and an automaton, level by level, in an arena.

A partial path is one row of the arena: its parent, the node it has reached, the symbol and edge it
crossed last, its state and the origin it began at. Extending it appends a row, so paths share their
beginnings, and those of several queries too while they are in one state (SHARP §3.1). Level order
gives shortest paths first. Cost: one row of 24 bytes per partial path; trail and simple look back
along the parents, O(length) per extension.

`graph` and `automaton` are those of `paths/kernels/graph.py`.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_inlined
from ensue.kernels.stop import asked
from ensue.paths.kernels.graph import (
    Adjacency,
    Moves,
    Search,
    before_moves,
    doubled,
    next_move,
)

WALK, TRAIL, SIMPLE, NO_RETURN = 0, 1, 2, 3
# Columns of a partial path's row, in all searches; ORIGIN in the arena.
PARENT, NODE, SYMBOL, EDGE, STATE, ORIGIN = range(6)
ROW = 6
Rows = NDArray[np.int32]


@inner_inlined
def repeats(mode: int, rows: Rows, at: int, node: int, edge: int, start: int) -> bool:
    """Whether the partial path of row `at` may not go on over this edge to this node."""
    if mode == WALK:
        return False
    if mode == NO_RETURN:
        return rows[at, PARENT] >= 0 and node == start
    while at >= 0:
        if mode == TRAIL:
            if rows[at, EDGE] == edge:
                return True
        elif rows[at, NODE] == node:
            return True
        at = rows[at, PARENT]
    return False


@njit(cache=True, nogil=True)
def expand_paths(
    graph: Adjacency,
    automaton: Moves,
    search: Search,
    most: int,  # partial paths
) -> tuple[Rows, Rows, int, bool]:
    """The arena; rows of it that end a path, with their query and length; work; and whether `most`
    was reached."""
    accept_offset, accept_query = automaton.accept_offset, automaton.accept_query
    origin_node, origin_state, wanted = search.origin_node, search.origin_state, search.wanted
    queries, mode, limit = search.queries, search.mode, search.limit
    origins = origin_node.shape[0]
    arena = np.empty((max(1024, 4 * origins), ROW), np.int32)
    found = np.empty((1024, 3), np.int32)
    taken = np.zeros(origins * queries if limit else 0, np.int32)
    full = np.zeros(origins, np.int32)
    founds = count = work = 0

    for o in range(origins):
        if origin_state[o] < 0:
            continue
        arena[count, PARENT] = arena[count, SYMBOL] = arena[count, EDGE] = -1
        arena[count, NODE], arena[count, STATE] = origin_node[o], origin_state[o]
        arena[count, ORIGIN] = o
        count += 1
    begin, end, depth = 0, 0, 0
    while True:
        # The rows of this level that end a path.
        begin, end = end, count
        for at in range(begin, end):
            s, o = arena[at, STATE], arena[at, ORIGIN]
            if accept_offset[s] == accept_offset[s + 1]:
                continue
            if wanted.shape[0] and not wanted[arena[at, NODE]]:
                continue
            for a in range(accept_offset[s], accept_offset[s + 1]):
                if limit:
                    slot = o * queries + accept_query[a]
                    if taken[slot] >= limit:
                        continue
                    taken[slot] += 1
                    if taken[slot] == limit:
                        full[o] += 1
                if founds == found.shape[0]:
                    found = doubled(found)
                found[founds, 0], found[founds, 1], found[founds, 2] = at, accept_query[a], depth
                founds += 1
        if begin == end or depth == search.hops:
            return arena, found[:founds], work, False
        depth += 1
        for at in range(begin, end):
            if asked():
                return arena, found[:founds], work, False
            here, s, o = arena[at, NODE], arena[at, STATE], arena[at, ORIGIN]
            if limit and full[o] == search.origin_asks[o]:
                continue
            move = before_moves(automaton, s)
            while True:
                move, following = next_move(graph, automaton, s, here, move)
                if following < 0:
                    break
                there, edge = graph.neighbour[move.entry], graph.edge[move.entry]
                if repeats(mode, arena, at, there, edge, origin_node[o]):
                    continue
                if count == arena.shape[0]:
                    if count >= most:
                        return arena, found[:founds], work, True
                    arena = doubled(arena)
                arena[count, PARENT], arena[count, NODE] = at, there
                arena[count, SYMBOL], arena[count, EDGE] = automaton.visit_symbol[move.visit], edge
                arena[count, STATE], arena[count, ORIGIN] = following, o
                count += 1
                work += 1


@njit(cache=True, nogil=True)
def write_paths(
    arena: Rows,
    rows: NDArray[np.int32],
    offset: NDArray[np.int64],  # of each path's labels; its nodes begin one later per path before
    nodes: NDArray[np.int32],
    labels: NDArray[np.int32],
) -> None:
    """Unrolls paths from their last row back to their origin."""
    for p in range(rows.shape[0]):
        at, place = rows[p], offset[p + 1]
        while at >= 0:
            nodes[place + p] = arena[at, NODE]
            place -= 1
            if arena[at, PARENT] >= 0:
                labels[place] = arena[at, SYMBOL]
            at = arena[at, PARENT]


@njit(cache=True, nogil=True)
def reverse_paths(
    offset: NDArray[np.int64],
    nodes: NDArray[np.int32],
    symbols: NDArray[np.int32],
    labels: int,
) -> None:
    """Turns each path round in place: its steps are then crossed the other way."""
    for p in range(offset.shape[0] - 1):
        low, high = offset[p] + p, offset[p + 1] + p
        while low < high:
            nodes[low], nodes[high] = nodes[high], nodes[low]
            low += 1
            high -= 1
        low, high = offset[p], offset[p + 1] - 1
        while low < high:
            symbols[low], symbols[high] = symbols[high], symbols[low]
            low += 1
            high -= 1
        for at in range(offset[p], offset[p + 1]):
            symbols[at] = symbols[at] + labels if symbols[at] < labels else symbols[at] - labels
