"""What every loop of the AFA operator does to one event, node or register.

All of it is inlined: a call with so many arrays costs more than what it does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.registers import MINUS_INFINITY
from ensue.kernels.calls import inlined
from ensue.revision.kernels.output import FAULTS
from ensue.revision.kernels.store import (
    AFTER,
    AT,
    BEFORE,
    COLUMNS,
    CONTENT,
    EDGE,
    END,
    END_NAME,
    EVENT,
    EVENT_NULLS,
    EVENTS,
    FIRED,
    FREE_EVENT,
    FREE_NODE,
    GIVEN,
    HEAD,
    HIGH_EVENT,
    HIGH_NODE,
    IDENTITY,
    LE,
    LEAST_RE,
    MATCH,
    NEXT,
    NODE_NULLS,
    NODES,
    NONE,
    PREVIOUS,
    RE,
    REACH,
    REGISTERS,
    START,
    START_EVENT,
    START_NAME,
    START_SLOT,
    STATE,
    SUPPORT,
    TAIL,
    UNTIL,
)

# -- events ---------------------------------------------------------------------------------------


@inlined
def new_event(
    events: NDArray[np.int64],
    control: NDArray[np.int64],
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    change: int,
    previous: int,
    following: int,
) -> int:
    """The event of a change, linked to its neighbours, with no nodes; there is room."""
    event = control[FREE_EVENT]
    if event >= 0:
        control[FREE_EVENT] = events[event, NEXT]
    else:
        event = control[HIGH_EVENT]
        control[HIGH_EVENT] += 1
    control[EVENTS] += 1
    for place in range(GIVEN):
        events[event, place] = keys[change, place]
    for column in range(values.shape[1]):
        events[event, COLUMNS + column] = values[change, column]
    events[event, PREVIOUS] = previous
    events[event, NEXT] = following
    events[event, HEAD] = NONE
    events[event, TAIL] = NONE
    events[event, REACH] = MINUS_INFINITY
    if previous >= 0:
        events[previous, NEXT] = event
    if following >= 0:
        events[following, PREVIOUS] = event
    return event


@inlined
def load_event(
    events: NDArray[np.int64],
    event: int,
    inputs: NDArray[np.int64],
    cells: NDArray[np.int64],
    nulls: NDArray[np.bool_],
) -> None:
    marks = events[event, EVENT_NULLS]
    for column in range(inputs.shape[0]):
        cell = inputs[column]
        cells[cell] = events[event, COLUMNS + column]
        nulls[cell] = (marks >> column) & 1


# -- registers ------------------------------------------------------------------------------------


@inlined
def load_register(
    rows: NDArray[np.int64],  # nodes, or configurations before the first event
    row: int,
    place: int,
    marks: int,
    fields: int,
    cells: NDArray[np.int64],
    nulls: NDArray[np.bool_],
) -> None:
    for field in range(fields):
        cells[field] = rows[row, place + field]
        nulls[field] = (marks >> field) & 1


@inlined
def is_same(
    nodes: NDArray[np.int64],
    node: int,
    state: int,
    outputs: NDArray[np.int64],
    arc: int,
    fields: int,
    cells: NDArray[np.int64],
    nulls: NDArray[np.bool_],
) -> bool:
    """Whether a node has this state and the register that the arc left."""
    if nodes[node, STATE] != state:
        return False
    marks = nodes[node, NODE_NULLS]
    for field in range(fields):
        cell = outputs[arc, field]
        null = (marks >> field) & 1
        if null != nulls[cell] or (not null and nodes[node, REGISTERS + field] != cells[cell]):
            return False
    return True


@inlined
def same_before(
    nodes: NDArray[np.int64],
    node: int,
    start: int,
    start_event: int,
    state: int,
    outputs: NDArray[np.int64],
    arc: int,
    fields: int,
    cells: NDArray[np.int64],
    nulls: NDArray[np.bool_],
) -> int:
    """The same configuration reached by another way: this node or one before it, or NONE."""
    while node >= 0 and nodes[node, START_EVENT] == start_event and nodes[node, START] == start:
        if is_same(nodes, node, state, outputs, arc, fields, cells, nulls):
            return node
        node = nodes[node, BEFORE]
    return NONE


@inlined
def add_fault(
    faults: NDArray[np.int64], counts: NDArray[np.int64], event: int, arc: int, status: int
) -> None:
    if counts[FAULTS] < faults.shape[0]:
        faults[counts[FAULTS], 0] = event
        faults[counts[FAULTS], 1] = arc
        faults[counts[FAULTS], 2] = status
    counts[FAULTS] += 1


# -- nodes ----------------------------------------------------------------------------------------


@inlined
def new_node(
    nodes: NDArray[np.int64],
    control: NDArray[np.int64],
    events: NDArray[np.int64],
    event: int,
    parent: int,  # NONE: a match that begins with the event
    state: int,
    outputs: NDArray[np.int64],
    arc: int,
    fields: int,
    cells: NDArray[np.int64],
    nulls: NDArray[np.bool_],
) -> int:
    """A node at the event with the register that the arc left, in no list yet; there is room."""
    node = control[FREE_NODE]
    if node >= 0:
        control[FREE_NODE] = nodes[node, AFTER]
    else:
        node = control[HIGH_NODE]
        control[HIGH_NODE] += 1
    control[NODES] += 1
    nodes[node, AT] = event
    re = events[event, RE]
    if parent >= 0:
        nodes[node, START] = nodes[parent, START]
        nodes[node, START_EVENT] = nodes[parent, START_EVENT]
        nodes[node, START_SLOT] = nodes[parent, START_SLOT]
        nodes[node, START_NAME] = nodes[parent, START_NAME]
        nodes[node, LEAST_RE] = min(nodes[parent, LEAST_RE], re)
    else:
        nodes[node, START] = events[event, LE]
        nodes[node, START_EVENT] = events[event, IDENTITY]
        nodes[node, START_SLOT] = event
        nodes[node, START_NAME] = events[event, CONTENT]
        nodes[node, LEAST_RE] = re
    nodes[node, STATE] = state
    nodes[node, MATCH] = NONE
    marks = 0
    for field in range(fields):
        cell = outputs[arc, field]
        nodes[node, REGISTERS + field] = cells[cell]
        if nulls[cell]:
            marks |= 1 << field
    nodes[node, NODE_NULLS] = marks
    return node


@inlined
def begin_interval(
    nodes: NDArray[np.int64], node: int, events: NDArray[np.int64], event: int
) -> None:
    """What only intervals and closing arcs need of a node."""
    nodes[node, EDGE] = NONE
    nodes[node, SUPPORT] = 1
    nodes[node, UNTIL] = event
    nodes[node, EVENT] = events[event, IDENTITY]
    nodes[node, FIRED] = 0
    nodes[node, END] = events[event, LE]
    nodes[node, END_NAME] = events[event, CONTENT]
