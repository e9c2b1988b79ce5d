"""What time and changes of the pattern do to the AFA operator's state.

- `close_windows`: arcs that fire at the end of a window (Appendix E), once a watermark proves that
  no event comes before it.
- `clean`: the paper's Cleanup (C.1): everything before cover(t) goes, since no change can reach it.
- `take_away`: all nodes behind an event, before `process` makes them again under changed arcs.
- `clean_states`: nodes of states from which no late event can lead to a match (F.2).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.automaton.registers import INFINITY, MINUS_INFINITY
from ensue.revision.kernels.arcs import (
    ACCEPTS,
    BEGIN,
    FINISH,
    REGISTER_FIELDS,
    SINCE,
    SOURCE,
    TARGET,
    TILL,
    Arcs,
)
from ensue.revision.kernels.intervals import is_alive
from ensue.revision.kernels.output import (
    FINAL_STATE,
    LAST_EVENT,
    LAST_LE,
    LAST_NAME,
    LIFETIME_LE,
    LIFETIME_RE,
    MATCH_ID,
    OUTPUT_NULLS,
    OUTPUT_REGISTER,
    ROWS,
    report,
)
from ensue.revision.kernels.rows import load_register
from ensue.revision.kernels.steps import link_node, run_arc
from ensue.revision.kernels.store import (
    AFTER,
    AT,
    CHILD,
    CLEANED,
    CONTENT,
    EDGE,
    EDGE_NEXT,
    EVENTS,
    FIRED,
    FIRST,
    HEAD,
    HIGH_EVENT,
    IDENTITY,
    LAST,
    LE,
    LEAST_RE,
    MATCH,
    NEXT,
    NEXT_MATCH,
    NODE_NULLS,
    NONE,
    OPEN,
    PREVIOUS,
    REACH,
    REGISTERS,
    SEQUENCE,
    STALE,
    STATE,
    TAIL,
    UNTIL,
    Store,
    at_or_before,
    drop_from_front,
    free_edge,
    free_event,
    free_node,
    not_after,
    set_event,
    unlink_node,
)


@njit(cache=True, nogil=True)
def close_windows(
    store: Store,
    arcs: Arcs,
    time: int,
    ending: bool,  # no event comes at all any more
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Matches of partial matches whose window has passed with nothing in it that ended them."""
    events, nodes, table = store.events, store.nodes, arcs.table
    cells, nulls = arcs.cells.copy(), arcs.nulls.copy()
    floats = cells.view(np.float64)
    no_ints, no_floats = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.float64)
    no_nulls = np.zeros((1, 1), np.bool_)
    fields = arcs.sizes[REGISTER_FIELDS]
    for event in range(store.control[HIGH_EVENT]):
        if events[event, IDENTITY] < 0:
            continue
        node = events[event, HEAD]
        while node >= 0:
            closes = nodes[node, LEAST_RE]
            if not nodes[node, FIRED] and (closes <= time or ending):
                until = nodes[node, UNTIL]
                if until == OPEN:
                    until = store.control[LAST]
                following = events[until, NEXT]
                if following < 0 or events[following, LE] >= closes:
                    nodes[node, FIRED] = 1
                    for index in range(arcs.closing.shape[0]):
                        arc = arcs.closing[index]
                        if table[arc, SOURCE] != nodes[node, STATE]:
                            continue
                        if not table[arc, SINCE] <= events[until, LE] < table[arc, TILL]:
                            continue
                        load_register(
                            nodes, node, REGISTERS, nodes[node, NODE_NULLS], fields, cells, nulls
                        )
                        if table[arc, BEGIN] < table[arc, FINISH]:
                            status = run_arc(
                                arc, NONE, arcs.code, table[arc, BEGIN], table[arc, FINISH],
                                cells, floats, nulls, no_ints, no_floats, no_nulls,
                            )  # fmt: skip
                            if status <= 0:
                                continue
                        if not table[arc, ACCEPTS]:
                            continue
                        rows = report(store, node, 1, NONE, fields, False, rows, counts)
                        row = rows[counts[ROWS] - 1]
                        row[MATCH_ID] = store.control[NEXT_MATCH]
                        store.control[NEXT_MATCH] += 1
                        row[LIFETIME_LE] = closes
                        row[LIFETIME_RE] = closes if closes == INFINITY else closes + 1
                        row[FINAL_STATE] = table[arc, TARGET]
                        # Events that were ignored belong to the match as well.
                        row[LAST_LE] = events[until, LE]
                        row[LAST_EVENT] = events[until, IDENTITY]
                        row[LAST_NAME] = events[until, CONTENT]
                        marks = 0
                        for field in range(fields):
                            cell = arcs.outputs[arc, field]
                            row[OUTPUT_REGISTER + field] = cells[cell]
                            if nulls[cell]:
                                marks |= 1 << field
                        row[OUTPUT_NULLS] = marks
            node = nodes[node, AFTER]
    return rows


@njit(cache=True, nogil=True)
def cover(store: Store, time: int) -> int:
    """The latest event with a timestamp before `time`, or NONE."""
    return at_or_before(store, time - 1, INFINITY, INFINITY)


@njit(cache=True, nogil=True)
def _forget_past(store: Store, node: int, kept: int) -> None:
    """Edges to nodes that go, or that nothing can reach any more; their rows are used again."""
    nodes, edges = store.nodes, store.edges
    before, edge = NONE, nodes[node, EDGE]
    while edge >= 0:
        onward = edges[edge, EDGE_NEXT]
        if not_after(store.events, nodes[edges[edge, CHILD], AT], kept):
            if before >= 0:
                edges[before, EDGE_NEXT] = onward
            else:
                nodes[node, EDGE] = onward
            free_edge(store, edge)
        else:
            before = edge
        edge = onward


@njit(cache=True, nogil=True)
def clean(store: Store, time: int, ignoring: bool) -> None:
    """Events before cover(time) go with their nodes; intervals that reach it move to it."""
    events, nodes, control = store.events, store.nodes, store.control
    kept = cover(store, time)
    if kept < 0:
        return
    event, count = control[FIRST], 0
    while event != kept:
        node = events[event, HEAD]
        while node >= 0:
            after = nodes[node, AFTER]
            if ignoring and nodes[node, UNTIL] != event and is_alive(store, node, kept):
                link_node(store, node, kept)  # the list it leaves goes as a whole
                _forget_past(store, node, kept)
                if nodes[node, UNTIL] == OPEN:
                    events[kept, REACH] = INFINITY
                elif nodes[node, UNTIL] != kept:
                    events[kept, REACH] = max(events[kept, REACH], events[nodes[node, UNTIL], LE])
            else:
                free_node(store, node)
            node = after
        following = events[event, NEXT]
        free_event(store, event)
        event = following
        count += 1
    if count:
        drop_from_front(store, count)
        events[kept, PREVIOUS] = NONE
        control[FIRST] = kept
        if ignoring:
            block = store.order[0]
            store.reach[block] = max(store.reach[block], events[kept, REACH])
            if kept == control[LAST]:
                # Open intervals stand in its list now, and would be met there once more.
                control[STALE] = 1


@njit(cache=True, nogil=True)
def clean_sequenced(store: Store, time: int) -> None:
    """With sequence numbers: of the events before `time`, only the last can get a successor."""
    events, control = store.events, store.control
    kept, first, count = NONE, NONE, 0
    event = control[LAST]
    while event >= 0 and events[event, NEXT] >= 0:
        event = events[event, NEXT]
    while event >= 0:
        count += 1
        if kept < 0 and events[event, LE] < time:
            kept = event
        first = event
        event = events[event, PREVIOUS]
    if count == control[EVENTS]:
        # No number is missing: one chain. Rows are freed in its order, so that they are used again
        # in order.
        while kept >= 0 and first != kept:
            following = events[first, NEXT]
            _drop_numbered(store, first)
            first = following
        return
    for event in range(control[HIGH_EVENT]):
        if (
            events[event, IDENTITY] >= 0
            and events[event, LE] < time
            and (kept < 0 or events[event, SEQUENCE] > events[kept, SEQUENCE])
        ):
            kept = event
    for event in range(control[HIGH_EVENT]):
        if events[event, IDENTITY] >= 0 and events[event, LE] < time and event != kept:
            _drop_numbered(store, event)


@njit(cache=True, nogil=True)
def _drop_numbered(store: Store, event: int) -> None:
    events = store.events
    node = events[event, HEAD]
    while node >= 0:
        after = store.nodes[node, AFTER]
        free_node(store, node)
        node = after
    if events[event, NEXT] >= 0:
        events[events[event, NEXT], PREVIOUS] = NONE
    if store.control[LAST] == event:
        store.control[LAST] = NONE
    set_event(store, events[event, SEQUENCE], NONE)
    free_event(store, event)


@njit(cache=True, nogil=True)
def take_away(
    store: Store,
    after: int,  # NONE: everything
    fields: int,
    ignoring: bool,
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """All nodes behind an event; `process` with `resume` makes them again."""
    events, nodes = store.events, store.nodes
    event = store.control[FIRST] if after < 0 else events[after, NEXT]
    while event >= 0:
        node = events[event, HEAD]
        while node >= 0:
            following = nodes[node, AFTER]
            if nodes[node, MATCH] >= 0:
                rows = report(store, node, -1, NONE, fields, ignoring, rows, counts)
            free_node(store, node)
            node = following
        events[event, HEAD] = NONE
        events[event, TAIL] = NONE
        events[event, REACH] = MINUS_INFINITY
        event = events[event, NEXT]
    if not ignoring:
        return rows
    store.control[STALE] = 1
    event = after
    while event >= 0:
        node = events[event, HEAD]
        while node >= 0:
            if is_alive(store, node, after):
                nodes[node, UNTIL] = after
                events[event, REACH] = max(events[event, REACH], events[after, LE])
                before, edge = NONE, nodes[node, EDGE]
                while edge >= 0:
                    onward = store.edges[edge, EDGE_NEXT]
                    at = nodes[store.edges[edge, CHILD], AT]
                    if at < 0 or not not_after(events, at, after):
                        if before >= 0:
                            store.edges[before, EDGE_NEXT] = onward
                        else:
                            nodes[node, EDGE] = onward
                        free_edge(store, edge)
                    else:
                        before = edge
                    edge = onward
            node = nodes[node, AFTER]
        event = events[event, PREVIOUS]
    return rows


@njit(cache=True, nogil=True)
def clean_states(store: Store, covers: NDArray[np.int64]) -> int:
    """Nodes of a state whose event stands before the state's cover; the number that went.

    Their matches stay valid, and are still withdrawn if a late event falls inside: that is decided
    by first events, not by what is deleted here.
    """
    events, nodes = store.events, store.nodes
    count = 0
    event = store.control[FIRST]
    while event >= 0:
        node = events[event, HEAD]
        while node >= 0:
            after = nodes[node, AFTER]
            limit = covers[nodes[node, STATE]]
            if (
                limit >= 0
                and limit != event
                and nodes[node, MATCH] < 0
                and not_after(events, event, limit)
            ):
                unlink_node(store, node)
                free_node(store, node)
                count += 1
            node = after
        event = events[event, NEXT]
    store.control[CLEANED] += count
    return count
