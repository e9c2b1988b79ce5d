"""What one end of a search for shortest paths has reached, and the paths that follow from it.

A *side* has one row per product state (node and state of the automaton) that it has reached, with
the least cost known, and links: the ways to it over an edge from a row before it. For any shortest
path a row keeps the first link, for all of them every one of equal cost, so that the links are the
graph of all shortest paths. A product state is visited once, however many paths lead to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating, inner_inlined
from ensue.kernels.hashing import grown, slot_of
from ensue.kernels.stop import asked
from ensue.paths.kernels.graph import doubled

NODE, STATE, DEPTH, LINK = range(4)  # of a row; its first link, or -1
BEFORE, SYMBOL, EDGE, NEXT = range(4)  # of a link: a row, what is crossed from there, a link
USED, LINKED, HEAPED = range(3)


class Side(NamedTuple):
    """What one end of a search has reached."""

    keys: NDArray[np.int64]  # a hash table from product states to rows
    stamps: NDArray[np.int32]
    values: NDArray[np.int64]
    rows: NDArray[np.int32]
    cost: NDArray[np.float64]  # per row
    links: NDArray[np.int32]
    heap_cost: NDArray[np.float64]  # rows that wait, the least cost first: by weight only
    heap_row: NDArray[np.int64]
    sizes: NDArray[np.int64]  # rows, links and places of the heap in use


@inner_allocating
def nothing_reached() -> Side:
    size = 256
    return Side(
        np.zeros(2 * size, np.int64),
        np.zeros(2 * size, np.int32),
        np.zeros(2 * size, np.int64),
        np.empty((size, 4), np.int32),
        np.empty(size, np.float64),
        np.empty((size, 4), np.int32),
        np.empty(size, np.float64),
        np.empty(size, np.int64),
        np.zeros(3, np.int64),
    )


@inner_allocating
def has_room(side: Side, more: int) -> bool:
    """Whether so many ways can be noted."""
    used, linked, heaped = side.sizes[USED], side.sizes[LINKED], side.sizes[HEAPED]
    return (
        used + more <= side.cost.shape[0]
        and 2 * (used + more) <= side.keys.shape[0]
        and linked + more <= side.links.shape[0]
        and heaped + more <= side.heap_row.shape[0]
    )


@inner_allocating
def with_room(side: Side, more: int) -> Side:
    """The side with room for so many further ways."""
    keys, stamps, values, rows, cost, links, heap_cost, heap_row, sizes = side
    while sizes[USED] + more > cost.shape[0]:
        rows, cost = doubled(rows), doubled(cost)
    while 2 * (sizes[USED] + more) > keys.shape[0]:
        keys, stamps, values = grown(keys, stamps, values, 1)
    while sizes[LINKED] + more > links.shape[0]:
        links = doubled(links)
    while sizes[HEAPED] + more > heap_row.shape[0]:
        heap_cost, heap_row = doubled(heap_cost), doubled(heap_row)
    return Side(keys, stamps, values, rows, cost, links, heap_cost, heap_row, sizes)


@inner_inlined
def row_of(side: Side, key: int) -> int:
    """The row of a product state, or -1."""
    slot = slot_of(side.keys, side.stamps, 1, key)
    return side.values[slot] if side.stamps[slot] == 1 else -1


@inner_inlined
def reached(
    side: Side,
    key: int,
    place: tuple[int, int, int],  # node, state, depth
    cost: float,
    crossed: tuple[int, int, int],  # the row before, symbol, edge; -1 where the side begins
    every: bool,
) -> int:
    """Notes a way to a product state if none is known that costs less; the row where it costs less
    than what was known, else -1. There has to be room."""
    slot = slot_of(side.keys, side.stamps, 1, key)
    following = np.int32(-1)
    if side.stamps[slot] != 1:
        row = side.sizes[USED]
        side.sizes[USED] += 1
        side.rows[row, NODE], side.rows[row, STATE], side.rows[row, DEPTH] = place
        side.keys[slot], side.stamps[slot], side.values[slot] = key, 1, row
        changed = True
    else:
        row = side.values[slot]
        changed = cost < side.cost[row]
        if not changed:
            if not every or cost != side.cost[row]:
                return -1
            following = side.rows[row, LINK]
    side.cost[row] = cost
    side.rows[row, LINK] = -1
    if crossed[0] >= 0:
        link = side.sizes[LINKED]
        side.sizes[LINKED] += 1
        side.links[link, BEFORE], side.links[link, SYMBOL], side.links[link, EDGE] = crossed
        side.links[link, NEXT] = following
        side.rows[row, LINK] = link
    return row if changed else -1


@inner_inlined
def pushed(side: Side, row: int) -> None:
    """Lets a row wait by its cost. There has to be room."""
    at, cost = side.sizes[HEAPED], side.cost[row]
    side.sizes[HEAPED] += 1
    while at and side.heap_cost[(at - 1) >> 1] > cost:
        side.heap_cost[at], side.heap_row[at] = (
            side.heap_cost[(at - 1) >> 1],
            side.heap_row[(at - 1) >> 1],
        )
        at = (at - 1) >> 1
    side.heap_cost[at], side.heap_row[at] = cost, row


@inner_allocating
def popped(side: Side) -> int:
    """The row that costs least; -1 where it waited with a cost that is no longer the least."""
    first, cost_then = side.heap_row[0], side.heap_cost[0]
    side.sizes[HEAPED] -= 1
    size = side.sizes[HEAPED]
    cost, row, at = side.heap_cost[size], side.heap_row[size], 0
    while True:
        below = 2 * at + 1
        if below + 1 < size and side.heap_cost[below + 1] < side.heap_cost[below]:
            below += 1
        if below >= size or side.heap_cost[below] >= cost:
            break
        side.heap_cost[at], side.heap_row[at] = side.heap_cost[below], side.heap_row[below]
        at = below
    side.heap_cost[at], side.heap_row[at] = cost, row
    return first if cost_then == side.cost[first] else -1


# -- writing them down ---------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def write_shortest(
    ahead: Side,
    behind: Side,
    met: NDArray[np.int64],  # a row of each side; -1: the path ends at the first
    weights: NDArray[np.float64],
    every: bool,
    limit: int,
) -> tuple[Any, ...]:
    """Lengths, weights, nodes and symbols of at most `limit` paths, those of the first rows first.

    Goes through the links depth first: from where the sides meet to the start, then to the end.
    """
    lengths, totals = np.empty(64, np.int64), np.empty(64)
    nodes, symbols = np.empty(1024, np.int32), np.empty(1024, np.int32)
    founds = written = crossed = 0
    path = np.empty((64, 2), np.int64)  # links that were chosen: of which side, and which
    for m in range(met.shape[0]):
        first, second = met[m, 0], met[m, 1]
        depth, row, side, turned = 0, first, 0, 0
        deeper = True
        while founds < limit and not asked():
            if deeper:
                link = ahead.rows[row, LINK] if side == 0 else behind.rows[row, LINK]
                if link < 0 and side == 0 and second >= 0:
                    side, row, turned = 1, second, depth
                    continue
                if link >= 0:
                    if depth == path.shape[0]:
                        path = doubled(path)
                    path[depth, 0], path[depth, 1] = side, link
                    row = ahead.links[link, BEFORE] if side == 0 else behind.links[link, BEFORE]
                    depth += 1
                    continue
                # Both ends are reached: one path.
                if side == 0:
                    turned = depth
                while written + depth + 1 > nodes.shape[0]:
                    nodes = doubled(nodes)
                while crossed + depth > symbols.shape[0]:
                    symbols = doubled(symbols)
                if founds == lengths.shape[0]:
                    lengths, totals = doubled(lengths), doubled(totals)
                nodes[written + turned] = ahead.rows[first, NODE]
                total = 0.0
                for step in range(depth):
                    at = turned - 1 - step if step < turned else step
                    chosen = path[at, 1]
                    if step < turned:
                        before = ahead.links[chosen, BEFORE]
                        symbols[crossed + step] = ahead.links[chosen, SYMBOL]
                        nodes[written + step] = ahead.rows[before, NODE]
                        edge = ahead.links[chosen, EDGE]
                    else:
                        after = behind.links[chosen, BEFORE]
                        symbols[crossed + step] = behind.links[chosen, SYMBOL]
                        nodes[written + step + 1] = behind.rows[after, NODE]
                        edge = behind.links[chosen, EDGE]
                    if weights.shape[0]:
                        total += weights[edge]
                lengths[founds], totals[founds] = depth, total
                founds += 1
                written += depth + 1
                crossed += depth
                if not every:
                    break
                deeper = False
                continue
            # Back to the last step that has another link.
            if depth == 0:
                break
            depth -= 1
            side, link = path[depth, 0], path[depth, 1]
            link = ahead.links[link, NEXT] if side == 0 else behind.links[link, NEXT]
            if link >= 0:
                path[depth, 1] = link
                row = ahead.links[link, BEFORE] if side == 0 else behind.links[link, BEFORE]
                depth += 1
                deeper = True
    return lengths[:founds], totals[:founds], nodes[:written], symbols[:crossed]
