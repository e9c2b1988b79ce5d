"""From queries and starts to what the path kernels read.

A `Request` says which queries are asked from which nodes; a `PathPlan` is the automaton of its
queries on one graph, in the kernels' layout. Plans are kept per graph, since a conversation asks
the same kinds of path again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.paths import DEAD, PathAutomaton, PathPrograms, determine
from ensue.operator.turns import Turns
from ensue.paths.graph_store import GraphStore
from ensue.paths.kernels.graph import Adjacency, Moves
from ensue.paths.kernels.shortest import Backwards
from ensue.paths.tests import EdgeClasses, check_labels, classify
from ensue.query.paths import PathQuery

UNBOUNDED = 2**31 - 2
_KEPT = 64
_MASK_BITS = 62


@dataclass(frozen=True, eq=False)
class Origins:
    """Distinct start nodes, and for each the set of queries asked there (an index of `sets`)."""

    node: NDArray[np.int32]
    asked: NDArray[np.int32]
    sets: tuple[frozenset[int], ...]

    def __len__(self) -> int:
        return len(self.node)

    @staticmethod
    def everywhere(nodes: NDArray[Any], queries: int) -> Origins:
        """All queries from each of the nodes, repeats dropped, in order of appearance."""
        first = np.sort(np.unique(nodes, return_index=True)[1])
        kept = np.ascontiguousarray(nodes[first], np.int32)
        return Origins(kept, np.zeros(len(kept), np.int32), (frozenset(range(queries)),))

    @staticmethod
    def of_pairs(nodes: NDArray[Any], queries: NDArray[Any], count: int) -> Origins:
        """Query `queries[i]` from node `nodes[i]`; queries at one node share their beginnings."""
        if not len(nodes):
            return Origins(np.zeros(0, np.int32), np.zeros(0, np.int32), (frozenset(),))
        # Sorting is some ten times faster here than np.unique, which hashes.
        pairs = np.sort(nodes.astype(np.int64) * count + queries)
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
        ordered = pairs // count
        which = pairs - ordered * count
        # By number, not by appearance: neighbouring searches then touch neighbouring memory.
        begin = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        distinct = ordered[begin].astype(np.int32)
        if count <= _MASK_BITS:
            bits = np.int64(1) << which
            masks, inverse = np.unique(np.bitwise_or.reduceat(bits, begin), return_inverse=True)
            sets = tuple(frozenset(q for q in range(count) if int(m) >> q & 1) for m in masks)
            return Origins(distinct, inverse.astype(np.int32), sets)
        ends = np.append(begin[1:], len(ordered))
        numbers: dict[frozenset[int], int] = {}
        asked = np.empty(len(begin), np.int32)
        for index, (low, high) in enumerate(zip(begin, ends, strict=True)):
            found = frozenset(int(q) for q in which[low:high])
            asked[index] = numbers.setdefault(found, len(numbers))
        return Origins(distinct, asked, tuple(numbers))

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The node and the query of everything that is asked."""
        each = [np.array(sorted(asked), np.int32) for asked in self.sets]
        sizes = np.array([len(queries) for queries in each])
        nodes = np.repeat(self.node.astype(np.int64), sizes[self.asked])
        if len(each) == 1:
            return nodes, np.tile(each[0], len(self.node))
        return nodes, np.concatenate([each[asked] for asked in self.asked])

    def slice(self, begin: int, end: int) -> Origins:
        return Origins(self.node[begin:end], self.asked[begin:end], self.sets)


@dataclass(frozen=True, eq=False)
class PathPlan:
    """One automaton on one graph."""

    store: GraphStore
    programs: PathPrograms
    classes: EdgeClasses
    automaton: PathAutomaton

    @cached_property
    def graph(self) -> Adjacency:
        s = self.store
        return Adjacency(s.offset, s.neighbour, s.edge, s.entry_symbol, s.symbols)

    @cached_property
    def moves(self) -> Moves:
        """What kernels call `automaton`."""
        symbols: list[int] = []
        offset = [0]
        for row in self.automaton.table:
            for symbol in range(self.store.symbols):
                if any(row[kind] != DEAD for kind in self.classes.under_symbol[symbol]):
                    symbols.append(symbol)
            offset.append(len(symbols))
        return Moves(
            self.automaton.table,
            np.array(offset, np.int32),
            np.array(symbols, np.int32),
            self.classes.of_symbol,
            self.classes.of_entry,
            self.automaton.accept_offset,
            self.automaton.accept_query,
        )

    @cached_property
    def backwards(self) -> Backwards:
        """The automaton read against its arcs."""
        table, classes = self.automaton.table, self.classes
        sources: list[list[int]] = [[] for _ in range(table.size)]
        for source, row in enumerate(table):
            for kind in np.flatnonzero(row != DEAD):
                sources[row[kind] * table.shape[1] + kind].append(source)
        into = np.array([len(some) > 0 for some in sources], np.bool_).reshape(table.shape)
        symbols: list[int] = []
        offset = [0]
        for row in into:
            for symbol in range(self.store.symbols):
                if any(row[kind] for kind in classes.under_symbol[symbol]):
                    symbols.append(symbol)
            offset.append(len(symbols))
        return Backwards(
            np.array(offset, np.int32),
            np.array(symbols, np.int32),
            np.cumsum([0, *map(len, sources)]).astype(np.int32),
            np.array([source for some in sources for source in some], np.int32),
            max(1, *map(len, sources)) if sources else 1,
            self.store.twins if len(classes.of_entry) else np.zeros(0, np.int32),
        )

    @cached_property
    def several_accepts(self) -> bool:
        """Whether two states accept the same query."""
        return len(np.unique(self.automaton.accept_query)) < len(self.automaton.accept_query)

    @cached_property
    def longest(self) -> int | None:
        return self.automaton.longest

    def first_states(self, origins: Origins) -> NDArray[np.int32]:
        entries = [self.automaton.entries[asked] for asked in origins.sets]
        return np.array(entries, np.int32)[origins.asked]

    def asks(self, origins: Origins) -> NDArray[np.int32]:
        """Per origin: how many of its queries can be answered at all."""
        entries = [self.automaton.entries[asked] for asked in origins.sets]
        counts = [0 if e == DEAD else len(self.automaton.queries_of[e]) for e in entries]
        return np.array(counts, np.int32)[origins.asked]


class Planner(Turns):
    """Plans of one graph; the last ones are kept."""

    def __init__(self, store: GraphStore) -> None:
        self.store = store
        self._plans: dict[object, PathPlan] = {}

    def plan(self, queries: Sequence[PathQuery], sets: Sequence[frozenset[int]]) -> PathPlan:
        key = (tuple(queries), frozenset(sets))
        known = self._plans.get(key)
        if known is not None:
            return known
        check_labels(queries, self.store.labels)
        programs = PathPrograms.compile(queries)
        classes = classify(programs.tests, self.store)
        plan = PathPlan(self.store, programs, classes, determine(programs, classes.tests, sets))
        if len(self._plans) >= _KEPT:
            self._plans.pop(next(iter(self._plans)))
        self._plans[key] = plan
        return plan
