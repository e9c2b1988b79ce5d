"""The first paths from a start, shortest first, without keeping a level: iterative deepening.

A hub's second level may have tens of millions of partial paths when the first thousand answers are
all that is wanted. So the search goes down to one length after the other and writes the paths of
exactly that length, depth first, until the limit is reached. Children come in the same order as in
`paths/kernels/paths.py`, so the answers and their order are the same. Memory is one path. Work:
each length walks the shorter beginnings again; `steps` (edges crossed, in all) bounds it. A
beginning whose state needs more steps to accept than are left is not entered.

`graph` and `automaton` are those of `paths/kernels/graph.py`.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating
from ensue.kernels.copies import copy_row
from ensue.kernels.stop import asked
from ensue.paths.kernels.graph import Adjacency, Moves, Place, Search, doubled, next_move
from ensue.paths.kernels.paths import EDGE, NODE, PARENT, ROW, STATE, SYMBOL, Rows, repeats

NEVER = np.int32(2**31 - 1)


@inner_allocating
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
def deepen_paths(
    graph: Adjacency,
    automaton: Moves,
    search: Search,
    steps: int,  # at most, all origins together
) -> tuple[Rows, NDArray[np.int32], NDArray[np.int32], int, bool]:
    """Rows of origin, query and length, one per path; all their nodes and symbols; work; and
    whether `steps` was reached."""
    accept_offset, accept_query = automaton.accept_offset, automaton.accept_query
    origin_node, origin_state, wanted = search.origin_node, search.origin_state, search.wanted
    mode, limit = search.mode, search.limit
    needs = steps_to_accept(automaton.table, accept_offset)
    found = np.empty((1024, 3), np.int32)
    all_nodes, all_labels = np.empty(4096, np.int32), np.empty(4096, np.int32)
    founds = written = crossed = work = 0
    # The path and, for each of its nodes, where its moves continue.
    path, visit = np.empty((16, ROW), np.int32), np.empty((16, 3), np.int64)
    taken = np.zeros(search.queries, np.int64)

    for o in range(origin_node.shape[0]):
        if origin_state[o] < 0:
            continue
        taken[:] = 0
        full = 0
        for target in range(search.hops + 1):
            if full == search.origin_asks[o]:
                break
            reached = False  # some path has this length, accepted or not
            if target + 2 > path.shape[0]:
                path, visit = doubled(path), doubled(visit)
            depth, state = 0, origin_state[o]
            path[0, PARENT] = path[0, EDGE] = -1
            path[0, NODE] = origin_node[o]
            path[0, STATE] = state
            visit[0, 0], visit[0, 1], visit[0, 2] = automaton.visit_offset[state] - 1, 0, 0
            while depth >= 0:
                if asked():
                    nodes, labels = all_nodes[:written], all_labels[:crossed]
                    return found[:founds], nodes, labels, work, False
                s = path[depth, STATE]
                if depth == target:
                    reached = True
                    ends = wanted.shape[0] == 0 or wanted[path[depth, NODE]]
                    for a in range(accept_offset[s], accept_offset[s + 1]) if ends else range(0):
                        slot = accept_query[a]
                        if taken[slot] >= limit:
                            continue
                        taken[slot] += 1
                        if taken[slot] == limit:
                            full += 1
                        if founds == found.shape[0]:
                            found = doubled(found)
                        while written + depth + 1 > all_nodes.shape[0]:
                            all_nodes = doubled(all_nodes)
                        while crossed + depth > all_labels.shape[0]:
                            all_labels = doubled(all_labels)
                        found[founds, 0], found[founds, 1], found[founds, 2] = o, slot, depth
                        founds += 1
                        copy_row(path[: depth + 1, NODE], all_nodes[written:])
                        copy_row(path[1 : depth + 1, SYMBOL], all_labels[crossed:])
                        written += depth + 1
                        crossed += depth
                    if full == search.origin_asks[o]:
                        break
                    depth -= 1
                    continue
                now = visit[depth]
                move = Place(now[0], now[1], now[2])
                move, state = next_move(graph, automaton, s, path[depth, NODE], move)
                now[0], now[1], now[2] = move
                if state < 0:
                    depth -= 1
                    continue
                work += 1
                if work > steps:
                    nodes, labels = all_nodes[:written], all_labels[:crossed]
                    return found[:founds], nodes, labels, work, True
                there, edge = graph.neighbour[now[1]], graph.edge[now[1]]
                if repeats(mode, path, depth, there, edge, origin_node[o]):
                    continue
                # A state that cannot accept in time still tells that longer paths may exist.
                if needs[state] > target - depth - 1:
                    reached = reached or needs[state] != NEVER
                    continue
                depth += 1
                path[depth, PARENT], path[depth, NODE] = depth - 1, there
                path[depth, SYMBOL] = automaton.visit_symbol[now[0]]
                path[depth, EDGE], path[depth, STATE] = edge, state
                visit[depth, 0] = automaton.visit_offset[state] - 1
                visit[depth, 1:] = 0
            if not reached:
                break
    return found[:founds], all_nodes[:written], all_labels[:crossed], work, False
