"""From complete matches in the graph to a listing: after-match strategies, limits, samples.

Without a strategy every match is reported where it ends. A strategy works start by start, in order:
the matches of a start are reported as they complete (equal ends: earliest events first), and each
report rules out starts before the place to which it skips. A later start is therefore settled only
when all earlier ones are, exactly as FlinkCEP holds completed matches back; since a start that is
ruled out takes all its matches with it, deciding afterwards gives the same answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from ensue import errors
from ensue.operator.digits import told
from ensue.operator.hold import Carried
from ensue.operator.status import MATCHED, OPEN, TIMEOUT
from ensue.query.query import Query, Skip, SkipMode
from ensue.sequences.runs import Node, count_node, enumerate_node, nth_match

Pairs = list[tuple[int, int]]


@dataclass
class Settled:
    """Matches (or time-outs) of one start, settled at a row."""

    first: int
    row: int
    node: Node
    status: str

    @property
    def complete(self) -> bool:
        return self.status == MATCHED


@dataclass
class Collector:
    """The sink of one partition: matches and time-outs, in the order in which they are settled."""

    skip: Skip
    timeouts: bool = False
    fresh: int = 0  # settled before this row: reported by an earlier piece
    settled: list[Settled] = field(default_factory=list)
    live: set[int] = field(default_factory=set)  # starts with partial matches, after the rows
    oldest: int | None = None  # the earliest row of a partial match that is left
    done: dict[int, Node] = field(default_factory=dict)  # nodes reported as matches, by identity

    def match(self, first: int, row: int, value: Node) -> bool:
        if row >= self.fresh or self.skip.mode is not SkipMode.NONE:
            self.settled.append(Settled(first, row, value, MATCHED))
        if self.timeouts:
            stack = [value]
            while stack:
                node = stack.pop()
                self.done[id(node)] = node
                stack.extend(node.parts)
        # Past the last row and to the next row: one match settles its start.
        return self.skip.mode not in (SkipMode.PAST_LAST_ROW, SkipMode.TO_NEXT_ROW)

    def absent(self, first: int, row: int, value: Node) -> None:
        self.match(first, row, value)

    def timeout(self, first: int, row: int, value: Node, status: str = TIMEOUT) -> None:
        """Partial matches that are no match themselves: a match that might have grown is done."""
        if row < self.fresh and self.skip.mode is SkipMode.NONE:
            return
        stack = [value]
        while stack:
            node = stack.pop()
            if id(node) in self.done:
                continue
            if node.parts:
                stack.extend(reversed(node.parts))
            else:
                self.settled.append(Settled(first, row, node, status))

    def left(self, classes: Iterable[tuple[int, Node]], end: int | None = None) -> None:
        """Notes what partial matches, each with its start, remain after the rows.

        `end`: the partition is over, and they stay open.
        """
        if end is not None:
            if self.timeouts:
                for first, node in sorted(classes, key=lambda item: item[0]):
                    self.timeout(first, end, node, OPEN)
            return
        for first, node in classes:
            self.live.add(first)
            if self.oldest is None or node.oldest < self.oldest:
                self.oldest = node.oldest


def listed(
    query: Query, collected: Collector, carried: Carried | None = None
) -> Iterator[tuple[Pairs, str]]:
    """What a partition reports: (label, row) pairs in order of the events, and the status.

    Once exhausted, `carried` says where an after-match strategy stands.
    """
    if query.skip.mode is SkipMode.NONE:
        for item in collected.settled:
            for pairs in enumerate_node(item.node):
                yield pairs, item.status
        return
    carried = carried or Carried()
    by_start: dict[int, list[Settled]] = {}
    for item in collected.settled:
        by_start.setdefault(item.first, []).append(item)
    head, carried.head = carried.head, -1
    for start in sorted(by_start.keys() | collected.live):
        if start < carried.floor:
            continue
        for row, pairs, status in _completed(by_start.get(start, [])):
            if start == head and row < collected.fresh:
                continue
            yield pairs, status
            if status == MATCHED:
                carried.floor = max(carried.floor, resume(query, pairs))
                if start < carried.floor:
                    break
        if start >= carried.floor and start in collected.live:
            carried.head = start
            return


def _completed(items: list[Settled]) -> Iterator[tuple[int, Pairs, str]]:
    """Matches of one start as they complete; of equal ends, the one with the earliest events.

    Of the same events, the label that comes first in the pattern: names decide nothing.
    """
    for row, group in groupby(items, key=lambda item: item.row):
        here = [(pairs, item.status) for item in group for pairs in enumerate_node(item.node)]
        here.sort(key=lambda found: [(r, label) for label, r in found[0]])
        for pairs, status in here:
            yield row, pairs, status


def resume(query: Query, pairs: Pairs) -> int:
    """The first row at which a match may start after this one."""
    skip = query.skip
    if skip.mode is SkipMode.PAST_LAST_ROW:
        return pairs[-1][1] + 1
    if skip.mode is SkipMode.TO_NEXT_ROW:
        return pairs[0][1] + 1
    names = query.members(skip.variable)
    rows = [row for label, row in pairs if query.labels[label] in names]
    target = None
    if rows:
        target = rows[0] if skip.mode is SkipMode.TO_FIRST else rows[-1]
    if target is None or target == pairs[0][1]:
        if skip.required:
            what = "matched no event" if target is None else "is the first event of the match"
            raise errors.SkipTargetError(
                f"AFTER MATCH SKIP TO {skip.variable}: {skip.variable} {what}, in the match that "
                f"starts at row {pairs[0][1]} of the batch",
                remedy="skip to another variable or past the last row, or leave required out",
            )
        return -1
    return target


def total(query: Query, collected: Collector, complete: bool | None = True) -> int:
    """How many matches, time-outs or both would be listed; lists where a strategy applies only."""
    wanted = (True, False) if complete is None else (complete,)
    if query.skip.mode is SkipMode.NONE:
        return sum(count_node(item.node) for item in collected.settled if item.complete in wanted)
    return sum(1 for _, status in listed(query, collected) if (status == MATCHED) in wanted)


def drawn(
    query: Query, collected: list[Collector], size: int, seed: int | str
) -> tuple[list[tuple[int, Pairs]], int]:
    """`size` matches drawn uniformly at random, with their partition, and of how many."""
    chooser = random.Random(seed)
    if query.skip.mode is not SkipMode.NONE:
        every = [(i, pairs) for i, part in enumerate(collected) for pairs, _ in listed(query, part)]
        if not every:
            return [], 0
        return [every[chooser.randrange(len(every))] for _ in range(size)], len(every)
    ends = [(i, item.node) for i, part in enumerate(collected) for item in part.settled]
    counts = [count_node(node) for _, node in ends]
    everything = sum(counts)
    if not everything:
        return [], 0
    running, sums = 0, []
    for count in counts:
        running += count
        sums.append(running)
    picks = sorted(chooser.randrange(everything) for _ in range(size))
    found: list[tuple[int, Pairs]] = []
    position = 0
    for pick in picks:
        while sums[position] <= pick:
            position += 1
        before = sums[position] - counts[position]
        found.append((ends[position][0], nth_match(ends[position][1], pick - before)))
    chooser.shuffle(found)  # so that any first few of them are a sample too
    return found, everything


def too_many(count: int, limit: int, timed_out: int = 0) -> errors.LimitError:
    late = f" and {told(timed_out)} partial ones that ran out of time" if timed_out else ""
    return errors.LimitError(
        f"there are {told(count)} matches{late}; max_matches is {limit:,}",
        remedy="take some of them with limit=..., draw some with sample=..., or ask for an "
        "aggregate over all of them with q.aggregate(...); or raise max_matches"
        + (", or leave timeouts out" if timed_out else ""),
    )
