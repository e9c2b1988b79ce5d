"""The types of scalar expressions, and how Spark promotes them (ANSI mode, Spark 4).

A `Kind` is what an expression yields, independent of any library's type objects: conditions are
typed once, and the Arrow and the plain Python evaluator both obey the result. `common` is the one
table of implicit promotion; `sum_kind`, `product_kind` and their siblings hold the decimal
precision rules of Spark's `DecimalType`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_PRECISION = 38
_MIN_ADJUSTED_SCALE = 6
DEFAULT_ZONE = "UTC"


@dataclass(frozen=True)
class Kind:
    """One type. Only the fields its name calls for are set."""

    name: str
    bits: int = 0  # int: 8, 16, 32, 64; float: 32, 64
    precision: int = 0
    scale: int = 0
    zone: str | None = field(default=None, compare=False)  # timestamp: the session's zone
    zoned: bool = False  # timestamp: an instant, not a wall-clock reading
    days: bool = False  # interval: whole days, so that date + interval stays a date
    element: Kind | None = None
    fields: tuple[tuple[str, Kind], ...] = ()
    note: str = ""  # other: the foreign type, for messages

    def __str__(self) -> str:
        match self.name:
            case "int":
                return {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[self.bits]
            case "float":
                return "float" if self.bits == 32 else "double"
            case "decimal":
                return f"decimal({self.precision},{self.scale})"
            case "timestamp":
                return "timestamp" if self.zoned else "timestamp_ntz"
            case "interval":
                return "interval day" if self.days else "interval day to second"
            case "months":
                return "interval year to month"
            case "array":
                return f"array<{self.element}>"
            case "struct":
                inside = ",".join(f"{name}:{kind}" for name, kind in self.fields)
                return f"struct<{inside}>"
            case "other":
                return self.note or "an unknown type"
            case "null":
                return "void"
            case _:
                return self.name

    @property
    def numeric(self) -> bool:
        return self.name in ("int", "float", "decimal")

    @property
    def temporal(self) -> bool:
        return self.name in ("date", "timestamp")


NULL = Kind("null")
BOOLEAN = Kind("boolean")
TINYINT = Kind("int", 8)
SMALLINT = Kind("int", 16)
INT = Kind("int", 32)
BIGINT = Kind("int", 64)
FLOAT = Kind("float", 32)
DOUBLE = Kind("float", 64)
STRING = Kind("string")
BINARY = Kind("binary")
DATE = Kind("date")
TIMESTAMP = Kind("timestamp", zone=DEFAULT_ZONE, zoned=True)
TIMESTAMP_NTZ = Kind("timestamp")
INTERVAL = Kind("interval")
DAYS = Kind("interval", days=True)
MONTHS = Kind("months")


def decimal(precision: int, scale: int = 0) -> Kind:
    return Kind("decimal", precision=precision, scale=scale)


def array(element: Kind) -> Kind:
    return Kind("array", element=element)


def struct(fields: tuple[tuple[str, Kind], ...]) -> Kind:
    return Kind("struct", fields=fields)


def timestamp(zone: str | None) -> Kind:
    """An instant shown in `zone`; None is a wall-clock reading."""
    return TIMESTAMP_NTZ if zone is None else Kind("timestamp", zone=zone, zoned=True)


def other(note: str) -> Kind:
    return Kind("other", note=note)


_NAMED = {
    "boolean": BOOLEAN,
    "bool": BOOLEAN,
    "tinyint": TINYINT,
    "byte": TINYINT,
    "smallint": SMALLINT,
    "short": SMALLINT,
    "int": INT,
    "integer": INT,
    "bigint": BIGINT,
    "long": BIGINT,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "text": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "decimal": decimal(10, 0),
    "dec": decimal(10, 0),
    "numeric": decimal(10, 0),
}


def from_name(text: str, zone: str = DEFAULT_ZONE) -> Kind | None:
    """The kind of a type as Spark SQL writes it; None where it is not one of ours."""
    folded = re.sub(r"\s+", "", text).lower()
    if folded in ("timestamp", "timestamp_ltz"):
        return timestamp(zone)
    if folded in _NAMED:
        return _NAMED[folded]
    found = re.fullmatch(r"(?:decimal|dec|numeric)\((\d+)(?:,(\d+))?\)", folded)
    if found:
        precision, scale = int(found[1]), int(found[2] or 0)
        return decimal(precision, scale) if scale <= precision <= MAX_PRECISION else None
    if folded.startswith("array<") and folded.endswith(">"):
        element = from_name(folded[len("array<") : -1], zone)
        return None if element is None else array(element)
    return None


def as_decimal(kind: Kind) -> Kind:
    """The decimal that holds every value of an integer kind."""
    if kind.name == "int":
        return decimal({8: 3, 16: 5, 32: 10, 64: 20}[kind.bits])
    return kind


def common(a: Kind, b: Kind) -> Kind | None:
    """The kind both promote to, or None: Spark's `findWiderTypeForTwo` in ANSI mode."""
    if a == b or b.name == "null":
        return a
    if a.name == "null":
        return b
    if a.numeric and b.numeric:
        return _common_number(a, b)
    if "string" in (a.name, b.name):
        return _common_with_string(b if a.name == "string" else a)
    if a.temporal and b.temporal:
        zoned = next((k for k in (a, b) if k.zoned), None)
        return zoned or TIMESTAMP_NTZ
    if a.name == b.name == "interval":
        return INTERVAL
    if a.name == b.name == "array":
        assert a.element is not None and b.element is not None
        element = common(a.element, b.element)
        return None if element is None else array(element)
    return None


def _common_number(a: Kind, b: Kind) -> Kind:
    if a.name == b.name == "int":
        return a if a.bits >= b.bits else b
    if "float" in (a.name, b.name):
        return FLOAT if a == b == FLOAT else DOUBLE
    return wider_decimal(as_decimal(a), as_decimal(b))


def _common_with_string(kind: Kind) -> Kind | None:
    match kind.name:
        case "int":
            return BIGINT
        case "float" | "decimal":
            return DOUBLE
        case "boolean" | "date" | "timestamp" | "binary":
            return kind
        case _:
            return None


def wider_decimal(a: Kind, b: Kind) -> Kind:
    """Holds the values of both; past 38 digits the fraction gives way."""
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    if whole + scale <= MAX_PRECISION:
        return decimal(whole + scale, scale)
    return decimal(MAX_PRECISION, max(0, MAX_PRECISION - whole))


def _adjusted(precision: int, scale: int) -> Kind:
    """Spark's `adjustPrecisionScale`: past 38 digits the fraction gives way, down to 6 digits."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    least = min(scale, _MIN_ADJUSTED_SCALE)
    return decimal(MAX_PRECISION, max(MAX_PRECISION - (precision - scale), least))


def sum_kind(a: Kind, b: Kind) -> Kind:
    scale = max(a.scale, b.scale)
    return _adjusted(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def product_kind(a: Kind, b: Kind) -> Kind:
    return _adjusted(a.precision + b.precision + 1, a.scale + b.scale)


def quotient_kind(a: Kind, b: Kind) -> Kind:
    scale = max(_MIN_ADJUSTED_SCALE, a.scale + b.precision + 1)
    return _adjusted(a.precision - a.scale + b.scale + scale, scale)


def remainder_kind(a: Kind, b: Kind) -> Kind:
    scale = max(a.scale, b.scale)
    return _adjusted(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def rounded_kind(kind: Kind, digits: int) -> Kind:
    """`round(decimal, digits)`."""
    whole = kind.precision - kind.scale + 1
    if digits < 0:
        return decimal(min(max(whole, -digits + 1), MAX_PRECISION), 0)
    scale = min(kind.scale, digits)
    return decimal(min(whole + scale, MAX_PRECISION), scale)


def bounds(kind: Kind) -> tuple[int, int]:
    """The least and greatest value of an integer kind."""
    return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
