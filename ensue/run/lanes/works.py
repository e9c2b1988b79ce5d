"""What a stream does, as the work of its lanes: what a stream cannot do is refused.

matches    rows, sequences, events missing, budgets: `choose.for_lane` picks the evaluator
totals     lanes are hashed by the columns of the groups, so that all partitions of a group meet
           in one lane and its total is one number
summary    a row per key
quantify   a value per event, block, window or key
automaton  automata by hand
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan, plan
from ensue.automaton.registers import Arc, Field, RegisterAutomaton
from ensue.missing.warm import warm_up as warm_missing
from ensue.operator.budget import Budget
from ensue.operator.listing import Listing
from ensue.operator.match_names import MATCH
from ensue.operator.protocol import LaneEvaluator, Snapshot
from ensue.operator.status import STATUS
from ensue.quantities.stages import WINDOW, Question
from ensue.query.nodes import Empty
from ensue.query.query import OrderKey, Query, Ties
from ensue.revision.parts import Settings as RevisionSettings
from ensue.revision.timing import Timing
from ensue.rows.warm import warm_up as warm_rows
from ensue.run import choose
from ensue.run.lanes.stages import EvaluatorWork, Make, Recipe, named
from ensue.run.lanes.work import Settings
from ensue.sequences.totals import Grouping
from ensue.summary.options import SummaryOptions, check_options

# -- matches --------------------------------------------------------------------------------------


def matches_work(
    planned: Plan,
    listing: Listing | None,
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
    budget: Budget | None = None,
) -> EvaluatorWork:
    """Matches of a pattern, of rows or of events."""
    if budget is not None:
        refuse_corrections(settings)
    if listing is not None and (listing.limit is not None or listing.sample is not None):
        raise errors.UnsupportedError(
            "limit= and sample= choose among all matches, and a stream never has them all",
            remedy="leave them out, or use q.aggregate(...)",
        )
    if listing is not None and listing.timeouts and (settings.late or settings.speculative):
        raise errors.UnsupportedError(
            f"timeouts=True has a column {STATUS!r} of its own, and what timed out is never taken "
            "back",
            remedy="leave timeouts out, or late=True and emit='changes'",
        )
    if listing is not None and listing.timeouts and planned.query.row_semantics:
        raise errors.UnsupportedError(
            "timeouts=True of a row pattern joins two runs over the rows, which a stream cannot",
            remedy="write an event pattern (->), or leave timeouts out",
        )
    if budget is not None:
        warm_missing()  # compiled once here, not by every worker
    if planned.query.row_semantics:
        warm_rows(planned.correlated)
    settings = replace(settings, timeouts=listing is not None and listing.timeouts)
    recipe = matches_recipe(planned, listing, schema, settings.speculative, budget)
    keys = planned.query.partition_by
    return EvaluatorWork(schema, recipe.found, keys, time, settings, description, recipe)


def refuse_corrections(settings: Settings) -> None:
    if settings.speculative or settings.corrections:
        raise errors.UnsupportedError(
            "under a budget nothing can be taken back: what was learned and shed since cannot be "
            "undone",
            remedy="leave emit='changes' and changes= out, or the budget",
        )


def matches_recipe(
    planned: Plan,
    listing: Listing | None,
    schema: pa.Schema,
    identified: bool,
    budget: Budget | None = None,
) -> Recipe:
    inner = named(schema.empty_table()).schema if identified else schema
    make = partial(_matches, planned, listing, inner, budget)
    return _recipe(make, inner, planned.query, identified, named=identified)


def _matches(
    planned: Plan,
    listing: Listing | None,
    schema: pa.Schema,
    budget: Budget | None,
    lane: int,
    state: Snapshot | None,
) -> LaneEvaluator:
    evaluator = choose.for_lane(planned, listing, budget).evaluator
    evaluator.open(planned, schema, budget, state)
    return evaluator


def _recipe(
    make: Make, schema: pa.Schema, query: Query, identified: bool, named: bool = False
) -> Recipe:
    """The recipe, with the columns that its evaluator puts out."""
    evaluator = make(0, None)
    found = evaluator.no_matches(schema)
    if identified:
        found = evaluator.identified(found).drop_columns([MATCH])
    return Recipe(make, query.partition_by, query.order_by, found.schema, identified, named)


# -- totals and summaries -------------------------------------------------------------------------


def totals_work(
    planned: Plan,
    grouping: Grouping,
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> EvaluatorWork:
    """Aggregates over all matches of an event pattern, never listing the matches."""
    make = partial(_totals, planned, grouping, schema)
    recipe = _recipe(make, schema, planned.query, settings.speculative)
    keys = planned.query.partition_by
    return EvaluatorWork(schema, recipe.found, keys, time, settings, description, recipe)


def _totals(
    planned: Plan, grouping: Grouping, schema: pa.Schema, lane: int, state: Snapshot | None
) -> LaneEvaluator:
    evaluator = choose.totals(grouping, alone=lane == 0)
    evaluator.open(planned, schema, None, state)
    return evaluator


def summary_work(
    query: Query,
    options: SummaryOptions,
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> EvaluatorWork:
    """A summary per key: final when the stream is closed, or the key forgotten."""
    if options.budget is not None:
        raise errors.UnsupportedError(
            "a budget over all keys needs all keys in one place, and Spark spreads them",
            remedy="give size=, the events per key",
        )
    if not query.partition_by:
        raise errors.UnsupportedError(
            "a stream is summarized by key, and the pattern has no partition_by(...)",
            remedy="add partition_by(...), with a constant column for one summary of everything",
        )
    check_options(query, options)
    make = partial(_summary, plan(query), options, schema)
    recipe = _recipe(make, schema, query, settings.speculative)
    return EvaluatorWork(
        schema, recipe.found, query.partition_by, time, settings, description, recipe
    )


def _summary(
    planned: Plan, options: SummaryOptions, schema: pa.Schema, lane: int, state: Snapshot | None
) -> LaneEvaluator:
    evaluator = choose.summaries(options)
    evaluator.open(planned, schema, None, state)
    return evaluator


# -- quantitative queries -------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What a quantitative query is asked on a stream."""

    question: Question
    order: tuple[OrderKey, ...]
    output: str  # of the operator: every, defined or demand
    value: str  # the name of the values
    shown: tuple[str, ...]  # columns of the input that may be shown


def quantify_work(
    asked: Asked,
    partition_by: tuple[str, ...],
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> EvaluatorWork:
    """Every event labelled, block by block, or key by key.

    A window of time comes when the watermark has passed its end. What a whole key adds up to is
    final when the stream is closed, or the key forgotten.
    """
    make = partial(_quantify, asked, partition_by, schema, time)
    columns = make(0, None).no_matches(schema).schema
    told = (*asked.shown, WINDOW, asked.value)
    found = pa.schema([field for field in columns if field.name in told])
    if settings.speculative and asked.output == "defined":
        on_events = set(asked.shown) <= set(found.names)
        if not on_events and WINDOW not in found.names:
            raise errors.UnsupportedError(
                "emit='changes' takes values back, and those of partial windows have no name",
                remedy="leave emit='changes' or partial=True out",
            )
    recipe = Recipe(make, partition_by, asked.order, found, settings.speculative)
    return EvaluatorWork(schema, found, partition_by, time, settings, description, recipe)


def _quantify(
    asked: Asked,
    partition_by: tuple[str, ...],
    schema: pa.Schema,
    time: str,
    lane: int,
    state: Snapshot | None,
) -> LaneEvaluator:
    operator = choose.quantities(
        asked.question, partition_by, asked.output, asked.value, clock=time
    )
    operator.open(None, schema, state=state)
    return operator


# -- automata by hand -----------------------------------------------------------------------------

# The text of an edit, and the register: arcs that begin, names of those that end, final states.
ReadArcs = Callable[[str, tuple[Field, ...]], tuple[list[Arc], list[str], list[str]]]


@dataclass(frozen=True)
class AskedAutomaton:
    """An automaton and how its events are read."""

    machine: RegisterAutomaton
    timing: Timing
    partition_by: tuple[str, ...]
    settings: RevisionSettings
    read: ReadArcs | None = None  # edits of a stream

    def query(self) -> Query:
        """What sorts and routes rows: keys and order, no pattern."""
        by, order = self.partition_by, self.timing.order
        return Query(pattern=Empty(), partition_by=by, order_by=order, ties=Ties.IGNORE)


def automaton_recipe(asked: AskedAutomaton, schema: pa.Schema, settings: Settings) -> Recipe:
    make = partial(_automaton, asked, schema)
    return _recipe(make, schema, asked.query(), settings.speculative)


def automaton_work(
    asked: AskedAutomaton,
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> EvaluatorWork:
    recipe = automaton_recipe(asked, schema, settings)
    return EvaluatorWork(
        schema, recipe.found, asked.partition_by, time, settings, description, recipe
    )


def _automaton(
    asked: AskedAutomaton, schema: pa.Schema, lane: int, state: Snapshot | None
) -> LaneEvaluator:
    evaluator = choose.ordered_revisions(
        asked.machine, asked.timing, asked.partition_by, asked.settings
    )
    evaluator.open(None, schema, None, state)
    return evaluator
