"""Why a pattern did not match, in process: an Arrow table in, one of attempts out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan, plan
from ensue.operator import ties
from ensue.operator.arrange import arrange
from ensue.operator.as_of import LATEST, time_for, with_time
from ensue.operator.notices import Notices
from ensue.operator.prepare import prepare
from ensue.operator.protocol import Events
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query, Rows
from ensue.run import choose
from ensue.run.asked_rows import Expected
from ensue.run.lacking import Lacking, ways
from ensue.run.partition import key_of, no_rows, rows_of
from ensue.why.account import NEAREST, check
from ensue.why.expected import explain
from ensue.why.funnel import funnel, tallies, variables
from ensue.why.nearest import check as check_number
from ensue.why.nearest import nearest
from ensue.why.trace import Trace, cut


def planned(query: Query, names: list[str], per: str) -> Plan:
    """The plan of a question why; measures and ROWS PER MATCH play no part in it."""
    check(query, per)
    asked = replace(query, measures=None, rows=Rows.ONE)
    return plan(rules.check(bind(asked, names)), parts=True)


def run(query: Query, table: pa.Table, per: str, notices: Notices) -> pa.Table:
    """One row per partition, of its best failed attempt, or one per start row."""
    return pa.concat_tables(_answers(query, table, per, notices))


def run_funnel(query: Query, table: pa.Table, notices: Notices) -> pa.Table:
    """How many attempts reach each variable, and where and why they stop."""
    return funnel(variables(query), map(tallies, _answers(query, table, "start", notices)))


def run_nearest(query: Query, table: pa.Table, n: int, notices: Notices) -> pa.Table:
    """The n attempts that lack least."""
    check_number(n)
    return nearest(query, _near(query, table, n, notices), n)


def _near(query: Query, table: pa.Table, n: int, notices: Notices) -> Iterator[pa.Table]:
    bound = bind(query, table.column_names)
    check(bound, NEAREST)
    queries = ways(bound)
    if not queries:
        yield from _answers(query, table, NEAREST, notices)
        return
    lacking = Lacking(queries, n)
    arranged, events = _arranged(lacking.plan, prepare(lacking.plan, table.combine_chunks()))
    ties.check(lacking.plan, arranged, notices)
    yield lacking.nothing(arranged.schema)
    yield from lacking.tables(events)


def run_trace(query: Query, table: pa.Table, key: Any, limit: int, notices: Notices) -> pa.Table:
    """The steps of the search through one partition, the first `limit` of them."""
    steps = Trace(limit)
    asked, rows = _one_partition(query, table, key, "trace")
    return traced(asked, rows, steps, notices)


def run_expected(
    query: Query, table: pa.Table, asked: Expected, key: Any, notices: Notices
) -> pa.Table:
    """The first rule that rows break which were expected to match."""
    question, rows = _one_partition(query, table, key, "why")
    return expected(question, rows, asked, notices)


def _one_partition(query: Query, table: pa.Table, key: Any, verb: str) -> tuple[Plan, pa.Table]:
    """The plan, and what it reads of the rows of one partition."""
    rules.duplicates(table.column_names, "column of the input")
    asked = planned(query, table.column_names, "partition")
    wanted = key_of(asked.query, key, verb)
    rows = rows_of(table, wanted)
    if not rows.num_rows:
        raise no_rows(wanted)
    return asked, prepare(asked, rows.combine_chunks())


def expected(planned: Plan, prepared: pa.Table, asked: Expected, notices: Notices) -> pa.Table:
    """Of rows that are one partition, with what the plan reads of them."""
    room = choose.attempts(planned, prepared.schema, "start")
    arranged, events = _arranged(planned, prepared)
    ties.check(planned, arranged, notices)
    try:
        return explain(room, events, asked.pairs(planned.query, arranged))
    except errors.EnsueError as problem:
        raise planned.readable(problem) from None


def traced(asked: Plan, prepared: pa.Table, steps: Trace, notices: Notices) -> pa.Table:
    """The steps through rows that are one partition, with what the plan reads of them."""
    query = asked.query
    trace = choose.tracer(asked, prepared.schema)
    arranged, events = _arranged(asked, prepared)
    ties.check(asked, arranged, notices)
    try:
        with cut(steps, notices):
            trace(events, steps)
    except errors.EnsueError as problem:
        raise asked.readable(problem) from None
    order = arranged.column(query.order_by[0].column) if query.order_by else None
    return steps.table(query, None if order is None else order.combine_chunks())


def _answers(query: Query, table: pa.Table, per: str, notices: Notices) -> Iterator[pa.Table]:
    rules.duplicates(table.column_names, "column of the input")
    asked = planned(query, table.column_names, per)
    prepared = prepare(asked, table.combine_chunks())
    waiting, now = time_for((asked.query,), LATEST)
    if waiting is not None:
        prepared = with_time(waiting, prepared, now)
    attempts = choose.attempts(asked, prepared.schema, per)
    arranged, events = _arranged(asked, prepared)
    ties.check(asked, arranged, notices)
    yield attempts.nothing(arranged.schema)
    yield from attempts.tables(events)


def _arranged(asked: Plan, prepared: pa.Table) -> tuple[pa.Table, Events]:
    """The rows in order, as complete partitions."""
    query = asked.query
    arranged, starts = arrange(prepared, query.partition_by, query.order_by)
    return arranged, Events(arranged, starts, np.ones(len(starts) - 1, np.bool_))
