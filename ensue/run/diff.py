"""A dry run of an edit: which matches would appear and which would disappear on given data.

Both queries list their matches, each as its labelled events; what only one of them has is the
difference. Measures and ROWS PER MATCH change how a match is shown, not which matches there are, so
they are left out of the comparison.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from ensue import errors
from ensue.operator.changes import difference
from ensue.query.query import Query, Rows

OP = "op"
APPEARS, DISAPPEARS = "+", "-"
NUMBER = "match_number"  # shifts with every match that comes or goes before


def listings(old: Query, new: Query) -> tuple[Query, Query]:
    """Both queries as plain listings, which can be compared."""
    if (old.partition_by, old.order_by) != (new.partition_by, new.order_by):
        raise errors.QueryError(
            "the two patterns partition or order the rows differently, so their matches have no "
            "rows in common",
            remedy="give both the same partition_by and order_by",
        )
    before, after = (replace(query, measures=None, rows=Rows.ONE) for query in (old, new))
    return before, after


def compared(before: pa.Table, after: pa.Table) -> pa.Table:
    """`op` ('+' appears, '-' disappears) and the columns of the listing, from two listings."""
    came, went = difference(before.drop_columns([NUMBER]), after.drop_columns([NUMBER]))
    parts = []
    for table, op in ((went, DISAPPEARS), (came, APPEARS)):
        parts.append(table.add_column(0, OP, pa.array([op] * table.num_rows, pa.string())))
    return pa.concat_tables(parts)
