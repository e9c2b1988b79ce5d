"""Adjacency by node and symbol: building it, and finding the entries of a step.

A symbol is a label with a direction (`direction * labels + label`); an edge has two entries, one
from each of its ends. Entries stand by node, then symbol, in the order of the edges. With a dense
table the entries of (node, symbol) are `offset[node * symbols + symbol]` to the next; where nodes
x symbols would be far larger than the edges, `offset` goes by node and the symbol is found by
binary search in `entry_symbol`.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inlined


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


@njit(cache=True, nogil=True)
def first_entry(
    offset: NDArray[np.int32],
    entry_symbol: NDArray[np.int32],
    symbols: int,
    node: int,
    symbol: int,
) -> int:
    """Where the entries of (node, symbol) begin; those of the next symbol begin at their end."""
    if entry_symbol.shape[0] == 0:
        return offset[np.int64(node) * symbols + symbol]
    low, high = offset[node], offset[node + 1]
    while low < high:
        middle = (low + high) >> 1
        if entry_symbol[middle] < symbol:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def state_after(
    table: NDArray[np.int32],
    symbol_class: NDArray[np.int32],
    entry_class: NDArray[np.int32],
    state: int,
    symbol: int,
    entry: int,
) -> int:
    """The automaton's state behind an entry; below 0: it may not be crossed."""
    kind = symbol_class[symbol]
    if kind < 0:
        kind = entry_class[entry]
    return table[state, kind]
