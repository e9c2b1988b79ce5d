"""The PATTERN grammar: text to `pattern.nodes`.

One grammar reads the SQL clause and the Python builder's text; the builder's arrows (`->`, `->>`)
and negation (`!`) are part of it and refused by the SQL front end. Labels keep their spelling
unless `fold` asks for SQL's upper-casing of unquoted names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from ensue import errors
from ensue.query import nodes, rules
from ensue.query.duration import parse_duration

_GRAMMAR = r"""
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
_MAX_TEXT = 100_000
_MAX_DEPTH = 200


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False, propagate_positions=True)


def parse_pattern(text: str, *, fold: bool = False, arrows: bool = True) -> nodes.Node:
    """The tree of a pattern text; `PatternSyntaxError` points at the column otherwise."""
    if len(text) > _MAX_TEXT:
        raise errors.LimitError(
            f"the pattern has {len(text):,} characters; the limit is {_MAX_TEXT:,}",
            remedy="split the pattern",
        )
    if not text.strip():
        raise errors.PatternSyntaxError(
            "the pattern is empty",
            remedy="write at least one label, or () for the empty pattern",
            place=errors.Place.at_offset(text, 0),
        )
    _check_brackets(text)
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as problem:
        raise _syntax_error(text, problem) from None
    builder = _Builder(text, fold, arrows)
    try:
        return builder.transform(tree)
    except Exception as problem:
        original = getattr(problem, "orig_exc", problem)
        if isinstance(original, errors.EnsueError):
            raise original from None
        raise


def _check_brackets(text: str) -> None:
    """Brackets balance and nest no deeper than the limit; said better here than by the parser."""
    closing = {")": "(", "-}": "{-", "}": "{"}
    stack: list[tuple[str, int]] = []
    cleaned = re.sub(
        r'"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/',
        lambda m: " " * len(m[0]),
        text,
        flags=re.DOTALL,
    )
    for found in re.finditer(r"\{-|-\}|[(){}]", cleaned):
        token, offset = found[0], found.start()
        if token in closing:
            if not stack or stack[-1][0] != closing[token]:
                raise errors.PatternSyntaxError(
                    f"{token!r} closes nothing",
                    remedy=f"remove it or open it with {closing[token]!r}",
                    place=errors.Place.at_offset(text, offset),
                )
            stack.pop()
        else:
            stack.append((token, offset))
            if len(stack) > _MAX_DEPTH:
                raise errors.LimitError(
                    f"the pattern nests deeper than {_MAX_DEPTH} brackets",
                    remedy="remove redundant brackets",
                    place=errors.Place.at_offset(text, offset),
                )
    if stack:
        token, offset = stack[-1]
        raise errors.PatternSyntaxError(
            f"{token!r} is never closed",
            remedy="close it",
            place=errors.Place.at_offset(text, offset),
        )


def _syntax_error(text: str, problem: UnexpectedInput) -> errors.PatternSyntaxError:
    offset = problem.pos_in_stream if problem.pos_in_stream is not None else len(text)
    remedy = "see docs/patterns.md for the grammar"
    if isinstance(problem, UnexpectedCharacters):
        what = f"{text[offset]!r} has no meaning in a pattern"
    elif isinstance(problem, UnexpectedEOF) or (
        isinstance(problem, UnexpectedToken) and problem.token.type == "$END"
    ):
        what, offset = "the pattern ends where a label or a group is expected", len(text)
    else:
        assert isinstance(problem, UnexpectedToken)
        what = f"{str(problem.token)!r} cannot stand here"
        before = text[:offset].rstrip()[-1:]
        if problem.token in ("|", ")") and before in ("", "|", "("):
            what = "an alternative is empty"
            remedy = "write () for an alternative that matches no row"
        elif problem.token.type in ("STAR", "PLUS", "QUESTION", "LBRACE"):
            remedy = "a quantifier stands right after a label or a group; group with ( ) first"
    return errors.PatternSyntaxError(
        what, remedy=remedy, place=errors.Place.at_offset(text, offset)
    )


class _Builder(Transformer[Token, nodes.Node]):
    """Turns the parse tree into nodes, bottom up."""

    def __init__(self, text: str, fold: bool, arrows: bool) -> None:
        super().__init__()
        self._text = text
        self._fold = fold
        self._arrows = arrows

    def start(self, items: list[Any]) -> nodes.Node:
        return items[0]

    def alternation(self, items: list[Any]) -> nodes.Node:
        return items[0] if len(items) == 1 else nodes.Alternation(tuple(items))

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
        greedy = not (len(items) > 1)
        first = items[0]
        if isinstance(first, Token):
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[str(first)]
        else:
            least, most = first
        return least, most, greedy

    def exactly(self, items: list[Token]) -> tuple[int, int | None]:
        return self._bounds(items[0], items[0])

    def at_least(self, items: list[Token]) -> tuple[int, int | None]:
        return self._bounds(items[0], None)

    def at_most(self, items: list[Token]) -> tuple[int, int | None]:
        return self._bounds(None, items[0])

    def any_number(self, items: list[Token]) -> tuple[int, int | None]:
        return 0, None

    def between(self, items: list[Token]) -> tuple[int, int | None]:
        return self._bounds(items[0], items[1])

    def _bounds(self, least: Token | None, most: Token | None) -> tuple[int, int | None]:
        place = self._place(least if least is not None else most)
        low = int(least) if least is not None else 0
        high = int(most) if most is not None else None
        rules.bounds(low, high, place)
        return low, high

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
            mark = token[0]
            return nodes.Label(str(token)[1:-1].replace(mark * 2, mark))
        name = str(token)
        if name.startswith(rules.RESERVED_PREFIX) or name.upper() in _RESERVED:
            raise errors.ReservedNameError(
                f"{name!r} is a reserved name",
                remedy="choose another label, or quote it",
                place=self._place(token),
            )
        return nodes.Label(name.upper() if self._fold else name)

    def _place(self, token: Token | None) -> errors.Place:
        offset = 0 if token is None or token.start_pos is None else token.start_pos
        return errors.Place.at_offset(self._text, offset)


def _with_loop_policy(node: nodes.Node, gap: nodes.Gap) -> nodes.Node:
    """A loop takes the policy of the arrow before it."""
    if gap.policy is nodes.Policy.STRICT:
        return node
    if isinstance(node, nodes.Repetition):
        return nodes.Repetition(
            node.part, node.least, node.most, node.greedy, nodes.Gap(gap.policy)
        )
    if isinstance(node, nodes.Permutation):
        return nodes.Permutation(node.parts, nodes.Gap(gap.policy))
    return node
