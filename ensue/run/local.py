"""The in-process runner: an Arrow table in, an Arrow table out.

It computes the plan's inputs and flags on Arrow columns, arranges the rows, drives the evaluator
and computes the measures over its atoms: what `run/spark/batch.py` leaves to Spark, done here with
the documented subset of functions. Tests and small jobs use it.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import plan
from ensue.missing.bundles import Recovery
from ensue.operator.arrange import arrange
from ensue.operator.budget import Budget
from ensue.operator.listing import Listing
from ensue.operator.prepare import finish, finish_totals, prepare
from ensue.operator.protocol import Events, key_at
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.run import choose
from ensue.sequences.totals import Finish, Grouping

__all__ = ["finish", "prepare", "recover", "run", "totals"]


def run(
    query: Query, table: pa.Table, listing: Listing | None = None, budget: Budget | None = None
) -> pa.Table:
    """All matches of a pattern in a table; what a budget cost stands in the schema's metadata."""
    rules.duplicates(table.column_names, "column of the input")
    bound = rules.check(bind(query, table.column_names))
    planned = plan(bound)
    table = table.combine_chunks()
    prepared = prepare(planned, table)
    evaluator = choose.for_matches(bound, listing).evaluator
    evaluator.open(planned, prepared.schema, budget)
    arranged, starts = arrange(prepared, bound.partition_by, bound.order_by)
    complete = np.ones(len(starts) - 1, np.bool_)
    pieces = list(evaluator.insert(Events(arranged, starts, complete)).tables())
    if not pieces:
        pieces = [evaluator.no_matches(arranged.schema)]
    found = finish(planned, pa.concat_tables(pieces))
    if budget is None:
        return found
    return found.replace_schema_metadata({"ensue": json.dumps(evaluator.metrics.told())})


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


def totals(query: Query, table: pa.Table, grouping: Grouping) -> pa.Table:
    """Aggregates over all matches of an event pattern, never listing them."""
    bound = rules.check(bind(query, table.column_names))
    planned = plan(bound)
    prepared = prepare(planned, table.combine_chunks())
    arranged, starts = arrange(prepared, bound.partition_by, bound.order_by)
    events = Events(arranged, starts, np.ones(len(starts) - 1, np.bool_))
    partials = choose.batch_totals(planned, grouping).partials(events)
    return finish_totals(planned, Finish(planned, grouping, arranged.schema).table([partials]))
