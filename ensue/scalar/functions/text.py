"""Functions of strings. Positions and lengths count code points, from 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ensue import errors
from ensue.scalar import kinds as k
from ensue.scalar.functions.base import (
    Function,
    Given,
    Resolve,
    Scalar,
    Signature,
    fixed,
    function,
    implicit,
    same,
)
from ensue.scalar.functions.regex import java_regex, like, rlike

MAX_TEXT = 1 << 24  # characters of one value that a function makes longer
S, N, B = k.STRING, k.INT, k.BOOLEAN


def _text_or_bytes(*others: k.Kind, result: k.Kind | None = None) -> Resolve:
    """The first argument is a string, unless it is binary; so is the result, if not said."""

    def resolve(given: Sequence[Given]) -> Signature | None:
        first = k.BINARY if given[0].kind == k.BINARY else S
        return fixed(first, *others, result=result or first)(given)

    return resolve


def _resolve_strings(given: Sequence[Given]) -> Signature | None:
    return fixed(*(S,) * len(given), result=S)(given)


def _resolve_concat(given: Sequence[Given]) -> Signature | None:
    if all(g.kind == k.BINARY for g in given):
        return Signature((k.BINARY,) * len(given), k.BINARY)
    return _resolve_strings(given)


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
    _sized(sum(map(len, texts)), "concat")
    return type(texts[0])().join(texts)


def _concat_ws(separator: str | None, *texts: str | None) -> str | None:
    if separator is None:
        return None
    kept = [text for text in texts if text is not None]
    _sized(sum(map(len, kept)) + len(separator) * len(kept), "concat_ws")
    return separator.join(kept)


def _like(text: str, pattern: str, escape: str = "\\") -> bool:
    return like(text, pattern, escape)


def _ilike(text: str, pattern: str, escape: str = "\\") -> bool:
    return _like(text.lower(), pattern.lower(), escape)


def _sized(length: int, name: str) -> None:
    """Refuses to make a text that is there only to fill the memory."""
    if length > MAX_TEXT:
        raise errors.LimitError(
            f"{name} would make a text of {length:,} characters; the limit is {MAX_TEXT:,}",
            remedy="make a shorter one",
        )


def _replace(text: str, search: str, replacement: str = "") -> str:
    if not search:
        return text
    if len(replacement) > len(search):
        grown = text.count(search) * (len(replacement) - len(search))
        _sized(len(text) + grown, "replace")
    return text.replace(search, replacement)


def _locate(search: str | None, text: str | None, start: int | None = 1) -> int | None:
    """Spark answers 0 for a null start, and 1 for an empty search wherever it starts."""
    if search is None or text is None:
        return 0 if start is None else None
    if start is None or start < 1:
        return 0
    return text.find(search, start - 1) + 1 if search else 1


def _padding(text: str, length: int, pad: str) -> str:
    _sized(length if pad else 0, "lpad or rpad")
    missing = length - len(text)
    if missing <= 0 or not pad:
        return ""
    return (pad * (missing // len(pad) + 1))[:missing]


def _lpad(text: str, length: int, pad: str = " ") -> str:
    return _padding(text, length, pad) + text[: max(length, 0)]


def _rpad(text: str, length: int, pad: str = " ") -> str:
    return text[: max(length, 0)] + _padding(text, length, pad)


def _repeat(text: str, times: int) -> str:
    _sized(len(text) * times, "repeat")
    return text * max(times, 0)


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


_strings = partial(function, "strings")


def _matching(
    name: str, usage: str, doc: str, most: int, implementation: Callable[..., bool]
) -> Function:
    resolve = fixed(S, S, S, result=B)
    return Function(name, usage, "strings", doc, 2, most, resolve, same(implementation))


_OF_STRING = fixed(S, result=S)
_OF_TWO = fixed(S, S, result=S)
_TEST = fixed(S, S, result=B)
_TRIMS = "Without spaces (or given characters) at"
_PAD = fixed(S, N, S, result=S)
TEXT = (
    _strings("upper(text)", "In capitals.", _OF_STRING, str.upper),
    _strings("lower(text)", "In small letters.", _OF_STRING, str.lower),
    _strings(
        "length(text)", "Code points of a string, bytes of a binary.", _text_or_bytes(result=N), len
    ),
    _strings("trim(text)", f"{_TRIMS} both ends.", _OF_TWO, _trimmed(True, True), most=2),
    _strings("ltrim(text)", f"{_TRIMS} the start.", _OF_TWO, _trimmed(True, False), most=2),
    _strings("rtrim(text)", f"{_TRIMS} the end.", _OF_TWO, _trimmed(False, True), most=2),
    _strings(
        "substring(text, start[, length])",
        "Part from `start`; a negative start counts from the end.",
        _text_or_bytes(N, N),
        substring,
    ),
    _strings("left(text, n)", "The first n.", _text_or_bytes(N), _left),
    _strings("right(text, n)", "The last n.", fixed(S, N, result=S), _right),
    _strings(
        "concat(a, b, ...)",
        "Joined; also `a || b`. Null if any is.",
        _resolve_concat,
        _concat,
        least=1,
        eager=True,
    ),
    _strings(
        "concat_ws(separator, a, ...)",
        "Joined with a separator, nulls left out.",
        _resolve_strings,
        _concat_ws,
        least=1,
        sees_null=True,
    ),
    _matching(
        "like", "text LIKE pattern [ESCAPE c]", "`%` is any text, `_` one character.", 3, _like
    ),
    _matching("ilike", "text ILIKE pattern [ESCAPE c]", "LIKE without regard to case.", 3, _ilike),
    _matching("rlike", "text RLIKE regex", "Whether the regular expression is found.", 2, rlike),
    _strings(
        "replace(text, search[, replacement])",
        "Each `search` replaced.",
        fixed(S, S, S, result=S),
        _replace,
    ),
    _strings("startswith(text, part)", "Whether text starts with part.", _TEST, str.startswith),
    _strings("endswith(text, part)", "Whether text ends with part.", _TEST, str.endswith),
    _strings(
        "contains(text, part)", "Whether part is in text.", _TEST, lambda text, part: part in text
    ),
    _strings(
        "instr(text, part)",
        "Position of the first `part`, 0 if there is none.",
        fixed(S, S, result=N),
        lambda text, part: text.find(part) + 1,
    ),
    _strings(
        "locate(part, text[, start])",
        "Position of `part` at or after `start`.",
        fixed(S, S, N, result=N),
        _locate,
        sees_null=True,
    ),
    _strings("lpad(text, length[, pad])", "Filled at the start, or cut, to a length.", _PAD, _lpad),
    _strings("rpad(text, length[, pad])", "Filled at the end, or cut, to a length.", _PAD, _rpad),
    _strings(
        "split(text, regex[, limit])",
        "The parts between matches, as an array.",
        fixed(S, S, N, result=k.array(S)),
        _split,
    ),
    _strings("reverse(x)", "A string or array backwards.", _resolve_reverse, lambda x: x[::-1]),
    _strings("initcap(text)", "Each word with a capital first.", _OF_STRING, _initcap),
    _strings(
        "repeat(text, n)",
        "n times in a row.",
        fixed(S, N, result=S),
        _repeat,
    ),
)
