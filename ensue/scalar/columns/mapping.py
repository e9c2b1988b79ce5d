"""The catalogue's plain Python functions over Arrow columns, once per distinct value.

The slow path for what Arrow has no kernel for: with one column among the arguments it is encoded
as a dictionary first, so that a condition on a column of few values costs few calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ensue.scalar.arrow_kinds import to_arrow
from ensue.scalar.casts import MICROSECOND, BadValueError
from ensue.scalar.columns.faults import BadRowError
from ensue.scalar.kinds import Kind
from ensue.scalar.moments import in_zone

Value: TypeAlias = "pa.Array | pa.Scalar"


def mapped(
    function: Callable[..., Any], operands: Sequence[Value], kind: Kind, *, sees_null: bool = False
) -> Value:
    """`function` of each row; null in, null out unless it sees nulls."""
    wanted = to_arrow(kind)
    arrays = [operand for operand in operands if isinstance(operand, pa.Array)]
    if not arrays:
        values = [_one(operand) for operand in operands]
        return _column(_each(function, [values], sees_null), wanted)[0]
    if len(arrays) == 1 and not pa.types.is_nested(arrays[0].type) and not sees_null:
        return _mapped_distinct(function, operands, arrays[0], wanted)
    length = len(arrays[0])
    columns = [
        _listed(operand) if isinstance(operand, pa.Array) else [_one(operand)] * length
        for operand in operands
    ]
    return _column(_each(function, list(zip(*columns, strict=True)), sees_null), wanted)


def _mapped_distinct(
    function: Callable[..., Any], operands: Sequence[Value], array: pa.Array, wanted: pa.DataType
) -> pa.Array:
    encoded = pc.dictionary_encode(array)
    try:
        rows = [
            [value if operand is array else _one(operand) for operand in operands]
            for value in _listed(encoded.dictionary)
        ]
        results = _column(_each(function, rows, False), wanted)
    except BadRowError as fault:
        first = pc.index(encoded.indices, pa.scalar(fault.row, encoded.indices.type)).as_py()
        raise BadRowError(first, fault.fault) from None
    return results.take(encoded.indices)


def _column(values: list[Any], wanted: pa.DataType) -> pa.Array:
    """Intervals go by their number: Arrow takes the longest of Python's for ones too long."""
    if pa.types.is_duration(wanted):
        micros = [value if value is None else value // MICROSECOND for value in values]
        return pa.array(micros, pa.int64()).cast(wanted)
    if pa.types.is_list(wanted) and pa.types.is_duration(wanted.value_type):
        lists = [v if v is None else _column(v, wanted.value_type).cast(pa.int64()) for v in values]
        return pa.array(lists, pa.list_(pa.int64())).cast(wanted)
    return pa.array(values, wanted)


def _listed(values: pa.Array) -> list[Any]:
    try:
        return in_zone(values.to_pylist(), values.type)
    except (OverflowError, ValueError):
        return [_one(value, row) for row, value in enumerate(values)]


def _one(value: pa.Scalar, row: int = 0) -> Any:
    try:
        return in_zone([value.as_py()], value.type)[0]
    except (OverflowError, ValueError):
        problem = f"{value} is outside the years 1 to 9999, which plain values do not hold"
        raise BadRowError(row, BadValueError(problem, overflow=True)) from None


def _each(
    function: Callable[..., Any], rows: Sequence[Sequence[Any]], sees_null: bool
) -> list[Any]:
    results: list[Any] = []
    for values in rows:
        if not sees_null and any(value is None for value in values):
            results.append(None)
            continue
        try:
            results.append(function(*values))
        except BadValueError as fault:
            raise BadRowError(len(results), fault) from None
    return results
