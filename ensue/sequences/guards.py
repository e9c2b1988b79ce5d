"""Correlated conditions of event patterns, asked for a class of partial matches at once.

Partial matches that agree on everything the conditions ahead can read behave alike, so they are
followed as one *class*. What a class knows is its *memory*: for each thing that some condition
reads (the last row of A, the first two rows of B, all rows of C), those rows. `b.x > a.x` keeps one
class per A; a condition between neighbours of a loop keeps one per last event; an aggregate keeps
all rows of its variable, and then a class is a single run.

A condition is read on plain values (`guards/reader.py`). Equality and order comparisons of the
event with a remembered row need only that row: they are answered once per distinct row and event,
however many classes ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ensue import aggregate, errors
from ensue.automaton.plan import Plan
from ensue.automaton.subsets import Subsets
from ensue.guards.reader import Lists, Match, Reader
from ensue.query import condition as c
from ensue.scalar.columns.rows import session_zone

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
        self.reader = event_reader(plan, columns)
        self.lists = Lists(columns)
        self.labels = plan.marks.labels
        self._bounds = [bound.within for bound in subsets.automaton.bounds]
        self._reads_of: dict[int, frozenset[Read]] = {}
        for index, test in enumerate(plan.tests):
            if test.correlated:
                self._reads_of[index] = frozenset(
                    read for part in test.correlated for read in _reads(part)
                )
        self._tested = tuple(self._reads_of)
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
        self.correlated = sum(1 << index for index in self._tested)
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
        return bool(self.reads) or bool(self._tested)

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
            for index in self._tested:
                if (hard & mask) >> index & 1:
                    bits |= self._holds(index, row, memory) << index
        for offset in range(len(self._bounds)):
            atom = len(self.labels) + offset
            if mask >> atom & 1:
                bits |= self._in_time(offset, row, memory) << atom
        return bits

    def bits_at(self, now: float, state: int, memory: Memory) -> int:
        """The atoms of an event at that time that fits no label."""
        bits = 0
        for offset in range(len(self._bounds)):
            atom = len(self.labels) + offset
            if self._subsets.masks[state] >> atom & 1:
                bits |= self._until(offset, now, memory) << atom
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
        assert self._order is not None
        return self._until(offset, self._order[row], memory)

    def _until(self, offset: int, now: float, memory: Memory) -> bool:
        last = memory[self.reads.index(Read("last", None, 1))]
        if not last:
            return True
        assert self._order is not None
        return self._order[last[-1]] + self._bounds[offset] >= now

    def _holds(self, index: int, row: int, memory: Memory) -> bool:
        seen = tuple(memory[i] for i in self._needs[index])
        key = (index, row, seen)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) > 1 << 18:
                self._answers.clear()
            answer = _Class(self, index, row, memory).holds(self.reader.tests[index], row)
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
        match = _Class(self, label, row, self.empty)
        values = [match.value(argument, row) for argument in node.arguments]
        return function.absorb(state, *values)

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


def event_reader(plan: Plan, columns: Mapping[str, pa.Array]) -> Reader:
    """The conditions of an event pattern, whose aggregates take columns."""
    for test in plan.tests:
        for node in (node for part in test.correlated for node in c.walk(part)):
            if isinstance(node, c.Aggregate) and not _takes_columns(node):
                raise errors.UnsupportedError(
                    "an aggregate in a condition of an event pattern takes a column or an "
                    "expression of one row without CLASSIFIER()",
                    remedy="compute the expression into a column first",
                )
    return Reader(plan, lambda name: columns[name].type, session_zone(columns))


class _Class(Match):
    """The event under test, and rows that the class took before it."""

    def __init__(self, guards: Guards, index: int, row: int, memory: Memory) -> None:
        super().__init__(guards.reader, guards.lists)
        self._guards, self._index, self._row, self._memory = guards, index, row, memory

    def rows_read(self, node: c.Navigate | c.Aggregate) -> Rows:
        if isinstance(node, c.Aggregate):
            return self._rows(Read("all", node.variable, 0))
        kind = "first" if node.anchor is c.Anchor.FIRST else "last"
        return self._rows(Read(kind, node.variable, node.offset + 1))

    def label_at(self, row: int) -> str | None:
        if row == self._row:
            return self._guards.labels[self._index]
        taken = self._rows(Read("labels", None, 0))
        return next((self._guards.labels[label] for label, r in taken if r == row), None)

    def inside(self, row: int) -> bool:
        return self._guards.inside(row)

    def aggregate(self, node: c.Aggregate) -> Any:
        if not _folds(node):
            return super().aggregate(node)
        function = aggregate.get(node.function, node.distinct)
        rows = self._rows(Read("fold", node.variable, 0, node))
        return function.finish(rows[0] if rows else function.identity())

    def _rows(self, read: Read) -> Rows:
        return self._guards.rows_of(read, self._index, self._row, self._memory)


def _takes_columns(node: c.Aggregate) -> bool:
    given = (*node.arguments, *(() if node.where is None else (node.where,)))
    return all(isinstance(part, c.Column) for part in given)


def _folds(node: c.Aggregate) -> bool:
    """Whether the aggregate's state is small and can be compared."""
    if node.distinct or node.where is not None or node.function not in _SMALL:
        return False
    return _takes_columns(node)


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
