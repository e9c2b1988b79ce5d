"""What is typed: a query in one of the languages, its fields, and where in them a mistake is.

A query comes as a language, a text and options that are texts as well. Each field is read by the
library's own readers; what they refuse is given its place: the field, the line and the column, in
the units that editors count (UTF-16).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ensue import errors

LANGUAGES = {"pattern": "Pattern", "sql": "SQL", "python": "Python", "sase": "SASE"}
OPTIONS = (
    *("types", "define", "without", "subset", "partition_by", "order_by", "within", "select"),
    *("after_match", "measures", "missing", "rows_per_match", "dialect"),
)
TEXT = "text"
MAX_TEXT = 200_000  # characters of all fields together
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"|`([^`]+)`")
_TOKEN = re.compile(r"\w+|->>?|[^\w\s]")
# How a message says of which part of the query it speaks.
_PARTS = (
    (re.compile(r"DEFINE (\S+?):?\s"), ("define", "without")),
    (re.compile(r"measure (\S+?):?\s"), ("measures",)),
    (re.compile(r"SUBSET (\S+?):?\s"), ("subset",)),
    (re.compile(r"PARTITION BY"), ("partition_by",)),
    (re.compile(r"ORDER BY"), ("order_by",)),
)


@dataclass(frozen=True)
class Typed:
    """A query as it was typed."""

    language: str
    text: str
    options: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(given: Any) -> Typed:
        """From a message; what is no query is refused by name."""
        if not isinstance(given, dict) or not isinstance(given.get("text"), str):
            raise errors.QueryError(
                "the message has no query", remedy='give {"language": ..., "text": ...}'
            )
        language = given.get("language", "pattern")
        if language not in LANGUAGES:
            raise errors.QueryError(
                f"the language {language!r} is not known",
                remedy="use one of " + ", ".join(LANGUAGES),
            )
        options = given.get("options") or {}
        strange = [
            name
            for name, value in options.items()
            if name not in OPTIONS or not isinstance(value, str)
        ]
        if strange:
            raise errors.QueryError(
                f"{strange[0]!r} is not an option of a query, or its value is not text",
                remedy="options are: " + ", ".join(OPTIONS),
            )
        size = len(given["text"]) + sum(map(len, options.values()))
        if size > MAX_TEXT:
            raise errors.LimitError(
                f"the query has {size:,} characters; the limit is {MAX_TEXT:,}",
                remedy="shorten it, or run it from Python",
            )
        said = {name: value for name, value in options.items() if value.strip()}
        return Typed(language, given["text"], said)

    def message(self) -> dict[str, Any]:
        return {"language": self.language, "text": self.text, "options": dict(self.options)}

    def field(self, name: str) -> str:
        return self.text if name == TEXT else self.options.get(name, "")

    @property
    def key(self) -> tuple[Any, ...]:
        """What two queries that say the same have in common."""
        return (self.language, self.text, *sorted(self.options.items()))


@dataclass(frozen=True)
class Spot:
    """A stretch of a field, in characters."""

    field: str
    offset: int
    length: int


class TextError(Exception):
    """An error of the library, and the spot of what was typed that it is about."""

    def __init__(self, problem: errors.EnsueError, spot: Spot | None) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.spot = spot


@contextmanager
def reading(name: str, text: str) -> Iterator[None]:
    """Errors raised inside are about `text`, which is the field `name`."""
    try:
        yield
    except errors.EnsueError as problem:
        offset, length = inside(problem, text)
        raise TextError(problem, Spot(name, offset, length)) from None


def inside(problem: errors.EnsueError, text: str) -> tuple[int, int]:
    """Offset and length of what the problem names in the text; all of it where that is unknown."""
    if problem.place is not None:
        base = text.find(problem.place.text)
        offset = max(base, 0) + problem.place.offset
        return offset, token_length(text, offset)
    for quoted in _QUOTED.finditer(problem.problem):
        name = next(group for group in quoted.groups() if group is not None)
        found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
        if found:
            return found.start(), len(name)
    begin = len(text) - len(text.lstrip())
    return begin, max(len(text.strip()), 1)


def token_length(text: str, offset: int) -> int:
    token = _TOKEN.match(text, offset)
    return len(token[0]) if token else 1


def lines(text: str) -> list[tuple[str, str, int, int]]:
    """`name: value` line by line: name, value, and where each begins. Lines that begin with a
    blank go on with the value before."""
    found: list[tuple[str, str, int, int]] = []
    for match in re.finditer(r"(?m)^\S[^\n]*(?:\n[ \t]+[^\n]*)*", text):
        entry = match[0]
        name, colon, value = entry.partition(":")
        if not colon:
            problem = errors.ConditionSyntaxError(
                f"{entry.strip()!r} has no colon", remedy="write a name, a colon and a condition"
            )
            raise TextError(problem, Spot("", match.start(), len(entry.rstrip())))
        blank = len(value) - len(value.lstrip())
        begin = match.start() + len(name) + 1 + blank
        found.append((name.strip(), value.strip(), match.start(), begin))
    return found


def spot_of(problem: errors.EnsueError, typed: Typed) -> Spot | None:
    """Where in the typed query a problem is that was met after its fields were read."""
    fields = [TEXT, *typed.options]
    if problem.place is not None:
        for name in fields:
            base = typed.field(name).find(problem.place.text)
            if base >= 0:
                offset = base + problem.place.offset
                return Spot(name, offset, token_length(typed.field(name), offset))
    for pattern, names in _PARTS:
        said = pattern.match(problem.problem)
        if said is None or typed.language in ("sql", "python"):
            continue
        for name in names:
            spot = _part(problem, typed.field(name), name, said.groups())
            if spot is not None:
                return spot
    for name in fields:
        text = typed.field(name)
        for quoted in _QUOTED.finditer(problem.problem):
            word = next(group for group in quoted.groups() if group is not None)
            found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)
            if found:
                return Spot(name, found.start(), len(word))
    return None


def _part(problem: errors.EnsueError, text: str, name: str, said: tuple[Any, ...]) -> Spot | None:
    """In the definition or measure that the message names."""
    if not text:
        return None
    if not said:
        offset, length = inside(problem, text)
        return Spot(name, offset, length)
    for label, value, _, begin in lines(text):
        if label.casefold() == said[0].strip("'\"`").casefold():
            offset, length = inside(problem, value)
            return Spot(name, begin + offset, length)
    return None


def place(spot: Spot | None, typed: Typed | None) -> dict[str, Any] | None:
    """The spot as a message says it: in UTF-16 units, lines and columns from 1."""
    if spot is None or typed is None:
        return None
    text = typed.field(spot.field)
    offset = max(0, min(spot.offset, len(text)))
    begin = text.rfind("\n", 0, offset) + 1
    return {
        "field": spot.field,
        "line": text.count("\n", 0, offset) + 1,
        "column": utf16(text[begin:offset]) + 1,
        "offset": utf16(text[:offset]),
        "length": utf16(text[offset : offset + spot.length]),
    }


def utf16(text: str) -> int:
    """How long editors of the browser take the text to be."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def from_utf16(text: str, offset: int) -> int:
    """A place that an editor names, in characters."""
    units = text.encode("utf-16-le", "surrogatepass")[: 2 * max(0, offset)]
    return len(units.decode("utf-16-le", "ignore"))
