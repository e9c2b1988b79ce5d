"""Adjacency by node and symbol: building it, and finding the entries of a step.

A symbol is a label with a direction (`direction * labels + label`); an edge has two entries, one
from each of its ends. Entries stand by node, then symbol, in the order of the edges. With a dense
table the entries of (node, symbol) are `offset[node * symbols + symbol]` to the next; where nodes
x symbols would be far larger than the edges, `offset` goes by node and the symbol is found by
binary search in `entry_symbol`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating, inner_inlined


class Adjacency(NamedTuple):
    """A graph; see the module."""

    offset: NDArray[np.int32]
    neighbour: NDArray[np.int32]
    edge: NDArray[np.int32]
    entry_symbol: NDArray[np.int32]
    symbols: int


class Moves(NamedTuple):
    """An automaton over classes of edges.

    State s can leave over the symbols visit_symbol[visit_offset[s] ...]. The class of an entry is
    its symbol's, or entry_class of the entry where conditions decide (symbol_class < 0).
    """

    table: NDArray[np.int32]  # [state, class]: the next state, or below 0
    visit_offset: NDArray[np.int32]
    visit_symbol: NDArray[np.int32]
    symbol_class: NDArray[np.int32]
    entry_class: NDArray[np.int32]
    accept_offset: NDArray[np.int32]
    accept_query: NDArray[np.int32]


class Search(NamedTuple):
    """What is asked, of each origin."""

    origin_node: NDArray[np.int32]
    origin_state: NDArray[np.int32]
    origin_asks: NDArray[np.int32]  # how many queries the origin has
    queries: int
    hops: int
    mode: int
    limit: int  # per origin and query; 0: none
    wanted: NDArray[np.bool_]  # per node: may end there; empty: anywhere


class Place(NamedTuple):
    """Where the moves of a path's end go on."""

    visit: int  # among the symbols of the state; visit_offset[state] - 1 before the first
    entry: int
    high: int  # where the entries of the symbol end; 0 before the first


@njit(cache=True, nogil=True)
def build_dense(
    source: NDArray[np.int32],
    label: NDArray[np.int32],
    target: NDArray[np.int32],
    nodes: int,
    labels: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """(offset, neighbour, edge) by counting sort: O(edges + nodes x symbols)."""
    symbols = 2 * labels
    edges = source.shape[0]
    offset = np.zeros(nodes * symbols + 1, np.int32)
    for e in range(edges):
        offset[np.int64(source[e]) * symbols + label[e] + 1] += 1
        offset[np.int64(target[e]) * symbols + labels + label[e] + 1] += 1
    for k in range(nodes * symbols):
        offset[k + 1] += offset[k]
    place = offset[:-1].copy()
    neighbour = np.empty(2 * edges, np.int32)
    edge = np.empty(2 * edges, np.int32)
    for e in range(edges):
        forward = np.int64(source[e]) * symbols + label[e]
        at = place[forward]
        place[forward] += 1
        neighbour[at] = target[e]
        edge[at] = e
        backward = np.int64(target[e]) * symbols + labels + label[e]
        at = place[backward]
        place[backward] += 1
        neighbour[at] = source[e]
        edge[at] = e
    return offset, neighbour, edge


@inner_inlined
def first_entry(graph: Adjacency, node: int, symbol: int) -> int:
    """Where the entries of (node, symbol) begin; those of the next symbol begin at their end."""
    if graph.entry_symbol.shape[0] == 0:
        return graph.offset[np.int64(node) * graph.symbols + symbol]
    low, high = graph.offset[node], graph.offset[node + 1]
    while low < high:
        middle = (low + high) >> 1
        if graph.entry_symbol[middle] < symbol:
            low = middle + 1
        else:
            high = middle
    return low


@inner_inlined
def next_entry(automaton: Moves, state: int, visit: int, entry: int, high: int) -> tuple[int, Any]:
    """The next entry of a symbol that can be crossed, and the state behind it; below 0: none."""
    entry += 1
    while entry < high:
        kind = automaton.symbol_class[automaton.visit_symbol[visit]]
        if kind < 0:
            kind = automaton.entry_class[entry]
        following = automaton.table[state, kind]
        if following >= 0:
            return entry, following
        entry += 1
    return entry, np.int32(-1)


@inner_inlined
def before_moves(automaton: Moves, state: int) -> Place:
    """The place before the first move."""
    return Place(automaton.visit_offset[state] - 1, 0, 0)


@inner_inlined
def next_move(
    graph: Adjacency, automaton: Moves, state: int, node: int, at: Place
) -> tuple[Place, int]:
    """The next edge that a path can cross, and the state behind it; below 0: there is none."""
    visit, entry, high = at
    while True:
        entry, following = next_entry(automaton, state, visit, entry, high)
        if following >= 0:
            return Place(visit, entry, high), following
        visit += 1
        if visit == automaton.visit_offset[state + 1]:
            return Place(visit, entry, high), -1
        symbol = automaton.visit_symbol[visit]
        entry = first_entry(graph, node, symbol) - 1
        high = first_entry(graph, node, symbol + 1)


@inner_allocating
def doubled(values: Any) -> Any:
    """A copy with room for twice as many rows."""
    return np.concatenate((values, np.empty_like(values)))
