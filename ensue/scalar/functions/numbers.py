"""Functions of numbers. Logarithms of what is not positive are null, roots of it are NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import partial
from typing import Any

from ensue.scalar import kinds as k
from ensue.scalar.casts import EXACT, BadValueError, fit_decimal, fit_float, fit_int, float_text
from ensue.scalar.functions.base import (
    Function,
    Given,
    Scalar,
    Signature,
    alike,
    fixed,
    function,
)
from ensue.scalar.functions.operators import greatest, least
from ensue.scalar.kinds import Kind


def _number(kind: Kind) -> Kind | None:
    if kind.name in ("string", "null"):
        return k.DOUBLE
    return kind if kind.numeric else None


def _resolve_same(given: Sequence[Given]) -> Signature | None:
    kind = _number(given[0].kind)
    return None if kind is None else Signature((kind,), kind, kind.name == "int")


def _absolute(signature: Signature) -> Scalar:
    kind = signature.result
    if kind.name == "decimal":
        return EXACT.abs
    return (lambda x: fit_int(abs(x), kind)) if kind.name == "int" else abs


def _resolve_whole(given: Sequence[Given]) -> Signature | None:
    kind = _number(given[0].kind)
    if kind is None:
        return None
    if kind.name == "decimal":
        precision = min(kind.precision - kind.scale + 1, k.MAX_PRECISION)
        return Signature((kind,), k.decimal(precision))
    parameter = k.BIGINT if kind.name == "int" else k.DOUBLE
    return Signature((parameter,), k.BIGINT, parameter == k.DOUBLE)


def _whole(rounding: str, function: Callable[[float], int]) -> Callable[[Signature], Scalar]:
    def cut(value: float) -> int:
        if math.isnan(value):
            return 0
        if not math.isfinite(value):
            raise BadValueError(f"{float_text(value)} does not fit {k.BIGINT}", overflow=True)
        return fit_int(function(value), k.BIGINT)

    def implement(signature: Signature) -> Scalar:
        kind = signature.parameters[0]
        if kind.name == "decimal":
            return lambda x: fit_decimal(
                x.to_integral_value(rounding=rounding, context=EXACT), signature.result
            )
        return cut if kind.name == "float" else lambda x: x

    return implement


def _resolve_round(given: Sequence[Given]) -> Signature | None:
    kind = _number(given[0].kind)
    digits = given[1].constant if len(given) > 1 else 0
    if kind is None or not isinstance(digits, int):
        return None
    result = k.rounded_kind(kind, digits) if kind.name == "decimal" else kind
    return Signature((kind, k.INT)[: len(given)], result, kind.name == "int" and digits < 0)


def _round(signature: Signature) -> Scalar:
    kind = signature.result

    def rounded(value: Any, digits: int = 0) -> Any:
        if kind.name == "float":
            if not math.isfinite(value):
                return value
            shown = repr(value) if kind.bits == 64 else f"{value:.9g}"
            # By way of an exact number, which has one zero.
            return fit_float(float(_to_digits(Decimal(shown), digits)), kind.bits) + 0.0
        if kind.name == "int":
            return value if digits >= 0 else fit_int(int(_to_digits(Decimal(value), digits)), kind)
        return fit_decimal(_to_digits(value, digits), kind)

    return rounded


def _to_digits(value: Decimal, digits: int) -> Decimal:
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= digits:
        return value
    if value.adjusted() + 1 < -digits:
        return Decimal(0)  # rounded far above its first digit
    return value.quantize(Decimal(1).scaleb(-digits), context=EXACT)


def _power(base: float, exponent: float) -> float:
    """Java's `Math.pow`, which never raises."""
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    try:
        return math.pow(base, exponent)
    except OverflowError:
        odd = exponent.is_integer() and int(exponent) % 2 == 1
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        if base == 0:
            odd = exponent.is_integer() and int(exponent) % 2 == 1
            return math.copysign(math.inf, base) if odd else math.inf
        return math.nan


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _square_root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _logarithm(value: float) -> float | None:
    return None if value <= 0 else math.log(value)


def _based_logarithm(base: float, value: float) -> float | None:
    if value <= 0 or base <= 0:
        return None
    return _divide(math.log(value), math.log(base))


def _divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)


def _logarithm_10(value: float) -> float | None:
    return None if value <= 0 else math.log10(value)


def _sign(value: float) -> float:
    if math.isnan(value) or value == 0:
        return value
    return 1.0 if value > 0 else -1.0


def _resolve_extreme(given: Sequence[Given]) -> Signature | None:
    shared = alike(given)
    if shared is None or shared.name in ("array", "struct", "other", "months"):
        return None
    return Signature((shared,) * len(given), shared)


def _not_a_number(value: float | None) -> bool:
    return value is not None and math.isnan(value)


_number_function = partial(function, "numbers")
_choice = partial(function, "choice", resolve=_resolve_extreme, sees_null=True)


def _double(usage: str, doc: str, implementation: Scalar) -> Function:
    parameters = (k.DOUBLE,) * (usage.count(",") + 1)
    return _number_function(usage, doc, fixed(*parameters, result=k.DOUBLE), implementation)


_CEILING = _whole(ROUND_CEILING, math.ceil)
_FLOOR = _whole(ROUND_FLOOR, math.floor)
_ROUND = "Rounded half away from zero; digits is a literal, default 0."
_BELOW, _ABOVE = "Greatest whole number that is not above.", "Least whole number that is not below."
_OF_DOUBLE = fixed(k.DOUBLE, result=k.BOOLEAN)
_NAN = "Whether x is NaN; false for null."
NUMBERS = (
    _number_function("abs(x)", "Magnitude.", _resolve_same, _absolute, by_signature=True),
    _number_function("ceil(x)", _ABOVE, _resolve_whole, _CEILING, by_signature=True),
    _number_function("floor(x)", _BELOW, _resolve_whole, _FLOOR, by_signature=True),
    _number_function("round(x[, digits])", _ROUND, _resolve_round, _round, by_signature=True),
    _double("sqrt(x)", "Square root; NaN of a negative number.", _square_root),
    _double("power(x, y)", "x to the y.", _power),
    _double("exp(x)", "e to the x.", _exponential),
    _double("ln(x)", "Natural logarithm; null unless x is positive.", _logarithm),
    _double("log(base, x)", "Logarithm; null unless both are positive.", _based_logarithm),
    _double("log10(x)", "Decimal logarithm; null unless x is positive.", _logarithm_10),
    _double("sign(x)", "-1.0, 0.0 or 1.0.", _sign),
    _number_function("isnan(x)", _NAN, _OF_DOUBLE, _not_a_number, sees_null=True),
    _choice(
        "greatest(a, b, ...)",
        "Greatest that is not null.",
        implementation=lambda *values: greatest(values),
    ),
    _choice(
        "least(a, b, ...)", "Least that is not null.", implementation=lambda *values: least(values)
    ),
)
