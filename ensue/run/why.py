"""Why a pattern did not match, in process: an Arrow table in, one of attempts out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import Plan, plan
from ensue.operator import ties
from ensue.operator.arrange import arrange
from ensue.operator.notices import Notices
from ensue.operator.prepare import prepare
from ensue.operator.protocol import Events
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query, Rows
from ensue.run import choose
from ensue.why.account import check
from ensue.why.funnel import funnel, tallies


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
    return funnel(query, map(tallies, _answers(query, table, "start", notices)))


def _answers(query: Query, table: pa.Table, per: str, notices: Notices) -> Iterator[pa.Table]:
    rules.duplicates(table.column_names, "column of the input")
    asked = planned(query, table.column_names, per)
    bound = asked.query
    prepared = prepare(asked, table.combine_chunks())
    attempts = choose.attempts(asked, prepared.schema, per == "start")
    arranged, starts = arrange(prepared, bound.partition_by, bound.order_by)
    ties.check(asked, arranged, notices)
    events = Events(arranged, starts, np.ones(len(starts) - 1, np.bool_))
    yield attempts.nothing(arranged.schema)
    yield from attempts.tables(events)
