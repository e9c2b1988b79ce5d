"""Aggregates over all matches in a matcher: changes of the totals, a row per group.

Groups share no state that could be put back key by key, so events before the watermark run again
where one of them is corrected (`operator/rerun.py`).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import plan
from ensue.operator.identity import row_hashes
from ensue.operator.prepare import finish_totals
from ensue.operator.protocol import Events, Snapshot
from ensue.operator.rerun import Ahead, Rerun
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.run import choose
from ensue.run.branch import NEW, Branch, Options, Seeds, prepared, with_hidden
from ensue.sequences.totals import Grouping
from ensue.sequences.totals_evaluator import TotalsEvaluator


class TotalsBranch(Branch):
    """See the module; the query's measures are the aggregates."""

    stage: Rerun

    def __init__(
        self, name: str, query: Query, grouping: Grouping, schema: pa.Schema, options: Options
    ) -> None:
        super().__init__({name: query})
        if options.budget is not None or options.settle is not None:
            given = "budget" if options.budget is not None else "settle"
            raise errors.UnsupportedError(
                f"a matcher of aggregates takes no {given}: totals are exact, and answer for all "
                "that was let through",
                remedy=f"leave {given} out; speculation=0 tells only what is certain",
            )
        self._identity = options.identity
        bound = rules.check(bind(query, schema.names))
        planned = self.plan = plan(bound)
        ready = prepared(planned, with_hidden(schema), self._identity).schema

        def make(state: Snapshot | None) -> TotalsEvaluator:
            evaluator = choose.totals(grouping)
            evaluator.open(planned, ready, None, state)
            return evaluator

        line = Ahead(
            make, ready, bound.partition_by, bound.order_by, fingerprint=planned.fingerprint
        )
        first = make(None)
        nothing = first.no_matches(ready)
        self._named_by = first.named_by
        stage = choose.for_shared_corrections(line, nothing, options.correctable)
        self.stage = stage.evaluator
        self.reason = f"totals: aggregates over all matches, never listed{stage.reason}"
        self._seeds = Seeds(name, bound)
        (self.nothing,) = self._shaped(nothing, NEW)

    @property
    def partitions(self) -> int:
        return self.stage.evaluator.open_keys

    @property
    def nbytes(self) -> int:
        return self.stage.nbytes

    @property
    def _owes(self) -> bool:
        """Without groups there is one total, of no match at first."""
        return not self._named_by and not self.stage.begun

    def result(self) -> pa.Table:
        """The totals as they stand."""
        return finish_totals(self.plan, self.stage.standing.combine_chunks())

    def _ready(self, events: Events) -> Events:
        return replace(events, table=prepared(self.plan, events.table, self._identity))

    def _shaped(self, found: pa.Table, op: str) -> list[pa.Table]:
        found = found.combine_chunks()
        group = row_hashes(found, self._named_by)
        return [self._seeds.changes(finish_totals(self.plan, found), op, (group, ~group))]
