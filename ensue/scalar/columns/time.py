"""Date and timestamp functions, array functions, on Arrow columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ensue.scalar.casts import is_utc
from ensue.scalar.columns.faults import guarded
from ensue.scalar.columns.mapping import Value
from ensue.scalar.functions.time import UNITS
from ensue.scalar.infer import Typed
from ensue.scalar.kinds import Kind

Operands = list[Value]
# Arrow knows summer time up to 2037 only, and rounds the local mean times of the 19th century.
_ZONES_FROM = 0
_ZONES_TO = 2_140_000_000_000_000
_PARTS: dict[str, Any] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
    "dayofyear": pc.day_of_year,
    "weekofyear": pc.iso_week,
}


def in_utc(kind: Kind) -> bool:
    """Whether the wall clock of a timestamp's zone is UTC's."""
    return not kind.zoned or is_utc(kind.zone)


def wall_clock(value: Value, kind: Kind) -> Value | None:
    """What the clocks of the zone show; None where Arrow's table of zones may be wrong."""
    if not kind.zoned or in_utc(kind):
        return pc.cast(value, pa.timestamp("us"))
    micros = pc.cast(value, pa.int64())
    if isinstance(micros, pa.Scalar):
        return None
    ends = pc.min_max(micros)
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    if least is not None and (least < _ZONES_FROM or greatest > _ZONES_TO):
        return None
    return pc.local_timestamp(value)


def _part(name: str) -> Callable[[Operands, Typed], Value | None]:
    function = _PARTS[name]

    def kernel(operands: Operands, node: Typed) -> Value | None:
        kind, value = node.operands[0].kind, operands[0]
        if kind.name == "timestamp":
            value = wall_clock(operands[0], kind)
        return None if value is None else pc.cast(function(value), pa.int32())

    return kernel


def _date_trunc(operands: Operands, node: Typed) -> Value | None:
    unit, values = operands
    if not isinstance(unit, pa.Scalar) or not in_utc(node.kind):
        return None
    name = UNITS.get((unit.as_py() or "").upper())
    return None if name is None else pc.floor_temporal(values, unit=name)


def _datediff(operands: Operands, _node: Typed) -> Value:
    return pc.subtract(*(pc.cast(operand, pa.int32()) for operand in operands))


def moved_days(day: Value, by: Value, function: Any) -> Value:
    """A date plus or minus whole days."""

    def move(day: Value, by: Value) -> Value:
        return pc.cast(function(pc.cast(day, pa.int32()), by), pa.date32())

    return guarded(move, [day, by], "the date is out of range")


def _date_add(operands: Operands, _node: Typed) -> Value:
    return moved_days(operands[0], operands[1], pc.add_checked)


def _unix_timestamp(operands: Operands, node: Typed) -> Value | None:
    if node.operands[0].kind.name == "string":
        return None
    return pc.divide(pc.cast(operands[0], pa.int64()), 1_000_000)


def seconds(timestamps: Value) -> Value:
    """Whole seconds since 1970, rounded down."""
    micros = pc.cast(timestamps, pa.int64())
    cut = pc.divide(micros, 1_000_000)
    uneven = pc.not_equal(pc.multiply(cut, 1_000_000), micros)
    negative = pc.and_(pc.less(micros, 0), uneven)
    return pc.subtract(cut, pc.cast(negative, pa.int64()))


def _size(operands: Operands, node: Typed) -> Value | None:
    if node.operands[0].kind.name == "null":
        return pc.cast(operands[0], pa.int32())
    return pc.cast(pc.list_value_length(operands[0]), pa.int32())


TIME: dict[str, Callable[[Operands, Typed], Value | None]] = {
    **{name: _part(name) for name in _PARTS},
    "date_trunc": _date_trunc,
    "datediff": _datediff,
    "date_add": _date_add,
    "to_date": lambda operands, _node: operands[0],
    "unix_timestamp": _unix_timestamp,
    "size": _size,
}
