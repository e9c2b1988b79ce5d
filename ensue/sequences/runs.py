"""Classes of partial matches, event by event: the engine for conditions of any kind.

A class is (state, first row, memory): see `automaton/subsets.py` and `guards.py`. The first row is
part of it only where something depends on it (a window, an after-match strategy). What is known of
the matches of a class is a value of an *algebra*: a node of the match graph when matches are
listed, an exact count or aggregate when they are not. So listing, counting and aggregating are one
algorithm, and its cost is the number of classes, never the number of matches.

Cost per event: one dictionary step per class. With row-local conditions and no window there are at
most as many classes as states; a window multiplies by the starts in it
(`sequences/kernels/counts.py` avoids that), a remembered row by the rows in the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from ensue import errors
from ensue.automaton.subsets import DEAD, NOWHERE, START, Subsets
from ensue.sequences.guards import Guards, Memory
from ensue.stopping import look

V = TypeVar("V")
MAX_CLASSES = 2_000_000
ANYWHERE = -1  # first row where it does not matter
NEVER = -1  # as a floor: no start is below it
Key = tuple[int, int, Memory]


class Algebra(Protocol[V]):
    """What is kept of the matches of a class."""

    def begin(self, label: int, row: int) -> V:
        """One partial match with its first event."""
        ...

    def take(self, value: V, label: int, row: int) -> V:
        """All partial matches of `value`, each longer by an event."""
        ...

    def join(self, left: V, right: V) -> V:
        """Those of both, which are different partial matches."""
        ...


V_contra = TypeVar("V_contra", contravariant=True)


class Sink(Protocol[V_contra]):
    """Where complete (and timed-out) matches go; `row` is the event that settled them."""

    def match(self, first: int, row: int, value: V_contra) -> bool:
        """Whether partial matches with the same first row may go on."""
        ...

    def absent(self, first: int, row: int, value: V_contra) -> None:
        """Matches that the end of their window completes; `row` is the first one beyond it."""
        ...

    def timeout(self, first: int, row: int, value: V_contra) -> None: ...


@dataclass
class Partition:
    """The rows of one partition to be matched: what each is to each label, and the windows."""

    begin: int  # first row at which a match may begin
    end: int
    bits: Sequence[int]  # per row of the batch; correlated labels: the row part only
    low: Sequence[int] | None  # per row: the earliest first row of a match that may hold it
    order: Sequence[float] | None
    inside: tuple[int, int]  # all rows held of the partition: PREV and NEXT may read them
    fresh: int  # first row of which no earlier piece has reported the matches
    floor: int  # starts below are out of time once the rows are through
    is_open: bool = False  # more rows may come
    now: int | float | None = None  # the time then, for the bounds of joints


@dataclass
class Runs(Generic[V]):
    """The engine; one per partition. After `run`, `classes` are the partial matches left."""

    subsets: Subsets
    guards: Guards
    algebra: Algebra[V]
    sink: Sink[V]
    keep_first: bool
    timeouts: bool = False
    classes: dict[Key, V] = field(default_factory=dict)

    def run(self, part: Partition) -> None:
        classes = self.classes
        oldest = part.begin
        timed = part.low is not None
        self.guards.open_partition(*part.inside, part.order)
        for row in range(part.begin, part.end):
            if part.low is not None and part.low[row] > oldest:
                oldest = part.low[row]
                classes = self._expire(classes, oldest, row, timed)
            look()
            classes = self._step(classes, row, part.bits[row])
        classes = self._expire(classes, part.floor, part.end, timed)
        self.classes = self._overdue(classes, part)

    def _overdue(self, classes: dict[Key, V], part: Partition) -> dict[Key, V]:
        """Without the classes whose joints have all waited too long when the rows are through."""
        if part.now is None:
            return classes
        kept: dict[Key, V] = {}
        for (state, first, memory), value in classes.items():
            step = None
            if self.guards.bounded(state):
                step = self.subsets.step(state, self.guards.bits_at(part.now, state, memory))
            if step is not None and step.skip_accept:
                self.sink.absent(first, part.end, value)
            elif step == DEAD and self.timeouts:
                self.sink.timeout(first, part.end, value)
            elif step != DEAD:
                kept[state, first, memory] = value
        return kept

    def _expire(self, classes: dict[Key, V], oldest: int, row: int, timed: bool) -> dict[Key, V]:
        """Classes whose first row has left the window: matches, time-outs, or nothing."""
        kept: dict[Key, V] = {}
        gone: list[tuple[Key, V]] = []
        for key, value in classes.items():
            if key[1] >= oldest:
                kept[key] = value
            elif self.subsets.pending[key[0]] or (
                self.timeouts and (timed or self.guards.bounded(key[0]))
            ):
                gone.append((key, value))
        # By start, so that the order is the same however time moves on: row by row or at once.
        for key, value in sorted(gone, key=lambda item: item[0][1]):
            if self.subsets.pending[key[0]]:
                self.sink.absent(key[1], row, value)
            else:
                self.sink.timeout(key[1], row, value)
        return kept

    def _step(self, classes: dict[Key, V], row: int, plain: int) -> dict[Key, V]:
        subsets, guards, algebra = self.subsets, self.guards, self.algebra
        after: dict[Key, V] = {}
        ended: set[int] = set()
        needed = guards.needed

        def add(key: Key, value: V) -> None:
            known = after.get(key)
            after[key] = value if known is None else algebra.join(known, value)

        for (state, first, memory), value in classes.items():
            bits = guards.bits(row, plain, state, memory) if needed else plain
            step = subsets.step(state, bits)
            if self.timeouts and step == DEAD and guards.late(row, state, memory):
                self.sink.timeout(first, row, value)
            if step.skip_accept and not self.sink.match(first, row, value):
                ended.add(first)
            if step.skip != NOWHERE:
                add((step.skip, first, memory), value)
            for take in step.takes:
                longer = algebra.take(value, take.label, row)
                if take.accept and not self.sink.match(first, row, longer):
                    ended.add(first)
                if take.target != NOWHERE:
                    known = guards.take(memory, take.label, row, take.target)
                    add((take.target, first, known), longer)
        bits = guards.bits(row, plain, START, guards.empty) if needed else plain
        for take in subsets.step(START, bits).takes:
            value = algebra.begin(take.label, row)
            first = row if self.keep_first else ANYWHERE
            if take.accept and not self.sink.match(first, row, value):
                ended.add(first)
            if take.target != NOWHERE:
                known = guards.take(guards.empty, take.label, row, take.target)
                add((take.target, first, known), value)
        if ended:
            after = {key: value for key, value in after.items() if key[1] not in ended}
        if len(after) > MAX_CLASSES:
            raise errors.LimitError(
                f"{len(after):,} different partial matches are open at one row; the limit is "
                f"{MAX_CLASSES:,}",
                remedy="bound the pattern with within(...), partition it, or raise "
                "ensue.sequences.runs.MAX_CLASSES",
            )
        return after


# -- the match graph ------------------------------------------------------------------------------


class Node:
    """Partial matches: one event after those of `before` (None: the first event), or a union."""

    __slots__ = ("before", "label", "oldest", "parts", "row", "total")

    def __init__(
        self,
        label: int,
        row: int,
        before: Node | None,
        parts: tuple[Node, ...] = (),
    ) -> None:
        self.label = label
        self.row = row
        self.before = before
        self.parts = parts
        # The earliest first row of its partial matches.
        if parts:
            self.oldest: int = min(parts[0].oldest, parts[1].oldest)
        else:
            self.oldest = row if before is None else before.oldest
        self.total = -1  # number of partial matches, once asked


class GraphAlgebra:
    """Nodes of the match graph; shared, so that memory is that of the events."""

    def begin(self, label: int, row: int) -> Node:
        return Node(label, row, None)

    def take(self, value: Node, label: int, row: int) -> Node:
        return Node(label, row, value)

    def join(self, left: Node, right: Node) -> Node:
        return Node(-1, -1, None, (left, right))


Pairs = list[tuple[int, int]]  # (label, row) of a match, last event first


def enumerate_node(node: Node) -> Iterator[Pairs]:
    """Every (label, row) list of a node, first event first; the delay is the size of the match.

    A union's sides are taken in turn with a stack of places still to be tried, so that nothing is
    revisited: every node that is entered leads to a match.
    """
    path: Pairs = []
    stack: list[tuple[Node, int]] = [(node, 0)]
    while stack:
        current, depth = stack.pop()
        del path[depth:]
        while current.parts:
            stack.append((current.parts[1], depth))
            current = current.parts[0]
        path.append((current.label, current.row))
        if current.before is None:
            yield path[::-1]
        else:
            stack.append((current.before, len(path)))


def count_node(node: Node) -> int:
    """The number of matches of a node; each node of the graph is counted once."""
    stack = [node]
    while stack:
        current = stack[-1]
        if current.total >= 0:
            stack.pop()
            continue
        below = current.parts or (() if current.before is None else (current.before,))
        open_ones = [part for part in below if part.total < 0]
        if open_ones:
            stack.extend(open_ones)
            continue
        current.total = sum(part.total for part in below) if below else 1
        stack.pop()
    return node.total


def nth_match(node: Node, index: int) -> list[tuple[int, int]]:
    """The match of that number, in the order of `enumerate_node`, without listing the others."""
    count_node(node)
    path: Pairs = []
    current: Node | None = node
    while current is not None:
        while current.parts:
            first, second = current.parts
            if index < first.total:
                current = first
            else:
                index -= first.total
                current = second
        path.append((current.label, current.row))
        current = current.before
    return path[::-1]
