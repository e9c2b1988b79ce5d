"""Arithmetic on Arrow columns: integers checked, division by zero refused, decimals exact.

Each function answers None where Arrow's kernel does not do what Spark does; the caller then maps
the catalogue's Python function over the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue.scalar.arrow_kinds import to_arrow
from ensue.scalar.casts import BadValueError
from ensue.scalar.columns.compare import has_nan
from ensue.scalar.columns.faults import BadRowError, guarded
from ensue.scalar.columns.mapping import Value
from ensue.scalar.columns.time import in_utc, moved_days, wall_clock
from ensue.scalar.infer import Typed
from ensue.scalar.kinds import MAX_PRECISION, Kind

Operands = list[Value]


def _kinds(node: Typed) -> tuple[Kind, ...]:
    return tuple(operand.kind for operand in node.operands)


def _overflow(node: Typed) -> str:
    return f"the result does not fit {node.kind}"


def _binary(plain: Any, checked: Any) -> Callable[[Operands, Typed], Value | None]:
    def kernel(operands: Operands, node: Typed) -> Value | None:
        kind, (a, b) = node.kind, _kinds(node)
        if kind.name == "float":
            return plain(*operands)
        if kind.name == "int" and a.name == "int":
            return guarded(checked, operands, _overflow(node))
        if kind.name == "decimal" and kind.precision < MAX_PRECISION:
            return plain(*operands)
        if {a.name, b.name} <= {"timestamp", "interval"} and "timestamp" in (a.name, b.name):
            return _moved(operands, node, plain)
        if a.name == b.name == "interval":
            # As numbers: Arrow also checks what lies under the nulls of durations.
            micros = [pc.cast(operand, pa.int64()) for operand in operands]
            return pc.cast(guarded(checked, micros, _overflow(node)), to_arrow(kind))
        if a.name == b.name == "date":
            days = pc.subtract(*(pc.cast(o, pa.int32()) for o in operands))
            return pc.multiply(pc.cast(days, pa.int64()), 86_400_000_000).cast(pa.duration("us"))
        if a.name == "date" and b.name == "int":
            return moved_days(operands[0], operands[1], checked)
        return None

    return kernel


def _moved(operands: Operands, node: Typed, plain: Any) -> Value | None:
    """Timestamps moved by an interval, or their difference, on the wall clock."""
    a, b = _kinds(node)
    if a.name == b.name:
        clocks = [wall_clock(operand, a) for operand in operands]
        return None if any(clock is None for clock in clocks) else plain(*clocks)
    interval = operands[1] if b.name == "interval" else operands[0]
    return plain(*operands) if in_utc(node.kind) or _within_a_day(interval) else None


def _within_a_day(intervals: Value) -> bool:
    """Whether no whole day is added, which in other zones goes by the wall clock."""
    micros = pc.abs(pc.cast(intervals, pa.int64()))
    if isinstance(micros, pa.Scalar):
        return not micros.is_valid or micros.as_py() < 86_400_000_000
    return pc.all(pc.less(micros, 86_400_000_000)).as_py() is not False


def _multiply(operands: Operands, node: Typed) -> Value | None:
    a, b = _kinds(node)
    if a.numeric and b.numeric:
        return _PRODUCT(operands, node)
    return None


_PRODUCT = _binary(pc.multiply, pc.multiply_checked)


def _refuse_zero(operands: Operands) -> None:
    """Division by zero is an error only where the dividend is not null."""
    above, below = operands
    zero = pc.and_(pc.equal(below, pa.scalar(0, below.type)), pc.is_valid(above))
    if isinstance(zero, pa.Scalar):
        if zero.as_py():
            raise BadRowError(0, BadValueError("division by zero"))
    elif pc.any(zero).as_py():
        raise BadRowError(pc.index(zero, True).as_py(), BadValueError("division by zero"))


def _divide(operands: Operands, node: Typed) -> Value | None:
    if node.kind.name != "float":
        return None
    _refuse_zero(operands)
    return pc.divide(*operands)


def _intdiv(operands: Operands, node: Typed) -> Value | None:
    if _kinds(node)[0].name != "int":
        return None
    _refuse_zero(operands)
    return guarded(pc.divide_checked, operands, _overflow(node))


def _remainder(operands: Operands, node: Typed) -> Value | None:
    if node.kind.name == "decimal" or all(isinstance(o, pa.Scalar) for o in operands):
        return None
    _refuse_zero(operands)
    wanted = to_arrow(node.kind)
    above, below = (_numbers(o, wanted) for o in operands)
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = pa.array(np.fmod(above, below), wanted)
    valid = pc.and_(*(pc.is_valid(o) for o in operands))
    return pc.if_else(valid, rest, pa.scalar(None, wanted))


def _numbers(value: Value, wanted: pa.DataType) -> Any:
    filled = pc.fill_null(value, pa.scalar(1, wanted))
    return filled.as_py() if isinstance(value, pa.Scalar) else filled.to_numpy()


def _negate(operands: Operands, node: Typed) -> Value | None:
    if node.kind.name == "int":
        return guarded(pc.negate_checked, operands, _overflow(node))
    if node.kind.name == "interval":
        micros = [pc.cast(operands[0], pa.int64())]
        return pc.cast(guarded(pc.negate_checked, micros, _overflow(node)), to_arrow(node.kind))
    return pc.negate(operands[0]) if node.kind.name == "float" else None


def _absolute(operands: Operands, node: Typed) -> Value | None:
    if node.kind.name == "int":
        return guarded(pc.abs_checked, operands, _overflow(node))
    return pc.abs(operands[0]) if node.kind.name == "float" else None


def _whole(function: Any) -> Callable[[Operands, Typed], Value | None]:
    def kernel(operands: Operands, node: Typed) -> Value | None:
        if _kinds(node)[0].name == "int":
            return operands[0]
        if _kinds(node)[0].name != "float" or isinstance(operands[0], pa.Scalar):
            return None
        cut = function(operands[0])
        least, greatest = -(2.0**63), 2.0**63
        inside = pc.and_(pc.greater_equal(cut, least), pc.less(cut, greatest))
        if not pc.all(inside).as_py():
            return None
        return pc.cast(cut, pa.int64(), safe=False)

    return kernel


def _double(function: Any) -> Callable[[Operands, Typed], Value | None]:
    return lambda operands, _node: function(*operands)


def _logarithm(function: Any) -> Callable[[Operands, Typed], Value | None]:
    def kernel(operands: Operands, _node: Typed) -> Value | None:
        # NaN is not positive in Arrow and stays NaN in Spark, hence the negation.
        refused = pc.less_equal(operands[0], 0.0)
        return pc.if_else(refused, pa.scalar(None, pa.float64()), function(operands[0]))

    return kernel


def _is_nan(operands: Operands, _node: Typed) -> Value:
    return pc.fill_null(pc.is_nan(operands[0]), False)


def _extreme(function: Any) -> Callable[[Operands, Typed], Value | None]:
    def kernel(operands: Operands, node: Typed) -> Value | None:
        if node.kind.name in ("boolean", "null"):
            return None
        if node.kind.name == "float" and any(map(has_nan, operands)):
            return None
        if node.kind.name in ("timestamp", "interval"):
            wanted = to_arrow(node.kind)
            numbers = [pc.cast(operand, pa.int64()) for operand in operands]
            return pc.cast(function(*numbers, skip_nulls=True), wanted)
        return function(*operands, skip_nulls=True)

    return kernel


ARITHMETIC: dict[str, Callable[[Operands, Typed], Value | None]] = {
    "add": _binary(pc.add, pc.add_checked),
    "sub": _binary(pc.subtract, pc.subtract_checked),
    "mul": _multiply,
    "div": _divide,
    "intdiv": _intdiv,
    "mod": _remainder,
    "neg": _negate,
    "abs": _absolute,
    "ceil": _whole(pc.ceil),
    "floor": _whole(pc.floor),
    "sqrt": _double(pc.sqrt),
    "exp": _double(pc.exp),
    "ln": _logarithm(pc.ln),
    "log10": _logarithm(pc.log10),
    "isnan": _is_nan,
    "greatest": _extreme(pc.max_element_wise),
    "least": _extreme(pc.min_element_wise),
}
