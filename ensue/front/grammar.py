"""The PATTERN grammar: text to `query.nodes`.

One grammar reads the SQL clause and the Python builder's text; the builder's arrows (`->`, `->>`)
and negation (`!`) are part of it and refused by the SQL front end. Labels keep their spelling
unless `fold` asks for SQL's upper-casing of unquoted names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedInput, UnexpectedToken

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
quantified: primary quantifier?
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
QUOTED: /"([^"]|"")+"/ | /`([^`]|``)+`/
%ignore /\s+/
%ignore /--[^\n]*/
%ignore /\/\*(.|\n)*?\*\//
"""
_RESERVED = frozenset({"PERMUTE"})


def parse_pattern(text: str, *, fold: bool = False, arrows: bool = True) -> nodes.Node:
    """The tree of a pattern text; `PatternSyntaxError` points at the column otherwise."""
    pattern: nodes.Node = _GRAMMAR.read(text, _Reader(text, fold, arrows))
    return pattern


def _explain(before: str, problem: UnexpectedInput) -> tuple[str, str] | None:
    if not isinstance(problem, UnexpectedToken):
        return None
    if problem.token in ("|", ")") and before.rstrip()[-1:] in ("", "|", "("):
        return "an alternative is empty", "write () for an alternative that matches no row"
    if problem.token.type in QUANTIFIERS:
        return "", "a quantifier stands right after a label or a group; group with ( ) first"
    return None


_GRAMMAR = Grammar(
    _RULES,
    subject="pattern",
    error=errors.PatternSyntaxError,
    max_depth=200,
    brackets={")": "(", "-}": "{-", "}": "{"},
    opaque=r'"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/',
    shorten="split the pattern",
    empty="the empty pattern",
    manual="docs/patterns.md for the grammar",
    explain=_explain,
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
            parts.append(_with_loop_policy(item, gaps[-1] if gaps else nodes.STRICT_GAP))
            pending = None
        return nodes.concatenate(parts, gaps)

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
        if str(items[1]).lower() in ("unit", "units") and str(items[0]).isdigit():
            return int(items[0]), False
        return parse_duration(f"{items[0]} {items[1]}", self._place(items[0])), True

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
        if len(items) == 1:
            return items[0]
        least, most, greedy = items[1]
        return nodes.Repetition(items[0], least, most, greedy)

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


def _with_loop_policy(node: nodes.Node, gap: nodes.Gap) -> nodes.Node:
    """A loop takes the policy of the arrow before it."""
    if gap.policy is nodes.Policy.STRICT:
        return node
    if isinstance(node, nodes.Repetition | nodes.Permutation):
        return replace(node, gap=nodes.Gap(gap.policy))
    return node
