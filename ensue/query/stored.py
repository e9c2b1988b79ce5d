"""A query as JSON and back: for state that outlives the process, and for pattern files.

A query is a tree of frozen dataclasses, enums, tuples and plain values. Each dataclass and enum of
`ensue.pattern` is written under its name; reading builds only what is in that list, so a file can
name nothing else and nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

from ensue import errors
from ensue.query import condition, missing, nodes, query
from ensue.query.depth import roomy

VERSION = 1
_MODULES = (condition, missing, nodes, query)
_NUMBERS: dict[str, type] = {"Decimal": Decimal, "Fraction": Fraction}


@cache
def _known() -> dict[str, type]:
    """Every dataclass and enum that a query is made of, by name."""
    found: dict[str, type] = {}
    for module in _MODULES:
        for name, kind in vars(module).items():
            own = isinstance(kind, type) and kind.__module__ == module.__name__
            if own and (is_dataclass(kind) or issubclass(kind, Enum)):
                found[name] = kind
    return found


@roomy
def to_json(asked: query.Query) -> str:
    return json.dumps({"ensue query": VERSION, "query": _encode(asked)}, ensure_ascii=False)


@roomy
def from_json(text: str | bytes) -> query.Query:
    """The query of a JSON text; refused where it is none."""
    try:
        told = json.loads(text)
        json.dumps(told, ensure_ascii=False).encode()  # half a pair of surrogates is in none
        version = told["ensue query"]
        if not isinstance(version, int) or version > VERSION:
            raise errors.StateError(
                f"the stored query is of version {version!r}; this Ensue reads {VERSION}",
                remedy="read it with the version of Ensue that wrote it, or a later one",
            )
        found = _decode(told["query"])
    except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError):
        found = None
    if not isinstance(found, query.Query):
        raise errors.StateError(
            "the text is not a stored query, or is damaged",
            remedy="write it with ensue, or write the pattern again",
        )
    return found


@dataclass(frozen=True)
class Fingerprint:
    """Names what a stored state belongs to; `earlier` is what version 1 of a state named it."""

    now: str
    earlier: str = ""


def fingerprint(asked: query.Query | None, *options: Any, earlier: str = "") -> Fingerprint:
    """Of a query in its stored form, and of the options that matter, in values of a query's kind.

    The text `earlier` is what version 1 hashed in place of them.
    """
    text = to_json(asked) if asked is not None else ""
    if options:
        text += json.dumps(_encode(options), ensure_ascii=False)
    return Fingerprint(_digest(text), _digest(earlier) if earlier else "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _encode(value: Any) -> Any:
    kind = type(value).__name__
    if isinstance(value, Enum):
        return {"": kind, "is": value.name}
    if is_dataclass(value) and not isinstance(value, type):
        return {"": kind} | _fields(value)
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if isinstance(value, Decimal | Fraction):
        return {"": kind, "is": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise errors.StateError(
        f"a query holds a value that cannot be stored: {value!r} of type {kind}",
        remedy="write it as SQL text or a number",
    )


def _fields(value: Any) -> dict[str, Any]:
    """Fields that differ from their default: a field added later leaves old texts as they are.

    What equality leaves out is left out here too.
    """
    found = {}
    for described in fields(value):
        held = getattr(value, described.name)
        if not described.compare:
            continue
        if described.default is MISSING or held != described.default:
            found[described.name] = _encode(held)
    return found


def _decode(told: Any) -> Any:
    if isinstance(told, list):
        return tuple(_decode(item) for item in told)
    if not isinstance(told, dict):
        return told
    name = told[""]
    if name in _NUMBERS:
        return _NUMBERS[name](told["is"])
    kind: Any = _known()[name]
    if issubclass(kind, Enum):
        return kind[told["is"]]
    return kind(**{key: _decode(value) for key, value in told.items() if key})
