"""The first paths from a start, shortest first, without keeping a level: iterative deepening.

A hub's second level may have tens of millions of partial paths when the first thousand answers are
all that is wanted. So the search goes down to one length after the other and writes the paths of
exactly that length, depth first, until the limit is reached. Children come in the same order as in
`paths/kernels/paths.py`, so the answers and their order are the same. Memory is one path. Work:
each length walks the shorter beginnings again; `steps` (edges looked at, in all) bounds it. A
beginning whose state needs more steps to accept than are left is not entered.

`graph` and `machine` are as in `paths/kernels/paths.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.hashing import longer
from ensue.paths.kernels.graph import first_entry, state_after
from ensue.paths.kernels.paths import NO_RETURN, TRAIL, WALK

NEVER = np.int32(2**31 - 1)


@njit(cache=True, nogil=True)
def steps_to_accept(
    table: NDArray[np.int32], accept_offset: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The least number of steps from each state to an accepting one; NEVER where there is none."""
    states, classes = table.shape
    steps = np.full(states, NEVER, np.int32)
    for s in range(states):
        if accept_offset[s] < accept_offset[s + 1]:
            steps[s] = 0
    changed = True
    while changed:
        changed = False
        for s in range(states):
            for c in range(classes):
                following = table[s, c]
                if following >= 0 and steps[following] != NEVER:
                    through = np.int32(steps[following] + 1)
                    if through < steps[s]:
                        steps[s] = through
                        changed = True
    return steps


@njit(cache=True, nogil=True)
def _met_before(
    mode: int,
    nodes: NDArray[np.int32],
    edges: NDArray[np.int32],
    depth: int,
    next_node: int,
    next_edge: int,
) -> bool:
    """Whether the path of `depth` steps may not go on over this edge to this node."""
    if mode == WALK:
        return False
    if mode == NO_RETURN:
        return depth > 0 and next_node == nodes[0]
    for at in range(depth + 1):
        if mode == TRAIL:
            if at and edges[at] == next_edge:
                return True
        elif nodes[at] == next_node:
            return True
    return False


@njit(cache=True, nogil=True)
def deepen_paths(
    graph: Any,
    machine: Any,
    origin_node: NDArray[np.int32],
    origin_state: NDArray[np.int32],
    origin_asks: NDArray[np.int32],  # how many queries the origin has
    queries: int,
    hops: int,
    mode: int,
    limit: int,  # per origin and query
    wanted: NDArray[np.bool_],  # per node: may end there; empty: anywhere
    steps: int,  # at most, all origins together
) -> tuple[Any, ...]:
    """Query, origin and length of each path, all their nodes and symbols, work, and whether
    `steps` was reached."""
    offset, neighbour, edge, entry_symbol, symbols = graph
    table, visit_offset, visit_symbol, symbol_class, entry_class, accept_offset, accept_query = (
        machine
    )
    needs = steps_to_accept(table, accept_offset)
    found_query = np.empty(1024, np.int32)
    found_origin = np.empty(1024, np.int32)
    found_length = np.empty(1024, np.int32)
    all_nodes = np.empty(4096, np.int32)
    all_labels = np.empty(4096, np.int32)
    founds = written = crossed = work = 0
    # The path and, for each of its nodes, where its children continue.
    nodes = np.empty(16, np.int32)
    edges = np.empty(16, np.int32)
    labels = np.empty(16, np.int32)
    states = np.empty(16, np.int32)
    visits, entries, highs = np.empty((3, 16), np.int64)
    taken = np.zeros(queries, np.int64)

    for o in range(origin_node.shape[0]):
        if origin_state[o] < 0:
            continue
        taken[:] = 0
        full = 0
        for target in range(hops + 1):
            if full == origin_asks[o]:
                break
            reached = False  # some path has this length, accepted or not
            if target + 2 > nodes.shape[0]:
                nodes, edges, labels = longer(nodes), longer(edges), longer(labels)
                states = longer(states)
                visits, entries, highs = np.empty((3, nodes.shape[0]), np.int64)
            depth = 0
            nodes[0], edges[0], states[0] = origin_node[o], -1, origin_state[o]
            visits[0] = visit_offset[origin_state[o]] - 1
            entries[0] = highs[0] = 0
            while depth >= 0:
                s = states[depth]
                if depth == target:
                    reached = True
                    ends = wanted.shape[0] == 0 or wanted[nodes[depth]]
                    for a in range(accept_offset[s], accept_offset[s + 1]) if ends else range(0):
                        slot = accept_query[a]
                        if taken[slot] >= limit:
                            continue
                        taken[slot] += 1
                        if taken[slot] == limit:
                            full += 1
                        if founds == found_query.shape[0]:
                            found_query = longer(found_query)
                            found_origin = longer(found_origin)
                            found_length = longer(found_length)
                        while written + depth + 1 > all_nodes.shape[0]:
                            all_nodes = longer(all_nodes)
                        while crossed + depth > all_labels.shape[0]:
                            all_labels = longer(all_labels)
                        found_query[founds] = slot
                        found_origin[founds] = o
                        found_length[founds] = depth
                        founds += 1
                        all_nodes[written : written + depth + 1] = nodes[: depth + 1]
                        all_labels[crossed : crossed + depth] = labels[1 : depth + 1]
                        written += depth + 1
                        crossed += depth
                    if full == origin_asks[o]:
                        break
                    depth -= 1
                    continue
                if entries[depth] == highs[depth]:
                    visits[depth] += 1
                    if visits[depth] == visit_offset[s + 1]:
                        depth -= 1
                        continue
                    symbol = visit_symbol[visits[depth]]
                    here = nodes[depth]
                    entries[depth] = first_entry(offset, entry_symbol, symbols, here, symbol)
                    highs[depth] = first_entry(offset, entry_symbol, symbols, here, symbol + 1)
                    continue
                symbol = visit_symbol[visits[depth]]
                entry = entries[depth]
                entries[depth] += 1
                work += 1
                if work > steps:
                    return (
                        found_query[:founds], found_origin[:founds], found_length[:founds],
                        all_nodes[:written], all_labels[:crossed], work, True,
                    )  # fmt: skip
                following = state_after(table, symbol_class, entry_class, s, symbol, entry)
                if following < 0:
                    continue
                there = neighbour[entry]
                if _met_before(mode, nodes, edges, depth, there, edge[entry]):
                    continue
                # A state that cannot accept in time still tells that longer paths may exist.
                if needs[following] > target - depth - 1:
                    reached = reached or needs[following] != NEVER
                    continue
                depth += 1
                nodes[depth], edges[depth], labels[depth] = there, edge[entry], symbol
                states[depth] = following
                visits[depth] = visit_offset[following] - 1
                entries[depth] = highs[depth] = 0
            if not reached:
                break
    return (
        found_query[:founds], found_origin[:founds], found_length[:founds],
        all_nodes[:written], all_labels[:crossed], work, False,
    )  # fmt: skip
