"""sum(x): exact for whole numbers and decimals, in row order for floating point.

The state is (total, how many values); the number tells a sum of nothing, null, from 0.

The kernels never lose a carry: a sum of int64 is kept in two 64-bit limbs, one of decimal128 in
three. (Low limbs are unsigned because Numba takes signed sums never to overflow.) Overflow is
therefore a property of the result, not of the way there: Long.MAX + 1 - 1 is Long.MAX, while Spark,
which checks after every row, may or may not raise, by the order in which the rows come. Results
outside the type raise `OverflowDataError`, as Spark's ANSI mode does.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from ensue.aggregate import columns as flat
from ensue.aggregate.base import Aggregate, Offsets, plain_type

NUMERIC = "a whole number, a floating point number, a decimal or an interval"
Total = tuple[Any, int]

_INT64 = range(-(2**63), 2**63)
# decimal256 has 76 digits and there are fewer than 10^19 rows: no sum is ever rounded.
EXACT = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)


class Totals(Aggregate):
    """An aggregate whose state is a total and the number of its values: sum and avg."""

    def identity(self) -> Total:
        return 0, 0

    def absorb(self, state: Total, *values: Any) -> Total:
        (value,), (total, count) = values, state
        if value is None:
            return state
        if count == 0:
            # 0.0 + x turns -0.0 into 0.0, as a sum that starts at zero does.
            return (0.0 + value if isinstance(value, float) else value), 1
        if isinstance(total, decimal.Decimal):
            return EXACT.add(total, value), count + 1
        return total + value, count + 1


class Sum(Totals):
    name = "sum"

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        given = plain_type(argument_types[0])
        if pa.types.is_integer(given):
            return pa.int64()
        if pa.types.is_floating(given) or pa.types.is_null(given):
            return pa.float64()
        if pa.types.is_decimal(given):
            return pa.decimal128(min(38, given.precision + 10), given.scale)
        if pa.types.is_duration(given):
            return given
        raise self.refuse_type(given, NUMERIC)

    def finish(self, state: Total) -> Any:
        total, count = state
        if count == 0:
            return None
        if isinstance(total, int) and total not in _INT64:
            raise self.overflow(pa.int64())
        return total

    def over_columns(
        self, columns: list[pa.Array], offsets: Offsets, running: bool
    ) -> pa.Array | None:
        column = columns[0]
        result = self.result_type([column.type])
        if has_exact_integers(column.type):
            low, _, counts, beyond = integer_totals(column, offsets, running)
            if len(beyond):
                raise self.overflow(result)
            return flat.column(low, counts > 0, result)
        if pa.types.is_floating(column.type):
            sums, counts = float_totals(column, offsets, running)
            return flat.column(sums, counts > 0, result)
        if pa.types.is_decimal128(column.type):
            parts, counts = decimal_totals(column, offsets, running)
            if not _fits(parts, *divmod(10**result.precision, 2**64)):
                raise self.overflow(result)
            return flat.column(np.ascontiguousarray(parts[:, :2]), counts > 0, result)
        return None


# -- totals over columns, shared with avg ----------------------------------------------------------


def has_exact_integers(kind: pa.DataType) -> bool:
    """Whether the column's values can be read as int64."""
    if pa.types.is_integer(kind):
        return not pa.types.is_uint64(kind)
    return pa.types.is_duration(kind)


def integer_totals(
    column: pa.Array, offsets: Offsets, running: bool
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(low limbs, high limbs, counts; indexes of totals outside int64) of segments, or rows."""
    values, valid = flat.integers(column), flat.validity(column)
    low, high, counts = _integer_totals(values, valid, offsets, running)
    return low, high, counts, np.flatnonzero(high != low.view(np.int64) >> 63)


def float_totals(
    column: pa.Array, offsets: Offsets, running: bool
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return _float_totals(flat.floats(column), flat.validity(column), offsets, running)


def decimal_totals(
    column: pa.Array, offsets: Offsets, running: bool
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """([result, 3] limbs of the unscaled total, low first, in two's complement; values)."""
    return _decimal_totals(flat.limbs(column), flat.validity(column), offsets, running)


@njit(cache=True, nogil=True)
def _add_integer(low: np.uint64, high: np.int64, value: np.int64) -> tuple[np.uint64, np.int64]:
    added = low + np.uint64(value)
    carry = 1 if added < low else 0
    return added, high + carry - (1 if value < 0 else 0)


@njit(cache=True, nogil=True)
def _integer_totals(
    values: NDArray[np.int64], valid: flat.Mask, offsets: Offsets, running: bool
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    nullable = valid.shape[0] > 0
    size = offsets[-1] if running else offsets.shape[0] - 1
    lows = np.empty(size, np.uint64)
    highs = np.empty(size, np.int64)
    counts = np.empty(size, np.int64)
    for segment in range(offsets.shape[0] - 1):
        low, high, count = np.uint64(0), np.int64(0), np.int64(0)
        for row in range(offsets[segment], offsets[segment + 1]):
            if not nullable or valid[row]:
                low, high = _add_integer(low, high, values[row])
                count += 1
            if running:
                lows[row], highs[row], counts[row] = low, high, count
        if not running:
            lows[segment], highs[segment], counts[segment] = low, high, count
    return lows, highs, counts


@njit(cache=True, nogil=True)
def _float_totals(
    values: NDArray[np.float64], valid: flat.Mask, offsets: Offsets, running: bool
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    nullable = valid.shape[0] > 0
    size = offsets[-1] if running else offsets.shape[0] - 1
    totals = np.empty(size, np.float64)
    counts = np.empty(size, np.int64)
    for segment in range(offsets.shape[0] - 1):
        total, count = 0.0, np.int64(0)
        for row in range(offsets[segment], offsets[segment + 1]):
            if not nullable or valid[row]:
                total += values[row]
                count += 1
            if running:
                totals[row], counts[row] = total, count
        if not running:
            totals[segment], counts[segment] = total, count
    return totals, counts


@njit(cache=True, nogil=True)
def _add_limbs(total: NDArray[np.uint64], low: np.uint64, high: np.uint64) -> None:
    """total += value, where the value's third limb is the sign of `high` extended."""
    top = np.uint64(0xFFFFFFFFFFFFFFFF) if high >> np.uint64(63) else np.uint64(0)
    zero, one = np.uint64(0), np.uint64(1)
    added = total[0] + low
    carry = one if added < low else zero
    total[0] = added
    middle = total[1] + high
    carry_high = one if middle < high else zero
    total[1] = middle + carry
    if carry == one and total[1] == zero:
        carry_high = one
    total[2] = total[2] + top + carry_high


@njit(cache=True, nogil=True)
def _decimal_totals(
    values: NDArray[np.uint64], valid: flat.Mask, offsets: Offsets, running: bool
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    nullable = valid.shape[0] > 0
    size = offsets[-1] if running else offsets.shape[0] - 1
    totals = np.empty((size, 3), np.uint64)
    counts = np.empty(size, np.int64)
    scratch = np.empty(3, np.uint64)
    for segment in range(offsets.shape[0] - 1):
        total = scratch if running else totals[segment]
        total[:] = 0
        count = np.int64(0)
        for row in range(offsets[segment], offsets[segment + 1]):
            if not nullable or valid[row]:
                _add_limbs(total, values[row, 0], values[row, 1])
                count += 1
            if running:
                totals[row] = total
                counts[row] = count
        if not running:
            counts[segment] = count
    return totals, counts


def _fits(parts: NDArray[np.uint64], limit_high: int, limit_low: int) -> bool:
    """Whether every |total| lies below the limit, 10^precision."""
    low, high, top = parts[:, 0], parts[:, 1], parts[:, 2]
    negative = high >> np.uint64(63) == 1
    if np.any(top != np.where(negative, np.uint64(2**64 - 1), np.uint64(0))):
        return False
    # Two's complement: minus x is not x, plus 1.
    magnitude_low = np.where(negative, ~low + np.uint64(1), low)
    magnitude_high = np.where(negative, ~high + (low == 0).astype(np.uint64), high)
    below = (magnitude_high < limit_high) | (
        (magnitude_high == limit_high) & (magnitude_low < limit_low)
    )
    return bool(below.all())
