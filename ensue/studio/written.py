"""A query written in each of the languages, or why it cannot be.

Whatever is written is read again and compared with the query, so that what is shown as the same
means the same; where it does not, the reason is given in place of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from keyword import iskeyword
from typing import Any

from ensue import errors
from ensue.front.grammar import parse_pattern
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.duration import MICROSECONDS
from ensue.query.query import (
    PAST_LAST_ROW,
    OrderKey,
    Query,
    Rows,
    Skip,
    SkipMode,
    Window,
    WindowKind,
)
from ensue.query.sql import condition_sql, query_sql, shown_sql
from ensue.studio.reading import read
from ensue.studio.texts import LANGUAGES, TextError, Typed

_QUOTED = re.compile(r"`([^\W\d]\w*)`")
_BARE = re.compile(r'"([^\W\d]\w*)"')
_UNITS = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds")
_WIDE = 44  # what a pane of the page holds


def in_languages(query: Query, typed: Typed | None = None) -> dict[str, Any]:
    """By language: the query written in it, or `refused` with the reason."""
    return {name: in_language(query, name, typed) for name in LANGUAGES}


def in_language(query: Query, language: str, typed: Typed | None = None) -> dict[str, Any]:
    if typed is not None and typed.language == language:
        return {"query": typed.message()}
    try:
        found = _WRITERS[language](query)
    except errors.EnsueError as problem:
        return {"refused": problem.problem}
    # Back quotes around every variable are SQL's; they stay where a name needs them.
    refused = ""
    for written in (found,) if language == "sql" else (_bare(found), found):
        try:
            if _meaning(read(written).query) == _meaning(query):
                return {"query": written.message()}
        except TextError as problem:
            refused = problem.problem.problem
    return {"refused": refused or f"{LANGUAGES[language]} cannot express a part of this query"}


def _bare(typed: Typed) -> Typed:
    options = {name: _QUOTED.sub(r"\1", text) for name, text in typed.options.items()}
    return replace(typed, text=_QUOTED.sub(r"\1", typed.text), options=options)


def _meaning(query: Query) -> Query:
    """What is compared: the columns of a plain listing are no part of what a pattern means."""
    define = tuple(sorted((name, _own(value, name)) for name, value in query.define))
    return replace(query, define=define, measures=None, rows=Rows.ONE)


def _own(value: c.Condition, label: str) -> c.Condition:
    """`A.price` in the definition of A is the row itself, as `price` is."""

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Navigate) and node.variable == label:
            plain = node.anchor is c.Anchor.LAST and not (node.offset or node.shift or node.final)
            return replace(node, variable=None) if plain else None
        return None

    return c.transform(value, change)


def _pattern(query: Query) -> Typed:
    options: dict[str, str] = {}
    types, define = _types(query)
    if types:
        options["types"] = types
    for name, hidden in (("define", False), ("without", True)):
        said = [f"{n}: {v}" for n, v in define if (n in query.without) == hidden]
        if said:
            options[name] = "\n".join(said)
    if query.subsets:
        options["subset"] = "\n".join(f"{n}: {', '.join(of)}" for n, of in query.subsets)
    options |= _common(query)
    if query.measures is not None:
        options["measures"] = "\n".join(
            f"{m.name}: {condition_sql(m.value)}" for m in query.measures
        )
    if query.missing is not None:
        options["missing"] = str(query.missing.bound)
    return Typed("pattern", pattern_text(query.pattern), options)


def pattern_text(node: nodes.Node) -> str:
    """The text without the quotes that SQL needs around names in lower case."""
    text = nodes.pattern_text(node)
    bare = _BARE.sub(r"\1", text)
    try:
        return bare if parse_pattern(bare) == node else text
    except errors.EnsueError:
        return text


def _types(query: Query) -> tuple[str | None, list[tuple[str, str]]]:
    """The column that all labels of the pattern name themselves in, and what else is defined."""
    seen = nodes.labels(query.pattern)
    conditions = dict(query.define)
    found = {_named(conditions.get(label), label) for label in seen}
    column = found.pop() if len(found) == 1 else None
    define = []
    for label, condition in query.define:
        parts = c.conjuncts(condition)
        if column is not None and label in seen:
            parts = parts[1:]
        if parts:
            define.append((label, shown_sql(c.conjunction(parts))))
    return column, define


def _named(condition: c.Condition | None, label: str) -> str | None:
    """The column of a definition that begins with `column = 'label'`."""
    if condition is None:
        return None
    first = c.conjuncts(condition)[0]
    match first:
        case c.Call(function="eq", arguments=arguments):
            sides = dict(arguments)
            column, value = sides.get("this"), sides.get("expression")
            if (
                isinstance(column, c.Navigate)
                and column == c.Navigate(column.argument)
                and isinstance(column.argument, c.Column)
                and value == c.Literal("string", label)
            ):
                return column.argument.name
    return None


def _common(query: Query) -> dict[str, str]:
    options: dict[str, str] = {}
    if query.partition_by:
        options["partition_by"] = ", ".join(_column(name) for name in query.partition_by)
    if query.order_by:
        options["order_by"] = ", ".join(map(order_text, query.order_by))
    if query.within is not None:
        options["within"] = window_text(query.within)
    if query.all_matches and nodes.is_strict(query.pattern) and not query.without:
        options["select"] = "strict"
    usual = Skip(SkipMode.NONE) if not query.row_semantics else PAST_LAST_ROW
    if query.skip != usual:
        if query.skip.required:
            raise errors.UnsupportedError("only Python can express a required target of a skip")
        options["after_match"] = _skip(query.skip)
    if query.rows is not Rows.ONE:
        options["rows_per_match"] = query.rows.value.lower()
    return options


def _column(name: str) -> str:
    return name if re.fullmatch(r"[^\s`,]+", name) else "`" + name.replace("`", "``") + "`"


def order_text(key: OrderKey) -> str:
    text = _column(key.column) + (" DESC" if key.descending else "")
    if key.nulls_first == key.descending:
        text += " NULLS FIRST" if key.nulls_first else " NULLS LAST"
    return text


def window_text(window: Window) -> str:
    """`1 hour`, `500 rows`, `100`."""
    if window.kind is WindowKind.ROWS:
        return f"{window.size} rows"
    if window.kind is WindowKind.NUMBER:
        return str(window.size)
    size = int(window.size)
    for unit in _UNITS:
        if size and size % MICROSECONDS[unit] == 0:
            number = size // MICROSECONDS[unit]
            return f"{number} {unit if number > 1 else unit.removesuffix('s')}"
    return f"{size} microseconds"


def _skip(skip: Skip) -> str:
    text = skip.mode.value.lower()
    return text if skip.variable is None else f"{text} {skip.variable}"


def _sql(query: Query) -> Typed:
    return Typed("sql", query_sql(query, "events"), {})


def _python(query: Query) -> Typed:
    written = _pattern(query)
    options = dict(written.options)
    given = [_text(written.text)]
    if "types" in options:
        given.append(f"types={_text(options.pop('types'))}")
    calls = []
    define, hidden = dict(_types(query)[1]), set(query.without)
    if own := [(n, v) for n, v in define.items() if n not in hidden]:
        calls.append(_call("define", own))
    if query.subsets:
        calls.append(_call("subset", [(name, list(of)) for name, of in query.subsets]))
    if forbidden := [(n, v) for n, v in define.items() if n in hidden]:
        calls.append(_call("without", forbidden))
    if query.partition_by:
        calls.append(f"partition_by({', '.join(map(_text, query.partition_by))})")
    if query.order_by:
        calls.append(f"order_by({', '.join(_text(order_text(k)) for k in query.order_by)})")
    if query.within is not None:
        number = query.within.kind is WindowKind.NUMBER
        calls.append(f"within({query.within.size if number else _text(options['within'])})")
    for name in ("select", "after_match", "rows_per_match"):
        if name in options:
            calls.append(f"{name}({_text(options[name])})")
    if query.measures is not None:
        calls.append(_call("measures", [(m.name, condition_sql(m.value)) for m in query.measures]))
    if query.missing is not None:
        calls.append(f"allow_missing({_missing(query)})")
    lines = [f"ensue.pattern({', '.join(given)})", *(f"    .{call}" for call in calls)]
    body = "\n".join(lines) if len(lines) == 1 else "(\n    " + "\n    ".join(lines) + "\n)"
    body = body.replace("\n        .", "\n    .")
    return Typed("python", f"q = {body}\n", {})


def _text(value: Any) -> str:
    """As Python is written by hand: in double quotes."""
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if not isinstance(value, str) or '"' in value or not value.isprintable():
        return repr(value)
    return '"' + value.replace("\\", "\\\\") + '"'


def _missing(query: Query) -> str:
    missing = query.missing
    assert missing is not None
    said = [_number(missing.bound)]
    if missing.weights:
        priced = ", ".join(f"{_text(label)}: {_number(w)}" for label, w in missing.weights)
        said.append(f"missing={{{priced}}}")
    if missing.required:
        said.append(f"required={_text(list(missing.required))}")
    return ", ".join(said)


def _number(value: Any) -> str:
    return str(int(value)) if value == int(value) else str(float(value))


def _call(word: str, items: Iterable[tuple[str, Any]]) -> str:
    """Keywords where all names are identifiers, else a dictionary."""
    listed = list(items)
    if all(name.isidentifier() and not iskeyword(name) and name != "self" for name, _ in listed):
        said = [f"{name}={_text(value)}" for name, value in listed]
        open_, close = "", ""
    else:
        said = [f"{_text(name)}: {_text(value)}" for name, value in listed]
        open_, close = "**{", "}"
    short = f"{word}({open_}{', '.join(said)}{close})"
    if len(short) <= _WIDE:
        return short
    inside = "".join(f"\n        {one}," for one in said)
    return f"{word}({open_}{inside}\n    {close})"


def _sase(query: Query) -> Typed:
    """SEQ of components with one strategy; conditions name their component."""
    refused = errors.UnsupportedError(
        "SASE has a sequence of components, each with a type, and one strategy for all"
    )
    parts: tuple[nodes.Node, ...] = (query.pattern,)
    gaps: tuple[nodes.Gap, ...] = ()
    if isinstance(query.pattern, nodes.Concatenation):
        parts, gaps = query.pattern.parts, query.pattern.gaps
    components, where, types = [], [], set()
    conditions = dict(query.define)
    for part in parts:
        component, label = _component(part)
        if component is None or label is None or label not in conditions:
            raise refused
        kind, rest = _kind(conditions[label])
        if kind is None:
            raise refused
        types.add(kind[0])
        components.append(component.format(kind[1], label))
        where += [condition_sql(_qualified(item, label)) for item in rest]
    policies = {gap.policy for gap, part in zip(gaps, parts[1:], strict=True)
                if not isinstance(part, nodes.Negation)}  # fmt: skip
    if len(types) != 1 or len(policies) > 1 or query.without or query.subsets:
        raise refused
    text = f"SEQ({', '.join(components)})"
    said = [f"[{name}]" for name in query.partition_by] + where
    if said:
        text += "\nWHERE " + "\n  AND ".join(said)
    policy = policies.pop() if policies else nodes.Policy.ANY
    if policy is not nodes.Policy.ANY:
        text += f"\nSTRATEGY {policy.value}"
    if query.within is not None:
        text += f"\nWITHIN {window_text(query.within)}"
    options = {"types": types.pop()}
    if query.order_by:
        options["order_by"] = ", ".join(map(order_text, query.order_by))
    return Typed("sase", text + "\n", options)


def _component(part: nodes.Node) -> tuple[str | None, str | None]:
    """`{type} {variable}` with its marks."""
    marks = {(1, None): "{}+ {}[]", (0, None): "{}* {}[]", (0, 1): "{}? {}"}
    match part:
        case nodes.Label(name=name):
            return "{} {}", name
        case nodes.Negation(part=label):
            return "!{} {}", label.name
        case nodes.Repetition(part=nodes.Label(name=name), least=least, most=most):
            return marks.get((least, most)), name
    return None, None


def _kind(condition: c.Condition) -> tuple[tuple[str, str] | None, list[c.Condition]]:
    """(column, type) that a definition begins with, and the rest of it."""
    first, *rest = c.conjuncts(condition)
    match first:
        case c.Call(function="eq", arguments=arguments):
            sides = dict(arguments)
            value = sides.get("expression")
            if isinstance(value, c.Literal) and isinstance(value.value, str):
                column = _named(first, value.value)
                if column is not None and value.value.isidentifier():
                    return (column, value.value), rest
    return None, rest


def _qualified(condition: c.Condition, label: str) -> c.Condition:
    """Columns of the row itself by the name of its component."""

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Navigate) and node.variable is None:
            return replace(node, variable=label)
        return None

    return c.transform(condition, change)


_WRITERS: dict[str, Callable[[Query], Typed]] = {
    "pattern": _pattern,
    "sql": _sql,
    "python": _python,
    "sase": _sase,
}
