"""Listing the matches of row-local event patterns from the compact match graph.

Rows go through `sequences/kernels/match_graph.py` in stretches: when its arrays are full, the
matches found so far are listed and the graph is compacted to what the window still needs. Listing
is lazy: nothing is read off the graph before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.subsets import NOWHERE, START, Subsets
from ensue.sequences.batch import EventBatch
from ensue.sequences.counts import MAX_TABLE, event_classes
from ensue.sequences.kernels import match_graph as kernels

NODES = 1 << 18  # first size of the arrays
ROOTS = 1 << 16
MATCHES = 1 << 14  # per stretch of output


@dataclass(frozen=True)
class Steps:
    """Arcs by event class, with the label that is taken (-1: the event is skipped)."""

    idle: NDArray[np.bool_]
    offsets: NDArray[np.int32]
    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    labels: NDArray[np.int32]
    end_offsets: NDArray[np.int32]
    end_sources: NDArray[np.int32]
    end_labels: NDArray[np.int32]
    states: int


@dataclass(frozen=True)
class Stretch:
    """Matches in order of their ends: the length of each, and labels and rows of their events."""

    lengths: NDArray[np.int64]
    labels: NDArray[np.int32]
    rows: NDArray[np.int64]


def build_steps(subsets: Subsets, bits: list[int]) -> Steps | None:
    """The steps of all states that these classes reach; None: too many, or an absence ends them."""
    if subsets.automaton.absences:
        return None
    reached = subsets.reached(lambda _: bits, most=MAX_TABLE // max(1, len(bits)))
    if reached is None:
        return None
    # By the places in them and not as they were found: a partition that comes in pieces must list
    # matches of equal end in the order of the whole.
    order = sorted(reached, key=subsets.canonical)
    numbers = {state: number for number, state in enumerate(order)}
    arcs: list[tuple[int, int, int]] = []
    ends: list[tuple[int, int]] = []
    offsets, end_offsets = [0], [0]
    idle = np.ones(len(bits), np.bool_)
    for kind, value in enumerate(bits):
        for state in order:
            step = subsets.step(state, value)
            source = numbers[state]
            if step.skip != NOWHERE:
                arcs.append((source, numbers[step.skip], -1))
            if step.skip_accept:
                ends.append((source, -1))
            for take in step.takes:
                if take.target != NOWHERE:
                    arcs.append((source, numbers[take.target], take.label))
                if take.accept:
                    ends.append((source, take.label))
            stays = step.skip == (NOWHERE if state == START else state)
            idle[kind] &= stays and not step.takes and not step.skip_accept
        offsets.append(len(arcs))
        end_offsets.append(len(ends))
    columns = np.array(arcs, np.int32).reshape(-1, 3).T
    finals = np.array(ends, np.int32).reshape(-1, 2).T
    return Steps(
        idle,
        np.array(offsets, np.int32),
        np.ascontiguousarray(columns[0]),
        np.ascontiguousarray(columns[1]),
        np.ascontiguousarray(columns[2]),
        np.array(end_offsets, np.int32),
        np.ascontiguousarray(finals[0]),
        np.ascontiguousarray(finals[1]),
        len(order),
    )


class Graph:
    """The graph of a batch while its rows go through it, partition after partition."""

    def __init__(self, steps: Steps, nodes: int = NODES, roots: int = ROOTS) -> None:
        self._steps = steps
        self.current = np.full(steps.states, kernels.NOTHING, np.int32)
        self.used = 0
        self.rows = np.empty(nodes, np.int64)
        self.labels = np.empty(nodes, np.int32)
        self.lefts = np.empty(nodes, np.int32)
        self.rights = np.empty(nodes, np.int32)
        self.newest = np.empty(nodes, np.int64)
        self.oldest = np.empty(nodes, np.int64)
        self.roots = np.empty((roots, 3), np.int64)

    @property
    def bytes(self) -> int:
        arrays = (self.rows, self.labels, self.lefts, self.rights, self.newest, self.oldest)
        return sum(array.nbytes for array in (*arrays, self.roots))

    def advance(
        self,
        classes: NDArray[np.int32],
        place: NDArray[np.int64],
        batch: EventBatch,
        live: NDArray[np.int64],
        lows: NDArray[np.int64],
    ) -> int:
        """Moves `place` on; the number of roots found."""
        steps, reach = self._steps, batch.reach
        self.used, found = kernels.advance(
            classes,
            place,
            reach.begins,
            reach.stops,
            reach.fresh,
            batch.edges,
            live,
            lows,
            steps.idle,
            steps.offsets,
            steps.sources,
            steps.targets,
            steps.labels,
            steps.end_offsets,
            steps.end_sources,
            steps.end_labels,
            self.current,
            self.used,
            self.rows,
            self.labels,
            self.lefts,
            self.rights,
            self.newest,
            self.oldest,
            self.roots,
        )
        return int(found)

    def compact(self, low: int) -> None:
        """Forgets what the window has left, and grows where that was not enough."""
        self.used = kernels.compact(
            self.current,
            self.used,
            low,
            self.rows,
            self.labels,
            self.lefts,
            self.rights,
            self.newest,
            self.oldest,
        )
        if 2 * self.used > len(self.rows):
            for name in ("rows", "labels", "lefts", "rights", "newest", "oldest"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate((array, np.empty_like(array))))


class Arrays(Protocol):
    """The arrays of a match graph that listing reads."""

    @property
    def rows(self) -> NDArray[np.int64]: ...
    @property
    def labels(self) -> NDArray[np.int32]: ...
    @property
    def lefts(self) -> NDArray[np.int32]: ...
    @property
    def rights(self) -> NDArray[np.int32]: ...
    @property
    def newest(self) -> NDArray[np.int64]: ...


def list_roots(graph: Arrays, roots: NDArray[np.int64], found: int, most: int) -> Iterator[Stretch]:
    """The matches of the first `found` roots, at most `most`."""
    place = np.zeros(2, np.int64)
    stack = np.empty((1024, 2), np.int64)
    path_rows, path_labels = np.empty(1024, np.int64), np.empty(1024, np.int32)
    room = 1 << 16
    while most > 0:
        out_rows, out_labels = np.empty(room, np.int64), np.empty(room, np.int32)
        lengths = np.empty(MATCHES, np.int64)
        matches, events, done = kernels.list_matches(
            roots,
            found,
            place,
            stack,
            path_rows,
            path_labels,
            graph.rows,
            graph.labels,
            graph.lefts,
            graph.rights,
            graph.newest,
            out_rows,
            out_labels,
            lengths,
            most,
        )
        most -= matches
        if matches:
            yield Stretch(lengths[:matches], out_labels[:events], out_rows[:events])
        elif not done:
            stack = np.concatenate((stack, np.empty_like(stack)))
            path_rows = np.concatenate((path_rows, np.empty_like(path_rows)))
            path_labels = np.concatenate((path_labels, np.empty_like(path_labels)))
            room *= 2
        if done:
            return


class Listed(Protocol):
    @property
    def lengths(self) -> NDArray[np.int64]: ...


L = TypeVar("L", bound=Listed)
Lister = Callable[[Arrays, NDArray[np.int64], int, int], Iterator[L]]


def stretches(
    batch: EventBatch,
    steps: Steps,
    classes: NDArray[np.int32],
    most: int,
    live: NDArray[np.int64],
    lister: Lister[L],
) -> Iterator[L]:
    """What `lister` makes of the matches of all partitions, in order of their ends.

    `live` receives, per partition, the first row that partial matches still hold at its end.
    """
    lows = batch.low if batch.low is not None else np.empty(0, np.int64)
    begins = batch.reach.begins
    if not len(begins):
        return
    graph = Graph(steps, min(NODES, 64 + 16 * len(classes) * max(1, steps.states)))
    place = np.array([0, begins[0]], np.int64)
    while place[0] < len(begins):
        before = place.copy()
        found = graph.advance(classes, place, batch, live, lows)
        for stretch in lister(graph, graph.roots, found, most):
            most -= len(stretch.lengths)
            yield stretch
        if most <= 0:
            return
        if place[0] < len(begins):
            graph.compact(int(lows[place[1]]) if len(lows) else 0)
            if not found and (place == before).all():
                graph.roots = np.empty((2 * len(graph.roots), 3), np.int64)


def prepared(batch: EventBatch, subsets: Subsets) -> tuple[Steps, NDArray[np.int32]] | None:
    """The steps of a batch's event classes, where the compact graph can list them."""
    classes, bits = event_classes(batch)
    steps = build_steps(subsets, bits)
    return None if steps is None else (steps, classes)
