"""Flat arrays of the AFA operator: events in order, and the partial matches that end at each.

- `events`: one row per event received since the watermark, linked in order.
- `index`: the events in order, in blocks of at most `BLOCK` rows. It stands in for the paper's
  red-black tree: two binary searches find a place, an insert moves at most one block (decision
  0061). With sequence numbers it is not used: a hash table finds neighbours.
- `nodes`: the paper's *pmatch*, one row each, in a list per event that is ordered by first event.
- `edges`: which node was derived from which; kept only where ignorable arcs are intervals (App. D).

A register or event column takes one 64-bit cell, an integer or the bits of a float; nulls are bits.
Freed rows are linked and used again, so that memory stays that of the events in the window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.registers import MINUS_INFINITY
from ensue.kernels.calls import allocating, inner, inner_allocating, inner_inlined
from ensue.kernels.copies import copy_row, copy_rows
from ensue.kernels.hashing import slot_of
from ensue.revision.kernels import layout as at
from ensue.revision.kernels.layout import BLOCK, NONE, Numbers


class Store(NamedTuple):
    """All state of one operator."""

    events: Numbers
    nodes: Numbers
    edges: Numbers
    blocks: NDArray[np.int32]
    order: Numbers  # block numbers in order
    fill: Numbers
    reach: Numbers  # per block: no interval of its events ends later
    opened: Numbers  # nodes alive at the newest event that ended at an earlier one
    keys: Numbers  # hash table: sequence number -> event
    stamps: NDArray[np.int32]
    slots: Numbers
    control: Numbers


def new_store(columns: int, registers: int, hashed: bool) -> Store:
    control = np.zeros(at.CONTROL, np.int64)
    for place in (at.FREE_EVENT, at.FREE_NODE, at.FREE_EDGE, at.FREE_BLOCK, at.FIRST, at.LAST):
        control[place] = NONE
    control[at.GENERATION] = 1
    return Store(
        np.zeros((16, at.COLUMNS + columns), np.int64),
        np.full((16, at.REGISTERS + registers), NONE, np.int64),
        np.zeros((16, 3), np.int64),
        np.zeros((1, BLOCK), np.int32),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(16, np.int64),
        np.zeros(16 if hashed else 1, np.int64),
        np.zeros(16 if hashed else 1, np.int32),
        np.zeros(16 if hashed else 1, np.int64),
        control,
    )


@inner_allocating
def taller(rows: Numbers, wanted: int) -> Numbers:
    """A copy with room for at least `wanted` rows, and half as many again."""
    size = max(wanted, rows.shape[0] + rows.shape[0] // 2 + 16)
    found = np.zeros((size, rows.shape[1]), np.int64)
    copy_rows(rows, found)
    return found


@inner_allocating
def longer(row: Numbers, wanted: int) -> Numbers:
    found = np.zeros(max(wanted, 2 * row.shape[0]), np.int64)
    copy_row(row, found)
    return found


@inner_allocating
def with_room(store: Store, events: int, nodes: int, edges: int, opened: int) -> Store:
    """The store with room for so many more."""
    control = store.control
    event_rows, node_rows, edge_rows = store.events, store.nodes, store.edges
    open_row = store.opened
    if control[at.EVENTS] + events > event_rows.shape[0]:
        event_rows = taller(event_rows, control[at.EVENTS] + events)
    if control[at.NODES] + nodes > node_rows.shape[0]:
        node_rows = taller(node_rows, control[at.NODES] + nodes)
        node_rows[store.nodes.shape[0] :] = NONE  # a new row has no edges
    if control[at.EDGES] + edges > edge_rows.shape[0]:
        edge_rows = taller(edge_rows, control[at.EDGES] + edges)
    if opened > open_row.shape[0]:
        open_row = longer(open_row, opened)
    return Store(
        event_rows, node_rows, edge_rows, store.blocks, store.order, store.fill, store.reach,
        open_row, store.keys, store.stamps, store.slots, control,
    )  # fmt: skip


# -- order ----------------------------------------------------------------------------------------


@inner_inlined
def compare(events: Numbers, slot: int, le: int, tie: int, content: int) -> int:
    """-1, 0 or 1: where the event stands against a key."""
    if events[slot, at.LE] != le:
        return -1 if events[slot, at.LE] < le else 1
    if events[slot, at.TIE] != tie:
        return -1 if events[slot, at.TIE] < tie else 1
    if events[slot, at.CONTENT] != content:
        return -1 if events[slot, at.CONTENT] < content else 1
    return 0


@inner_inlined
def not_after(events: Numbers, a: int, b: int) -> bool:
    """Whether event a stands at b or before it; of equal ones the first to come stands first."""
    order = compare(events, a, events[b, at.LE], events[b, at.TIE], events[b, at.CONTENT])
    return order < 0 or (order == 0 and events[a, at.IDENTITY] <= events[b, at.IDENTITY])


@inner
def place_of(store: Store, le: int, tie: int, content: int) -> tuple[int, int]:
    """(place of the block in order, rows of it with keys up to this one); block -1: before all."""
    events, blocks, order = store.events, store.blocks, store.order
    low, high = 0, store.control[at.BLOCKS]
    while low < high:
        middle = (low + high) >> 1
        if compare(events, blocks[order[middle], 0], le, tie, content) <= 0:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return -1, 0
    block = order[low - 1]
    begin, end = 1, store.fill[block]
    while begin < end:
        middle = (begin + end) >> 1
        if compare(events, blocks[block, middle], le, tie, content) <= 0:
            begin = middle + 1
        else:
            end = middle
    return low - 1, begin


@allocating
def at_or_before(store: Store, le: int, tie: int, content: int) -> int:
    """The paper's Search≤: the last event with a key up to this one, or NONE."""
    where, count = place_of(store, le, tie, content)
    if where < 0:
        return NONE
    return store.blocks[store.order[where], count - 1]


@inner
def _new_block(store: Store, where: int) -> int:
    """An empty block at a place in the order; there is room for it."""
    order, fill, control = store.order, store.fill, store.control
    block = control[at.FREE_BLOCK]
    if block >= 0:
        control[at.FREE_BLOCK] = fill[block]
    else:
        block = control[at.HIGH_BLOCK]
        control[at.HIGH_BLOCK] += 1
    for place in range(control[at.BLOCKS], where, -1):
        order[place] = order[place - 1]
    order[where] = block
    control[at.BLOCKS] += 1
    fill[block] = 0
    store.reach[block] = MINUS_INFINITY
    return block


@inner_inlined
def put_in_index(store: Store, slot: int, where: int, count: int) -> None:
    """A new event behind the first `count` rows of a block; there is room for two more blocks."""
    blocks, fill = store.blocks, store.fill
    if where < 0 or fill[store.order[where]] == BLOCK:
        where, count = _place_in_new_block(store, where, count)
    block = store.order[where]
    for row in range(fill[block], count, -1):
        blocks[block, row] = blocks[block, row - 1]
    blocks[block, count] = slot
    fill[block] += 1


@inner
def _place_in_new_block(store: Store, where: int, count: int) -> tuple[int, int]:
    """The place of an event before all others, or in a block that is full, once that is cut."""
    blocks, fill, reach, control = store.blocks, store.fill, store.reach, store.control
    if where < 0:
        if control[at.BLOCKS] == 0:
            _new_block(store, 0)
        where, count = 0, 0
    block = store.order[where]
    if fill[block] < BLOCK:
        return where, count
    fresh = _new_block(store, where + 1)
    if count == BLOCK and where + 2 == control[at.BLOCKS]:
        # Appended at the very end: blocks of a stream in order stay full.
        return where + 1, 0
    reach[fresh] = reach[block]
    half = BLOCK // 2
    for row in range(half, BLOCK):
        blocks[fresh, row - half] = blocks[block, row]
    fill[fresh] = BLOCK - half
    fill[block] = half
    return (where + 1, count - half) if count > half else (where, count)


@inner
def take_from_index(store: Store, slot: int) -> None:
    events = store.events
    where, count = place_of(
        store, events[slot, at.LE], events[slot, at.TIE], events[slot, at.CONTENT]
    )
    # Events equal in everything lie side by side; this one is among them.
    while True:
        block = store.order[where]
        row = count - 1
        while row >= 0 and store.blocks[block, row] != slot:
            row -= 1
        if row >= 0:
            break
        where -= 1
        count = store.fill[store.order[where]]
    for place in range(row, store.fill[block] - 1):
        store.blocks[block, place] = store.blocks[block, place + 1]
    store.fill[block] -= 1
    if store.fill[block] == 0:
        _drop_block(store, where)


@inner
def _drop_block(store: Store, where: int) -> None:
    control = store.control
    block = store.order[where]
    for place in range(where, control[at.BLOCKS] - 1):
        store.order[place] = store.order[place + 1]
    control[at.BLOCKS] -= 1
    store.fill[block] = control[at.FREE_BLOCK]
    control[at.FREE_BLOCK] = block


@inner
def drop_from_front(store: Store, count: int) -> None:
    """The first `count` events leave the index."""
    control = store.control
    whole = 0
    while whole < control[at.BLOCKS] and count >= store.fill[store.order[whole]]:
        block = store.order[whole]
        count -= store.fill[block]
        store.fill[block] = control[at.FREE_BLOCK]
        control[at.FREE_BLOCK] = block
        whole += 1
    if whole:
        for place in range(whole, control[at.BLOCKS]):
            store.order[place - whole] = store.order[place]
        control[at.BLOCKS] -= whole
    if count:
        block = store.order[0]
        for row in range(count, store.fill[block]):
            store.blocks[block, row - count] = store.blocks[block, row]
        store.fill[block] -= count


# -- rows -----------------------------------------------------------------------------------------


@inner_inlined
def free_event(store: Store, slot: int) -> None:
    store.events[slot, at.IDENTITY] = NONE
    store.events[slot, at.NEXT] = store.control[at.FREE_EVENT]
    store.control[at.FREE_EVENT] = slot
    store.control[at.EVENTS] -= 1


@inner_inlined
def unlink_node(store: Store, node: int) -> None:
    """Out of the list of its event."""
    nodes, events = store.nodes, store.events
    event, before, after = nodes[node, at.AT], nodes[node, at.BEFORE], nodes[node, at.AFTER]
    if before >= 0:
        nodes[before, at.AFTER] = after
    else:
        events[event, at.HEAD] = after
    if after >= 0:
        nodes[after, at.BEFORE] = before
    else:
        events[event, at.TAIL] = before


@inner_inlined
def take_edge(store: Store, node: int, before: int, edge: int) -> None:
    """Out of the list of its node, where it stands behind another or first (NONE)."""
    edges, control = store.edges, store.control
    onward = edges[edge, at.EDGE_NEXT]
    if before >= 0:
        edges[before, at.EDGE_NEXT] = onward
    else:
        store.nodes[node, at.EDGE] = onward
    edges[edge, at.EDGE_NEXT] = control[at.FREE_EDGE]
    control[at.FREE_EDGE] = edge
    control[at.EDGES] -= 1


@inner_inlined
def free_node(store: Store, node: int) -> None:
    """A node that is in no list."""
    nodes, control = store.nodes, store.control
    while nodes[node, at.EDGE] >= 0:
        take_edge(store, node, NONE, nodes[node, at.EDGE])
    nodes[node, at.AT] = NONE
    nodes[node, at.AFTER] = control[at.FREE_NODE]
    control[at.FREE_NODE] = node
    control[at.NODES] -= 1


@inner_inlined
def free_nodes(store: Store, event: int) -> None:
    """All nodes of an event that goes, or is met again."""
    node = store.events[event, at.HEAD]
    while node >= 0:
        after = store.nodes[node, at.AFTER]
        free_node(store, node)
        node = after
    store.events[event, at.HEAD] = NONE
    store.events[event, at.TAIL] = NONE


@inner_inlined
def free_row(rows: Numbers, control: Numbers, free: int, following: int) -> int:
    """A row to use: the first of the free ones, which column `following` lists, or the next that
    never was. In `control` stand the first free one, how many ever were, and how many are."""
    row = control[free]
    if row >= 0:
        control[free] = rows[row, following]
    else:
        row = control[free + 1]
        control[free + 1] += 1
    control[free + 2] += 1
    return row


@inner_inlined
def add_edge(store: Store, parent: int, child: int, arc: int) -> None:
    """There is room."""
    edges = store.edges
    edge = free_row(edges, store.control, at.FREE_EDGE, at.EDGE_NEXT)
    edges[edge, at.CHILD] = child
    edges[edge, at.ARC] = arc
    edges[edge, at.EDGE_NEXT] = store.nodes[parent, at.EDGE]
    store.nodes[parent, at.EDGE] = edge


# -- sequence numbers -----------------------------------------------------------------------------


@inner_inlined
def event_of(store: Store, sequence: int) -> int:
    """The event of a sequence number, or NONE."""
    generation = store.control[at.GENERATION]
    slot = slot_of(store.keys, store.stamps, generation, sequence)
    if store.stamps[slot] != generation:
        return NONE
    return store.slots[slot]


@inner_inlined
def set_event(store: Store, sequence: int, event: int) -> None:
    """There is room; a number whose event is gone stays, with NONE, until the table is rebuilt."""
    generation = store.control[at.GENERATION]
    slot = slot_of(store.keys, store.stamps, generation, sequence)
    if store.stamps[slot] != generation:
        store.stamps[slot] = generation
        store.keys[slot] = sequence
        store.control[at.HASHED] += 1
    store.slots[slot] = event


@inner_inlined
def is_index_full(store: Store, sequenced: bool) -> bool:
    """Whether the index, or the hash table, may have no room for one event more."""
    control = store.control
    if sequenced:
        return 2 * (control[at.HASHED] + 1) >= store.keys.shape[0]
    return max(control[at.BLOCKS], control[at.HIGH_BLOCK]) + 2 > store.order.shape[0]


@inner_allocating
def with_index_room(store: Store, sequenced: bool) -> Store:
    """Twice the blocks; or a table of the numbers whose events are here, at most a quarter full."""
    blocks, order, fill, reach = store.blocks, store.order, store.fill, store.reach
    keys, stamps, slots = store.keys, store.stamps, store.slots
    if sequenced:
        size = 16
        while size < 4 * (store.control[at.EVENTS] + 1):
            size *= 2
        keys, stamps = np.zeros(size, np.int64), np.zeros(size, np.int32)
        slots = np.zeros(size, np.int64)
    else:
        size = 2 * order.shape[0]
        blocks = np.zeros((size, BLOCK), np.int32)
        copy_rows(store.blocks, blocks)
        order, fill, reach = longer(order, size), longer(fill, size), longer(reach, size)
    found = Store(
        store.events, store.nodes, store.edges, blocks, order, fill, reach, store.opened, keys,
        stamps, slots, store.control,
    )  # fmt: skip
    if sequenced:
        store.control[at.HASHED] = 0
        for slot in range(store.control[at.HIGH_EVENT]):
            if store.events[slot, at.IDENTITY] >= 0:
                set_event(found, store.events[slot, at.SEQUENCE], slot)
    return found
