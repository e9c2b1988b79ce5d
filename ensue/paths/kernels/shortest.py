"""Shortest paths in the product of a graph and an automaton: from one end, or from both.

`search_from` goes from one start: level by level, by a heap where edges have weights. Where one end
is asked, `search_between` goes from both ends, the smaller frontier first, until the two sides
meet: two balls of half the radius. Without weights all states in which they meet belong to shortest
paths; by weight the search ends once the least costs ahead of both sides exceed the best meeting.
The other side crosses edges against their direction: `Backwards` is the automaton read that way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner, inner_inlined
from ensue.kernels.stop import asked
from ensue.paths.kernels.graph import (
    Adjacency,
    Moves,
    doubled,
    first_entry,
    next_entry,
)
from ensue.paths.kernels.sides import (
    DEPTH,
    HEAPED,
    NODE,
    STATE,
    USED,
    Side,
    has_room,
    nothing_reached,
    popped,
    pushed,
    reached,
    row_of,
    with_room,
)

_AT_ONCE = 64  # rows of one side, by weight, before the other side has its turn


class Backwards(NamedTuple):
    """An automaton read against its arcs: what leads into state t over a symbol."""

    visit_offset: NDArray[np.int32]  # symbols that lead into t: visit_symbol[visit_offset[t] ...]
    visit_symbol: NDArray[np.int32]
    source_offset: NDArray[np.int32]  # states that lead into t over class c: from t * classes + c
    source_state: NDArray[np.int32]
    most: int  # states that lead into one over one class
    twin: NDArray[np.int32]  # per entry: the other one of its edge; empty if no class needs it


class Pair(NamedTuple):
    """What is asked of `search_between`."""

    start: int
    state: int
    end: int
    hops: int
    no_return: bool
    every: bool


# -- from one start ------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def search_from(
    graph: Adjacency,
    automaton: Moves,
    weights: NDArray[np.float64],  # per edge; empty: each step costs 1
    asking: Pair,  # `end` is not read
    wanted: NDArray[np.bool_],  # per node: may end there; empty: anywhere
    most: int,  # ends that are wanted
) -> tuple[Side, NDArray[np.int64], int]:
    """The side of the start; rows of it that end a shortest path, least cost first; and work."""
    accept_offset, states = automaton.accept_offset, automaton.table.shape[0]
    visit_offset, visit_symbol = automaton.visit_offset, automaton.visit_symbol
    weighted, every, hops = weights.shape[0] > 0, asking.every, asking.hops
    # By weight a bound on hops makes the number of hops part of where a path is.
    depths = np.int64(hops) + 1 if weighted and hops < 2**30 else np.int64(1)
    side, ends = nothing_reached(), nothing_reached()
    key = (np.int64(asking.start) * states + asking.state) * depths
    reached(side, key, (asking.start, asking.state, 0), 0.0, (-1, -1, -1), every)
    pushed(side, 0)
    found = np.empty(64, np.int64)
    founds = distinct = work = turn = 0
    last = 0.0
    while True:
        if weighted:
            if side.sizes[HEAPED] == 0:
                break
            row = popped(side)
            if row < 0:
                continue
        else:
            if turn == side.sizes[USED]:
                break
            row = turn
            turn += 1
        cost = side.cost[row]
        if asked() or (distinct >= most and (not every or cost > last)):
            break
        here, s = np.int64(side.rows[row, NODE]), np.int64(side.rows[row, STATE])
        depth = np.int64(side.rows[row, DEPTH]) + 1
        if accept_offset[s] < accept_offset[s + 1] and (wanted.shape[0] == 0 or wanted[here]):
            known = row_of(ends, here)
            if known < 0:
                if not has_room(ends, 1):
                    ends = with_room(ends, 1)
                reached(ends, here, (here, 0, 0), cost, (-1, -1, -1), every)
                distinct += 1
                last = cost
            if known < 0 or (every and cost == ends.cost[known]):
                if founds == found.shape[0]:
                    found = doubled(found)
                found[founds] = row
                founds += 1
        if depth > hops:
            continue
        for visit in range(visit_offset[s], visit_offset[s + 1]):
            symbol = np.int64(visit_symbol[visit])
            low, high = first_entry(graph, here, symbol), first_entry(graph, here, symbol + 1)
            if not has_room(side, high - low):
                side = with_room(side, high - low)
            entry = low - 1
            while True:
                entry, following = next_entry(automaton, s, visit, entry, high)
                if following < 0:
                    break
                there, edge = np.int64(graph.neighbour[entry]), np.int64(graph.edge[entry])
                if asking.no_return and there == asking.start and row:
                    continue
                work += 1
                further = cost + (weights[edge] if weighted else 1.0)
                key = there * states + following
                if depths > 1:
                    key = key * depths + depth
                place, crossed = (there, np.int64(following), depth), (row, symbol, edge)
                new = reached(side, key, place, further, crossed, every)
                if weighted and new >= 0:
                    pushed(side, new)
    return side, found[:founds], work


# -- from both ends ------------------------------------------------------------------------------


@inner_inlined
def _ways(
    graph: Adjacency, automaton: Moves, back: Backwards, forward: bool, node: int, state: int
) -> int:
    """At most so many steps can be made from here."""
    labels = graph.symbols // 2
    offset = automaton.visit_offset if forward else back.visit_offset
    symbols = automaton.visit_symbol if forward else back.visit_symbol
    ways = 0
    for visit in range(offset[state], offset[state + 1]):
        symbol = symbols[visit]
        if not forward:
            symbol = symbol + labels if symbol < labels else symbol - labels
        ways += first_entry(graph, node, symbol + 1) - first_entry(graph, node, symbol)
    return ways if forward else ways * back.most


@inner
def _expand(
    graph: Adjacency,
    automaton: Moves,
    back: Backwards,
    weights: NDArray[np.float64],
    asking: Pair,
    forward: bool,
    side: Side,  # that which goes on
    other: Side,
    rows: tuple[int, int],  # to expand; by weight so many of those that wait
    met: NDArray[np.int64],  # where they meet at the least cost: the row of the start's side, ...
    best: float,  # ... and that cost
) -> tuple[float, int, int, int]:
    """Crosses all edges of some rows; the least cost of a meeting after that, work, how many rows
    were done, and for how many ways the next one has no room."""
    states, classes = automaton.table.shape
    weighted = weights.shape[0] > 0
    labels = graph.symbols // 2
    work = 0
    offset = automaton.visit_offset if forward else back.visit_offset
    symbols = automaton.visit_symbol if forward else back.visit_symbol
    for turn in range(rows[0], rows[1]):
        row = turn
        if weighted:
            if side.sizes[HEAPED] == 0 or side.heap_cost[0] + other.heap_cost[0] >= best:
                return best, work, rows[1] - rows[0], 0
            row = side.heap_row[0]
        here, s = np.int64(side.rows[row, NODE]), np.int64(side.rows[row, STATE])
        ways = _ways(graph, automaton, back, forward, here, s)
        if not has_room(side, ways):
            return best, work, turn - rows[0], ways
        if weighted and popped(side) < 0:
            continue
        depth, cost = np.int64(side.rows[row, DEPTH]) + 1, side.cost[row]
        for visit in range(offset[s], offset[s + 1]):
            symbol = np.int64(symbols[visit])
            # Against its direction an edge is found under the opposite symbol.
            seen = symbol if forward else (symbol + labels if symbol < labels else symbol - labels)
            low, high = first_entry(graph, here, seen), first_entry(graph, here, seen + 1)
            for entry in range(low, high):
                kind = automaton.symbol_class[symbol]
                if kind < 0:
                    kind = automaton.entry_class[entry if forward else back.twin[entry]]
                if kind < 0:
                    continue
                there, edge = np.int64(graph.neighbour[entry]), np.int64(graph.edge[entry])
                begin, end = 0, 1
                if not forward:
                    begin = back.source_offset[s * classes + kind]
                    end = back.source_offset[s * classes + kind + 1]
                for source in range(begin, end):
                    following = automaton.table[s, kind] if forward else back.source_state[source]
                    if following < 0:
                        continue
                    if asking.no_return and (there if forward else here) == asking.start:
                        # Only the first step may come to the start.
                        left_node, left_state = (here, s) if forward else (there, following)
                        if left_node != asking.start or left_state != asking.state:
                            continue
                    work += 1
                    further = cost + (weights[edge] if weighted else 1.0)
                    key = there * states + following
                    place, crossed = (there, np.int64(following), depth), (row, symbol, edge)
                    new = reached(side, key, place, further, crossed, asking.every)
                    if new < 0:
                        continue
                    if weighted:
                        pushed(side, new)
                    beyond = row_of(other, key)
                    if beyond >= 0 and further + other.cost[beyond] < best:
                        best = further + other.cost[beyond]
                        met[0] = new if forward else beyond
                        met[1] = beyond if forward else new
        if not weighted and not asking.every and best < np.inf:
            return best, work, rows[1] - rows[0], 0
    return best, work, rows[1] - rows[0], 0


@njit(cache=True, nogil=True)
def search_between(
    graph: Adjacency,
    automaton: Moves,
    back: Backwards,
    weights: NDArray[np.float64],
    asking: Pair,
) -> tuple[Side, Side, NDArray[np.int64], int]:
    """Both sides; pairs of rows in which they meet on a shortest path; and work.

    By weight it finds any shortest path, without a bound on hops.
    """
    states, weighted, every = automaton.table.shape[0], weights.shape[0] > 0, asking.every
    accept_offset = automaton.accept_offset
    ahead, behind = nothing_reached(), with_room(nothing_reached(), states)
    start, met, best = np.int64(asking.start), np.full(2, -1, np.int64), np.inf
    key = start * states + asking.state
    reached(ahead, key, (start, asking.state, 0), 0.0, (-1, -1, -1), every)
    pushed(ahead, 0)
    for t in range(states):
        if accept_offset[t] < accept_offset[t + 1]:
            root = np.int64(asking.end) * states + t
            new = reached(behind, root, (asking.end, t, 0), 0.0, (-1, -1, -1), every)
            pushed(behind, new)
            if root == key:
                met[1] = new
                met[0], best = 0, 0.0
    work = depth = 0
    # Rows stand by level: each side has some that are not expanded yet.
    turn, back_turn = 0, 0
    while not asked():
        waiting, back_waiting = ahead.sizes[HEAPED], behind.sizes[HEAPED]
        if not weighted:
            waiting, back_waiting = ahead.sizes[USED] - turn, behind.sizes[USED] - back_turn
            if best < np.inf or depth >= asking.hops:
                break
        if waiting == 0 or back_waiting == 0:
            break
        if weighted and ahead.heap_cost[0] + behind.heap_cost[0] >= best:
            break
        forward = waiting <= back_waiting
        depth += 1
        first, end = (turn, turn + waiting) if forward else (back_turn, back_turn + back_waiting)
        if weighted:
            first, end = 0, _AT_ONCE
        if forward:
            turn = end
        else:
            back_turn = end
        while first < end:
            side, other = (ahead, behind) if forward else (behind, ahead)
            best, more, done, ways = _expand(
                graph, automaton, back, weights, asking,
                forward, side, other, (first, end), met, best,
            )  # fmt: skip
            work += more
            first += done
            if ways and forward:
                ahead = with_room(ahead, ways)
            elif ways:
                behind = with_room(behind, ways)
    if met[0] < 0:
        return ahead, behind, np.zeros((0, 2), np.int64), work
    if weighted or not every:
        return ahead, behind, met.reshape(1, 2), work
    # All of the level of the start's side whose way on costs what is left.
    level, mets = ahead.cost[met[0]], 0
    all_met = np.empty((64, 2), np.int64)
    for row in range(ahead.sizes[USED]):
        if ahead.cost[row] != level:
            continue
        key = np.int64(ahead.rows[row, NODE]) * states + ahead.rows[row, STATE]
        beyond = row_of(behind, key)
        if beyond >= 0 and level + behind.cost[beyond] == best:
            if mets == all_met.shape[0]:
                all_met = doubled(all_met)
            all_met[mets, 0], all_met[mets, 1] = row, beyond
            mets += 1
    return ahead, behind, all_met[:mets], work
