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
from numba import njit
from numpy.typing import NDArray

from ensue.automaton.registers import MINUS_INFINITY
from ensue.kernels.calls import inlined
from ensue.kernels.hashing import slot_of

BLOCK = 256
NONE = -1
OPEN = -2  # of `until`: alive at the newest event, whichever that is

# Columns of `events`; those before GIVEN are also the columns of `keys`, one row per change.
LE, TIE, CONTENT, RE, IDENTITY, SEQUENCE, BITS, EVENT_NULLS, GIVEN = range(9)
PREVIOUS, NEXT, HEAD, TAIL, REACH, COLUMNS = range(8, 14)

# Columns of `nodes`. The first are kept only where intervals or closing arcs need them, so
# that the loop over events in order writes two cache lines and not three.
EDGE, SUPPORT, UNTIL, EVENT, FIRED, END, END_NAME = range(7)
AT, START, START_EVENT, START_SLOT, START_NAME, LEAST_RE, STATE, BEFORE, AFTER = range(7, 16)
MATCH, NODE_NULLS, REGISTERS = range(16, 19)

# Columns of `edges`.
CHILD, ARC, EDGE_NEXT = 0, 1, 2

# Places in `control`.
FREE_EVENT, HIGH_EVENT, EVENTS, FREE_NODE, HIGH_NODE, NODES, FREE_EDGE, HIGH_EDGE, EDGES = range(9)
FIRST, LAST, BLOCKS, FREE_BLOCK, HIGH_BLOCK, NEXT_MATCH, OPENED, STALE, GENERATION = range(9, 18)
CLEANED, HASHED, CONTROL = 18, 19, 20


class Store(NamedTuple):
    """All state of one operator."""

    events: NDArray[np.int64]
    nodes: NDArray[np.int64]
    edges: NDArray[np.int64]
    blocks: NDArray[np.int32]
    order: NDArray[np.int64]  # block numbers in order
    fill: NDArray[np.int64]
    reach: NDArray[np.int64]  # per block: no interval of its events ends later
    opened: NDArray[np.int64]  # nodes alive at the newest event that ended at an earlier one
    keys: NDArray[np.int64]  # hash table: sequence number -> event
    stamps: NDArray[np.int32]
    slots: NDArray[np.int64]
    control: NDArray[np.int64]


def new_store(columns: int, registers: int, hashed: bool) -> Store:
    control = np.zeros(CONTROL, np.int64)
    for place in (FREE_EVENT, FREE_NODE, FREE_EDGE, FREE_BLOCK, FIRST, LAST):
        control[place] = NONE
    control[GENERATION] = 1
    return Store(
        np.zeros((16, COLUMNS + columns), np.int64),
        np.full((16, REGISTERS + registers), NONE, np.int64),
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


@njit(cache=True, nogil=True)
def taller(rows: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """A copy with room for at least `wanted` rows, and half as many again."""
    size = max(wanted, rows.shape[0] + rows.shape[0] // 2 + 16)
    found = np.zeros((size, rows.shape[1]), np.int64)
    found[: rows.shape[0]] = rows
    return found


@njit(cache=True, nogil=True)
def more_nodes(rows: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """As `taller`; a new row has no edges."""
    found = taller(rows, wanted)
    found[rows.shape[0] :] = NONE
    return found


@njit(cache=True, nogil=True)
def longer(row: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    found = np.zeros(max(wanted, 2 * row.shape[0]), np.int64)
    found[: row.shape[0]] = row
    return found


@njit(cache=True, nogil=True)
def more_blocks(store: Store) -> Store:
    size = 2 * store.order.shape[0]
    blocks = np.zeros((size, BLOCK), np.int32)
    blocks[: store.blocks.shape[0]] = store.blocks
    return Store(
        store.events, store.nodes, store.edges, blocks, longer(store.order, size),
        longer(store.fill, size), longer(store.reach, size), store.opened, store.keys,
        store.stamps, store.slots, store.control,
    )  # fmt: skip


# -- order ----------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def compare(events: NDArray[np.int64], slot: int, le: int, tie: int, content: int) -> int:
    """-1, 0 or 1: where the event stands against a key."""
    if events[slot, LE] != le:
        return -1 if events[slot, LE] < le else 1
    if events[slot, TIE] != tie:
        return -1 if events[slot, TIE] < tie else 1
    if events[slot, CONTENT] != content:
        return -1 if events[slot, CONTENT] < content else 1
    return 0


@njit(cache=True, nogil=True)
def not_after(events: NDArray[np.int64], a: int, b: int) -> bool:
    """Whether event a stands at b or before it; of equal ones the first to come stands first."""
    order = compare(events, a, events[b, LE], events[b, TIE], events[b, CONTENT])
    return order < 0 or (order == 0 and events[a, IDENTITY] <= events[b, IDENTITY])


@njit(cache=True, nogil=True)
def place_in(
    events: NDArray[np.int64],
    blocks: NDArray[np.int32],
    order: NDArray[np.int64],
    fill: NDArray[np.int64],
    count: int,
    le: int,
    tie: int,
    content: int,
) -> tuple[int, int]:
    """(place of the block in order, rows of it with keys up to this one); block -1: before all."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if compare(events, blocks[order[middle], 0], le, tie, content) <= 0:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return -1, 0
    block = order[low - 1]
    begin, end = 1, fill[block]
    while begin < end:
        middle = (begin + end) >> 1
        if compare(events, blocks[block, middle], le, tie, content) <= 0:
            begin = middle + 1
        else:
            end = middle
    return low - 1, begin


@njit(cache=True, nogil=True)
def place_of(store: Store, le: int, tie: int, content: int) -> tuple[int, int]:
    """As `place_in`."""
    return place_in(
        store.events, store.blocks, store.order, store.fill, store.control[BLOCKS], le, tie, content
    )


@njit(cache=True, nogil=True)
def at_or_before(store: Store, le: int, tie: int, content: int) -> int:
    """The paper's Search≤: the last event with a key up to this one, or NONE."""
    where, count = place_of(store, le, tie, content)
    if where < 0:
        return NONE
    return store.blocks[store.order[where], count - 1]


@njit(cache=True, nogil=True)
def _new_block(
    order: NDArray[np.int64],
    fill: NDArray[np.int64],
    reach: NDArray[np.int64],
    control: NDArray[np.int64],
    where: int,
) -> int:
    """An empty block at a place in the order; there is room for it."""
    block = control[FREE_BLOCK]
    if block >= 0:
        control[FREE_BLOCK] = fill[block]
    else:
        block = control[HIGH_BLOCK]
        control[HIGH_BLOCK] += 1
    for place in range(control[BLOCKS], where, -1):
        order[place] = order[place - 1]
    order[where] = block
    control[BLOCKS] += 1
    fill[block] = 0
    reach[block] = MINUS_INFINITY
    return block


@njit(cache=True, nogil=True)
def put_in_blocks(
    events: NDArray[np.int64],
    blocks: NDArray[np.int32],
    order: NDArray[np.int64],
    fill: NDArray[np.int64],
    reach: NDArray[np.int64],
    control: NDArray[np.int64],
    slot: int,
    where: int,
    count: int,
) -> None:
    """The event behind the first `count` rows of a block; there is room for two more blocks."""
    if where < 0:
        if control[BLOCKS] == 0:
            _new_block(order, fill, reach, control, 0)
        where, count = 0, 0
    block = order[where]
    if fill[block] == BLOCK:
        fresh = _new_block(order, fill, reach, control, where + 1)
        reach[fresh] = reach[block]
        if count == BLOCK and where + 2 == control[BLOCKS]:
            # Appended at the very end: blocks of a stream in order stay full.
            block, count = fresh, 0
            reach[fresh] = MINUS_INFINITY
        else:
            half = BLOCK // 2
            for row in range(half, BLOCK):
                blocks[fresh, row - half] = blocks[block, row]
            fill[fresh] = BLOCK - half
            fill[block] = half
            if count > half:
                block, count = fresh, count - half
    for row in range(fill[block], count, -1):
        blocks[block, row] = blocks[block, row - 1]
    blocks[block, count] = slot
    fill[block] += 1
    reach[block] = max(reach[block], events[slot, REACH])


@njit(cache=True, nogil=True)
def put_in_index(store: Store, slot: int, where: int, count: int) -> None:
    """As `put_in_blocks`."""
    put_in_blocks(
        store.events, store.blocks, store.order, store.fill, store.reach, store.control, slot,
        where, count,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def take_from_index(store: Store, slot: int) -> None:
    events = store.events
    where, count = place_of(store, events[slot, LE], events[slot, TIE], events[slot, CONTENT])
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


@njit(cache=True, nogil=True)
def _drop_block(store: Store, where: int) -> None:
    control = store.control
    block = store.order[where]
    for place in range(where, control[BLOCKS] - 1):
        store.order[place] = store.order[place + 1]
    control[BLOCKS] -= 1
    store.fill[block] = control[FREE_BLOCK]
    control[FREE_BLOCK] = block


@njit(cache=True, nogil=True)
def drop_from_front(store: Store, count: int) -> None:
    """The first `count` events leave the index."""
    control = store.control
    whole = 0
    while whole < control[BLOCKS] and count >= store.fill[store.order[whole]]:
        block = store.order[whole]
        count -= store.fill[block]
        store.fill[block] = control[FREE_BLOCK]
        control[FREE_BLOCK] = block
        whole += 1
    if whole:
        for place in range(whole, control[BLOCKS]):
            store.order[place - whole] = store.order[place]
        control[BLOCKS] -= whole
    if count:
        block = store.order[0]
        for row in range(count, store.fill[block]):
            store.blocks[block, row - count] = store.blocks[block, row]
        store.fill[block] -= count


# -- rows -----------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def free_event(store: Store, slot: int) -> None:
    store.events[slot, IDENTITY] = NONE
    store.events[slot, NEXT] = store.control[FREE_EVENT]
    store.control[FREE_EVENT] = slot
    store.control[EVENTS] -= 1


@njit(cache=True, nogil=True)
def unlink_node(store: Store, node: int) -> None:
    """Out of the list of its event."""
    nodes, events = store.nodes, store.events
    event, before, after = nodes[node, AT], nodes[node, BEFORE], nodes[node, AFTER]
    if before >= 0:
        nodes[before, AFTER] = after
    else:
        events[event, HEAD] = after
    if after >= 0:
        nodes[after, BEFORE] = before
    else:
        events[event, TAIL] = before


@njit(cache=True, nogil=True)
def free_node(store: Store, node: int) -> None:
    """A node that is in no list."""
    nodes, control = store.nodes, store.control
    _free_edges(store, node)
    nodes[node, AT] = NONE
    nodes[node, AFTER] = control[FREE_NODE]
    control[FREE_NODE] = node
    control[NODES] -= 1


@njit(cache=True, nogil=True)
def _free_edges(store: Store, node: int) -> None:
    edge = store.nodes[node, EDGE]
    while edge >= 0:
        after = store.edges[edge, EDGE_NEXT]
        free_edge(store, edge)
        edge = after
    store.nodes[node, EDGE] = NONE


@njit(cache=True, nogil=True)
def free_edge(store: Store, edge: int) -> None:
    control = store.control
    store.edges[edge, EDGE_NEXT] = control[FREE_EDGE]
    control[FREE_EDGE] = edge
    control[EDGES] -= 1


@inlined
def add_edge(
    nodes: NDArray[np.int64],
    edges: NDArray[np.int64],
    control: NDArray[np.int64],
    parent: int,
    child: int,
    arc: int,
) -> None:
    """There is room."""
    edge = control[FREE_EDGE]
    if edge >= 0:
        control[FREE_EDGE] = edges[edge, EDGE_NEXT]
    else:
        edge = control[HIGH_EDGE]
        control[HIGH_EDGE] += 1
    control[EDGES] += 1
    edges[edge, CHILD] = child
    edges[edge, ARC] = arc
    edges[edge, EDGE_NEXT] = nodes[parent, EDGE]
    nodes[parent, EDGE] = edge


# -- sequence numbers -----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def event_of(store: Store, sequence: int) -> int:
    """The event of a sequence number, or NONE."""
    generation = store.control[GENERATION]
    slot = slot_of(store.keys, store.stamps, generation, sequence)
    if store.stamps[slot] != generation:
        return NONE
    return store.slots[slot]


@njit(cache=True, nogil=True)
def set_event(store: Store, sequence: int, event: int) -> None:
    """There is room; a number whose event is gone stays, with NONE, until the table is rebuilt."""
    generation = store.control[GENERATION]
    slot = slot_of(store.keys, store.stamps, generation, sequence)
    if store.stamps[slot] != generation:
        store.stamps[slot] = generation
        store.keys[slot] = sequence
        store.control[HASHED] += 1
    store.slots[slot] = event


@njit(cache=True, nogil=True)
def rehashed(store: Store) -> Store:
    """A table of the numbers whose events are here, at most a quarter full."""
    size = 16
    while size < 4 * (store.control[EVENTS] + 1):
        size *= 2
    found = Store(
        store.events, store.nodes, store.edges, store.blocks, store.order, store.fill, store.reach,
        store.opened, np.zeros(size, np.int64), np.zeros(size, np.int32), np.zeros(size, np.int64),
        store.control,
    )  # fmt: skip
    store.control[HASHED] = 0
    for slot in range(store.control[HIGH_EVENT]):
        if store.events[slot, IDENTITY] >= 0:
            set_event(found, store.events[slot, SEQUENCE], slot)
    return found
