"""Sentences with values: which part of a condition failed, and of what values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol

from ensue import errors
from ensue.query import condition as c
from ensue.query.query import Window, WindowKind
from ensue.query.sql import condition_sql, describe, shortened
from ensue.scalar.values import Compiled, Leaf
from ensue.why.account import CONDITION, NULL

_LONGEST = 60
_MARK = "__value_"
_MARKS = re.compile(_MARK + r"\d+")
_LEAVES = (c.Column, c.Navigate, c.Aggregate, c.MatchNumber, c.Classifier)
Parts = Sequence[tuple[c.Condition, c.Condition]]  # as written, and over inputs


class Reader(Protocol):
    """What asks conditions."""

    def compiled(self, condition: c.Condition, /) -> Compiled: ...


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


def nearly(
    parts: Parts, reader: Reader, rows: Iterable[int], leaf_at: Callable[[int], Leaf]
) -> str:
    """Of rows that passed: the last at which most parts held, if any did, and what failed there."""
    if len(parts) < 2:
        return ""
    tests = [reader.compiled(part) for _, part in parts]
    seen: Counter[tuple[bool, ...]] = Counter()
    most, last = 1, -1
    best: tuple[bool, ...] = ()
    for row in rows:
        leaf = leaf_at(row)
        held = tuple(_holds(test, leaf) for test in tests)
        if most <= sum(held) < len(held):
            most, last, best = sum(held), row, held
            seen[held] += 1
    if not best:
        return ""
    told = " and ".join(
        describe(written) for (written, _), held in zip(parts, best, strict=True) if held
    )
    count = seen[best]
    where = "row, but" if count == 1 else "rows, but at the last of them"
    return f"; {told} held at {count:,} {where} {failure(parts, reader, leaf_at(last))[1]}"


def _holds(test: Compiled, leaf: Leaf) -> bool:
    try:
        return test(leaf) is True
    except errors.DataError:
        return False  # another part rules the row out before this one is asked


def asked(parts: Parts, reader: Reader, leaf: Leaf) -> tuple[bool | None, str]:
    """What a condition gives, and each of its parts with its values."""
    value: bool | None = True
    texts = []
    for written, part in parts:
        try:
            found = reader.compiled(part)(leaf)
        except errors.DataError:
            continue  # another part rules the row out before this one is asked
        texts.append(_text(written, part, leaf, "null" if found is None else str(found).lower()))
        if found is False or (found is None and value):
            value = found
    return value, "; ".join(texts) or "true of every row"


def _text(written: c.Condition, part: c.Condition, leaf: Leaf, value: str) -> str:
    text, template, leaves = _template(written, part)
    if part in leaves:
        return f"{text} is {value}"
    values = {f"{_MARK}{index}": _shown(leaf(node)) for index, node in enumerate(leaves)}
    filled = _MARKS.sub(lambda mark: values[mark[0]], template)
    return f"{text}: {shortened(filled)} is {value}"


@lru_cache(maxsize=1000)
def _template(written: c.Condition, part: c.Condition) -> tuple[str, str, tuple[c.Condition, ...]]:
    """A part as written, with a mark for each value that it reads, and what these are."""
    leaves: dict[c.Condition, int] = {}

    def change(node: c.Condition) -> c.Condition | None:
        if not isinstance(node, _LEAVES):
            return None
        return c.Column(f"{_MARK}{leaves.setdefault(node, len(leaves))}")

    template = condition_sql(c.transform(part, change))
    return describe(written), template, tuple(leaves)


def _shown(value: Any) -> str:
    """A value as SQL shows it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int() | float() | Decimal():
            return str(value)
        case _:
            text = str(value)
            short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
            return "'" + short.replace("'", "''") + "'"


def beyond(window: Window, first: Any, last: Any, rows: int) -> str:
    """By how much a row lies outside the window."""
    if window.kind is WindowKind.ROWS:
        return f"row {rows} of the match, and within allows {window.size}"
    return after("first row", window, abs(last - first))


def after(what: str, window: Window, length: Any) -> str:
    """How long after an event a row comes, and by how much that is too late."""
    size: Any = window.size
    if window.kind is WindowKind.TIME:
        size = timedelta(microseconds=size)
        if not isinstance(length, timedelta):
            length = timedelta(microseconds=length)
    elif isinstance(length, Decimal):
        size = Decimal(str(size))
    more = length - size
    return f"{_short(length)} after the {what}, {_short(more)} more than within allows"


def _short(length: Any) -> str:
    """A length; of a duration no zeros behind the second."""
    text = str(length)
    return text.rstrip("0") if isinstance(length, timedelta) and "." in text else text


def counted(parts: Sequence[tuple[c.Condition, int]], rows: int) -> str:
    """How often each part of an AND held."""
    told = ", ".join(f"{describe(written)} held at {count:,}" for written, count in parts)
    return f"no row of {rows:,} fits" + (f": {told}" if told else "")
