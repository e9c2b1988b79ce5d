"""Transitions of the AFA operator: one event for a list of partial matches (MakeTransitions).

An arc fires where its bits agree with the event's (the row-local part of its fence, the paper's
f^E, answered for all events at once), where its lifetime holds the event's timestamp, and where the
code of the rest of its fence says so; the same code leaves the new register in cells.

The cells hold the register, what code computes, and then the event's columns and constants.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

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
    SINCE,
    TARGET,
    TILL,
    VALUE,
    Arcs,
    epoch_at,
)
from ensue.revision.kernels.output import ACCEPTED, CREATED
from ensue.revision.kernels.rows import (
    add_fault,
    begin_interval,
    is_same,
    load_event,
    load_register,
    new_node,
    same_before,
)
from ensue.revision.kernels.store import (
    AFTER,
    AT,
    BEFORE,
    BITS,
    HEAD,
    IDENTITY,
    LE,
    LEAST_RE,
    MATCH,
    NODE_NULLS,
    NONE,
    RE,
    REGISTERS,
    START,
    START_EVENT,
    STATE,
    SUPPORT,
    TAIL,
    Store,
    add_edge,
)


@njit(cache=True, nogil=True)
def run_arc(
    arc: int,
    event: int,
    code: NDArray[np.int64],
    begin: int,
    end: int,
    cells: NDArray[np.int64],
    floats: NDArray[np.float64],
    nulls: NDArray[np.bool_],
    no_ints: NDArray[np.int64],
    no_floats: NDArray[np.float64],
    no_nulls: NDArray[np.bool_],
) -> int:
    """TRUE, FALSE, OVERFLOW or BY_ZERO. The slow tier puts a Python function in its place."""
    return run_guard(
        code, begin, end, 0, 0, 0, 0, 0, cells, floats, no_ints, no_floats, no_nulls, no_nulls,
        cells, floats, cells, floats, nulls,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _begins_later(nodes: NDArray[np.int64], node: int, start: int, start_event: int) -> bool:
    if nodes[node, START] != start:
        return nodes[node, START] > start
    return nodes[node, START_EVENT] > start_event


@njit(cache=True, nogil=True)
def link_node(store: Store, node: int, event: int) -> None:
    """Into the list of an event, kept in the order of first events (Ordering)."""
    events, nodes = store.events, store.nodes
    start, start_event = nodes[node, START], nodes[node, START_EVENT]
    before = events[event, TAIL]
    if before >= 0 and _begins_later(nodes, before, start, start_event):
        # An insert into the past: what is new began early, so the place is near the front.
        after = events[event, HEAD]
        while not _begins_later(nodes, after, start, start_event):
            after = nodes[after, AFTER]
        before = nodes[after, BEFORE]
    else:
        after = NONE
    nodes[node, AT] = event
    nodes[node, BEFORE] = before
    nodes[node, AFTER] = after
    if before >= 0:
        nodes[before, AFTER] = node
    else:
        events[event, HEAD] = node
    if after >= 0:
        nodes[after, BEFORE] = node
    else:
        events[event, TAIL] = node


@njit(cache=True, nogil=True)
def _find(
    store: Store,
    arcs: Arcs,
    event: int,
    start: int,
    start_event: int,
    arc: int,
    cells: NDArray[np.int64],
    nulls: NDArray[np.bool_],
) -> int:
    """A node at the event with the same first event, state and register, or NONE."""
    nodes = store.nodes
    state, fields = arcs.table[arc, TARGET], arcs.sizes[REGISTER_FIELDS]
    node = store.events[event, TAIL]
    if node < 0:
        return NONE
    if _begins_later(nodes, node, start, start_event):
        node = store.events[event, HEAD]
        while node >= 0 and not _begins_later(nodes, node, start, start_event):
            if (
                nodes[node, START] == start
                and nodes[node, START_EVENT] == start_event
                and is_same(nodes, node, state, arcs.outputs, arc, fields, cells, nulls)
            ):
                return node
            node = nodes[node, AFTER]
        return NONE
    return same_before(
        nodes, node, start, start_event, state, arcs.outputs, arc, fields, cells, nulls
    )


@njit(cache=True, nogil=True)
def _derive(
    store: Store,
    arcs: Arcs,
    parent: int,  # NONE: a match that begins with this event
    event: int,
    arc: int,
    cells: NDArray[np.int64],
    nulls: NDArray[np.bool_],
    ignoring: bool,
    frontier: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """The node that the arc leads to, new or known."""
    nodes, events = store.nodes, store.events
    if parent >= 0:
        start, start_event = nodes[parent, START], nodes[parent, START_EVENT]
    else:
        start, start_event = events[event, LE], events[event, IDENTITY]
    known = _find(store, arcs, event, start, start_event, arc, cells, nulls)
    if known >= 0:
        nodes[known, SUPPORT] += 1
        if ignoring and parent >= 0:
            add_edge(nodes, store.edges, store.control, parent, known, arc)
        return
    node = new_node(
        nodes, store.control, events, event, parent, arcs.table[arc, TARGET], arcs.outputs, arc,
        arcs.sizes[REGISTER_FIELDS], cells, nulls,
    )  # fmt: skip
    begin_interval(nodes, node, events, event)
    if arcs.table[arc, ACCEPTS]:
        nodes[node, MATCH] = ACCEPTED
    link_node(store, node, event)
    if ignoring and parent >= 0:
        add_edge(nodes, store.edges, store.control, parent, node, arc)
    frontier[counts[CREATED]] = node
    counts[CREATED] += 1


@njit(cache=True, nogil=True)
def extend(
    store: Store,
    arcs: Arcs,
    source: NDArray[np.int64],
    count: int,
    event: int,
    beginning: bool,  # also begin matches with the event
    ignoring: bool,
    stays: NDArray[np.bool_],  # per source: an ignorable arc took the event
    frontier: NDArray[np.int64],  # nodes created; there is room, here and in the store
    faults: NDArray[np.int64],
    counts: NDArray[np.int64],
    cells: NDArray[np.int64],
    floats: NDArray[np.float64],
    nulls: NDArray[np.bool_],
    no_ints: NDArray[np.int64],
    no_floats: NDArray[np.float64],
    no_nulls: NDArray[np.bool_],
) -> None:
    """Every transition of `source` with the event, and of what begins with it."""
    nodes, table = store.nodes, arcs.table
    bits, le, re = store.events[event, BITS], store.events[event, LE], store.events[event, RE]
    identity = store.events[event, IDENTITY]
    fields = arcs.sizes[REGISTER_FIELDS]
    counts[CREATED] = 0
    load_event(store.events, event, arcs.inputs, cells, nulls)
    for index in range(count):
        parent = source[index]
        stays[index] = False
        least = nodes[parent, LEAST_RE]
        if least <= le:
            continue
        epoch = epoch_at(arcs.epochs_of, arcs.epoch_since, nodes[parent, STATE], le)
        loaded = False
        for place in range(arcs.epoch_arcs[epoch, 0], arcs.epoch_arcs[epoch, 1]):
            arc = arcs.listed[place]
            if bits & table[arc, MASK] != table[arc, VALUE]:
                continue
            if table[arc, BEGIN] < table[arc, FINISH]:
                if not loaded:
                    load_register(
                        nodes, parent, REGISTERS, nodes[parent, NODE_NULLS], fields, cells, nulls
                    )
                    loaded = True
                status = run_arc(
                    arc, identity, arcs.code, table[arc, BEGIN], table[arc, FINISH],
                    cells, floats, nulls, no_ints, no_floats, no_nulls,
                )  # fmt: skip
                if status < 0:
                    add_fault(faults, counts, identity, arc, status)
                if status <= 0:
                    continue
            if ignoring and table[arc, IGNORABLE] and re >= least:
                stays[index] = True
                continue
            if not loaded:
                load_register(
                    nodes, parent, REGISTERS, nodes[parent, NODE_NULLS], fields, cells, nulls
                )
                loaded = True
            _derive(store, arcs, parent, event, arc, cells, nulls, ignoring, frontier, counts)
    if beginning:
        for index in range(arcs.initial.shape[0]):
            if not arcs.initial[index, INITIAL_SINCE] <= le < arcs.initial[index, INITIAL_TILL]:
                continue
            epoch = epoch_at(
                arcs.epochs_of, arcs.epoch_since, arcs.initial[index, INITIAL_STATE], le
            )
            loaded = False
            for place in range(arcs.epoch_arcs[epoch, 0], arcs.epoch_arcs[epoch, 1]):
                arc = arcs.listed[place]
                if bits & table[arc, MASK] != table[arc, VALUE]:
                    continue
                if not loaded:
                    load_register(
                        arcs.initial,
                        index,
                        INITIAL_REGISTER,
                        arcs.initial[index, INITIAL_NULLS],
                        fields,
                        cells,
                        nulls,
                    )
                    loaded = True
                if table[arc, BEGIN] < table[arc, FINISH]:
                    status = run_arc(
                        arc, identity, arcs.code, table[arc, BEGIN], table[arc, FINISH],
                        cells, floats, nulls, no_ints, no_floats, no_nulls,
                    )  # fmt: skip
                    if status < 0:
                        add_fault(faults, counts, identity, arc, status)
                    if status <= 0:
                        continue
                _derive(store, arcs, NONE, event, arc, cells, nulls, ignoring, frontier, counts)
    if arcs.silent.shape[0]:
        done = 0
        while done < counts[CREATED]:
            parent = frontier[done]
            done += 1
            state = nodes[parent, STATE]
            for place in range(arcs.silent_of[state], arcs.silent_of[state + 1]):
                arc = arcs.silent[place]
                if not table[arc, SINCE] <= le < table[arc, TILL]:
                    continue
                load_register(
                    nodes, parent, REGISTERS, nodes[parent, NODE_NULLS], fields, cells, nulls
                )
                if table[arc, BEGIN] < table[arc, FINISH]:
                    status = run_arc(
                        arc, NONE, arcs.code, table[arc, BEGIN], table[arc, FINISH],
                        cells, floats, nulls, no_ints, no_floats, no_nulls,
                    )  # fmt: skip
                    if status < 0:
                        add_fault(faults, counts, identity, arc, status)
                    if status <= 0:
                        continue
                _derive(
                    store, arcs, parent, event, arc, cells, nulls, ignoring, frontier,
                    counts,
                )  # fmt: skip
