"""ACEP without a budget where conditions look at single rows: the shared match graph."""

from __future__ import annotations

import pyarrow as pa

from ensue.automaton.plan import Plan
from ensue.automaton.thompson import letter_states
from ensue.evaluate.acep.columns import MissingOutput
from ensue.evaluate.acep.subsets import missing_subsets
from ensue.evaluate.acep.words import Words
from ensue.evaluate.base import Budget, Snapshot
from ensue.evaluate.sequences import SequencesEvaluator


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
        self._subsets = missing_subsets(plan)
        words = Words(letter_states(plan.query, every_way=False))
        self._columns = MissingOutput(plan, False, words=words)
