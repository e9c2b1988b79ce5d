"""Transitions of the AFA operator: one event for a list of partial matches (MakeTransitions).

An arc fires where its bits agree with the event's (the row-local part of its fence, the paper's
f^E, answered for all events at once), where its lifetime holds the event's timestamp, and where the
code of the rest of its fence says so; the same code leaves the new register in cells.

All of it is inlined into `process`: a call with so many arrays costs more than what it does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.registers import MINUS_INFINITY
from ensue.guards.machine import run_cells
from ensue.kernels.calls import inner_allocating, inner_inlined
from ensue.revision.kernels import layout as at
from ensue.revision.kernels.arcs import Arcs, epoch_at
from ensue.revision.kernels.layout import NONE, Numbers
from ensue.revision.kernels.quick import run_quick
from ensue.revision.kernels.store import Store, add_edge, free_row

# -- code of arcs ---------------------------------------------------------------------------------


class Cells(NamedTuple):
    """The register, what code computes, and then the event's columns and constants."""

    bits: Numbers
    floats: NDArray[np.float64]  # the same cells
    nulls: NDArray[np.bool_]
    no_floats: NDArray[np.float64]  # two tables that such code never reads
    no_nulls: NDArray[np.bool_]


@inner_allocating
def cells_of(arcs: Arcs) -> Cells:
    bits = arcs.cells.copy()
    no_nulls = np.zeros((1, 1), np.bool_)
    return Cells(bits, bits.view(np.float64), arcs.nulls.copy(), np.zeros((1, 1)), no_nulls)


@inner_inlined
def run_arc(arcs: Arcs, arc: int, event: int, cells: Cells) -> int:
    """TRUE, FALSE, OVERFLOW or BY_ZERO. The slow tier puts a Python function in its place."""
    begin, end = arcs.table[arc, at.BEGIN], arcs.table[arc, at.FINISH]
    if arcs.quick[arc]:
        # The last instruction only repeats the verdict.
        return run_quick(arcs.code, begin, end - 1, cells.bits, cells.floats, cells.nulls)
    return run_cells(
        arcs.code, begin, end, cells.bits, cells.floats, cells.nulls, cells.no_floats,
        cells.no_nulls,
    )  # fmt: skip


@inner_inlined
def load_event(store: Store, event: int, arcs: Arcs, cells: Cells) -> None:
    marks = store.events[event, at.EVENT_NULLS]
    for column in range(arcs.inputs.shape[0]):
        cell = arcs.inputs[column]
        cells.bits[cell] = store.events[event, at.COLUMNS + column]
        cells.nulls[cell] = (marks >> column) & 1


@inner_inlined
def load_register(
    rows: Numbers,  # nodes, or configurations before the first event
    row: int,
    place: int,
    marks: int,
    fields: int,
    cells: Cells,
) -> None:
    for field in range(fields):
        cells.bits[field] = rows[row, place + field]
        cells.nulls[field] = (marks >> field) & 1


@inner_inlined
def store_register(
    rows: Numbers, row: int, place: int, outputs: Numbers, arc: int, cells: Cells
) -> int:
    """The register that an arc left; its nulls as bits."""
    marks = 0
    for field in range(outputs.shape[1]):
        cell = outputs[arc, field]
        rows[row, place + field] = cells.bits[cell]
        if cells.nulls[cell]:
            marks |= 1 << field
    return marks


@inner_inlined
def add_fault(faults: Numbers, counts: Numbers, event: int, arc: int, status: int) -> None:
    if counts[at.FAULTS] < faults.shape[0]:
        faults[counts[at.FAULTS], 0] = event
        faults[counts[at.FAULTS], 1] = arc
        faults[counts[at.FAULTS], 2] = status
    counts[at.FAULTS] += 1


# -- events and nodes -----------------------------------------------------------------------------


@inner_inlined
def new_event(
    store: Store, keys: Numbers, values: Numbers, change: int, previous: int, following: int
) -> int:
    """The event of a change, linked to its neighbours, with no nodes; there is room."""
    events = store.events
    event = free_row(events, store.control, at.FREE_EVENT, at.NEXT)
    for place in range(at.GIVEN):
        events[event, place] = keys[change, place]
    for column in range(values.shape[1]):
        events[event, at.COLUMNS + column] = values[change, column]
    events[event, at.PREVIOUS] = previous
    events[event, at.NEXT] = following
    events[event, at.HEAD] = NONE
    events[event, at.TAIL] = NONE
    events[event, at.REACH] = MINUS_INFINITY
    if previous >= 0:
        events[previous, at.NEXT] = event
    if following >= 0:
        events[following, at.PREVIOUS] = event
    return event


@inner_inlined
def new_node(
    store: Store,
    event: int,
    parent: int,  # NONE: a match that begins with the event
    arcs: Arcs,
    arc: int,
    cells: Cells,
) -> int:
    """A node at the event with the register that the arc left, in no list yet; there is room."""
    events, nodes = store.events, store.nodes
    node = free_row(nodes, store.control, at.FREE_NODE, at.AFTER)
    nodes[node, at.AT] = event
    re = events[event, at.RE]
    if parent >= 0:
        for column in range(at.START, at.LEAST_RE):
            nodes[node, column] = nodes[parent, column]
        nodes[node, at.LEAST_RE] = min(nodes[parent, at.LEAST_RE], re)
    else:
        nodes[node, at.START] = events[event, at.LE]
        nodes[node, at.START_EVENT] = events[event, at.IDENTITY]
        nodes[node, at.START_SLOT] = event
        nodes[node, at.START_NAME] = events[event, at.CONTENT]
        nodes[node, at.LEAST_RE] = re
    nodes[node, at.STATE] = arcs.table[arc, at.TARGET]
    nodes[node, at.MATCH] = at.ACCEPTED if arcs.table[arc, at.ACCEPTS] else NONE
    nodes[node, at.NODE_NULLS] = store_register(nodes, node, at.REGISTERS, arcs.outputs, arc, cells)
    return node


@inner_inlined
def begin_interval(store: Store, node: int, event: int) -> None:
    """What only intervals and closing arcs need of a node."""
    nodes, events = store.nodes, store.events
    nodes[node, at.EDGE] = NONE
    nodes[node, at.SUPPORT] = 1
    nodes[node, at.UNTIL] = event
    nodes[node, at.EVENT] = events[event, at.IDENTITY]
    nodes[node, at.FIRED] = 0
    nodes[node, at.END] = events[event, at.LE]
    nodes[node, at.END_NAME] = events[event, at.CONTENT]


# -- lists of nodes, in the order of first events (Ordering) --------------------------------------


@inner_inlined
def begins_later(nodes: Numbers, node: int, start: int, start_event: int) -> bool:
    if nodes[node, at.START] != start:
        return nodes[node, at.START] > start
    return nodes[node, at.START_EVENT] > start_event


@inner_inlined
def place_in_list(store: Store, event: int, start: int, start_event: int, recent: int) -> int:
    """The last node of an event that does not begin later, or NONE; `recent`: one to try."""
    nodes = store.nodes
    before = store.events[event, at.TAIL]
    if before >= 0 and begins_later(nodes, before, start, start_event):
        # An insert into the past: what is new began early, so the place is near the front.
        before, after = NONE, store.events[event, at.HEAD]
        if recent >= 0 and not begins_later(nodes, recent, start, start_event):
            before, after = recent, nodes[recent, at.AFTER]
        while not begins_later(nodes, after, start, start_event):
            before, after = after, nodes[after, at.AFTER]
    return before


@inner_inlined
def link_node(store: Store, node: int, event: int, before: int) -> None:
    """Into the list of an event, behind another node or first (NONE)."""
    events, nodes = store.events, store.nodes
    nodes[node, at.AT] = event
    nodes[node, at.BEFORE] = before
    if before >= 0:
        after = nodes[before, at.AFTER]
        nodes[before, at.AFTER] = node
    else:
        after = events[event, at.HEAD]
        events[event, at.HEAD] = node
    nodes[node, at.AFTER] = after
    if after >= 0:
        nodes[after, at.BEFORE] = node
    else:
        events[event, at.TAIL] = node


@inner_inlined
def same_before(
    nodes: Numbers,
    node: int,
    start: int,
    start_event: int,
    arcs: Arcs,
    arc: int,
    cells: Cells,
    most: int,
) -> int:
    """The same configuration reached by another way: this node or one before it, or NONE; CROWDED
    where `most` others begin with the same event."""
    state = arcs.table[arc, at.TARGET]
    while (
        node >= 0 and nodes[node, at.START_EVENT] == start_event and nodes[node, at.START] == start
    ):
        same = nodes[node, at.STATE] == state
        marks = nodes[node, at.NODE_NULLS]
        field = 0
        while same and field < arcs.outputs.shape[1]:
            cell = arcs.outputs[arc, field]
            null = (marks >> field) & 1
            same = null == cells.nulls[cell] and (
                null or nodes[node, at.REGISTERS + field] == cells.bits[cell]
            )
            field += 1
        if same:
            return node
        most -= 1
        if most <= 0:
            return at.CROWDED
        node = nodes[node, at.BEFORE]
    return NONE


# -- transitions ----------------------------------------------------------------------------------


@inner_inlined
def extend(
    store: Store,
    arcs: Arcs,
    cells: Cells,
    source: Numbers,  # the partial matches that meet the event, `count` of them
    count: int,
    index: int,  # the next of them
    event: int,
    beginning: bool,  # also begin matches with the event
    ignoring: bool,
    keeping: bool,  # nodes have intervals
    stays: NDArray[np.bool_],  # per source: an ignorable arc took the event
    frontier: Numbers,  # nodes created
    most: int,  # so many can be created in all
    faults: Numbers,
    counts: Numbers,
) -> int:
    """Every transition with the event: of `source`, of what begins, and ε-arcs of what was made.

    It makes no room: where there is too little for the next of them, it says which one that is.
    """
    events, nodes, table = store.events, store.nodes, arcs.table
    bits, le, re = events[event, at.BITS], events[event, at.LE], events[event, at.RE]
    identity = events[event, at.IDENTITY]
    fields = arcs.outputs.shape[1]
    met = count + (arcs.initial.shape[0] if beginning else 0)
    silent = arcs.silent.shape[0] > 0
    created = counts[at.CREATED]
    recent = frontier[created - 1] if created else NONE
    while index < met or (silent and index < met + created):
        parent, begun, least = NONE, NONE, re
        start, start_event = le, identity
        if index < count:
            parent = source[index]
            least = nodes[parent, at.LEAST_RE]
            if least <= le:
                index += 1
                continue
        elif index < met:
            begun = index - count
            since, till = (
                arcs.initial[begun, at.INITIAL_SINCE],
                arcs.initial[begun, at.INITIAL_TILL],
            )
            if le < since or le >= till:
                index += 1
                continue
        else:
            parent = frontier[index - met]
        if parent >= 0:
            state = nodes[parent, at.STATE]
            start, start_event = nodes[parent, at.START], nodes[parent, at.START_EVENT]
        else:
            state = arcs.initial[begun, at.INITIAL_STATE]
        if index < met:
            epoch = epoch_at(arcs.epochs_of, arcs.epoch_since, state, le)
            first, onward = arcs.epoch_arcs[epoch, 0], arcs.epoch_arcs[epoch, 1]
        else:
            first, onward = arcs.silent_of[state], arcs.silent_of[state + 1]
        wanted = onward - first
        if created + wanted > most or (
            ignoring and store.control[at.EDGES] + wanted > store.edges.shape[0]
        ):
            counts[at.CREATED], counts[at.WANTED] = created, wanted
            return index
        loaded = False
        for place in range(first, onward):
            if index < met:
                arc, seen = arcs.listed[place], identity
                if bits & table[arc, at.MASK] != table[arc, at.VALUE]:
                    continue
            else:
                arc, seen = arcs.silent[place], NONE
                if le < table[arc, at.SINCE] or le >= table[arc, at.TILL]:
                    continue
            plain = table[arc, at.BEGIN] == table[arc, at.FINISH]
            ignores = ignoring and index < count and table[arc, at.IGNORABLE] and re >= least
            if ignores and plain:
                stays[index] = True
                continue
            if not loaded:
                loaded = True
                if parent >= 0:
                    marks = nodes[parent, at.NODE_NULLS]
                    load_register(nodes, parent, at.REGISTERS, marks, fields, cells)
                else:
                    marks = arcs.initial[begun, at.INITIAL_NULLS]
                    load_register(arcs.initial, begun, at.INITIAL_REGISTER, marks, fields, cells)
            if not plain:
                status = run_arc(arcs, arc, seen, cells)
                if status < 0:
                    add_fault(faults, counts, identity, arc, status)
                if status <= 0:
                    continue
                if ignores:
                    stays[index] = True
                    continue
            before = place_in_list(store, event, start, start_event, recent)
            node = same_before(
                nodes, before, start, start_event, arcs, arc, cells, counts[at.MOST_OF_START]
            )
            if node == at.CROWDED:
                counts[at.CREATED], counts[at.EXCEEDED] = created, at.MOST_OF_START
                return index
            if node < 0:
                node = new_node(store, event, parent, arcs, arc, cells)
                if keeping:
                    begin_interval(store, node, event)
                link_node(store, node, event, before)
                frontier[created] = node
                created += 1
                recent = node
            elif keeping:
                nodes[node, at.SUPPORT] += 1
            if ignoring and parent >= 0:
                add_edge(store, parent, node, arc)
        index += 1
    counts[at.CREATED] = created
    return NONE
