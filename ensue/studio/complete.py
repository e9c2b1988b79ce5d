"""What could stand at the cursor: columns, variables, functions, words of the language."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from ensue.api.pattern import Pattern
from ensue.scalar.functions import CATALOGUE
from ensue.studio.python_text import WORDS
from ensue.studio.reading import read
from ensue.studio.texts import TEXT, TextError, Typed, from_utf16, utf16

MAX_OPTIONS = 200
_WORD = re.compile(r"[^\W\d]\w*$|$")
_SQL = (
    *("MATCH_RECOGNIZE", "PARTITION BY", "ORDER BY", "MEASURES", "ONE ROW PER MATCH"),
    *("ALL ROWS PER MATCH", "AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW"),
    *("PATTERN", "WITHIN", "SUBSET", "DEFINE", "AS", "SELECT", "FROM", "PERMUTE"),
)
_SASE = ("SEQ", "WHERE", "WITHIN", "RETURN", "STRATEGY", "AND")
_LOGIC = ("AND", "OR", "NOT", "IS NULL", "IS NOT NULL", "BETWEEN", "IN", "LIKE")
_NAVIGATION = ("PREV", "NEXT", "FIRST", "LAST", "CLASSIFIER", "MATCH_NUMBER")
_OPTION_WORDS = {
    "select": ("strict", "next", "any"),
    "after_match": ("past last row", "to next row", "no skip", "to first ", "to last "),
    "rows_per_match": ("one row", "all rows", "all rows omit empty", "all rows with unmatched"),
    "within": ("1 hour", "10 minutes", "1 day", "500 rows"),
}
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
FUNCTIONS: list[dict[str, str]] = [
    {"name": named[1], "signature": entry.usage, "text": entry.doc}
    for entry in CATALOGUE.values()
    if (named := _CALL.match(entry.usage))
] + [
    {"name": name, "signature": f"{name}(variable.column)", "text": "over the rows of a variable"}
    for name in _AGGREGATES
]


def complete(typed: Typed, field: str, offset: int, schema: pa.Schema | None) -> dict[str, Any]:
    """Options for the word that ends at `offset` of a field."""
    text = typed.field(field)
    here = from_utf16(text, offset)
    word = _WORD.search(text[:here])
    begin = word.start() if word else here
    known = text[begin:here].casefold()
    before = text[:begin].rstrip()
    after_dot = before.endswith(".") and not before.endswith("..")
    options = [
        option
        for option in _options(typed, field, schema, after_dot)
        if known in option["label"].casefold()
    ]
    options.sort(key=lambda option: not option["label"].casefold().startswith(known))
    return {"from": utf16(text[:begin]), "to": offset, "options": options[:MAX_OPTIONS]}


def _options(
    typed: Typed, field: str, schema: pa.Schema | None, after_dot: bool
) -> list[dict[str, str]]:
    columns = [_option(f.name, "column", str(f.type), quoted(f.name)) for f in schema or ()]
    if field in ("types", "partition_by"):
        return columns
    if field == "order_by":
        return [*columns, *(_option(word, "keyword") for word in ("DESC", "NULLS LAST"))]
    if field in _OPTION_WORDS:
        return [_option(word, "keyword") for word in _OPTION_WORDS[field]]
    if after_dot and typed.language == "python":
        return [_option(word, "keyword", "", f"{word}(") for word in sorted(WORDS)]
    if after_dot:
        return columns
    variables = [_option(name, "variable") for name in _variables(typed)]
    functions = [_option(f["name"], "function", f["signature"], f"{f['name']}(") for f in FUNCTIONS]
    navigation = [
        _option(name, "function", "rows of the match", f"{name}(") for name in _NAVIGATION
    ]
    logic = [_option(word, "keyword") for word in _LOGIC]
    if field == TEXT and typed.language == "pattern":
        return [*variables, _option("PERMUTE", "keyword", "in any order", "PERMUTE(")]
    words = {"sql": _SQL, "sase": _SASE, "python": ()}.get(typed.language, ())
    named = [_option(word, "keyword") for word in words if field == TEXT]
    return [*variables, *columns, *named, *logic, *navigation, *functions]


def _variables(typed: Typed) -> tuple[str, ...]:
    """Those of the pattern, or the words in it while it cannot be read."""
    try:
        found: Pattern = read(typed)
        return found.query.variables
    except TextError:
        if typed.language != "pattern":
            return ()
        return tuple(dict.fromkeys(re.findall(r"[^\W\d]\w*", typed.text)))


def quoted(name: str) -> str:
    return name if re.fullmatch(r"[^\W\d]\w*", name) else "`" + name.replace("`", "``") + "`"


def _option(label: str, kind: str, detail: str = "", apply: str = "") -> dict[str, str]:
    return {"label": label, "type": kind, "detail": detail, "apply": apply or label}
