"""Functions of arrays. An index that is out of bounds raises (ANSI)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ensue.pattern import kinds as k
from ensue.pattern.casts import BadValueError
from ensue.pattern.functions.base import Function, Given, Signature, same
from ensue.pattern.functions.operators import equal


def _resolve_element(given: Sequence[Given]) -> Signature | None:
    array, index = given[0].kind, given[1].kind
    if array.element is None or index.name not in ("int", "null"):
        return None
    return Signature((array, k.INT if index.name == "null" else index), array.element, True)


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


ARRAYS = (
    Function(
        "element",
        "x[i]",
        "arrays",
        "The element at i, counted from 0.",
        2,
        2,
        _resolve_element,
        same(_element),
    ),
    Function(
        "element_at",
        "element_at(x, i)",
        "arrays",
        "The element at i, counted from 1, or from the end where negative.",
        2,
        2,
        _resolve_element,
        same(_element_at),
    ),
    Function(
        "size",
        "size(x)",
        "arrays",
        "Number of elements; also cardinality.",
        1,
        1,
        _resolve_size,
        same(len),
    ),
    Function(
        "array_contains",
        "array_contains(x, value)",
        "arrays",
        "Whether value is an element; null if it is not but a null is.",
        2,
        2,
        _resolve_contains,
        same(_contains),
    ),
)
