"""Conditions over the match so far, on plain Python values: what their leaves mean, once.

The compiled machine (`guards/machine.py`) holds most conditions; the others are typed once, turned
into closures (`scalar/values.py`) and asked one match at a time. A room says only which rows its
match has: those of a variable, the label of a row, and the rows that PREV and NEXT may reach.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ensue import aggregate
from ensue.automaton.plan import Plan
from ensue.query import condition as c
from ensue.scalar import kinds as k
from ensue.scalar.arrow_kinds import from_arrow, to_arrow
from ensue.scalar.infer import infer
from ensue.scalar.values import Compiled, Leaf, compile_value

Tests = tuple[tuple[c.Condition, Compiled], ...]


class Reader:
    """The correlated conditions of a plan, typed and compiled once."""

    def __init__(
        self, plan: Plan, column_type: Callable[[str], pa.DataType], zone: str = k.DEFAULT_ZONE
    ) -> None:
        self._column_type = column_type
        self.zone = zone
        self._compiled: dict[c.Condition, Compiled] = {}
        self.tests: list[Tests] = [
            tuple((part, self.compiled(part)) for part in test.correlated) for test in plan.tests
        ]

    def compiled(self, condition: c.Condition) -> Compiled:
        known = self._compiled.get(condition)
        if known is None:
            known = compile_value(condition, self.kind, self.zone)
            self._compiled[condition] = known
        return known

    def kind(self, leaf: c.Condition) -> k.Kind:
        return leaf_kind(leaf, lambda name: from_arrow(self._column_type(name)), self.zone)


def leaf_kind(leaf: c.Condition, column_kind: Callable[[str], k.Kind], zone: str) -> k.Kind:
    """The kind of a leaf of a condition over the match."""

    def kind_of(part: c.Condition) -> k.Kind:
        return infer(part, lambda inner: leaf_kind(inner, column_kind, zone), zone)

    match leaf:
        case c.Column(name=name):
            return column_kind(name)
        case c.Navigate(argument=argument):
            return kind_of(argument)
        case c.Aggregate(arguments=arguments):
            function = aggregate.get(leaf.function, leaf.distinct)
            return from_arrow(function.result_type([to_arrow(kind_of(a)) for a in arguments]))
        case c.MatchNumber():
            return k.BIGINT
        case _:
            return k.STRING


class Lists(dict[str, list[Any]]):
    """Columns as plain values, each converted when it is first read."""

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        super().__init__()
        self._columns = columns

    def __missing__(self, name: str) -> list[Any]:
        self[name] = values = self._columns[name].to_pylist()
        return values


class Match(ABC):
    """A match so far, with the row under test as its last one."""

    number: int | None = None  # of the match in its partition

    def __init__(self, reader: Reader, lists: Lists) -> None:
        self._reader, self._lists = reader, lists

    @abstractmethod
    def rows_read(self, node: c.Navigate | c.Aggregate) -> Sequence[int]:
        """Rows of the node's variable in order: all, or as many as the node looks for."""

    @abstractmethod
    def label_at(self, row: int) -> str | None:
        """The label of a row; None where it is not in the match."""

    @abstractmethod
    def inside(self, row: int) -> bool:
        """Whether the partition has the row."""

    def holds(self, tests: Tests, row: int) -> bool:
        leaf = self.leaf(row)
        return all(test(leaf) is True for _, test in tests)

    def leaf(self, row: int) -> Leaf:
        """The values of a condition's leaves at a row."""

        def read(node: c.Condition) -> Any:
            match node:
                case c.Column(name=name):
                    return self._lists[name][row]
                case c.Navigate():
                    return self._navigate(node)
                case c.Aggregate():
                    return self.aggregate(node)
                case c.MatchNumber():
                    return self.number
                case c.Classifier():
                    return self.label_at(row)
            raise AssertionError(node)

        return read

    def value(self, condition: c.Condition, row: int) -> Any:
        """What is navigated to or aggregated, at its row."""
        if isinstance(condition, c.Column):
            return self._lists[condition.name][row]
        return self._reader.compiled(condition)(self.leaf(row))

    def _navigate(self, node: c.Navigate) -> Any:
        row = navigated(node, self.rows_read(node))
        if row is None or not self.inside(row + node.shift):
            return None
        return self.value(node.argument, row + node.shift)

    def aggregate(self, node: c.Aggregate) -> Any:
        function = aggregate.get(node.function, node.distinct)
        state = function.identity()
        for row in self.rows_read(node):
            if node.where is None or self.value(node.where, row) is True:
                state = function.absorb(state, *(self.value(a, row) for a in node.arguments))
        return function.finish(state)


def navigated(node: c.Navigate, rows: Sequence[int]) -> int | None:
    """The row that FIRST or LAST names, before PREV and NEXT move on."""
    if len(rows) <= node.offset:
        return None
    return rows[node.offset if node.anchor is c.Anchor.FIRST else -1 - node.offset]
