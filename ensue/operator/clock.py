"""Event time as 64-bit codes: compare, add a duration, and tell the time again.

A watermark is compared with millions of events, so event times become integers that sort as the
times do, whatever the type of the column. The next code is the next moment that the type can tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.operator.arrange import order_codes
from ensue.operator.batch import unscaled
from ensue.query.duration import parse_duration, spelled
from ensue.query.query import OrderKey
from ensue.scalar.moments import value_of

LOWEST, HIGHEST = -(2**63), 2**63 - 1
BEYOND = 2**63  # past the last code
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Clock:
    """The event-time column of a stream and its type."""

    name: str
    kind: pa.DataType

    def __post_init__(self) -> None:
        types = pa.types
        known = (types.is_timestamp, types.is_date, types.is_integer, types.is_floating)
        if not any(is_kind(self.kind) for is_kind in (*known, types.is_decimal)):
            raise errors.ColumnTypeError(
                f"the column {self.name!r} of type {self.kind} cannot be the event time",
                remedy="order by a timestamp, date or numeric column",
            )

    @property
    def temporal(self) -> bool:
        return pa.types.is_timestamp(self.kind) or pa.types.is_date(self.kind)

    def codes(self, column: pa.Array) -> NDArray[np.int64]:
        """One code per time; 0 where there is none."""
        if pa.types.is_date64(self.kind):
            return pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
        if pa.types.is_decimal(self.kind):
            exact = unscaled(column, self.kind.scale) if len(column) else np.zeros(0, np.int64)
            if exact is None:
                raise self._too_large()
            return exact
        if pa.types.is_uint64(self.kind):
            try:
                return pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
            except pa.ArrowInvalid:
                raise self._too_large() from None
        return order_codes(column, OrderKey.of(self.name))[-1]

    def _too_large(self) -> errors.ColumnTypeError:
        return errors.ColumnTypeError(
            f"the event time {self.name!r} of type {self.kind} has values beyond 64 bits",
            remedy="cast it to a timestamp, a bigint or a double",
        )

    def code(self, time: Any) -> int:
        """The code of one time, given as a value of the column's type or as text."""
        if isinstance(time, str) and self.temporal:
            try:
                return int(self.codes(pa.array([time]).cast(self.kind))[0])
            except pa.ArrowInvalid:
                raise self._not_a_time(time) from None
        if isinstance(time, bool) or time is None:
            raise self._not_a_time(time)
        if isinstance(time, float) and math.isinf(time):
            return HIGHEST if time > 0 else LOWEST
        try:
            return int(self.codes(pa.array([time], self.kind))[0])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise self._not_a_time(time) from None

    def _not_a_time(self, time: Any) -> errors.ColumnTypeError:
        return errors.ColumnTypeError(
            f"{time!r} is not a time of the column {self.name!r}, which is of type {self.kind}",
            remedy="give a value of that type, or the text of a timestamp",
        )

    def time(self, code: int) -> Any:
        """The time of a code; None where it is before the first or past the last.

        Where Python has no date for it, its number, which `code` takes as well.
        """
        if code in (LOWEST, HIGHEST):
            return None
        kind = self.kind
        if pa.types.is_floating(kind):
            bits = code if code >= 0 else LOWEST - code - 1
            return float(np.array([bits], np.int64).view(np.float64)[0])
        if pa.types.is_decimal(kind):
            return Decimal(code).scaleb(-kind.scale)
        if pa.types.is_date32(kind):
            return pa.array([code], pa.int32()).cast(kind)[0].as_py()
        if self.temporal:
            return value_of(pa.array([code], pa.int64()).cast(kind)[0])
        return code

    def amount(self, given: Any, what: str) -> int | float:
        """A duration in the column's own unit: text for times, a number for numbers; ∞ for inf."""
        given = spelled(given)
        if isinstance(given, float) and math.isinf(given) and given > 0:
            return math.inf
        if isinstance(given, bool) or not isinstance(given, str | int | float | Decimal):
            raise self._not_an_amount(given, what)
        if not isinstance(given, str) and not given >= 0:
            raise self._not_an_amount(given, what)
        if given == 0:
            return 0
        if isinstance(given, str) != self.temporal:
            raise self._not_an_amount(given, what)
        if isinstance(given, str):
            units, per = self._units()
            # A part of a unit counts as a whole one: waiting longer is safe.
            return -(-parse_duration(given) * units // per)
        if pa.types.is_decimal(self.kind):
            return math.ceil(Decimal(str(given)).scaleb(self.kind.scale))
        return float(given) if pa.types.is_floating(self.kind) else math.ceil(given)

    def _units(self) -> tuple[int, int]:
        """So many units of the column in so many microseconds."""
        if pa.types.is_timestamp(self.kind):
            return _PER_SECOND[self.kind.unit], 10**6
        return (1, 10**3) if pa.types.is_date64(self.kind) else (1, 86_400 * 10**6)

    def _not_an_amount(self, given: Any, what: str) -> errors.QueryError:
        example = "'10 seconds'" if self.temporal else "10"
        return errors.QueryError(
            f"{what}={given!r} does not fit the event time {self.name!r} of type {self.kind}",
            remedy=f"give 0, a length such as {example}, or math.inf",
        )

    def later(self, code: int, amount: int | float) -> int:
        """The code of a time moved by an amount (negative: back); the ends stay where they are."""
        if code in (LOWEST, HIGHEST) or amount == 0:
            return code
        if math.isinf(amount):
            return HIGHEST if amount > 0 else LOWEST
        if pa.types.is_floating(self.kind):
            return int(self.codes(pa.array([self.time(code) + amount], pa.float64()))[0])
        return max(LOWEST, min(HIGHEST, code + int(amount)))
