"""Matchers as users request them, and what snapshots restore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.api.order import check_order
from ensue.api.tables import events_table, is_spark, schema_of, to_arrow
from ensue.automaton.plan import plan
from ensue.front import builder
from ensue.front.expressions import Scope, parse_condition
from ensue.front.steps import gap_bound
from ensue.operator.budget import Budget
from ensue.operator.notices import Notices
from ensue.operator.state import kind_of, restoring, unpack
from ensue.query.binding import bind
from ensue.query.duration import spelled
from ensue.query.query import Query, Rows
from ensue.run import choose, nothing
from ensue.run.asked import Asked, one
from ensue.run.branch import MatcherOptions
from ensue.run.late_summary import KIND as LATE_SUMMARY
from ensue.run.late_summary import LateSummary
from ensue.run.matcher import Matcher, restored
from ensue.run.pattern_branch import check_timeouts
from ensue.sequences.totals import Grouping
from ensue.shared.controller import ALONE
from ensue.summary.evaluator import Summary
from ensue.summary.options import SummaryOptions
from ensue.summary.saved import KIND as SUMMARY
from ensue.summary.saved import described

LATE = ("speculation", "delay", "id")  # what makes a summary take events in any order


def asked_totals(
    draft: builder.Draft,
    aggregates: Mapping[str, object],
    by: str | Sequence[str],
    every: str | int | None,
    slide: str | int | None,
    big: str | None,
) -> tuple[Query, Grouping]:
    """The query whose measures are the aggregates, and how their totals are grouped."""
    if not aggregates:
        raise errors.QueryError(
            "aggregate() needs at least one aggregate", remedy='write aggregate(data, n="count(*)")'
        )
    if big not in (None, "text"):
        raise errors.QueryError(f"big={big!r} is not known", remedy='use big="text"')
    names = (by,) if isinstance(by, str) else tuple(by)
    every, slide = spelled(every), spelled(slide)
    size, distance = gap_bound(every), gap_bound(slide)
    if distance is not None and (size is None or not 0 < distance <= size):
        raise errors.QueryError(
            f"slide={slide!r} does not fit every={every!r}",
            remedy="give a size with every=..., and a positive slide that is not larger",
        )
    if size == 0:
        raise errors.QueryError(
            f"aggregate(every={every!r}): windows of time need a size",
            remedy="write every='1 hour', or every=100 in units of a numeric order column",
        )
    timed = isinstance(every, str) and not every.strip().isdigit()
    grouping = Grouping(names, size, distance, big == "text", None if every is None else timed)
    grouping.check_names(aggregates)
    asked = builder.expression_texts(dict(aggregates), "measure")
    return replace(draft, measures=asked, rows=Rows.ONE).build(), grouping


def matcher_of(
    draft: builder.Draft,
    query: Query,
    options: MatcherOptions,
    aggregate: Mapping[str, object] | None,
    groups: tuple[Any, Any, Any, Any],
    name: str | None,
    schema: pa.Schema | None,
) -> Matcher:
    """The matcher of one pattern, or of aggregates over its matches."""
    if options.budget is not None and query.missing is None:
        ALONE.read(options.budget)
    check_timeouts(query, options, aggregate is not None)
    if aggregate is not None:
        totals = asked_totals(draft, aggregate, *groups)
        return opened(one(totals[0], name, totals[1]), options, schema)
    if groups != ((), None, None, None):
        raise errors.QueryError(
            "by, every, slide and big belong to aggregates, and none was given",
            remedy='write matcher(aggregate={"n": "count(*)"}, by=...)',
        )
    return opened(one(query, name), options, schema)


def opened(asked: Asked, options: Any, schema: pa.Schema | None) -> Matcher:
    """A matcher that takes events in any kind of table; ready for calls where a schema is given."""
    return Matcher(asked, options, None if schema is None else schema_of(schema), events_table)


def summary_of(
    query: Query, asked: SummaryOptions, how: Mapping[str, Any]
) -> Summary | LateSummary:
    """A summary of ordered events; with one of LATE given, of events in any order."""
    if not how:
        return choose.summary(query, asked, to_arrow)
    options = MatcherOptions(how.get("speculation", 0), how.get("delay"), how.get("id"))
    return LateSummary(query, asked, options, to_arrow)


def filled(summary: Summary | LateSummary, draft: builder.Draft, data: Any, told: Notices) -> Any:
    """The summary of a table, with a word where its order was forgotten or nothing can match."""
    table = events_table(data)
    check_order(draft, table, told)
    summary.insert(table)
    if isinstance(summary, Summary) and not summary.count():
        nothing.check(plan(bind(draft.build(), table.column_names)), table, told)
    return summary


@restoring()
def restore(state: bytes) -> Any:
    """Restore a matcher or a summary from a snapshot.

    Examples:
        >>> events = pa.table({"ts": [1, 2, 3], "kind": ["a", "b", "b"]})
        >>> matcher = ensue.pattern("a ->> b", types="kind").order_by("ts").within(9).matcher()
        >>> _ = matcher.insert(events.slice(0, 1))
        >>> again = ensue.restore(matcher.snapshot())
        >>> _ = again.insert(events.slice(1))
        >>> again.advance(100).num_rows
        2
    """
    kind = kind_of(state)
    if kind == SUMMARY.name:
        query, asked = _asked(state)
        return choose.summary(query, asked, to_arrow).restore(state)
    if kind == LATE_SUMMARY.name:
        parts = unpack(LATE_SUMMARY, state)
        query, asked = _asked(parts.state("asked"))
        return LateSummary(query, asked, MatcherOptions(**parts.json("options")), to_arrow).go_on(
            parts
        )
    return restored(state, events_table)


def _asked(summary: bytes) -> tuple[Query, SummaryOptions]:
    """What a stored summary was asked."""
    query, options = described(summary)
    if options.total_text is not None:
        asked = parse_condition(options.total_text, Scope(query.variables, "total"))
        options = replace(options, total=asked)
    return query, options


def can_observe(data: Any, queries: Iterable[Query], budget: Budget | None) -> None:
    """Refuse `observe=` where nothing would be reported."""
    rows = all(query.row_semantics for query in queries)
    if budget is None or rows or not is_spark(data) or data.isStreaming:
        raise errors.QueryError(
            "observe= reports what a budget gives up, for event patterns on a batch DataFrame of "
            "Spark",
            remedy="leave it out: workloads in process have a report, tables of allow_missing(...) "
            "their schema's metadata, streams the progress of the query",
        )
