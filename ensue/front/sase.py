"""SASE text to a draft of a query.

    SEQ(A a, B+ b[], !C c, D d)
    WHERE [id] AND a.x < b[i].x AND sum(b[..].x) < d.x
    WITHIN 10 minutes
    RETURN a.x AS first, count(b[]) AS n

A component is a type and a variable: the variable is the label, and the type a value of the column
`types`. Joints are skip-till-any-match, or what a STRATEGY clause says (`any`, `next`, `strict`).
`[id]` means that all events of a match agree on `id`: a partition column. Each other part of WHERE
belongs to the last component that it names, since it can be asked only when that event is there;
`b[i].x` is the event under test of b, `b[i-1].x` the one before it, `b[1].x` the first, `b[..].x`
inside an aggregate all of them so far. A part with `b[i-1]` holds for the first event of b, which
has none before it. A part that names a negated component alone is that component's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ensue import errors
from ensue.front.builder import Draft, window
from ensue.front.expressions import parse_sql
from ensue.query import nodes
from ensue.query.nodes import Gap, Policy

_CLAUSE = re.compile(r"\b(WHERE|WITHIN|RETURN|STRATEGY)\b", re.IGNORECASE)
_COMPONENT = re.compile(
    r"\s*(?P<not>!|~)?\s*(?P<type>[^\W\d]\w*)\s*(?P<plus>[+*?])?\s*(?P<name>[^\W\d]\w*)"
    r"\s*(?P<list>\[\s*\])?\s*"
)
_STRATEGIES = {
    "any": Policy.ANY,
    "skip_till_any_match": Policy.ANY,
    "next": Policy.NEXT,
    "skip_till_next_match": Policy.NEXT,
    "strict": Policy.STRICT,
    "strict_contiguity": Policy.STRICT,
}
_REFERENCE = re.compile(r"\b(?P<name>[^\W\d]\w*)\s*\[\s*(?P<index>[^\]]*?)\s*\](?P<column>\.\w+)?")


@dataclass(frozen=True)
class Component:
    """One member of SEQ."""

    label: str
    type: str
    negative: bool
    quantifier: str


def parse_sase(text: str, types: str = "type") -> Draft:
    """The draft of a SASE query; `types` names the column that holds an event's type."""
    head = re.match(r"\s*(?:PATTERN\s+)?SEQ\s*\(", text, re.IGNORECASE)
    if head is None:
        raise _error(text, 0, "a SASE query begins with SEQ(...)", "write SEQ(A a, B b) WHERE ...")
    close = _closing(text, head.end() - 1)
    components = _components(text, head.end(), close)
    clauses = _clauses(text, close + 1)
    policy = _policy(text, clauses.get("STRATEGY"))
    keys, define = _where(text, clauses.get("WHERE"), components, types)
    for component in components:
        kind = f"{types} = '{component.type}'"
        parts = [kind, *define.get(component.label, [])]
        define[component.label] = parts
    measures = _return(text, clauses.get("RETURN"), components)
    size = None
    if "WITHIN" in clauses:
        size = window(clauses["WITHIN"][1].strip())
    return Draft(
        _pattern(components, policy),
        define=tuple(
            (label, " AND ".join(f"({p})" if len(parts) > 1 else p for p in parts))
            for label, parts in define.items()
        ),
        partition_by=tuple(keys),
        within=size,
        measures=measures,
        events=True,
    )


def _error(text: str, offset: int, problem: str, remedy: str) -> errors.PatternSyntaxError:
    return errors.PatternSyntaxError(
        problem, remedy=remedy, place=errors.Place.at_offset(text, offset)
    )


def _closing(text: str, opening: int) -> int:
    depth = 0
    for offset in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[offset], 0)
        if depth == 0:
            return offset
    raise _error(text, opening, "'(' is never closed", "close it")


def _components(text: str, begin: int, end: int) -> list[Component]:
    found: list[Component] = []
    offset = begin
    for part in text[begin:end].split(","):
        match = _COMPONENT.fullmatch(part)
        if match is None:
            raise _error(
                text,
                offset + len(part) - len(part.lstrip()),
                f"{part.strip()!r} is not a component of SEQ",
                "write `Type name`, `Type+ name[]` or `!Type name`",
            )
        quantifier = match["plus"] or ("+" if match["list"] else "")
        if any(component.label == match["name"] for component in found):
            raise errors.DuplicateNameError(
                f"two components are called {match['name']!r}",
                remedy="give each component a name of its own",
                place=errors.Place.at_offset(text, offset),
            )
        if match["not"] and quantifier:
            raise _error(
                text, offset, f"!{match['type']}: a negated component cannot repeat", "drop the +"
            )
        found.append(Component(match["name"], match["type"], bool(match["not"]), quantifier))
        offset += len(part) + 1
    return found


def _clauses(text: str, begin: int) -> dict[str, tuple[int, str]]:
    """Clause to (offset, text), outside of brackets and quotes."""
    masked = re.sub(r"'(?:[^']|'')*'", lambda m: "_" * len(m[0]), text)
    marks = list(_CLAUSE.finditer(masked, begin))
    rest = text[begin : marks[0].start() if marks else len(text)]
    if rest.strip():
        raise _error(
            text,
            begin + len(rest) - len(rest.lstrip()),
            f"{rest.strip()!r} cannot stand after SEQ(...)",
            "continue with WHERE, WITHIN, STRATEGY or RETURN",
        )
    found: dict[str, tuple[int, str]] = {}
    for index, mark in enumerate(marks):
        end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        name = mark[1].upper()
        if name in found:
            raise _error(
                text, mark.start(), f"{name} is given twice", f"join the two {name} clauses"
            )
        found[name] = (mark.end(), text[mark.end() : end])
    return found


def _policy(text: str, clause: tuple[int, str] | None) -> Policy:
    if clause is None:
        return Policy.ANY
    name = re.sub(r"[\s-]+", "_", clause[1].strip().lower())
    if name not in _STRATEGIES:
        raise _error(
            text,
            clause[0],
            f"STRATEGY {clause[1].strip()} is not known",
            "use any, next or strict",
        )
    return _STRATEGIES[name]


def _pattern(components: list[Component], policy: Policy) -> nodes.Node:
    parts: list[nodes.Node] = []
    for component in components:
        label = nodes.Label(component.label)
        node: nodes.Node = label
        bounds = {"+": (1, None), "*": (0, None), "?": (0, 1)}.get(component.quantifier)
        if component.negative:
            node = nodes.Negation(label)
        elif bounds is not None:
            node = nodes.Repetition(label, bounds[0], bounds[1], gap=Gap(policy))
        parts.append(node)
    negated = [Policy.NEXT if c.negative and policy is Policy.ANY else policy for c in components]
    return nodes.concatenate(parts, [Gap(joint) for joint in negated[1:]])


def _where(
    text: str, clause: tuple[int, str] | None, components: list[Component], types: str
) -> tuple[list[str], dict[str, list[str]]]:
    """Partition columns, and the parts of each component's condition."""
    keys: list[str] = []
    define: dict[str, list[str]] = {}
    if clause is None:
        return keys, define
    offset, body = clause
    names = [component.label for component in components]
    for part in filter(str.strip, _split(body, r"\bAND\b")):
        key = re.fullmatch(r"\[\s*([^\W\d]\w*)\s*\]", part.strip())
        if key:
            keys.append(key[1])
            continue
        named = [n for n in names if re.search(rf"\b{n}\b\s*(\.|\[)", part)]
        if not named:
            raise _error(
                text,
                offset + body.find(part.strip()),
                f"{part.strip()!r} names no component of SEQ",
                f"name one of: {', '.join(names)}",
            )
        negative = [c.label for c in components if c.negative and c.label in named]
        owner = negative[-1] if negative else named[-1]
        define.setdefault(owner, []).append(_translated(part.strip(), owner, types))
    return keys, define


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators outside of brackets and quotes; a BETWEEN keeps its AND."""
    parts, depth, begin, between = [], 0, 0, False
    marks = rf"'(?:[^']|'')*'|[()\[\]]|{separator}|\bBETWEEN\b"
    for mark in re.finditer(marks, text, re.IGNORECASE):
        word = mark[0].upper()
        if word == "BETWEEN":
            between = True
        elif word in "()[]":
            depth += 1 if word in "([" else -1
        elif depth == 0 and word == "AND" and between:
            between = False
        elif depth == 0 and not word.startswith("'"):
            parts.append(text[begin : mark.start()])
            begin = mark.end()
    return [*parts, text[begin:]]


def _translated(part: str, owner: str, types: str | None) -> str:
    """The part as the SQL of a definition; without `types`, of a measure."""
    before: set[str] = set()

    def reference(found: re.Match[str]) -> str:
        name, index, column = found["name"], found["index"].replace(" ", ""), found["column"] or ""
        if index in ("", "..", "*"):
            return f"{name}{column or '.*'}"
        if index in ("i", "last"):
            return f"LAST({name}{column})"
        back = re.fullmatch(r"(?:i|last)-(\d+)", index)
        if back:
            before.add(name)
            return f"LAST({name}{column}, {back[1]})"
        if index.isdigit() and int(index) > 0:
            shift = f", {int(index) - 1}" if int(index) > 1 else ""
            return f"FIRST({name}{column}{shift})"
        raise errors.ConditionSyntaxError(
            f"{found[0]!r}: the index {index!r} is not known",
            remedy="write [i], [i-1], [1], [] or [..]",
        )

    text = _REFERENCE.sub(reference, part)
    if types is not None:
        # No event has a null type, so a null says that there is none before.
        first = [f"LAST({name}.{types}, 1) IS NULL" for name in sorted(before)]
        text = " OR ".join([*first, f"({text})"]) if first else text
    parse_sql(text, f"WHERE {owner}")
    return text


def _return(
    text: str, clause: tuple[int, str] | None, components: list[Component]
) -> tuple[tuple[str, str], ...] | None:
    if clause is None or clause[1].strip() in ("", "*"):
        return None
    found: list[tuple[str, str]] = []
    for piece in _split(clause[1], ","):
        named = re.fullmatch(r"(?P<value>.+?)\s+AS\s+(?P<name>\w+)", piece.strip(), re.I | re.S)
        value = named["value"] if named else piece.strip()
        name = named["name"] if named else re.sub(r"\W+", "_", piece.strip()).strip("_")
        found.append((name, _translated(value, "", None)))
    return tuple(found)
