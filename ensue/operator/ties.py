"""Rows whose order the query leaves open: counted, so that nobody finds out from the answer.

Rows of a partition that agree in every column of ORDER BY come in any order. That can change the
answer only where they differ in what the evaluator reads, and where it can see both: an event
pattern that skips does not see a row that no variable can take.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.needed import sees_all_rows
from ensue.automaton.plan import FLAGS_PER_COLUMN, Plan, bits_name, plan
from ensue.operator.arrange import flat, run_starts
from ensue.operator.notices import Notices
from ensue.operator.protocol import Events
from ensue.query.query import Query, Ties


def check(planned: Plan, arranged: pa.Table, notices: Notices) -> None:
    """Warn of ties in the rows of a table, or refuse them, as the query asks."""
    query = planned.query
    if query.ties is Ties.IGNORE or not query.order_by:
        return
    tell(query, tied_rows(planned, arranged), notices)


def tell(query: Query, rows: int, notices: Notices) -> None:
    """Of so many tied rows, as the query asks."""
    if query.ties is Ties.IGNORE or not query.order_by:
        return
    if rows and query.ties is Ties.ERROR:
        raise errors.TiesError(_problem(query, rows), remedy=_REMEDY)
    if rows:
        notices.warn(errors.TiesWarning(f"{_problem(query, rows)}\nWhat to do: {_REMEDY}"))


def watched(query: Query, pieces: Iterator[Events]) -> Iterator[Events]:
    """The rows of a task as they are; ties in them raise, or are written to the worker's log."""
    if query.ties is Ties.IGNORE or not query.order_by:
        yield from pieces
        return
    planned, rows = plan(query), 0
    for events in pieces:
        found = tied_rows(planned, events.table)
        if found and query.ties is Ties.ERROR:
            raise errors.TiesError(f"{_problem(query, found)} (of one task)", remedy=_REMEDY)
        rows += found
        yield events
    if rows and query not in _LOGGED:
        _LOGGED.add(query)
        print(f"TiesWarning: {_problem(query, rows)} (of one task)", file=sys.stderr)


def tied_rows(planned: Plan, arranged: pa.Table) -> int:
    """How many rows share their place with a row that differs from them, in rows by partition."""
    query = planned.query
    keys = (*query.partition_by, *(key.column for key in query.order_by))
    starts = run_starts(arranged, keys)
    sizes = np.diff(starts)
    if len(sizes) == arranged.num_rows:
        return 0
    group = np.repeat(np.arange(len(sizes)), sizes)
    kept = (sizes > 1)[group] & _seen(planned, arranged)
    rows, group = arranged.filter(pa.array(kept)), group[kept]
    differs = np.zeros(max(rows.num_rows - 1, 0), np.bool_)
    for name in rows.column_names:
        if name not in keys:
            differs |= _differs(rows, name)
    uneven = group[1:][differs & (group[1:] == group[:-1])]
    return int(np.isin(group, uneven).sum())


def _seen(planned: Plan, arranged: pa.Table) -> NDArray[np.bool_]:
    """Rows that the evaluator looks at, one by one."""
    everything = np.ones(arranged.num_rows, np.bool_)
    if sees_all_rows(planned) is not None:
        return everything
    seen = np.zeros(arranged.num_rows, np.bool_)
    for test in planned.tests:
        if (
            test.flag is None
            or bits_name(test.flag // FLAGS_PER_COLUMN) not in arranged.schema.names
        ):
            return everything
        bits = flat(arranged, bits_name(test.flag // FLAGS_PER_COLUMN)).to_numpy()
        seen |= (bits >> (test.flag % FLAGS_PER_COLUMN)) & 1 == 1
    return seen


def _differs(rows: pa.Table, name: str) -> NDArray[np.bool_]:
    """Per row but the first: whether it differs from the row before."""
    if pa.types.is_nested(rows.schema.field(name).type):
        values = rows.column(name).to_pylist()
        return np.array([before != after for before, after in pairwise(values)], np.bool_)
    changed = np.zeros(max(rows.num_rows - 1, 0), np.bool_)
    changed[run_starts(rows, [name])[1:-1] - 1] = True
    return changed


_LOGGED: set[Query] = set()  # by this process: a worker runs many tasks of one query
_REMEDY = (
    "order by further columns that tell such rows apart, order_by('ts', 'seq') or ORDER BY ts, "
    "seq; where either order will do, order_by(..., ties='ignore') says so"
)


def _problem(query: Query, rows: int) -> str:
    order = ", ".join(key.column for key in query.order_by)
    where = f" and {', '.join(query.partition_by)}" if query.partition_by else ""
    return (
        f"{rows:,} rows share {order}{where} with a row that differs, and which of them comes "
        "first can change the answer"
    )
