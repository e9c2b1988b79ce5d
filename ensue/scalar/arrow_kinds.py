"""Kinds of expressions from and to Arrow types, as Spark maps them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ensue.scalar import kinds as k
from ensue.scalar.kinds import Kind


def from_arrow(kind: pa.DataType) -> Kind:
    """The kind of an Arrow type; unsigned integers become the next wider signed one."""
    types = pa.types
    if types.is_dictionary(kind):
        return from_arrow(kind.value_type)
    if types.is_null(kind):
        return k.NULL
    if types.is_boolean(kind):
        return k.BOOLEAN
    if types.is_signed_integer(kind):
        return Kind("int", kind.bit_width)
    if types.is_unsigned_integer(kind):
        return Kind("int", kind.bit_width * 2) if kind.bit_width < 64 else k.decimal(20)
    if types.is_floating(kind):
        return k.DOUBLE if types.is_float64(kind) else k.FLOAT
    if types.is_decimal(kind) and kind.precision <= k.MAX_PRECISION and kind.scale >= 0:
        return k.decimal(kind.precision, kind.scale)
    if types.is_string(kind) or types.is_large_string(kind) or _is_view(kind, "string_view"):
        return k.STRING
    if (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or _is_view(kind, "binary_view")
    ):
        return k.BINARY
    if types.is_date(kind):
        return k.DATE
    if types.is_timestamp(kind):
        return k.timestamp(kind.tz)
    if types.is_duration(kind):
        return k.INTERVAL
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return k.array(from_arrow(kind.value_type))
    if types.is_struct(kind):
        return k.struct(tuple((field.name, from_arrow(field.type)) for field in kind))
    return k.other(str(kind))


def _is_view(kind: pa.DataType, name: str) -> bool:
    return str(kind) == name


def foreign(kind: Kind) -> bool:
    """Whether a type that is not one of ours is in it, so that columns pass through untouched."""
    parts = [inner for _, inner in kind.fields]
    if kind.element is not None:
        parts.append(kind.element)
    return kind.name == "other" or any(foreign(part) for part in parts)


_PLAIN: dict[str, Any] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "interval": pa.duration("us"),
    "months": pa.int32(),
}
_INTS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def to_arrow(kind: Kind) -> pa.DataType:
    """The Arrow type that Spark gives a column of this kind."""
    match kind.name:
        case "int":
            return _INTS[kind.bits]
        case "float":
            return pa.float32() if kind.bits == 32 else pa.float64()
        case "decimal":
            return pa.decimal128(kind.precision, kind.scale)
        case "timestamp":
            zone = (kind.zone or k.DEFAULT_ZONE) if kind.zoned else None
            return pa.timestamp("us", tz=zone)
        case "array":
            assert kind.element is not None
            return pa.list_(to_arrow(kind.element))
        case "struct":
            return pa.struct([(name, to_arrow(inner)) for name, inner in kind.fields])
        case _:
            return _PLAIN[kind.name]
