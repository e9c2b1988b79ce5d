"""Matches drawn uniformly at random while the match graph of a batch is built.

Each place of the sample holds a match of the rows so far. A stretch of rows that completes w of the
W matches known then replaces it with chance w / W, by one of its own: a root in proportion to its
matches, then a walk down the graph that goes where more matches are. So every place is drawn on its
own, nothing is listed, and memory is that of the graph. Counts are doubles: exact up to 2^53,
beyond within a part in 10^15 or so per step, and past 10^308 there is no answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from ensue.operator.hold import Carried
from ensue.query.query import SkipMode
from ensue.sequences.batch import EventBatch
from ensue.sequences.kernels import samples as kernels
from ensue.sequences.kernels.graph_totals import UNKNOWN, Numbers, Weights, add_up
from ensue.sequences.kernels.match_graph import Nodes
from ensue.sequences.listing import Pairs
from ensue.sequences.machine import EventMachine, GuardOverflowError
from ensue.sequences.match_graph import Graph
from ensue.sequences.strategy import Chosen, all_matches
from ensue.stopping import look


@dataclass(frozen=True)
class _Step:
    """What the lister of a graph gives: nothing that counts as listed."""

    lengths: NDArray[np.int64]


_NONE = _Step(np.zeros(0, np.int64))


class _TooManyError(Exception):
    """More matches than doubles can count."""


Drawn = tuple[list[tuple[int, Pairs]], int]  # with their partition, and of how many


def draw(
    batch: EventBatch,
    graph_of: Callable[[EventBatch, NDArray[np.int64]], Graph | None],
    lister: EventMachine | None,
    size: int,
    seed: int | str,
) -> Drawn | None:
    """A sample off the compiled graph; None: plain Python draws."""
    query = batch.plan.query
    if query.skip.mode is not SkipMode.NONE:
        every = None if lister is None else all_matches(query, lister, batch)
        return None if every is None else _among(every, len(batch.reach.begins), size, seed)
    sample = _Sample(batch, size, seed)
    try:
        graph = graph_of(batch, batch.reach.stops.copy())
        return None if graph is None else (sample.drawn(graph), sample.everything)
    except (GuardOverflowError, _TooManyError):
        return None


def _among(every: Chosen, partitions: int, size: int, seed: int | str) -> Drawn:
    """Of the matches that an after-match strategy takes."""
    taken = [(part, match) for part in range(partitions) for match in every.of(part, Carried())]
    chooser = random.Random(seed)
    picks = [chooser.choice(taken) for _ in range(size)] if taken else []
    return [(part, every.pairs(match)) for part, match in picks], len(taken)


class _Sample:
    """`size` matches of a batch, each with its partition."""

    def __init__(self, batch: EventBatch, size: int, seed: int | str) -> None:
        self._starts = batch.starts
        self._chooser = random.Random(seed)
        self._chances = np.random.default_rng(self._chooser.getrandbits(64))
        self._room = 1 << 10
        self._weights = _no_weights(max(1, len(batch.plan.marks.labels)))
        self._drawn: list[tuple[int, Pairs]] = [(-1, [])] * size
        self.everything = 0

    def drawn(self, graph: Graph) -> list[tuple[int, Pairs]]:
        """The sample, in random order: any first few of them are one too."""
        for _ in graph.stretches(1, self._lister):
            pass
        return self._drawn if self.everything else []

    def _lister(
        self, nodes: Nodes, roots: NDArray[np.int64], found: int, most: int
    ) -> Iterator[_Step]:
        if found:
            self._take(nodes, roots[:found])
        yield _NONE

    def _take(self, nodes: Nodes, roots: NDArray[np.int64]) -> None:
        used = int(roots[:, 1].max()) + 1
        with np.errstate(over="ignore"):
            sums = np.cumsum(self._counted(nodes, used, roots, _unknown(used)))
        if not isfinite(sums[-1]):
            raise _TooManyError
        here = int(sums[-1])
        self.everything += here
        picks: dict[int, list[int]] = {}  # by root, places of the sample
        for place in range(len(self._drawn)):
            if self._chooser.randrange(self.everything) < here:
                at = np.searchsorted(sums, self._chooser.random() * sums[-1], "right")
                picks.setdefault(min(int(at), len(roots) - 1), []).append(place)
        numbers = _unknown(used)
        for root in sorted(picks):  # lows ascend, as they must for the numbers
            self._counted(nodes, used, roots[root : root + 1], numbers)
            row, node, low = roots[root].tolist()
            partition = int(np.searchsorted(self._starts, row, "right")) - 1
            for place in picks[root]:
                self._drawn[place] = partition, self._walk(nodes, numbers, node, low)

    def _counted(
        self, nodes: Nodes, used: int, roots: NDArray[np.int64], numbers: Numbers
    ) -> NDArray[np.float64]:
        out = _unknown(len(roots))
        add_up(nodes, used, roots, self._weights, numbers, _unknown(0), out)
        look()
        return out.sizes[:, 0]

    def _walk(self, nodes: Nodes, numbers: Numbers, root: int, low: int) -> Pairs:
        chances = self._chances.random(self._room)
        while True:
            rows, labels = np.empty(self._room, np.int64), np.empty(self._room, np.int32)
            length = kernels.walk(nodes, numbers.sizes, root, low, chances, rows, labels)
            if length >= 0:
                found = zip(labels[:length].tolist(), rows[:length].tolist(), strict=True)
                return list(found)[::-1]
            chances = np.concatenate((chances, self._chances.random(self._room)))
            self._room *= 2


def _unknown(amount: int) -> Numbers:
    return Numbers(
        np.full(amount, UNKNOWN, np.int64),
        np.empty((amount, 1, 0), np.int64),
        np.empty((amount, 1), np.float64),
        np.empty((amount, 0), np.uint8),
        np.empty((amount, 0), np.int64),
    )


def _no_weights(labels: int) -> Weights:
    """Nothing is added up: the number of matches alone."""
    return Weights(
        np.zeros(0, np.int64),
        np.zeros((0, labels), np.bool_),
        np.zeros(0, np.int64),
        np.zeros((0, 0, 0), np.int64),
        np.zeros((0, 0), np.float64),
        np.zeros((0, 0), np.uint8),
        np.zeros((0, labels), np.bool_),
        np.zeros((0, 0), np.int64),
        np.zeros((0, 0), np.bool_),
    )
