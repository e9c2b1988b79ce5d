"""The event loop of a workload: every open partial match that an event concerns, visited once.

Nodes know which kinds of events concern them (`react`), so partial matches that an event leaves
alone cost nothing. A visit asks the guards of each component (patterns that ask the same
conditions), and the answers choose an outcome: events taken, patterns for which the partial match
waits on, matches. All that the automaton can do is in the tables; nothing here knows a pattern.

A visit is never interrupted: room for everything it may write is checked before, and the loop
returns `FULL` with its place kept in `meta`, to be called again with larger arrays.

Cost of an event: the visits, each with its guards; per partial match created, its registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.guards.machine import OVERFLOW, run_guard, update_registers
from ensue.kernels.calls import borrowing, inlined
from ensue.shared.kernels.arena import (
    BEFORE,
    CELL,
    CELL_NODE,
    CHAINS,
    CHECKED,
    CREATED,
    CUT,
    ENTRIES,
    FRESH,
    OPEN,
    PHASE,
    PLACE,
    POSITION,
    RECORDS,
    RUN,
    SHED,
    STRIDE,
    SWEPT,
    TICK,
    WINDOWED,
    WORK,
    WRITTEN,
    allocate,
    any_bit,
    close,
    meets,
    next_random,
    write,
)
from ensue.shared.kernels.price import age_bin, cell_of, note_created
from ensue.shared.kernels.select import (
    CHECK_EVERY,
    COUNTED,
    LEAST_LIFE,
    PRICED,
    age_of,
    check_load,
    expired_bits,
    least_of,
    quality_of,
    record_shed,
)
from ensue.shared.kernels.sketch import bucket_of, column_of, credit, ways_of

DONE, FULL, GUARD_OVERFLOW, GUARD_BY_ZERO = 0, 1, 2, 3
LEARN, INSTANCE, CHECK = 3, 4, 5  # knobs; the others are those of shared_select
SWEEP_LEAST = 4096
VISIT, PASS, DROP = 0, 1, 2
UNCOUNTED = -2  # in place of a cell: prices are not in use
PATIENCE = 16  # levels below the price: a partial match may become worth visits again
ENDING = 2  # phase: the partition of the last row has ended


@borrowing
def emit(
    run: int,
    label: int,
    row: int,
    settled: int,
    patterns: NDArray[np.uint64],
    arena: Any,
    output: Any,
    model: Any,
    meta: NDArray[np.int64],
    learn: bool,
) -> None:
    """One match of every pattern in the bitmap: the events of `run`, and `row` where label >= 0."""
    node, parent, labels, rows, _first, _bits, _references, _following, bucket, length = arena[:10]
    chain_end, chain_settled, chain_label, chain_row, entry_pattern, entry_chain = output
    written = meta[WRITTEN]
    size = (length[run] if run >= 0 else 0) + (1 if label >= 0 else 0)
    place = written + size - 1
    if label >= 0:
        chain_label[place], chain_row[place] = label, row
        place -= 1
    record = run
    while record >= 0:
        chain_label[place], chain_row[place] = labels[record], rows[record]
        place -= 1
        record = parent[record]
    meta[WRITTEN] = written + size
    chain_end[meta[CHAINS]] = written + size
    chain_settled[meta[CHAINS]] = settled
    columns = model[5].shape[0]
    for word in range(patterns.shape[0]):
        left = patterns[word]
        pattern = word << 6
        while left != 0:
            while left & np.uint64(0xFF) == 0:
                left >>= np.uint64(8)
                pattern += 8
            if left & np.uint64(1):
                entry_pattern[meta[ENTRIES]] = pattern
                entry_chain[meta[ENTRIES]] = meta[CHAINS]
                meta[ENTRIES] += 1
                if learn and run >= 0:
                    column = column_of(pattern, columns)
                    model[2][bucket[run], column] += 1.0
                    model[14][node[run], column] += 1.0
                    model[4][node[run], column] += 1.0
                    if meta[CELL] >= 0:
                        model[16][2][meta[CELL]] += model[16][17][0] * model[5][column]
                    elif meta[CELL] > UNCOUNTED:
                        model[16][7][bucket[run]] += model[16][17][0] * model[5][column]
            left >>= np.uint64(1)
            pattern += 1
    meta[CHAINS] += 1


@borrowing
def _copied(run: int, arena: Any, meta: NDArray[np.int64]) -> int:
    """The links of a partial match once more, for one owner (sharing by instance)."""
    node, parent, labels, rows, _first, _bits, references, following, bucket, length = arena[:10]
    top, below = -1, -1
    while run >= 0:
        record = allocate(meta, following)
        labels[record], rows[record], node[record] = labels[run], rows[run], node[run]
        bucket[record], length[record] = bucket[run], length[run]
        references[record], parent[record] = 1, -1
        if below >= 0:
            parent[below] = record
        else:
            top = record
        below = record
        run = parent[run]
    return top


@inlined
def _add(
    target: int,
    above: int,
    label: int,
    row: int,
    begin: int,
    now: int,
    patterns: NDArray[np.uint64],
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    rows_: Any,
    guards: Any,
    features: Any,
    arena: Any,
    model: Any,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
    cells: Any,
    spare: NDArray[np.uint64],
) -> None:
    """A new open partial match, unless it is shed at once (its quality is below the cut)."""
    node, parent, labels, rows, first, bits, references, following, bucket, length = arena[:10]
    register_ints, register_floats = arena[10], arena[11]
    learn = knobs[LEARN] != 0.0
    found = 0
    meta[CREATED] += 1
    kept = patterns
    if learn:
        left = max(1.0 - age_of(begin, now, rows_), LEAST_LIFE)
        found = bucket_of(
            target, now, rows_[5], rows_[6], ints, floats, features, guards, cells,
            model[0].shape[0], meta[CREATED],
        )  # fmt: skip
        ways = ways_of(left, target, model)
        above_bucket, above_node = (bucket[above], node[above]) if above >= 0 else (-1, -1)
        worth = credit(above_bucket, above_node, found, target, ways, patterns, model)
        if meta[CELL] > UNCOUNTED:
            note_created(meta[CELL], meta[CELL_NODE], found, target, next_random(meta), model[16])
        if meta[CUT] > 0 and meets(patterns, model[10]):
            if knobs[PRICED] != 0.0:
                low = int(model[16][13][found, age_bin(left)]) < meta[CUT]
            else:
                low = quality_of(target, worth, ways, left, model, knobs) < least_of(meta[CUT])
            if low and next_random(meta) >= knobs[6]:
                if knobs[PRICED] != 0.0:
                    model[16][18][target] += model[16][15][found, age_bin(left)]
                kept = spare
                write(kept, patterns)
                if knobs[INSTANCE] != 0.0:
                    for word in range(kept.shape[0]):
                        kept[word] = 0
                for word in range(kept.shape[0]):
                    kept[word] &= ~model[10][word]
                record_shed(target, found, patterns, kept, ways, model, meta)
        if not any_bit(kept):
            return
        model[0][found] += ways
        model[3][target] += ways
    if knobs[INSTANCE] != 0.0 and above >= 0:
        above = _copied(above, arena, meta)
        references[above] -= 1  # the reference of its owner is counted below
    record = allocate(meta, following)
    node[record], parent[record], labels[record], rows[record] = target, above, label, row
    first[record], bucket[record] = begin, found
    length[record] = 1 if above < 0 else length[above] + 1
    references[record] = 1
    if above >= 0:
        references[above] += 1
    write(bits[record], kept)
    write(register_ints[record], ints)
    write(register_floats[record], floats)
    arena[12][record] = now
    following[record] = meta[FRESH]
    meta[FRESH] = record


@inlined
def _visit(
    run: int,
    row: int,
    components_begin: int,
    components_end: int,
    rows_: Any,
    tables: Any,
    guards: Any,
    features: Any,
    arena: Any,
    output: Any,
    model: Any,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
    scratch: Any,
    cells: Any,
) -> int:
    """1: waits on, 0: no longer open, below 0: a guard failed. Run -1 is "no event yet"."""
    _node, parent, labels, rows, first, bits, _references, _following, _bucket, _length = arena[:10]
    register_ints, register_floats = arena[10], arena[11]
    order, bounds, part_begin, part_end = rows_[3], rows_[4], rows_[5], rows_[6]
    comp_mask, comp_guard_offset, comp_guard, comp_base = tables[6:10]
    outcome_take, outcome_stay, outcome_move, outcome_accept = tables[10:14]
    take_label, take_target, take_going, take_accept, move_node, move_mask = tables[14:20]
    code, guard_offset, updates, applies, initial = guards[:5]
    int_columns, float_columns, int_nulls, float_nulls, int_constants, float_constants = guards[5:]
    cell_ints, cell_floats, cell_nulls = cells
    mine, some, left, ints, floats, initial_floats, spare = scratch
    learn = knobs[LEARN] != 0.0
    words = mine.shape[0]
    gaps = tables[21]
    begin = row
    meta[CELL] = -1 if knobs[COUNTED] != 0.0 else UNCOUNTED
    if run >= 0:
        begin = first[run]
        write(mine, bits[run])
        settled = expired_bits(run, row, rows_, arena, mine, some, tables[20])
        if settled >= 0:
            emit(run, -1, -1, settled, some, arena, output, model, meta, learn)
        if not any_bit(mine):
            return 0
        meta[WORK] += 1
        if meta[CELL] > UNCOUNTED:
            price, here = model[16], _bucket[run]
            meta[CELL] = cell_of(_node[run], here, rows_[9][row], price)
            meta[CELL_NODE] = _node[run]
            price[0][meta[CELL]] += price[17][0]
            if price[19][meta[CELL]] != row:
                price[19][meta[CELL]] = row
                price[20][meta[CELL]] += price[17][0]
            price[4][here] += price[17][0]
    else:
        for word in range(words):
            mine[word] = ~np.uint64(0)
    write(left, mine)
    for component in range(components_begin, components_end):
        if not meets(mine, comp_mask[component]):
            continue
        answers = 0
        for place in range(comp_guard_offset[component], comp_guard_offset[component + 1]):
            atom = comp_guard[place]
            if atom >= gaps:
                holds = run < 0 or order[row] - order[rows[run]] <= bounds[atom - gaps]
            else:
                if run >= 0:
                    write(ints, register_ints[run])
                    write(floats, register_floats[run])
                else:
                    write(ints, initial)
                    write(floats, initial_floats)
                if not update_registers(
                    updates, applies[atom], row, ints, floats,
                    int_columns, float_columns, int_nulls, float_nulls,
                ):  # fmt: skip
                    return -1
                verdict = run_guard(
                    code, guard_offset[atom], guard_offset[atom + 1], row, begin,
                    part_begin, part_end, 0, ints, floats, int_columns, float_columns,
                    int_nulls, float_nulls, int_constants, float_constants,
                    cell_ints, cell_floats, cell_nulls,
                )  # fmt: skip
                if verdict < 0:
                    return -1 if verdict == OVERFLOW else -2
                holds = verdict == 1
            if holds:
                answers |= 1 << (place - comp_guard_offset[component])
        outcome = comp_base[component] + answers
        for take in range(outcome_take[outcome], outcome_take[outcome + 1]):
            for word in range(words):
                some[word] = mine[word] & take_accept[take, word]
            if any_bit(some):
                emit(run, take_label[take], row, row, some, arena, output, model, meta, learn)
            if take_target[take] < 0:
                continue
            for word in range(words):
                some[word] = mine[word] & take_going[take, word]
            if not any_bit(some):
                continue
            if run >= 0:
                write(ints, register_ints[run])
                write(floats, register_floats[run])
            else:
                write(ints, initial)
                write(floats, initial_floats)
            if not update_registers(
                updates, applies[take_label[take]], row, ints, floats,
                int_columns, float_columns, int_nulls, float_nulls,
            ):  # fmt: skip
                return -1
            _add(
                take_target[take], run, take_label[take], row, begin, row, some, ints, floats,
                rows_, guards, features, arena, model, meta, knobs, cells, spare,
            )  # fmt: skip
        if run >= 0:
            for move in range(outcome_move[outcome], outcome_move[outcome + 1]):
                for word in range(words):
                    some[word] = mine[word] & move_mask[move, word]
                if any_bit(some):
                    _add(
                        move_node[move], parent[run], labels[run], rows[run], begin, row, some,
                        register_ints[run], register_floats[run],
                        rows_, guards, features, arena, model, meta, knobs, cells, spare,
                    )  # fmt: skip
            for word in range(words):
                some[word] = mine[word] & outcome_accept[outcome, word]
            if any_bit(some):
                emit(run, -1, -1, row, some, arena, output, model, meta, learn)
            for word in range(words):
                left[word] &= ~comp_mask[component, word] | outcome_stay[outcome, word]
    if run < 0:
        return 0
    write(bits[run], left)
    if any_bit(left):
        return 1
    if meta[CELL] > UNCOUNTED:
        model[16][5][_bucket[run]] += model[16][17][0]
    return 0


@inlined
def _within(rows_: Any, begin: int, end: int) -> Any:
    """Rows as one partition of them sees them."""
    return (
        rows_[0], rows_[1], rows_[2], rows_[3], rows_[4], begin, end, rows_[7], rows_[8], rows_[9],
    )  # fmt: skip


@inlined
def _passed(
    run: int,
    row: int,
    patient: bool,
    rows_: Any,
    arena: Any,
    model: Any,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
) -> int:
    """Whether a visit is not worth the price: PASS leaves the partial match, DROP gives it up.

    Where a visit may do more than take the event (end the partial match, move it), it cannot be
    left out without the partial match.
    """
    price = model[16]
    position, size = rows_[7], rows_[8]
    left = 1.0 - (position[row] - position[arena[4][run]]) / size
    if left < 0.0:
        return VISIT
    age = age_bin(left)
    here = arena[8][run]
    at = arena[0][run]
    cell = cell_of(at, here, rows_[9][row], price)
    level = int(price[12][cell, age])
    price[16][level] += 1.0
    if level >= meta[CUT] or next_random(meta) < knobs[6]:
        return VISIT
    if patient and int(price[13][here, age]) + PATIENCE >= meta[CUT]:
        price[18][at] += price[14][cell, age]
        return PASS
    price[18][at] += price[15][here, age]
    model[15][at] += ways_of(left, at, model)
    meta[SHED] += 1
    return DROP


@borrowing
def run_rows(
    stop: int,
    finish: bool,
    rows_: Any,
    parts: Any,
    tables: Any,
    guards: Any,
    features: Any,
    arena: Any,
    heads: Any,
    output: Any,
    model: Any,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
    work: NDArray[np.int32],
    scratch: Any,
    cells: Any,
) -> int:
    """Events up to the `stop`-th, from where `meta` stands; with `finish` their partitions end.

    `parts` says in which order rows come, and which partition each is of. Where partitions take
    turns, every one has its own lists of waiting partial matches.
    """
    node, following = arena[0], arena[7]
    head, count, recent = heads
    sequence, part, starts, weight, reached, turns = parts
    nodes = count.shape[0]
    react_offset, react_node, react_begin, react_end, start_offset, start_begin = tables[:6]
    most = meta[STRIDE]
    patterns = arena[5].shape[1] * 64
    while meta[POSITION] < stop or meta[PHASE] == ENDING:
        if meta[PHASE] == ENDING:
            ended = part[sequence[meta[POSITION] - 1]]
            slot = ended * nodes if turns else 0
            if not sweep(
                slot, slot + nodes, ended, True, rows_, parts, tables, arena, heads, output, model,
                meta, knobs, scratch,
            ):  # fmt: skip
                return FULL
            meta[PHASE] = 0
            continue
        position = meta[POSITION]
        row = sequence[position]
        mine = part[row]
        slots = mine * nodes if turns else 0
        here = _within(rows_, starts[mine], starts[mine + 1])
        kind = rows_[0][row]
        before = meta[WORK]
        if meta[PHASE] == 0:
            if meta[PLACE] < 0:
                meta[PLACE] = start_offset[kind]
            while meta[PLACE] < start_offset[kind + 1]:
                if not _room(-1, most, patterns, arena, output, meta, knobs):
                    return FULL
                place = meta[PLACE]
                status = _visit(
                    -1, row, start_begin[place, 0], start_begin[place, 1], here, tables, guards,
                    features, arena, output, model, meta, knobs, scratch, cells,
                )  # fmt: skip
                if status < 0:
                    return GUARD_OVERFLOW if status == -1 else GUARD_BY_ZERO
                meta[PLACE] += 1
            meta[PHASE], meta[PLACE], meta[RUN] = 1, react_offset[kind], -2
        while meta[PLACE] < react_offset[kind + 1]:
            place = meta[PLACE]
            at = react_node[place]
            if meta[RUN] == -2:
                meta[RUN], meta[BEFORE] = head[slots + at], -1
                if knobs[COUNTED] != 0.0:
                    model[16][11][at, rows_[9][row]] += model[16][17][0]
            while meta[RUN] >= 0:
                run = meta[RUN]
                if knobs[PRICED] != 0.0:
                    passed = _passed(run, row, tables[23][place], rows_, arena, model, meta, knobs)
                    if passed:
                        after = following[run]
                        if passed == PASS:
                            meta[BEFORE] = run
                        else:
                            close(
                                run, meta[BEFORE], slots + at, at, weight[mine], arena, heads, meta
                            )
                        meta[RUN] = after
                        continue
                if not _room(run, most, patterns, arena, output, meta, knobs):
                    work[position] += meta[WORK] - before
                    return FULL
                after = following[run]
                status = _visit(
                    run, row, react_begin[place], react_end[place], here, tables, guards,
                    features, arena, output, model, meta, knobs, scratch, cells,
                )  # fmt: skip
                if status < 0:
                    return GUARD_OVERFLOW if status == -1 else GUARD_BY_ZERO
                if status == 1:
                    meta[BEFORE] = run
                else:
                    close(run, meta[BEFORE], slots + at, at, weight[mine], arena, heads, meta)
                meta[RUN] = after
            meta[PLACE] += 1
            meta[RUN] = -2
        record = meta[FRESH]
        while record >= 0:
            after = following[record]
            at = node[record]
            following[record] = head[slots + at]
            head[slots + at] = record
            count[at] += weight[mine]
            meta[OPEN] += 1
            record = after
        meta[FRESH] = -1
        reached[mine] = row
        work[position] += meta[WORK] - before
        tick = meta[TICK] % recent.shape[0]
        meta[WINDOWED] += work[position] - recent[tick]
        recent[tick] = work[position]
        meta[TICK] += 1
        meta[POSITION] += 1
        meta[PHASE], meta[PLACE], meta[RUN] = 0, -1, -2
        if finish and row == starts[mine + 1] - 1:
            meta[PHASE] = ENDING
        if meta[OPEN] > 2 * meta[SWEPT] + SWEEP_LEAST and not sweep(
            0, head.shape[0], mine, False, rows_, parts, tables, arena, heads, output, model, meta,
            knobs, scratch,
        ):  # fmt: skip
            meta[SWEPT] = meta[OPEN]  # no room for matches that time completes: later
        meta[CHECKED] += 1
        if meta[CHECKED] >= CHECK_EVERY and knobs[CHECK] != 0.0:
            meta[CHECKED] = 0
            check_load(row, rows_, parts, tables, arena, heads, model, meta, knobs)
    if (
        finish
        and meta[POSITION] >= sequence.shape[0]
        and not sweep(
            0, head.shape[0], starts.shape[0] - 2, True, rows_, parts, tables, arena, heads, output,
            model, meta, knobs, scratch,
        )
    ):  # fmt: skip
        return FULL
    return DONE


@inlined
def _room(
    run: int,
    most: int,
    patterns: int,
    arena: Any,
    output: Any,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
) -> bool:
    """Whether all that a visit may write fits."""
    length = arena[9]
    size = 2 + (length[run] if run >= 0 else 0)
    needed = (most + 2) * (size if knobs[INSTANCE] != 0.0 else 1)
    return (
        meta[RECORDS] + needed < length.shape[0]
        and meta[CHAINS] + most + 2 < output[0].shape[0]
        and meta[WRITTEN] + (most + 2) * size < output[2].shape[0]
        and meta[ENTRIES] + (most + 2) * patterns < output[4].shape[0]
    )


@borrowing
def sweep(
    begin: int,
    stop: int,
    mine: int,
    ended: bool,
    rows_: Any,
    parts: Any,
    tables: Any,
    arena: Any,
    heads: Any,
    output: Any,
    model: Any,
    meta: NDArray[np.int64],
    knobs: NDArray[np.float64],
    scratch: Any,
) -> bool:
    """Partial matches whose window has ended are closed; False where room is missing.

    Lists from `begin` to `stop`, of the partition `mine` unless partitions take turns. Where it has
    `ended` everything is closed: what was pending is then a match.
    """
    bits, following = arena[5], arena[7]
    head, count, _recent = heads
    _sequence, _part, starts, weight, reached, turns = parts
    nodes = count.shape[0]
    expiring, some = scratch[0], scratch[1]
    patterns = bits.shape[1] * 64
    meta[CELL] = -1 if knobs[COUNTED] != 0.0 else UNCOUNTED
    for slot in range(begin, stop):
        run, before = head[slot], -1
        if run < 0:
            continue
        of = slot // nodes if turns else mine
        here = _within(rows_, starts[of], starts[of + 1])
        row = starts[of + 1] if ended else reached[of]
        while run >= 0:
            if not _room(run, 1, patterns, arena, output, meta, knobs):
                return False
            after = following[run]
            write(expiring, bits[run])
            settled = expired_bits(run, row, here, arena, expiring, some, tables[20])
            if settled >= 0:
                emit(run, -1, -1, settled, some, arena, output, model, meta, knobs[LEARN] != 0.0)
            write(bits[run], expiring)
            if any_bit(expiring):
                before = run
            else:
                close(run, before, slot, slot % nodes, weight[of], arena, heads, meta)
            run = after
    meta[SWEPT] = meta[OPEN]
    return True


@borrowing
def replay(order: NDArray[np.int64], initial: Any, guards: Any, arena: Any) -> None:
    """Registers of all records, shortest first: they follow from the events."""
    parent, labels, rows, references = arena[1], arena[2], arena[3], arena[6]
    ints, floats = arena[10], arena[11]
    for place in range(order.shape[0]):
        record = order[place]
        if references[record] <= 0:
            continue
        if parent[record] >= 0:
            write(ints[record], ints[parent[record]])
            write(floats[record], floats[parent[record]])
        else:
            write(ints[record], initial[0])
            write(floats[record], initial[1])
        update_registers(
            guards[2], guards[3][labels[record]], rows[record], ints[record], floats[record],
            guards[5], guards[6], guards[7], guards[8],
        )  # fmt: skip
