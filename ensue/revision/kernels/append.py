"""Events without further ado, the common case of the AFA operator, in one loop without calls.

`append` does what `process` does for inserted events where there are no intervals, ε-arcs
and closing arcs: the partial matches that end at the event before meet it, and matches begin with
it. An event that comes late takes the same loop again and again: what spans it goes, and what it
makes meets the events behind it one by one, in front of what stands there. `append` stops, and
`process` goes on, at retractions, at late events with a timestamp that is there already, and where
the index is full.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.guards.machine import run_guard
from ensue.kernels.hashing import slot_of
from ensue.revision.kernels.arcs import (
    ACCEPTS,
    BEGIN,
    FINISH,
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
    load_event,
    load_register,
    new_event,
    new_node,
    same_before,
)
from ensue.revision.kernels.store import (
    AFTER,
    AT,
    BEFORE,
    BITS,
    BLOCK,
    BLOCKS,
    CLEANED,
    CONTENT,
    FREE_NODE,
    GENERATION,
    HASHED,
    HEAD,
    HIGH_BLOCK,
    HIGH_NODE,
    IDENTITY,
    LAST,
    LE,
    LEAST_RE,
    MATCH,
    NEXT,
    NEXT_MATCH,
    NODE_NULLS,
    NODES,
    NONE,
    PREVIOUS,
    REGISTERS,
    SEQUENCE,
    START,
    START_EVENT,
    STATE,
    TAIL,
    TIE,
    more_nodes,
    place_in,
    put_in_blocks,
    taller,
)


@njit(cache=True, nogil=True)
def append(
    events: NDArray[np.int64],
    nodes: NDArray[np.int64],
    blocks: NDArray[np.int32],
    order: NDArray[np.int64],
    fill: NDArray[np.int64],
    reach: NDArray[np.int64],
    names: NDArray[np.int64],
    stamps: NDArray[np.int32],
    slots: NDArray[np.int64],
    control: NDArray[np.int64],
    arcs: Arcs,
    operations: NDArray[np.int8],
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    change: int,
    unique: bool,
    sequenced: bool,
    faults: NDArray[np.int64],
    counts: NDArray[np.int64],
    rows: NDArray[np.int64],
    cells: NDArray[np.int64],
    floats: NDArray[np.float64],
    nulls: NDArray[np.bool_],
    no_ints: NDArray[np.int64],
    no_floats: NDArray[np.float64],
    no_nulls: NDArray[np.bool_],
) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """Changes from `change` on while they are plain events; the first that was not done, and the
    arrays that may have grown."""
    table, outputs, code, quick = arcs.table, arcs.outputs, arcs.code, arcs.quick
    epochs_of, epoch_since, epoch_arcs = arcs.epochs_of, arcs.epoch_since, arcs.epoch_arcs
    listed, inputs, initial = arcs.listed, arcs.inputs, arcs.initial
    fields = arcs.sizes[REGISTER_FIELDS]
    total = operations.shape[0]
    generation = control[GENERATION]
    last = control[LAST]
    ongoing = NONE  # the event that what was just made has still to meet (PropagateInsert)
    cause, boundary = NONE, NONE
    if not sequenced and (last < 0 or control[BLOCKS] == 0 or control[CLEANED]):
        return change, nodes, rows
    while True:
        if ongoing >= 0:
            event = ongoing
            le, bits = events[event, LE], events[event, BITS]
            identity = events[event, IDENTITY]
            load_event(events, event, inputs, cells, nulls)
            parent, stop = events[events[event, PREVIOUS], HEAD], boundary
            boundary = events[event, HEAD]
            following = events[event, NEXT]
            beginning = initial.shape[0]
        else:
            if change == total or operations[change] != 1:
                break
            le, tie, name = keys[change, LE], keys[change, TIE], keys[change, CONTENT]
            previous, following, slot = last, NONE, NONE
            where, position = NONE, NONE
            if sequenced:
                number = keys[change, SEQUENCE]
                slot = slot_of(names, stamps, generation, number)
                if stamps[slot] == generation and slots[slot] >= 0:
                    break
                if 2 * (control[HASHED] + 1) >= names.shape[0]:
                    break
                if last < 0 or events[last, SEQUENCE] != number - 1:
                    other = slot_of(names, stamps, generation, number - 1)
                    previous = slots[other] if stamps[other] == generation else NONE
                other = slot_of(names, stamps, generation, number + 1)
                if stamps[other] == generation:
                    following = slots[other]
                if previous >= 0 and events[previous, LE] > le:
                    break
                if following >= 0 and events[following, LE] <= le:
                    break
            else:
                if max(control[BLOCKS], control[HIGH_BLOCK]) + 2 > order.shape[0]:
                    break
                before = events[last, LE]
                if le < before:
                    where, position = place_in(
                        events, blocks, order, fill, control[BLOCKS], le, tie, name
                    )
                    if where < 0:
                        break
                    previous = blocks[order[where], position - 1]
                    following = events[previous, NEXT]
                    # Events of one time are ordered by their content: left to `process`.
                    if events[previous, LE] == le or events[following, LE] == le:
                        break
                elif le == before:
                    if unique:
                        break
                    if tie < events[last, TIE] or (
                        tie == events[last, TIE] and name < events[last, CONTENT]
                    ):
                        break
            # -- the event --------------------------------------------------------------------
            event = new_event(events, control, keys, values, change, previous, following)
            identity, bits = events[event, IDENTITY], events[event, BITS]
            cause = identity
            load_event(events, event, inputs, cells, nulls)
            if sequenced:
                if stamps[slot] != generation:
                    stamps[slot] = generation
                    names[slot] = number
                    control[HASHED] += 1
                slots[slot] = event
                last = event
            elif following < 0:
                last = event
                where = control[BLOCKS] - 1
                position = fill[order[where]]
                if position < BLOCK:
                    blocks[order[where], position] = event
                    fill[order[where]] = position + 1
                else:
                    put_in_blocks(
                        events, blocks, order, fill, reach, control, event, where, position
                    )
            else:
                put_in_blocks(events, blocks, order, fill, reach, control, event, where, position)
                # RemoveInvalidatedSequences; what began before stands first in every list.
                spanned = following
                while spanned >= 0:
                    node = events[spanned, HEAD]
                    if node < 0 or nodes[node, START] > le:
                        break
                    while node >= 0 and nodes[node, START] < le:
                        if nodes[node, MATCH] >= 0:
                            if counts[ROWS] == rows.shape[0]:
                                rows = taller(rows, 0)
                            tell(events, nodes, node, -1, cause, fields, rows, counts[ROWS])
                            counts[ROWS] += 1
                        after = nodes[node, AFTER]
                        nodes[node, AT] = NONE
                        nodes[node, AFTER] = control[FREE_NODE]
                        control[FREE_NODE] = node
                        control[NODES] -= 1
                        node = after
                    events[spanned, HEAD] = node
                    if node >= 0:
                        nodes[node, BEFORE] = NONE
                    else:
                        events[spanned, TAIL] = NONE
                    spanned = events[spanned, NEXT]
            change += 1
            parent, stop = NONE, NONE
            if previous >= 0:
                parent = events[previous, HEAD]
            boundary = NONE
            beginning = 0
        # -- MakeTransitions ------------------------------------------------------------------
        head, tail, begun = NONE, NONE, NONE
        while parent != stop or beginning < initial.shape[0]:
            if parent != stop:
                current, state = parent, nodes[parent, STATE]
                least = nodes[parent, LEAST_RE]
                parent = nodes[parent, AFTER]
                if least <= le:
                    continue
                start, start_event = nodes[current, START], nodes[current, START_EVENT]
            else:
                begun = beginning
                beginning += 1
                current, state = NONE, initial[begun, INITIAL_STATE]
                if le < initial[begun, INITIAL_SINCE] or le >= initial[begun, INITIAL_TILL]:
                    continue
                start, start_event = le, identity
            low = epoch_at(epochs_of, epoch_since, state, le)
            loaded = False
            for place in range(epoch_arcs[low, 0], epoch_arcs[low, 1]):
                arc = listed[place]
                if bits & table[arc, MASK] != table[arc, VALUE]:
                    continue
                if not loaded:
                    loaded = True
                    if current >= 0:
                        marks = nodes[current, NODE_NULLS]
                        load_register(nodes, current, REGISTERS, marks, fields, cells, nulls)
                    else:
                        marks = initial[begun, INITIAL_NULLS]
                        load_register(initial, begun, INITIAL_REGISTER, marks, fields, cells, nulls)
                begin, finish = table[arc, BEGIN], table[arc, FINISH]
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
                target = table[arc, TARGET]
                known = same_before(
                    nodes, tail, start, start_event, target, outputs, arc, fields, cells, nulls
                )
                if known >= 0:
                    continue
                if control[FREE_NODE] < 0 and control[HIGH_NODE] == nodes.shape[0]:
                    nodes = more_nodes(nodes, 0)
                node = new_node(
                    nodes, control, events, event, current, target, outputs, arc, fields, cells,
                    nulls,
                )  # fmt: skip
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
                    tell(events, nodes, node, 1, cause, fields, rows, counts[ROWS])
                    counts[ROWS] += 1
        # What is new began before what is there already (Ordering).
        if boundary < 0:
            events[event, HEAD] = head
            events[event, TAIL] = tail
        elif tail >= 0:
            events[event, HEAD] = head
            nodes[tail, AFTER] = boundary
            nodes[boundary, BEFORE] = tail
        ongoing = following if tail >= 0 else NONE
    control[LAST] = last
    return change, nodes, rows
