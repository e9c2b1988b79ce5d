"""What a retraction takes away, and an event into the past: partial matches that span its place.

Compiled with the first change of a batch that is not an event in order.
"""

from __future__ import annotations

from ensue.kernels.calls import inner, inner_allocating, inner_inlined
from ensue.revision.kernels import layout as at
from ensue.revision.kernels.intervals import alive_at, cascade, cut, is_alive, listed_at
from ensue.revision.kernels.layout import NONE, Numbers
from ensue.revision.kernels.output import report
from ensue.revision.kernels.store import (
    Store,
    compare,
    event_of,
    free_event,
    free_node,
    longer,
    not_after,
    place_of,
    set_event,
    take_from_index,
    unlink_node,
)


@inner_inlined
def _begins_by(store: Store, node: int, pivot: int) -> bool:
    """Whether the first event of a node stands at the pivot or before it."""
    start, le = store.nodes[node, at.START], store.events[pivot, at.LE]
    if start != le:
        return start < le
    return not_after(store.events, store.nodes[node, at.START_SLOT], pivot)


@inner_allocating
def remove_spanning(
    store: Store, event: int, pivot: int, cause: int, rows: Numbers, counts: Numbers
) -> Numbers:
    """RemoveInvalidatedSequences: nodes from `event` on that began at the pivot or before it.

    By Completeness the first event without such a node ends the search; after a clean-up by
    predicates nodes in between may be gone, so it is then exhaustive.
    """
    nodes, events = store.nodes, store.events
    le, exhaustive = events[pivot, at.LE], store.control[at.CLEANED] > 0
    while event >= 0:
        found = False
        node = events[event, at.HEAD]
        while node >= 0 and nodes[node, at.START] <= le:
            after = nodes[node, at.AFTER]
            if _begins_by(store, node, pivot):
                found = True
                if nodes[node, at.MATCH] >= 0:
                    rows = report(store, node, -1, cause, False, rows, counts)
                unlink_node(store, node)
                free_node(store, node)
            node = after
        if not found and not exhaustive:
            break
        event = events[event, at.NEXT]
    return rows


@inner
def event_to_retract(store: Store, keys: Numbers, change: int, sequenced: bool) -> int:
    """The event with the same key and lifetime, or NONE."""
    le, tie, content = keys[change, at.LE], keys[change, at.TIE], keys[change, at.CONTENT]
    gone = NONE
    if sequenced:
        gone = event_of(store, keys[change, at.SEQUENCE])
    else:
        where, position = place_of(store, le, tie, content)
        if where >= 0:
            gone = store.blocks[store.order[where], position - 1]
    if (
        gone < 0
        or compare(store.events, gone, le, tie, content) != 0
        or store.events[gone, at.RE] != keys[change, at.RE]
    ):
        return NONE
    return gone


@inner_allocating
def retract(
    store: Store,
    gone: int,
    cause: int,
    ignoring: bool,
    sequenced: bool,
    source: Numbers,  # there is room for all nodes
    stack: Numbers,
    rows: Numbers,
    counts: Numbers,
) -> tuple[int, Numbers, Numbers]:
    """An event goes with all that used it; how many in `source` meet the next event again."""
    events, nodes, control = store.events, store.nodes, store.control
    previous, following = events[gone, at.PREVIOUS], events[gone, at.NEXT]
    count = 0
    if ignoring:
        control[at.STALE] = 1
        alive = alive_at(store, previous, source) if previous >= 0 else 0
        for index in range(alive):
            node = source[index]
            stack, rows = cut(store, node, gone, True, stack, cause, rows, counts)
            if not is_alive(store, node, gone):
                source[count] = node
                count += 1
            elif nodes[node, at.UNTIL] == gone:
                nodes[node, at.UNTIL] = previous
        depth = 0
        node = events[gone, at.HEAD]
        while node >= 0:
            if depth == stack.shape[0]:
                stack = longer(stack, 0)
            stack[depth] = node
            nodes[node, at.SUPPORT] = -1
            depth += 1
            node = nodes[node, at.AFTER]
        stack, rows = cascade(store, stack, depth, cause, rows, counts)
    else:
        rows = remove_spanning(store, gone, gone, cause, rows, counts)
        if previous >= 0 and not sequenced:
            count = listed_at(store, previous, source, 0)
    if previous >= 0:
        events[previous, at.NEXT] = NONE if sequenced else following
    if following >= 0:
        events[following, at.PREVIOUS] = NONE if sequenced else previous
    if sequenced:
        set_event(store, events[gone, at.SEQUENCE], NONE)
    else:
        take_from_index(store, gone)
        if control[at.FIRST] == gone:
            control[at.FIRST] = following
    if control[at.LAST] == gone:
        control[at.LAST] = NONE if sequenced else previous
    free_event(store, gone)
    return count, stack, rows
