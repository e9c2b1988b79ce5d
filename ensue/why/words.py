"""Sentences with values: which part of a condition failed, and of what values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from ensue import errors
from ensue.guards.reader import Reader
from ensue.query import condition as c
from ensue.query.query import Window, WindowKind
from ensue.query.sql import describe
from ensue.scalar.values import Leaf
from ensue.why.account import CONDITION, NULL

_LONGEST = 60
_LEAVES = (c.Column, c.Navigate, c.Aggregate, c.MatchNumber, c.Classifier)
Parts = Sequence[tuple[c.Condition, c.Condition]]  # as written, and over inputs


def failure(parts: Parts, reader: Reader, leaf: Leaf) -> tuple[str, str]:
    """The reason and the text of the first part that is false, or else null."""
    unknown: str | None = None
    for written, part in parts:
        try:
            value = reader.compiled(part)(leaf)
        except errors.DataError:
            continue  # another part rules the row out before this one is asked
        if value is False:
            return CONDITION, _text(written, part, leaf, "false")
        if value is None and unknown is None:
            unknown = _text(written, part, leaf, "null")
    return (CONDITION, "it does not fit") if unknown is None else (NULL, unknown)


def _text(written: c.Condition, part: c.Condition, leaf: Leaf, value: str) -> str:
    def change(node: c.Condition) -> c.Condition | None:
        return literal(leaf(node)) if isinstance(node, _LEAVES) else None

    filled = c.transform(part, change)
    shown = "" if isinstance(filled, c.Literal) else f": {describe(filled)}"
    return f"{describe(written)}{shown} is {value}"


def literal(value: Any) -> c.Literal:
    """A value as SQL shows it."""
    match value:
        case None:
            return c.Literal("null", None)
        case bool():
            return c.Literal("boolean", value)
        case int():
            return c.Literal("int", value)
        case float() if math.isfinite(value):
            return c.Literal("decimal", Decimal(repr(value)))
        case Decimal() if value.is_finite():
            return c.Literal("decimal", value)
        case _:
            text = str(value)
            short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
            return c.Literal("string", short)


def beyond(window: Window, first: Any, last: Any, rows: int) -> str:
    """By how much a row lies outside the window."""
    if window.kind is WindowKind.ROWS:
        return f"row {rows} of the match, and within allows {window.size}"
    size: Any = window.size
    if window.kind is WindowKind.TIME:
        size = timedelta(microseconds=size)
    length = abs(last - first)
    if isinstance(length, Decimal):
        size = Decimal(str(size))
    return f"{length} after the first row, {length - size} more than within allows"


def counted(parts: Sequence[tuple[c.Condition, int]], rows: int) -> str:
    """How often each part of an AND held."""
    told = ", ".join(f"{describe(written)} held at {count:,}" for written, count in parts)
    return f"no row of {rows:,} fits" + (f": {told}" if told else "")
