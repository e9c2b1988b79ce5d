"""Times of tables as Python values, where Python has no date for them.

Spark's times are those of the years 1 to 9999 in the zone of the session, so that some of them lie
outside these years in UTC, or the other way round; windows begin before the first and end after the
last. Arrow holds them all as numbers, and `datetime` does not.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ensue.scalar.casts import zone_of


def in_numbers(table: pa.Table) -> pa.Table:
    """The table with numbers in place of times, of which Arrow makes the same times again."""
    kinds = [_in_numbers(field.type) for field in table.schema]
    if kinds == table.schema.types:
        return table
    fields = zip(table.column_names, kinds, strict=True)
    return table.cast(pa.schema(list(fields)))


def _in_numbers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_in_numbers(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_in_numbers(kind.key_type), _in_numbers(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _in_numbers(field.type)) for field in kind])
    return kind


def value_of(scalar: pa.Scalar) -> Any:
    """A value of a plain type as Python has it; the number of a time that has no date."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return scalar.value


def in_zone(values: list[Any], kind: pa.DataType) -> list[Any]:
    """Values of a column, times with their zone as Python knows it.

    Older pyarrow takes the zones of pytz, whose summer times end in 2037.
    """
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return values
    place = zone_of(kind.tz)
    return [value and value.astimezone(place) for value in values]


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return list(map(value_of, column))
