"""The in-process runner: an Arrow table in, an Arrow table out.

It computes the plan's inputs and flags on Arrow columns, arranges the rows, drives the evaluator
and computes the measures over its atoms: what `run/spark/batch.py` leaves to Spark, done here with
the documented subset of functions. Tests and small jobs use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import plan
from ensue.missing.bundles import Recovery
from ensue.operator import ties
from ensue.operator.arrange import arrange
from ensue.operator.as_of import END, with_time
from ensue.operator.budget import Budget, Unbounded
from ensue.operator.listing import Listing
from ensue.operator.notices import Notices
from ensue.operator.prepare import finish, finish_totals, prepare
from ensue.operator.protocol import Events, bounded, key_at
from ensue.progress import progress
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.run import choose, nothing
from ensue.sequences.totals import Finish, Grouping

_LEARN_LESS = "let it learn from less, allow_missing(..., learn=1000), or match more rows"
TURN = 250_000  # rows between two reports of progress
__all__ = ["finish", "prepare", "recover", "run", "totals"]


def run(
    query: Query,
    table: pa.Table,
    listing: Listing | None = None,
    budget: Budget | None = None,
    notices: Notices | None = None,
    explain_nothing: bool = True,
) -> pa.Table:
    """All matches of a pattern in a table; what a budget cost stands in the schema's metadata."""
    rules.duplicates(table.column_names, "column of the input")
    bound = rules.check(bind(query, table.column_names))
    planned = plan(bound)
    table = table.combine_chunks()
    prepared = prepare(planned, table)
    if listing is not None and listing.as_of != END:
        prepared = with_time(bound, prepared, listing.as_of)
    evaluator = choose.for_matches(bound, listing).evaluator
    evaluator.open(planned, prepared.schema, budget)
    arranged, starts = arrange(prepared, bound.partition_by, bound.order_by)
    ties.check(planned, arranged, notices or Notices())
    with progress("matching", arranged.num_rows) as report:
        # Bounds on all matches (limit, budget) are of one insert, so those are not cut.
        cut = report is not None and bound.row_semantics and budget is None
        whole = Events(arranged, starts, np.ones(len(starts) - 1, np.bool_))

        def listed() -> Iterator[pa.Table]:
            for events in _turns(arranged, starts, TURN) if cut else (whole,):
                for found in evaluator.insert(events).matches:
                    yield found
                    if report is not None:
                        report(0, found.num_rows)
                if report is not None:
                    report(events.table.num_rows, 0)

        pieces = list(bounded(listed(), 4 * table.nbytes))
    if not pieces:
        pieces = [evaluator.no_matches(arranged.schema)]
    found = finish(planned, pa.concat_tables(pieces))
    if not found.num_rows and notices is not None and explain_nothing:
        nothing.check(planned, table, notices)
    if budget is None:
        return found
    metrics = evaluator.metrics
    free = Unbounded(metrics.unbounded, metrics.reason)
    if (warning := free.warning(metrics.rows, _LEARN_LESS)) is not None:
        Notices().warn(warning)
    if (warning := metrics.warning(budget.recall)) is not None:
        Notices().warn(warning)
    return found.replace_schema_metadata({"ensue": json.dumps(metrics.told())})


def _turns(arranged: pa.Table, starts: NDArray[np.int64], size: int) -> Iterator[Events]:
    """Whole partitions, about so many rows at a time, so that progress can be shown in between."""
    begin = 0
    while begin < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[begin] + size, side="right")) - 1
        end = max(end, begin + 1)
        rows = arranged.slice(int(starts[begin]), int(starts[end] - starts[begin]))
        yield Events(rows, starts[begin : end + 1] - starts[begin], np.ones(end - begin, np.bool_))
        begin = end


def recover(query: Query, table: pa.Table, found: pa.Table) -> pa.Table:
    """All matches of the bundles in which the matches of `found` lie (allow_missing)."""
    bound = rules.check(bind(query, table.column_names))
    planned = plan(bound)
    recovery = Recovery(planned)
    arranged, starts = arrange(
        prepare(planned, table.combine_chunks()), bound.partition_by, bound.order_by
    )
    events = Events(arranged, starts, np.ones(len(starts) - 1, np.bool_))
    keys = {
        key_at(arranged, int(start), bound.partition_by): index
        for index, start in enumerate(starts[:-1])
    }
    sizes = np.diff(starts)
    ends: list[list[int]] = [[] for _ in sizes]
    if not {"events", *bound.partition_by} <= set(found.column_names):
        raise errors.QueryError(
            f"recover() takes the matches that were found, and was given the columns "
            f"{', '.join(found.column_names)}",
            remedy="write q.recover(table, q.matches(table, budget=...))",
        )
    for row, match in enumerate(found.column("events").to_pylist()):
        key = key_at(found, row, bound.partition_by)
        last = match[-1]["row"]
        if key not in keys or last >= sizes[keys[key]]:
            raise errors.QueryError(
                f"recover(): match {row} ends at row {last} of the partition {key}, which the "
                "table does not have",
                remedy="give the table in which the matches were found, in full",
            )
        ends[keys[key]].append(last)
    pieces = list(recovery.tables(events, ends))
    if not pieces:
        evaluator = choose.for_matches(bound).evaluator
        evaluator.open(planned, arranged.schema)
        pieces = [evaluator.no_matches(arranged.schema)]
    return finish(planned, pa.concat_tables(pieces))


def totals(
    query: Query,
    table: pa.Table,
    grouping: Grouping,
    notices: Notices | None = None,
    as_of: Any = END,
) -> pa.Table:
    """Aggregates over all matches of an event pattern, never listing them."""
    bound = rules.check(bind(query, table.column_names))
    planned = plan(bound)
    prepared = prepare(planned, table.combine_chunks())
    if as_of != END:
        prepared = with_time(bound, prepared, as_of)
    arranged, starts = arrange(prepared, bound.partition_by, bound.order_by)
    ties.check(planned, arranged, notices or Notices())
    if notices is not None:
        nothing.check_totals(planned, table, arranged, notices)
    events = Events(arranged, starts, np.ones(len(starts) - 1, np.bool_))
    partials = choose.batch_totals(planned, grouping).partials(events)
    return finish_totals(planned, Finish(planned, grouping, arranged.schema).table([partials]))
