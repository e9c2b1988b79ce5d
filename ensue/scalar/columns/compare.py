"""Comparison on Arrow columns with Spark's order of floats: NaN equals NaN and is the greatest.

Arrow follows IEEE, where NaN compares false. Against a literal that is not NaN the Spark answer is
one of the IEEE comparisons or its negation, so nothing is paid; between two columns a single pass
looks for NaN, and only columns that hold one take the long way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue.scalar.columns.mapping import Value
from ensue.scalar.kinds import Kind

_DIRECT: dict[str, Any] = {
    "eq": pc.equal,
    "neq": pc.not_equal,
    "lt": pc.less,
    "lte": pc.less_equal,
    "gt": pc.greater,
    "gte": pc.greater_equal,
}
_MIRROR = {"eq": "eq", "neq": "neq", "lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}


def has_nan(value: Value) -> bool:
    """Whether a float column may hold a NaN (what lies under nulls counts too)."""
    if isinstance(value, pa.Scalar):
        return value.is_valid and math.isnan(value.as_py())
    if len(value) == 0 or value.null_count == len(value):
        return False
    numbers = np.frombuffer(value.buffers()[1], value.type.to_pandas_dtype())
    return bool(np.isnan(numbers[value.offset : value.offset + len(value)].min()))


def compare(name: str, a: Value, b: Value, kind: Kind) -> Value:
    if kind.name == "boolean":
        a, b = pc.cast(a, pa.uint8()), pc.cast(b, pa.uint8())
    if kind.name != "float":
        return _DIRECT[name](a, b)
    if isinstance(a, pa.Scalar) and not isinstance(b, pa.Scalar):
        return compare(_MIRROR[name], b, a, kind)
    if isinstance(b, pa.Scalar) and not has_nan(b):
        if name in ("gt", "gte"):
            return pc.invert(_DIRECT["lte" if name == "gt" else "lt"](a, b))
        return _DIRECT[name](a, b)
    if not has_nan(a) and not has_nan(b):
        return _DIRECT[name](a, b)
    if name in ("gt", "lte"):
        a, b = b, a
    answer = _equal(a, b) if name in ("eq", "neq") else _less(a, b)
    return pc.invert(answer) if name in ("neq", "lte", "gte") else answer


def _equal(a: Value, b: Value) -> Value:
    return pc.or_kleene(pc.equal(a, b), pc.and_(pc.is_nan(a), pc.is_nan(b)))


def _less(a: Value, b: Value) -> Value:
    return pc.and_(pc.invert(pc.is_nan(a)), pc.or_(pc.less(a, b), pc.is_nan(b)))


def null_safe_equal(a: Value, b: Value, kind: Kind) -> Value:
    equal = pc.fill_null(compare("eq", a, b, kind), False)
    return pc.or_(equal, pc.and_(pc.is_null(a), pc.is_null(b)))


def is_in(subject: Value, choices: list[Value], kind: Kind) -> Value:
    """Three-valued IN."""
    literals = [c for c in choices if isinstance(c, pa.Scalar)]
    if len(literals) == len(choices) and isinstance(subject, pa.Array) and kind.name != "boolean":
        known = [c for c in literals if c.is_valid]
        if kind.name == "float":
            # The lookup is by bits, and 0.0 = -0.0.
            subject, known = pc.add(subject, 0.0), [pc.add(c, 0.0) for c in known]
        values = pa.array([c.as_py() for c in known], subject.type)
        found: Value = pc.is_in(subject, value_set=values)
        with_null = len(known) < len(literals)
        if with_null:
            found = pc.if_else(found, True, pa.scalar(None, pa.bool_()))
        return pc.if_else(pc.is_valid(subject), found, pa.scalar(None, pa.bool_()))
    result: Value = pa.scalar(False)
    for choice in choices:
        result = pc.or_kleene(result, compare("eq", subject, choice, kind))
    return result
