"""Java regular expressions and LIKE patterns, read as Java does and matched in bounded time.

Only what means the same is let through; the rest is refused by name, never approximated. RLIKE is
answered by RE2, through Arrow, in time linear in the text; Python's matcher, which goes back, gets
what RE2 lacks (look-around, references, `(?i)`) where no part can be repeated in many ways.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.scalar.casts import BadValueError
from ensue.scalar.functions.base import COLUMN_FIRST

_LINE_END = r"(?=(?:\r\n|[\n\r\u0085\u2028\u2029])?\Z)"  # Java's `$`, and its `\Z`
_SPACE = r" \t\n\x0b\f\r"  # Java's `\s`; RE2's lacks the vertical tab
_QUANTIFIER = re.compile(r"[*+?]|\{\d+(?:,\d*)?\}")
_UNBOUNDED = re.compile(r"[*+]|\{\d+,\}")
_MOST_LOOPS = 3
_REFUSED = frozenset("pPhHRXGQEkNcvVZ")  # escapes that mean something else, or nothing, in Python


@lru_cache(maxsize=256)
def java_regex_checked(pattern: str) -> re.Pattern[str]:
    """The Python pattern that finds what Java's `Pattern` finds."""
    translated: list[str] = []
    at, inside = 0, 0
    while at < len(pattern):
        char = pattern[at]
        pair = pattern[at : at + 2]
        if char == "\\" and len(pair) == 2:
            if pair == "\\Z" and not inside:
                translated.append(_LINE_END)
                at += 2
                continue
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
            translated.append(_LINE_END)
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
    """The pattern as literal texts and the wildcards `%` and `_`, marked by a leading '='."""
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
def _pieces(pattern: str, escape: str) -> tuple[re.Pattern[str], ...]:
    """What stands between the `%` of a LIKE pattern: texts of a fixed length."""
    pieces = [""]
    for part in like_parts(pattern, escape):
        if part == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if part == "_" else re.escape(part[1:])
    return tuple(re.compile(piece, re.DOTALL) for piece in pieces)


def like(text: str, pattern: str, escape: str) -> bool:
    """Each piece at its first place: where that fails, no later place helps."""
    first, *rest = _pieces(pattern, escape)
    found = first.match(text)
    if found is None or not rest:
        return found is not None and found.end() == len(text)
    for piece in rest[:-1]:
        found = piece.search(text, found.end())
        if found is None:
            return False
    tail = re.compile(f"(?:{rest[-1].pattern})\\Z", re.DOTALL)
    return tail.search(text, found.end()) is not None


@lru_cache(maxsize=256)
def re2_regex(pattern: str) -> str | None:
    """The pattern as RE2 reads it with the meaning of Java; None where RE2 has no such thing."""
    java_regex_checked(pattern)
    made: list[str] = []
    at, inside = 0, False
    while at < len(pattern):
        char, pair = pattern[at], pattern[at : at + 2]
        if char == "\\" and len(pair) == 2:
            if pair[1] in "u0123456789Z" or pair in ("\\x",) or (inside and pair == "\\S"):
                return None
            space = {"\\s": _SPACE if inside else f"[{_SPACE}]", "\\S": f"[^{_SPACE}]"}
            made.append(space.get(pair) or {"\\e": r"\x1b"}.get(pair, pair))
            at += 2
            continue
        if pattern.startswith("(?", at) and not inside and pattern[at + 2 : at + 3] != ":":
            return None
        if not inside and char == "$":
            rest = pattern[at + 1 :]
            if rest.strip(")") and (rest[0] != "|" or "(" in pattern):
                return None  # what follows could still match the line's end
            made.append(r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z")
        elif not inside and char == ".":
            made.append(r"[^\n\r\x{85}\x{2028}\x{2029}]")
        else:
            inside = char == "[" or (inside and char != "]")
            made.append(char)
        at += 1
    text = "".join(made)
    try:
        pc.match_substring_regex("", pattern=text)
    except pa.ArrowInvalid:
        return None
    return text


def java_regex(pattern: str) -> re.Pattern[str]:
    """Python's pattern, refused where matching it could take more than a few passes of the text."""
    found = java_regex_checked(pattern)
    bare = re.sub(r"\\.|\[[^\]]*\]", "x", pattern)
    repeated = re.search(r"\)(?:[*+]|\{)", bare)
    if repeated and (_QUANTIFIER.search(bare[: repeated.start()]) or "|" in bare):
        raise _refusal(pattern, "a repeated group that can be read in many ways")
    if len(_UNBOUNDED.findall(bare)) > _MOST_LOOPS:
        raise _refusal(pattern, f"more than {_MOST_LOOPS} loops")
    return found


def rlike(text: str, pattern: str) -> bool:
    """Whether the regular expression is found."""
    linear = re2_regex(pattern)
    if linear is None:
        return java_regex(pattern).search(text) is not None
    return bool(pc.match_substring_regex(text, pattern=linear).as_py())
