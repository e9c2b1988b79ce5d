"""From the parsed shape of a call to a name of the catalogue and plain arguments.

The parser has one node per idea (`trim` with a position, `pad` with a side) and wraps arguments
(`year(x)` holds a cast to date); the catalogue has Spark's functions. `positional` is the only
place that knows the parser's keys and roles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ensue import errors
from ensue.query.condition import CONDITIONS, Argument, Call, Condition, Literal
from ensue.scalar.functions.base import COLUMN_FIRST

# Roles that only tell other dialects apart; in Spark's own text they change nothing.
_FLAGS = {"safe", "ignore_nulls", "null_if_pos_overflow", "coalesce", "flatten"}
_BINARY = (
    "eq neq lt lte gt gte nullsafeeq add sub mul div mod intdiv "
    "startswith endswith contains like ilike log left right datediff"
)
_UNARY = (
    "neg abs ceil floor sqrt exp ln log10 sign isnan upper lower length reverse "
    "year quarter month day hour minute second dayofweek dayofyear weekofyear"
)
_ROLES: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: (name, ("this", "expression")) for name in _BINARY.split()},
    **{name: (name, ("this",)) for name in _UNARY.split()},
    "safeadd": ("try_add", ("this", "expression")),
    "safesubtract": ("try_subtract", ("this", "expression")),
    "safemultiply": ("try_multiply", ("this", "expression")),
    "safedivide": ("try_divide", ("this", "expression")),
    "negative": ("neg", ("this",)),
    "dayofmonth": ("day", ("this",)),
    "equalnull": ("nullsafeeq", ("this", "expression")),
    "dpipe": ("concat", ("this", "expression")),
    "concat": ("concat", ("expressions",)),
    "concatws": ("concat_ws", ("expressions",)),
    "pow": ("power", ("this", "expression")),
    "round": ("round", ("this", "decimals")),
    "greatest": ("greatest", ("this", "expressions")),
    "least": ("least", ("this", "expressions")),
    "substring": ("substring", ("this", "start", "length")),
    "repeat": ("repeat", ("this", "times")),
    "regexplike": ("rlike", ("this", "expression")),
    "regexpsplit": ("split", ("this", "expression", "limit")),
    "replace": ("replace", ("this", "expression", "replacement")),
    "addmonths": ("add_months", ("this", "expression")),
    "lastday": ("last_day", ("this",)),
    "datetrunc": ("trunc", ("this", "unit")),
    "tsordstodate": ("to_date", ("this",)),
    "arraysize": ("size", ("this",)),
    "arraycontains": ("array_contains", ("this", "expression")),
    "array": ("array", ("expressions",)),
    "arraytostring": ("array_join", ("this", "expression", "null")),
    "arraymax": ("array_max", ("this",)),
    "arraymin": ("array_min", ("this",)),
}
SYNONYMS = {
    "cardinality": "size",
    "btrim": "trim",
    "ceiling": "ceil",
    "pow": "power",
    "signum": "sign",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "substr": "substring",
    "regexp_like": "rlike",
    "regexp": "rlike",
    "ucase": "upper",
    "lcase": "lower",
    "dayofmonth": "day",
    "array_size": "size",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "negative": "neg",
}
_FIELDS = {
    "YEAR": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "WEEK": "weekofyear",
    "DAY": "day",
    "DAYOFWEEK": "dayofweek",
    "DOW": "dayofweek",
    "DOY": "dayofyear",
    "HOUR": "hour",
    "MINUTE": "minute",
}
_PARSED_FORMAT = "%Y-%mstrict-%dstrict %Hstrict:%Mstrict:%Sstrict"


@dataclass(frozen=True)
class Shape:
    name: str
    arguments: tuple[Condition, ...]
    negated: bool = False


def positional(call: Call) -> Shape:
    """The catalogue's name of a call (perhaps unknown there) and its arguments in order."""
    custom = _CUSTOM.get(call.function)
    if custom is not None:
        return custom(call)
    name, roles = _ROLES.get(call.function, (call.function, ()))
    if call.function not in _ROLES:
        roles = tuple(role for role, _ in call.arguments)
    return Shape(name, _gather(call, roles))


def _gather(
    call: Call, roles: tuple[str, ...], known: tuple[str, ...] = ()
) -> tuple[Condition, ...]:
    for role, _ in call.arguments:
        if role not in roles and role not in known and role not in _FLAGS:
            raise unsupported_form(call.function, role)
    found: list[Condition] = []
    for role in roles:
        value = call[role]
        if isinstance(value, tuple):
            found.extend(item for item in value if isinstance(item, CONDITIONS))
        elif isinstance(value, CONDITIONS):
            found.append(value)
    return tuple(found)


def unsupported_form(function: str, part: str) -> errors.UnsupportedFunctionError:
    return errors.UnsupportedFunctionError(
        f"the form of {function} with {part!r} is not one that Ensue computes",
        remedy=COLUMN_FIRST,
    )


def word(argument: Argument) -> str | None:
    """The text of a bare word such as the unit HOUR, however it was parsed."""
    if isinstance(argument, Call) and argument.function == "var":
        argument = argument["this"]
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        argument = argument.value
    return argument if isinstance(argument, str) else None


def _trim(call: Call) -> Shape:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(call["position"]).upper(), "trim")
    return Shape(side, _gather(call, ("this", "expression"), ("position",)))


def _pad(call: Call) -> Shape:
    name = "lpad" if call["is_left"] else "rpad"
    return Shape(name, _gather(call, ("this", "expression", "fill_pattern"), ("is_left",)))


def _like(call: Call) -> Shape:
    return Shape(
        call.function, _gather(call, ("this", "expression"), ("negate",)), bool(call["negate"])
    )


def _escape(call: Call) -> Shape:
    inner = call["this"]
    if not (isinstance(inner, Call) and inner.function in ("like", "ilike")):
        raise unsupported_form("ESCAPE", "something else than LIKE")
    sign = call["expression"]
    if isinstance(sign, Literal) and len(str(sign.value)) != 1:
        raise unsupported_form("LIKE", "an ESCAPE that is not one character")
    shape = _like(inner)
    return Shape(
        shape.name, (*shape.arguments, *_gather(call, ("expression",), ("this",))), shape.negated
    )


def _strposition(call: Call) -> Shape:
    if call["position"] is None:
        return Shape("instr", _gather(call, ("this", "substr")))
    return Shape("locate", _gather(call, ("substr", "this", "position")))


def _initcap(call: Call) -> Shape:
    delimiter = call["expression"]
    if delimiter not in (None, Literal("string", " ")):
        raise unsupported_form("initcap", "a delimiter")
    return Shape("initcap", _gather(call, ("this",), ("expression",)))


def _bracket(call: Call) -> Shape:
    name = "element_at" if call["offset"] == 1 else "element"
    return Shape(name, _gather(call, ("this", "expressions"), ("offset", "safe")))


def _timestamptrunc(call: Call) -> Shape:
    unit = word(call["unit"])
    if unit is None:
        raise unsupported_form("date_trunc", "a unit that is not a literal")
    return Shape("date_trunc", (Literal("string", unit), *_gather(call, ("this",), ("unit",))))


def _tsordsadd(call: Call) -> Shape:
    if word(call["unit"]) not in (None, "DAY"):
        raise unsupported_form("date_add", "a unit")
    return Shape("date_add", _gather(call, ("this", "expression"), ("unit",)))


def _strtounix(call: Call) -> Shape:
    if word(call["format"]) not in (None, _PARSED_FORMAT):
        raise unsupported_form("unix_timestamp", "a format")
    return Shape("unix_timestamp", _gather(call, ("this",), ("format",)))


def _extract(call: Call) -> Shape:
    field = (word(call["this"]) or "").upper()
    if field not in _FIELDS:
        raise unsupported_form("extract", field)
    return Shape(_FIELDS[field], _gather(call, ("expression",), ("this",)))


def _anonymous(call: Call) -> Shape:
    name = str(call["this"]).lower()
    return Shape(SYNONYMS.get(name, name), _gather(call, ("expressions",), ("this",)))


_CUSTOM: dict[str, Callable[[Call], Shape]] = {
    "trim": _trim,
    "pad": _pad,
    "like": _like,
    "ilike": _like,
    "escape": _escape,
    "strposition": _strposition,
    "initcap": _initcap,
    "bracket": _bracket,
    "timestamptrunc": _timestamptrunc,
    "tsordsadd": _tsordsadd,
    "strtounix": _strtounix,
    "extract": _extract,
    "anonymous": _anonymous,
}
# Keys of the parser whose shape is one of the catalogue (`anonymous` calls a function by name).
PARSED = frozenset(_ROLES) | frozenset(_CUSTOM) - {"anonymous"}
