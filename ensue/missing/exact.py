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
from ensue.missing.columns import FoundMissing, MissingOutput
from ensue.missing.compiled import CompiledNodes, Compiler, GuardFailedError
from ensue.missing.conditions import Conditions
from ensue.missing.guarded import Aligned, GuardedNodes
from ensue.missing.words import Answer, Pairs, Words
from ensue.operator.budget import Budget
from ensue.operator.hold import Carried, Tails
from ensue.operator.listing import Listing
from ensue.operator.protocol import Snapshot
from ensue.operator.window_clock import Clock
from ensue.sequences.batch import EventBatch
from ensue.sequences.evaluator import CHUNK, SequencesEvaluator
from ensue.sequences.limits import check_unbounded
from ensue.sequences.listing import too_many
from ensue.sequences.runs import Partition


class ExactMissing(SequencesEvaluator):
    """The event sequence evaluator over L-states and their least errors."""

    name = "the evaluator of patterns with events missing"

    def open(
        self,
        plan: Plan,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None:
        super().open(plan, schema, budget, state)
        self._subsets = missing_subsets(plan.query, plan.correlated)
        words = Words(letter_states(plan.query, every_way=False))
        self._columns = MissingOutput(plan, False, words=words)


class GuardedMissing(SequencesEvaluator):
    """Match nodes with registers: which events are missing decides whether the others hold."""

    name = "the evaluator of patterns with events missing"

    def open(
        self,
        plan: Plan,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None:
        if self._listing.sample is not None or self._listing.compact:
            raise errors.UnsupportedError(
                "sample= and compact= read the shared match graph, which conditions on other "
                "events do not build",
                remedy="use limit=...",
            )
        self._plan, self._schema = plan, schema
        self._states = letter_states(plan.query, every_way=True)
        self._compiler = Compiler(plan, self._states)
        self._subsets = Subsets(self._states)
        self._clock = Clock(plan.query)
        self.engine = "match nodes"
        self._columns = MissingOutput(plan, False, words=Words(self._states))
        self._tails = Tails(plan, schema, self._clock.numbers)
        if state is not None:
            self._tails.restore(state.keys)
            if state.shared:
                self._tails.restore_together(state.shared)

    def _match(
        self,
        batch: EventBatch,
        live: NDArray[np.int64],
        matches: NDArray[np.int64],
        carried: list[Carried] | None,
    ) -> Iterator[pa.Table]:
        guards = self._compiler.guards(batch)
        compiled = None
        if guards is not None:
            compiled = CompiledNodes(self._states, batch, guards)
        plain = Conditions(self._plan, batch.columns)
        limit, most = self._listing.limit, self._listing.max_matches
        found = FoundMissing()
        for partition, part in enumerate(batch.partitions()):
            check_unbounded(self._plan, part.end - part.begin)
            for pairs, answer in self._through(part, compiled, plain):
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

    def _through(
        self, part: Partition, compiled: CompiledNodes | None, plain: Conditions
    ) -> Iterator[tuple[Pairs, Answer]]:
        """The matches of one partition that no earlier piece has reported."""
        fresh = part.fresh
        if compiled is not None:
            self._nodes: CompiledNodes | GuardedNodes = compiled
            try:
                left = self._listing.limit or self._listing.max_matches + 1
                for row, pairs, answer in compiled.partition(
                    part.begin, part.end, part.inside, left
                ):
                    if row >= fresh:
                        yield pairs, answer or self._least(pairs, part, plain)
                return
            except GuardFailedError as problem:
                fresh = max(fresh, problem.row)
        plain.open_partition(*part.inside)
        self._nodes = nodes = GuardedNodes(self._states, plain)
        for row in range(part.begin, part.end):
            low = part.begin if part.low is None else part.low[row]
            for pairs, answer in nodes.event(row, part.bits[row], low):
                if row >= fresh:
                    yield pairs, answer

    def _least(self, pairs: Pairs, part: Partition, plain: Conditions) -> Answer:
        plain.open_partition(*part.inside)
        return Aligned(None, self._states, plain).answer(pairs)


def missing_evaluator(plan: Plan, listing: Listing | None = None) -> SequencesEvaluator:
    """The evaluator of a query with `missing` and no budget."""
    if listing is not None and listing.timeouts:
        raise errors.UnsupportedError(
            "timeouts=True does not go with allow_missing: every partial match that lacks few "
            "enough events is a match already",
            remedy="leave timeouts out",
        )
    return (GuardedMissing if plan.correlated else ExactMissing)(listing)
