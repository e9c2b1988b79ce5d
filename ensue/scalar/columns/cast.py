"""CAST on Arrow columns: Arrow's kernel where it converts as Spark does, else value by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue.scalar.arrow_kinds import to_arrow
from ensue.scalar.casts import BadValueError, caster
from ensue.scalar.columns.faults import BadRowError, guarded
from ensue.scalar.columns.mapping import Value, mapped
from ensue.scalar.columns.time import in_utc, seconds, wall_clock
from ensue.scalar.infer import Typed
from ensue.scalar.kinds import Kind, bounds

# As many digits as a double holds exactly: the quotient by a power of ten is then rounded once.
_EXACT_DIGITS = 15
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def cast(value: Value, node: Typed) -> Value:
    source, target = node.operands[0].kind, node.kind
    wanted = to_arrow(target)
    if source.name == "null":
        null = pa.scalar(None, wanted)
        return null if isinstance(value, pa.Scalar) else pa.nulls(len(value), wanted)
    convert = caster(source, target)
    assert convert is not None
    if node.operation == "trycast":
        return mapped(_tried(convert), [value], target)
    fast = None if isinstance(value, pa.Scalar) else _fast(value, source, target, wanted)
    return mapped(convert, [value], target) if fast is None else fast


def _tried(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def attempt(value: Any) -> Any:
        try:
            return convert(value)
        except BadValueError:
            return None

    return attempt


def _fast(value: pa.Array, source: Kind, target: Kind, wanted: pa.DataType) -> Value | None:
    problem = f"a value does not fit {target}"
    match source.name, target.name:
        case ("int", "int"):
            return guarded(lambda v: pc.cast(v, wanted), [value], problem)
        case ("int" | "float" | "boolean", "float") | ("boolean", "int"):
            return pc.cast(value, wanted, safe=False)
        case ("int" | "boolean" | "date", "string") | ("string", "binary"):
            return pc.cast(value, wanted)
        case ("int", "decimal") if target.precision - target.scale >= _DIGITS[source.bits]:
            return pc.cast(value, wanted)
        case ("decimal", "decimal") if (
            target.scale >= source.scale
            and target.precision - target.scale >= source.precision - source.scale
        ):
            return pc.cast(value, wanted)
        case ("decimal", "float") if source.precision <= _EXACT_DIGITS and target.bits == 64:
            return _decimal_to_double(value, source.scale)
        case ("float", "int"):
            return _float_to_int(value, target, wanted)
        case ("string", "int"):
            return _text_to_int(value, wanted)
        case ("int" | "float", "boolean"):
            return pc.not_equal(value, pa.scalar(0, value.type))
        case ("timestamp", "timestamp"):
            return _between_clocks(value, source, target, wanted)
        case ("date", "timestamp") if in_utc(target):
            return pc.cast(pc.cast(value, pa.timestamp("us")), wanted)
        case ("timestamp", "date"):
            wall = wall_clock(value, source)
            return None if wall is None else pc.cast(pc.floor_temporal(wall, unit="day"), wanted)
        case ("timestamp", "int"):
            return guarded(lambda v: pc.cast(seconds(v), wanted), [value], problem)
        case ("interval", "interval"):
            return value
        case _:
            return None


def _between_clocks(
    value: pa.Array, source: Kind, target: Kind, wanted: pa.DataType
) -> Value | None:
    if source.zoned and target.zoned:
        return pc.cast(value, wanted)
    if source.zoned:
        return wall_clock(value, source)
    return pc.cast(value, wanted) if in_utc(target) else None


def _float_to_int(value: pa.Array, target: Kind, wanted: pa.DataType) -> Value:
    low, high = bounds(target)
    cut = pc.trunc(value)
    # 2**63 is exact as a float, 2**63 - 1 is not.
    outside = pc.invert(pc.and_(pc.greater_equal(cut, float(low)), pc.less(cut, float(high + 1))))
    if pc.any(outside).as_py():
        row = pc.index(outside, True).as_py()
        shown = value[row].as_py()
        raise BadRowError(row, BadValueError(f"{shown} does not fit {target}", overflow=True))
    return (
        pc.cast(pc.fill_null(cut, 0), wanted, safe=False)
        if cut.null_count == 0
        else _masked(cut, wanted)
    )


def _decimal_to_double(value: pa.Array, scale: int) -> pa.Array:
    words = np.frombuffer(value.buffers()[1], np.int64)[::2]
    unscaled = words[value.offset : value.offset + len(value)]
    return pa.array(unscaled / 10.0**scale, mask=np.asarray(pc.is_null(value)))


def _masked(cut: pa.Array, wanted: pa.DataType) -> pa.Array:
    whole = pc.cast(pc.fill_null(cut, 0.0), wanted, safe=False)
    return pc.if_else(pc.is_valid(cut), whole, pa.scalar(None, wanted))


def _text_to_int(value: pa.Array, wanted: pa.DataType) -> Value | None:
    """Plain digits that surely fit; anything else goes value by value."""
    most = {8: 2, 16: 4, 32: 9, 64: 18}[wanted.bit_width]
    plain = pc.match_substring_regex(value, pattern=rf"\A-?[0-9]{{1,{most}}}\z")
    return pc.cast(value, wanted) if pc.all(plain).as_py() is not False else None
