"""avg(x): the total, as `sum` keeps it, divided by the number of values.

The state is (total, how many values). Whole numbers are added exactly and turned to a double once,
at the end; Spark adds doubles. The two differ only where a total passes 2^53, and there Spark's
answer hangs on the order of its rows. Decimals and intervals are divided exactly and rounded once,
half up, as Spark does.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.aggregate import columns as flat
from ensue.aggregate import total as totals
from ensue.aggregate.base import Offsets, plain_type

_MAX_DIGITS = 38  # of a decimal in Spark
_EXTRA_DIGITS = 4  # that an average has more than its argument
_MICROSECOND = timedelta(microseconds=1)


class Average(totals.Totals):
    name = "avg"

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        given = plain_type(argument_types[0])
        if pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_null(given):
            return pa.float64()
        if pa.types.is_decimal(given):
            return pa.decimal128(
                min(_MAX_DIGITS, given.precision + _EXTRA_DIGITS), _average_scale(given.scale)
            )
        if pa.types.is_duration(given):
            return pa.duration("us")
        raise self.refuse_type(given, totals.NUMERIC)

    def finish(self, state: totals.Total) -> Any:
        total, count = state
        if count == 0:
            return None
        if isinstance(total, decimal.Decimal):
            scale = -int(total.as_tuple().exponent)
            return _quotient(int(total.scaleb(scale, totals.EXACT)), scale, count)
        if isinstance(total, timedelta):
            return _MICROSECOND * _half_up(total // _MICROSECOND, count)
        return float(total) / count

    def over_columns(
        self, columns: list[pa.Array], offsets: Offsets, running: bool
    ) -> pa.Array | None:
        column = columns[0]
        if pa.types.is_integer(column.type) and totals.has_exact_integers(column.type):
            low, high, counts, beyond = totals.integer_totals(column, offsets, running)
            sums = low.view(np.int64).astype(np.float64)
            for index in beyond:
                sums[index] = float(int(low[index]) + (int(high[index]) << 64))
        elif pa.types.is_floating(column.type):
            sums, counts = totals.float_totals(column, offsets, running)
        elif pa.types.is_decimal128(column.type):
            return self._decimal_averages(column, offsets, running)
        else:
            return None
        return flat.column(sums / np.maximum(counts, 1), counts > 0, pa.float64())

    def _decimal_averages(self, column: pa.Array, offsets: Offsets, running: bool) -> pa.Array:
        """Exact totals from the kernel, then one division per result in Python's integers."""
        parts, counts = totals.decimal_totals(column, offsets, running)
        scale = column.type.scale
        results = [
            _quotient(unscaled, scale, count) if count else None
            for unscaled, count in zip(_signed(parts), counts.tolist(), strict=True)
        ]
        return self.column(results, self.result_type([column.type]))


def _average_scale(scale: int) -> int:
    return min(_MAX_DIGITS, scale + _EXTRA_DIGITS)


def _quotient(unscaled: int, scale: int, count: int) -> decimal.Decimal:
    target = _average_scale(scale)
    rounded = _half_up(unscaled * 10 ** (target - scale), count)
    return decimal.Decimal(rounded).scaleb(-target, totals.EXACT)


def _half_up(dividend: int, divisor: int) -> int:
    """Rounded to the nearest, halves away from zero."""
    magnitude = (2 * abs(dividend) + divisor) // (2 * divisor)
    return magnitude if dividend >= 0 else -magnitude


def _signed(parts: NDArray[np.uint64]) -> list[int]:
    """Python integers from three limbs in two's complement."""
    low, middle = parts[:, 0].tolist(), parts[:, 1].tolist()
    top = parts[:, 2].view(np.int64).tolist()
    return [a + (b << 64) + (c << 128) for a, b, c in zip(low, middle, top, strict=True)]
