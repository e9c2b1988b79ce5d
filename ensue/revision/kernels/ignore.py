"""Events in order where ignorable arcs are intervals (Appendix D), in one loop without calls.

`append_ignoring` does for intervals what `append` does without them, and what `process` does for
any change: a partial match that ignores the event stays as it is and is listed in `opened`, the
others are extended, and every derivation is kept as an edge. An event that all ignore costs one
test per partial match and makes nothing, where the plain operator makes a node per partial match.
`process` goes on at late events, retractions and the first event after a watermark (`STALE`).

Partial matches meet the event in the order in which they began: `opened` and the list of the last
event are both in that order, so they are merged. Only those of the last event can open now, so the
block whose bound they raise is the last one, without a search.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.automaton.registers import INFINITY
from ensue.guards.machine import run_guard
from ensue.revision.kernels.arcs import (
    ACCEPTS,
    BEGIN,
    FINISH,
    IGNORABLE,
    INITIAL_NULLS,
    INITIAL_REGISTER,
    INITIAL_SINCE,
    INITIAL_STATE,
    INITIAL_TILL,
    MASK,
    REGISTER_FIELDS,
    TARGET,
    VALUE,
    Arcs,
    epoch_at,
)
from ensue.revision.kernels.output import ROWS, tell
from ensue.revision.kernels.quick import run_quick
from ensue.revision.kernels.rows import (
    add_fault,
    begin_interval,
    load_event,
    load_register,
    new_event,
    new_node,
    same_before,
)
from ensue.revision.kernels.store import (
    AFTER,
    BEFORE,
    BITS,
    BLOCK,
    BLOCKS,
    CLEANED,
    CONTENT,
    FREE_EDGE,
    FREE_NODE,
    HEAD,
    HIGH_BLOCK,
    HIGH_EDGE,
    HIGH_NODE,
    IDENTITY,
    LAST,
    LE,
    LEAST_RE,
    MATCH,
    NEXT_MATCH,
    NODE_NULLS,
    NONE,
    OPEN,
    OPENED,
    RE,
    REACH,
    REGISTERS,
    STALE,
    START,
    START_EVENT,
    STATE,
    SUPPORT,
    TAIL,
    TIE,
    UNTIL,
    Store,
    add_edge,
    compare,
    longer,
    more_nodes,
    put_in_blocks,
    taller,
)


@njit(cache=True, nogil=True)
def append_ignoring(
    store: Store,
    arcs: Arcs,
    operations: NDArray[np.int8],
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    change: int,
    unique: bool,
    faults: NDArray[np.int64],
    counts: NDArray[np.int64],
    rows: NDArray[np.int64],
    source: NDArray[np.int64],  # scratch: the partial matches that meet an event
    cells: NDArray[np.int64],
    floats: NDArray[np.float64],
    nulls: NDArray[np.bool_],
    no_ints: NDArray[np.int64],
    no_floats: NDArray[np.float64],
    no_nulls: NDArray[np.bool_],
) -> tuple[int, Store, NDArray[np.int64], NDArray[np.int64]]:
    """Changes from `change` on while they are events in order; the first that was not done, and
    what may have grown: the store, `rows` and `source`."""
    events, nodes, edges, opened = store.events, store.nodes, store.edges, store.opened
    blocks, order, fill, reach = store.blocks, store.order, store.fill, store.reach
    control = store.control
    table, outputs, code, quick = arcs.table, arcs.outputs, arcs.code, arcs.quick
    epochs_of, epoch_since, epoch_arcs = arcs.epochs_of, arcs.epoch_since, arcs.epoch_arcs
    listed, inputs, initial = arcs.listed, arcs.inputs, arcs.initial
    fields = arcs.sizes[REGISTER_FIELDS]
    last = control[LAST]
    while (
        change < operations.shape[0]
        and operations[change] == 1
        and last >= 0
        and control[BLOCKS] > 0
        and not control[STALE]
        and not control[CLEANED]
        and max(control[BLOCKS], control[HIGH_BLOCK]) + 2 <= order.shape[0]
    ):
        le, tie, name = keys[change, LE], keys[change, TIE], keys[change, CONTENT]
        if compare(events, last, le, tie, name) > 0 or (unique and events[last, LE] == le):
            break
        # -- the event ------------------------------------------------------------------------
        event = new_event(events, control, keys, values, change, last, NONE)
        re, identity, bits = events[event, RE], events[event, IDENTITY], events[event, BITS]
        load_event(events, event, inputs, cells, nulls)
        where = control[BLOCKS] - 1
        before_block = order[where]  # of the event before
        position = fill[before_block]
        if position < BLOCK:
            blocks[before_block, position] = event
            fill[before_block] = position + 1
        else:
            put_in_blocks(events, blocks, order, fill, reach, control, event, where, position)
        change += 1
        # -- what the event meets, by first event ---------------------------------------------
        count, index, listed_node = 0, 0, events[last, HEAD]
        while index < control[OPENED] or listed_node >= 0:
            if count == source.shape[0]:
                source = longer(source, 0)
            if index == control[OPENED]:
                takes_opened = False
            elif listed_node < 0:
                takes_opened = True
            else:
                node = opened[index]
                takes_opened = nodes[node, START] < nodes[listed_node, START] or (
                    nodes[node, START] == nodes[listed_node, START]
                    and nodes[node, START_EVENT] <= nodes[listed_node, START_EVENT]
                )
            if takes_opened:
                source[count] = opened[index]
                index += 1
            else:
                source[count] = listed_node
                listed_node = nodes[listed_node, AFTER]
            count += 1
        if opened.shape[0] < count:
            opened = longer(opened, count)
        # -- MakeTransitions ------------------------------------------------------------------
        head, tail = NONE, NONE
        control[OPENED] = 0
        for index in range(count + initial.shape[0]):
            if index < count:
                parent = source[index]
                state, least = nodes[parent, STATE], nodes[parent, LEAST_RE]
                start, start_event = nodes[parent, START], nodes[parent, START_EVENT]
                begins = 0
            else:
                parent, begins = NONE, index - count
                state, least = initial[begins, INITIAL_STATE], re
                start, start_event = le, identity
                if le < initial[begins, INITIAL_SINCE] or le >= initial[begins, INITIAL_TILL]:
                    continue
            stays, loaded = False, False
            first, onward = 0, 0
            if parent < 0 or least > le:
                low = epoch_at(epochs_of, epoch_since, state, le)
                first, onward = epoch_arcs[low, 0], epoch_arcs[low, 1]
            for place in range(first, onward):
                arc = listed[place]
                if bits & table[arc, MASK] != table[arc, VALUE]:
                    continue
                begin, finish = table[arc, BEGIN], table[arc, FINISH]
                ignores = parent >= 0 and table[arc, IGNORABLE] and re >= least
                if ignores and begin == finish:
                    stays = True
                    continue
                if not loaded:
                    loaded = True
                    if parent >= 0:
                        marks = nodes[parent, NODE_NULLS]
                        load_register(nodes, parent, REGISTERS, marks, fields, cells, nulls)
                    else:
                        marks = initial[begins, INITIAL_NULLS]
                        load_register(
                            initial, begins, INITIAL_REGISTER, marks, fields, cells, nulls
                        )
                if begin < finish:
                    if quick[arc]:
                        # The last instruction only repeats the verdict.
                        status = run_quick(code, begin, finish - 1, cells, floats, nulls)
                    else:
                        status = run_guard(
                            code, begin, finish, 0, 0, 0, 0, 0, cells, floats, no_ints, no_floats,
                            no_nulls, no_nulls, cells, floats, cells, floats, nulls,
                        )  # fmt: skip
                    if status < 0:
                        add_fault(faults, counts, identity, arc, status)
                    if status <= 0:
                        continue
                if ignores:
                    stays = True
                    continue
                target = table[arc, TARGET]
                node = same_before(
                    nodes, tail, start, start_event, target, outputs, arc, fields, cells, nulls
                )
                if node >= 0:
                    nodes[node, SUPPORT] += 1
                else:
                    if control[FREE_NODE] < 0 and control[HIGH_NODE] == nodes.shape[0]:
                        nodes = more_nodes(nodes, 0)
                    node = new_node(
                        nodes, control, events, event, parent, target, outputs, arc, fields,
                        cells, nulls,
                    )  # fmt: skip
                    begin_interval(nodes, node, events, event)
                    nodes[node, BEFORE] = tail
                    nodes[node, AFTER] = NONE
                    if tail >= 0:
                        nodes[tail, AFTER] = node
                    else:
                        head = node
                    tail = node
                    if table[arc, ACCEPTS]:
                        nodes[node, MATCH] = control[NEXT_MATCH]
                        control[NEXT_MATCH] += 1
                        if counts[ROWS] == rows.shape[0]:
                            rows = taller(rows, 0)
                        tell(events, nodes, node, 1, identity, fields, rows, counts[ROWS])
                        counts[ROWS] += 1
                if parent >= 0:
                    if control[FREE_EDGE] < 0 and control[HIGH_EDGE] == edges.shape[0]:
                        edges = taller(edges, 0)
                    add_edge(nodes, edges, control, parent, node, arc)
            if stays:
                if nodes[parent, UNTIL] != OPEN:
                    nodes[parent, UNTIL] = OPEN
                    events[last, REACH] = INFINITY
                    reach[before_block] = INFINITY
                opened[control[OPENED]] = parent
                control[OPENED] += 1
            elif parent >= 0 and nodes[parent, UNTIL] == OPEN:
                nodes[parent, UNTIL] = last
        events[event, HEAD] = head
        events[event, TAIL] = tail
        last = event
        control[LAST] = event
    grown = Store(
        events, nodes, edges, blocks, order, fill, reach, opened, store.keys, store.stamps,
        store.slots, control,
    )  # fmt: skip
    return change, grown, rows, source
