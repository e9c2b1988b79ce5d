"""The PATTERN grammar: text to `query.nodes`.

One grammar reads the SQL clause and the Python builder's text; the builder's arrows (`->`, `->>`)
and negation (`!`) are part of it and refused by the SQL front end. Labels keep their spelling
unless `fold` asks for SQL's upper-casing of unquoted names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from lark import Token

from ensue import errors
from ensue.front.regular import QUANTIFIERS, Grammar, Reader, unquoted
from ensue.query import nodes, rules
from ensue.query.duration import parse_duration

_RULES = r"""
start: alternation
alternation: sequence ("|" sequence)*
sequence: element (joint? element)*
joint: ARROW gap_bound?
gap_bound: "within"i NUMBER WORD
?element: negation | quantified
negation: "!" quantified
quantified: primary quantifier? MARKS?
quantifier: STAR RELUCTANT? | PLUS RELUCTANT? | QUESTION RELUCTANT? | braces RELUCTANT?
braces: "{" NUMBER "}"           -> exactly
      | "{" NUMBER "," "}"       -> at_least
      | "{" "," NUMBER "}"       -> at_most
      | "{" "," "}"              -> any_number
      | "{" NUMBER "," NUMBER "}" -> between
primary: label
       | "(" ")"                 -> empty
       | "(" alternation ")"     -> group
       | "^"                     -> anchor_start
       | "$"                     -> anchor_end
       | PERMUTE "(" alternation ("," alternation)* ")" -> permute
       | "{-" alternation "-}"   -> exclusion
label: NAME | QUOTED
ARROW: "->>" | "->"
STAR: "*"
PLUS: "+"
QUESTION: "?"
RELUCTANT: "?"
PERMUTE.2: /permute(?=\s*\()/i
NUMBER: /[0-9]+/
NAME: /[^\W\d]\w*/
WORD: /[A-Za-z]+/
MARKS: /\[("([^"]|"")*"|`([^`]|``)*`|[^\]"`])*\]/
QUOTED: /"([^"]|"")+"/ | /`([^`]|``)+`/
%ignore /\s+/
%ignore /--[^\n]*/
%ignore /\/\*(.|\n)*?\*\//
"""
_RESERVED = frozenset({"PERMUTE"})
_LABEL = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`|[^\W\d]\w*'
_MARK = re.compile(
    rf"\s*(?:(?P<policy>strict|next|any)|(?P<greedy>greedy)|until\s+(?P<until>{_LABEL})"
    r"|within\s+(?P<size>\d+)\s+(?P<unit>[A-Za-z]+))\s*(?:,|$)",
    re.IGNORECASE,
)


def parse_pattern(text: str, *, fold: bool = False, arrows: bool = True) -> nodes.Node:
    """The tree of a pattern text; `PatternSyntaxError` points at the column otherwise."""
    pattern: nodes.Node = _GRAMMAR.read(text, _Reader(text, fold, arrows))
    return pattern


_GRAMMAR = Grammar(
    _RULES,
    subject="pattern",
    error=errors.PatternSyntaxError,
    max_depth=1_000,
    brackets={")": "(", "-}": "{-", "}": "{"},
    opaque=r'"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/',
    shorten="split the pattern",
    empty="the empty pattern",
    manual=f"{errors.DOCS}/patterns.md for the grammar",
    hints={
        **dict.fromkeys(
            QUANTIFIERS, "a quantifier stands right after a label or a group; group with ( ) first"
        ),
        **dict.fromkeys(">=", "an arrow is -> (skip to the next) or ->> (skip to any)"),
        **dict.fromkeys("'-", 'a label that is no plain name stands in double quotes: "add-cart"'),
        "COMMA": "write an arrow (->) or a blank between two steps",
    },
)


class _Reader(Reader):
    def __init__(self, text: str, fold: bool, arrows: bool) -> None:
        super().__init__(text)
        self._fold = fold
        self._arrows = arrows

    def sequence(self, items: list[Any]) -> nodes.Node:
        parts: list[nodes.Node] = []
        gaps: list[nodes.Gap] = []
        pending: nodes.Gap | None = None
        for item in items:
            if isinstance(item, nodes.Gap):
                pending = item
                continue
            if parts:
                gaps.append(pending or nodes.STRICT_GAP)
            parts.append(item)
            pending = None
        if gaps:
            parts = list(map(self._with_policy, parts, nodes.loop_policies(gaps)))
        return nodes.concatenate(parts, gaps)

    def _with_policy(self, node: nodes.Node, policy: nodes.Policy) -> nodes.Node:
        """A loop that says no policy has that of its place; a blank leaves it as it is."""
        if policy is nodes.Policy.STRICT:
            return node
        if isinstance(node, nodes.Repetition | nodes.Permutation) and not node.gap.said:
            return replace(node, gap=replace(node.gap, policy=policy))
        return node

    def joint(self, items: list[Any]) -> nodes.Gap:
        token = items[0]
        if not self._arrows:
            raise errors.PatternSyntaxError(
                f"{str(token)!r} is not part of SQL's PATTERN",
                remedy="use the Python builder",
                place=self._place(token),
            )
        policy = nodes.Policy.ANY if token == "->>" else nodes.Policy.NEXT
        return nodes.Gap(policy, *(items[1] if len(items) > 1 else ()))

    def gap_bound(self, items: list[Any]) -> tuple[int, bool]:
        """The size of a bound, and whether it is a duration."""
        return self._bound(str(items[0]), str(items[1]), self._place(items[0]))

    def _bound(self, size: str, unit: str, place: errors.Place) -> tuple[int, bool]:
        if unit.lower() in ("unit", "units"):
            return int(size), False
        return parse_duration(f"{size} {unit}", place), True

    def negation(self, items: list[Any]) -> nodes.Node:
        if not isinstance(items[0], nodes.Label):
            raise errors.PatternSyntaxError(
                "only a single label can be negated", remedy="write !label"
            )
        if not self._arrows:
            raise errors.PatternSyntaxError(
                "negation is not part of SQL's PATTERN", remedy="use the Python builder"
            )
        return nodes.Negation(items[0])

    def quantified(self, items: list[Any]) -> nodes.Node:
        node, *rest = items
        marks = rest.pop() if rest and isinstance(rest[-1], Token) else None
        if rest:
            least, most, greedy = rest[0]
            node = nodes.Repetition(node, least, most, greedy)
        return node if marks is None else self._marked(node, marks)

    def _marked(self, node: nodes.Node, marks: Token) -> nodes.Node:
        """The loop with what stands in brackets behind it: `B+[any, within 5 minutes]`."""
        place = self._place(marks)
        if not self._arrows:
            raise errors.PatternSyntaxError(
                f"{str(marks)!r} is not part of SQL's PATTERN",
                remedy="use the Python builder",
                place=place,
            )
        if not isinstance(node, nodes.Repetition | nodes.Permutation):
            raise errors.PatternSyntaxError(
                f"{marks!s} describes the inside of a loop, and there is no loop before it",
                remedy="put it behind a quantifier or PERMUTE(...): B+[strict]",
                place=place,
            )
        text, at = marks[1:-1], 0
        while at < len(text) or not at:
            found = _MARK.match(text, at)
            if found is None or (isinstance(node, nodes.Permutation) and _of_loops(found)):
                raise errors.PatternSyntaxError(
                    f"{marks!s} is not known",
                    remedy="write strict, next, any, within 5 minutes, greedy or until X, with "
                    "commas between",
                    place=place,
                )
            at = found.end()
            node = self._with_mark(node, found, place)
        return node

    def _with_mark(
        self, node: nodes.Repetition | nodes.Permutation, found: re.Match[str], place: errors.Place
    ) -> nodes.Repetition | nodes.Permutation:
        if found["policy"]:
            policy = nodes.Policy(found["policy"].lower())
            return replace(node, gap=replace(node.gap, policy=policy, said=True))
        if found["size"]:
            size, timed = self._bound(found["size"], found["unit"], place)
            return replace(node, gap=replace(node.gap, within=size, timed=timed))
        assert isinstance(node, nodes.Repetition)
        if found["greedy"]:
            return replace(node, exhaust=True)
        name = found["until"]
        name = name[1:-1].replace(name[0] * 2, name[0]) if name[0] in '"`' else name
        return replace(node, until=nodes.Label(name))

    def quantifier(self, items: list[Any]) -> tuple[int, int | None, bool]:
        least, most = super().quantifier(items)
        return least, most, len(items) == 1

    def any_number(self, _: list[Token]) -> tuple[int, int | None]:
        return 0, None

    def _check_bounds(self, least: int, most: int | None, place: errors.Place) -> None:
        rules.bounds(least, most, place)

    def primary(self, items: list[Any]) -> nodes.Node:
        return items[0]

    def empty(self, items: list[Any]) -> nodes.Node:
        return nodes.Empty()

    def group(self, items: list[Any]) -> nodes.Node:
        return items[0]

    def anchor_start(self, items: list[Any]) -> nodes.Node:
        return nodes.AnchorStart()

    def anchor_end(self, items: list[Any]) -> nodes.Node:
        return nodes.AnchorEnd()

    def permute(self, items: list[Any]) -> nodes.Node:
        return nodes.Permutation(tuple(items[1:]))

    def exclusion(self, items: list[Any]) -> nodes.Node:
        return nodes.Exclusion(items[0])

    def label(self, items: list[Token]) -> nodes.Node:
        token = items[0]
        if token.type == "QUOTED":
            return nodes.Label(unquoted(token))
        name = str(token)
        if name.startswith(rules.RESERVED_PREFIX) or name.upper() in _RESERVED:
            raise errors.ReservedNameError(
                f"{name!r} is a reserved name",
                remedy="choose another label, or quote it",
                place=self._place(token),
            )
        return nodes.Label(name.upper() if self._fold else name)


def _of_loops(mark: re.Match[str]) -> bool:
    """Whether a mark speaks of how a loop ends, which PERMUTE does not."""
    return bool(mark["greedy"] or mark["until"])
