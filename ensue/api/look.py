"""Matches for the eye: as a table, and drawn over the rows they were found in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.api.row_ids import numbered
from ensue.api.tables import is_spark, to_arrow
from ensue.automaton.plan import plan
from ensue.draw.table import PrintedTable, put
from ensue.draw.timeline import Timeline
from ensue.front.expressions import Scope, parse_condition
from ensue.operator.as_of import unsaid
from ensue.operator.digits import number_of
from ensue.operator.digits import told as told_count
from ensue.operator.listing import Listing
from ensue.operator.notices import Notices
from ensue.query import nodes
from ensue.query.binding import bind
from ensue.query.query import Measure, Query, Rows, Skip, SkipMode, Ties
from ensue.run import local, nothing
from ensue.sequences.totals import Grouping

ATTEMPTED = 100_000  # rows in which `explain(data)` counts attempts

if TYPE_CHECKING:
    from ensue.api.pattern import Pattern

_ROW = "row"


def show(found: Any, rows: int) -> None:
    """The first rows of a result, and how many there are."""
    if is_spark(found):
        from ensue.run.spark.raised import action

        with action(found, "matching"):
            table = found.limit(rows + 1).toArrow()
        more = "the first " if table.num_rows > rows else ""
        count = min(rows, table.num_rows)
        note = f"{more}{count:,} row{'' if count == 1 else 's'}"
        put(PrintedTable.of(table.slice(0, rows), note))
        return
    table = to_arrow(found)
    count = f"{table.num_rows:,} row{'' if table.num_rows == 1 else 's'}"
    note = count if table.num_rows <= rows else f"{count}, the first {rows:,} shown"
    put(PrintedTable.of(table.slice(0, rows), note))


def timeline(pattern: Pattern, data: Any, value: str | None) -> Timeline:
    """The matches of any query over its rows; a DataFrame of Spark is collected."""
    events = data.toArrow() if is_spark(data) else to_arrow(data)
    query = bind(pattern._plain().query, events.column_names)
    matches = local.run(query, events, Listing(as_of=unsaid(query)))
    keys = query.partition_by
    partition = ", ".join(keys) or None
    if len(keys) > 1:
        assert partition is not None
        events, matches = (_joined(table, keys, partition) for table in (events, matches))
    if query.order_by:
        first = query.order_by[0]
        return Timeline(events, matches, partition, first.column, value, first.descending)
    row = _ROW
    while row in events.column_names:
        row += "_"
    return Timeline(numbered(query, events, row), matches, partition, row, value)


def data_lines(query: Query, data: Any) -> str:
    """Rows per variable and shares of nulls, for `explain(data)`; of a stream nothing is known."""
    if is_spark(data):
        if data.isStreaming:
            return ""
        from ensue.run.spark.batch import profile

        planned, counted, schema = profile(query, data)
    else:
        table = to_arrow(data).combine_chunks()
        planned = plan(bind(query, table.column_names))
        counted, schema = nothing.profile(planned, table), table.schema
    told = nothing.lines(planned, counted, nothing.schema_kinds(schema))
    if not is_spark(data):
        told += _attempts(query, table)
    return "\n".join(told) + "\n"


def check_frame(query: Query, df: Any, notices: Notices) -> None:
    """Warn about a DataFrame in which nothing matched, and say why."""
    from ensue.run.spark.batch import profile

    planned, counted, schema = profile(query, df)
    nothing.warn(nothing.reasons(planned, counted, nothing.schema_kinds(schema)), notices)


def _attempts(query: Query, table: pa.Table) -> list[str]:
    """How far attempts get: those that reach each place of a sequence.

    A place is counted by the pattern up to it: for row patterns the rows from which it matches, for
    event patterns the partial matches, which are not listed. A place at which a condition reads a
    later variable is left out.
    """
    if not isinstance(query.pattern, nodes.Concatenation) or query.missing is not None:
        return []
    table = table.slice(0, ATTEMPTED)
    parts, gaps = query.pattern.parts, query.pattern.gaps
    told = []
    for end in range(1, len(parts) + 1):
        if isinstance(parts[end - 1], (nodes.Negation, nodes.AnchorStart)) and end < len(parts):
            continue
        begun = nodes.concatenate(list(parts[:end]), list(gaps[: end - 1]))
        try:
            count = _reaching(query, begun, table)
        except errors.EnsueError:
            continue
        told.append(f"    {nodes.pattern_text(begun, folds=False)}: {told_count(count)}")
    if not told:
        return []
    of = f" of the first {ATTEMPTED:,} rows" if table.num_rows == ATTEMPTED else ""
    what = "rows that begin an attempt" if query.row_semantics else "partial matches"
    return [f"  {what}{of}, by the place they reach", *told]


def _reaching(query: Query, begun: nodes.Node, table: pa.Table) -> int:
    labels = {*nodes.labels(begun), *query.without}
    part = replace(
        query,
        pattern=begun,
        define=tuple((name, condition) for name, condition in query.define if name in labels),
        subsets=tuple((name, of) for name, of in query.subsets if labels.issuperset(of)),
        rows=Rows.ONE,
        ties=Ties.IGNORE,
    )
    if query.row_semantics:
        each = replace(part, measures=None, skip=Skip(SkipMode.TO_NEXT_ROW))
        return len(local.run(each, table))
    number = Measure("n", parse_condition("count(*)", Scope(part.variables, "measure n")))
    part = replace(part, measures=(number,), skip=Skip(SkipMode.NONE), all_matches=True)
    counted = local.totals(part, table, Grouping(as_text=True))
    return number_of(counted.column("n")[0].as_py())


def _joined(table: pa.Table, keys: tuple[str, ...], name: str) -> pa.Table:
    """With one column that names the partition."""
    texts = [pc.fill_null(pc.cast(table.column(key), pa.string()), "null") for key in keys]
    return table.append_column(name, pc.binary_join_element_wise(*texts, ", "))
