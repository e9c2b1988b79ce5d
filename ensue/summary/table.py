"""Answers as a table: a row per key with its numbers and the events that are retained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.operator.arrange import flat
from ensue.operator.digits import digits
from ensue.query.query import Query
from ensue.summary.intake import VALUE
from ensue.summary.options import SummaryOptions

EVENTS = "events"


def answer_schema(
    query: Query, options: SummaryOptions, columns: Sequence[str], given: pa.Schema
) -> pa.Schema:
    """Keys, count, what was asked of the values (`VALUE`, where there are any), and events."""
    fields = [given.field(name) for name in query.partition_by]
    text = options.counts == "text"  # numbers as digits, of any length
    fields.append(pa.field("count", pa.string() if text else pa.decimal128(38, 0)))
    if VALUE in given.names:
        kind = given.field(VALUE).type
        fields += [
            pa.field("sum", pa.string() if text else _sum_type(kind)),
            pa.field("avg", pa.float64()),
            pa.field("min", kind),
            pa.field("max", kind),
        ]
    events = pa.struct([given.field(name) for name in columns])
    return pa.schema([*fields, pa.field(EVENTS, pa.list_(events))])


def answer_table(
    schema: pa.Schema,
    keys: Sequence[pa.Array],
    answers: Sequence[Mapping[str, Any]],
    events: pa.Table,
    ends: Sequence[int],
    *more: pa.Array,
) -> pa.Table:
    """`events` of all keys end to end, which `ends` divide; `more` columns stand behind them."""
    place = schema.names.index(EVENTS)
    columns = list(keys)
    for field in list(schema)[len(keys) : place]:
        shown = [_shown(found.get(field.name), field.type, field.name) for found in answers]
        columns.append(pa.array(shown, field.type))
    listed = schema.field(place).type
    fields = list(listed.value_type)
    rows = pa.StructArray.from_arrays([flat(events, f.name) for f in fields], fields=fields)
    columns.append(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), rows, listed))
    return pa.Table.from_arrays([*columns, *more], schema=schema)


def _shown(value: Any, kind: pa.DataType, name: str) -> Any:
    """A number of an answer as its column holds it."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return digits(value) if isinstance(value, int) else str(value)
    if not pa.types.is_decimal(kind):
        return value
    if abs(value) >= Decimal(10) ** (kind.precision - kind.scale):
        raise errors.OverflowDataError(
            f"a {name} has {len(digits(int(value)))} digits, and DECIMAL holds {kind.precision}",
            remedy="ask for digits: summarize(..., counts='text')",
        )
    return Decimal(value)


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(kind):
        return pa.float64()
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    return pa.decimal128(38, scale)
