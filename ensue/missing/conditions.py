"""Conditions that read other events, where some of these may be missing.

A condition is asked on the *serialisation* so far: events, and the letters skipped between them, in
order. Each part of it (it is cut at its ANDs) that reads a missing event holds; `LAST(B.x, 1)`
reads the last B but one, missing ones counted; an aggregate reads every event of its variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from ensue.automaton.plan import Plan
from ensue.guards.reader import Lists, Match, navigated
from ensue.query import condition as c
from ensue.sequences.guards import event_reader

MISSING = -1  # in place of a row
Entry = tuple[int, int]  # label, and row or MISSING


class Conditions:
    """The correlated parts of all definitions, over the rows of one batch."""

    def __init__(self, plan: Plan, columns: Mapping[str, pa.Array]) -> None:
        self.reader = event_reader(plan, columns)
        self.lists = Lists(columns)
        self.labels = plan.marks.labels
        self._members = {
            variable: frozenset(self.labels.index(name) for name in plan.query.members(variable))
            for variable in (None, *plan.query.variables)
        }
        self._inside = (0, 0)

    def open_partition(self, begin: int, end: int) -> None:
        """The rows that PREV and NEXT may read."""
        self._inside = (begin, end)

    def hold(self, entries: Sequence[Entry]) -> bool:
        """Whether the last entry, an event, meets its label's conditions."""
        label, row = entries[-1]
        tests = self.reader.tests[label]
        asked = tuple(test for test in tests if not self._reads_missing(test[0], entries))
        return _Serialisation(self, entries).holds(asked, row)

    def _reads_missing(self, part: c.Condition, entries: Sequence[Entry]) -> bool:
        for node in c.walk(part):
            if isinstance(node, c.Navigate):
                if navigated(node, self.of(node.variable, entries)) == MISSING:
                    return True
            elif isinstance(node, c.Aggregate) and MISSING in self.of(node.variable, entries):
                return True
        return False

    def of(self, variable: str | None, entries: Sequence[Entry]) -> list[int]:
        members = self._members[variable]
        return [row for label, row in entries if label in members]

    def inside(self, row: int) -> bool:
        return self._inside[0] <= row < self._inside[1]


class _Serialisation(Match):
    """What a condition reads that reads no missing event."""

    def __init__(self, conditions: Conditions, entries: Sequence[Entry]) -> None:
        super().__init__(conditions.reader, conditions.lists)
        self._conditions, self._entries = conditions, entries

    def rows_read(self, node: c.Navigate | c.Aggregate) -> list[int]:
        return self._conditions.of(node.variable, self._entries)

    def inside(self, row: int) -> bool:
        return self._conditions.inside(row)

    def label_at(self, row: int) -> str | None:
        labels = self._conditions.labels
        return next((labels[label] for label, taken in self._entries if taken == row), None)
