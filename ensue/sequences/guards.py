"""Correlated conditions of event patterns, asked for a class of partial matches at once.

Partial matches that agree on everything the conditions ahead can read behave alike, so they are
followed as one *class*. What a class knows is its *memory*: for each thing that some condition
reads (the last row of A, the first two rows of B, all rows of C), those rows. `b.x > a.x` keeps one
class per A; a condition between neighbours of a loop keeps one per last event; an aggregate keeps
all rows of its variable, and then a class is a single run.

A condition is typed once and turned into closures (`scalar/values.py`). Equality and order
comparisons of the event with a remembered row need only that row: they are answered once per
distinct row and event, however many classes ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import aggregate, errors
from ensue.automaton.plan import Plan
from ensue.automaton.subsets import Subsets
from ensue.query import condition as c
from ensue.scalar import kinds as k
from ensue.scalar.arrow_kinds import from_arrow
from ensue.scalar.columns.rows import session_zone
from ensue.scalar.infer import infer
from ensue.scalar.values import Compiled, compile_value

_SMALL = ("count", "sum", "avg", "min", "max")
Rows = tuple[Any, ...]
Memory = tuple[Rows, ...]


@dataclass(frozen=True)
class Read:
    """What a condition reads of the match: `count` first or last rows, or all, of a variable.

    Of an aggregate, only its state so far is kept (`fold`), so that runs of equal state are one.
    """

    kind: str  # first, last, all, fold, labels
    variable: str | None
    count: int
    folded: c.Aggregate | None = None


class Guards:
    """The conditions that depend on the match so far, over the rows of one batch."""

    def __init__(self, plan: Plan, subsets: Subsets, columns: Mapping[str, pa.Array]) -> None:
        self._plan = plan
        self._subsets = subsets
        self._columns = columns
        self._lists: dict[str, list[Any]] = {}
        self.labels = plan.marks.labels
        self._bounds = [bound.within for bound in subsets.automaton.bounds]
        self._reads_of: dict[int, frozenset[Read]] = {}
        self._tests: dict[int, list[tuple[c.Condition, Compiled]]] = {}
        zone = session_zone(columns)
        for index, test in enumerate(plan.tests):
            if test.correlated:
                self._tests[index] = [
                    (part, compile_value(part, self._kind, zone)) for part in test.correlated
                ]
                self._reads_of[index] = frozenset(
                    read for part in test.correlated for read in _reads(part)
                )
        for offset in range(len(self._bounds)):
            self._reads_of[len(self.labels) + offset] = frozenset((Read("last", None, 1),))
        self.reads: tuple[Read, ...] = tuple(
            sorted(set().union(*self._reads_of.values()) if self._reads_of else (), key=str)
        )
        self._members = {
            read: frozenset(
                i
                for i, label in enumerate(self.labels)
                if read.variable is None or label in plan.query.members(read.variable)
            )
            for read in self.reads
        }
        self._kept = {read: self._depth(read) for read in self.reads}
        self.empty: Memory = ((),) * len(self.reads)
        self.correlated = sum(1 << index for index in self._tests)
        self._live: dict[int, tuple[bool, ...]] = {}
        self._answers: dict[tuple[int, int, Memory], bool] = {}
        self._needs = {
            index: tuple(self.reads.index(read) for read in sorted(reads, key=str))
            for index, reads in self._reads_of.items()
        }
        self._order: Sequence[float] | None = None
        self._begin, self._end = 0, 0

    @property
    def needed(self) -> bool:
        return bool(self.reads) or bool(self._tests)

    def open_partition(self, begin: int, end: int, order: Sequence[float] | None) -> None:
        self._begin, self._end, self._order = begin, end, order
        self._answers.clear()

    # -- what an event is to a class -------------------------------------------------------------

    def bits(self, row: int, plain: int, state: int, memory: Memory) -> int:
        """The atoms of the event for a class: `plain` holds those of the row itself."""
        mask = self._subsets.masks[state]
        hard = plain & self.correlated
        bits = plain & ~self.correlated
        if hard & mask:
            for index in self._tests:
                if (hard & mask) >> index & 1:
                    bits |= self._holds(index, row, memory) << index
        for offset in range(len(self._bounds)):
            atom = len(self.labels) + offset
            if mask >> atom & 1:
                bits |= self._in_time(offset, row, memory) << atom
        return bits

    def bounded(self, state: int) -> bool:
        """Whether a partial match at this state waits under a joint's bound."""
        return bool(self._subsets.bounds[state])

    def late(self, row: int, state: int, memory: Memory) -> bool:
        """Whether a joint's bound has been exceeded for the class."""
        bounds = self._subsets.bounds[state]
        return any(
            bounds >> offset & 1 and not self._in_time(offset, row, memory)
            for offset in range(len(self._bounds))
        )

    def _in_time(self, offset: int, row: int, memory: Memory) -> bool:
        last = memory[self.reads.index(Read("last", None, 1))]
        if not last:
            return True
        assert self._order is not None
        return self._order[row] - self._order[last[-1]] <= self._bounds[offset]

    def _holds(self, index: int, row: int, memory: Memory) -> bool:
        seen = tuple(memory[i] for i in self._needs[index])
        key = (index, row, seen)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) > 1 << 18:
                self._answers.clear()
            leaf = _Leaf(self, index, row, memory)
            answer = all(test(leaf) is True for _, test in self._tests[index])
            self._answers[key] = answer
        return answer

    def take(self, memory: Memory, label: int, row: int, target: int) -> Memory:
        """The memory after the event joined; what nothing ahead reads is forgotten."""
        if not memory:
            return memory
        live = self._live_at(target)
        after = []
        for position, read in enumerate(self.reads):
            rows = memory[position]
            if not live[position]:
                rows = ()
            elif read.kind == "labels":
                rows = (*rows, (label, row))
            elif label in self._members[read]:
                if read.folded is not None:
                    rows = (self.fold(read.folded, rows, label, row),)
                elif read.kind == "first":
                    rows = rows if len(rows) >= read.count else (*rows, row)
                else:
                    rows = (*rows, row)
                    if read.kind == "last":
                        rows = rows[-self._kept[read] :] if self._kept[read] else ()
            after.append(rows)
        return tuple(after)

    def _depth(self, read: Read) -> int:
        """How many of the last rows must be kept: to a label's own test, the last one is its row.

        So a condition between neighbours of a loop has one class per last event, not per two.
        """
        owners = (index for index, reads in self._reads_of.items() if read in reads)
        return read.count - all(index in self._members[read] for index in owners)

    def _live_at(self, state: int) -> tuple[bool, ...]:
        if state not in self._live:
            ahead: set[Read] = set()
            if state >= 0:
                for atom in self._subsets.labels_ahead(state):
                    ahead |= self._reads_of.get(atom, frozenset())
            self._live[state] = tuple(read in ahead for read in self.reads)
        return self._live[state]

    # -- values ----------------------------------------------------------------------------------

    def fold(self, node: c.Aggregate, rows: Rows, label: int, row: int) -> Any:
        """The aggregate's state (in `rows`, if any) with one more event."""
        function = aggregate.get(node.function, node.distinct)
        state = rows[0] if rows else function.identity()
        leaf = _Leaf(self, label, row, self.empty)
        values = [leaf(argument) for argument in node.arguments]
        return function.combine(state, function.lift(*values))

    def column(self, name: str) -> list[Any]:
        if name not in self._lists:
            self._lists[name] = self._columns[name].to_pylist()
        return self._lists[name]

    def rows_of(self, read: Read, index: int, row: int, memory: Memory) -> Rows:
        rows = memory[self.reads.index(read)]
        if read.kind == "labels":
            return (*rows, (index, row))
        if read.folded is not None:
            if index in self._members[read]:
                return (self.fold(read.folded, rows, index, row),)
            return rows
        return (*rows, row) if index in self._members[read] else rows

    def inside(self, row: int) -> bool:
        return self._begin <= row < self._end

    def _kind(self, node: c.Condition) -> k.Kind:
        return leaf_kind(self._columns, node)


def leaf_kind(columns: Mapping[str, pa.Array], node: c.Condition) -> k.Kind:
    """The kind of a leaf of a condition over the match."""
    match node:
        case c.Column(name=name):
            return from_arrow(columns[name].type)
        case c.Navigate(argument=argument):
            return infer(argument, lambda inner: leaf_kind(columns, inner))
        case c.MatchNumber():
            return k.BIGINT
        case c.Classifier():
            return k.STRING
        case c.Aggregate(arguments=arguments):
            arrays = []
            for argument in arguments:
                if not isinstance(argument, c.Column):
                    raise errors.UnsupportedError(
                        "an aggregate in a condition of an event pattern takes a column or an "
                        "expression of one row without CLASSIFIER()",
                        remedy="compute the expression into a column first",
                    )
                arrays.append(pa.array([], columns[argument.name].type))
            function = aggregate.get(node.function, node.distinct)
            return from_arrow(function.reduce(arrays, np.zeros(2, np.int64)).type)
    raise AssertionError(node)


class _Leaf:
    """Answers for the leaves of a condition: the event under test, and rows taken before it."""

    def __init__(self, guards: Guards, index: int, row: int, memory: Memory) -> None:
        self._guards, self._index, self._row, self._memory = guards, index, row, memory

    def __call__(self, node: c.Condition) -> Any:
        match node:
            case c.Column(name=name):
                return self._guards.column(name)[self._row]
            case c.Classifier():
                return self._guards.labels[self._index]
            case c.Navigate():
                return self._navigate(node)
            case c.Aggregate():
                return self._aggregate(node)
            case _:
                return None

    def _rows(self, kind: str, variable: str | None, count: int) -> Rows:
        read = Read(kind, variable, count)
        return self._guards.rows_of(read, self._index, self._row, self._memory)

    def _navigate(self, node: c.Navigate) -> Any:
        count = node.offset + 1
        if node.anchor is c.Anchor.FIRST:
            rows = self._rows("first", node.variable, count)
            if len(rows) < count:
                return None
            target = rows[node.offset]
        else:
            rows = self._rows("last", node.variable, count)
            if len(rows) < count:
                return None
            target = rows[-count]
        target += node.shift
        if not self._guards.inside(target):
            return None
        if isinstance(node.argument, c.Column):
            return self._guards.column(node.argument.name)[target]
        label = self._index
        if target != self._row:
            taken = {row: label for label, row in self._rows("labels", None, 0)}
            found = taken.get(target)
            if found is None:
                return None
            label = found
        return compile_value(node.argument, self._guards._kind)(
            _Leaf(self._guards, label, target, self._memory)
        )

    def _aggregate(self, node: c.Aggregate) -> Any:
        function = aggregate.get(node.function, node.distinct)
        if _folds(node):
            read = Read("fold", node.variable, 0, node)
            rows = self._guards.rows_of(read, self._index, self._row, self._memory)
            return function.finish(rows[0] if rows else function.identity())
        state = function.identity()
        for row in self._rows("all", node.variable, 0):
            leaf = _Leaf(self._guards, self._index, row, self._memory)
            if node.where is not None and leaf(node.where) is not True:
                continue
            values = [leaf(argument) for argument in node.arguments]
            state = function.combine(state, function.lift(*values))
        return function.finish(state)


def _folds(node: c.Aggregate) -> bool:
    """Whether the aggregate's state is small and can be compared."""
    if node.distinct or node.where is not None or node.function not in _SMALL:
        return False
    return all(isinstance(argument, c.Column) for argument in node.arguments)


def _reads(part: c.Condition) -> set[Read]:
    found: set[Read] = set()
    for node in c.walk(part):
        if isinstance(node, c.Aggregate) and _folds(node):
            found.add(Read("fold", node.variable, 0, node))
        elif isinstance(node, c.Aggregate):
            found.add(Read("all", node.variable, 0))
        elif isinstance(node, c.Navigate):
            kind = "first" if node.anchor is c.Anchor.FIRST else "last"
            found.add(Read(kind, node.variable, node.offset + 1))
            if any(isinstance(n, c.Classifier) for n in c.walk(node.argument)):
                found.add(Read("labels", None, 0))
    return found
