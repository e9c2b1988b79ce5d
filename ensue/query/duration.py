"""Durations as text: `1 hour`, `90 s`, `1 day 2 hours`, `500 ms`, to microseconds."""

from __future__ import annotations

import re
from fractions import Fraction

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
_PART = re.compile(r"\s*(?:'\s*)?(\d+(?:\.\d+)?)\s*(?:'\s*)?([A-Za-zµ]+)\s*,?")


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
