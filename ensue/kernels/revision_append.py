"""Events in order, the common case of the AFA operator, in one loop without calls.

`append` does what `process` does for an event that is not before the newest one, where there are no
intervals, traces, ε-arcs, closing arcs or sequence numbers: the partial matches that end at the
newest event meet it, and matches begin with it. It stops, and `process` goes on, where an event
belongs to the past, where an array is full, and where a block of the index ends.

`run_quick` is the machine of `kernels/guards.py` cut down to the instructions that fences and
transfers are made of nearly always; `Arcs.quick` says for which arcs that is enough.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels import guards as vm
from ensue.kernels.guards import run_guard
from ensue.kernels.revision_steps import (
    ACCEPTS,
    BEGIN,
    CAUSE,
    FAULTS,
    FINAL_STATE,
    FINISH,
    FIRST_EVENT,
    FIRST_LE,
    FIRST_NAME,
    INITIAL_NULLS,
    INITIAL_REGISTER,
    INITIAL_SINCE,
    INITIAL_STATE,
    INITIAL_TILL,
    LAST_EVENT,
    LAST_LE,
    LAST_NAME,
    LIFETIME_LE,
    LIFETIME_RE,
    MASK,
    MATCH_ID,
    MOST_ARCS,
    NODE,
    OPERATION,
    OUTPUT_NULLS,
    OUTPUT_REGISTER,
    REGISTER_FIELDS,
    ROWS,
    TARGET,
    TRACE_BEGIN,
    TRACE_LENGTH,
    VALUE,
    Arcs,
)
from ensue.kernels.revision_store import (
    AFTER,
    AT,
    BEFORE,
    BITS,
    BLOCK,
    BLOCKS,
    COLUMNS,
    CONTENT,
    EVENT_NULLS,
    EVENTS,
    FREE_EVENT,
    FREE_NODE,
    HEAD,
    HIGH_EVENT,
    HIGH_NODE,
    IDENTITY,
    LAST,
    LE,
    LEAST_RE,
    MATCH,
    MINUS_INFINITY,
    NEXT,
    NEXT_MATCH,
    NODE_NULLS,
    NODES,
    NONE,
    PREVIOUS,
    RE,
    REACH,
    REGISTERS,
    SEQUENCE,
    START,
    START_EVENT,
    START_NAME,
    START_SLOT,
    STATE,
    TAIL,
    TIE,
)

QUICK = frozenset(
    {
        vm.ADD, vm.SUBTRACT, vm.ADD + 1, vm.SUBTRACT + 1, vm.MULTIPLY + 1, vm.EQUAL, vm.NOT_EQUAL,
        vm.LESS, vm.LESS_EQUAL, vm.EQUAL + 1, vm.NOT_EQUAL + 1, vm.LESS + 1, vm.LESS_EQUAL + 1,
        vm.MOVE_INT, vm.MOVE_FLOAT, vm.TO_FLOAT, vm.JUMP_UNLESS_TRUE,
    }
)  # fmt: skip


@njit(cache=True, nogil=True)
def run_quick(
    code: NDArray[np.int64],
    place: int,
    end: int,
    cells: NDArray[np.int64],
    floats: NDArray[np.float64],
    nulls: NDArray[np.bool_],
) -> int:
    """As `run_guard`, for the instructions in QUICK, and TRUE where no jump was taken."""
    while place < end:
        operation, target = code[place, 0], code[place, 1]
        a, b = code[place, 2], code[place, 3]
        place += 1
        if operation == vm.JUMP_UNLESS_TRUE:
            if nulls[a] or cells[a] == 0:
                return vm.FALSE
            continue
        if operation < 30:
            nulls[target] = nulls[a]
            if operation == vm.TO_FLOAT:
                floats[target] = float(cells[a]) / floats[b]
            else:
                cells[target] = cells[a]
            continue
        if nulls[a] or nulls[b]:
            nulls[target] = True
            continue
        nulls[target] = False
        if operation == vm.ADD:
            total = np.int64(np.uint64(cells[a]) + np.uint64(cells[b]))
            if (cells[a] >= 0) == (cells[b] >= 0) and (total >= 0) != (cells[a] >= 0):
                return vm.OVERFLOW
            cells[target] = total
        elif operation == vm.SUBTRACT:
            total = np.int64(np.uint64(cells[a]) - np.uint64(cells[b]))
            if (cells[a] >= 0) != (cells[b] >= 0) and (total >= 0) != (cells[a] >= 0):
                return vm.OVERFLOW
            cells[target] = total
        elif operation == vm.EQUAL:
            cells[target] = cells[a] == cells[b]
        elif operation == vm.NOT_EQUAL:
            cells[target] = cells[a] != cells[b]
        elif operation == vm.LESS:
            cells[target] = cells[a] < cells[b]
        elif operation == vm.LESS_EQUAL:
            cells[target] = cells[a] <= cells[b]
        elif operation == vm.ADD + 1:
            floats[target] = floats[a] + floats[b]
        elif operation == vm.SUBTRACT + 1:
            floats[target] = floats[a] - floats[b]
        elif operation == vm.MULTIPLY + 1:
            floats[target] = floats[a] * floats[b]
        else:
            # Spark's NaN: equal to itself and greater than anything else.
            left, right = floats[a], floats[b]
            order = 0
            if left != left:
                order = 0 if right != right else 1
            elif right != right or left < right:
                order = -1
            elif left > right:
                order = 1
            if operation == vm.EQUAL + 1:
                cells[target] = order == 0
            elif operation == vm.NOT_EQUAL + 1:
                cells[target] = order != 0
            elif operation == vm.LESS + 1:
                cells[target] = order < 0
            else:
                cells[target] = order <= 0
    return vm.TRUE


@njit(cache=True, nogil=True)
def append(
    events: NDArray[np.int64],
    nodes: NDArray[np.int64],
    blocks: NDArray[np.int32],
    order: NDArray[np.int64],
    fill: NDArray[np.int64],
    control: NDArray[np.int64],
    arcs: Arcs,
    operations: NDArray[np.int8],
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    change: int,
    unique: bool,
    faults: NDArray[np.int64],
    counts: NDArray[np.int64],
    rows: NDArray[np.int64],
    cells: NDArray[np.int64],
    floats: NDArray[np.float64],
    nulls: NDArray[np.bool_],
    no_ints: NDArray[np.int64],
    no_floats: NDArray[np.float64],
    no_nulls: NDArray[np.bool_],
) -> int:
    """Changes from `change` on while they are events in order; the first that was not done."""
    table, outputs, code, quick = arcs.table, arcs.outputs, arcs.code, arcs.quick
    epochs_of, epoch_since, epoch_arcs = arcs.epochs_of, arcs.epoch_since, arcs.epoch_arcs
    listed, inputs, initial = arcs.listed, arcs.inputs, arcs.initial
    fields, most = arcs.sizes[REGISTER_FIELDS], arcs.sizes[MOST_ARCS]
    columns = inputs.shape[0]
    total = operations.shape[0]
    last = control[LAST]
    if last < 0 or control[BLOCKS] == 0:
        return change
    block = order[control[BLOCKS] - 1]
    filled = fill[block]
    ending = 0  # nodes that end at `last`
    node = events[last, HEAD]
    while node >= 0:
        ending += 1
        node = nodes[node, AFTER]
    while change < total:
        le, tie, name = keys[change, 0], keys[change, 1], keys[change, 2]
        before = events[last, LE]
        if (
            operations[change] != 1
            or filled == BLOCK
            or control[EVENTS] == events.shape[0]
            or control[NODES] + (ending + initial.shape[0]) * most > nodes.shape[0]
            or counts[ROWS] + (ending + initial.shape[0]) * most > rows.shape[0]
        ):
            break
        if le <= before:
            if le < before or unique:
                break
            if tie < events[last, TIE] or (
                tie == events[last, TIE] and name < events[last, CONTENT]
            ):
                break
        # -- the event ------------------------------------------------------------------------
        event = control[FREE_EVENT]
        if event >= 0:
            control[FREE_EVENT] = events[event, NEXT]
        else:
            event = control[HIGH_EVENT]
            control[HIGH_EVENT] += 1
        control[EVENTS] += 1
        re, identity, bits = keys[change, 3], keys[change, 4], keys[change, 6]
        events[event, LE] = le
        events[event, TIE] = tie
        events[event, CONTENT] = name
        events[event, RE] = re
        events[event, IDENTITY] = identity
        events[event, SEQUENCE] = keys[change, 5]
        events[event, BITS] = bits
        events[event, EVENT_NULLS] = keys[change, 7]
        events[event, REACH] = MINUS_INFINITY
        events[event, PREVIOUS] = last
        events[event, NEXT] = NONE
        events[last, NEXT] = event
        for column in range(columns):
            events[event, COLUMNS + column] = values[change, column]
            cells[inputs[column]] = values[change, column]
            nulls[inputs[column]] = (keys[change, 7] >> column) & 1
        blocks[block, filled] = event
        filled += 1
        # -- transitions ----------------------------------------------------------------------
        head, tail, ending = NONE, NONE, 0
        parent = events[last, HEAD]
        beginning = 0
        while parent >= 0 or beginning < initial.shape[0]:
            if parent >= 0:
                current, state = parent, nodes[parent, STATE]
                least = nodes[parent, LEAST_RE]
                parent = nodes[parent, AFTER]
                if least <= le:
                    continue
                start, start_event = nodes[current, START], nodes[current, START_EVENT]
            else:
                current, state, least = NONE, initial[beginning, INITIAL_STATE], re
                beginning += 1
                if (
                    le < initial[beginning - 1, INITIAL_SINCE]
                    or le >= initial[beginning - 1, INITIAL_TILL]
                ):
                    continue
                start, start_event = le, identity
            low, high = epochs_of[state], epochs_of[state + 1]
            while high - low > 1:
                middle = (low + high) >> 1
                if epoch_since[middle] <= le:
                    low = middle
                else:
                    high = middle
            loaded = False
            for place in range(epoch_arcs[low], epoch_arcs[low + 1]):
                arc = listed[place]
                if bits & table[arc, MASK] != table[arc, VALUE]:
                    continue
                if not loaded:
                    loaded = True
                    if current >= 0:
                        marks = nodes[current, NODE_NULLS]
                        for field in range(fields):
                            cells[field] = nodes[current, REGISTERS + field]
                            nulls[field] = (marks >> field) & 1
                    else:
                        marks = initial[beginning - 1, INITIAL_NULLS]
                        for field in range(fields):
                            cells[field] = initial[beginning - 1, INITIAL_REGISTER + field]
                            nulls[field] = (marks >> field) & 1
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
                    if status <= 0:
                        if status < 0:
                            if counts[FAULTS] < faults.shape[0]:
                                faults[counts[FAULTS], 0] = identity
                                faults[counts[FAULTS], 1] = arc
                                faults[counts[FAULTS], 2] = status
                            counts[FAULTS] += 1
                        continue
                # The same configuration may have been reached by another way.
                target = table[arc, TARGET]
                other, known = tail, False
                while (
                    other >= 0
                    and nodes[other, START_EVENT] == start_event
                    and nodes[other, START] == start
                ):
                    if nodes[other, STATE] == target:
                        marks = nodes[other, NODE_NULLS]
                        known = True
                        for field in range(fields):
                            cell = outputs[arc, field]
                            null = (marks >> field) & 1
                            if null != nulls[cell] or (
                                not null and nodes[other, REGISTERS + field] != cells[cell]
                            ):
                                known = False
                                break
                        if known:
                            break
                    other = nodes[other, BEFORE]
                if known:
                    continue
                node = control[FREE_NODE]
                if node >= 0:
                    control[FREE_NODE] = nodes[node, AFTER]
                else:
                    node = control[HIGH_NODE]
                    control[HIGH_NODE] += 1
                control[NODES] += 1
                ending += 1
                nodes[node, AT] = event
                nodes[node, START] = start
                nodes[node, START_EVENT] = start_event
                if current >= 0:
                    nodes[node, START_SLOT] = nodes[current, START_SLOT]
                    nodes[node, START_NAME] = nodes[current, START_NAME]
                else:
                    nodes[node, START_SLOT] = event
                    nodes[node, START_NAME] = name
                nodes[node, LEAST_RE] = min(least, re)
                nodes[node, STATE] = target
                nodes[node, BEFORE] = tail
                nodes[node, AFTER] = NONE
                nodes[node, MATCH] = NONE
                marks = 0
                for field in range(fields):
                    cell = outputs[arc, field]
                    nodes[node, REGISTERS + field] = cells[cell]
                    if nulls[cell]:
                        marks |= 1 << field
                nodes[node, NODE_NULLS] = marks
                if tail >= 0:
                    nodes[tail, AFTER] = node
                else:
                    head = node
                tail = node
                if table[arc, ACCEPTS]:
                    nodes[node, MATCH] = control[NEXT_MATCH]
                    control[NEXT_MATCH] += 1
                    row = counts[ROWS]
                    counts[ROWS] += 1
                    rows[row, OPERATION] = 1
                    rows[row, MATCH_ID] = nodes[node, MATCH]
                    rows[row, FIRST_LE] = start
                    rows[row, FIRST_EVENT] = start_event
                    rows[row, LAST_LE] = le
                    rows[row, LAST_EVENT] = identity
                    rows[row, LIFETIME_LE] = le
                    rows[row, LIFETIME_RE] = nodes[node, LEAST_RE]
                    rows[row, FINAL_STATE] = target
                    rows[row, NODE] = node
                    rows[row, CAUSE] = identity
                    rows[row, OUTPUT_NULLS] = marks
                    rows[row, FIRST_NAME] = nodes[node, START_NAME]
                    rows[row, LAST_NAME] = name
                    rows[row, TRACE_BEGIN] = 0
                    rows[row, TRACE_LENGTH] = 0
                    for field in range(fields):
                        rows[row, OUTPUT_REGISTER + field] = nodes[node, REGISTERS + field]
        events[event, HEAD] = head
        events[event, TAIL] = tail
        last = event
        change += 1
    control[LAST] = last
    fill[block] = filled
    return change
