"""Conditions that read other events, where some of these may be missing.

A condition is asked on the *serialisation* so far: events, and the letters skipped between them, in
order. Each part of it (it is cut at its ANDs) that reads a missing event holds; `LAST(B.x, 1)`
reads the last B but one, missing ones counted; an aggregate reads every event of its variable. A
part is typed once and turned into closures (`scalar/values.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ensue import aggregate
from ensue.automaton.plan import Plan
from ensue.query import condition as c
from ensue.scalar import kinds as k
from ensue.scalar.columns.rows import session_zone
from ensue.scalar.values import Compiled, compile_value
from ensue.sequences.guards import leaf_kind

MISSING = -1  # in place of a row
Entry = tuple[int, int]  # label, and row or MISSING


class Conditions:
    """The correlated parts of all definitions, over the rows of one batch."""

    def __init__(self, plan: Plan, columns: Mapping[str, pa.Array]) -> None:
        self._plan = plan
        self._columns = columns
        self._lists: dict[str, list[Any]] = {}
        self.labels = plan.marks.labels
        zone = session_zone(columns)
        self._parts: list[list[tuple[c.Condition, Compiled]]] = [
            [(part, compile_value(part, self._kind, zone)) for part in test.correlated]
            for test in plan.tests
        ]
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
        for part, compiled in self._parts[label]:
            if self.reads_missing(part, entries):
                continue
            if compiled(_Leaf(self, entries, label, row)) is not True:
                return False
        return True

    def reads_missing(self, part: c.Condition, entries: Sequence[Entry]) -> bool:
        for node in c.walk(part):
            if isinstance(node, c.Navigate):
                if self.navigate(node, entries) == MISSING:
                    return True
            elif isinstance(node, c.Aggregate) and MISSING in self.of(node.variable, entries):
                return True
        return False

    def of(self, variable: str | None, entries: Sequence[Entry]) -> list[int]:
        members = self._members[variable]
        return [row for label, row in entries if label in members]

    def navigate(self, node: c.Navigate, entries: Sequence[Entry]) -> int | None:
        """The row found (before PREV and NEXT move on), MISSING, or None where there is none."""
        rows = self.of(node.variable, entries)
        if len(rows) <= node.offset:
            return None
        return rows[node.offset if node.anchor is c.Anchor.FIRST else -1 - node.offset]

    def column(self, name: str) -> list[Any]:
        if name not in self._lists:
            self._lists[name] = self._columns[name].to_pylist()
        return self._lists[name]

    def inside(self, row: int) -> bool:
        return self._inside[0] <= row < self._inside[1]

    def compiled(self, node: c.Condition) -> Compiled:
        return compile_value(node, self._kind)

    def _kind(self, node: c.Condition) -> k.Kind:
        return leaf_kind(self._columns, node)


class _Leaf:
    """Values of the leaves of a condition, none of which reads a missing event."""

    def __init__(
        self, conditions: Conditions, entries: Sequence[Entry], label: int, row: int
    ) -> None:
        self._conditions, self._entries = conditions, entries
        self._label, self._row = label, row

    def __call__(self, node: c.Condition) -> Any:
        known = self._conditions
        match node:
            case c.Column(name=name):
                return known.column(name)[self._row]
            case c.Classifier():
                return known.labels[self._label]
            case c.Navigate():
                return self._navigate(node)
            case c.Aggregate():
                return self._aggregate(node)
            case _:
                return None

    def _navigate(self, node: c.Navigate) -> Any:
        known = self._conditions
        row = known.navigate(node, self._entries)
        if row is None or not known.inside(row + node.shift):
            return None
        row += node.shift
        if isinstance(node.argument, c.Column):
            return known.column(node.argument.name)[row]
        label = next((label for label, taken in self._entries if taken == row), None)
        if label is None:
            return None
        return known.compiled(node.argument)(_Leaf(known, self._entries, label, row))

    def _aggregate(self, node: c.Aggregate) -> Any:
        known = self._conditions
        function = aggregate.get(node.function, node.distinct)
        state = function.identity()
        for row in known.of(node.variable, self._entries):
            leaf = _Leaf(known, self._entries, self._label, row)
            if node.where is not None and leaf(node.where) is not True:
                continue
            values = [leaf(argument) for argument in node.arguments]
            state = function.combine(state, function.lift(*values))
        return function.finish(state)
