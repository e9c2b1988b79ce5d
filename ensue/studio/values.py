"""Values of tables as JSON says them."""

from __future__ import annotations

import base64
import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

SAFE = 2**53  # integers up to here are exact in JavaScript
MAX_VALUE = 2_000  # characters of one value
Cell = None | bool | int | float | str


def cell(value: Any) -> Cell:
    """Null, boolean, number or text."""
    match value:
        case None | bool():
            return value
        case int():
            return value if -SAFE <= value <= SAFE else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return value if len(value) <= MAX_VALUE else value[: MAX_VALUE - 1] + "…"
        case Decimal():
            return str(value)
        case datetime.datetime():
            return value.isoformat(" ")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value[:MAX_VALUE]).decode()
    return cell(_nested(value))


def _nested(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(v)}" for name, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    return str(value)


def _text(value: Any) -> str:
    found = cell(value)
    return "null" if found is None else str(found)


def cells(table: pa.Table) -> list[list[Cell]]:
    """Row by row."""
    columns = [column_cells(table.column(i)) for i in range(table.num_columns)]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def column_cells(column: pa.ChunkedArray) -> list[Cell]:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    return [cell(value) for value in column.to_pylist()]


def label(values: list[Any]) -> str:
    """The name of a partition; one without columns has none."""
    return " · ".join("null" if value is None else str(value) for value in values)


def classed(kind: pa.DataType) -> str:
    """What a column is to a reader: number, text, time, boolean or other."""
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "time"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return "other"
