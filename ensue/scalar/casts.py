"""CAST between scalar kinds as Spark 4 does it in ANSI mode, on plain Python values.

`caster(source, target)` gives a function of one non-null value, or None where Spark refuses the
pair. A value that cannot be converted raises `BadValueError`; the evaluators turn that into a
`DataError` that names the row and the expression.

Values are int, float, Decimal, str, bool, bytes, date, datetime (aware for `timestamp`, naive for
`timestamp_ntz`), timedelta, list; a year-month interval is its number of months.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from ensue.scalar.kinds import BOOLEAN, DEFAULT_ZONE, Kind, bounds

EXACT = Context(prec=160, rounding=ROUND_HALF_UP)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_NTZ = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}
_WHITE = "".join(map(chr, range(33)))
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](?:(\d{1,2})(?::(\d{1,2})"
    r"(?::(\d{1,2})(?:\.(\d*))?)?)?)?)?)?)?\s*(\S.*)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?")
_DIGITS = 19  # of the greatest 64-bit integer
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


class BadValueError(Exception):
    """A value that an operation cannot take; `overflow` marks a result out of its type's range."""

    def __init__(self, problem: str, *, overflow: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.overflow = overflow


@lru_cache(maxsize=64)
def zone_of(name: str | None) -> tzinfo:
    if name is None or name.upper() in ("UTC", "Z", "ETC/UTC", "GMT"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset:
        return _offset_zone(offset)
    return ZoneInfo(name)


def is_fixed(zone: str | None) -> bool:
    """Whether the clocks of a zone are never changed, so that every day has 24 hours."""
    return isinstance(zone_of(zone), timezone)


def is_utc(zone: str | None) -> bool:
    return zone_of(zone) == UTC


def _offset_zone(found: re.Match[str]) -> tzinfo:
    hours, minutes, seconds = (int(found[i] or 0) for i in (2, 3, 4))
    shift = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-shift if found[1] == "-" else shift)


def fit_int(value: int, kind: Kind) -> int:
    """`value` if the integer kind holds it."""
    low, high = bounds(kind)
    if not low <= value <= high:
        raise BadValueError(f"{value} does not fit {kind}", overflow=True)
    return value


def fit_decimal(value: Decimal, kind: Kind) -> Decimal:
    """`value` rounded half up to the scale, if the precision holds it."""
    try:
        rounded = value.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
    except InvalidOperation:
        raise BadValueError(f"{value} cannot be a {kind}", overflow=True) from None
    if rounded and rounded.adjusted() + 1 > kind.precision - kind.scale:
        raise BadValueError(f"{value} does not fit {kind}", overflow=True)
    return rounded or rounded.copy_abs()  # there is one zero


def fit_float(value: float, bits: int) -> float:
    """`value` rounded to single precision where asked."""
    if bits == 64 or math.isnan(value) or math.isinf(value):
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def nearest_float(value: int | Decimal, bits: int) -> float:
    """The float nearest to an exact number; by way of a double it would be rounded twice."""
    double = float(value)
    exact = Fraction(value)
    if bits == 64 or exact == double:
        return fit_float(double, bits)
    beyond = math.nextafter(double, math.inf if exact > double else -math.inf)
    near = (fit_float(double, bits), fit_float(beyond, bits))
    return min(near, key=lambda single: abs(Fraction(single) - exact))


def float_text(value: float, bits: int = 64) -> str:
    """Java's text of a float: `1.0E10`, `1.5`, `NaN`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if bits == 64:
        shown = repr(value)
    else:
        shown = next(
            text
            for text in (f"{value:.{digits}g}" for digits in range(1, 18))
            if fit_float(float(text), 32) == value
        )
    sign, digits, exponent = Decimal(shown).as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    stripped = text.rstrip("0") or "0"
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0.0"
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{stripped}"
        stripped = stripped.ljust(point, "0")
        return f"{minus}{stripped[:point]}.{stripped[point:] or '0'}"
    return f"{minus}{stripped[0]}.{stripped[1:] or '0'}E{point - 1}"


def parse_date(text: str) -> date | None:
    found = _DATE.fullmatch(text.strip(_WHITE))
    if not found:
        return None
    try:
        return date(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    except ValueError:
        return None


def parse_timestamp(text: str, zone: str | None) -> datetime | None:
    """Spark's reading of a timestamp text; in `zone` unless the text names another, None: naive."""
    found = _TIMESTAMP.fullmatch(text.strip(_WHITE))
    if not found:
        return None
    year, month, day, hour, minute, second = (
        int(found[i] or d) for i, d in zip(range(1, 7), (0, 1, 1, 0, 0, 0), strict=True)
    )
    micros = int((found[7] or "").ljust(6, "0")[:6])
    place: tzinfo | None = zone_of(zone) if zone is not None else None
    if found[8]:
        if found[4] is None:
            return None
        try:
            named = zone_of(found[8].strip())
        except (KeyError, ValueError, OSError):
            return None
        place = named if zone is not None else None
    try:
        read = datetime(year, month, day, hour, minute, second, micros, tzinfo=place)
    except ValueError:
        return None
    if place is None or zone is None:
        return read
    return read.astimezone(UTC).astimezone(zone_of(zone))


def timestamp_text(value: datetime) -> str:
    text = value.strftime("%H:%M:%S")
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    return f"{value.year:04d}-{value.month:02d}-{value.day:02d} {text}{fraction}"


def micros_of(value: datetime) -> int:
    """Microseconds since 1970."""
    return (value - (EPOCH_NTZ if value.tzinfo is None else EPOCH)) // MICROSECOND


def midnight(value: date, zone: str | None) -> datetime:
    """The start of a day, as an instant where a zone is given."""
    start = datetime(value.year, value.month, value.day)
    return start if zone is None else localized(start, zone)


def localized(value: datetime, zone: str | None) -> datetime:
    """The instant of a wall-clock reading; a reading the clocks skip moves forward."""
    place = zone_of(zone)
    try:
        return value.replace(tzinfo=place).astimezone(UTC).astimezone(place)
    except OverflowError:
        raise BadValueError(f"{value} is out of range in {zone}", overflow=True) from None


def from_micros(micros: int, zone: str | None) -> datetime:
    try:
        return (EPOCH + timedelta(microseconds=micros)).astimezone(zone_of(zone))
    except (OverflowError, ValueError):
        raise BadValueError(f"{micros} microseconds is not a timestamp", overflow=True) from None


def _read_int(text: str, target: Kind) -> int | None:
    low, high = bounds(target)
    found = re.fullmatch(r"([+-]?)0*(\d*)", text, re.ASCII)
    if not found or text in ("", "+", "-") or len(found[2]) > _DIGITS:
        return None
    value = int(found[1] + (found[2] or "0"))
    return value if low <= value <= high else None


def _read_float(text: str, target: Kind) -> float | None:
    if _FLOAT.fullmatch(text):
        return fit_float(float(text.rstrip("dDfF")), target.bits)
    unsigned = text.lstrip("+-").lower()
    if unsigned in ("inf", "infinity") and len(text) - len(unsigned) <= 1:
        return -math.inf if text.startswith("-") else math.inf
    return math.nan if text.lower() == "nan" else None


def _read_decimal(text: str, target: Kind) -> Decimal | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return fit_decimal(Decimal(text), target)
    except InvalidOperation:
        return None  # an exponent beyond all numbers


def _read_boolean(text: str, target: Kind) -> bool | None:
    folded = text.lower()
    return folded in _TRUE if folded in _TRUE or folded in _FALSE else None


def _read_timestamp(text: str, target: Kind) -> datetime | None:
    return parse_timestamp(text, (target.zone or DEFAULT_ZONE) if target.zoned else None)


_READERS: dict[str, Callable[[str, Kind], Any]] = {
    "int": _read_int,
    "float": _read_float,
    "decimal": _read_decimal,
    "boolean": _read_boolean,
    "date": lambda text, _target: parse_date(text),
    "timestamp": _read_timestamp,
}


def _from_string(target: Kind) -> Callable[[Any], Any] | None:
    if target.name == "binary":
        return lambda text: text.encode()
    read = _READERS.get(target.name)
    if read is None:
        return None

    def convert(text: str) -> Any:
        value = read(text.strip(_WHITE), target)
        if value is None:
            raise BadValueError(f"{text!r} cannot be read as {target}")
        return value

    return convert


def _to_string(source: Kind) -> Callable[[Any], Any] | None:
    if source.name == "float":
        return lambda value: float_text(value, source.bits)
    table: dict[str, Callable[[Any], Any]] = {
        "int": str,
        "boolean": lambda value: "true" if value else "false",
        "decimal": lambda value: format(value, "f"),
        "date": lambda value: value.isoformat(),
        "timestamp": timestamp_text,
        "binary": lambda value: value.decode("utf-8", "replace"),
    }
    return table.get(source.name)


def _from_number(source: Kind, target: Kind) -> Callable[[Any], Any] | None:
    def truncated(value: Any) -> int:
        if isinstance(value, float) and not math.isfinite(value):
            raise BadValueError(f"{float_text(value)} does not fit {target}", overflow=True)
        return fit_int(int(value), target)

    def to_decimal(value: Any) -> Decimal:
        if isinstance(value, float) and not math.isfinite(value):
            raise BadValueError(f"{float_text(value)} cannot be a {target}", overflow=True)
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        return fit_decimal(exact, target)

    def to_timestamp(value: Any) -> datetime:
        if isinstance(value, float) and not math.isfinite(value * 1_000_000):
            raise BadValueError(f"{float_text(value)} is not a timestamp", overflow=True)
        return from_micros(int(value * 1_000_000), target.zone)

    match target.name:
        case "int":
            return truncated
        case "float":
            if source.name == "float":
                return lambda value: fit_float(value, target.bits)
            return lambda value: nearest_float(value, target.bits)
        case "decimal":
            return to_decimal
        case "boolean":
            return bool
        case "timestamp" if target.zoned:
            return to_timestamp
        case _:
            return None


def _from_temporal(source: Kind, target: Kind) -> Callable[[Any], Any] | None:
    if source.name == "date":
        if target.name == "timestamp":
            zone = (target.zone or DEFAULT_ZONE) if target.zoned else None
            return lambda value: midnight(value, zone)
        return None
    match target.name:
        case "date":
            return lambda value: value.date()
        case "timestamp" if source.zoned and target.zoned:
            return lambda value: value.astimezone(zone_of(target.zone))
        case "timestamp" if source.zoned:
            return lambda value: value.replace(tzinfo=None)
        case "timestamp":
            return lambda value: localized(value, target.zone)
        case "int" if source.zoned:
            return lambda value: fit_int(micros_of(value) // 1_000_000, target)
        case "float" if source.zoned:
            return lambda value: fit_float(float(micros_of(value)) / 1e6, target.bits)
        case "decimal" if source.zoned:
            return lambda value: fit_decimal(Decimal(micros_of(value)).scaleb(-6), target)
        case _:
            return None


def caster(source: Kind, target: Kind) -> Callable[[Any], Any] | None:
    """The conversion of one non-null value; None where Spark refuses the pair."""
    if source.name == "null" or (source == target and source.zone == target.zone):
        return lambda value: value
    if source.name == target.name == "interval":
        return lambda value: value
    if source.name == target.name == "array":
        assert source.element is not None and target.element is not None
        each = caster(source.element, target.element)
        if each is None:
            return None
        return lambda items: [None if item is None else each(item) for item in items]
    if target.name == "string":
        return _to_string(source)
    match source.name:
        case "string":
            return _from_string(target)
        case "int" | "float" | "decimal":
            return _from_number(source, target)
        case "boolean" if target.name in ("int", "float", "decimal"):
            number = _from_number(BOOLEAN, target)
            return None if number is None else lambda value: number(int(value))
        case "date" | "timestamp":
            return _from_temporal(source, target)
        case _:
            return None


def never_fails(source: Kind, target: Kind) -> bool:
    """Whether every value of `source` has a value of `target`."""
    if source.name == "null" or source == target or target.name in ("string", "binary"):
        return True
    if source.name in ("string", "array"):
        return False
    if target.name == "int":
        return source.name == "boolean" or (source.name == "int" and source.bits <= target.bits)
    if target.name == "decimal":
        digits = {8: 3, 16: 5, 32: 10, 64: 19}
        whole = digits[source.bits] if source.name == "int" else source.precision - source.scale
        return source.name in ("int", "decimal") and whole <= target.precision - target.scale
    return not (target.name == "timestamp" and source.numeric)
