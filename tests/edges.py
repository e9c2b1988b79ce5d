"""Every function of the catalogue at the edges of every type.

`TABLE` holds three columns per kind of value, arranged so that two columns of any kinds meet in all
combinations of their edges. `expressions()` writes each entry of the catalogue over all kinds it
may be given, so that a new entry is asked without being listed here; entries whose text is not
`name(a, b)` have it in `TEXTS`. An answer is ("value", x), or ("error", (kind, text)).
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.front.expressions import Scope, parse_condition
from ensue.query import condition as c
from ensue.scalar import kinds as k
from ensue.scalar.arrow_kinds import from_arrow
from ensue.scalar.functions import CATALOGUE, FORMS
from ensue.scalar.infer import infer

UTC = dt.UTC
NAN, INF = math.nan, math.inf
MIN64, MAX64 = -(2**63), 2**63 - 1
LARGEST = 1.7976931348623157e308


def _whole(bits: int) -> list[int | None]:
    return [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, -1, 0, 1, -(2 ** (bits - 1)) + 1, None, 7]


def _moments(zone: dt.tzinfo | None) -> list[Any]:
    texts = (
        "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999", "1970-01-01T00:00:00",
        "1969-12-31T23:59:59.999999", "2020-02-29T12:34:56.789012", "1582-10-15T00:00:00",
    )  # fmt: skip
    return [*(dt.datetime.fromisoformat(text).replace(tzinfo=zone) for text in texts), None]


def _digits(precision: int, scale: int) -> list[Any]:
    last = Decimal(1).scaleb(-scale)
    most = Decimal((0, (9,) * precision, -scale))
    return [most, most.copy_negate(), Decimal(0), last, -last, None]


EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), _whole(8)),
    "i16": (pa.int16(), _whole(16)),
    "i32": (pa.int32(), _whole(32)),
    "i64": (pa.int64(), [*_whole(64), 2**53 + 1, -(2**31), 2**60 + 2**36 + 1]),
    "f32": (
        pa.float32(),
        [0.0, -0.0, INF, -INF, NAN, 1.401298464324817e-45, 3.4028234663852886e38, -1.5, None, 1.0],
    ),
    "f64": (
        pa.float64(),
        [0.0, -0.0, INF, -INF, NAN, 5e-324, LARGEST, -LARGEST, 2.5, -(2.0**63), None, 1.0],
    ),
    "d9": (pa.decimal128(9, 2), _digits(9, 2)),
    "d38": (pa.decimal128(38, 0), [*_digits(38, 0), Decimal(2**63)]),
    "d38f": (pa.decimal128(38, 38), _digits(38, 38)),
    "d38m": (pa.decimal128(38, 18), _digits(38, 18)),
    "flag": (pa.bool_(), [True, False, None]),
    "text": (
        pa.string(),
        ["", " ", "  aB ", "Straße", "😀é", "%", "_a", "İı", "ΑΣ", None, "a\\b", "true"],
    ),
    "num": (
        pa.string(),
        ["0", "-1", "9223372036854775807", "128", " 1 ", "1e400", "NaN", "-0", "", None, "1.5"],
    ),
    "date": (
        pa.date32(),
        [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), dt.date(1969, 12, 31),
         dt.date(2020, 2, 29), dt.date(1582, 10, 15), None],
    ),
    "ts": (pa.timestamp("us", "UTC"), _moments(UTC)),
    "ntz": (pa.timestamp("us"), _moments(None)),
    "span": (
        pa.duration("us"),
        [dt.timedelta(microseconds=n) for n in (MAX64, MIN64, 0, 1, -1, 86_400_000_000)] + [None],
    ),
    "bytes": (pa.binary(), [b"", b"\x00\xff", b"a", None]),
    "ints": (pa.list_(pa.int32()), [[], [-(2**31), 2**31 - 1], [None], [0, None, 1], None]),
    "texts": (pa.list_(pa.string()), [[], ["a", None], [""], ["ß", "b"], None]),
    "reals": (pa.list_(pa.float64()), [[], [NAN, -0.0], [0.0], [INF, None], None]),
}  # fmt: skip
SIDES, WIDE = "abc", 12


def _table() -> pa.Table:
    columns: dict[str, pa.Array] = {"id": pa.array(range(WIDE * WIDE), pa.int32())}
    for name, (kind, edges) in EDGES.items():
        for side in SIDES:
            rows = range(WIDE * WIDE)
            place = {
                "a": [row // WIDE for row in rows],
                "b": [row % WIDE for row in rows],
                "c": [row * 5 + row // WIDE for row in rows],
            }[side]
            values = [edges[p % len(edges)] for p in place]
            if pa.types.is_duration(kind):
                # Arrow takes the longest of Python's spans for one too long.
                micros = [v if v is None else v // dt.timedelta(microseconds=1) for v in values]
                columns[f"{name}_{side}"] = pa.array(micros, pa.int64()).cast(kind)
            else:
                columns[f"{name}_{side}"] = pa.array(values, kind)
    return pa.table(columns)


TABLE = _table()
KINDS = {f.name: from_arrow(f.type) for f in TABLE.schema}

_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary",
          "date", "timestamp", "timestamp_ntz", "decimal(9,2)", "decimal(38,0)", "decimal(38,38)",
          "decimal(3,3)")  # fmt: skip
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_FEW = "least(greatest({b}, -1), 30)"  # a text of 2**31 letters is no test
TEXTS: dict[str, tuple[str, ...]] = {
    "eq": ("{a} = {b}",),
    "neq": ("{a} <> {b}",),
    "lt": ("{a} < {b}",),
    "lte": ("{a} <= {b}",),
    "gt": ("{a} > {b}",),
    "gte": ("{a} >= {b}",),
    "nullsafeeq": ("{a} <=> {b}",),
    "add": ("{a} + {b}", "{a} + 1", "1 + {a}"),
    "sub": ("{a} - {b}", "1 - {a}"),
    "mul": ("{a} * {b}", "{a} * -1"),
    "div": ("{a} / {b}", "1 / {a}"),
    "mod": ("{a} % {b}", "{a} % -1", "{a} % 3"),
    "intdiv": ("{a} div {b}", "{a} div -1", "1 div {a}"),
    "neg": ("-{a}",),
    "like": ("{a} LIKE {b}", "{a} LIKE 'a%'", "{a} LIKE '_a%'"),
    "ilike": ("{a} ILIKE {b}", "{a} ILIKE 'A%'"),
    "rlike": ("{a} RLIKE 'a|B'",),
    "split": ("split({a}, 'a')", "split({a}, '', 2)"),
    "round": ("round({a})", "round({a}, 1)", "round({a}, -1)", "round({a}, -18)"),
    "lpad": (f"lpad({{a}}, {_FEW})", f"lpad({{a}}, {_FEW}, {{c}})"),
    "rpad": (f"rpad({{a}}, {_FEW})", f"rpad({{a}}, {_FEW}, {{c}})"),
    "repeat": ("repeat({a}, least(greatest({b}, -1), 3))",),
    "date_trunc": tuple(f"date_trunc('{unit}', {{a}})" for unit in _UNITS),
    "trunc": tuple(f"trunc({{a}}, '{unit}')" for unit in _UNITS[:4]),
    "element": ("{a}[{b}]", "{a}[0]"),
    "and": ("{a} AND {b}", "{a} = {b} AND 1 / {b} > 0"),
    "or": ("{a} OR {b}", "{a} <> {b} OR 1 / {b} > 0"),
    "not": ("NOT {a}",),
    "is": ("{a} IS NULL", "{a} IS NOT NULL", "{a} IS TRUE", "{a} IS NOT FALSE"),
    "between": ("{a} BETWEEN {b} AND {c}", "{a} BETWEEN {b} AND 1 / {b}"),
    "in": ("{a} IN ({b}, {c})", "{a} IN (1, {b}, NULL)", "{a} IN ({b}, 1 / {b})"),
    "case": (
        "CASE WHEN {a} = {b} THEN {a} ELSE {b} END",
        "CASE {a} WHEN {b} THEN {c} END",
        "CASE WHEN {b} <> 0 THEN {a} % {b} ELSE {a} END",
    ),
    "if": ("if({a} > {b}, {a}, {b})",),
    "coalesce": ("coalesce({a}, {b}, {c})", "coalesce({a}, 1 / {b})"),
    "nvl2": ("nvl2({a}, {b}, {c})",),
    "nullif": ("nullif({a}, {b})",),
    "cast": tuple(f"CAST({{a}} AS {kind})" for kind in _TYPES),
    "trycast": tuple(f"TRY_CAST({{a}} AS {kind})" for kind in _TYPES),
    "interval": (
        "{a} + INTERVAL '1' DAY",
        "{a} - INTERVAL '1' MICROSECOND",
        "{a} + INTERVAL '1' MONTH",
        "{a} = INTERVAL '1' DAY",
    ),
}


def texts_of(name: str) -> tuple[str, ...]:
    """How an entry is written over the sides a, b and c."""
    if name in TEXTS or name not in CATALOGUE:
        return TEXTS.get(name, (f"{name}({{a}})",))
    entry = CATALOGUE[name]
    most = min(3, entry.least + 1 if entry.most is None else entry.most)
    counts = range(entry.least, most + 1)
    return tuple(
        f"{name}({', '.join('{' + side + '}' for side in SIDES[:count])})" for count in counts
    )


def expressions(name: str) -> Iterator[str]:
    """An entry over all kinds that its first two arguments may have; the third has one of them."""
    for text in texts_of(name):
        sides = [side for side in SIDES if f"{{{side}}}" in text]
        kinds = [list(EDGES)] * min(2, len(sides))
        for chosen in itertools.product(*kinds):
            names = {side: f"{chosen[min(i, 1)]}_{side}" for i, side in enumerate(sides)}
            yield text.format(**names)
            if len(sides) == 3 and chosen[0] != chosen[1]:
                yield text.format(**{**names, sides[2]: f"{chosen[0]}_{sides[2]}"})


def sample(name: str, most: int, rows: int | None) -> list[Asked]:
    """At most so many of an entry's expressions: each kind with itself, then spread ones."""
    listed = list(expressions(name))
    alike = [text for text in listed if len(set(_kinds_in(text))) == 1]
    spread = [listed[place * 7919 % len(listed)] for place in range(len(listed))]
    found = []
    for text in dict.fromkeys([*alike, *spread]):
        case = asked(text, rows)
        if case is not None:
            found.append(case)
        if len(found) == most:
            break
    return found


def _kinds_in(text: str) -> list[str]:
    return [kind for kind, _ in re.findall(r"\b([a-z]+[0-9]*[a-z]?)_([abc])\b", text)]


Answer = tuple[str, Any]


@dataclass(frozen=True)
class Asked:
    """An expression that has types here, and the rows it is asked on."""

    text: str
    condition: c.Condition
    kind: k.Kind
    names: tuple[str, ...]
    rows: tuple[int, ...]


def asked(text: str, rows: int | None = None) -> Asked | None:
    """None where the expression is refused by name. `rows`: so many of them, spread."""
    parsed = parse_condition(text, Scope())
    condition = c.transform(parsed, lambda n: n.argument if isinstance(n, c.Navigate) else None)
    try:
        kind = infer(condition, kind_of)
    except (errors.ColumnTypeError, errors.UnsupportedError):
        return None
    names = tuple(dict.fromkeys(c.columns(condition)))
    seen: dict[Any, int] = {}
    for row in range(TABLE.num_rows):
        seen.setdefault(tuple(repr(COLUMNS[name][row]) for name in names), row)
    chosen = sorted(seen.values())
    if rows is not None and len(chosen) > rows:
        start = sum(map(ord, text)) % len(chosen)
        step = next(s for s in range(len(chosen) // 2 + 1, 0, -1) if math.gcd(s, len(chosen)) == 1)
        chosen = sorted(chosen[(start + step * i) % len(chosen)] for i in range(rows))
    return Asked(text, condition, kind, names, tuple(chosen))


COLUMNS = {name: TABLE[name].to_pylist() for name in TABLE.column_names}


def column_of(leaf: c.Condition) -> str:
    assert isinstance(leaf, c.Column)
    return leaf.name


def kind_of(leaf: c.Condition) -> k.Kind:
    return KINDS[column_of(leaf)]


def answer(function: Callable[[], Any]) -> Answer:
    try:
        return "value", function()
    except errors.OverflowDataError as problem:
        return "error", ("overflow", problem.problem)
    except errors.DataError as problem:
        return "error", ("other", problem.problem)


FAR = "a time outside the years 1 to 9999"
HANDED_OVER = ("error", ("overflow", "handed over to plain values"))


# -- agreement -----------------------------------------------------------------------------------


def same(ours: Any, theirs: Any, exact: bool = True) -> bool:
    """Equal in type, value and the sign of zero; NaN equals NaN."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs, [exact] * len(ours)))
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        if ours == theirs:
            return math.copysign(1, ours) == math.copysign(1, theirs)
        return not exact and math.isclose(ours, theirs, rel_tol=1e-14)
    return type(ours) is type(theirs) and bool(ours == theirs)


def agree(ours: Answer, theirs: Answer, exact: bool = True) -> bool:
    """Errors agree in being overflows or not."""
    if ours[0] != theirs[0]:
        return False
    return ours[1][0] == theirs[1][0] if ours[0] == "error" else same(ours[1], theirs[1], exact)


def may_hand_over(case: Asked, found: Answer) -> bool:
    """A decimal beyond 64 bits is no error: the engine asks plain values instead."""
    return found == HANDED_OVER and any(KINDS[name].name == "decimal" for name in case.names)


def beyond_python(ours: Answer, theirs: Answer) -> bool:
    """Plain values refuse times outside the years 1 to 9999, as docs/functions.md says."""
    return ours == ("value", FAR) and theirs[0] == "error" and theirs[1][0] == "overflow"


ENTRIES = (*CATALOGUE, *FORMS)
