"""Matches for the eye: as a table, and drawn over the rows they were found in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ensue.api.row_ids import numbered
from ensue.api.tables import is_spark, to_arrow
from ensue.draw.table import PrintedTable, put
from ensue.draw.timeline import Timeline
from ensue.query.binding import bind
from ensue.run import local

if TYPE_CHECKING:
    from ensue.api.pattern import Pattern

_ROW = "row"


def show(found: Any, rows: int) -> None:
    """The first rows of a result, and how many there are."""
    if is_spark(found):
        from ensue.run.spark.raised import own_errors

        with own_errors():
            table = found.limit(rows + 1).toArrow()
        more = "the first " if table.num_rows > rows else ""
        put(PrintedTable.of(table.slice(0, rows), f"{more}{min(rows, table.num_rows):,} rows"))
        return
    table = to_arrow(found)
    count = f"{table.num_rows:,} row{'' if table.num_rows == 1 else 's'}"
    note = count if table.num_rows <= rows else f"{count}, the first {rows:,} shown"
    put(PrintedTable.of(table.slice(0, rows), note))


def timeline(pattern: Pattern, data: Any, value: str | None) -> Timeline:
    """The matches of any query over its rows; a DataFrame of Spark is collected."""
    events = data.toArrow() if is_spark(data) else to_arrow(data)
    query = bind(pattern._plain().query, events.column_names)
    matches = local.run(query, events)
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


def _joined(table: pa.Table, keys: tuple[str, ...], name: str) -> pa.Table:
    """With one column that names the partition."""
    texts = [pc.fill_null(pc.cast(table.column(key), pa.string()), "null") for key in keys]
    return table.append_column(name, pc.binary_join_element_wise(*texts, ", "))
