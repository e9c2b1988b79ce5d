"""The event loop of a workload: every open partial match that an event concerns, visited once.

Nodes know which kinds of events concern them (`react`), so partial matches that an event leaves
alone cost nothing. All that the automaton can do is in the tables; nothing here knows a pattern.

Where room is missing for what a visit may write, the loop returns `FULL` with its place kept in
`meta`, to be called again with larger arrays.

Cost of an event: the visits, each with its guards; per partial match created, its registers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.guards.machine import update_registers
from ensue.kernels.calls import borrowing, inner_inlined
from ensue.kernels.stop import asked
from ensue.shared.constants import CHECK_EVERY
from ensue.shared.kernels import layout as at
from ensue.shared.kernels.arena import any_bit, close, write
from ensue.shared.kernels.layout import Arena, Guards, Handed, Lists
from ensue.shared.kernels.select import check_load
from ensue.shared.kernels.visit import (
    TOO_LARGE,
    VISIT,
    WAITS_ON,
    emit,
    expired_bits,
    has_room,
    passed,
    visit,
)

DONE, FULL, GUARD_OVERFLOW, GUARD_BY_ZERO = 0, 1, 2, 3
REACTING, ENDING, FINISHING = 0, 1, 2  # phases; then the last row's partition has ended, then all
# In place of a record: the list is over or not begun; of no list, no event was taken yet.
OVER, NOT_BEGUN, NO_EVENT = -1, -2, -3
SWEEP_LEAST = 4096


@inner_inlined
def _list_fresh(
    slots: int, weight: float, arena: Arena, lists: Lists, meta: NDArray[np.int64]
) -> None:
    """Partial matches that the event created wait from now on."""
    record = meta[at.FRESH]
    while record >= 0:
        after = arena.following[record]
        node = arena.node[record]
        arena.following[record] = lists.head[slots + node]
        lists.head[slots + node] = record
        lists.waiting[node] += weight
        meta[at.OPEN] += 1
        record = after
    meta[at.FRESH] = -1


@borrowing
def run_rows(stop: int, finish: bool, given: Handed, work: NDArray[np.int32]) -> int:
    """Events up to the `stop`-th, from where `meta` stands; with `finish` their partitions end.

    `parts` says in which order rows come, and which partition each is of. Where partitions take
    turns, every one has its own lists of waiting partial matches.
    """
    rows, parts, steps, arena = given.rows, given.parts, given.steps, given.arena
    lists, prices, meta, knobs = given.lists, given.prices, given.meta, given.knobs
    head, recent = lists.head, lists.recent
    nodes = lists.waiting.shape[0]
    most = meta[at.STRIDE]
    patterns = arena.bits.shape[1] * 64
    while meta[at.POSITION] < stop or meta[at.PHASE] == ENDING:
        if meta[at.PHASE] == ENDING:
            if not sweep(parts.part[parts.sequence[meta[at.POSITION] - 1]], given):
                return FULL
            meta[at.PHASE] = REACTING
            continue
        position = meta[at.POSITION]
        row = parts.sequence[position]
        mine = parts.part[row]
        weight = parts.weight[mine]
        slots = mine * nodes if parts.turns else 0
        meta[at.BEGIN], meta[at.END] = parts.starts[mine], parts.starts[mine + 1]
        kind = rows.kind[row]
        before = meta[at.WORK]
        if meta[at.PLACE] < 0:
            meta[at.PLACE], meta[at.RUN] = steps.react_offset[kind], NOT_BEGUN
        while meta[at.PLACE] < steps.react_offset[kind + 1]:
            place = meta[at.PLACE]
            node = steps.react_node[place]
            if meta[at.RUN] == NOT_BEGUN:
                meta[at.BEFORE] = -1
                meta[at.RUN] = NO_EVENT if node < 0 else head[slots + node]
                if node >= 0 and knobs[at.COUNTED] != 0.0:
                    prices.events[node, rows.event_class[row]] += prices.scale[0]
            while meta[at.RUN] != OVER:
                if asked():
                    return FULL
                run, after, status = max(meta[at.RUN], -1), OVER, VISIT
                if run >= 0:
                    after = arena.following[run]
                    if knobs[at.PRICED] != 0.0:
                        status = passed(run, row, steps.patient[place], given)
                if status == VISIT:
                    if not has_room(run, most, patterns, arena, given.found, meta):
                        work[position] += meta[at.WORK] - before
                        return FULL
                    first, last = steps.react_begin[place], steps.react_end[place]
                    status = visit(run, row, first, last, given)
                if status < 0:
                    return GUARD_OVERFLOW if status == TOO_LARGE else GUARD_BY_ZERO
                if status == WAITS_ON:
                    meta[at.BEFORE] = run
                elif run >= 0:
                    close(run, meta[at.BEFORE], slots + node, node, weight, arena, lists, meta)
                meta[at.RUN] = after
            meta[at.PLACE] += 1
            meta[at.RUN] = NOT_BEGUN
        _list_fresh(slots, weight, arena, lists, meta)
        parts.reached[mine] = row
        work[position] += meta[at.WORK] - before
        tick = meta[at.TICK] % recent.shape[0]
        meta[at.WINDOWED] += work[position] - recent[tick]
        recent[tick] = work[position]
        meta[at.TICK] += 1
        meta[at.POSITION] += 1
        meta[at.PLACE], meta[at.RUN] = -1, NOT_BEGUN
        if meta[at.OPEN] > 2 * meta[at.SWEPT] + SWEEP_LEAST and not sweep(mine, given):
            meta[at.SWEPT] = meta[at.OPEN]  # no room for matches that time completes: later
        if finish and row == parts.starts[mine + 1] - 1:
            meta[at.PHASE] = ENDING
        meta[at.CHECKED] += 1
        if meta[at.CHECKED] >= CHECK_EVERY and knobs[at.CHECK] != 0.0:
            meta[at.CHECKED] = 0
            check_load(row, given)
    if finish and meta[at.POSITION] >= parts.sequence.shape[0]:
        meta[at.PHASE] = FINISHING
        if not sweep(parts.starts.shape[0] - 2, given):
            return FULL
        meta[at.PHASE] = REACTING
    return DONE


@borrowing
def sweep(mine: int, given: Handed) -> bool:
    """Partial matches whose window has ended are closed; False where room is missing.

    Lists are of the partition `mine` unless partitions take turns. Where it has ended everything is
    closed: what was pending is then a match.
    """
    parts, arena, lists, meta = given.parts, given.arena, given.lists, given.meta
    found, sketch, prices = given.found, given.sketch, given.prices
    rows, pending, nodes = given.rows, given.steps.pending, lists.waiting.shape[0]
    expiring, some = given.scratch.mine, given.scratch.some
    patterns = arena.bits.shape[1] * 64
    learn = given.knobs[at.LEARN] != 0.0
    meta[at.CELL] = at.NO_CELL if given.knobs[at.COUNTED] != 0.0 else at.UNCOUNTED
    ended = meta[at.PHASE] != REACTING
    begin, stop = 0, lists.head.shape[0]
    if parts.turns and meta[at.PHASE] == ENDING:
        begin, stop = mine * nodes, (mine + 1) * nodes
    for slot in range(begin, stop):
        run, before = max(lists.head[slot], -1), -1
        if run < 0:
            continue
        of = slot // nodes if parts.turns else mine
        meta[at.BEGIN], meta[at.END] = parts.starts[of], parts.starts[of + 1]
        row = meta[at.END] if ended else parts.reached[of]
        while run >= 0:
            if not has_room(run, 1, patterns, arena, found, meta):
                return False
            after = max(arena.following[run], -1)
            write(expiring, arena.bits[run])
            settled = expired_bits(run, row, rows, arena, expiring, some, pending, meta)
            if settled >= 0:
                emit(run, -1, row, settled, some, arena, found, sketch, prices, meta, learn)
            write(arena.bits[run], expiring)
            if any_bit(expiring):
                before = run
            else:
                close(run, before, slot, slot % nodes, parts.weight[of], arena, lists, meta)
            run = after
    meta[at.SWEPT] = meta[at.OPEN]
    return True


@borrowing
def replay(order: NDArray[np.int64], guards: Guards, arena: Arena) -> None:
    """Registers of all records, shortest first: they follow from the events."""
    for place in range(order.shape[0]):
        record = order[place]
        if arena.references[record] <= 0:
            continue
        ints, floats, above = arena.ints[record], arena.floats[record], arena.parent[record]
        if above >= 0:
            write(ints, arena.ints[above])
            write(floats, arena.floats[above])
        else:
            write(ints, guards.initial_ints)
            write(floats, guards.initial_floats)
        update_registers(
            guards.updates, guards.applies[arena.label[record]], arena.row[record], ints, floats,
            guards.ints, guards.floats, guards.int_nulls, guards.float_nulls,
        )  # fmt: skip
