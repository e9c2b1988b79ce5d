"""Partial matches as intervals: ignorable arcs of the AFA operator (Appendix D).

A node that ignores an event stays as it is, up to `until`. Which nodes are alive at an event is
then asked of the events before it (`alive_at`, with a bound per block of the index), and what an
insert invalidates follows the edges of derivations (`cut`, `cascade`): a node goes when the last of
its derivations does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.registers import INFINITY, MINUS_INFINITY
from ensue.kernels.calls import inner, inner_allocating, inner_inlined
from ensue.revision.kernels import layout as at
from ensue.revision.kernels.layout import NONE, OPEN, Numbers
from ensue.revision.kernels.output import report
from ensue.revision.kernels.steps import begins_later
from ensue.revision.kernels.store import (
    Store,
    free_node,
    longer,
    not_after,
    place_of,
    take_edge,
    unlink_node,
)


@inner_inlined
def is_alive(store: Store, node: int, event: int) -> bool:
    """Whether a node that ends at the event or before it lasts to the event."""
    until = store.nodes[node, at.UNTIL]
    return until == OPEN or not_after(store.events, event, until)


@inner
def raise_reach(store: Store, event: int, le: int) -> None:
    """An interval that begins at the event now lasts to `le`."""
    events = store.events
    if events[event, at.REACH] >= le:
        return
    events[event, at.REACH] = le
    where, _ = place_of(
        store, events[event, at.LE], events[event, at.TIE], events[event, at.CONTENT]
    )
    # Equal keys can lie in blocks before; a bound too many is only looked at in vain.
    while where >= 0:
        block = store.order[where]
        store.reach[block] = max(store.reach[block], le)
        first = store.blocks[block, 0]
        if events[first, at.LE] != events[event, at.LE]:
            break
        where -= 1


@inner
def _true_reach(store: Store, event: int) -> int:
    found = MINUS_INFINITY
    node = store.events[event, at.HEAD]
    while node >= 0:
        until = store.nodes[node, at.UNTIL]
        if until == OPEN:
            return INFINITY
        if until != event:
            found = max(found, store.events[until, at.LE])
        node = store.nodes[node, at.AFTER]
    return found


@inner_inlined
def listed_at(store: Store, event: int, found: Numbers, count: int) -> int:
    """The nodes that end at an event (the paper's S1), behind `count` others; there is room."""
    node = store.events[event, at.HEAD]
    while node >= 0:
        found[count] = node
        count += 1
        node = store.nodes[node, at.AFTER]
    return count


@inner
def alive_at(store: Store, event: int, found: Numbers) -> int:
    """Nodes whose interval holds the event (S2), and those that end at it."""
    events, nodes = store.events, store.nodes
    count, le = 0, events[event, at.LE]
    where, _ = place_of(store, le, events[event, at.TIE], events[event, at.CONTENT])
    for place in range(where + 1):
        block = store.order[place]
        if store.reach[block] < le:
            continue
        bound = MINUS_INFINITY
        for row in range(store.fill[block]):
            other = store.blocks[block, row]
            if events[other, at.REACH] >= le and other != event:
                # Bounds only ever grew; what was cut since is seen here.
                events[other, at.REACH] = _true_reach(store, other)
                if events[other, at.REACH] >= le and not_after(events, other, event):
                    node = events[other, at.HEAD]
                    while node >= 0:
                        if nodes[node, at.UNTIL] != other and is_alive(store, node, event):
                            found[count] = node
                            count += 1
                        node = nodes[node, at.AFTER]
            bound = max(bound, events[other, at.REACH])
        store.reach[block] = bound
    return listed_at(store, event, found, count)


@inner
def _opened_again(store: Store, last: int, found: Numbers) -> int:
    """The same for the newest event where `opened` is not known, in the order of first events."""
    nodes = store.nodes
    count = alive_at(store, last, found)
    for place in range(count):
        node = found[place]
        if nodes[node, at.AT] != last:
            nodes[node, at.UNTIL] = OPEN
            raise_reach(store, nodes[node, at.AT], INFINITY)
        start, event = nodes[node, at.START], nodes[node, at.START_EVENT]
        before = place - 1
        while before >= 0 and begins_later(nodes, found[before], start, event):
            found[before + 1] = found[before]
            before -= 1
        found[before + 1] = node
    store.control[at.STALE] = 0
    return count


@inner_inlined
def alive_at_last(store: Store, last: int, found: Numbers) -> int:
    """`alive_at` of the newest event; intervals that hold it are open-ended and listed.

    Both lists are in the order in which their nodes began, so they are merged.
    """
    nodes, opened = store.nodes, store.opened
    if store.control[at.STALE]:
        return _opened_again(store, last, found)
    count, node = 0, store.events[last, at.HEAD]
    for index in range(store.control[at.OPENED]):
        while node >= 0 and begins_later(
            nodes, opened[index], nodes[node, at.START], nodes[node, at.START_EVENT]
        ):
            found[count] = node
            count += 1
            node = nodes[node, at.AFTER]
        found[count] = opened[index]
        count += 1
    while node >= 0:
        found[count] = node
        count += 1
        node = nodes[node, at.AFTER]
    return count


@inner_inlined
def keep_open(
    store: Store, source: Numbers, count: int, stays: NDArray[np.bool_], event: int
) -> None:
    """After an event in order: what ignored it is alive at the newest event, the rest is not.

    Only what ends at the event before can open, so that the block whose bound it raises is known.
    """
    last, where = store.events[event, at.PREVIOUS], store.control[at.BLOCKS] - 1
    if store.blocks[store.order[where], 0] == event:
        where -= 1
    nodes, control = store.nodes, store.control
    control[at.OPENED] = 0
    for index in range(count):
        node = source[index]
        if stays[index]:
            if nodes[node, at.UNTIL] != OPEN:
                nodes[node, at.UNTIL] = OPEN
                store.events[last, at.REACH] = INFINITY
                store.reach[store.order[where]] = INFINITY
            store.opened[control[at.OPENED]] = node
            control[at.OPENED] += 1
        elif nodes[node, at.UNTIL] == OPEN:
            nodes[node, at.UNTIL] = last


@inner
def keep_on(
    store: Store,
    source: Numbers,
    count: int,
    stays: NDArray[np.bool_],
    event: int,
    frontier: Numbers,  # what meets the next event, `created` so far
    created: int,
) -> int:
    """After an event that was met again: what ignored it lasts to it and meets the next one."""
    nodes, newest = store.nodes, store.events[event, at.NEXT] < 0
    for index in range(count):
        node = source[index]
        if stays[index]:
            nodes[node, at.UNTIL] = OPEN if newest else event
            reach = INFINITY if newest else store.events[event, at.LE]
            raise_reach(store, nodes[node, at.AT], reach)
            frontier[created] = node
            created += 1
    return created


@inner_allocating
def keep_apart(
    store: Store,
    source: Numbers,
    count: int,
    stays: NDArray[np.bool_],
    event: int,
    stack: Numbers,
    rows: Numbers,
    counts: Numbers,
) -> tuple[Numbers, Numbers]:
    """After a late event: what did not ignore it ends before, with all that came of it later."""
    nodes, events = store.nodes, store.events
    previous, cause = events[event, at.PREVIOUS], events[event, at.IDENTITY]
    store.control[at.STALE] = 1
    for index in range(count):
        node = source[index]
        if not stays[index]:
            nodes[node, at.UNTIL] = previous
            stack, rows = cut(store, node, event, False, stack, cause, rows, counts)
        elif nodes[node, at.UNTIL] == previous:
            nodes[node, at.UNTIL] = event
            raise_reach(store, nodes[node, at.AT], events[event, at.LE])
    return stack, rows


@inner_allocating
def _lose(nodes: Numbers, child: int, stack: Numbers, depth: int) -> tuple[Numbers, int]:
    """One derivation less; a node without any goes on the stack, which may grow."""
    nodes[child, at.SUPPORT] -= 1
    if nodes[child, at.SUPPORT] == 0:
        nodes[child, at.SUPPORT] = -1
        if depth == stack.shape[0]:
            stack = longer(stack, 0)
        stack[depth] = child
        depth += 1
    return stack, depth


@inner_allocating
def cascade(
    store: Store, stack: Numbers, depth: int, cause: int, rows: Numbers, counts: Numbers
) -> tuple[Numbers, Numbers]:
    """Deletes the nodes on the stack and all that has no other derivation."""
    nodes, edges = store.nodes, store.edges
    while depth:
        depth -= 1
        node = stack[depth]
        if nodes[node, at.MATCH] >= 0:
            rows = report(store, node, -1, cause, True, rows, counts)
        edge = nodes[node, at.EDGE]
        while edge >= 0:
            child = edges[edge, at.CHILD]
            if nodes[child, at.SUPPORT] > 0:
                stack, depth = _lose(nodes, child, stack, depth)
            edge = edges[edge, at.EDGE_NEXT]
        unlink_node(store, node)
        free_node(store, node)
    return stack, rows


@inner_allocating
def cut(
    store: Store,
    node: int,
    event: int,
    at_event: bool,
    stack: Numbers,
    cause: int,
    rows: Numbers,
    counts: Numbers,
) -> tuple[Numbers, Numbers]:
    """Derivations of a node after the event are no longer valid (or just those at the event)."""
    nodes, edges = store.nodes, store.edges
    depth = 0
    before, edge = NONE, nodes[node, at.EDGE]
    while edge >= 0:
        after, child = edges[edge, at.EDGE_NEXT], edges[edge, at.CHILD]
        place = nodes[child, at.AT]
        if place == event if at_event else not not_after(store.events, place, event):
            take_edge(store, node, before, edge)
            stack, depth = _lose(nodes, child, stack, depth)
        else:
            before = edge
        edge = after
    return cascade(store, stack, depth, cause, rows, counts)
