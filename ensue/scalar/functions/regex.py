"""Java regular expressions and LIKE patterns as Python ones.

Only what means the same in both is let through; the rest is refused by name, never approximated.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ensue import errors
from ensue.scalar.casts import BadValueError
from ensue.scalar.functions.base import COLUMN_FIRST

_REFUSED = frozenset("pPhHRXGQEkNcvVZ")  # escapes that mean something else, or nothing, in Python


@lru_cache(maxsize=256)
def java_regex(pattern: str) -> re.Pattern[str]:
    """The Python pattern that finds what Java's `Pattern` finds."""
    translated: list[str] = []
    at, inside = 0, 0
    while at < len(pattern):
        char = pattern[at]
        pair = pattern[at : at + 2]
        if char == "\\" and len(pair) == 2:
            if pair[1] in _REFUSED:
                raise _refusal(pattern, pair + ("{...}" if pair[1] in "pP" else ""))
            translated.append({"\\z": "\\Z", "\\e": "\\x1b"}.get(pair, pair))
            at += 2
            continue
        if char == "[":
            if inside:
                raise _refusal(pattern, "a class inside a class")
            inside += 1
            closing = pattern[at + 1 : at + 2] == "]" or pattern[at + 1 : at + 3] == "^]"
            if closing:
                raise _refusal(pattern, "']' at the start of a class")
        elif char == "]" and inside:
            inside -= 1
        elif inside and pair == "&&":
            raise _refusal(pattern, "&&")
        elif not inside and char == "$":
            translated.append(r"(?=(?:\r\n|[\n\r\u0085\u2028\u2029])?\Z)")
            at += 1
            continue
        elif not inside and char == ".":
            translated.append(r"[^\n\r\u0085\u2028\u2029]")
            at += 1
            continue
        elif (
            not inside
            and pattern.startswith("(?", at)
            and not re.match(r"\(\?(?:[:=!>]|<[=!]|i\))", pattern[at:])
        ):
            raise _refusal(pattern, pattern[at : at + 3])
        translated.append(char)
        at += 1
    try:
        return re.compile("".join(translated), re.ASCII)
    except re.error as problem:
        raise errors.ConditionSyntaxError(
            f"{pattern!r} is not a regular expression: {problem}", remedy="correct the pattern"
        ) from None


def _refusal(pattern: str, part: str) -> errors.UnsupportedFunctionError:
    return errors.UnsupportedFunctionError(
        f"the regular expression {pattern!r} uses {part}, which Ensue does not read as Java does",
        remedy=f"rewrite the pattern, or {COLUMN_FIRST}",
    )


@lru_cache(maxsize=256)
def like_parts(pattern: str, escape: str) -> tuple[str, ...]:
    """The pattern as literal texts and the wildcards `%` and `_`, told apart by a leading '='."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == escape:
            following = pattern[at + 1 : at + 2]
            if following == "" or following not in ("%", "_", escape):
                raise BadValueError(f"the LIKE pattern {pattern!r} has a stray escape {escape!r}")
            char, at = f"={following}", at + 1
        elif char not in "%_":
            char = f"={char}"
        if char.startswith("=") and parts and parts[-1].startswith("="):
            parts[-1] += char[1:]
        else:
            parts.append(char)
        at += 1
    return tuple(parts)


@lru_cache(maxsize=256)
def like_regex(pattern: str, escape: str) -> re.Pattern[str]:
    wild = {"%": ".*", "_": "."}
    text = "".join(wild.get(p) or re.escape(p[1:]) for p in like_parts(pattern, escape))
    return re.compile(text, re.DOTALL)
