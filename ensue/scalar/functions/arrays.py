"""Functions of arrays. An index that is out of bounds raises (ANSI)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ensue.scalar import kinds as k
from ensue.scalar.casts import BadValueError
from ensue.scalar.functions.base import Function, Given, Signature, alike, function, same
from ensue.scalar.functions.operators import equal, greatest, least

_NESTED = ("array", "struct", "other", "months")  # not elements, and without an order


def _resolve_element(given: Sequence[Given]) -> Signature | None:
    array, index = given[0].kind, given[1].kind
    if array.element is None or index.name not in ("int", "null"):
        return None
    return Signature((array, k.INT if index.name == "null" else index), array.element, True)


def _resolve_element_at(given: Sequence[Given]) -> Signature | None:
    return None if given[1].kind == k.BIGINT else _resolve_element(given)


def _element(values: list[Any], index: int) -> Any:
    if not 0 <= index < len(values):
        raise BadValueError(f"index {index} of an array of {len(values)}, counted from 0")
    return values[index]


def _element_at(values: list[Any], index: int) -> Any:
    if index == 0 or abs(index) > len(values):
        raise BadValueError(f"element {index} of an array of {len(values)}, counted from 1")
    return values[index - 1 if index > 0 else index]


def _resolve_size(given: Sequence[Given]) -> Signature | None:
    kind = given[0].kind
    return Signature((kind,), k.INT) if kind.name in ("array", "null") else None


def _resolve_contains(given: Sequence[Given]) -> Signature | None:
    array, value = given[0].kind, given[1].kind
    if array.element is None or k.NULL in (array.element, value):
        return None
    if "string" in (array.element.name, value.name) and array.element.name != value.name:
        return None
    shared = k.common(array.element, value)
    return None if shared is None else Signature((k.array(shared), shared), k.BOOLEAN)


def _contains(values: list[Any], wanted: Any) -> bool | None:
    if any(value is not None and equal(value, wanted) for value in values):
        return True
    return None if None in values else False


def _resolve_array(given: Sequence[Given]) -> Signature | None:
    shared = alike(given)
    if shared is None or shared.name in ("null", *_NESTED):
        return None
    return Signature((shared,) * len(given), k.array(shared))


def _array(*values: Any) -> list[Any]:
    return list(values)


def _resolve_join(given: Sequence[Given]) -> Signature | None:
    array, *texts = (argument.kind for argument in given)
    if array.element not in (k.STRING, k.NULL) or any(t not in (k.STRING, k.NULL) for t in texts):
        return None
    return Signature((k.array(k.STRING), *(k.STRING for _ in texts)), k.STRING)


def _join(values: list[str | None], separator: str, null: str | None = None) -> str:
    texts = (null if value is None else value for value in values)
    return separator.join(text for text in texts if text is not None)


def _resolve_extreme(given: Sequence[Given]) -> Signature | None:
    element = given[0].kind.element
    if element is None or element.name in _NESTED:
        return None
    return Signature((given[0].kind,), element)


_arrays = partial(function, "arrays")
_AT = "The element at i, counted from 0."
_FROM_END = "The element at i, counted from 1, or from the end where negative."
_IS_IN = "Whether value is an element; null if it is not but a null is."
_JOINED = "Strings joined with a separator, nulls left out or replaced."
ARRAYS = (
    _arrays("array(a, ...)", "An array of these elements.", _resolve_array, _array, sees_null=True),
    Function("element", "x[i]", "arrays", _AT, 2, 2, _resolve_element, same(_element)),
    _arrays("element_at(x, i)", _FROM_END, _resolve_element_at, _element_at),
    _arrays("size(x)", "Number of elements; also cardinality.", _resolve_size, len),
    _arrays("array_contains(x, value)", _IS_IN, _resolve_contains, _contains),
    _arrays("array_join(x, separator[, null])", _JOINED, _resolve_join, _join),
    _arrays("array_max(x)", "The greatest element that is not null.", _resolve_extreme, greatest),
    _arrays("array_min(x)", "The least element that is not null.", _resolve_extreme, least),
)
