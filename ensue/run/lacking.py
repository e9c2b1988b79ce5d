"""Attempts that lack events anywhere, through `allow_missing`: what `nearest` says of them.

Of every row at which no match begins: the set of events that lacks least and begins there, unless
a match contains it. More and more events may be missing until there are as many as asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan, plan
from ensue.operator.arrange import arrays_of
from ensue.operator.listing import Listing
from ensue.operator.prepare import finish
from ensue.operator.protocol import Events, key_at
from ensue.query import rules
from ensue.query.missing import Missing
from ensue.query.query import Query, Rows
from ensue.run import choose
from ensue.why import account as a
from ensue.why.account import Account, Attempt
from ensue.why.events import fewest

Pairs = tuple[tuple[int, str], ...]  # (row, label)


def ways(query: Query) -> list[Query]:
    """The bound query with more and more events missing; none where `allow_missing` refuses it."""
    asked = replace(query, measures=None, rows=Rows.ONE)
    if asked.missing is not None:
        return [rules.check(asked)]
    if asked.row_semantics:
        return []
    try:
        return [
            rules.check(replace(asked, missing=Missing(Fraction(most))))
            for most in range(1, max(2, fewest(asked)))
        ]
    except errors.EnsueError:
        return []


class Lacking:
    """Over whole partitions; all plans read the same of the rows."""

    def __init__(self, queries: list[Query], n: int) -> None:
        self._plans = [plan(query) for query in queries]
        self._n = n

    @property
    def plan(self) -> Plan:
        return self._plans[0]

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """The answer for no rows: its columns and types."""
        return Account(a.NEAREST).table(self.plan.query, arrays_of(schema.empty_table()))

    def tables(self, events: Events) -> Iterator[pa.Table]:
        """The attempts of these partitions, with no more missing than it takes to have n."""
        best: dict[tuple[int, int], tuple[Any, ...]] = {}
        for planned in self._plans:
            best = self._found(planned, events)
            if len(best) >= self._n:
                break
        account = Account(a.NEAREST)
        for (partition, first), (*_, pairs, missing, places) in best.items():
            begin = int(events.starts[partition])
            rows = [row for row, _ in pairs]
            stopped = rows[max(0, places[0] - 1)]
            told = "; ".join(
                _where(name, at, rows) for name, at in zip(missing, places, strict=True)
            )
            labels = tuple(label for _, label in pairs)
            attempt = Attempt(labels, begin + stopped, missing[0], a.MISSING, told, tuple(missing))
            account.add(attempt, begin + first, first, 0)
        yield account.table(self.plan.query, arrays_of(events.table))

    def _found(self, planned: Plan, events: Events) -> dict[tuple[int, int], tuple[Any, ...]]:
        """Per partition and first row: the attempt there, led by what ranks it."""
        evaluator = choose.for_matches(planned.query, Listing()).evaluator
        evaluator.open(planned, events.table.schema, None)
        keys = planned.query.partition_by
        numbers = {
            key_at(events.table, int(start), keys): index
            for index, start in enumerate(events.starts[:-1])
        }
        exact: dict[int, _Matches] = {}
        lacking: list[tuple[int, tuple[Any, ...]]] = []
        for table in evaluator.insert(events).tables():
            found = finish(planned, table)
            for row, match in enumerate(found.to_pylist()):
                partition = numbers[key_at(found, row, keys)]
                pairs = tuple((event["row"], event["label"]) for event in match["events"])
                if not match["missing"]:
                    exact.setdefault(partition, _Matches()).add(pairs)
                    continue
                rank = (match["errors"], len(match["missing"]), -len(pairs))
                told = (*rank, pairs, match["missing"], match["missing_at"])
                lacking.append((partition, told))
        best: dict[tuple[int, int], tuple[Any, ...]] = {}
        for partition, told in lacking:
            pairs = told[3]
            place = (partition, pairs[0][0])
            if (known := best.get(place)) is not None and known <= told:
                continue
            if partition not in exact or not exact[partition].cover(pairs):
                best[place] = told
        return best


class _Matches:
    """The matches of a partition that lack nothing."""

    def __init__(self) -> None:
        self._starts: set[int] = set()
        self._holding: dict[tuple[int, str], set[int]] = {}  # per event: the matches it is in
        self._count = 0

    def add(self, pairs: Pairs) -> None:
        self._starts.add(pairs[0][0])
        for pair in pairs:
            self._holding.setdefault(pair, set()).add(self._count)
        self._count += 1

    def cover(self, pairs: Pairs) -> bool:
        """Whether a match begins at the same row, or contains all the events."""
        if pairs[0][0] in self._starts:
            return True
        return bool(set.intersection(*(self._holding.get(pair, set()) for pair in pairs)))


def _where(name: str, at: int, rows: list[int]) -> str:
    """Where an event is missing, when so many come before it."""
    if not at:
        return f"{name} is missing before row {rows[0]}"
    if at == len(rows):
        return f"{name} is missing after row {rows[-1]}"
    return f"{name} is missing between rows {rows[at - 1]} and {rows[at]}"
