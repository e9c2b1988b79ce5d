"""Event patterns whose conditions read the match so far: classes of partial matches, flat.

A *class* is (state, registers): partial matches that agree on everything the conditions ahead can
read behave alike and share one node of the match graph (`match_graph.py`, whose node arrays,
windows and listing are used unchanged). A register is the row of the last A, a count, a sum: what
the guards of `guards/machine.py` read. Registers that nothing ahead reads are reset, so classes
merge.

An event touches only the classes that it can change:

- A state whose step for the event is "stay as you are" is passed over at once.
- Where one guard decides and it compares the event with something remembered, the classes of the
  state are sorted by that, and only the range that the comparison allows is asked (`sorting.py`).

Where classes lie and are found is in `classes.py`. Cost per event: the classes in the range,
times a guard; what an event adds to a list is merged into it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.guards.machine import FALSE, OVERFLOW, TRUE
from ensue.guards.registers import (
    GuardMachine,
    ask_guard,
    copy_registers,
    hash_registers,
    reset_registers,
    take_row,
)
from ensue.kernels.calls import borrowing, inner, inner_inlined
from ensue.kernels.copies import copy_row
from ensue.kernels.stop import asked
from ensue.sequences.kernels.classes import (
    EMPTY,
    Classes,
    clear,
    first_place,
    forget,
    merge,
    rehash,
    same_class,
)
from ensue.sequences.kernels.match_graph import (
    NOTHING,
    Nodes,
    Walk,
    event_node,
    join_nodes,
    next_partition,
    note_live,
)
from ensue.sequences.kernels.sorting import (
    ABOVE,
    BELOW,
    EQUAL,
    EVENT,
    FROM,
    NO_INDEX,
    NULL,
    PAST,
    Sorting,
    in_vain,
    side_key,
)
from ensue.sequences.kernels.timeouts import COMPLETE, LATE, Timeouts, expire, left_open

DONE, FULL, GUARD_OVERFLOW, GUARD_BY_ZERO, PAUSED = range(5)


class Steps(NamedTuple):
    """Per state, the step for every combination of the atoms that it tests."""

    mask: NDArray[np.int64]
    position_offset: NDArray[np.int64]  # per state, into `positions`
    positions: NDArray[np.int64]  # atoms of the mask, in order
    entry_offset: NDArray[np.int64]  # per state, into the arrays below
    skip: NDArray[np.int32]  # state after leaving the event out, -1: none
    skip_accept: NDArray[np.bool_]
    idle: NDArray[np.bool_]  # nothing changes
    take_offset: NDArray[np.int64]
    take_label: NDArray[np.int32]
    take_target: NDArray[np.int32]
    take_accept: NDArray[np.bool_]


class Machine(NamedTuple):
    """Guards and registers over the rows, and how the classes of each state are sorted."""

    guards: GuardMachine
    labels: int
    correlated: int  # bits of the labels that have a guard
    bits: NDArray[np.int64]  # per row: the labels whose own parts hold
    starts: NDArray[np.int64]  # of partitions
    bounds: NDArray[np.float64]  # of joints, in the unit of `order`
    last_register: int  # row of the last event, where there are bounds
    order: NDArray[np.float64]
    reads_itself: NDArray[np.bool_]  # per label: its guard reads what its own event changes
    sorting: Sorting


@inner
def _entry(steps: Steps, state: int, bits: int) -> int:
    found = 0
    begin = steps.position_offset[state]
    for index in range(begin, steps.position_offset[state + 1]):
        found |= ((bits >> steps.positions[index]) & 1) << (index - begin)
    return steps.entry_offset[state] + found


@inner
def _range(machine: Machine, classes: Classes, state: int, value: int) -> tuple[int, int]:
    """Places of the classes that the comparison allows; others stay as they are."""
    keys, count = classes.keys[state], classes.counts[state]
    if value == NULL:
        return 0, 0
    comparison = machine.sorting.comparison[state]
    if comparison == EQUAL:
        return first_place(keys, count, value, False), first_place(keys, count, value, True)
    if comparison == ABOVE:
        return 0, first_place(keys, count, value, False)
    if comparison == FROM:
        return 0, first_place(keys, count, value, True)
    if comparison == BELOW:
        return first_place(keys, count, value, True), count
    return first_place(keys, count, value, False), count


@inner_inlined
def _verdict(
    machine: Machine,
    label: int,
    row: int,
    partition: int,
    known: NDArray[np.int64],
    known_floats: NDArray[np.float64],
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
) -> int:
    """Whether the row may join what is known; `ints` and `floats` are overwritten."""
    first, last = machine.starts[partition], machine.starts[partition + 1]
    if not machine.reads_itself[label]:
        return ask_guard(machine.guards, label, row, row, first, last, 0, known, known_floats)
    copy_registers(known, known_floats, ints, floats)
    if not take_row(machine.guards, label, row, ints, floats):
        return OVERFLOW
    return ask_guard(machine.guards, label, row, row, first, last, 0, ints, floats)


@inner_inlined
def _add(
    machine: Machine,
    classes: Classes,
    place: int,
    state: int,
    node: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    label: int,
    row: int,
) -> bool:
    """Notes a class for after the event; `label` -1: the event was skipped. False: overflow."""
    classes.new_state[place] = state
    classes.new_node[place] = node
    new_ints, new_floats = classes.new_ints[place], classes.new_floats[place]
    copy_registers(ints, floats, new_ints, new_floats)
    if label >= 0 and not take_row(machine.guards, label, row, new_ints, new_floats):
        return False
    reset_registers(machine.guards, state, new_ints, new_floats)
    return True


@inner
def _settle(
    machine: Machine,
    classes: Classes,
    nodes: Nodes,
    added: int,
    used: int,
    low: int,
    partition: int,
    row: int,
) -> int:
    """Puts what the event added into the lists of the states; the nodes used, -1: an overflow."""
    states = classes.ids.shape[0]
    room = classes.table.shape[0] - 1
    first, last = machine.starts[partition], machine.starts[partition + 1]
    for state in range(states):
        classes.sorted[state] = classes.counts[state]
    for place in range(added):
        state, node = classes.new_state[place], classes.new_node[place]
        where = hash_registers(state, classes.new_ints, classes.new_floats, place) & room
        known = EMPTY
        while classes.table[where] != EMPTY:
            slot = classes.table[where]
            if slot >= 0 and same_class(classes, slot, state, place):
                known = slot
                break
            where = (where + 1) & room
        if known >= 0:
            before = classes.node[known]
            if nodes.newest[before] < low:
                classes.node[known] = node
            else:
                classes.node[known] = join_nodes(nodes, before, node, used)
                used += 1
            continue
        key = 0
        if machine.sorting.comparison[state] != NO_INDEX:
            key, fits = side_key(
                machine.guards,
                machine.sorting,
                state,
                PAST,
                row,
                first,
                last,
                classes.new_ints[place],
                classes.new_floats[place],
            )
            if not fits:
                return -1
            if in_vain(machine.sorting, state, key, row):
                continue
        slot = classes.free[classes.counts[states]]
        classes.counts[states] += 1
        classes.counts[states + 1] += 1
        classes.table[where] = slot
        classes.state[slot] = state
        classes.node[slot] = node
        copy_row(classes.new_ints[place], classes.ints[slot])
        copy_row(classes.new_floats[place], classes.floats[slot])
        count = classes.counts[state]
        classes.keys[state, count], classes.ids[state, count] = key, slot
        classes.counts[state] = count + 1
    for state in range(states):
        if classes.counts[state] > classes.sorted[state]:
            merge(classes, state, classes.sorted[state])
    return used


@inner
def _dead(steps: Steps, entry: int) -> bool:
    """Whether nothing goes on, and nothing is complete."""
    takes = steps.take_offset[entry + 1] > steps.take_offset[entry]
    return not takes and steps.skip[entry] < 0 and not steps.skip_accept[entry]


@inner
def _end(
    steps: Steps,
    machine: Machine,
    classes: Classes,
    nodes: Nodes,
    roots: NDArray[np.int64],
    found: int,
    timeouts: Timeouts,
    partition: int,
    row: int,
) -> int:
    """The time-outs before `row`, when those of a partition are through; what is left is open."""
    floor, is_open = timeouts.floors[partition], timeouts.is_open[partition]
    found = expire(timeouts, classes, nodes, roots, found, row, floor, True)
    if is_open:
        return found
    if timeouts.now.shape[0] > 0:
        for state in range(1, classes.ids.shape[0]):
            kept = 0
            for index in range(classes.counts[state]):
                slot = classes.ids[state, index]
                since = classes.ints[slot, machine.last_register]
                bits = 0
                for index_of in range(machine.bounds.shape[0]):
                    gap = timeouts.now[0] - machine.order[since] if since >= 0 else 0.0
                    if gap <= machine.bounds[index_of]:
                        bits |= 1 << (machine.labels + index_of)
                dead = timeouts.bounds[state] != 0 and _dead(steps, _entry(steps, state, bits))
                if dead:
                    node = classes.node[slot]
                    roots[found, 0], roots[found, 1], roots[found, 2] = row, node, LATE
                    found += 1
                    forget(classes, slot)
                    continue
                classes.ids[state, kept] = slot
                classes.keys[state, kept] = classes.keys[state, index]
                kept += 1
            classes.counts[state] = kept
    return left_open(timeouts, classes, nodes, roots, found, row)


@borrowing
def advance(
    steps: Steps,
    machine: Machine,
    classes: Classes,
    walk: Walk,
    nodes: Nodes,
    used: int,
    roots: NDArray[np.int64],
    most_takes: int,
    visits: NDArray[np.int64],  # so far, and how many until the caller is asked
    timeouts: Timeouts | None,  # None: they are not asked for
) -> tuple[int, int, int]:
    """Rows from `walk.place` on: (status, nodes used, roots found).

    A row is begun only if everything it may need has room, so that the caller can make room and go
    on; roots are those of `match_graph.advance`, and of `timeouts.py`. Where a number overflows,
    they are those of the rows before.
    """
    states = classes.ids.shape[0]
    found = 0
    guards, place = machine.guards, walk.place
    while place[0] < walk.begins.shape[0]:
        partition, row = place[0], place[1]
        if row >= walk.stops[partition]:
            if timeouts is not None:
                if found + classes.counts[states] > roots.shape[0]:
                    return FULL, used, found
                end = walk.stops[partition]
                found = _end(steps, machine, classes, nodes, roots, found, timeouts, partition, end)
            walk.live[partition] = walk.stops[partition]
            for state in range(states):
                for index in range(classes.counts[state]):
                    note_live(walk, nodes, classes.node[classes.ids[state, index]])
            clear(classes)
            next_partition(walk)
            continue
        if visits[0] >= visits[1]:
            return PAUSED, used, found
        amount = classes.counts[states] + 1
        if (
            used + 2 * amount * (most_takes + 1) > nodes.rows.shape[0]
            or found + amount * (most_takes + 2) > roots.shape[0]
            or amount * (most_takes + 2) > classes.node.shape[0]
        ):
            return FULL, used, found
        if 3 * classes.counts[states + 1] + 3 * amount * most_takes > 2 * classes.table.shape[0]:
            rehash(classes)
        plain = machine.bits[row]
        low = walk.lows[row] if walk.lows.shape[0] else 0
        reported = row >= walk.fresh[partition]
        before = found
        if timeouts is not None and low > timeouts.edge[0]:
            found = expire(timeouts, classes, nodes, roots, found, row, low, reported)
        added = 0
        for state in range(states):
            count = classes.counts[state]
            if state > 0 and count == 0:
                continue
            mask = steps.mask[state]
            hard = plain & machine.correlated & mask
            base = plain & ~machine.correlated
            bounded = machine.bounds.shape[0] > 0 and (mask >> machine.labels) != 0
            common = -1
            begin, end = 0, count
            if state == 0:
                begin, end = -1, 0
            elif hard == 0 and not bounded:
                common = _entry(steps, state, base)
                if steps.idle[common]:
                    continue
            elif (
                not bounded
                and machine.sorting.comparison[state] != NO_INDEX
                and hard == 1 << machine.sorting.label[state]
                and steps.idle[_entry(steps, state, base)]
            ):
                value, fits = side_key(
                    guards,
                    machine.sorting,
                    state,
                    EVENT,
                    row,
                    machine.starts[partition],
                    machine.starts[partition + 1],
                    guards.initial_ints,
                    guards.initial_floats,
                )
                if not fits:
                    return GUARD_OVERFLOW, used, before
                begin, end = _range(machine, classes, state, value)
                if begin >= end:
                    continue
            kept = begin
            visits[0] += end - begin
            for index in range(begin, end):
                if asked():
                    return FULL, used, found
                slot, node = NOTHING, NOTHING
                ints, floats = guards.initial_ints, guards.initial_floats
                if state > 0:
                    slot = classes.ids[state, index]
                    node = classes.node[slot]
                    ints, floats = classes.ints[slot], classes.floats[slot]
                    if nodes.newest[node] < low:
                        forget(classes, slot)
                        continue
                entry = common
                if entry < 0:
                    bits = base
                    if hard:
                        for label in range(machine.labels):
                            if (hard >> label) & 1:
                                verdict = _verdict(
                                    machine,
                                    label,
                                    row,
                                    partition,
                                    ints,
                                    floats,
                                    classes.new_ints[added],
                                    classes.new_floats[added],
                                )
                                if verdict == TRUE:
                                    bits |= 1 << label
                                elif verdict != FALSE:
                                    overflow = verdict == OVERFLOW
                                    return (
                                        GUARD_OVERFLOW if overflow else GUARD_BY_ZERO,
                                        used,
                                        before,
                                    )
                    for index_of in range(machine.bounds.shape[0]):
                        since = ints[machine.last_register] if machine.last_register >= 0 else -1
                        gap = machine.order[row] - machine.order[since] if since >= 0 else 0.0
                        if gap <= machine.bounds[index_of]:
                            bits |= 1 << (machine.labels + index_of)
                    entry = _entry(steps, state, bits)
                    if timeouts is not None and reported and state > 0:
                        late = timeouts.bounds[state] & ~(bits >> machine.labels)
                        if late != 0 and _dead(steps, entry):
                            roots[found, 0], roots[found, 1], roots[found, 2] = row, node, LATE
                            found += 1
                if steps.skip_accept[entry] and state > 0 and reported:
                    roots[found, 0], roots[found, 1], roots[found, 2] = row, node, low
                    found += 1
                for take in range(steps.take_offset[entry], steps.take_offset[entry + 1]):
                    target = steps.take_target[take]
                    accepted = steps.take_accept[take] and reported
                    if target < 0 and not accepted:
                        continue
                    label = steps.take_label[take]
                    mark = COMPLETE if timeouts is not None and steps.take_accept[take] else 0
                    event_node(nodes, node, row, label | mark, used)
                    if accepted:
                        roots[found, 0], roots[found, 1], roots[found, 2] = row, used, low
                        found += 1
                    if target >= 0:
                        if not _add(
                            machine, classes, added, target, used, ints, floats, label, row
                        ):
                            return GUARD_OVERFLOW, used, before
                        added += 1
                    used += 1
                if state == 0:
                    continue
                following = steps.skip[entry]
                if following == state:
                    classes.ids[state, kept] = slot
                    classes.keys[state, kept] = classes.keys[state, index]
                    kept += 1
                    continue
                if following >= 0:
                    _add(machine, classes, added, following, node, ints, floats, -1, row)
                    added += 1
                forget(classes, slot)
            if state > 0 and kept < end:
                for index in range(end, count):
                    classes.ids[state, kept] = classes.ids[state, index]
                    classes.keys[state, kept] = classes.keys[state, index]
                    kept += 1
                classes.counts[state] = kept
        settled = _settle(machine, classes, nodes, added, used, low, partition, row)
        if settled < 0:
            return GUARD_OVERFLOW, used, before
        used = settled
        place[1] += 1
    return DONE, used, found
