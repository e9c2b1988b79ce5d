"""From complete matches in the graph to a listing: after-match strategies, limits, samples.

Without a strategy every match is reported where it ends. A strategy works start by start, in order:
the matches of a start are reported as they complete (equal ends: earliest events first), and each
report rules out starts before the place to which it skips. A later start is therefore settled only
when all earlier ones are, exactly as FlinkCEP holds completed matches back; since a start that is
ruled out takes all its matches with it, deciding afterwards gives the same answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from ensue import errors
from ensue.evaluate.sequence_runs import Node, count_node, enumerate_node, nth_match
from ensue.pattern.query import Query, Skip, SkipMode

MAX_MATCHES = 10_000_000
Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class Listing:
    """How much of the matches is wanted."""

    timeouts: bool = False
    limit: int | None = None  # at most so many, in order
    sample: int | None = None  # so many, each drawn uniformly at random (with replacement)
    seed: int = 0
    max_matches: int = MAX_MATCHES


@dataclass
class Collector:
    """The sink of one partition: complete matches in order of their end."""

    skip: Skip
    complete: list[tuple[int, int, Node]] = field(default_factory=list)  # (first, row, node)
    timed_out: list[Node] = field(default_factory=list)
    done: set[int] = field(default_factory=set)  # identities of nodes reported as matches

    def match(self, first: int, row: int, value: Node) -> bool:
        self.complete.append((first, row, value))
        stack = [value]
        while stack:
            node = stack.pop()
            self.done.add(id(node))
            stack.extend(node.parts)
        # Past the last row and to the next row: one match settles its start.
        return self.skip.mode not in (SkipMode.PAST_LAST_ROW, SkipMode.TO_NEXT_ROW)

    def timeout(self, first: int, row: int, value: Node) -> None:
        """Partial matches that are no match themselves: a match that might have grown is done."""
        stack = [value]
        while stack:
            node = stack.pop()
            if id(node) in self.done:
                continue
            if node.parts:
                stack.extend(reversed(node.parts))
            else:
                self.timed_out.append(node)


def listed(query: Query, collected: Collector) -> Iterator[Pairs]:
    """The matches of one partition, each as (label, row) pairs in order of the events."""
    if query.skip.mode is SkipMode.NONE:
        for _, _, node in collected.complete:
            yield from enumerate_node(node)
        return
    by_start: dict[int, list[tuple[int, Node]]] = {}
    for first, row, node in collected.complete:
        by_start.setdefault(first, []).append((row, node))
    floor = -1
    for start in sorted(by_start):
        if start < floor:
            continue
        for pairs in _completed(by_start[start]):
            yield pairs
            floor = max(floor, _resume(query, pairs))
            if start < floor:
                break


def _completed(nodes: list[tuple[int, Node]]) -> Iterator[Pairs]:
    """Matches of one start as they complete; of equal ends, the one with the earliest events."""
    position = 0
    while position < len(nodes):
        row = nodes[position][0]
        here: list[Pairs] = []
        while position < len(nodes) and nodes[position][0] == row:
            here.extend(enumerate_node(nodes[position][1]))
            position += 1
        yield from sorted(here, key=lambda pairs: [(r, label) for label, r in pairs])


def _resume(query: Query, pairs: Pairs) -> int:
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


def total(query: Query, collected: Collector) -> int:
    """How many matches the listing would have, without listing where no strategy applies."""
    if query.skip.mode is SkipMode.NONE:
        return sum(count_node(node) for _, _, node in collected.complete)
    return sum(1 for _ in listed(query, collected))


def drawn(
    query: Query, collected: list[Collector], size: int, seed: int
) -> list[tuple[int, Pairs]]:
    """`size` matches drawn uniformly at random, with their partition; none where there are none."""
    chooser = random.Random(seed)
    if query.skip.mode is not SkipMode.NONE:
        every = [(i, pairs) for i, part in enumerate(collected) for pairs in listed(query, part)]
        return [every[chooser.randrange(len(every))] for _ in range(size)] if every else []
    ends = [(i, node) for i, part in enumerate(collected) for _, _, node in part.complete]
    counts = [count_node(node) for _, node in ends]
    everything = sum(counts)
    if not everything:
        return []
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
    return found


def too_many(count: int, limit: int) -> errors.LimitError:
    return errors.LimitError(
        f"there are {count:,} matches; max_matches is {limit:,}",
        remedy="take some of them with limit=..., draw some with sample=..., or ask for an "
        "aggregate over all of them with q.aggregate(...); or raise max_matches",
    )
