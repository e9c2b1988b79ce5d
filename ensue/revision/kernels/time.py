"""What time and changes of the pattern do to the AFA operator's state.

- `close_windows`: arcs that fire at the end of a window (Appendix E), once a watermark proves that
  no event comes before it.
- `clean`: the paper's Cleanup (C.1): everything before cover(t) goes, since no change can reach it.
- `take_away`: all nodes behind an event, before `process` makes them again under changed arcs.
- `clean_states`: nodes of states from which no late event can lead to a match (F.2).
"""

from __future__ import annotations

from ensue.automaton.registers import INFINITY, MINUS_INFINITY
from ensue.kernels.calls import allocating, inner, inner_inlined
from ensue.revision.kernels import layout as at
from ensue.revision.kernels.arcs import Arcs
from ensue.revision.kernels.intervals import is_alive
from ensue.revision.kernels.layout import NONE, OPEN, Numbers
from ensue.revision.kernels.output import report
from ensue.revision.kernels.steps import (
    cells_of,
    link_node,
    load_register,
    place_in_list,
    run_arc,
    store_register,
)
from ensue.revision.kernels.store import (
    Store,
    at_or_before,
    drop_from_front,
    free_event,
    free_node,
    free_nodes,
    not_after,
    set_event,
    take_edge,
    unlink_node,
)


@allocating
def close_windows(
    store: Store,
    arcs: Arcs,
    time: int,
    ending: bool,  # no event comes at all any more
    rows: Numbers,
    counts: Numbers,
) -> Numbers:
    """Matches of partial matches whose window has passed with nothing in it that ended them."""
    events, nodes, table, cells = store.events, store.nodes, arcs.table, cells_of(arcs)
    event, onward = NONE, NONE
    while onward >= 0 or event + 1 < store.control[at.HIGH_EVENT]:
        if onward < 0:
            event += 1
            onward = events[event, at.HEAD] if events[event, at.IDENTITY] >= 0 else NONE
            continue
        node, onward = onward, nodes[onward, at.AFTER]
        closes = nodes[node, at.LEAST_RE]
        if nodes[node, at.FIRED] or not (closes <= time or ending):
            continue
        until = nodes[node, at.UNTIL]
        if until == OPEN:
            until = store.control[at.LAST]
        following = events[until, at.NEXT]
        if following >= 0 and events[following, at.LE] < closes:
            continue
        nodes[node, at.FIRED] = 1
        le, marks = events[until, at.LE], nodes[node, at.NODE_NULLS]
        for arc in arcs.closing:
            if (
                table[arc, at.SOURCE] != nodes[node, at.STATE]
                or le < table[arc, at.SINCE]
                or le >= table[arc, at.TILL]
            ):
                continue
            load_register(nodes, node, at.REGISTERS, marks, arcs.outputs.shape[1], cells)
            coded = table[arc, at.BEGIN] < table[arc, at.FINISH]
            if (coded and run_arc(arcs, arc, NONE, cells) <= 0) or not table[arc, at.ACCEPTS]:
                continue
            rows = report(store, node, 1, NONE, False, rows, counts)
            row = counts[at.ROWS] - 1
            rows[row, at.MATCH_ID] = store.control[at.NEXT_MATCH]
            store.control[at.NEXT_MATCH] += 1
            rows[row, at.LIFETIME_LE] = closes
            rows[row, at.LIFETIME_RE] = closes if closes == INFINITY else closes + 1
            rows[row, at.FINAL_STATE] = table[arc, at.TARGET]
            # Events that were ignored belong to the match as well.
            rows[row, at.LAST_LE] = le
            rows[row, at.LAST_EVENT] = events[until, at.IDENTITY]
            rows[row, at.LAST_NAME] = events[until, at.CONTENT]
            rows[row, at.OUTPUT_NULLS] = store_register(
                rows, row, at.OUTPUT_REGISTER, arcs.outputs, arc, cells
            )
    return rows


@allocating
def cover(store: Store, time: int) -> int:
    """The latest event with a timestamp before `time`, or NONE."""
    return at_or_before(store, time - 1, INFINITY, INFINITY)


@inner_inlined
def _drop_edges(store: Store, node: int, pivot: int, later: bool) -> None:
    """Edges to nodes behind an event, or (not `later`) to those up to it; and to those gone."""
    nodes, edges = store.nodes, store.edges
    before, edge = NONE, nodes[node, at.EDGE]
    while edge >= 0:
        onward, event = edges[edge, at.EDGE_NEXT], nodes[edges[edge, at.CHILD], at.AT]
        if event < 0 or not_after(store.events, event, pivot) != later:
            take_edge(store, node, before, edge)
        else:
            before = edge
        edge = onward


@allocating
def clean(store: Store, time: int, ignoring: bool) -> None:
    """Events before cover(time) go with their nodes; intervals that reach it move to it."""
    events, nodes, control = store.events, store.nodes, store.control
    kept = cover(store, time)
    if kept < 0:
        return
    event, count = control[at.FIRST], 0
    while event != kept:
        node = events[event, at.HEAD]
        while node >= 0:
            after = nodes[node, at.AFTER]
            if ignoring and nodes[node, at.UNTIL] != event and is_alive(store, node, kept):
                start, start_event = nodes[node, at.START], nodes[node, at.START_EVENT]
                # The list it leaves goes as a whole.
                link_node(store, node, kept, place_in_list(store, kept, start, start_event, NONE))
                _drop_edges(store, node, kept, False)
                until = nodes[node, at.UNTIL]
                if until != kept:
                    le = INFINITY if until == OPEN else events[until, at.LE]
                    events[kept, at.REACH] = max(events[kept, at.REACH], le)
            else:
                free_node(store, node)
            node = after
        following = events[event, at.NEXT]
        free_event(store, event)
        event = following
        count += 1
    if count:
        drop_from_front(store, count)
        events[kept, at.PREVIOUS] = NONE
        control[at.FIRST] = kept
        if ignoring:
            block = store.order[0]
            store.reach[block] = max(store.reach[block], events[kept, at.REACH])
            if kept == control[at.LAST]:
                # Open intervals stand in its list now, and would be met there once more.
                control[at.STALE] = 1


@allocating
def clean_sequenced(store: Store, time: int) -> None:
    """With sequence numbers: of the events before `time`, only the last can get a successor."""
    events, control = store.events, store.control
    kept, first, count = NONE, NONE, 0
    event = control[at.LAST]
    while event >= 0 and events[event, at.NEXT] >= 0:
        event = events[event, at.NEXT]
    while event >= 0:
        count += 1
        if kept < 0 and events[event, at.LE] < time:
            kept = event
        first = event
        event = events[event, at.PREVIOUS]
    if count == control[at.EVENTS]:
        # No number is missing: one chain. Rows are freed in its order, so that they are used again
        # in order.
        while kept >= 0 and first != kept:
            following = events[first, at.NEXT]
            _drop_numbered(store, first)
            first = following
        return
    for event in range(control[at.HIGH_EVENT]):
        if (
            events[event, at.IDENTITY] >= 0
            and events[event, at.LE] < time
            and (kept < 0 or events[event, at.SEQUENCE] > events[kept, at.SEQUENCE])
        ):
            kept = event
    for event in range(control[at.HIGH_EVENT]):
        if events[event, at.IDENTITY] >= 0 and events[event, at.LE] < time and event != kept:
            _drop_numbered(store, event)


@inner
def _drop_numbered(store: Store, event: int) -> None:
    events = store.events
    free_nodes(store, event)
    if events[event, at.NEXT] >= 0:
        events[events[event, at.NEXT], at.PREVIOUS] = NONE
    if store.control[at.LAST] == event:
        store.control[at.LAST] = NONE
    set_event(store, events[event, at.SEQUENCE], NONE)
    free_event(store, event)


@allocating
def take_away(
    store: Store,
    after: int,  # NONE: everything
    ignoring: bool,
    rows: Numbers,
    counts: Numbers,
) -> Numbers:
    """All nodes behind an event; `process` with `resume` makes them again."""
    events, nodes = store.events, store.nodes
    event = store.control[at.FIRST] if after < 0 else events[after, at.NEXT]
    while event >= 0:
        node = events[event, at.HEAD]
        while node >= 0:
            if nodes[node, at.MATCH] >= 0:
                rows = report(store, node, -1, NONE, ignoring, rows, counts)
            node = nodes[node, at.AFTER]
        free_nodes(store, event)
        events[event, at.REACH] = MINUS_INFINITY
        event = events[event, at.NEXT]
    if not ignoring:
        return rows
    store.control[at.STALE] = 1
    event = after
    while event >= 0:
        node = events[event, at.HEAD]
        while node >= 0:
            if is_alive(store, node, after):
                nodes[node, at.UNTIL] = after
                events[event, at.REACH] = max(events[event, at.REACH], events[after, at.LE])
                _drop_edges(store, node, after, True)
            node = nodes[node, at.AFTER]
        event = events[event, at.PREVIOUS]
    return rows


@allocating
def clean_states(store: Store, covers: Numbers) -> int:
    """Nodes of a state whose event stands before the state's cover; the number that went.

    Their matches stay valid, and are still withdrawn if a late event falls inside: that is decided
    by first events, not by what is deleted here.
    """
    events, nodes = store.events, store.nodes
    count = 0
    event = store.control[at.FIRST]
    while event >= 0:
        node = events[event, at.HEAD]
        while node >= 0:
            after = nodes[node, at.AFTER]
            limit = covers[nodes[node, at.STATE]]
            if (
                limit >= 0
                and limit != event
                and nodes[node, at.MATCH] < 0
                and not_after(events, event, limit)
            ):
                unlink_node(store, node)
                free_node(store, node)
                count += 1
            node = after
        event = events[event, at.NEXT]
    store.control[at.CLEANED] += count
    return count
