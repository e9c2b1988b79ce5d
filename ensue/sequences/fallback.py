"""Counting by classes of partial matches, where the table of steps would be too large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ensue.automaton.subsets import Subsets
from ensue.sequences.batch import EventBatch
from ensue.sequences.evaluator import keeps_first
from ensue.sequences.guards import Guards
from ensue.sequences.runs import Runs


class CountAlgebra:
    """How many partial matches there are."""

    def begin(self, label: int, row: int) -> int:
        return 1

    def take(self, value: int, label: int, row: int) -> int:
        return value

    def join(self, left: int, right: int) -> int:
        return left + right


@dataclass
class CountSink:
    fresh: int
    total: int = 0

    def match(self, first: int, row: int, value: int) -> bool:
        if row >= self.fresh:
            self.total += value
        return True

    def absent(self, first: int, row: int, value: int) -> None:
        self.total += value

    def timeout(self, first: int, row: int, value: int) -> None:
        return


def count_by_classes(batch: EventBatch, subsets: Subsets) -> Iterator[int]:
    """The number of matches of each partition."""
    guards = Guards(batch.plan, subsets, batch.columns)
    for part in batch.partitions():
        sink = CountSink(part.fresh)
        runs: Runs[int] = Runs(subsets, guards, CountAlgebra(), sink, keeps_first(batch.plan.query))
        runs.run(part)
        yield sink.total
