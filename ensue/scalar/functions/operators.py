"""Comparison and arithmetic: the promotion rules of Spark's binary operators, and NaN's order.

Integers are checked (ANSI), `/` is double or decimal, `%` takes the sign of the dividend, and NaN
equals itself and is greater than any other number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from ensue.scalar import kinds as k
from ensue.scalar.casts import (
    EXACT,
    MICROSECOND,
    BadValueError,
    fit_decimal,
    fit_float,
    fit_int,
    localized,
    zone_of,
)
from ensue.scalar.functions.base import Function, Given, Resolve, Scalar, Signature, same
from ensue.scalar.kinds import Kind, common

_SCALE_OF_DIVISION = Decimal(1).scaleb(-38)


# -- comparison ----------------------------------------------------------------------------------


def _nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _instant(value: Any) -> Any:
    """Python compares times of one zone by the wall clock, which shows an hour twice in autumn."""
    return value if value is None or value.tzinfo is UTC else value.astimezone(UTC)


def equal(a: Any, b: Any) -> bool:
    """Equality in which NaN equals NaN, and, inside arrays, null equals null."""
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, datetime) and a.tzinfo is not None:
        return _instant(a) == _instant(b)
    return bool(a == b) or (_nan(a) and _nan(b))


def less(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return not _nan(a) if _nan(b) else bool(a < b)
    if isinstance(a, datetime) and a.tzinfo is not None:
        return _instant(a) < _instant(b)
    return bool(a < b)


_COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "eq": ("=", equal),
    "neq": ("<>", lambda a, b: not equal(a, b)),
    "lt": ("<", less),
    "lte": ("<=", lambda a, b: not less(b, a)),
    "gt": (">", lambda a, b: less(b, a)),
    "gte": (">=", lambda a, b: not less(a, b)),
}


def _resolve_comparison(ordered: bool) -> Resolve:
    def resolve(given: Sequence[Given]) -> Signature | None:
        shared = common(given[0].kind, given[1].kind)
        if shared is None or shared.name in ("other", "struct", "months"):
            return None
        arrays = shared.name == "array"
        if arrays and (ordered or not _alike(given[0].kind.element, given[1].kind.element)):
            return None
        return Signature((shared, shared), k.BOOLEAN)

    return resolve


def _alike(a: Kind | None, b: Kind | None) -> bool:
    """Elements of arrays are compared without turning strings into something else."""
    return a is None or b is None or (a.name == "string") == (b.name == "string")


def _null_safe_equal(a: Any, b: Any) -> bool:
    return (a is None and b is None) if a is None or b is None else equal(a, b)


# -- arithmetic ----------------------------------------------------------------------------------


def _as_operand(given: Given) -> Kind:
    """An integer literal beside a decimal takes only the digits it has."""
    if given.kind.name == "int" and given.literal and given.constant is not None:
        return k.decimal(len(str(abs(given.constant))))
    return k.as_decimal(given.kind)


def _resolve_numbers(
    a: Given, b: Given, decimal_result: Callable[[Kind, Kind], Kind], *, fails: bool = False
) -> Signature | None:
    shared = common(a.kind, b.kind)
    if shared is None or not (shared.numeric or shared == k.NULL):
        return None
    if shared.name == "decimal":
        left, right = (_as_operand(g if g.kind != k.NULL else Given(shared)) for g in (a, b))
        result = decimal_result(left, right)
        return Signature((left, right), result, fails or result.precision == k.MAX_PRECISION)
    if shared == k.NULL:
        shared = k.DOUBLE
    return Signature((shared, shared), shared, fails or shared.name == "int")


def _resolve_time(given: Sequence[Given], sign: int) -> Signature | None:
    """Dates and timestamps with days, intervals and each other."""
    a, b = given[0].kind, given[1].kind
    if a.name in ("interval", "months") and b.name == a.name:
        return Signature((a, b), k.common(a, b) or a, True)
    if sign > 0 and not a.temporal and b.temporal:
        a, b = b, a
        swapped = _resolve_time([Given(a), Given(b)], sign)
        if swapped is None:
            return None
        first, second = swapped.parameters
        return Signature((second, first), swapped.result, swapped.fails)
    if sign < 0 and a.name == "string" and b.temporal:
        a = b
    if not a.temporal:
        return None
    if b.name == "int" and b.bits <= 32 and a.name == "date":
        return Signature((a, k.INT), k.DATE, True)
    if b.name in ("months", "interval"):
        whole_days = b.name == "months" or b.days
        moved = k.TIMESTAMP if a.name == "date" and not whole_days else a
        return Signature((moved, b), moved, True)
    if sign < 0 and (b.temporal or b.name == "string"):
        if a.name == "date" and b.name in ("date", "string"):
            return Signature((a, k.DATE), k.DAYS)
        shared = common(a, b)
        return None if shared is None else Signature((shared, shared), k.INTERVAL)
    return None


def _resolve_sum(sign: int) -> Resolve:
    def resolve(given: Sequence[Given]) -> Signature | None:
        timed = _resolve_time(given, sign)
        return timed or _resolve_numbers(given[0], given[1], k.sum_kind)

    return resolve


def _resolve_product(given: Sequence[Given]) -> Signature | None:
    a, b = given[0].kind, given[1].kind
    if a.name == "interval" and b.numeric:
        return Signature((a, _interval_factor(b)), k.INTERVAL, True)
    if b.name == "interval" and a.numeric:
        return Signature((_interval_factor(a), b), k.INTERVAL, True)
    return _resolve_numbers(given[0], given[1], k.product_kind)


def _interval_factor(kind: Kind) -> Kind:
    return k.BIGINT if kind.name == "int" else kind


def _resolve_quotient(given: Sequence[Given]) -> Signature | None:
    a, b = given
    if a.kind.name == "interval" and b.kind.numeric:
        return Signature((a.kind, _interval_factor(b.kind)), k.INTERVAL, True)
    if a.kind.name == b.kind.name == "string":
        return None
    signature = _resolve_numbers(a, b, k.quotient_kind, fails=True)
    if signature is None or (signature.result.name == "decimal" and a.kind != k.NULL):
        return signature
    kinds = {a.kind.name, b.kind.name}
    strings_as = k.BIGINT if kinds == {"string", "int"} else None
    return Signature((k.DOUBLE, k.DOUBLE), k.DOUBLE, True, strings_as=strings_as)


def _resolve_remainder(given: Sequence[Given]) -> Signature | None:
    return _resolve_numbers(given[0], given[1], k.remainder_kind, fails=True)


def _resolve_intdiv(given: Sequence[Given]) -> Signature | None:
    signature = _resolve_numbers(given[0], given[1], k.quotient_kind, fails=True)
    if signature is None or signature.result.name == "float":
        return None
    if signature.result.name == "decimal":
        return Signature(signature.parameters, k.BIGINT, True)
    return Signature((k.BIGINT, k.BIGINT), k.BIGINT, True)


def _resolve_negation(given: Sequence[Given]) -> Signature | None:
    kind = given[0].kind
    if kind.name in ("string", "null"):
        kind = k.DOUBLE
    if kind.numeric or kind.name in ("interval", "months"):
        return Signature((kind,), kind, kind.name in ("int", "interval", "months"))
    return None


def divisor(value: Any) -> Any:
    if value == 0:
        raise BadValueError("division by zero")
    return value


def remainder(a: Any, b: Any) -> Any:
    """Java's `%`: the sign of the dividend."""
    divisor(b)
    if isinstance(a, float):
        return math.fmod(a, b) if math.isfinite(a) and not math.isnan(b) else math.nan
    if isinstance(a, Decimal):
        return EXACT.subtract(a, EXACT.multiply(b, EXACT.to_integral_value(EXACT.divide_int(a, b))))
    return a - b * truncated_quotient(a, b)


def truncated_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _divide_decimals(a: Decimal, b: Decimal) -> Decimal:
    return EXACT.divide(a, divisor(b)).quantize(_SCALE_OF_DIVISION, context=EXACT)


def _fitted(function: Scalar, kind: Kind) -> Scalar:
    if kind.name == "int":
        return lambda *values: fit_int(function(*values), kind)
    if kind.name == "decimal":
        return lambda *values: fit_decimal(function(*values), kind)
    if kind.bits == 32:
        return lambda *values: fit_float(function(*values), 32)
    return function


def add_months(value: Any, months: int) -> Any:
    """The same day `months` later, or the last day of that month."""
    year, month = divmod(value.year * 12 + value.month - 1 + months, 12)
    last = days_in_month(year, month + 1)
    try:
        return value.replace(year=year, month=month + 1, day=min(value.day, last))
    except ValueError:
        raise BadValueError(
            f"{value} moved by {months} months is out of range", overflow=True
        ) from None


def days_in_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def move(value: Any, by: Any, kind: Kind) -> Any:
    """A date or timestamp moved by days, an interval or months; whole days by the wall clock."""
    try:
        if not isinstance(by, timedelta):
            if isinstance(value, datetime) and value.tzinfo is not None:
                return localized(add_months(value.replace(tzinfo=None), by), kind.zone)
            return add_months(value, by)
        if isinstance(value, datetime) and value.tzinfo is not None:
            days = int(by / timedelta(days=1))
            rest = by - timedelta(days=days)
            if days:
                wall = value.replace(tzinfo=None) + timedelta(days=days)
                value = localized(wall, kind.zone)
            return (value.astimezone(zone_of("UTC")) + rest).astimezone(zone_of(kind.zone))
        return value + by
    except OverflowError:
        raise BadValueError(f"{value} moved by {by} is out of range", overflow=True) from None


def _difference(a: Any, b: Any) -> timedelta:
    if isinstance(a, datetime):
        difference: timedelta = a.replace(tzinfo=None) - b.replace(tzinfo=None)
        return difference
    return timedelta(days=(a - b).days)


def move_days(value: date, days: int) -> date:
    try:
        return value + timedelta(days=days)
    except OverflowError:
        raise BadValueError(
            f"{value} moved by {days} days is out of range", overflow=True
        ) from None


def _interval(micros: int) -> timedelta:
    """Spark's intervals have 64 bits, Python's are longer."""
    try:
        return timedelta(microseconds=fit_int(micros, k.BIGINT))
    except BadValueError:
        raise BadValueError("the interval is out of range", overflow=True) from None


def _checked_interval(function: Scalar, kind: Kind) -> Scalar:
    if kind.name == "months":
        return lambda *values: fit_int(function(*values), k.INT)
    return lambda *values: _interval(function(*values) // MICROSECOND)


def _implement_sum(sign: int) -> Callable[[Signature], Scalar]:
    def implement(signature: Signature) -> Scalar:
        a, b = signature.parameters
        if b.temporal and not a.temporal:
            swapped = implement(Signature((b, a), signature.result))
            return lambda x, y: swapped(y, x)
        if a.temporal and b.temporal:
            return _difference
        if a.temporal and b.name == "int":
            return lambda value, days: move_days(value, sign * days)
        if a.temporal:
            return lambda value, by: move(value, sign * by, signature.result)
        if a.name in ("interval", "months"):
            return _checked_interval(operator.add if sign > 0 else operator.sub, a)
        if signature.result.name == "decimal":
            return _fitted(EXACT.add if sign > 0 else EXACT.subtract, signature.result)
        return _fitted(operator.add if sign > 0 else operator.sub, signature.result)

    return implement


def _scaled(interval: timedelta, factor: Any) -> timedelta:
    micros = Decimal(interval // MICROSECOND)
    try:
        exact = EXACT.multiply(micros, Decimal(factor)).quantize(Decimal(1), context=EXACT)
        return _interval(int(exact))
    except (ArithmeticError, ValueError):
        raise BadValueError("the interval is out of range", overflow=True) from None


def _implement_product(signature: Signature) -> Scalar:
    a, b = signature.parameters
    if a.name == "interval":
        return _scaled
    if b.name == "interval":
        return lambda factor, interval: _scaled(interval, factor)
    if signature.result.name == "decimal":
        return _fitted(EXACT.multiply, signature.result)
    return _fitted(operator.mul, signature.result)


def _implement_quotient(signature: Signature) -> Scalar:
    if signature.parameters[0].name == "interval":
        return lambda interval, by: _scaled(interval, EXACT.divide(1, Decimal(divisor(by))))
    if signature.result.name == "decimal":
        return _fitted(_divide_decimals, signature.result)
    return lambda a, b: a / divisor(b)


def _implement_remainder(signature: Signature) -> Scalar:
    return _fitted(remainder, signature.result)


def _implement_intdiv(signature: Signature) -> Scalar:
    if signature.parameters[0].name == "decimal":
        return lambda a, b: fit_int(int(EXACT.divide_int(a, divisor(b))), k.BIGINT)
    return lambda a, b: fit_int(truncated_quotient(a, divisor(b)), k.BIGINT)


def _implement_negation(signature: Signature) -> Scalar:
    # Python rounds a decimal to the digits of its context, also where it only changes the sign.
    exact = signature.result.name == "decimal"
    if signature.result.name in ("interval", "months"):
        return _checked_interval(operator.neg, signature.result)
    return _fitted(EXACT.minus if exact else operator.neg, signature.result)


def extreme(better: Callable[[Any, Any], bool]) -> Callable[[Iterable[Any]], Any]:
    """The best of the values that are not null, the first of equals."""

    def best(values: Iterable[Any]) -> Any:
        chosen: Any = None
        for value in values:
            if value is not None and (chosen is None or better(value, chosen)):
                chosen = value
        return chosen

    return best


greatest = extreme(lambda a, b: less(b, a))
least = extreme(less)


def _tried(name: str, operation: Function) -> Function:
    """The same, but null where the operation raises (its arguments may still raise)."""

    def resolve(given: Sequence[Given]) -> Signature | None:
        signature = operation.resolve(given)
        # Spark's dates and intervals go on where ours end: that must stay an error.
        if signature is None or not signature.result.numeric:
            return None
        return replace(signature, fails=False)

    def implement(signature: Signature) -> Scalar:
        function = operation.implement(signature)

        def tried(a: Any, b: Any) -> Any:
            try:
                return function(a, b)
            except BadValueError:
                return None

        return tried

    doc = f"{operation.usage}; null where that raises."
    return Function(name, f"{name}(a, b)", "operators", doc, 2, 2, resolve, implement)


def _operator(
    name: str,
    usage: str,
    doc: str,
    resolve: Resolve,
    implement: Callable[[Signature], Scalar],
    sees_null: bool = False,
    last_first: bool = False,
) -> Function:
    return Function(
        name, usage, "operators", doc, 2, 2, resolve, implement, sees_null, last_first=last_first
    )


_ORDER = "Compare; NaN equals NaN and is the greatest."
_SUM = "Sum; a date or timestamp moved by days or an interval."
_DIFFERENCE = "Difference; of dates or timestamps, the interval between them."
_QUOTIENT = "Quotient, double or decimal; division by zero raises."
_REMAINDER = "Remainder with the sign of a; division by zero raises."
_INVERSE = "The number or interval with its sign changed."
_SAFE = "Equal, where two nulls are equal; never null."
_EQUALS = _resolve_comparison(False)
_COMPARED = tuple(
    _operator(
        name, f"a {sign} b", _ORDER, _resolve_comparison(name not in ("eq", "neq")), same(compare)
    )
    for name, (sign, compare) in _COMPARISONS.items()
)
_ARITHMETIC = (
    _operator("add", "a + b", _SUM, _resolve_sum(1), _implement_sum(1)),
    _operator("sub", "a - b", _DIFFERENCE, _resolve_sum(-1), _implement_sum(-1)),
    _operator(
        "mul", "a * b", "Product; an interval times a number.", _resolve_product, _implement_product
    ),
    _operator("div", "a / b", _QUOTIENT, _resolve_quotient, _implement_quotient, last_first=True),
    _operator(
        "mod", "a % b", _REMAINDER, _resolve_remainder, _implement_remainder, last_first=True
    ),
)
_TRIED = ("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod")
OPERATORS = (
    *_COMPARED,
    _operator("nullsafeeq", "a <=> b", _SAFE, _EQUALS, same(_null_safe_equal), sees_null=True),
    *_ARITHMETIC,
    _operator(
        "intdiv",
        "a div b",
        "Quotient cut to a whole bigint.",
        _resolve_intdiv,
        _implement_intdiv,
        last_first=True,
    ),
    Function("neg", "-a", "operators", _INVERSE, 1, 1, _resolve_negation, _implement_negation),
    *(_tried(name, operation) for name, operation in zip(_TRIED, _ARITHMETIC, strict=True)),
)
