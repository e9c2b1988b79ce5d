"""Which evaluator runs what is asked: the only place that constructs one for a runner."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from ensue.automaton.plan import Plan
from ensue.automaton.registers import Machine
from ensue.missing.evaluator import ApproximateEvaluator
from ensue.missing.exact import missing_evaluator
from ensue.operator.budget import Budget
from ensue.operator.listing import Listing
from ensue.operator.protocol import Evaluator, LaneEvaluator
from ensue.quantities.operator import QuantifyOperator
from ensue.quantities.stages import Stage as Question
from ensue.query.query import Query
from ensue.revision.evaluator import Timing
from ensue.revision.ordered import OrderedRevisions
from ensue.revision.parts import Settings as RevisionSettings
from ensue.rows.evaluator import RowsEvaluator
from ensue.rows.flat import FlatRows
from ensue.sequences.evaluator import SequencesEvaluator
from ensue.sequences.totals import Grouping
from ensue.sequences.totals_evaluator import TotalsEvaluator
from ensue.summary.lane_evaluator import SummaryEvaluator
from ensue.summary.options import SummaryOptions


class Matcher(Evaluator, Protocol):
    """An evaluator that lists matches."""

    def no_matches(self, schema: pa.Schema) -> pa.Table: ...


def evaluator_for(query: Query, listing: Listing | None = None) -> Matcher:
    """The evaluator that lists the matches of a query."""
    if query.missing is not None:
        return ApproximateEvaluator(listing)
    return RowsEvaluator() if query.row_semantics else SequencesEvaluator(listing)


def lane_evaluator(
    planned: Plan, listing: Listing | None = None, budget: Budget | None = None
) -> LaneEvaluator:
    """The evaluator that lists the matches of a query over the many keys of a lane."""
    if planned.query.row_semantics:
        return FlatRows()
    if planned.query.missing is None:
        return SequencesEvaluator(listing)
    if budget is not None:
        return ApproximateEvaluator(listing)
    return missing_evaluator(planned, listing)


def totals_evaluator(grouping: Grouping, alone: bool = True) -> TotalsEvaluator:
    return TotalsEvaluator(grouping, alone)


def summary_evaluator(options: SummaryOptions) -> SummaryEvaluator:
    return SummaryEvaluator(options)


def quantify_operator(
    question: Question,
    partition_by: tuple[str, ...],
    output: str,
    value: str,
    clock: str | None = None,
) -> QuantifyOperator:
    return QuantifyOperator(question, partition_by, output, value, clock)


def ordered_revisions(
    machine: Machine,
    timing: Timing,
    partition_by: tuple[str, ...],
    settings: RevisionSettings,
) -> OrderedRevisions:
    """An automaton by hand over rows in order."""
    return OrderedRevisions(machine, timing, partition_by, settings)
