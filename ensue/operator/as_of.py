"""Until when time is known to have passed, at the end of a table: `as_of=`.

An attempt times out, and a final `!x` is proved, once time has passed its window. A later row of
the partition says so, a watermark does, and at the end of a table `as_of` does: by default the
latest time of the order column in the whole table, whatever its partition. What is open then is
neither a match nor a time-out. "end" declares the data complete: nothing is open.

The time travels as a column of its own, of the order column's type, which is the same on every row:
so a task of Spark knows the time of the whole table without having seen it. Null: no time is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.automaton.plan import PREFIX
from ensue.automaton.sequence import compile_sequence
from ensue.query import nodes
from ensue.query.query import OrderKey, Query, WindowKind

END = "end"  # the data is complete
LATEST = None  # the latest time in the table
AS_OF = f"{PREFIX}as_of"  # the column


def unsaid(query: Query) -> Any:
    """What a call over a table means that does not say `as_of`."""
    return LATEST if proves_absence(query) else END


def time_for(queries: Iterable[Query], as_of: Any) -> tuple[Query | None, Any]:
    """Of patterns that share their rows: one by whose order time is known, and the time."""
    waiting = [query for query in queries if proves_absence(query)]
    if as_of == END or not waiting:
        return None, END
    timed = (query for query in waiting if time_key(query) is not None)
    return next(timed, waiting[0]), as_of


def proves_absence(query: Query) -> bool:
    """Whether time alone completes some match: a negated step ends the pattern."""
    if query.row_semantics or query.missing is not None:
        return False
    negated = any(isinstance(node, nodes.Negation) for node in nodes.walk(query.pattern))
    return negated and compile_sequence(query).absences


def asked(query: Query, timeouts: bool, as_of: Any, streaming: bool) -> Any:
    """What a call asks for; to a query that does not ask for the time, the data is complete."""
    if as_of is LATEST:
        return END if streaming else LATEST if timeouts else unsaid(query)
    if streaming or query.missing is not None or (query.row_semantics and not timeouts):
        what = "allows missing events" if query.missing is not None else "is a row pattern"
        raise errors.UnsupportedError(
            "as_of= is the time at the end of a table by which attempts are over, and "
            + ("this is a stream" if streaming else f"this pattern {what}"),
            remedy="leave as_of out; of a stream, the watermark is the time"
            if streaming or query.missing is not None
            else "leave as_of out, or ask for timeouts=True too",
        )
    if as_of != END and not timeouts and not proves_absence(query):
        raise errors.UnsupportedError(
            f"as_of={as_of!r} is the time by which attempts are over, and a match of this pattern "
            "waits for no time: it would change nothing",
            remedy="leave as_of out, or ask matches(..., timeouts=True); to leave out what came "
            "later, give the rows up to then",
        )
    return as_of


def time_key(query: Query) -> OrderKey | None:
    """The order column by which time passes; None where rows are counted, or nothing is."""
    if not query.order_by:
        return None
    if query.within is not None:
        return None if query.within.kind is WindowKind.ROWS else query.order_by[0]
    bounded = any(gap.within is not None for gap in nodes.gaps(query.pattern))
    return query.order_by[0] if bounded else None


def with_time(query: Query, table: pa.Table, as_of: Any) -> pa.Table:
    """The table with the column `AS_OF`."""
    key = time_key(query)
    return table.append_column(AS_OF, pa.repeat(moment(key, table, as_of), table.num_rows))


def moment(key: OrderKey | None, table: pa.Table, as_of: Any) -> pa.Scalar:
    """The time at the end of a table, of the order column's type."""
    if key is None:
        if as_of is not LATEST:
            raise counted_rows(as_of)
        return pa.scalar(None, pa.bool_())
    column = table.column(key.column)
    if as_of is LATEST:
        furthest = pc.min_max(column)["min" if key.descending else "max"]
        return furthest if table.num_rows else pa.scalar(None, column.type)
    return given(key.column, column.type, as_of)


def given(name: str, kind: pa.DataType, as_of: Any) -> pa.Scalar:
    """A caller's time as a value of the order column, in whose zone one without a zone is read."""
    try:
        if isinstance(as_of, (str, bool)):
            raise TypeError
        if isinstance(as_of, datetime) and as_of.tzinfo is None and pa.types.is_timestamp(kind):
            as_of = _in_zone(as_of, kind.tz)
        return pa.scalar(as_of, kind)
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        form = " (a datetime)" if pa.types.is_timestamp(kind) else ""
        raise errors.ColumnTypeError(
            f"as_of={as_of!r} is not a value of the order column {name!r}, which is of type {kind}",
            remedy=f'give a value of that type{form}, as_of="end" where the data is complete, or '
            "leave it out: the latest time in the table",
        ) from None


def _in_zone(moment: datetime, zone: str | None) -> datetime:
    if zone is None:
        return moment
    found: Any = pa.lib.string_to_tzinfo(zone)
    # Zones of pytz, which Arrow may give, have more than one offset and choose by themselves.
    localized: datetime = (
        found.localize(moment) if hasattr(found, "localize") else moment.replace(tzinfo=found)
    )
    return localized


def counted_rows(as_of: Any) -> errors.EnsueError:
    return errors.QueryError(
        f"as_of={as_of!r} is a time, and the window is counted in rows",
        remedy='leave it out, or write as_of="end" where the data is complete',
    )
