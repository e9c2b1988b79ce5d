"""Scalar SQL for the oracle: three-valued logic and the few functions that the tests use.

Values are Python's; null is None. What is not listed here fails with `NotImplementedError`, so
that a test can not pass by accident. Spark's rules where SQL leaves a choice: NaN equals itself
and is greater than any number, a number compares with a double as a double, `/` of whole numbers
is a double, `%` takes the dividend's sign.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ensue.query import condition as c

Read = Callable[[c.Condition], Any]


def rank(value: Any) -> Any:
    """A key that orders non-null values of one type as Spark does."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value)


def compare(left: Any, right: Any) -> int:
    """Below, at or above 0 as `left` is less than, equal to or greater than `right`."""
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    left, right = rank(left), rank(right)
    return (left > right) - (left < right)


def evaluate(call: c.Call, read: Read) -> Any:
    """The value of a call; `read` gives the value of an argument."""
    function = _LAZY.get(call.function)
    if function is not None:
        return function(call, read)
    if call.function == "anonymous":
        name, given = str(call["this"]), [read(a) for a in call["expressions"] or ()]
    else:
        name, given = call.function, []
        for role, argument in call.arguments:
            if isinstance(argument, c.CONDITIONS):
                given.append(read(argument))
            elif isinstance(argument, tuple):
                given.extend(read(item) for item in argument)
            elif role not in _FLAGS:
                raise NotImplementedError(f"{call.function}({role}={argument!r})")
    strict = _STRICT.get(name)
    if strict is None:
        raise NotImplementedError(f"the oracle does not know {name}")
    return None if any(value is None for value in given) else strict(*given)


# Marks of sqlglot about dialects; they say nothing that the functions below do not do anyway.
_FLAGS = ("safe", "typed", "ignore_nulls", "coalesce")


def _and(call: c.Call, read: Read) -> bool | None:
    given = [read(call["this"]), read(call["expression"])]
    if False in given:
        return False
    return None if None in given else True


def _or(call: c.Call, read: Read) -> bool | None:
    given = [read(call["this"]), read(call["expression"])]
    if True in given:
        return True
    return None if None in given else False


def _is(call: c.Call, read: Read) -> bool:
    """IS NULL, IS TRUE, IS FALSE."""
    return read(call["this"]) is read(call["expression"])


def _null_safe_equal(call: c.Call, read: Read) -> bool:
    left, right = read(call["this"]), read(call["expression"])
    if left is None or right is None:
        return left is None and right is None
    return compare(left, right) == 0


def _between(call: c.Call, read: Read) -> bool | None:
    value, low, high = (read(call[role]) for role in ("this", "low", "high"))
    above = None if None in (value, low) else compare(low, value) <= 0
    below = None if None in (value, high) else compare(value, high) <= 0
    if False in (above, below):
        return False
    return None if None in (above, below) else True


def _in(call: c.Call, read: Read) -> bool | None:
    value, options = read(call["this"]), [read(item) for item in call["expressions"]]
    if value is None:
        return None
    if any(option is not None and compare(option, value) == 0 for option in options):
        return True
    return None if None in options else False


def _case(call: c.Call, read: Read) -> Any:
    for branch in call["ifs"]:
        if call["this"] is None:
            taken = read(branch["this"]) is True
        else:
            subject, option = read(call["this"]), read(branch["this"])
            taken = None not in (subject, option) and compare(subject, option) == 0
        if taken:
            return read(branch["true"])
    return None if call["default"] is None else read(call["default"])


def _if(call: c.Call, read: Read) -> Any:
    if read(call["this"]) is True:
        return read(call["true"])
    return None if call["false"] is None else read(call["false"])


def _coalesce(call: c.Call, read: Read) -> Any:
    for argument in (call["this"], *(call["expressions"] or ())):
        value = read(argument)
        if value is not None:
            return value
    return None


def _nullif(call: c.Call, read: Read) -> Any:
    left, right = read(call["this"]), read(call["expression"])
    same = None not in (left, right) and compare(left, right) == 0
    return None if same else left


def _extreme(choose: Callable[..., Any]) -> Callable[[c.Call, Read], Any]:
    def of(call: c.Call, read: Read) -> Any:
        given = [read(a) for a in (call["this"], *(call["expressions"] or ()))]
        given = [value for value in given if value is not None]
        return choose(given, key=rank) if given else None

    return of


_LAZY: dict[str, Callable[[c.Call, Read], Any]] = {
    "and": _and,
    "or": _or,
    "is": _is,
    "nullsafeeq": _null_safe_equal,
    "between": _between,
    "in": _in,
    "case": _case,
    "if": _if,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "greatest": _extreme(max),
    "least": _extreme(min),
}


def _numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def of(left: Any, right: Any) -> Any:
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
        return function(left, right)

    return of


def _divide(left: Any, right: Any) -> Any:
    assert right != 0, "division by zero has no value in the reference; avoid it in tests"
    return left / right


def _whole_divide(left: Any, right: Any) -> int:
    assert right != 0, "division by zero has no value in the reference; avoid it in tests"
    whole = abs(left) // abs(right)
    return int(whole if (left < 0) == (right < 0) else -whole)


def _remainder(left: Any, right: Any) -> Any:
    assert right != 0, "division by zero has no value in the reference; avoid it in tests"
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _like(text: str, pattern: str) -> bool:
    parts = [{"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern]
    return re.fullmatch("".join(parts), text, flags=re.DOTALL) is not None


_CASTS: dict[str, Any] = {"decimal": Decimal, "double": float, "string": str}

_STRICT: dict[str, Callable[..., Any]] = {
    "eq": lambda a, b: compare(a, b) == 0,
    "neq": lambda a, b: compare(a, b) != 0,
    "lt": lambda a, b: compare(a, b) < 0,
    "lte": lambda a, b: compare(a, b) <= 0,
    "gt": lambda a, b: compare(a, b) > 0,
    "gte": lambda a, b: compare(a, b) >= 0,
    "not": lambda a: not a,
    "add": _numbers(lambda a, b: a + b),
    "sub": _numbers(lambda a, b: a - b),
    "mul": _numbers(lambda a, b: a * b),
    "div": _numbers(_divide),
    "intdiv": _whole_divide,
    "mod": _numbers(_remainder),
    "neg": lambda a: -a,
    "abs": abs,
    "cast": lambda value, kind: _CASTS[kind.split("(")[0].lower()](str(value)),
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "concat": lambda *parts: "".join(map(str, parts)),
    "dpipe": lambda a, b: f"{a}{b}",
    "like": _like,
    "substring": lambda text, start, size: text[start - 1 : start - 1 + size],
    "ISNULL": lambda a: False,
}


# -- aggregates -----------------------------------------------------------------------------------


def aggregate(function: str, rows: list[tuple[Any, ...]], distinct: bool) -> Any:
    """`function` over the argument tuples of its rows, in their order; Spark's rules for nulls.

    Nulls are left out; nothing left gives null, except 0 for COUNT and [] for the arrays.
    """
    if function == "count" and not (rows and rows[0]):
        return len(rows)
    if function in ("max_by", "min_by"):
        keyed = [(rank(key), position) for position, (_, key) in enumerate(rows) if key is not None]
        if not keyed:
            return None
        _, position = (max if function == "max_by" else min)(keyed)
        return rows[position][0]
    rows = [row for row in rows if None not in row]
    if distinct or function == "collect_set":
        unique: dict[Any, tuple[Any, ...]] = {}
        for row in rows:
            unique.setdefault(tuple(map(rank, row)), row)
        rows = list(unique.values())
    if function == "count":
        return len(rows)
    values = [row[0] for row in rows]
    if function in ("array_agg", "collect_set"):
        return values
    if not values:
        return None
    match function:
        case "sum":
            return sum(values)
        case "avg":
            total = sum(values)
            return total / len(values) if isinstance(total, Decimal) else float(total) / len(values)
        case "min":
            return min(values, key=rank)
        case "max":
            return max(values, key=rank)
        case "bool_and":
            return all(values)
        case "bool_or":
            return any(values)
    raise NotImplementedError(f"the oracle does not know the aggregate {function}")
