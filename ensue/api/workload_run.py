"""Running the groups of a workload in process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.operator import ties
from ensue.operator.arrange import arrange
from ensue.operator.as_of import LATEST, time_for, with_time
from ensue.operator.budget import Budget
from ensue.operator.listing import Listing
from ensue.operator.notices import Notices
from ensue.operator.protocol import Events
from ensue.query.query import Query
from ensue.run import choose, local
from ensue.shared import given
from ensue.shared.groups import Group, groups
from ensue.shared.merged import FEW, TooDearError
from ensue.shared.offsets import Cut, cuts, joined, unite_parts
from ensue.shared.options import Report, Sharing
from ensue.shared.recall import Estimate


def grouped(
    queries: Mapping[str, Query], table: pa.Table | None, *, whole: bool = False
) -> list[Group]:
    if table is None:
        return groups(queries, None, None)
    empty = table.slice(0, 0)
    return groups(
        queries, table.column_names, lambda p: local.prepare(p, empty).schema, whole=whole
    )


def run_group(
    group: Group,
    table: pa.Table,
    options: Sharing,
    budget: Budget | None,
    history: pa.Table | None = None,
    notices: Notices | None = None,
    as_of: Any = LATEST,
) -> tuple[dict[str, pa.Table], Report | None]:
    notices = notices or Notices()
    if history is not None:
        given.check_history(group.queries.values(), table.schema, history.schema)
    if group.rows:
        from ensue.shared.rows import run_rows

        return run_rows(
            group.queries,
            table,
            options,
            budget,
            local.prepare,
            local.finish,
            history=history,
            notices=notices,
        )
    group.refuse_budget(budget)
    if group.alone:
        (name, query), *_ = group.queries.items()
        listing = Listing(as_of=time_for((query,), as_of)[1])
        found = local.run(query, table, listing, notices=notices, explain_nothing=False)
        return {name: found}, None
    if budget is None and options.share and (len(group.queries) >= FEW or not options.merge):
        parted = cuts(group.queries)
        try:
            if parted:
                return _run_shared(group, table, options, None, None, notices, parted, as_of)
        except TooDearError:
            pass  # each pattern by itself is cheaper, and whole
    return _run_shared(group, table, options, budget, history, notices, {}, as_of)


def _run_shared(
    group: Group,
    table: pa.Table,
    options: Sharing,
    budget: Budget | None,
    history: pa.Table | None,
    notices: Notices,
    parted: Mapping[str, Cut],
    as_of: Any,
) -> tuple[dict[str, pa.Table], Report | None]:
    """Event patterns by the shared evaluator; some of them cut in two parts."""
    union = unite_parts(group.queries, parted)
    prepared = local.prepare(union.plan, table)
    waiting, now = time_for(group.queries.values(), as_of)
    if waiting is not None:
        prepared = with_time(waiting, prepared, now)
    evaluator = choose.shared(union, options)
    evaluator.parts = {name: [] for cut in parted.values() for name in cut.parts}
    evaluator.open(union.plan, prepared.schema, budget)
    first = union.plan.query
    if history is not None:
        evaluator.learn(past(first, local.prepare(union.plan, history)))
    arranged, starts = arrange(prepared, first.partition_by, first.order_by)
    ties.check(union.plan, arranged, notices)
    pieces: dict[int, list[pa.Table]] = {}
    complete = np.ones(len(starts) - 1, np.bool_)
    for index, piece in evaluator.found(Events(arranged, starts, complete)):
        pieces.setdefault(index, []).append(piece)
    found = {}
    for index, (member, empty) in enumerate(
        zip(union.members, evaluator.own_schemas(arranged.schema), strict=True)
    ):
        if member.name not in evaluator.parts:
            listed = pa.concat_tables(pieces.get(index, [empty.empty_table()]))
            found[member.name] = local.finish(member.plan, listed)
    report = evaluator.report()
    exact = {name: e for name, e in report.patterns.items() if name not in evaluator.parts}
    for name, cut in parted.items():
        whole, count = joined(cut, evaluator.parts, union.plan, arranged, starts)
        found[name] = local.finish(cut.planned, whole)
        exact[name] = Estimate(count, 0.0, 1.0, 1.0, 1.0)
    return found, replace(report, patterns=exact)


def past(query: Query, history: pa.Table) -> Events:
    """Rows of the past as complete partitions."""
    arranged, starts = arrange(history, query.partition_by, query.order_by)
    return Events(arranged, starts, np.ones(len(starts) - 1, np.bool_))
