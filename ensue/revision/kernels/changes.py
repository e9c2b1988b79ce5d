"""The AFA operator over a batch of changes: inserts and retractions in the order of arrival.

Algorithm 1 of the paper and its deletion (Appendix C), with the intervals of ignorable arcs
(Appendix D) and sequence numbers (AFA+O, §5.3). An insert in order costs the partial matches that
end at the newest event. One into the past first withdraws what spans it
(RemoveInvalidatedSequences), then goes on from what it made (PropagateInsert); both stop where
nothing is affected any more, so that the cost is O(lg r + min(w, d) · m) and not that of history.

With ignorable arcs as intervals, a node that ignores an event stays as it is, up to `until`. What
an insert invalidates is then not all that spans it, so derivations are kept as edges and a
node goes when the last of its derivations does.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.automaton.registers import INFINITY
from ensue.revision.kernels.append import append
from ensue.revision.kernels.arcs import MOST_ARCS, REGISTER_FIELDS, SILENT_FACTOR, Arcs
from ensue.revision.kernels.ignore import append_ignoring
from ensue.revision.kernels.intervals import (
    alive_at,
    alive_at_last,
    cascade,
    cut,
    is_alive,
    raise_reach,
)
from ensue.revision.kernels.output import ACCEPTED, CREATED, report
from ensue.revision.kernels.rows import new_event
from ensue.revision.kernels.steps import extend
from ensue.revision.kernels.store import (
    AFTER,
    AT,
    BLOCKS,
    CLEANED,
    CONTENT,
    EDGES,
    EVENTS,
    FIRST,
    HASHED,
    HEAD,
    HIGH_BLOCK,
    IDENTITY,
    LAST,
    LE,
    MATCH,
    NEXT,
    NEXT_MATCH,
    NODES,
    NONE,
    OPEN,
    OPENED,
    PREVIOUS,
    RE,
    SEQUENCE,
    STALE,
    START,
    START_SLOT,
    SUPPORT,
    TIE,
    UNTIL,
    Store,
    compare,
    event_of,
    free_event,
    free_node,
    longer,
    more_blocks,
    more_nodes,
    not_after,
    place_of,
    put_in_index,
    rehashed,
    set_event,
    take_from_index,
    taller,
    unlink_node,
)

INSERT, RETRACT = 1, -1
FROM_START = -2
# What became of a change.
DONE, UNKNOWN, TAKEN_NUMBER, EQUAL_TIME, AGAINST_TIME = 0, 1, 2, 3, 4


@njit(cache=True, nogil=True)
def with_room(store: Store, nodes: int, edges: int, opened: int) -> Store:
    """The store with room for so many more."""
    control = store.control
    if (
        control[NODES] + nodes <= store.nodes.shape[0]
        and control[EDGES] + edges <= store.edges.shape[0]
        and opened <= store.opened.shape[0]
    ):
        return store
    node_rows, edge_rows, open_row = store.nodes, store.edges, store.opened
    if control[NODES] + nodes > node_rows.shape[0]:
        node_rows = more_nodes(node_rows, control[NODES] + nodes)
    if control[EDGES] + edges > edge_rows.shape[0]:
        edge_rows = taller(edge_rows, control[EDGES] + edges)
    if opened > open_row.shape[0]:
        open_row = longer(open_row, opened)
    return Store(
        store.events, node_rows, edge_rows, store.blocks, store.order, store.fill, store.reach,
        open_row, store.keys, store.stamps, store.slots, control,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def with_index_room(store: Store, sequenced: bool) -> Store:
    """Room in the index, or the hash table, for one event more."""
    control = store.control
    if sequenced:
        if 2 * (control[HASHED] + 1) >= store.keys.shape[0]:
            return rehashed(store)
    elif max(control[BLOCKS], control[HIGH_BLOCK]) + 2 > store.order.shape[0]:
        return more_blocks(store)
    return store


@njit(cache=True, nogil=True)
def grown(store: Store, events: NDArray[np.int64], nodes: NDArray[np.int64]) -> Store:
    """The store with other arrays of events and nodes."""
    return Store(
        events, nodes, store.edges, store.blocks, store.order, store.fill, store.reach,
        store.opened, store.keys, store.stamps, store.slots, store.control,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def begins_by(store: Store, node: int, pivot: int) -> bool:
    """Whether the first event of a node stands at the pivot or before it."""
    start, le = store.nodes[node, START], store.events[pivot, LE]
    if start != le:
        return start < le
    return not_after(store.events, store.nodes[node, START_SLOT], pivot)


# -- Algorithm 1 -----------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def remove_spanning(
    store: Store,
    event: int,
    pivot: int,
    exhaustive: bool,
    cause: int,
    fields: int,
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """RemoveInvalidatedSequences: nodes from `event` on that began at the pivot or before it.

    By Completeness the first event without such a node ends the search; after a clean-up by
    predicates nodes in between may be gone, so it is then exhaustive.
    """
    nodes, events = store.nodes, store.events
    le = events[pivot, LE]
    while event >= 0:
        found = False
        node = events[event, HEAD]
        while node >= 0 and nodes[node, START] <= le:
            after = nodes[node, AFTER]
            if begins_by(store, node, pivot):
                found = True
                if nodes[node, MATCH] >= 0:
                    rows = report(store, node, -1, cause, fields, False, rows, counts)
                unlink_node(store, node)
                free_node(store, node)
            node = after
        if not found and not exhaustive:
            break
        event = events[event, NEXT]
    return rows


@njit(cache=True, nogil=True)
def process(
    store: Store,
    arcs: Arcs,
    operations: NDArray[np.int8],
    keys: NDArray[np.int64],  # [change, column of `events`]
    values: NDArray[np.int64],  # [change, column]
    ignoring: bool,
    sequenced: bool,
    unique: bool,  # equal timestamps are refused
    resume: int,  # the event after which all is made again (a change of arcs), FROM_START or NONE
    status: NDArray[np.int8],
    faults: NDArray[np.int64],
    counts: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> tuple[Store, NDArray[np.int64]]:
    """All changes in turn; output rows in the order in which they become known."""
    cells, nulls = arcs.cells.copy(), arcs.nulls.copy()
    floats = cells.view(np.float64)
    no_ints, no_floats = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.float64)
    no_nulls = np.zeros((1, 1), np.bool_)
    source, frontier = np.zeros(64, np.int64), np.zeros(64, np.int64)
    stays = np.zeros(64, np.bool_)
    stack = np.zeros(64, np.int64)
    fields = arcs.sizes[REGISTER_FIELDS]
    most, factor = arcs.sizes[MOST_ARCS], arcs.sizes[SILENT_FACTOR]
    control = store.control
    wanted = control[EVENTS] + operations.shape[0]
    if wanted > store.events.shape[0]:
        store = grown(store, taller(store.events, wanted), store.nodes)
    simple = not (arcs.silent.shape[0] or arcs.closing.shape[0])
    plain, intervals = simple and not ignoring, simple and ignoring and not sequenced
    change = -2 if resume != NONE else -1
    while change + 1 < operations.shape[0]:
        change += 1
        if plain and change >= 0:
            change, nodes, rows = append(
                store.events, store.nodes, store.blocks, store.order, store.fill, store.reach,
                store.keys, store.stamps, store.slots, control, arcs, operations, keys, values,
                change, unique, sequenced, faults, counts, rows, cells, floats, nulls, no_ints,
                no_floats, no_nulls,
            )  # fmt: skip
            store = grown(store, store.events, nodes)
            if change == operations.shape[0]:
                break
        if intervals and change >= 0:
            change, store, rows, source = append_ignoring(
                store, arcs, operations, keys, values, change, unique, faults, counts, rows,
                source, cells, floats, nulls, no_ints, no_floats, no_nulls,
            )  # fmt: skip
            if change == operations.shape[0]:
                break
        propagate = False
        event = NONE
        count = 0
        cause = NONE if change < 0 else keys[change, IDENTITY]
        # -- the change itself; leaves `source` and the event after which to go on ------------
        if change < 0:
            # Everything behind `resume` was taken away; go on as if it had arrived again.
            event = resume
            propagate = True
        elif operations[change] == INSERT:
            le, tie, content = keys[change, LE], keys[change, TIE], keys[change, CONTENT]
            number = keys[change, SEQUENCE]
            last = control[LAST]
            previous, following = NONE, NONE
            where, position = 0, 0
            in_order = False
            if sequenced:
                if event_of(store, number) >= 0:
                    status[change] = TAKEN_NUMBER
                    continue
                previous, following = event_of(store, number - 1), event_of(store, number + 1)
                if (previous >= 0 and store.events[previous, LE] > le) or (
                    following >= 0 and store.events[following, LE] < le
                ):
                    status[change] = AGAINST_TIME
                    continue
            elif last < 0 or compare(store.events, last, le, tie, content) <= 0:
                if unique and last >= 0 and store.events[last, LE] == le:
                    status[change] = EQUAL_TIME
                    continue
                in_order = True
                previous = last
            else:
                where, position = place_of(store, le, tie, content)
                if where >= 0:
                    previous = store.blocks[store.order[where], position - 1]
                    following = store.events[previous, NEXT]
                else:
                    following = control[FIRST]
                if unique and (
                    (previous >= 0 and store.events[previous, LE] == le)
                    or store.events[following, LE] == le
                ):
                    status[change] = EQUAL_TIME
                    continue
            store = with_index_room(store, sequenced)
            if previous >= 0:
                if in_order and ignoring:
                    source, count = alive_at_last(store, previous, source)
                else:
                    source, count = alive_at(store, previous, ignoring, source)
            event = new_event(store.events, control, keys, values, change, previous, following)
            if sequenced:
                set_event(store, number, event)
            else:
                if in_order:
                    where = control[BLOCKS] - 1
                    position = store.fill[store.order[where]] if where >= 0 else 0
                    control[LAST] = event
                put_in_index(store, event, where, position)
                if previous < 0:
                    control[FIRST] = event
                if following >= 0 and not ignoring:
                    rows = remove_spanning(
                        store, following, event, control[CLEANED] > 0, cause, fields, rows, counts,
                    )  # fmt: skip
            need = (count + arcs.initial.shape[0]) * most * factor
            if ignoring or control[NODES] + need > store.nodes.shape[0]:
                store = with_room(store, need, need if ignoring else 0, count if ignoring else 0)
            if frontier.shape[0] < need + count:
                frontier = longer(frontier, need + count)
            if stays.shape[0] < count:
                stays = np.zeros(2 * count, np.bool_)
            extend(
                store, arcs, source, count, event, True, ignoring, stays, frontier,
                faults, counts, cells, floats, nulls, no_ints, no_floats, no_nulls,
            )  # fmt: skip
            if ignoring and in_order:
                control[OPENED] = 0
                for index in range(count):
                    node = source[index]
                    if stays[index]:
                        if store.nodes[node, UNTIL] != OPEN:
                            store.nodes[node, UNTIL] = OPEN
                            raise_reach(store, store.nodes[node, AT], INFINITY)
                        store.opened[control[OPENED]] = node
                        control[OPENED] += 1
                    elif store.nodes[node, UNTIL] == OPEN:
                        store.nodes[node, UNTIL] = previous
            elif ignoring:
                control[STALE] = 1
                for index in range(count):
                    node = source[index]
                    if stays[index]:
                        if store.nodes[node, UNTIL] == previous:
                            store.nodes[node, UNTIL] = event
                            raise_reach(store, store.nodes[node, AT], le)
                    else:
                        store.nodes[node, UNTIL] = previous
                        stack, rows = cut(
                            store, node, event, False, stack, cause, fields, rows, counts,
                        )  # fmt: skip
            count = counts[CREATED]
            for index in range(count):
                node = frontier[index]
                source = source if source.shape[0] > index else longer(source, count)
                source[index] = node
                if store.nodes[node, MATCH] == ACCEPTED:
                    store.nodes[node, MATCH] = control[NEXT_MATCH]
                    control[NEXT_MATCH] += 1
                    rows = report(store, node, 1, cause, fields, ignoring, rows, counts)
            propagate = following >= 0
        else:
            le, tie, content = keys[change, LE], keys[change, TIE], keys[change, CONTENT]
            gone = NONE
            if sequenced:
                gone = event_of(store, keys[change, SEQUENCE])
            else:
                where, position = place_of(store, le, tie, content)
                if where >= 0:
                    gone = store.blocks[store.order[where], position - 1]
            if (
                gone < 0
                or compare(store.events, gone, le, tie, content) != 0
                or (store.events[gone, RE] != keys[change, RE])
            ):
                status[change] = UNKNOWN
                continue
            previous, following = store.events[gone, PREVIOUS], store.events[gone, NEXT]
            if ignoring:
                control[STALE] = 1
                if previous >= 0:
                    source, every = alive_at(store, previous, True, source)
                    for index in range(every):
                        node = source[index]
                        stack, rows = cut(
                            store, node, gone, True, stack, cause, fields, rows, counts,
                        )  # fmt: skip
                        if is_alive(store, node, gone):
                            if store.nodes[node, UNTIL] == gone:
                                store.nodes[node, UNTIL] = previous
                        else:
                            source[count] = node
                            count += 1
                depth = 0
                node = store.events[gone, HEAD]
                while node >= 0:
                    if depth == stack.shape[0]:
                        stack = longer(stack, 0)
                    stack[depth] = node
                    store.nodes[node, SUPPORT] = -1
                    depth += 1
                    node = store.nodes[node, AFTER]
                stack, rows = cascade(store, stack, depth, cause, fields, rows, counts)
            else:
                rows = remove_spanning(
                    store, gone, gone, control[CLEANED] > 0, cause, fields, rows, counts,
                )  # fmt: skip
                if previous >= 0 and not sequenced:
                    source, count = alive_at(store, previous, False, source)
            if previous >= 0:
                store.events[previous, NEXT] = NONE if sequenced else following
            if following >= 0:
                store.events[following, PREVIOUS] = NONE if sequenced else previous
            if sequenced:
                set_event(store, keys[change, SEQUENCE], NONE)
                if control[LAST] == gone:
                    control[LAST] = NONE
            else:
                take_from_index(store, gone)
                if control[FIRST] == gone:
                    control[FIRST] = following
                if control[LAST] == gone:
                    control[LAST] = previous
            free_event(store, gone)
            event = previous
            propagate = previous >= 0 and following >= 0 and not sequenced
        # -- PropagateInsert ------------------------------------------------------------------
        while propagate:
            event = control[FIRST] if event < 0 else store.events[event, NEXT]
            if event < 0 or (count == 0 and change >= 0):
                break
            if change < 0:
                previous = store.events[event, PREVIOUS]
                count = 0
                if previous >= 0:
                    source, count = alive_at(store, previous, ignoring, source)
            need = (count + arcs.initial.shape[0]) * most * factor
            if ignoring or control[NODES] + need > store.nodes.shape[0]:
                store = with_room(store, need, need if ignoring else 0, 0)
            if frontier.shape[0] < need + count:
                frontier = longer(frontier, need + count)
            if stays.shape[0] < count:
                stays = np.zeros(2 * count, np.bool_)
            extend(
                store, arcs, source, count, event, change < 0, ignoring, stays, frontier,
                faults, counts, cells, floats, nulls, no_ints, no_floats, no_nulls,
            )  # fmt: skip
            created = counts[CREATED]
            if ignoring:
                newest = store.events[event, NEXT] < 0
                for index in range(count):
                    node = source[index]
                    if stays[index]:
                        store.nodes[node, UNTIL] = OPEN if newest else event
                        raise_reach(
                            store,
                            store.nodes[node, AT],
                            INFINITY if newest else store.events[event, LE],
                        )
                        frontier[created] = node
                        created += 1
            for index in range(counts[CREATED]):
                node = frontier[index]
                if store.nodes[node, MATCH] == ACCEPTED:
                    store.nodes[node, MATCH] = control[NEXT_MATCH]
                    control[NEXT_MATCH] += 1
                    rows = report(store, node, 1, cause, fields, ignoring, rows, counts)
            source, frontier = frontier, source
            count = created
    return store, rows
