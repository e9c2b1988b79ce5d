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
from ensue.kernels.calls import borrowing, inlined
from ensue.shared.constants import CHECK_EVERY
from ensue.shared.kernels.arena import any_bit, close, write
from ensue.shared.kernels.layout import (
    BEFORE,
    CELL,
    CHECK,
    CHECKED,
    COUNTED,
    FRESH,
    LEARN,
    NO_CELL,
    OPEN,
    PHASE,
    PLACE,
    POSITION,
    PRICED,
    RUN,
    STRIDE,
    SWEPT,
    TICK,
    UNCOUNTED,
    WINDOWED,
    WORK,
    Arena,
    Features,
    Found,
    Guards,
    Lists,
    Parts,
    Prices,
    Rows,
    Scratch,
    Sketch,
    Steps,
)
from ensue.shared.kernels.select import check_load
from ensue.shared.kernels.visit import (
    PASS,
    TOO_LARGE,
    WAITS_ON,
    emit,
    expired_bits,
    has_room,
    passed,
    visit,
)

DONE, FULL, GUARD_OVERFLOW, GUARD_BY_ZERO = 0, 1, 2, 3
STARTING, REACTING, ENDING = 0, 1, 2  # phases; in the last the partition of the last row has ended
NOT_BEGUN = -2  # in place of a record: the list of the node is not begun
SWEEP_LEAST = 4096


@inlined
def _within(rows: Rows, begin: int, end: int) -> Rows:
    """Rows as one partition of them sees them."""
    return Rows(
        rows.kind, rows.low, rows.masks, rows.order, rows.bounds, begin, end, rows.position,
        rows.size, rows.event_class,
    )  # fmt: skip


@inlined
def _list_fresh(
    slots: int, weight: float, arena: Arena, lists: Lists, meta: NDArray[np.int64]
) -> None:
    """Partial matches that the event created wait from now on."""
    record = meta[FRESH]
    while record >= 0:
        after = arena.following[record]
        node = arena.node[record]
        arena.following[record] = lists.head[slots + node]
        lists.head[slots + node] = record
        lists.waiting[node] += weight
        meta[OPEN] += 1
        record = after
    meta[FRESH] = -1


@borrowing
def run_rows(
    stop: int,
    finish: bool,
    rows: Rows,
    parts: Parts,
    steps: Steps,
    guards: Guards,
    features: Features,
    arena: Arena,
    lists: Lists,
    found: Found,
    sketch: Sketch,
    prices: Prices,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
    work: NDArray[np.int32],
    scratch: Scratch,
) -> int:
    """Events up to the `stop`-th, from where `meta` stands; with `finish` their partitions end.

    `parts` says in which order rows come, and which partition each is of. Where partitions take
    turns, every one has its own lists of waiting partial matches.
    """
    head, recent = lists.head, lists.recent
    nodes = lists.waiting.shape[0]
    most = meta[STRIDE]
    patterns = arena.bits.shape[1] * 64
    while meta[POSITION] < stop or meta[PHASE] == ENDING:
        if meta[PHASE] == ENDING:
            ended = parts.part[parts.sequence[meta[POSITION] - 1]]
            slot = ended * nodes if parts.turns else 0
            if not sweep(
                slot, slot + nodes, ended, True, rows, parts, steps, arena, lists, found, sketch,
                prices, meta, knobs, scratch,
            ):  # fmt: skip
                return FULL
            meta[PHASE] = STARTING
            continue
        position = meta[POSITION]
        row = parts.sequence[position]
        mine = parts.part[row]
        weight = parts.weight[mine]
        slots = mine * nodes if parts.turns else 0
        here = _within(rows, parts.starts[mine], parts.starts[mine + 1])
        kind = rows.kind[row]
        before = meta[WORK]
        if meta[PHASE] == STARTING:
            if meta[PLACE] < 0:
                meta[PLACE] = steps.start_offset[kind]
            while meta[PLACE] < steps.start_offset[kind + 1]:
                if not has_room(-1, most, patterns, arena, found, meta):
                    return FULL
                place = meta[PLACE]
                status = visit(
                    -1, row, steps.start_begin[place], steps.start_end[place], here, steps, guards,
                    features, arena, found, sketch, prices, meta, knobs, scratch,
                )  # fmt: skip
                if status < 0:
                    return GUARD_OVERFLOW if status == TOO_LARGE else GUARD_BY_ZERO
                meta[PLACE] += 1
            meta[PHASE], meta[PLACE], meta[RUN] = REACTING, steps.react_offset[kind], NOT_BEGUN
        while meta[PLACE] < steps.react_offset[kind + 1]:
            place = meta[PLACE]
            node = steps.react_node[place]
            if meta[RUN] == NOT_BEGUN:
                meta[RUN], meta[BEFORE] = head[slots + node], -1
                if knobs[COUNTED] != 0.0:
                    prices.events[node, rows.event_class[row]] += prices.scale[0]
            while meta[RUN] >= 0:
                run = meta[RUN]
                after = arena.following[run]
                if knobs[PRICED] != 0.0:
                    verdict = passed(
                        run, row, steps.patient[place], rows, arena, sketch, prices, meta, knobs
                    )
                    if verdict:
                        if verdict == PASS:
                            meta[BEFORE] = run
                        else:
                            close(run, meta[BEFORE], slots + node, node, weight, arena, lists, meta)
                        meta[RUN] = after
                        continue
                if not has_room(run, most, patterns, arena, found, meta):
                    work[position] += meta[WORK] - before
                    return FULL
                status = visit(
                    run, row, steps.react_begin[place], steps.react_end[place], here, steps,
                    guards, features, arena, found, sketch, prices, meta, knobs, scratch,
                )  # fmt: skip
                if status < 0:
                    return GUARD_OVERFLOW if status == TOO_LARGE else GUARD_BY_ZERO
                if status == WAITS_ON:
                    meta[BEFORE] = run
                else:
                    close(run, meta[BEFORE], slots + node, node, weight, arena, lists, meta)
                meta[RUN] = after
            meta[PLACE] += 1
            meta[RUN] = NOT_BEGUN
        _list_fresh(slots, weight, arena, lists, meta)
        parts.reached[mine] = row
        work[position] += meta[WORK] - before
        tick = meta[TICK] % recent.shape[0]
        meta[WINDOWED] += work[position] - recent[tick]
        recent[tick] = work[position]
        meta[TICK] += 1
        meta[POSITION] += 1
        meta[PHASE], meta[PLACE], meta[RUN] = STARTING, -1, NOT_BEGUN
        if finish and row == parts.starts[mine + 1] - 1:
            meta[PHASE] = ENDING
        if meta[OPEN] > 2 * meta[SWEPT] + SWEEP_LEAST and not sweep(
            0, head.shape[0], mine, False, rows, parts, steps, arena, lists, found, sketch, prices,
            meta, knobs, scratch,
        ):  # fmt: skip
            meta[SWEPT] = meta[OPEN]  # no room for matches that time completes: later
        meta[CHECKED] += 1
        if meta[CHECKED] >= CHECK_EVERY and knobs[CHECK] != 0.0:
            meta[CHECKED] = 0
            check_load(row, rows, parts, steps, arena, lists, sketch, prices, meta, knobs)
    if (
        finish
        and meta[POSITION] >= parts.sequence.shape[0]
        and not sweep(
            0, head.shape[0], parts.starts.shape[0] - 2, True, rows, parts, steps, arena, lists,
            found, sketch, prices, meta, knobs, scratch,
        )
    ):  # fmt: skip
        return FULL
    return DONE


@borrowing
def sweep(
    begin: int,
    stop: int,
    mine: int,
    ended: bool,
    rows: Rows,
    parts: Parts,
    steps: Steps,
    arena: Arena,
    lists: Lists,
    found: Found,
    sketch: Sketch,
    prices: Prices,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
    scratch: Scratch,
) -> bool:
    """Partial matches whose window has ended are closed; False where room is missing.

    Lists from `begin` to `stop`, of the partition `mine` unless partitions take turns. Where it has
    `ended` everything is closed: what was pending is then a match.
    """
    nodes = lists.waiting.shape[0]
    expiring, some = scratch.mine, scratch.some
    patterns = arena.bits.shape[1] * 64
    learn = knobs[LEARN] != 0.0
    meta[CELL] = NO_CELL if knobs[COUNTED] != 0.0 else UNCOUNTED
    for slot in range(begin, stop):
        run, before = lists.head[slot], -1
        if run < 0:
            continue
        of = slot // nodes if parts.turns else mine
        here = _within(rows, parts.starts[of], parts.starts[of + 1])
        row = parts.starts[of + 1] if ended else parts.reached[of]
        while run >= 0:
            if not has_room(run, 1, patterns, arena, found, meta):
                return False
            after = arena.following[run]
            write(expiring, arena.bits[run])
            settled = expired_bits(run, row, here, arena, expiring, some, steps.pending)
            if settled >= 0:
                emit(run, -1, -1, settled, some, arena, found, sketch, prices, meta, learn)
            write(arena.bits[run], expiring)
            if any_bit(expiring):
                before = run
            else:
                close(run, before, slot, slot % nodes, parts.weight[of], arena, lists, meta)
            run = after
    meta[SWEPT] = meta[OPEN]
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
