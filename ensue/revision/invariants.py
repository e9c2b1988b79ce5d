"""The paper's invariants of the AFA operator's state, checked in debug runs (§5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ensue.revision.kernels import layout
from ensue.revision.kernels.layout import NONE, OPEN

if TYPE_CHECKING:
    from ensue.revision.events import EventOperator


def verify(operator: EventOperator) -> None:
    """Links, Ordering and Completeness; an AssertionError names the one that is broken."""
    store, control = operator.store, operator.store.control
    events, nodes = store.events, store.nodes
    used = np.flatnonzero(events[: int(control[layout.HIGH_EVENT]), layout.IDENTITY] >= 0).tolist()
    assert len(used) == int(control[layout.EVENTS]), "the number of events"
    listed = 0
    for event in used:
        before, node = NONE, int(events[event, layout.HEAD])
        while node != NONE:
            listed += 1
            assert nodes[node, layout.AT] == event, "a node is listed at another event"
            assert nodes[node, layout.BEFORE] == before, "the list of an event"
            if before != NONE:
                assert nodes[before, layout.START] <= nodes[node, layout.START], "Ordering"
            before, node = node, int(nodes[node, layout.AFTER])
        assert events[event, layout.TAIL] == before, "the tail of an event's list"
    assert listed == int(control[layout.NODES]), "the number of nodes"
    if not operator.settings.sequenced:
        _verify_order(operator, used)
    if not operator.ignoring and not control[layout.CLEANED]:
        _verify_completeness(operator, used)


def _verify_order(operator: EventOperator, used: list[int]) -> None:
    store, control = operator.store, operator.store.control
    events = store.events
    chain, event = [], int(control[layout.FIRST])
    while event != NONE:
        chain.append(event)
        event = int(events[event, layout.NEXT])
    assert sorted(chain) == used, "every event is linked once"
    keys = [tuple(events[e, [layout.LE, layout.TIE, layout.CONTENT]].tolist()) for e in chain]
    assert keys == sorted(keys), "events are in order"
    indexed = [
        int(store.blocks[block, row])
        for block in store.order[: int(control[layout.BLOCKS])].tolist()
        for row in range(int(store.fill[block]))
    ]
    assert indexed == chain, "the index lists the events in order"
    for event in chain if operator.ignoring else ():
        node = int(events[event, layout.HEAD])
        while node != NONE:
            until = int(store.nodes[node, layout.UNTIL])
            assert until == OPEN or chain.index(until) >= chain.index(event), "an interval's end"
            node = int(store.nodes[node, layout.AFTER])


def _verify_completeness(operator: EventOperator, used: list[int]) -> None:
    """A partial match that did not begin here has one with the same beginning just before."""
    events, nodes = operator.store.events, operator.store.nodes

    def starts(event: int) -> set[int]:
        found, node = set(), int(events[event, layout.HEAD])
        while node != NONE:
            found.add(int(nodes[node, layout.START_EVENT]))
            node = int(nodes[node, layout.AFTER])
        return found

    for event in used:
        before = int(events[event, layout.PREVIOUS])
        if before == NONE:
            continue
        spanning = starts(event) - {int(events[event, layout.IDENTITY])}
        assert spanning <= starts(before), "Completeness"
