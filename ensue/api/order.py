"""An order that was forgotten: refused on Spark, a warning in process, a hint about the key.

Rows of a DataFrame have no order, so a pattern without `order_by` answers something else each time
it runs. A table in process has one; where it also has a column of time, that is often another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.api.tables import is_spark, to_arrow
from ensue.front.builder import Draft
from ensue.operator.notices import Notices

_TIME = re.compile(r"(.*_)?(ts|time|timestamp|datetime|date|at)|.*(Time|Timestamp|Date|At)")
KEY = re.compile(
    r"(.*_)?(user|customer|client|session|visitor|account|device|host|ip|symbol|ticker|vehicle|"
    r"patient|order|case|machine|sensor)(_?(id|key|name|no|number))?",
    re.IGNORECASE,
)
_SAID = "order_by(ensue.UNORDERED)"


def check_order(draft: Draft, data: Any, notices: Notices) -> None:
    """Refuse a batch DataFrame without an order; warn of a table that has another one.

    Streams refuse by themselves: they need an event time.
    """
    if draft.order_by or (is_spark(data) and data.isStreaming):
        return
    columns = time_columns(data)
    if is_spark(data) and not draft.unordered:
        raise errors.MissingOrderError(
            "a DataFrame has no order, and the pattern has no order_by(...): each run could give "
            "another answer",
            remedy=f"say which row comes first: order_by({(columns or ['ts'])[0]!r}), or that any "
            f"order will do: {_SAID}",
        )
    if columns and not is_spark(data) and not draft.unordered:
        notices.warn(
            errors.OrderWarning(
                f"the pattern has no order_by(...), so rows are matched in the order of the table; "
                f"its column {columns[0]!r} looks like time\n"
                f"What to do: order_by({columns[0]!r}), or {_SAID} to keep the table's order"
            )
        )


def unordered_sql(columns: Iterable[str]) -> errors.OrderWarning:
    """The warning for a clause without ORDER BY, which the standard allows."""
    likely = [name for name in columns if _TIME.fullmatch(name)]
    return errors.OrderWarning(
        "the row pattern has no ORDER BY: Spark hands rows over in any order, and each run could "
        "give another answer\n"
        f"What to do: write ORDER BY {(likely or ['ts'])[0]} after PARTITION BY"
    )


def unordered_here(table: pa.Table) -> errors.OrderWarning | None:
    """The same over a table, whose rows come in an order: perhaps not that of time."""
    likely = time_columns(table)
    if not likely:
        return None
    return errors.OrderWarning(
        "the row pattern has no ORDER BY, so rows are matched in the order in which they come; the "
        f"column {likely[0]!r} looks like time\n"
        f"What to do: write ORDER BY {likely[0]} after PARTITION BY"
    )


def time_columns(data: Any) -> list[str]:
    """Columns that look like time, by type or by name; those by type first."""
    if is_spark(data):
        kinds = [(field.name, field.dataType.typeName()) for field in data.schema.fields]
        typed = [name for name, kind in kinds if kind in ("timestamp", "timestamp_ntz", "date")]
    else:
        kinds = [(field.name, str(field.type)) for field in data.schema]
        typed = [f.name for f in data.schema if pa.types.is_temporal(f.type)]
    named = [name for name, _ in kinds if _TIME.fullmatch(name) and name not in typed]
    return typed + named


def key_hint(draft: Draft, data: Any) -> str:
    """A line of `explain` for a table with an obvious key that the pattern does not use."""
    if draft.partition_by:
        return ""
    if not is_spark(data):
        data = to_arrow(data)
    names = data.columns if is_spark(data) else data.column_names
    likely = [name for name in names if KEY.fullmatch(name)]
    if not is_spark(data):
        likely = [n for n in likely if 1 < len(data.column(n).unique()) <= data.num_rows // 2]
    if not likely:
        return ""
    return (
        f"hint: all rows are one partition, and {likely[0]!r} looks like a key: "
        f"partition_by({likely[0]!r}) matches the rows of each apart\n"
    )
