"""Negated steps at the end of a group: what follows the group must not skip their events either.

`(A -> !X | C) -> B` forbids an X after A and none after C, though both wait for the same B. The end
of such a group is a place that *carries* the STOPs of its negated steps. When all places are known
(what follows a group may be the loop around it), such a place goes on to a copy of what waits
behind it, up to the next event that is taken, in which every place forbids what is carried. Where
the pattern could end instead, the copy is a match once the window has proved the absence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ensue.automaton.places import Action, Atom, Edge, Kind, Place
from ensue.automaton.walks import reached


def carry(places: Sequence[Place], labels: Sequence[str], new: Callable[[Kind], Place]) -> None:
    """Resolves the places that carry STOPs; `new` makes a place."""
    known: dict[tuple[Place, tuple[Place, ...]], Place] = {}

    def copy(place: Place, stops: tuple[Place, ...]) -> Place:
        if place.kind is Kind.STOP:
            return place
        stops += tuple(stop for stop in place.carries if stop not in stops)
        key = (place, tuple(sorted(stops, key=id)))
        if key not in known:
            ends = place.kind is Kind.ACCEPT
            twin = known[key] = new(Kind.PENDING if ends else place.kind)
            twin.round = place.round
            for stop in stops:
                assert stop.forbids is not None
                twin.go_on(stop, Atom(labels.index(stop.forbids)))
            if ends:
                twin.skip(twin, True)
            for edge in place.edges:
                taken = edge.action is Action.TAKE
                target = edge.target if taken else copy(edge.target, stops)
                twin.edges.append(Edge(edge.action, target, edge.test, edge.label))
        return known[key]

    carrying = [place for place in places if place.carries]
    onward = [
        [Edge(edge.action, copy(edge.target, place.carries), edge.test) for edge in place.edges]
        for place in carrying
    ]
    for place, edges in zip(carrying, onward, strict=True):
        place.edges, place.carries = edges, ()


def stripped(place: Place, nots: Sequence[Place], new: Callable[[Kind], Place]) -> Place:
    """A copy that no longer forbids `nots`: an event was taken since."""
    known: dict[Place, Place] = {}

    def copy(place: Place) -> Place:
        if place in known or place.kind in (Kind.STOP, Kind.ACCEPT):
            return known.get(place, place)
        twin = known[place] = new(place.kind)
        twin.round = place.round
        twin.carries = tuple(stop for stop in place.carries if stop not in nots)
        for edge in place.edges:
            if edge.action is Action.GO_ON:
                if edge.target not in nots:
                    twin.go_on(copy(edge.target), edge.test)
            else:
                target = twin if edge.target is place else edge.target
                twin.edges.append(Edge(edge.action, target, edge.test, edge.label))
        return twin

    return copy(place)


def complete(place: Place) -> bool:
    """Whether all that waits here is known; a loop comes back to a place that is filled last."""
    behind = reached((place,), lambda p: [e.target for e in p.edges if e.action is Action.GO_ON])
    return all(waiting.edges or waiting.kind is not Kind.WAIT for waiting in behind)
