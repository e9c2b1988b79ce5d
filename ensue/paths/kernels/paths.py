"""Enumerating paths: the product of a graph and an automaton, level by level, in an arena.

A partial path is one row of the arena: its parent, the node it has reached, the symbol and edge it
crossed last, its state and the origin it began at. Extending it appends a row, so paths share their
beginnings, and those of several queries too while they are in one state (SHARP §3.1). Level order
gives shortest paths first. Cost: one row of 24 bytes per partial path; trail and simple look back
along the parents, O(length) per extension.

`graph` is (offset, neighbour, edge, entry_symbol, symbols) of `paths/kernels/graph.py`; `machine`
is (table, visit_offset, visit_symbol, symbol_class, entry_class, accept_offset, accept_query):
state s can leave over the symbols visit_symbol[visit_offset[s] ...]; the class of an entry is its
symbol's, or entry_class of the entry where conditions decide (symbol_class < 0).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.hashing import longer
from ensue.paths.kernels.graph import first_entry, state_after

WALK, TRAIL, SIMPLE, NO_RETURN = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def _repeats(
    mode: int,
    parent: NDArray[np.int32],
    node: NDArray[np.int32],
    via_edge: NDArray[np.int32],
    at: int,
    next_node: int,
    next_edge: int,
) -> bool:
    """Whether the extension of partial path `at` would use an edge (trail) or node again."""
    while at >= 0:
        if mode == TRAIL:
            if via_edge[at] == next_edge:
                return True
        elif node[at] == next_node:
            return True
        at = parent[at]
    return False


@njit(cache=True, nogil=True)
def expand_paths(
    graph: Any,
    machine: Any,
    origin_node: NDArray[np.int32],
    origin_state: NDArray[np.int32],
    origin_asks: NDArray[np.int32],  # how many queries the origin has
    queries: int,
    hops: int,
    mode: int,
    limit: int,  # per origin and query; 0: none
    wanted: NDArray[np.bool_],  # per node: may end there; empty: anywhere
    most: int,  # partial paths
) -> tuple[Any, ...]:
    """Arena columns, the rows that end a path with their query and length, work, and whether
    `most` was reached."""
    offset, neighbour, edge, entry_symbol, symbols = graph
    table, visit_offset, visit_symbol, symbol_class, entry_class, accept_offset, accept_query = (
        machine
    )
    origins = origin_node.shape[0]
    size = max(1024, 4 * origins)
    parent = np.empty(size, np.int32)
    node = np.empty(size, np.int32)
    via_symbol = np.empty(size, np.int32)
    via_edge = np.empty(size, np.int32)
    state = np.empty(size, np.int32)
    origin = np.empty(size, np.int32)
    found = np.empty(size, np.int32)
    found_query = np.empty(size, np.int32)
    found_length = np.empty(size, np.int32)
    taken = np.zeros(origins * queries if limit else 0, np.int32)
    full = np.zeros(origins, np.int32)
    founds = count = work = 0

    for o in range(origins):
        if origin_state[o] < 0:
            continue
        parent[count] = -1
        node[count] = origin_node[o]
        via_symbol[count] = -1
        via_edge[count] = -1
        state[count] = origin_state[o]
        origin[count] = o
        count += 1
    begin, end, depth = 0, 0, 0
    while True:
        # The rows of this level that end a path.
        begin, end = end, count
        for at in range(begin, end):
            s = state[at]
            if accept_offset[s] == accept_offset[s + 1]:
                continue
            if wanted.shape[0] and not wanted[node[at]]:
                continue
            o = origin[at]
            for a in range(accept_offset[s], accept_offset[s + 1]):
                if limit:
                    slot = o * queries + accept_query[a]
                    if taken[slot] >= limit:
                        continue
                    taken[slot] += 1
                    if taken[slot] == limit:
                        full[o] += 1
                if founds == found.shape[0]:
                    found = longer(found)
                    found_query = longer(found_query)
                    found_length = longer(found_length)
                found[founds] = at
                found_query[founds] = accept_query[a]
                found_length[founds] = depth
                founds += 1
        if begin == end or depth == hops:
            break
        depth += 1
        for at in range(begin, end):
            o = origin[at]
            if limit and full[o] == origin_asks[o]:
                continue
            here, s = node[at], state[at]
            for v in range(visit_offset[s], visit_offset[s + 1]):
                symbol = visit_symbol[v]
                low = first_entry(offset, entry_symbol, symbols, here, symbol)
                high = first_entry(offset, entry_symbol, symbols, here, symbol + 1)
                for entry in range(low, high):
                    following = state_after(table, symbol_class, entry_class, s, symbol, entry)
                    if following < 0:
                        continue
                    there = neighbour[entry]
                    if mode == NO_RETURN:
                        if depth > 1 and there == origin_node[o]:
                            continue
                    elif mode != WALK and _repeats(
                        mode, parent, node, via_edge, at, there, edge[entry]
                    ):
                        continue
                    if count == parent.shape[0]:
                        if count >= most:
                            return (
                                parent, node, via_symbol, origin, found[:founds],
                                found_query[:founds], found_length[:founds], work, True,
                            )  # fmt: skip
                        parent = longer(parent)
                        node = longer(node)
                        via_symbol = longer(via_symbol)
                        via_edge = longer(via_edge)
                        state = longer(state)
                        origin = longer(origin)
                    parent[count] = at
                    node[count] = there
                    via_symbol[count] = symbol
                    via_edge[count] = edge[entry]
                    state[count] = following
                    origin[count] = o
                    count += 1
                    work += 1
    return (
        parent, node, via_symbol, origin, found[:founds],
        found_query[:founds], found_length[:founds], work, False,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def write_paths(
    parent: NDArray[np.int32],
    node: NDArray[np.int32],
    via_symbol: NDArray[np.int32],
    rows: NDArray[np.int32],
    offset: NDArray[np.int64],  # of each path's labels; its nodes begin one later per path before
    nodes: NDArray[np.int32],
    labels: NDArray[np.int32],
) -> None:
    """Unrolls paths from their last row back to their origin."""
    for p in range(rows.shape[0]):
        at = rows[p]
        place = offset[p + 1]
        while at >= 0:
            nodes[place + p] = node[at]
            place -= 1
            if parent[at] >= 0:
                labels[place] = via_symbol[at]
            at = parent[at]


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
