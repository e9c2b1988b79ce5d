"""The folds and collects people know, on plain values and by their code in the kernel.

All follow SQL: a null weight is skipped (it says nothing), a null slot means "nothing yet", so the
null slot is the identity of every associative fold. NaN is Spark's: greater than any number, equal
to itself. Integers are exact: Python's grow, the kernel's say where they leave 64 bits. So are sums
of decimals; `decimals.py` says where they leave their type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from ensue import errors
from ensue.quantities.model import Collect, Fold, Operation
from ensue.scalar import kinds as k
from ensue.scalar.casts import EXACT
from ensue.scalar.kinds import Kind

Kinds = tuple[Kind, ...]
_ROOM = 10  # digits that a sum of decimals has beside those of the values


def _skipping(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def fold(state: Any, value: Any) -> Any:
        if value is None:
            return state
        return value if state is None else function(state, value)

    return fold


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def greater(value: Any, than: Any) -> bool:
    """Spark's order: NaN is greatest."""
    if _is_nan(value) or _is_nan(than):
        return _is_nan(value) and not _is_nan(than)
    return bool(value > than)


def _max(state: Any, value: Any) -> Any:
    return value if greater(value, state) else state


def _min(state: Any, value: Any) -> Any:
    return value if greater(state, value) else state


def _count(state: Any, value: Any) -> Any:
    return (state or 0) + (value is not None)


def _rows(state: Any, value: Any) -> Any:
    return (state or 0) + 1


def _replace(state: Any, value: Any) -> Any:
    return value


def _first(state: Any, value: Any) -> Any:
    return value if state is None else state


def _argument_of(best: Callable[[Any, Any], bool]) -> Callable[..., tuple[Any, Any]]:
    def fold(key: Any, value: Any, new_key: Any, new_value: Any) -> tuple[Any, Any]:
        if new_key is None or (key is not None and not best(new_key, key)):
            return key, value
        return new_key, new_value

    return fold


def _moments(count: Any, mean: Any, spread: Any, value: Any) -> tuple[Any, Any, Any]:
    """Welford's update of number, mean and sum of squared distances."""
    count, mean, spread = count or 0, mean or 0.0, spread or 0.0
    if value is None:
        return count, mean, spread
    distance = float(value) - mean
    mean += distance / (count + 1)
    return count + 1, mean, spread + distance * (float(value) - mean)


def _logical_or(state: Any, value: Any) -> Any:
    return bool(state) or bool(value)


def _logical_and(state: Any, value: Any) -> Any:
    return bool(state) and bool(value)


def _add(state: Any, value: Any) -> Any:
    """Decimals keep every digit, which Python's own sum of them does not."""
    if isinstance(state, Decimal) or isinstance(value, Decimal):
        if isinstance(state, float) or isinstance(value, float):
            return float(state) + float(value)
        return EXACT.add(state, value)
    return state + value


def _multiply(state: Any, value: Any) -> Any:
    """Decimals as doubles: the digits of an exact product would grow with the stream."""
    if isinstance(state, Decimal) or isinstance(value, Decimal):
        return float(state) * float(value)
    return state * value


def _keeps(slots: Kinds, weights: Kinds) -> Kinds:
    kind = k.common(slots[0], weights[0])
    if kind is None:
        raise errors.OperationTypeError(
            f"a fold that began with {slots[0]} meets a value of type {weights[0]}",
            remedy="give start and values of one type, or cast one of them",
        )
    return (kind,)


def _total(slots: Kinds, weights: Kinds) -> Kinds:
    (kind,) = _keeps(slots, weights)
    if not (kind.numeric or kind.name == "null"):
        raise errors.OperationTypeError(
            f"sum and product fold numbers, not {kind}",
            remedy="cast the value to a number, or use max, min, count or last",
        )
    if kind.name == "int":
        return (k.BIGINT,)
    return (k.DOUBLE,) if kind == k.FLOAT else (kind,)


def _sum(slots: Kinds, weights: Kinds) -> Kinds:
    """As Spark's: of decimals, room for ten digits more than the values have."""
    (weight,) = weights
    if weight.name == "decimal":
        more = min(k.MAX_PRECISION, weight.precision + _ROOM)
        weights = (k.decimal(more, weight.scale),)
    return _total(slots, weights)


def _product(slots: Kinds, weights: Kinds) -> Kinds:
    """As Spark's: of decimals, a double."""
    (kind,) = _total(slots, weights)
    return (k.DOUBLE,) if kind.name == "decimal" else (kind,)


def _truth(slots: Kinds, weights: Kinds) -> Kinds:
    if weights[0].name not in ("boolean", "null"):
        raise errors.OperationTypeError(
            f"any and all fold booleans, not {weights[0]}", remedy="write a comparison, as in x > 0"
        )
    return (k.BOOLEAN,)


REPLACE = Fold("replace", _replace, result=lambda slots, weights: weights)
FOLDS: dict[str, Fold] = {
    fold.name: fold
    for fold in (
        REPLACE,
        Fold("last", _skipping(_replace), associative=True, result=_keeps),
        Fold("first", _first, associative=True, result=_keeps),
        Fold("sum", _skipping(_add), associative=True, result=_sum),
        Fold("product", _skipping(_multiply), associative=True, result=_product),
        Fold("min", _skipping(_min), associative=True, result=_keeps),
        Fold("max", _skipping(_max), associative=True, result=_keeps),
        Fold("count", _count, result=lambda slots, weights: (k.BIGINT,)),
        Fold("rows", _rows, result=lambda slots, weights: (k.BIGINT,)),
        Fold("any", _skipping(_logical_or), associative=True, result=_truth),
        Fold("all", _skipping(_logical_and), associative=True, result=_truth),
        Fold(
            "argmax",
            _argument_of(greater),
            width=2,
            weights=2,
            result=lambda slots, weights: weights,
        ),
        Fold(
            "argmin",
            _argument_of(lambda new, old: greater(old, new)),
            width=2,
            weights=2,
            result=lambda slots, weights: weights,
        ),
        Fold(
            "moments",
            _moments,
            width=3,
            result=lambda slots, weights: (k.BIGINT, k.DOUBLE, k.DOUBLE),
        ),
    )
}
# The sum that a mean divides: of decimals, typed as the values are.
TOTAL = replace(FOLDS["sum"], result=_total)

# The fold that puts together what chunks have folded, where it is another.
MERGED = {"count": "sum", "rows": "sum"}

# (collect, fold) pairs that are left-distributive, (y ⊕ z) ⊗ x = (y ⊗ x) ⊕ (z ⊗ x), for all values
# that both take; and those where y and z may be null too. Tests derive both from the law.
DISTRIBUTIVE_WITH_NULLS = {
    *(("max", fold) for fold in ("max", "any", "last", "replace")),
    *(("min", fold) for fold in ("min", "all", "last", "replace")),
    *(("any", fold) for fold in ("any", "max", "last", "replace")),
    *(("all", fold) for fold in ("all", "min", "last", "replace")),
}
DISTRIBUTIVE = DISTRIBUTIVE_WITH_NULLS | {
    *(("max", fold) for fold in ("sum", "count", "rows", "min", "all", "first")),  # max-plus
    *(("min", fold) for fold in ("sum", "count", "rows", "max", "any", "first")),  # min-plus
    *(("any", fold) for fold in ("all", "min", "first")),  # boolean
    *(("all", fold) for fold in ("any", "max", "first")),
    *(("sum", fold) for fold in ("product", "first")),  # counting, probability
}
COLLECTS: dict[str, Collect] = {
    name: Collect(name, FOLDS[name].function) for name in ("max", "min", "sum", "any", "all")
}


def is_known(part: Fold | Collect) -> bool:
    """Whether it is one of these, and not the user's."""
    known = FOLDS.get(part.name)
    return known is not None and known.function is part.function


def users_name(function: Callable[..., Any], otherwise: str) -> str:
    """The name of a user's function, which is never that of a fold that is known here."""
    name = str(getattr(function, "__name__", otherwise))
    return f"{name}()" if name in FOLDS else name


def fold_of(given: Any) -> Fold:
    """A fold by name, from an operation over (state, value), or from a Python callable."""
    if isinstance(given, Fold):
        return given
    if isinstance(given, Operation):
        return Fold(str(given), given, operation=given, result=_operation_result(given))
    if callable(given):
        return Fold(users_name(given, "fold"), given)
    raise errors.AutomatonError(
        f"{given!r} is not a fold",
        remedy=f"use one of {', '.join(FOLDS)}, SQL over `state` and `value`, or a callable of two",
    )


def sketch(add: Callable[[Any, Any], Any]) -> Fold:
    """The fold of numbers into a sketch, which is a value of no column's type."""

    def result(slots: Kinds, weights: Kinds) -> Kinds:
        if not (weights[0].numeric or weights[0].name in ("null", "other")):
            raise errors.OperationTypeError(
                f"a quantile is of numbers, not {weights[0]}",
                remedy="cast the value to a number, as in CAST(x AS DOUBLE)",
            )
        return (k.other("a sketch"),)

    return Fold("sketch", add, result=result)


def _operation_result(operation: Operation) -> Callable[[Kinds, Kinds], Kinds]:
    def result(slots: Kinds, weights: Kinds) -> Kinds:
        kind = operation.kind((slots[0], weights[0]), "fold")
        assert kind is not None
        return (kind,)

    return result
