"""Time-outs of row patterns in process: matches, and partial matches that ran out of the window.

Two runs of the row evaluator, one for the matches and one for the partial matches of every start
row (see `automaton/timeouts.py`). A partial match is reported only where a search began and failed:
rows that a match skipped begin none. `run/spark/timeouts.py` does the same by joins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue.automaton import timeouts
from ensue.automaton.compile import compile_query
from ensue.automaton.plan import plan
from ensue.operator import ties
from ensue.operator.arrange import arrange, flat
from ensue.operator.as_of import END, moment, time_key
from ensue.operator.batch import window_numbers
from ensue.operator.notices import Notices
from ensue.operator.prepare import prepare
from ensue.operator.status import MATCHED, OPEN, STATUS, TIMEOUT, check_free
from ensue.query import rules
from ensue.query import window as w
from ensue.query.binding import bind
from ensue.query.query import OrderKey, Query, SkipMode, Window, WindowKind
from ensue.run import local

_CLOCK = "_ensue_clock"


def run(query: Query, table: pa.Table, as_of: Any, notices: Notices) -> pa.Table:
    """Partition columns, measures and `status`: matched, timeout, or open at `as_of`."""
    query, window = timeouts.asked(query)
    rules.duplicates(table.column_names, "column of the input")
    bound = rules.check(bind(query, table.column_names))
    ties.check(*_in_order(bound, table), notices)
    # Rows numbered over all partitions: a number says which row of which partition it is.
    ordered, starts = arrange(table.combine_chunks(), bound.partition_by, bound.order_by)
    rows = np.arange(ordered.num_rows)
    clock, size = rows - np.repeat(starts[:-1], np.diff(starts)), timeouts.longest(window)
    now = None
    if window.kind is not WindowKind.ROWS:
        clock, size, now = _times(bound, window, ordered, as_of)
    elif as_of != END:
        moment(None, ordered, as_of)  # refuses a time
    ordered = ordered.append_column(w.ROW, pa.array(rows)).append_column(_CLOCK, pa.array(clock))
    numbered = replace(bound, order_by=(*bound.order_by, OrderKey(w.ROW)))
    shown = [*bound.partition_by, *(m.name for m in bound.measures or ())]
    check_free(shown)
    asked = replace(numbered, measures=(*(bound.measures or ()), *w.searched(bound)))
    matches = local.run(asked, ordered, notices=notices)
    found = [_with_status(matches, shown, pa.repeat(MATCHED, len(matches)))]
    if not timeouts.may_be_empty(compile_query(bound)):
        partial_query = timeouts.timeout_query(numbered, _CLOCK, size)
        measures = (*(partial_query.measures or ()), w.searched(bound)[0])
        partial = local.run(replace(partial_query, measures=measures), ordered)
        failed = _failed_starts(bound, matches, ordered.num_rows)
        partial = partial.filter(pa.array(failed[flat(partial, w.FIRST_ROW).to_numpy()]))
        over = pc.is_valid(partial.column(timeouts.BEYOND)).to_numpy()
        if as_of == END:
            over = np.ones(len(partial), np.bool_)
        elif now is not None:
            over |= now - flat(partial, timeouts.BEGAN).to_numpy() > size
        status = pc.if_else(pa.array(over), TIMEOUT, OPEN)
        found.append(_with_status(partial, shown, status).cast(found[0].schema))
    together = pa.concat_tables(found).combine_chunks()
    return together.sort_by(w.FIRST_ROW).drop_columns(w.FIRST_ROW)


def _in_order(bound: Query, table: pa.Table) -> tuple[Any, pa.Table]:
    planned = plan(bound)
    prepared = prepare(planned, table.combine_chunks())
    return planned, arrange(prepared, bound.partition_by, bound.order_by)[0]


def _times(
    query: Query, window: Window, table: pa.Table, as_of: Any
) -> tuple[NDArray[Any], int | float, Any]:
    """The window's time of every row, the window's size in that unit, and the time at the end."""
    key = time_key(query)
    assert key is not None
    sign = -1 if key.descending else 1
    order, size = window_numbers(flat(table, key.column), window, key.column)
    if as_of == END or not table.num_rows:
        return sign * order, size, None
    last = pa.array([moment(key, table, as_of).as_py()], table.schema.field(key.column).type)
    if last.null_count:
        return sign * order, size, None
    return sign * order, size, sign * window_numbers(last, window, key.column)[0][0]


def _failed_starts(query: Query, matches: pa.Table, rows: int) -> NDArray[np.bool_]:
    """Per row: whether a search began there and found no match."""
    first = flat(matches, w.FIRST_ROW).to_numpy()
    failed = np.ones(rows, np.bool_)
    failed[first] = False
    if query.skip.mode is not SkipMode.TO_NEXT_ROW:  # none begins between a match and the next
        steps = np.zeros(rows + 1, np.int64)
        np.add.at(steps, first, 1)
        np.add.at(steps, flat(matches, w.NEXT_ROW).to_numpy(), -1)
        failed &= np.cumsum(steps[:-1]) == 0
    return failed


def _with_status(found: pa.Table, shown: list[str], status: pa.Array) -> pa.Table:
    return found.select([*shown, w.FIRST_ROW]).append_column(STATUS, status)
