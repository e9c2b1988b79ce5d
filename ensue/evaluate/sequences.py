"""Event patterns behind the operator protocol: all matches under their selection policies.

The pattern is an automaton of waiting places (`automaton/sequence.py`) made deterministic over what
a match does with each event (`automaton/subsets.py`), so that every match is one path. Partial
matches that behave alike are followed as one class and share their events in a graph
(`sequence_runs.py`): the work per event does not depend on how many partial matches there are, and
memory is that of the events, not of the matches. Matches are read off the graph at the end, lazily:
each costs its own length.

Rows of a partition are held until it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.subsets import Subsets
from ensue.evaluate.base import (
    Budget,
    Capabilities,
    Events,
    Key,
    Metrics,
    Output,
    Refusing,
    Snapshot,
    Watermark,
    key_at,
)
from ensue.evaluate.match_graph import Steps, Stretch, prepared, stretches
from ensue.evaluate.sequence_batch import EventBatch
from ensue.evaluate.sequence_counts import count_partitions, countable
from ensue.evaluate.sequence_guards import Guards
from ensue.evaluate.sequence_limits import check_unbounded
from ensue.evaluate.sequence_listing import Collector, Listing, drawn, listed, too_many, total
from ensue.evaluate.sequence_output import Found
from ensue.evaluate.sequence_output import Output as Columns
from ensue.evaluate.sequence_runs import GraphAlgebra, Node, Runs, enumerate_node
from ensue.evaluate.state import from_bytes, to_bytes
from ensue.pattern.query import Query, SkipMode

CHUNK = 1 << 14  # matches per output table


def supports(query: Query) -> str | None:
    """Why this evaluator cannot run the query; None where it can."""
    if query.row_semantics:
        return "a pattern without arrows and select() has row semantics"
    if query.rows.all_rows:
        return "event patterns give one row per match: the events between two steps belong to none"
    return None


def keeps_first(query: Query) -> bool:
    """Whether classes are told apart by their first row."""
    return query.within is not None or query.skip.mode is not SkipMode.NONE


class SequencesEvaluator(Refusing):
    """See the module; one instance per task."""

    name = "the event sequence evaluator"
    capabilities = Capabilities(ordered_input=True)

    def __init__(self, listing: Listing | None = None) -> None:
        self.metrics = Metrics()
        self._listing = listing or Listing()
        self._held: dict[Key, list[pa.Table]] = {}
        self._reported = 0

    def open(
        self,
        plan: Plan,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None:
        reason = supports(plan.query)
        if reason:
            raise errors.UnsupportedError(reason, remedy="see q.explain()")
        if budget is not None:
            raise errors.UnsupportedError(
                "the event sequence evaluator is exact and takes no budget",
                remedy="leave the budget out; q.aggregate and q.count never list the matches",
            )
        if self._listing.timeouts and plan.query.within is None:
            raise errors.QueryError(
                "timeouts=True asks for partial matches that ran out of time, but there is no "
                "within(...)",
                remedy="add within('1 hour'), or leave timeouts out",
            )
        self._plan = plan
        self._subsets = Subsets(compile_sequence(plan.query))
        self._columns = Columns(plan, self._listing.timeouts)
        if state is not None:
            self._held = {
                key: [from_bytes("sequences", blob, plan.fingerprint)[0]]
                for key, blob in state.keys.items()
            }

    # -- protocol --------------------------------------------------------------------------------

    def insert(self, events: Events) -> Output:
        self.metrics.rows += events.table.num_rows
        return Output(self._insert(events))

    def advance(self, mark: Watermark) -> Output:
        return Output()

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        return Output(self._end(list(self._held if keys is None else keys)))

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        """The rows held of partitions that are not complete; nothing else outlives a call."""
        keys = self._held if touched is None else [k for k in touched if k in self._held]
        return Snapshot(
            {
                key: to_bytes(
                    "sequences", pa.concat_tables(self._held[key]), {}, self._plan.fingerprint
                )
                for key in keys
            }
        )

    def no_matches(self, schema: pa.Schema) -> pa.Table:
        """The output of no matches: its columns and types."""
        batch = EventBatch(self._plan, self._subsets, schema.empty_table(), np.zeros(1, np.int64))
        return self._columns.table(batch, Found())

    # -- work ------------------------------------------------------------------------------------

    def _insert(self, events: Events) -> Iterator[pa.Table]:
        if not self._held and events.complete.all():
            yield from self._match(EventBatch.of(self._plan, self._subsets, events))
            return
        for index in range(len(events.complete)):
            begin, end = int(events.starts[index]), int(events.starts[index + 1])
            rows = events.table.slice(begin, end - begin)
            key = key_at(rows, 0, self._plan.query.partition_by)
            self._held.setdefault(key, []).append(rows)
            if events.complete[index]:
                yield from self._end([key])

    def _end(self, keys: list[Key]) -> Iterator[pa.Table]:
        for key in keys:
            if key not in self._held:
                continue
            table = pa.concat_tables(self._held.pop(key)).combine_chunks()
            starts = np.array([0, table.num_rows], np.int64)
            yield from self._match(EventBatch(self._plan, self._subsets, table, starts))

    def _match(self, batch: EventBatch) -> Iterator[pa.Table]:
        if self._listing.sample is not None:
            yield from self._sampled(batch, self._listing.sample)
            return
        if not self._listing.timeouts and countable(self._plan, self._subsets):
            ready = prepared(batch, self._subsets)
            if ready is not None:
                yield from self._compact(batch, *ready)
                return
        found = Found()
        before = self._reported
        for partition, collected in enumerate(self.collect(batch)):
            number = 0
            for pairs in listed(self._plan.query, collected):
                if self._listing.limit is not None and self._reported >= self._listing.limit:
                    break
                if self._reported >= self._listing.max_matches:
                    raise too_many(before + self._exact(batch), self._listing.max_matches)
                number += 1
                self._reported += 1
                found.add(partition, number, pairs)
                if len(found) >= CHUNK:
                    yield self._columns.table(batch, found)
                    found = Found()
            for node in collected.timed_out:
                for pairs in enumerate_node(node):
                    number += 1
                    found.add(partition, number, pairs, complete=False)
            self.metrics.matches += number
        if len(found):
            yield self._columns.table(batch, found)

    def _compact(
        self, batch: EventBatch, steps: Steps, classes: NDArray[np.int32]
    ) -> Iterator[pa.Table]:
        """Conditions look at single rows: the graph is flat arrays."""
        most = self._listing.max_matches + 1 - self._reported
        if self._listing.limit is not None:
            most = min(most, self._listing.limit - self._reported)
        for begin, end in batch.spans():
            check_unbounded(self._plan, end - begin)
        before, number, last = self._reported, 0, -1
        held: list[tuple[int, int, Stretch]] = []
        waiting = 0
        for partition, stretch in stretches(batch, steps, classes, most):
            size = len(stretch.lengths)
            self._reported += size
            self.metrics.matches += size
            if self._reported > self._listing.max_matches:
                exact = sum(count_partitions(batch, self._subsets))
                raise too_many(before + exact, self._listing.max_matches)
            number = number if partition == last else 0
            held.append((partition, number, stretch))
            number, last, waiting = number + size, partition, waiting + size
            if waiting >= CHUNK:
                yield self._columns.table(batch, _joined(held))
                held, waiting = [], 0
        if held:
            yield self._columns.table(batch, _joined(held))

    def _sampled(self, batch: EventBatch, size: int) -> Iterator[pa.Table]:
        found = Found()
        parts = list(self.collect(batch))
        for number, (partition, pairs) in enumerate(
            drawn(self._plan.query, parts, size, self._listing.seed), 1
        ):
            found.add(partition, number, pairs)
        if len(found):
            yield self._columns.table(batch, found)

    def collect(self, batch: EventBatch) -> Iterator[Collector]:
        """The match graph of each partition."""
        guards = Guards(self._plan, self._subsets, batch.columns)
        query = self._plan.query
        for part in batch.partitions():
            check_unbounded(self._plan, part.end - part.begin)
            collector = Collector(query.skip)
            runs: Runs[Node] = Runs(
                self._subsets,
                guards,
                GraphAlgebra(),
                collector,
                keeps_first(query),
                self._listing.timeouts,
            )
            runs.run(part)
            yield collector

    def _exact(self, batch: EventBatch) -> int:
        """The number of matches in the whole batch, counted on the graph."""
        return sum(total(self._plan.query, collected) for collected in self.collect(batch))


def _joined(held: list[tuple[int, int, Stretch]]) -> Found:
    """Stretches of matches, each with its partition and the matches before it, as one."""
    sizes = [len(stretch.lengths) for _, _, stretch in held]
    return Found(
        np.repeat([partition for partition, _, _ in held], sizes),
        np.concatenate(
            [np.arange(n + 1, n + 1 + size) for (_, n, _), size in zip(held, sizes, strict=True)]
        ),
        np.ones(sum(sizes), np.bool_),
        np.concatenate([stretch.lengths for _, _, stretch in held]),
        np.concatenate([stretch.labels for _, _, stretch in held]),
        np.concatenate([stretch.rows for _, _, stretch in held]),
    )
