"""The number of each row in its partition, which is what `events.row` of a match means.

Rows are counted from 0 in the order of the query, partition by partition, so that the rows of a
match are found by joining on the partition columns and the number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.api.tables import in_kind, is_spark, to_arrow
from ensue.operator.arrange import arrange
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query

_PLACE = "__ensue_place"


def with_row_ids(query: Query, data: Any, name: str) -> Any:
    """The data with one more column, in the order and the kind given."""
    if is_spark(data):
        from ensue.run.spark.windows import with_row_ids as on_spark

        return on_spark(query, data, name)
    found = numbered(query, to_arrow(data), name)
    if isinstance(data, pa.Table):
        return data.append_column(name, found.column(name))
    if hasattr(data, "assign"):  # pandas: its index and categories stay
        return data.assign(**{name: found.column(name).to_numpy()})
    return in_kind(found, data)


def numbered(query: Query, table: pa.Table, name: str) -> pa.Table:
    rules.duplicates(table.column_names, "column of the input")
    if name in table.column_names:
        raise errors.DuplicateNameError(
            f"with_row_ids: the data already has a column {name!r}",
            remedy="choose another name: with_row_ids(data, name='row_id')",
        )
    bound = bind(query, table.column_names)
    keys = dict.fromkeys([*bound.partition_by, *(key.column for key in bound.order_by)])
    places = pa.array(np.arange(table.num_rows))
    known = table.select(list(keys)).append_column(_PLACE, places)
    arranged, starts = arrange(known.combine_chunks(), bound.partition_by, bound.order_by)
    counted = np.arange(table.num_rows) - np.repeat(starts[:-1], np.diff(starts))
    rows = np.empty(table.num_rows, np.int64)
    rows[arranged.column(_PLACE).to_numpy()] = counted
    return table.append_column(name, pa.array(rows))
