"""The match graph of a batch while its rows go through it, and listing the matches in it.

Rows go through the kernels in stretches: when the arrays are full, the matches found so far are
listed and the graph is compacted to what the window still needs. Listing is lazy: nothing is read
off the graph before it is asked for. What it costs is noted in an `Effort`. `RowLocalGraph` has
one node per state of the automaton (`sequences/kernels/match_graph.py`); `machine.py` has one per
class of partial matches, where conditions read the match so far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import thread_time
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.subsets import NOWHERE, START, Subsets
from ensue.sequences.batch import EventBatch
from ensue.sequences.kernels import match_graph as kernels
from ensue.sequences.kernels import timeouts
from ensue.sequences.kernels.match_graph import Nodes, Steps, Walk
from ensue.stopping import look

NODES = 1 << 18  # first size of the arrays
ROOTS = 1 << 16
MATCHES = 1 << 14  # per stretch of output
MAX_TABLE = 1 << 16  # states times event classes


@dataclass(frozen=True)
class Stretch:
    """Matches in order of their ends: the length of each, and labels and rows of their events."""

    lengths: NDArray[np.int64]
    labels: NDArray[np.int32]
    rows: NDArray[np.int64]
    roots: NDArray[np.int64] | None = None  # where asked for: of each (row, node, low)


def build_steps(
    subsets: Subsets, bits: list[int], states: Sequence[int] = (START,)
) -> tuple[list[int], Steps] | None:
    """Steps of `states` and of all that these classes reach, and these states; None: too many.

    By the places in them and not as they were found: a partition that comes in pieces must list
    matches of equal end in the order of the whole.
    """
    reached = subsets.reached(lambda _: bits, states, MAX_TABLE // max(1, len(bits)))
    if reached is None:
        return None
    order = sorted(reached, key=subsets.canonical)
    numbers = {NOWHERE: -1, **{state: number for number, state in enumerate(order)}}
    arcs: list[tuple[int, int, int, bool]] = []
    offsets = [0]
    idle = np.ones(len(bits), np.bool_)
    for kind, value in enumerate(bits):
        for state in order:
            step, source = subsets.step(state, value), numbers[state]
            if step.skip != NOWHERE or step.skip_accept:
                arcs.append((source, numbers[step.skip], -1, step.skip_accept))
            for take in step.takes:
                arcs.append((source, numbers[take.target], take.label, take.accept))
            stays = step.skip == (NOWHERE if state == START else state)
            idle[kind] &= stays and not step.takes and not step.skip_accept
        offsets.append(len(arcs))
    sources, targets, labels, accepts = np.array(arcs, np.int32).reshape(-1, 4).T.copy()
    steps = Steps(
        idle, np.array(offsets, np.int32), sources, targets, labels, accepts.astype(np.bool_)
    )
    return order, steps


def new_nodes(size: int) -> Nodes:
    wide, narrow = (np.empty((3, size), kind) for kind in (np.int64, np.int32))
    return Nodes(wide[0], narrow[0], narrow[1], narrow[2], wide[1], wide[2])


class Listed(Protocol):
    @property
    def lengths(self) -> NDArray[np.int64]: ...


class Effort:
    """What following partial matches has cost; whoever pays may say when it is too much."""

    def __init__(self) -> None:
        self.visits = np.zeros(2, np.int64)  # classes asked about an event; where to pause
        self.visits[1] = np.iinfo(np.int64).max
        self.seconds = 0.0

    def spent(self, seconds: float, row: int) -> None:
        """So much CPU time more; `row` of the batch was reached."""
        self.seconds += seconds

    def follow(self, graph: Graph, batch: EventBatch) -> None:
        """The graph of a batch, before its first row."""

    def matched(self, lengths: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Matches of so many events each, which are these rows."""


L = TypeVar("L", bound=Listed)
Lister = Callable[[Nodes, NDArray[np.int64], int, int], Iterator[L]]


class Graph(ABC):
    """The nodes of a batch, partition after partition, and roots that wait to be listed."""

    def __init__(self, batch: EventBatch, live: NDArray[np.int64], nodes: int) -> None:
        reach = batch.reach
        lows = batch.low if batch.low is not None else np.empty(0, np.int64)
        place = np.array([0, *reach.begins[:1]], np.int64)
        self.walk = Walk(place, reach.begins, reach.stops, reach.fresh, batch.edges, lows, live)
        self.nodes = new_nodes(nodes)
        self.used = 0
        self.roots = np.empty((ROOTS, 3), np.int64)
        self.before_compacting: Callable[[Nodes, NDArray[np.int32]], None] | None = None
        self.effort = Effort()

    @abstractmethod
    def advance(self) -> int:
        """Rows until an array is full; how many roots were found."""

    @abstractmethod
    def make_room(self) -> None:
        """What one more row may need; raises what made `advance` stop for good."""

    def starts(self) -> NDArray[np.int64] | None:
        """Rows at which a match may begin; None where these events can be other ones, too."""
        return None

    def leave_out(self, rows: NDArray[np.int64], begin: int) -> None:
        """From a row on no match begins at these rows, and at all others as before."""
        raise NotImplementedError

    def stretches(self, most: int, lister: Lister[L]) -> Iterator[L]:
        """What `lister` makes of the matches of all partitions, in order of their ends.

        `live` receives, per partition, the first row that partial matches still hold at its end.
        """
        while self.walk.place[0] < len(self.walk.begins):
            began = thread_time()
            found = self.advance()
            self.effort.spent(thread_time() - began, self._reached)
            look()
            for stretch in self._timed(lister(self.nodes, self.roots, found, most)):
                most -= len(stretch.lengths)
                yield stretch
            if most <= 0:
                return
            if self.walk.place[0] < len(self.walk.begins):
                self.make_room()

    def _timed(self, parts: Iterator[L]) -> Iterator[L]:
        while True:
            began = thread_time()
            part = next(parts, None)
            self.effort.spent(thread_time() - began, self._reached)
            if part is None:
                return
            yield part

    def compact(self, current: NDArray[np.int32], arcs: int) -> None:
        """Forgets what the window has left, and makes room for so many arcs of the next row."""
        if self.before_compacting is not None:
            self.before_compacting(self.nodes, current)
        self.used = kernels.compact(self.nodes, current, self.used, self.low)
        if 2 * (self.used + 2 * arcs) > len(self.nodes.rows):
            larger = new_nodes(4 * (self.used + 2 * arcs))
            for name in Nodes._fields:
                getattr(larger, name)[: self.used] = getattr(self.nodes, name)[: self.used]
            self.nodes = larger
        if arcs > len(self.roots) // 2:
            self.roots = np.empty((4 * arcs, 3), np.int64)

    @property
    def _reached(self) -> int:
        """The row that comes next."""
        partition, row = self.walk.place.tolist()
        return int(row) if partition < len(self.walk.begins) else int(self.walk.stops[-1])

    @property
    def low(self) -> int:
        """The earliest start that the next row's window has."""
        walk = self.walk
        return int(walk.lows[walk.place[1]]) if len(walk.lows) else 0


class RowLocalGraph(Graph):
    """Of a pattern whose conditions look at single rows."""

    def __init__(
        self,
        batch: EventBatch,
        live: NDArray[np.int64],
        classes: NDArray[np.int32],
        states: int,
        steps: Steps,
    ) -> None:
        super().__init__(batch, live, min(NODES, 64 + 16 * len(classes) * max(1, states)))
        self._steps, self._classes = steps, classes
        self._current = np.full(states, kernels.NOTHING, np.int32)
        self._widest = int(np.diff(steps.offsets).max(initial=0))

    def advance(self) -> int:
        before = int(self.walk.place[1])
        self.used, found = kernels.advance(
            self._steps,
            self._classes,
            self.walk,
            self._current,
            self.nodes,
            self.used,
            self.roots,
        )
        rows = self._classes[before : int(self.walk.place[1])]
        self.effort.visits[0] += int(np.diff(self._steps.offsets)[rows].sum())
        return int(found)

    def make_room(self) -> None:
        self.compact(self._current, self._widest)


def row_local_graph(
    batch: EventBatch, subsets: Subsets, live: NDArray[np.int64]
) -> RowLocalGraph | None:
    """The graph of a batch; None: too many states, or an absence ends the matches."""
    if subsets.automaton.absences:
        return None
    classes, bits = batch.classes
    built = build_steps(subsets, bits)
    return None if built is None else RowLocalGraph(batch, live, classes, len(built[0]), built[1])


def list_within(nodes: Nodes, roots: NDArray[np.int64], found: int, most: int) -> Iterator[Stretch]:
    """As `list_roots`; where there are `most`, their number alone: none of them is kept."""
    if found:
        counts = np.empty(int(roots[:found, 1].max()) + 1, np.float64)
        if kernels.most_matches(nodes, roots, found, counts) >= most:
            told = sum(len(part.lengths) for part in list_roots(nodes, roots, found, most))
            if told >= most:
                nothing = np.empty(0, np.int64)
                yield Stretch(np.broadcast_to(np.int64(0), most), nothing.astype(np.int32), nothing)
                return
    yield from list_roots(nodes, roots, found, most)


def list_with_timeouts(
    nodes: Nodes, roots: NDArray[np.int64], found: int, most: int
) -> Iterator[Stretch]:
    """As `list_roots`; partial matches that ran out of time too, each with its root."""
    place = np.zeros(2, np.int64)
    stack = np.empty(1024, np.int64)
    while place[0] < found and most > 0:
        look()
        ends = np.empty((ROOTS, 3), np.int64)
        count = timeouts.leaves(nodes, roots, found, place, stack, ends)
        if count < 0:
            stack = np.concatenate((stack, np.empty_like(stack)))
            continue
        for part in list_roots(nodes, ends, count, most, rooted=True):
            yield replace(part, labels=part.labels & (timeouts.COMPLETE - 1))
            most -= len(part.lengths)


def list_roots(
    nodes: Nodes, roots: NDArray[np.int64], found: int, most: int, rooted: bool = False
) -> Iterator[Stretch]:
    """The matches of the first `found` roots, at most `most`; `rooted`: each with its root."""
    place = np.zeros(2, np.int64)
    stack = np.empty((1024, 2), np.int64)
    path_rows, path_labels = np.empty(1024, np.int64), np.empty(1024, np.int32)
    room = 1 << 16
    while most > 0:
        look()
        out_rows, out_labels = np.empty(room, np.int64), np.empty(room, np.int32)
        lengths, owners = np.empty(MATCHES, np.int64), np.empty(MATCHES, np.int64)
        matches, events, done = kernels.list_matches(
            roots,
            found,
            place,
            stack,
            path_rows,
            path_labels,
            nodes,
            out_rows,
            out_labels,
            lengths,
            owners,
            most,
        )
        most -= matches
        if matches:
            of = roots[owners[:matches]] if rooted else None
            yield Stretch(lengths[:matches], out_labels[:events], out_rows[:events], of)
        elif not done:
            stack = np.concatenate((stack, np.empty_like(stack)))
            path_rows = np.concatenate((path_rows, np.empty_like(path_rows)))
            path_labels = np.concatenate((path_labels, np.empty_like(path_labels)))
            room *= 2
        if done:
            return
