"""SPARQL property paths: text to `pattern.paths.PathQuery`.

    written_by/^written_by          a step, then one against the direction of its edge
    (starred_actors|directed_by)+   alternatives, and + * ? {n} {n,} {,m} {n,m}
    !x   !(a|^b)                    any label but these (of forward, and of backward edges)
    .    ~'has_*'                   any label; labels like a pattern
    knows[edge.since > 2000 AND node.age < 30]   conditions, in SQL, on the edge and its nodes
    <http://...>  "two words"  `x`  labels that are no plain words

`^` before a bracket reads what is inside from its end; before a step with a condition it belongs
to the step, so `node` is the node that the step arrives at.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from ensue import errors
from ensue.front.expressions import Scope, parse_condition
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.paths import EDGE, NODE, SOURCE, EdgeTest, PathQuery, mirrored

_GRAMMAR = r"""
start: alternation
alternation: sequence ("|" sequence)*
sequence: element ("/" element)*
element: INVERSE? primary quantifier?
primary: step CONDITION?             -> tested
       | "(" alternation ")"         -> group
       | "(" ")"                     -> empty
step: label                          -> named
    | ANY                            -> anything
    | "~" QUOTED                     -> like
    | NOT negated                    -> excluded
negated: INVERSE? label              -> one
       | "(" ")"                     -> none
       | "(" member ("|" member)* ")" -> several
member: INVERSE? label
quantifier: STAR | PLUS | QUESTION | braces
braces: "{" NUMBER "}"               -> exactly
      | "{" NUMBER "," "}"           -> at_least
      | "{" "," NUMBER "}"           -> at_most
      | "{" NUMBER "," NUMBER "}"    -> between
label: NAME | QUOTED | IRI
INVERSE: "^"
NOT: "!"
STAR: "*"
PLUS: "+"
QUESTION: "?"
ANY: "."
NUMBER: /[0-9]+/
NAME: /[^\W\d]\w*(?:[.:\-]\w+)*/
QUOTED: /"([^"]|"")+"/ | /`([^`]|``)+`/ | /'([^']|'')+'/
IRI: /<[^<>\s]+>/
CONDITION: /\[(?:[^\[\]'"`]|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\])*\]/
%ignore /\s+/
"""
MAX_TEXT = 100_000
MAX_DEPTH = 100
_PLACES = {")": "(", "}": "{", "]": "["}


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False, propagate_positions=True)


@lru_cache(maxsize=4096)
def parse_path(text: str) -> PathQuery:
    """The query of a path expression; `PathSyntaxError` points at the column otherwise."""
    if not isinstance(text, str):
        raise errors.PathSyntaxError(
            f"a path expression is text, not {type(text).__name__}",
            remedy="write for example 'written_by/^written_by'",
        )
    if len(text) > MAX_TEXT:
        raise errors.LimitError(
            f"the path expression has {len(text):,} characters; the limit is {MAX_TEXT:,}",
            remedy="split the expression into several queries",
        )
    if not text.strip():
        raise errors.PathSyntaxError(
            "the path expression is empty",
            remedy="write at least one label, or () for the path of length 0",
            place=errors.Place.at_offset(text, 0),
        )
    _check_brackets(text)
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as problem:
        raise _syntax_error(text, problem) from None
    builder = _Builder(text)
    try:
        pattern = builder.transform(tree)
    except Exception as problem:
        original = getattr(problem, "orig_exc", problem)
        if isinstance(original, errors.EnsueError):
            raise original from None
        raise
    return _numbered(pattern, builder.tests, text)


def _numbered(pattern: nodes.Node, tests: list[EdgeTest], text: str) -> PathQuery:
    """Equal tests share a number, given in order of appearance, so that equal queries are equal."""
    numbers: dict[EdgeTest, str] = {}

    def visit(node: nodes.Node) -> nodes.Node:
        match node:
            case nodes.Label(name=name):
                return nodes.Label(numbers.setdefault(tests[int(name)], str(len(numbers))))
            case nodes.Concatenation(parts=parts):
                return nodes.concatenate([visit(part) for part in parts])
            case nodes.Alternation(options=options):
                return nodes.Alternation(tuple(visit(option) for option in options))
            case nodes.Repetition(part=part, least=least, most=most):
                return nodes.Repetition(visit(part), least, most)
            case _:
                return node

    renumbered = visit(pattern)
    return PathQuery(renumbered, tuple(numbers), text)


def _check_brackets(text: str) -> None:
    quoted = r"\"(?:[^\"]|\"\")*\"|`[^`]*`|'(?:[^']|'')*'|<[^<>\s]+>"
    cleaned = re.sub(quoted, lambda m: " " * len(m[0]), text)
    stack: list[tuple[str, int]] = []
    for found in re.finditer(r"[][(){}]", cleaned):
        token, offset = found[0], found.start()
        if token not in _PLACES:
            stack.append((token, offset))
        elif stack and stack[-1][0] == _PLACES[token]:
            stack.pop()
        else:
            raise errors.PathSyntaxError(
                f"{token!r} closes nothing",
                remedy=f"remove it or open it with {_PLACES[token]!r}",
                place=errors.Place.at_offset(text, offset),
            )
        if len(stack) > MAX_DEPTH:
            raise errors.LimitError(
                f"the path expression nests deeper than {MAX_DEPTH} brackets",
                remedy="remove redundant brackets",
                place=errors.Place.at_offset(text, offset),
            )
    if stack:
        raise errors.PathSyntaxError(
            f"{stack[-1][0]!r} is never closed",
            remedy="close it",
            place=errors.Place.at_offset(text, stack[-1][1]),
        )


def _syntax_error(text: str, problem: UnexpectedInput) -> errors.PathSyntaxError:
    offset = problem.pos_in_stream if problem.pos_in_stream is not None else len(text)
    remedy = "see docs/graph.md for the syntax of path expressions"
    if isinstance(problem, UnexpectedCharacters):
        what = f"{text[offset]!r} has no meaning in a path expression"
        if text[offset] in "'\"`":
            what, remedy = f"the quote {text[offset]!r} is never closed", "close it"
    elif isinstance(problem, UnexpectedEOF) or (
        isinstance(problem, UnexpectedToken) and problem.token.type == "$END"
    ):
        what, offset = "the expression ends where a label or a group is expected", len(text)
    else:
        assert isinstance(problem, UnexpectedToken)
        what = f"{str(problem.token)!r} cannot stand here"
        if problem.token.type in ("STAR", "PLUS", "QUESTION", "LBRACE"):
            remedy = "a quantifier stands right after a label or a group, once; group with ( )"
        elif problem.token.type in ("NAME", "QUOTED", "IRI", "INVERSE", "NOT", "LPAR", "ANY"):
            remedy = "join two steps with / and alternatives with |"
        elif problem.token.type == "CONDITION":
            remedy = "a condition stands right after a single step, before its quantifier"
    return errors.PathSyntaxError(what, remedy=remedy, place=errors.Place.at_offset(text, offset))


class _Builder(Transformer[Token, nodes.Node]):
    """Turns the parse tree into nodes, bottom up; labels number `tests`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.tests: list[EdgeTest] = []

    def start(self, items: list[Any]) -> nodes.Node:
        return items[0]

    def alternation(self, items: list[Any]) -> nodes.Node:
        return items[0] if len(items) == 1 else nodes.Alternation(tuple(items))

    def sequence(self, items: list[Any]) -> nodes.Node:
        return nodes.concatenate(items)

    def element(self, items: list[Any]) -> nodes.Node:
        inverse = isinstance(items[0], Token)
        rest = items[1:] if inverse else items
        node, conditions = rest[0]
        if inverse:
            node = self._inverted(node)
        if conditions is not None:
            node = self._conditioned(node, conditions)
        if len(rest) > 1:
            least, most = rest[1]
            node = nodes.Repetition(node, least, most)
        return node

    def tested(self, items: list[Any]) -> tuple[nodes.Node, c.Condition | None]:
        return items[0], None if len(items) == 1 else self._condition(items[1])

    def group(self, items: list[Any]) -> tuple[nodes.Node, None]:
        return items[0], None

    def empty(self, _: list[Any]) -> tuple[nodes.Node, None]:
        return nodes.Empty(), None

    def named(self, items: list[str]) -> nodes.Node:
        return self._test(EdgeTest((items[0],)))

    def anything(self, _: list[Token]) -> nodes.Node:
        return self._test(EdgeTest(negated=True))

    def like(self, items: list[Token]) -> nodes.Node:
        return self._test(EdgeTest((_unquoted(items[0]),), glob=True))

    def excluded(self, items: list[Any]) -> nodes.Node:
        members: list[tuple[str, bool]] = items[1]
        options = []
        for backward in (False, True):
            names = tuple(sorted({name for name, back in members if back == backward}))
            if names or (not members and not backward):
                options.append(self._test(EdgeTest(names, negated=True, backward=backward)))
        return options[0] if len(options) == 1 else nodes.Alternation(tuple(options))

    def one(self, items: list[Any]) -> list[tuple[str, bool]]:
        return [self.member(items)]

    def none(self, _: list[Any]) -> list[tuple[str, bool]]:
        return []

    def several(self, items: list[Any]) -> list[tuple[str, bool]]:
        return items

    def member(self, items: list[Any]) -> tuple[str, bool]:
        return str(items[-1]), len(items) > 1

    def label(self, items: list[Token]) -> str:
        # A str, not a Token: `element` tells the two apart.
        return str(items[0]) if items[0].type == "NAME" else _unquoted(items[0])

    def quantifier(self, items: list[Any]) -> tuple[int, int | None]:
        first = items[0]
        if isinstance(first, Token):
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[str(first)]
        return first

    def exactly(self, items: list[Token]) -> tuple[int, int | None]:
        return self._bounds(items[0], items[0])

    def at_least(self, items: list[Token]) -> tuple[int, int | None]:
        return self._bounds(items[0], None)

    def at_most(self, items: list[Token]) -> tuple[int, int | None]:
        return self._bounds(None, items[0])

    def between(self, items: list[Token]) -> tuple[int, int | None]:
        return self._bounds(items[0], items[1])

    def _bounds(self, least: Token | None, most: Token | None) -> tuple[int, int | None]:
        low = 0 if least is None else int(least)
        high = None if most is None else int(most)
        if high is not None and high < low:
            raise errors.PathSyntaxError(
                f"{{{low},{high}}} asks for at least {low} and at most {high}",
                remedy="put the smaller number first",
                place=self._place(least or most),
            )
        return low, high

    def _test(self, test: EdgeTest) -> nodes.Node:
        self.tests.append(test)
        return nodes.Label(str(len(self.tests) - 1))

    def _inverted(self, node: nodes.Node) -> nodes.Node:
        for label in nodes.labels(node):
            self.tests[int(label)] = self.tests[int(label)].inverse()
        return mirrored(node)

    def _conditioned(self, node: nodes.Node, condition: c.Condition) -> nodes.Node:
        for label in nodes.labels(node):
            test = self.tests[int(label)]
            self.tests[int(label)] = EdgeTest(
                test.labels, test.negated, test.glob, test.backward, condition
            )
        return node

    def _condition(self, token: Token) -> c.Condition:
        text, offset = str(token)[1:-1], (token.start_pos or 0) + 1
        try:
            found = parse_condition(text, Scope(where="the condition"))
        except errors.EnsueError as problem:
            inner = 0 if problem.place is None else _offset(problem.place)
            place = errors.Place.at_offset(self._text, offset + inner)
            raise type(problem)(problem.problem, remedy=problem.remedy, place=place) from None
        for node in c.walk(found):
            self._check_atom(node, text, offset)
        return c.transform(found, lambda n: n.argument if isinstance(n, c.Navigate) else None)

    def _check_atom(self, node: c.Condition, text: str, offset: int) -> None:
        if isinstance(node, c.Column) and (node.name not in (NODE, SOURCE, EDGE) or not node.path):
            at = text.find(node.name)
            raise errors.UnknownColumnError(
                f"{c.dump(node)!r} does not say whether it is of the edge or of a node",
                remedy="write edge.x, node.x (the node arrived at) or source.x (the node left)",
                place=errors.Place.at_offset(self._text, offset + max(at, 0)),
            )
        plain = c.Navigate(c.TRUE)
        if isinstance(node, (c.Aggregate, c.MatchNumber, c.Classifier)) or (
            isinstance(node, c.Navigate)
            and (node.variable, node.anchor, node.offset, node.shift) != (None, plain.anchor, 0, 0)
        ):
            raise errors.ConditionSyntaxError(
                "a condition of a step sees this step only: no aggregates, no PREV or FIRST",
                remedy="compute it into a column of the edges or nodes first",
                place=errors.Place.at_offset(self._text, offset),
            )

    def _place(self, token: Token | None) -> errors.Place:
        offset = 0 if token is None or token.start_pos is None else token.start_pos
        return errors.Place.at_offset(self._text, offset)


def _offset(place: errors.Place) -> int:
    lines = place.text.split("\n")
    return sum(len(line) + 1 for line in lines[: place.line - 1]) + place.column - 1


def _unquoted(token: Token) -> str:
    mark = token[0]
    if mark == "<":
        return str(token)[1:-1]
    return str(token)[1:-1].replace(mark * 2, mark)
