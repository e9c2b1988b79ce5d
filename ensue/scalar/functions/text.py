"""Functions of strings. Positions and lengths count code points, from 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ensue.scalar import kinds as k
from ensue.scalar.functions.base import (
    Function,
    Given,
    Resolve,
    Scalar,
    Signature,
    fixed,
    implicit,
    same,
)
from ensue.scalar.functions.regex import java_regex, like_regex

S, N, B = k.STRING, k.INT, k.BOOLEAN


def _resolve_length(given: Sequence[Given]) -> Signature | None:
    parameter = k.BINARY if given[0].kind == k.BINARY else S
    return Signature((parameter,), N) if implicit(given[0].kind, parameter) else None


def _resolve_substring(given: Sequence[Given]) -> Signature | None:
    first = k.BINARY if given[0].kind == k.BINARY else S
    return fixed(first, N, N, result=first)(given)


def _resolve_strings(least: int) -> Resolve:
    def resolve(given: Sequence[Given]) -> Signature | None:
        fits = len(given) >= least and all(implicit(g.kind, S) for g in given)
        return Signature((S,) * len(given), S) if fits else None

    return resolve


def _resolve_left(given: Sequence[Given]) -> Signature | None:
    first = k.BINARY if given[0].kind == k.BINARY else S
    return fixed(first, N, result=first)(given)


def _resolve_concat(given: Sequence[Given]) -> Signature | None:
    if all(g.kind == k.BINARY for g in given):
        return Signature((k.BINARY,) * len(given), k.BINARY)
    return _resolve_strings(1)(given)


def _resolve_reverse(given: Sequence[Given]) -> Signature | None:
    kind = given[0].kind if given[0].kind.name in ("array", "binary") else S
    return Signature((kind,), kind) if implicit(given[0].kind, kind) else None


def _trimmed(left: bool, right: bool) -> Scalar:
    def trim(text: str, characters: str = " ") -> str:
        if left:
            text = text.lstrip(characters) if characters else text
        if right:
            text = text.rstrip(characters) if characters else text
        return text

    return trim


def substring(text: Any, start: int, length: int = 2**31 - 1) -> Any:
    """From `start`, counted from the end where negative; 0 is as 1."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    last = first + length
    return text[max(first, 0) : max(last, 0)] if length > 0 else text[:0]


def _concat(*texts: Any) -> Any:
    return type(texts[0])().join(texts)


def _concat_ws(separator: str | None, *texts: str | None) -> str | None:
    if separator is None:
        return None
    return separator.join(text for text in texts if text is not None)


def _like(text: str, pattern: str, escape: str = "\\") -> bool:
    return like_regex(pattern, escape).fullmatch(text) is not None


def _ilike(text: str, pattern: str, escape: str = "\\") -> bool:
    return _like(text.lower(), pattern.lower(), escape)


def _rlike(text: str, pattern: str) -> bool:
    return java_regex(pattern).search(text) is not None


def _replace(text: str, search: str, replacement: str = "") -> str:
    return text.replace(search, replacement) if search else text


def _locate(search: str | None, text: str | None, start: int | None = 1) -> int | None:
    """Spark answers 0 for a null start, and 1 for an empty search wherever it starts."""
    if search is None or text is None:
        return 0 if start is None else None
    if start is None or start < 1:
        return 0
    return text.find(search, start - 1) + 1 if search else 1


def _padding(text: str, length: int, pad: str) -> str:
    missing = length - len(text)
    if missing <= 0 or not pad:
        return ""
    return (pad * (missing // len(pad) + 1))[:missing]


def _lpad(text: str, length: int, pad: str = " ") -> str:
    return _padding(text, length, pad) + text[: max(length, 0)]


def _rpad(text: str, length: int, pad: str = " ") -> str:
    return text[: max(length, 0)] + _padding(text, length, pad)


def _split(text: str, pattern: str, limit: int = -1) -> list[str]:
    """As Java's `split`: an empty match at the start cuts nothing off."""
    if not pattern:
        pieces = list(text) if limit <= 0 else [*text[: limit - 1], text[limit - 1 :]]
        return [piece for piece in pieces if piece] or [""]
    pieces, at = [], 0
    for found in java_regex(pattern).finditer(text):
        if 0 < limit <= len(pieces) + 1:
            break
        if found.end() == 0:
            continue
        pieces.append(text[at : found.start()])
        at = found.end()
    return [*pieces, text[at:]]


def _initcap(text: str) -> str:
    return " ".join(word[:1].title() + word[1:] for word in text.lower().split(" "))


def _left(text: Any, length: int) -> Any:
    return text[: max(length, 0)]


def _right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


def _entry(
    name: str, usage: str, doc: str, resolve: Resolve, function: Scalar, least: int, most: int
) -> Function:
    return Function(name, usage, "strings", doc, least, most, resolve, same(function))


def _test(name: str, doc: str, function: Scalar) -> Function:
    usage = f"{name}(text, part)"
    return _entry(name, usage, doc, fixed(S, S, result=B), function, 2, 2)


TEXT = (
    _entry("upper", "upper(text)", "In capitals.", fixed(S, result=S), str.upper, 1, 1),
    _entry("lower", "lower(text)", "In small letters.", fixed(S, result=S), str.lower, 1, 1),
    _entry(
        "length",
        "length(text)",
        "Code points of a string, bytes of a binary.",
        _resolve_length,
        len,
        1,
        1,
    ),
    _entry(
        "trim",
        "trim(text)",
        "Without spaces (or given characters) at both ends.",
        fixed(S, S, result=S),
        _trimmed(True, True),
        1,
        2,
    ),
    _entry(
        "ltrim",
        "ltrim(text)",
        "Without spaces (or given characters) at the start.",
        fixed(S, S, result=S),
        _trimmed(True, False),
        1,
        2,
    ),
    _entry(
        "rtrim",
        "rtrim(text)",
        "Without spaces (or given characters) at the end.",
        fixed(S, S, result=S),
        _trimmed(False, True),
        1,
        2,
    ),
    _entry(
        "substring",
        "substring(text, start[, length])",
        "Part from `start`; a negative start counts from the end.",
        _resolve_substring,
        substring,
        2,
        3,
    ),
    _entry("left", "left(text, n)", "The first n.", _resolve_left, _left, 2, 2),
    _entry("right", "right(text, n)", "The last n.", fixed(S, N, result=S), _right, 2, 2),
    Function(
        "concat",
        "concat(a, b, ...)",
        "strings",
        "Joined; also `a || b`. Null if any is.",
        1,
        None,
        _resolve_concat,
        same(_concat),
        eager=True,
    ),
    Function(
        "concat_ws",
        "concat_ws(separator, a, ...)",
        "strings",
        "Joined with a separator, nulls left out.",
        1,
        None,
        _resolve_strings(1),
        same(_concat_ws),
        sees_null=True,
    ),
    _entry(
        "like",
        "text LIKE pattern [ESCAPE c]",
        "`%` is any text, `_` one character.",
        fixed(S, S, S, result=B),
        _like,
        2,
        3,
    ),
    _entry(
        "ilike",
        "text ILIKE pattern [ESCAPE c]",
        "LIKE without regard to case.",
        fixed(S, S, S, result=B),
        _ilike,
        2,
        3,
    ),
    _entry(
        "rlike",
        "text RLIKE regex",
        "Whether the regular expression is found.",
        fixed(S, S, result=B),
        _rlike,
        2,
        2,
    ),
    _entry(
        "replace",
        "replace(text, search[, replacement])",
        "Each `search` replaced.",
        fixed(S, S, S, result=S),
        _replace,
        2,
        3,
    ),
    _test("startswith", "Whether text starts with part.", str.startswith),
    _test("endswith", "Whether text ends with part.", str.endswith),
    _test("contains", "Whether part is in text.", lambda text, part: part in text),
    _entry(
        "instr",
        "instr(text, part)",
        "Position of the first `part`, 0 if there is none.",
        fixed(S, S, result=N),
        lambda text, part: text.find(part) + 1,
        2,
        2,
    ),
    Function(
        "locate",
        "locate(part, text, start)",
        "strings",
        "Position of `part` at or after `start`.",
        2,
        3,
        fixed(S, S, N, result=N),
        same(_locate),
        sees_null=True,
    ),
    _entry(
        "lpad",
        "lpad(text, length[, pad])",
        "Filled at the start, or cut, to a length.",
        fixed(S, N, S, result=S),
        _lpad,
        2,
        3,
    ),
    _entry(
        "rpad",
        "rpad(text, length[, pad])",
        "Filled at the end, or cut, to a length.",
        fixed(S, N, S, result=S),
        _rpad,
        2,
        3,
    ),
    _entry(
        "split",
        "split(text, regex[, limit])",
        "The parts between matches, as an array.",
        fixed(S, S, N, result=k.array(S)),
        _split,
        2,
        3,
    ),
    _entry(
        "reverse",
        "reverse(x)",
        "A string or array backwards.",
        _resolve_reverse,
        lambda value: value[::-1],
        1,
        1,
    ),
    _entry(
        "initcap",
        "initcap(text)",
        "Each word with a capital first.",
        fixed(S, result=S),
        _initcap,
        1,
        1,
    ),
    _entry(
        "repeat",
        "repeat(text, n)",
        "n times in a row.",
        fixed(S, N, result=S),
        lambda text, n: text * max(n, 0),
        2,
        2,
    ),
)
