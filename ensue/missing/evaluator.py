"""Patterns with events missing behind the operator protocol: ACEP, and RC-ACEP under a budget.

Which engine follows the partial matches depends on what is asked:

- no budget, conditions on single rows: the shared match graph over L-states and their least errors
  (`exact.py`); the cost per event does not depend on how many partial matches there are.
- no budget, conditions on other events: match nodes with registers (`compiled.py`), those of
  partitions in pieces from the rows of the window.
- a budget, conditions on single rows: the same graph, and what is listed of it (`listing.py`).
- a budget, conditions on other events, or options of RC-ACEP: match nodes chosen by what the
  history says of them (`budget.py`).

Matches are reported as soon as their last event is there. The state of a key is the rows and nodes
its window still holds; what was learned (history, Q-table) is shared by all keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.letters import letter_states
from ensue.automaton.plan import Plan
from ensue.missing.audit import Audit
from ensue.missing.budget import BudgetEngine, check_proxy, checked_budget
from ensue.missing.columns import FoundMissing, MissingOutput
from ensue.missing.exact import missing_evaluator
from ensue.missing.history import KIND as HISTORY
from ensue.missing.listing import GRAPHS, ListsWithin, lists_within
from ensue.missing.tracks import KIND as NODES
from ensue.missing.tracks import TOGETHER, Tracks
from ensue.missing.words import Words
from ensue.operator.budget import Budget
from ensue.operator.hold import HoldsRows, Kept
from ensue.operator.listing import Listing
from ensue.operator.protocol import (
    Capabilities,
    Events,
    Key,
    Metrics,
    Output,
    Snapshot,
    Watermark,
)
from ensue.operator.state import kind_of
from ensue.query.query import Query
from ensue.sequences.batch import EventBatch
from ensue.sequences.evaluator import SequencesEvaluator
from ensue.sequences.evaluator import supports as sequences_support


def supports(query: Query) -> str | None:
    """Why this evaluator cannot run the query; None where it can."""
    if query.missing is None:
        return "the query does not say allow_missing(...)"
    if query.rows.all_rows:
        return "with events missing there is one row per match, which says what was missing"
    return sequences_support(query)


def _of_a_history(state: Snapshot | None) -> bool:
    """Whether RC-ACEP wrote it, which an earlier version always ran: it continues so."""
    if state is None:
        return False
    blobs = [*list(state.keys.values())[:1], *([state.shared] if state.shared else [])]
    return any(kind_of(blob) in (TOGETHER.name, NODES.name, HISTORY.name) for blob in blobs)


class ApproximateEvaluator(HoldsRows):
    """See the module; one instance per task."""

    name = "the evaluator of patterns with events missing"
    capabilities = Capabilities(ordered_input=True, shedding=True)

    def __init__(self, listing: Listing | None = None) -> None:
        self.metrics = Metrics()
        self._listing = listing or Listing()
        self._exact: SequencesEvaluator | None = None
        self._lists: ListsWithin | None = None

    def open(
        self,
        plan: Plan,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None:
        if (reason := supports(plan.query)) is not None:
            raise errors.UnsupportedError(reason, remedy="see q.explain()")
        check_proxy(plan)
        self._plan, self._schema, self._budget = plan, schema, budget
        self._spent = (0, 0, 0.0, 0.0)
        if budget is not None and (self._listing.sample is not None or self._listing.compact):
            raise errors.UnsupportedError(
                "sample= and compact= need all matches, and a budget lists only some",
                remedy="use limit=..., or leave the budget out",
            )
        if budget is None or self._listing.timeouts:
            self._exact = missing_evaluator(plan, self._listing)
        elif lists_within(plan) and not _of_a_history(state):
            self._lists = ListsWithin(checked_budget(budget, plan, GRAPHS), self._listing)
            self._exact = self._lists
        if self._exact is not None:
            self._exact.metrics = self.metrics
            self._exact.open(plan, schema, None, state)
            return
        states = letter_states(plan.query, every_way=plan.correlated)
        self._columns = MissingOutput(plan, False, words=Words(states))
        assert budget is not None
        self._engine = BudgetEngine(plan, states, checked_budget(budget, plan), self.metrics)
        self._engine.audit = Audit(plan, states)
        self._tracks = Tracks(plan, self._engine, self._columns, self._listing, self.metrics)
        if state is not None:
            self._restore(state)

    def _restore(self, state: Snapshot) -> None:
        if state.shared and kind_of(state.shared) == TOGETHER.name:
            self._tracks.restore_together(state.shared)
        elif state.shared:
            self._engine.load_shared(state.shared)
        for key, blob in state.keys.items():
            self._tracks.load(key, blob)
        self.spent()

    @property
    def tails(self) -> Kept:
        return self._tracks if self._exact is None else self._exact.tails

    def copy(self) -> Self:
        made = type(self)(self._listing)
        made.open(self._plan, self._schema, self._budget, self.snapshot_together())
        return made

    def snapshot_together(self) -> Snapshot:
        return (
            super().snapshot_together()
            if self._lists is None
            else (self._lists.snapshot_together())
        )

    def spent(self) -> tuple[int, int, float, float]:
        if self._lists is not None:
            told = self._lists.spent_so_far
            now = told.units, told.there - told.listed, float(told.there), float(told.listed)
        elif self._exact is not None:
            return super().spent()
        else:
            now = (*self._engine.work_so_far, *self._engine.promise)
        before, self._spent = self._spent, now
        made, left, promised, followed = self._spent
        return made - before[0], left - before[1], promised - before[2], followed - before[3]

    # -- protocol --------------------------------------------------------------------------------

    def insert(self, events: Events) -> Output:
        if self._exact is not None:
            return self._exact.insert(events)
        self.metrics.rows += events.table.num_rows
        return Output(self._tracks.insert(events))

    def advance(self, mark: Watermark) -> Output:
        """Time alone completes no match: only events do, and windows close when one is read."""
        if self._exact is not None:
            return self._exact.advance(mark)
        self._tracks.advance(mark)
        return Output()

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        if self._exact is not None:
            return self._exact.end(keys)
        return Output(self._tracks.end(keys))

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        if self._exact is not None:
            return self._exact.snapshot(touched)
        known = self._tracks.open
        keys = known if touched is None else [key for key in touched if key in known]
        return Snapshot({key: self._tracks.save(key) for key in keys}, self._engine.save_shared())

    def no_matches(self, schema: pa.Schema) -> pa.Table:
        """The output of no matches: its columns and types."""
        if self._exact is not None:
            return self._exact.no_matches(schema)
        batch = EventBatch(self._plan, None, schema.empty_table(), np.zeros(1, np.int64))
        return self._columns.table(batch, FoundMissing())
