"""The SQL text of a pyspark `Column`, where it can be had.

A classic Column prints itself in prefix form, literals quoted: `and(=(kind, 'cart'), >(x, 1))`.
That is turned into infix SQL here. Over Spark Connect the quotes of string literals are lost, so
text and column names cannot be distinguished; such a Column is refused.
"""

from __future__ import annotations

import re

from ensue import errors

_INFIX = {
    **{sign: sign for sign in ("=", "<=>", "<", ">", "<=", ">=", "+", "-", "*", "/", "%")},
    **{sign: sign for sign in "&|^"},
    **{word: word.upper() for word in ("and", "or", "like", "rlike")},
    "==": "=",
    "!=": "<>",
}
_POSTFIX = {
    **dict.fromkeys(("isNull", "isnull"), "IS NULL"),
    **dict.fromkeys(("isNotNull", "isnotnull"), "IS NOT NULL"),
}
_PREFIX = {"not": "NOT", "!": "NOT", "negative": "-"}
_OPERATORS = {*_INFIX, *_POSTFIX, *_PREFIX, "in"}
_STRING = r"'(?:\\.|[^'\\])*'?"
_HEAD = re.compile(r"(<=>|<=|>=|!=|==|[=<>+\-*/%!&|^]|[A-Za-z_]\w*)\(")
_QUOTED = re.compile(_STRING, re.DOTALL)
_MARK = re.compile(rf"{_STRING}|[()\[\],]", re.DOTALL)
_STARTS = re.compile(r"(?:^|[(,]|\b(?:WHEN|THEN|ELSE))\s*$")  # what an expression stands behind


def is_column(value: object) -> bool:
    kind = type(value)
    return kind.__name__ == "Column" and kind.__module__.startswith("pyspark.")


def column_text(column: object, where: str) -> str:
    """SQL text of a Column; an error that asks for the text where it cannot be had."""
    if "connect" in type(column).__module__:
        raise errors.UnsupportedInputError(
            f"{where} is a Column of a Spark Connect session, whose text does not tell strings "
            "from column names",
            remedy="give the condition as SQL text",
        )
    shown = str(column)
    found = re.fullmatch(r"Column<'(.*)'>", shown, flags=re.DOTALL)
    if found is None:
        raise errors.UnsupportedInputError(
            f"{where} is a Column whose text cannot be read: {shown}",
            remedy="give the condition as SQL text",
        )
    return _infix(found[1].strip())


def _infix(text: str) -> str:
    """Prefix calls of operators rewritten, wherever an expression starts; the rest is SQL."""
    out, place = [], 0
    while place < len(text):
        string = _QUOTED.match(text, place)
        head = _HEAD.match(text, place)
        if string is not None:
            piece, end = string[0], string.end()
        elif head is not None and head[1] in _OPERATORS and _STARTS.search(text[:place]):
            arguments, end = _arguments(text, head.end())
            piece = _called(head[1], arguments)
        else:
            piece, end = text[place], place + 1
        out.append(piece)
        place = end
    return "".join(out)


def _called(name: str, arguments: list[str]) -> str:
    if name in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {_INFIX[name]} {arguments[1]})"
    if name in _POSTFIX and len(arguments) == 1:
        return f"({arguments[0]} {_POSTFIX[name]})"
    if name in _PREFIX and len(arguments) == 1:
        return f"({_PREFIX[name]} {arguments[0]})"
    if name == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    return f"{name}({', '.join(arguments)})"


def _arguments(text: str, begin: int) -> tuple[list[str], int]:
    """The arguments of a call whose bracket opens before `begin`, and where the call ends."""
    parts, depth, start = [], 0, begin
    for mark in _MARK.finditer(text, begin):
        if mark[0] in "([":
            depth += 1
        elif depth == 0 and mark[0] in ",)":
            parts.append(_infix(text[start : mark.start()].strip()))
            start = mark.end()
            if mark[0] == ")":
                return parts, start
        elif mark[0] in ")]":
            depth -= 1
    return parts, len(text)
