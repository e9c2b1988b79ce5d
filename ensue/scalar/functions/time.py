"""Functions of dates and timestamps, read on the wall clock of the session's zone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from ensue.scalar import kinds as k
from ensue.scalar.casts import BadValueError, localized, micros_of
from ensue.scalar.functions import base
from ensue.scalar.functions.base import Function, Given, Resolve, Scalar, Signature, fixed, implicit
from ensue.scalar.functions.operators import add_months, days_in_month, move_days
from ensue.scalar.functions.operators import truncated_quotient as quotient

D, N, S, T = k.DATE, k.INT, k.STRING, k.TIMESTAMP
UNITS = {
    "YEAR": "year",
    "YYYY": "year",
    "YY": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "MM": "month",
    "MON": "month",
    "WEEK": "week",
    "DAY": "day",
    "DD": "day",
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
    "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
}
_DATE_UNITS = {"year", "quarter", "month", "week"}
_UNIX = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)", re.ASCII)


def _clock(given: Sequence[Given]) -> Signature | None:
    """Hour, minute, second: of either timestamp, or of what casts to one."""
    kind = given[0].kind if given[0].kind.name == "timestamp" else T
    return Signature((kind,), N) if implicit(given[0].kind, kind) else None


def truncate_day(value: date, unit: str) -> date:
    match unit:
        case "year":
            return date(value.year, 1, 1)
        case "quarter":
            return date(value.year, (value.month - 1) // 3 * 3 + 1, 1)
        case "month":
            return date(value.year, value.month, 1)
        case _:
            return value - timedelta(days=value.weekday())


def _truncate(signature: Signature) -> Scalar:
    zone = signature.zone

    def truncated(unit_text: str, value: datetime) -> datetime | None:
        unit = UNITS.get(unit_text.upper())
        if unit is None:
            return None
        wall = value.replace(tzinfo=None)
        match unit:
            case "microsecond":
                return value
            case "millisecond":
                return value.replace(microsecond=value.microsecond // 1000 * 1000)
            case "second":
                return value.replace(microsecond=0)
            case "minute":
                return localized(wall.replace(second=0, microsecond=0), zone)
            case "hour":
                return localized(wall.replace(minute=0, second=0, microsecond=0), zone)
            case "day":
                start = wall.date()
            case _:
                start = truncate_day(wall.date(), unit)
        return localized(datetime(start.year, start.month, start.day), zone)

    return truncated


def _truncate_date(value: date, unit_text: str) -> date | None:
    unit = UNITS.get(unit_text.upper())
    return truncate_day(value, unit) if unit in _DATE_UNITS else None


def _resolve_add(given: Sequence[Given]) -> Signature | None:
    days = given[1].kind
    small = (days.name == "int" and days.bits <= 32) or days.name in ("string", "null")
    if small and implicit(given[0].kind, D):
        return Signature((D, N), D, True)
    return None


def _resolve_unix(given: Sequence[Given]) -> Signature | None:
    kind = given[0].kind
    parameter = S if kind.name == "string" else kind if kind.name == "timestamp" else T
    fits = kind.name in ("string", "null") or kind.temporal
    return Signature((parameter,), k.BIGINT, kind.name == "string") if fits else None


def _unix(signature: Signature) -> Scalar:
    if signature.parameters[0].name != "string":
        return lambda value: quotient(micros_of(value), 1_000_000)
    zone = signature.zone

    def read(text: str) -> int:
        found = _UNIX.fullmatch(text)
        try:
            if found is None:
                raise ValueError
            wall = datetime(*(int(found[i]) for i in range(1, 7)))  # type: ignore[arg-type]
        except ValueError:
            raise BadValueError(f"{text!r} is not written as yyyy-MM-dd HH:mm:ss") from None
        return micros_of(localized(wall, zone)) // 1_000_000

    return read


_dates = partial(base.function, "dates")


def _part(name: str, doc: str, read: Callable[[Any], int], resolve: Resolve) -> Function:
    argument = "timestamp" if resolve is _clock else "date"
    return _dates(f"{name}({argument})", doc, resolve, read)


_OF_DATE = fixed(D, result=N)
_START = "The start of the year, quarter, month, week, day, hour, minute or second."
_FIRST = "The first day of the year, quarter, month or week."
_MONTHS = "Months later, on the last day where the month is shorter."
_SECONDS = "Whole seconds since 1970, of a timestamp or a text yyyy-MM-dd HH:mm:ss."
TIME = (
    _part("year", "The year.", lambda v: v.year, _OF_DATE),
    _part("quarter", "The quarter, 1 to 4.", lambda v: (v.month + 2) // 3, _OF_DATE),
    _part("month", "The month, 1 to 12.", lambda v: v.month, _OF_DATE),
    _part("weekofyear", "The ISO week.", lambda v: v.isocalendar()[1], _OF_DATE),
    _part("day", "The day of the month.", lambda v: v.day, _OF_DATE),
    _part("dayofweek", "1 is Sunday, 7 Saturday.", lambda v: v.isoweekday() % 7 + 1, _OF_DATE),
    _part("weekday", "0 is Monday, 6 Sunday.", lambda v: v.weekday(), _OF_DATE),
    _part("dayofyear", "1 to 366.", lambda v: v.timetuple().tm_yday, _OF_DATE),
    _part("hour", "0 to 23.", lambda v: v.hour, _clock),
    _part("minute", "0 to 59.", lambda v: v.minute, _clock),
    _part("second", "0 to 59.", lambda v: v.second, _clock),
    _dates(
        "date_trunc(unit, timestamp)", _START, fixed(S, T, result=T), _truncate, by_signature=True
    ),
    _dates("trunc(date, unit)", _FIRST, fixed(D, S, result=D), _truncate_date),
    _dates(
        "datediff(end, start)",
        "Days from start to end.",
        fixed(D, D, result=N),
        lambda end, start: (end - start).days,
    ),
    _dates("date_add(date, days)", "Days later; also date_sub.", _resolve_add, move_days),
    _dates("add_months(date, months)", _MONTHS, fixed(D, N, result=D, fails=True), add_months),
    _dates(
        "last_day(date)",
        "The last day of the month.",
        fixed(D, result=D),
        lambda v: v.replace(day=days_in_month(v.year, v.month)),
    ),
    _dates("to_date(x)", "Cast to date.", fixed(D, result=D), lambda v: v),
    _dates("unix_timestamp(x)", _SECONDS, _resolve_unix, _unix, by_signature=True),
)
