"""Matches of a workload as tables: chains of events by pattern, with the columns of its own plan.

The kernels tell a chain of events once, with all patterns that it is a match of. Here chains are
sorted by pattern; those of a pattern with an after-match strategy wait until no earlier start is
open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import PREFIX, Plan
from ensue.automaton.share import Union
from ensue.operator.hold import Carried, Reach
from ensue.operator.status import MATCHED
from ensue.query.query import SkipMode
from ensue.sequences.batch import EventBatch
from ensue.sequences.listing import Collector, Settled, listed
from ensue.sequences.output import Found, Output
from ensue.sequences.runs import Node
from ensue.shared.engine import Chains
from ensue.shared.own import own_table

PATTERN = "pattern"
Waiting = tuple[int, int, int, Node]  # pattern, first row, row that settled it, last event


class PatternTables:
    """The output of each pattern; `count` receives how many matches of which pattern were found."""

    def __init__(self, union: Union, plan: Plan, count: Callable[[int, int], None]) -> None:
        self.union, self.plan, self.count = union, plan, count
        self.columns = [Output(member.plan, False) for member in union.members]

    def schemas(self, schema: pa.Schema) -> list[pa.Schema]:
        """Per pattern the columns that its plan puts out."""
        nothing = BatchTables(self, schema.empty_table(), np.zeros(1, np.int64))
        return [nothing.table(index, Found()).schema for index in range(len(self.columns))]

    def empty(self, schema: pa.Schema) -> pa.Table:
        """No matches of all patterns in one table."""
        fields = {PATTERN: pa.string()}
        for index, own in enumerate(self.schemas(schema)):
            for column in own:
                fields.setdefault(combined_name(index, column.name), column.type)
        return pa.table({n: pa.array([], kind) for n, kind in fields.items()})

    def combined(
        self, found: Iterable[tuple[int, pa.Table]], schema: pa.Schema
    ) -> Iterator[pa.Table]:
        """Tables of single patterns with the columns of all."""
        shape = self.empty(schema).schema
        for index, table in found:
            renamed = {combined_name(index, n): table.column(n) for n in table.column_names}
            columns: list[Any] = []
            for column in shape:
                if column.name == PATTERN:
                    name = self.union.members[index].name
                    columns.append(pa.array([name] * table.num_rows, pa.string()))
                elif column.name in renamed:
                    columns.append(renamed[column.name])
                else:
                    columns.append(pa.nulls(table.num_rows, column.type))
            yield pa.table(columns, schema=shape)


class BatchTables:
    """Matches over one batch of rows; `base` is the number of its first row in its partition."""

    def __init__(
        self, tables: PatternTables, table: pa.Table, starts: NDArray[np.int64], base: int = 0
    ) -> None:
        self._tables, self._rows, self._starts, self._base = tables, table, starts, base
        self._batches: dict[int, EventBatch] = {}
        self.waiting: list[Waiting] = []

    def by_pattern(self, chains: Chains) -> Iterator[tuple[int, Found]]:
        """Matches of each pattern; those with an after-match strategy are put to the waiting."""
        members = self._tables.union.members
        lengths = np.diff(chains.offset)
        begins = chains.offset[:-1]
        small = chains.pattern.astype(np.uint16) if len(members) <= 1 << 16 else chains.pattern
        order = np.argsort(small, kind="stable")  # 16 bits are sorted by counting
        patterns, edges = np.unique(chains.pattern[order], return_index=True)
        for index, mine in zip(
            patterns.tolist(), np.split(chains.chain[order], edges[1:]), strict=True
        ):
            member = members[index]
            own = np.full(self._tables.union.labels, -1, np.int32)
            own[list(member.common)] = np.arange(len(member.common))
            if member.plan.query.skip.mode is not SkipMode.NONE:
                self.waiting.extend(_waiting(index, chain, chains, own) for chain in mine.tolist())
                continue
            self._tables.count(index, len(mine))
            places = _spans(begins[mine], lengths[mine])
            yield (
                index,
                Found(
                    np.searchsorted(self._starts, chains.rows[begins[mine]], side="right") - 1,
                    np.zeros(len(mine), np.int64),
                    None,
                    lengths[mine],
                    own[chains.labels[places]],
                    chains.rows[places],
                ),
            )

    def table(self, index: int, found: Found) -> pa.Table:
        """The matches of a pattern with the columns of its plan."""
        batch = self._batches.get(index)
        if batch is None:
            member = self._tables.union.members[index]
            own = own_table(self._tables.plan, member.plan, self._rows, flags=False)
            base = np.full(len(self._starts) - 1, self._base, np.int64)
            reach = replace(Reach.whole(self._starts), base=base)
            batch = EventBatch(member.plan, member.subsets, own, self._starts, reach)
            self._batches[index] = batch
        return self._tables.columns[index].table(batch, found)

    def strategies(
        self, floors: dict[int, int] | None = None, live: Mapping[int, set[int]] | None = None
    ) -> Iterator[tuple[int, Found]]:
        """Patterns with an after-match strategy: the matches of starts that are settled.

        `live` are, by pattern, the starts of open partial matches, and `floors` the first row at
        which a match may start: both of the one partition that is open.
        """
        floors, live = {} if floors is None else floors, live or {}
        undecided: list[Waiting] = []
        for index in sorted({index for index, *_ in self.waiting}):
            query = self._tables.union.members[index].plan.query
            found = Found()
            by_part: dict[int, Collector] = {}
            mine = [entry for entry in self.waiting if entry[0] == index]
            for _, first, settled, node in mine:
                partition = int(np.searchsorted(self._starts, first, side="right")) - 1
                by_part.setdefault(partition, Collector(query.skip)).settled.append(
                    Settled(first, settled, node, MATCHED)
                )
            for partition in sorted(by_part):
                collected = by_part[partition]
                collected.settled.sort(key=lambda item: item.row)
                collected.live = live.get(index, set())
                carried = Carried(floor=floors.get(index, -1))
                for number, (pairs, _) in enumerate(listed(query, collected, carried), 1):
                    found.add(partition, number, pairs)
                if live:
                    floors[index] = carried.floor
                if carried.head >= 0:
                    undecided += [entry for entry in mine if entry[1] > carried.head]
            if len(found):
                self._tables.count(index, len(found))
                yield index, found
        self.waiting = undecided


def combined_name(index: int, name: str) -> str:
    """Values of one pattern that its measures are computed from keep the pattern's number."""
    return name.replace(PREFIX, f"{PREFIX}p{index}_", 1) if name.startswith(PREFIX) else name


def numbered(partition: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers from 1 within each partition; `known` is how many it has, and is moved on."""
    order = np.argsort(partition, kind="stable")
    ordered = partition[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    inside = np.arange(len(ordered)) - np.repeat(begins, np.diff(np.r_[begins, len(ordered)]))
    numbers = np.empty(len(ordered), np.int64)
    numbers[order] = inside + 1 + known[ordered]
    known += np.bincount(partition, minlength=len(known))
    return numbers


def _spans(begin: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """All places of the spans, one span after the other."""
    shift = np.repeat(begin - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
    return np.arange(int(length.sum()), dtype=np.int64) + shift.astype(np.int64)


def _waiting(index: int, chain: int, chains: Chains, own: NDArray[np.int32]) -> Waiting:
    events = slice(int(chains.offset[chain]), int(chains.offset[chain + 1]))
    labels, rows = own[chains.labels[events]].tolist(), chains.rows[events].tolist()
    return index, rows[0], int(chains.settled[chain]), as_chain(zip(labels, rows, strict=True))


def as_pairs(node: Node) -> list[tuple[int, int]]:
    """Label and row of each event of a match, the first one first."""
    pairs = []
    at: Node | None = node
    while at is not None:
        pairs.append((at.label, at.row))
        at = at.before
    return pairs[::-1]


def as_chain(pairs: Iterable[Sequence[int]]) -> Node:
    """The last event of a match, linked to those before it."""
    node: Node | None = None
    for label, row in pairs:
        node = Node(label, row, node)
    assert node is not None
    return node


def earlier(node: Node, rows: int) -> Node:
    """A match whose rows are counted from a later first row."""
    return as_chain((label, row - rows) for label, row in as_pairs(node))
