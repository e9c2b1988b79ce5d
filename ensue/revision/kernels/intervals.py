"""Partial matches as intervals: ignorable arcs of the AFA operator (Appendix D).

A node that ignores an event stays as it is, up to `until`. Which nodes are alive at an event is
then asked of the events before it (`alive_at`, with a bound per block of the index), and what an
insert invalidates follows the edges of derivations (`cut`, `cascade`): a node goes when the last of
its derivations does.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.automaton.registers import INFINITY, MINUS_INFINITY
from ensue.revision.kernels.output import report
from ensue.revision.kernels.store import (
    AFTER,
    AT,
    CHILD,
    CONTENT,
    EDGE,
    EDGE_NEXT,
    HEAD,
    LE,
    MATCH,
    NODES,
    NONE,
    OPEN,
    OPENED,
    REACH,
    STALE,
    START,
    START_EVENT,
    SUPPORT,
    TIE,
    UNTIL,
    Store,
    free_edge,
    free_node,
    longer,
    not_after,
    place_of,
    unlink_node,
)


@njit(cache=True, nogil=True)
def is_alive(store: Store, node: int, event: int) -> bool:
    """Whether a node that ends at the event or before it lasts to the event."""
    until = store.nodes[node, UNTIL]
    return until == OPEN or not_after(store.events, event, until)


@njit(cache=True, nogil=True)
def raise_reach(store: Store, event: int, le: int) -> None:
    """An interval that begins at the event now lasts to `le`."""
    events = store.events
    if events[event, REACH] >= le:
        return
    events[event, REACH] = le
    where, _ = place_of(store, events[event, LE], events[event, TIE], events[event, CONTENT])
    # Equal keys can lie in blocks before; a bound too many is only looked at in vain.
    while where >= 0:
        block = store.order[where]
        store.reach[block] = max(store.reach[block], le)
        first = store.blocks[block, 0]
        if events[first, LE] != events[event, LE]:
            break
        where -= 1


@njit(cache=True, nogil=True)
def _true_reach(store: Store, event: int) -> int:
    found = MINUS_INFINITY
    node = store.events[event, HEAD]
    while node >= 0:
        until = store.nodes[node, UNTIL]
        if until == OPEN:
            return INFINITY
        if until != event:
            found = max(found, store.events[until, LE])
        node = store.nodes[node, AFTER]
    return found


@njit(cache=True, nogil=True)
def alive_at(
    store: Store, event: int, ignoring: bool, found: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Nodes that end at the event, and those whose interval holds it (the paper's S1 and S2)."""
    events, nodes = store.events, store.nodes
    if found.shape[0] < store.control[NODES]:
        found = longer(found, store.control[NODES])
    count = 0
    if ignoring:
        le = events[event, LE]
        where, _ = place_of(store, le, events[event, TIE], events[event, CONTENT])
        for place in range(where + 1):
            block = store.order[place]
            if store.reach[block] < le:
                continue
            bound = MINUS_INFINITY
            for row in range(store.fill[block]):
                other = store.blocks[block, row]
                if events[other, REACH] >= le and other != event:
                    # Bounds only ever grew; what was cut since is seen here.
                    events[other, REACH] = _true_reach(store, other)
                    if events[other, REACH] >= le and not_after(events, other, event):
                        node = events[other, HEAD]
                        while node >= 0:
                            if nodes[node, UNTIL] != other and is_alive(store, node, event):
                                found[count] = node
                                count += 1
                            node = nodes[node, AFTER]
                bound = max(bound, events[other, REACH])
            store.reach[block] = bound
    node = events[event, HEAD]
    while node >= 0:
        found[count] = node
        count += 1
        node = nodes[node, AFTER]
    return found, count


@njit(cache=True, nogil=True)
def _in_order_of_start(nodes: NDArray[np.int64], found: NDArray[np.int64], count: int) -> None:
    """Insertion sort: both halves are sorted already, so this is close to a merge."""
    for place in range(1, count):
        node = found[place]
        start, event = nodes[node, START], nodes[node, START_EVENT]
        before = place - 1
        while before >= 0:
            other = found[before]
            if nodes[other, START] < start or (
                nodes[other, START] == start and nodes[other, START_EVENT] <= event
            ):
                break
            found[before + 1] = other
            before -= 1
        found[before + 1] = node


@njit(cache=True, nogil=True)
def alive_at_last(
    store: Store, last: int, found: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """`alive_at` of the newest event; intervals that hold it are open-ended and listed."""
    nodes, control = store.nodes, store.control
    if control[STALE]:
        found, count = alive_at(store, last, True, found)
        for index in range(count):
            node = found[index]
            if nodes[node, AT] != last:
                nodes[node, UNTIL] = OPEN
                raise_reach(store, nodes[node, AT], INFINITY)
        control[STALE] = 0
    else:
        if found.shape[0] < control[NODES]:
            found = longer(found, control[NODES])
        count = 0
        for index in range(control[OPENED]):
            found[count] = store.opened[index]
            count += 1
        node = store.events[last, HEAD]
        while node >= 0:
            found[count] = node
            count += 1
            node = nodes[node, AFTER]
    if control[OPENED] or count:
        _in_order_of_start(nodes, found, count)
    return found, count


@njit(cache=True, nogil=True)
def _lose(
    nodes: NDArray[np.int64], child: int, stack: NDArray[np.int64], depth: int
) -> tuple[NDArray[np.int64], int]:
    """One derivation less; a node without any goes on the stack, which may grow."""
    nodes[child, SUPPORT] -= 1
    if nodes[child, SUPPORT] == 0:
        nodes[child, SUPPORT] = -1
        if depth == stack.shape[0]:
            stack = longer(stack, 0)
        stack[depth] = child
        depth += 1
    return stack, depth


@njit(cache=True, nogil=True)
def cascade(
    store: Store,
    stack: NDArray[np.int64],
    depth: int,
    cause: int,
    fields: int,
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Deletes the nodes on the stack and all that has no other derivation."""
    nodes, edges = store.nodes, store.edges
    while depth:
        depth -= 1
        node = stack[depth]
        if nodes[node, MATCH] >= 0:
            rows = report(store, node, -1, cause, fields, True, rows, counts)
        edge = nodes[node, EDGE]
        while edge >= 0:
            child = edges[edge, CHILD]
            if nodes[child, SUPPORT] > 0:
                stack, depth = _lose(nodes, child, stack, depth)
            edge = edges[edge, EDGE_NEXT]
        unlink_node(store, node)
        free_node(store, node)
    return stack, rows


@njit(cache=True, nogil=True)
def cut(
    store: Store,
    node: int,
    event: int,
    at_event: bool,
    stack: NDArray[np.int64],
    cause: int,
    fields: int,
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Derivations of a node after the event are no longer valid (or just those at the event)."""
    nodes, edges, events = store.nodes, store.edges, store.events
    depth = 0
    before, edge = NONE, nodes[node, EDGE]
    while edge >= 0:
        after = edges[edge, EDGE_NEXT]
        child = edges[edge, CHILD]
        at = nodes[child, AT]
        goes = at == event if at_event else not not_after(events, at, event)
        if goes:
            if before >= 0:
                edges[before, EDGE_NEXT] = after
            else:
                nodes[node, EDGE] = after
            free_edge(store, edge)
            stack, depth = _lose(nodes, child, stack, depth)
        else:
            before = edge
        edge = after
    return cascade(store, stack, depth, cause, fields, rows, counts)
