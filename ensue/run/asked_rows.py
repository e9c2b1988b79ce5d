"""The rows that a user expected to match, as written: per label, or alone, by number or by order
value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.operator.arrange import flat
from ensue.query.query import Query

_FORM = 'write rows=[0, 1, 2], rows={"A": 0, "B": [1, 2]}, or the order values: events={"A": ...}'
Given = tuple[str | None, Any]  # label and row number or order value


@dataclass(frozen=True)
class Expected:
    """As given: without a label, a row is whatever gets farthest."""

    given: tuple[Given, ...]
    by_order: bool

    @classmethod
    def of(cls, query: Query, per: str, rows: Any, events: Any) -> Self:
        """What was given as `rows` or `events`: a mapping, pairs, or the rows alone."""
        if (rows is None) == (events is None) or per != "partition":
            raise errors.QueryError(
                "why() takes one of rows=, events= and per=",
                remedy="ask about rows that were expected to match on their own",
            )
        told = rows if events is None else events
        given = list(_pairs(told))
        shown = [label for label in query.labels if label not in query.unseen]
        for label, _ in given:
            if label is not None and label not in shown:
                raise errors.UnknownVariableError(
                    f"why() expects a row of {label!r}, and the pattern has no such variable",
                    remedy=f"its variables are {', '.join(shown)}",
                )
        if not given:
            raise errors.QueryError("why() expects no row at all", remedy=_FORM)
        if events is not None and not query.order_by:
            raise errors.QueryError(
                "why(events=...) names rows by their order value, and there is no order_by",
                remedy="say order_by(...), or give row numbers: rows={...}",
            )
        return cls(tuple(given), events is not None)

    def pairs(self, query: Query, arranged: pa.Table) -> list[tuple[int, str | None]]:
        """(row, label) in the order of the rows of one partition."""
        if self.by_order:
            name = query.order_by[0].column
            column = flat(arranged, name)
            found = [(_row_at(column, name, value), label) for label, value in self.given]
        else:
            found = [(_row(value, arranged.num_rows), label) for label, value in self.given]
        found.sort(key=lambda pair: pair[0])
        for (row, label), (other, second) in pairwise(found):
            if row == other:
                raise errors.QueryError(
                    f"why() expects row {row} as {label} and as {second}"
                    if label and second
                    else f"why() expects row {row} twice",
                    remedy="give each row once, as one variable",
                )
        return found


def _pairs(given: Any) -> Iterable[Given]:
    if isinstance(given, Mapping):
        for label, values in given.items():
            many = isinstance(values, (list, tuple, set, frozenset, range))
            yield from ((label, value) for value in (values if many else [values]))
        return
    if isinstance(given, str):
        raise errors.QueryError(f"why() cannot tell which rows {given!r} means", remedy=_FORM)
    try:
        for row in given:
            match row:
                case {"label": label, "row": value} | (label, value):
                    yield label, value
                case tuple() | list() | Mapping():
                    raise ValueError(row)
                case value:
                    yield None, value
    except (TypeError, ValueError, KeyError):
        raise errors.QueryError(
            f"why() cannot tell which rows {given!r} means", remedy=_FORM
        ) from None


def _row(value: Any, count: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise errors.QueryError(
            f"why(rows=...) names row {value!r}, and the partition has the rows 0 to {count - 1:,}",
            remedy="count rows from 0 in the order of the partition, or use events={...}",
        )
    return value


def _row_at(column: pa.Array, name: str, value: Any) -> int:
    try:
        wanted = value if isinstance(value, pa.Scalar) else pa.scalar(value, column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError):
        raise errors.ColumnTypeError(
            f"why(events=...) names {value!r}, which is not a value of {name!r}, of type "
            f"{column.type}",
            remedy="give values of the order column, or row numbers: rows={...}",
        ) from None
    same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, wanted), False)
    found = pc.indices_nonzero(same).to_pylist()
    if len(found) == 1:
        return int(found[0])
    what = f"{len(found)} rows have" if found else "no row of the partition has"
    raise errors.QueryError(
        f"why(events=...) names {name} = {value!r}, and {what} it",
        remedy="name rows by number: rows={...}",
    )
