"""The SQL text of a pyspark `Column`, where it can be had.

A classic Column prints itself in prefix form, literals quoted: `and(=(kind, 'cart'), >(x, 1))`.
That is turned into infix SQL here. Over Spark Connect the quotes of string literals are lost, so
text and column names cannot be told apart; such a Column is refused.
"""

from __future__ import annotations

import re

from ensue import errors

_INFIX = {
    "=": "=",
    "==": "=",
    "<=>": "<=>",
    "<": "<",
    ">": ">",
    "<=": "<=",
    ">=": ">=",
    "!=": "<>",
    "+": "+",
    "-": "-",
    "*": "*",
    "/": "/",
    "%": "%",
    "and": "AND",
    "or": "OR",
    "&": "&",
    "|": "|",
    "^": "^",
    "like": "LIKE",
    "rlike": "RLIKE",
}
_POSTFIX = {
    "isNull": "IS NULL",
    "isnull": "IS NULL",
    "isNotNull": "IS NOT NULL",
    "isnotnull": "IS NOT NULL",
}
_PREFIX = {"not": "NOT", "!": "NOT", "negative": "-"}
_HEAD = re.compile(r"(<=>|<=|>=|!=|==|[=<>+\-*/%!&|^]|[A-Za-z_]\w*)\(")


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
            f"{where} is a Column whose text cannot be had: {shown}",
            remedy="give the condition as SQL text",
        )
    return _infix(found[1].strip())


def _infix(text: str) -> str:
    """Prefix calls rewritten, from the outside in; anything else is SQL already."""
    head = _HEAD.match(text)
    if head is None or _closing(text, head.end() - 1) != len(text) - 1:
        return _inside(text)
    name = head[1]
    arguments = [_infix(part) for part in _arguments(text[head.end() : -1])]
    if name in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {_INFIX[name]} {arguments[1]})"
    if name in _POSTFIX and len(arguments) == 1:
        return f"({arguments[0]} {_POSTFIX[name]})"
    if name in _PREFIX and len(arguments) == 1:
        return f"({_PREFIX[name]} {arguments[0]})"
    if name == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    return f"{name}({', '.join(arguments)})"


def _inside(text: str) -> str:
    """Prefix calls inside CASE or CAST, which Spark prints around them."""
    out, place = [], 0
    while place < len(text):
        if text[place] == "'":
            end = _string_end(text, place)
            out.append(text[place:end])
            place = end
            continue
        head = _HEAD.match(text, place)
        before = text[:place].rstrip()
        starts = not before or before[-1] in "(," or re.search(r"\b(WHEN|THEN|ELSE)$", before)
        if (
            head
            and starts
            and (head[1] in _INFIX or head[1] in _POSTFIX or head[1] in _PREFIX or head[1] == "in")
        ):
            end = _closing(text, head.end() - 1) + 1
            out.append(_infix(text[place:end]))
            place = end
        else:
            out.append(text[place])
            place += 1
    return "".join(out)


def _string_end(text: str, start: int) -> int:
    place = start + 1
    while place < len(text):
        if text[place] == "\\":
            place += 2
        elif text[place] == "'":
            return place + 1
        else:
            place += 1
    return len(text)


def _closing(text: str, opening: int) -> int:
    depth, place = 0, opening
    while place < len(text):
        if text[place] == "'":
            place = _string_end(text, place)
            continue
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
        place += 1
    return -1


def _arguments(text: str) -> list[str]:
    parts, depth, begin, place = [], 0, 0, 0
    while place < len(text):
        if text[place] == "'":
            place = _string_end(text, place)
            continue
        depth += (text[place] in "([") - (text[place] in ")]")
        if text[place] == "," and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
        place += 1
    last = text[begin:].strip()
    return [*parts, last] if last or parts else []
