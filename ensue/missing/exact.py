"""ACEP without a budget: the shared match graph, or match nodes where conditions read other events.

Both keep, of a partition that comes in pieces, its rows since the first live start, as all event
sequences do; so tables, streams and corrections take them alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.letters import letter_states, missing_subsets
from ensue.automaton.plan import Plan
from ensue.automaton.subsets import Subsets
from ensue.missing.budget import BudgetEngine
from ensue.missing.columns import FoundMissing, MissingOutput
from ensue.missing.guarded import GuardedNodes, check_size
from ensue.missing.kernels import nodes as kernels
from ensue.missing.nodes import NodeStore, Rows, Track
from ensue.missing.words import Answer, Pairs, Words, extended, least
from ensue.operator.hold import Carried
from ensue.operator.listing import Listing
from ensue.operator.protocol import Snapshot
from ensue.sequences.batch import EventBatch
from ensue.sequences.evaluator import CHUNK, SequencesEvaluator
from ensue.sequences.limits import check_unbounded
from ensue.sequences.listing import too_many
from ensue.sequences.runs import Partition


class ExactMissing(SequencesEvaluator):
    """The event sequence evaluator over L-states and their least errors."""

    name = "the evaluator of patterns with events missing"

    def _begin(self, plan: Plan, schema: pa.Schema, state: Snapshot | None) -> None:
        super()._begin(plan, schema, state)
        self._subsets = missing_subsets(plan.query, plan.correlated)
        words = Words(letter_states(plan.query, every_way=False))
        self._columns = MissingOutput(plan, False, words=words)


class _GuardFailedError(Exception):
    """A condition is too hard, a number left 64 bits, or a divisor was zero, at a row."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


class EveryNode(BudgetEngine):
    """All match nodes of a partition: nothing is chosen, and nothing learnt."""

    by_history = False
    merges = True

    def partition(
        self, batch: EventBatch, part: Partition, most: int
    ) -> Iterator[tuple[int, Pairs, Answer]]:
        """(row, events, answer) of each match, by row; each set of events with its least error.

        No more than `most` of a row.
        """
        begin, end = part.inside
        self._plain = None
        self._track = Track(begin, kept=self._new_store())  # its rows are those of the batch
        self._answers: dict[bytes, Answer] = {}
        try:
            for store in self._advance(batch, begin, part.begin, part.end, end, self._track):
                yield from self._by_row(store, most)
        except _GuardFailedError as problem:
            assert self._track.kept is not None and self._aligned is not None
            yield from self._by_row(self._track.kept, most)
            self._plain = GuardedNodes(self._states, self._aligned.conditions)
            for row in range(part.begin, part.end):
                low = part.begin if part.low is None else part.low[row]
                for pairs, answer in self._plain.event(row, part.bits[row], low):
                    if row >= problem.row:
                        yield row, pairs, answer

    def _run_in_python(
        self, rows: Rows, place: NDArray[np.int64], stop: int, shift: int, store: NodeStore
    ) -> int:
        """Nodes that agree are one here, so that they are not distinguished: from the beginning."""
        raise _GuardFailedError(int(place[0]))

    def _by_row(self, store: NodeStore, most: int) -> Iterator[tuple[int, Pairs, Answer]]:
        current, found, size = -1, dict[bytes, tuple[Pairs, Answer]](), 0
        for row, labels, rows, links in store.listed(self._letters):
            if row != current:
                yield from _in_order(current, found)
                current, found, size = row, {}, 0
            key = labels.tobytes() + rows.tobytes()
            answer = self._answer(links)
            known = found.get(key)
            if known is None:
                pairs = list(zip(labels.tolist(), rows.tolist(), strict=True))
                found[key] = pairs, answer
                size += 300 + 130 * len(pairs)  # objects of Python
                check_size(size, len(found), row)
                if len(found) >= most:
                    assert self._aligned is not None
                    for pairs, _ in found.values():  # not all ways were seen
                        yield row, pairs, self._aligned.answer(pairs)
                    current, found, size = -1, {}, 0
            elif answer < known[1]:
                found[key] = known[0], answer
        yield from _in_order(current, found)

    def _answer(self, links: NDArray[np.int32]) -> Answer:
        """What a trajectory's links skip, and the cheapest way from its end."""
        key = links.tobytes()
        known = self._answers.get(key)
        if known is None:
            way = [self._links[number] for number in links.tolist()]
            answer: Answer = (0, 0, ())
            for index, link in enumerate(way):
                answer = extended(answer, link, index)
            known = least(self._states, [(way[-1].target, answer)], len(way))
            assert known is not None
            self._answers[key] = known
        return known

    def oldest(self, low: int) -> int | None:
        """The earliest start, from `low` on, of a node that may still match an event."""
        if self._plain is not None:
            return self._plain.oldest(low)
        store, bound = self._track.kept, self._states.bound
        assert store is not None
        costs = [min((link.cost for link in k), default=bound + 1) for k in self._states.links]
        used = int(store.nodes.registers[kernels.USED])
        first, state = store.nodes.first[:used], store.nodes.state[:used]
        open_ones = store.nodes.error[:used] + np.array(costs)[state] <= bound
        starts = first[(first >= low) & open_ones]
        return int(starts.min()) if len(starts) else None

    def _measure(self, store: NodeStore) -> None:
        """Nothing is shed."""


def _in_order(
    row: int, found: dict[bytes, tuple[Pairs, Answer]]
) -> Iterator[tuple[int, Pairs, Answer]]:
    told = sorted(found.values(), key=lambda match: [(place, label) for label, place in match[0]])
    for pairs, answer in told:
        yield row, pairs, answer


class GuardedMissing(SequencesEvaluator):
    """Match nodes with registers: which events are missing decides whether the others hold."""

    name = "the evaluator of patterns with events missing"

    def _begin(self, plan: Plan, schema: pa.Schema, state: Snapshot | None) -> None:
        if self._listing.sample is not None or self._listing.compact:
            raise errors.UnsupportedError(
                "sample= and compact= read the shared match graph, "
                "which is not built for conditions on other events",
                remedy="use limit=...",
            )
        self._open(plan, schema, state)
        self._states = letter_states(plan.query, every_way=True)
        self._nodes = EveryNode(plan, self._states, None, self.metrics)
        self._subsets = Subsets(self._states)
        self.engine = "match nodes"
        self._columns = MissingOutput(plan, False, words=Words(self._states))

    def _match(
        self,
        batch: EventBatch,
        live: NDArray[np.int64],
        matches: NDArray[np.int64],
        carried: list[Carried] | None,
    ) -> Iterator[pa.Table]:
        limit, most = self._listing.limit, self._listing.max_matches
        found = FoundMissing()
        for partition, part in enumerate(batch.partitions()):
            check_unbounded(self._plan, part.end - part.begin)
            for row, pairs, answer in self._nodes.partition(batch, part, limit or most + 1):
                if row < part.fresh:
                    continue
                if limit is not None and self._reported >= limit:
                    break
                if self._reported >= most:
                    raise too_many(self._reported + 1, most)
                self._reported += 1
                self.metrics.matches += 1
                matches[partition] += 1
                found.add_answer(partition, int(matches[partition]), pairs, answer)
                if len(found) >= CHUNK:
                    yield self._columns.table(batch, found)
                    found = FoundMissing()
            oldest = self._nodes.oldest(int(batch.edges[partition]))
            if oldest is not None:
                live[partition] = oldest
        if len(found):
            yield self._columns.table(batch, found)


def missing_evaluator(plan: Plan, listing: Listing | None = None) -> SequencesEvaluator:
    """The evaluator of a query with `missing` and no budget."""
    if listing is not None and listing.timeouts:
        raise errors.UnsupportedError(
            "timeouts=True does not go with allow_missing: every partial match that lacks few "
            "enough "
            "events is already a match",
            remedy="leave timeouts out",
        )
    return (GuardedMissing if plan.correlated else ExactMissing)(listing)
