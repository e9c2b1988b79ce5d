"""Durations as text (`1 hour`, `90 s`, `1 day 2 hours`) and SQL's intervals, to numbers."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ensue import errors

_UNITS = {
    1: "us usec microsecond microseconds µs",
    1_000: "ms msec millisecond milliseconds",
    1_000_000: "s sec secs second seconds",
    60_000_000: "m min mins minute minutes",
    3_600_000_000: "h hr hrs hour hours",
    86_400_000_000: "d day days",
    604_800_000_000: "w week weeks",
}
MICROSECONDS = {name: size for size, names in _UNITS.items() for name in names.split()}
_FIELDS = ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_MONTHS = {"MONTH": 1, "YEAR": 12}
_RANGE = re.compile(r"([+-])?(?:(\d+)(?:\s+|$))?(?:(\d+):(\d+)(?::(\d+(?:\.\d+)?))?)?")
_PART = re.compile(r"\s*(?:'\s*)?(\d+(?:\.\d+)?)\s*(?:'\s*)?([A-Za-zµ]+)\s*,?")


def spelled(given: Any) -> Any:
    """A `timedelta` as the text that says the same; anything else as it is."""
    if isinstance(given, timedelta):
        return f"{given // timedelta(microseconds=1)} microseconds"
    return given


def duration_text(size: int) -> str:
    """Microseconds in the greatest unit that counts them whole: `1 hour`, `90 seconds`."""
    for unit, names in reversed(_UNITS.items()):
        if size and size % unit == 0 and unit < MICROSECONDS["week"]:
            longest = names.split()[-1 if unit > 1 else -2]
            amount = size // unit
            return f"{amount} {longest.removesuffix('s') if amount == 1 else longest}"
    return f"{size} microseconds"


def parse_duration(text: str, place: errors.Place | None = None) -> int:
    """Microseconds of a duration text; months and years have no fixed length and are refused."""
    total = exact_duration(text)
    if total is None:
        raise errors.QueryError(
            f"{text!r} is not a duration",
            remedy="write a number and a unit, such as '1 hour', '90 s', '1 day 2 hours' "
            "(units: us, ms, s, minutes, hours, days, weeks)",
            place=place,
        )
    if total.denominator != 1:
        raise errors.QueryError(
            f"{text!r} is not a duration of whole microseconds",
            remedy="write '1 hour'",
            place=place,
        )
    return int(total)


def exact_duration(text: str) -> Fraction | None:
    """Microseconds of a duration text; None where it is none."""
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE)
    total, position, found = Fraction(0), 0, False
    while position < len(rest) and rest[position:].strip():
        part = _PART.match(rest, position)
        unit = part[2].lower() if part else ""
        if part is None or unit not in MICROSECONDS:
            return None
        total += Fraction(part[1]) * MICROSECONDS[unit]
        position, found = part.end(), True
    return total if found else None


def read_interval(text: str, unit: str) -> tuple[str, int] | None:
    """The amount of `INTERVAL 'text' unit` in months or microseconds; None where it is none.

    With it: what is counted, `months`, whole `days`, or `time`.
    """
    sign = -1 if text.startswith("-") else 1
    single = unit.removesuffix("S")
    if single in _FIELDS or single in _MONTHS:
        try:
            amount = Decimal(text)
        except ArithmeticError:
            return None
        whole = amount == int(amount)
        if single in _MONTHS:
            return ("months", int(amount) * _MONTHS[single]) if whole else None
        if not whole and single != "SECOND":
            return None
        span = "days" if single in ("DAY", "WEEK") else "time"
        return span, int(amount * MICROSECONDS[single.lower()])
    if unit == "YEAR TO MONTH":
        years = re.fullmatch(r"[+-]?(\d+)-(\d+)", text)
        return ("months", sign * (int(years[1]) * 12 + int(years[2]))) if years else None
    micros = _range_interval(text, unit)
    return None if micros is None else ("time", sign * micros)


def _range_interval(text: str, unit: str) -> int | None:
    """`'1 2:03:04' DAY TO SECOND` and its shorter forms."""
    first, _, last = unit.partition(" TO ")
    if unit == "DAY TO HOUR":
        text, last = f"{text}:0", "MINUTE"
    found = _RANGE.fullmatch(text)
    if found is None or first not in ("DAY", "HOUR", "MINUTE"):
        return None
    if (first == "DAY") != bool(found[2]):
        return None
    clock = [Decimal(part) for part in (found[3], found[4], found[5]) if part is not None]
    bounds = [24 if first == "DAY" else None, *[60] * (len(clock) - 1)]
    if any(most is not None and value >= most for value, most in zip(clock, bounds, strict=True)):
        return None
    units = ["HOUR", "MINUTE", "SECOND"]
    start = 1 if first == "MINUTE" else 0
    if last not in units or len(clock) != units.index(last) + 1 - start:
        return None
    return int(found[2] or 0) * MICROSECONDS["day"] + sum(
        int(value * MICROSECONDS[units[start + place].lower()]) for place, value in enumerate(clock)
    )
