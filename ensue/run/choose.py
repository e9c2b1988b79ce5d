"""Which evaluator runs what is asked, and why: the only place that constructs one for a runner.

A room constructs its own evaluators as it likes; everything outside asks here, so that the rules
are in one place. Where there is a choice, it comes with the reason that `explain()` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from ensue.automaton.plan import Plan
from ensue.automaton.registers import RegisterAutomaton
from ensue.automaton.share import Union
from ensue.missing.evaluator import ApproximateEvaluator
from ensue.missing.exact import missing_evaluator
from ensue.operator.budget import Budget
from ensue.operator.listing import Listing
from ensue.operator.protocol import Evaluator, Events, LaneEvaluator
from ensue.operator.replay import Replay, Resumable
from ensue.operator.rerun import Ahead, Rerun
from ensue.operator.straight import Straight
from ensue.quantities.operator import QuantifyOperator
from ensue.quantities.stages import VALUE, Question
from ensue.query.query import Query
from ensue.revision.evaluator import RevisionEvaluator
from ensue.revision.ordered import OrderedRevisions
from ensue.revision.parts import DEFAULT, Settings
from ensue.revision.timing import Timing
from ensue.rows.evaluator import RowsEvaluator
from ensue.rows.flat import FlatRows
from ensue.sequences.evaluator import SequencesEvaluator
from ensue.sequences.totals import Grouping, Totals
from ensue.sequences.totals_evaluator import TotalsEvaluator
from ensue.shared.evaluator import SharedEvaluator
from ensue.shared.options import Sharing
from ensue.summary.batch import BatchSummaries
from ensue.summary.evaluator import Summary
from ensue.summary.intake import Reader
from ensue.summary.lane_evaluator import SummaryEvaluator
from ensue.summary.options import SummaryOptions
from ensue.why import trace_events, trace_rows
from ensue.why.events import EventAttempts
from ensue.why.rows import RowAttempts
from ensue.why.trace import Trace

E = TypeVar("E")


class Matcher(Evaluator, Protocol):
    """An evaluator that lists matches."""

    def no_matches(self, schema: pa.Schema) -> pa.Table: ...


@dataclass(frozen=True)
class Choice(Generic[E]):
    """An evaluator, not open yet, and why it is the one."""

    evaluator: E
    reason: str


# -- matches of one pattern -----------------------------------------------------------------------


def for_matches(query: Query, listing: Listing | None = None) -> Choice[Matcher]:
    """Over whole partitions, or a few that come in pieces."""
    if query.missing is not None:
        return Choice(ApproximateEvaluator(listing), _why(query))
    if query.row_semantics:
        return Choice(RowsEvaluator(), _why(query))
    return Choice(SequencesEvaluator(listing), _why(query))


def for_lane(
    planned: Plan, listing: Listing | None = None, budget: Budget | None = None
) -> Choice[LaneEvaluator]:
    """Over the many open keys of a stream's lane."""
    query = planned.query
    if query.row_semantics:
        return Choice(FlatRows(), f"{_why(query)}; all keys of a lane in one pass")
    if query.missing is None:
        return Choice(SequencesEvaluator(listing), _why(query))
    if budget is not None:
        return Choice(ApproximateEvaluator(listing), f"{_why(query)}, under a budget")
    return Choice(missing_evaluator(planned, listing), f"{_why(query)}, and all that do are found")


def for_matcher(
    planned: Plan, timeouts: bool = False
) -> Choice[RowsEvaluator | SequencesEvaluator]:
    """Over open keys whose state can be put back, so that their events may be corrected."""
    query, every = planned.query, Listing(timeouts=timeouts, per_call=True)
    if query.row_semantics:
        return Choice(RowsEvaluator(prompt=True), "rows: one match per start, by preference")
    if query.missing is None:
        return Choice(
            SequencesEvaluator(every), "sequences: all matches under their selection policies"
        )
    return Choice(
        missing_evaluator(planned, every),
        "sequences: all matches, including those that lack events",
    )


def best_effort() -> ApproximateEvaluator:
    """Matches that lack events as they come, under a budget."""
    return ApproximateEvaluator(Listing(per_call=True))


def _why(query: Query) -> str:
    if query.missing is not None:
        return "the pattern says allow_missing(...): matches may lack events"
    if query.row_semantics:
        return "the pattern has no arrows and no select(): one match per start row, by preference"
    return "the pattern has arrows or select(): all matches, under their selection policies"


def sequences(
    listing: Listing | None, carried: tuple[str, ...] = (), seed: str | None = None
) -> SequencesEvaluator:
    """Over parts of a partition, or one draw of a sample."""
    return SequencesEvaluator(listing, carried, seed)


# -- behind Cleanse: what takes corrections -------------------------------------------------------


def for_corrections(
    evaluator: Resumable, planned: Plan, schema: pa.Schema, correctable: bool, settling: bool
) -> Choice[Replay | Straight]:
    """Around an evaluator whose state is put back key by key: a correction costs by how far back
    it lies, and by its key alone."""
    nothing = evaluator.no_matches(schema)
    if not correctable:
        return Choice(Straight(evaluator, nothing), "")
    again = Replay(evaluator, planned, schema, nothing, settling)
    return Choice(again, ", replay since the watermark")


def for_shared_corrections(line: Ahead, nothing: pa.Table, correctable: bool) -> Choice[Rerun]:
    """Around one whose keys share state (totals of groups), which only goes back as a whole."""
    told = "; the events since the watermark run again where one is corrected"
    return Choice(Rerun(line, nothing, correctable), told if correctable else "")


# -- everything else: one evaluator each ----------------------------------------------------------


def shared(union: Union, options: Sharing, prepare: Any = None) -> SharedEvaluator:
    """Many event patterns as one; with `prepare` they may change."""
    return SharedEvaluator(union, options, prepare)


def batch_totals(planned: Plan, grouping: Grouping) -> Totals:
    """Aggregates over complete partitions: parts, which are added up."""
    return Totals(planned, grouping)


def totals(grouping: Grouping, alone: bool = True) -> TotalsEvaluator:
    """Aggregates over all matches, never listing them."""
    return TotalsEvaluator(grouping, alone)


def summary(query: Query, options: SummaryOptions, reader: Reader | None = None) -> Summary:
    """What users hold of a summary."""
    return Summary(query, options, reader)


def summaries(options: SummaryOptions) -> SummaryEvaluator:
    """A summary per key."""
    return SummaryEvaluator(options)


def batch_summaries(
    query: Query, options: SummaryOptions, columns: Sequence[str]
) -> BatchSummaries:
    """Summaries of many complete keys: most of them need no selection."""
    return BatchSummaries(query, options, columns)


def attempts(planned: Plan, schema: pa.Schema, per: str) -> RowAttempts | EventAttempts:
    """Why it did not match, over complete partitions; the plan is one with its `parts`."""
    kind = RowAttempts if planned.query.row_semantics else EventAttempts
    return kind(planned, schema, per)


def tracer(planned: Plan, schema: pa.Schema) -> Callable[[Events, Trace], None]:
    """The steps of the search through one partition; the plan is one with its `parts`."""
    room = attempts(planned, schema, "partition")
    if isinstance(room, RowAttempts):
        return partial(trace_rows.follow, room)
    return partial(trace_events.follow, room)


def quantities(
    stage: Question,
    partition_by: tuple[str, ...],
    output: str = "every",
    value: str = VALUE,
    clock: str | None = None,
) -> QuantifyOperator:
    """A quantitative query; `clock` is the column that watermarks are of."""
    return QuantifyOperator(stage, partition_by, output, value, clock)


def revisions(
    machine: RegisterAutomaton,
    timing: Timing,
    schema: pa.Schema,
    partition_by: tuple[str, ...] = (),
    settings: Settings = DEFAULT,
) -> RevisionEvaluator:
    """An automaton by hand over events in any order, with corrections."""
    return RevisionEvaluator(machine, timing, schema, partition_by, settings)


def ordered_revisions(
    machine: RegisterAutomaton, timing: Timing, partition_by: tuple[str, ...], settings: Settings
) -> OrderedRevisions:
    """An automaton by hand over events in order."""
    return OrderedRevisions(machine, timing, partition_by, settings)
