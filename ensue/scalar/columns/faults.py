"""Errors of data with their row: kernels raise without saying where, here the row is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.query.condition import Condition
from ensue.query.sql import describe
from ensue.scalar.casts import BadValueError


class BadRowError(Exception):
    """A fault at a row of the operands at hand; the evaluation knows which input row that is."""

    def __init__(self, row: int, fault: BadValueError) -> None:
        super().__init__(fault.problem)
        self.row = row
        self.fault = fault


def data_error(fault: BadValueError, origin: Condition, row: int | None) -> errors.DataError:
    kind = errors.OverflowDataError if fault.overflow else errors.DataError
    place = "" if row is None else f"row {row}: "
    return kind(
        f"{place}{fault.problem}, in {describe(origin)}",
        remedy="filter such rows, guard the expression with CASE or AND, or use TRY_CAST",
    )


def guarded(
    kernel: Callable[..., Any], operands: Sequence[Any], problem: str, *, overflow: bool = True
) -> Any:
    """`kernel(*operands)`; where Arrow refuses, the first row that makes it do so is named."""
    try:
        return kernel(*operands)
    except pa.ArrowInvalid:
        fault = BadValueError(problem, overflow=overflow)
    lengths = [len(o) for o in operands if isinstance(o, pa.Array)]
    low, high = 0, lengths[0] if lengths else 1
    while high - low > 1:
        middle = (low + high) // 2
        part = [o.slice(low, middle - low) if isinstance(o, pa.Array) else o for o in operands]
        try:
            kernel(*part)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    raise BadRowError(low, fault)
