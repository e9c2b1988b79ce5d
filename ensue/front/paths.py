"""SPARQL property paths: text to `query.paths.PathQuery`.

    written_by/^written_by          a step, then one against the direction of its edge
    (starred_actors|directed_by)+   alternatives, and + * ? {n} {n,} {,m} {n,m}
    !x   !(a|^b)                    any label but these (of forward, and of backward edges)
    .    ~'has_*'                   any label; labels like a pattern
    knows[edge.since > 2000 AND node.age < 30]   conditions, in SQL, on the edge and its nodes
    <http://...>  "two words"  `x`  labels that are not plain words

`^` before a bracket reads what is inside from its end; before a step with a condition it belongs
to the step, so `node` is the node that the step arrives at.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from lark import Token

from ensue import errors
from ensue.front.expressions import Scope, parse_condition
from ensue.front.regular import QUANTIFIERS, Grammar, Reader, unquoted
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.paths import EDGE, NODE, SOURCE, EdgeTest, PathQuery, mirrored

_RULES = r"""
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
_STEPS = ("NAME", "QUOTED", "IRI", "INVERSE", "NOT", "LPAR", "ANY")  # tokens that begin one


@lru_cache(maxsize=4096)
def parse_path(text: str) -> PathQuery:
    """The query of a path expression; `PathSyntaxError` points at the column otherwise."""
    if not isinstance(text, str):
        raise errors.PathSyntaxError(
            f"a path expression is text, not {type(text).__name__}",
            remedy="write for example 'written_by/^written_by'",
        )
    reader = _Reader(text)
    return _numbered(_GRAMMAR.read(text, reader), reader.tests, text)


def _numbered(pattern: nodes.Node, tests: list[EdgeTest], text: str) -> PathQuery:
    """Equal tests share a number, given in order of appearance, so that equal queries are equal."""
    numbers: dict[EdgeTest, str] = {}

    def visit(node: nodes.Node) -> nodes.Node:
        if isinstance(node, nodes.Label):
            return nodes.Label(numbers.setdefault(tests[int(node.name)], str(len(numbers))))
        return nodes.rebuilt(node, visit)

    renumbered = visit(pattern)
    return PathQuery(renumbered, tuple(numbers), text)


_GRAMMAR = Grammar(
    _RULES,
    subject="path expression",
    error=errors.PathSyntaxError,
    max_depth=1_000,
    brackets={")": "(", "}": "{", "]": "["},
    opaque=r"\"(?:[^\"]|\"\")*\"|`[^`]*`|'(?:[^']|'')*'|<[^<>\s]+>",
    shorten="split the expression into several queries",
    empty="the path of length 0",
    manual=f"{errors.DOCS}/graph.md for the syntax of path expressions",
    hints={
        **dict.fromkeys(
            QUANTIFIERS, "a quantifier stands right after a label or a group, once; group with ( )"
        ),
        **dict.fromkeys(_STEPS, "join two steps with / and alternatives with |"),
        "CONDITION": "a condition stands right after a single step, before its quantifier",
    },
)


class _Reader(Reader):
    """Labels of the nodes number `tests`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.tests: list[EdgeTest] = []

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
        return self._test(EdgeTest((unquoted(items[0]),), glob=True))

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
        return str(items[0]) if items[0].type == "NAME" else unquoted(items[0])

    def _check_bounds(self, least: int, most: int | None, place: errors.Place) -> None:
        if most is not None and most < least:
            raise errors.PathSyntaxError(
                f"{{{least},{most}}} asks for at least {least} and at most {most}",
                remedy="put the smaller number first",
                place=place,
            )

    def _test(self, test: EdgeTest) -> nodes.Node:
        self.tests.append(test)
        return nodes.Label(str(len(self.tests) - 1))

    def _inverted(self, node: nodes.Node) -> nodes.Node:
        for label in nodes.labels(node):
            self.tests[int(label)] = self.tests[int(label)].inverse()
        return mirrored(node)

    def _conditioned(self, node: nodes.Node, condition: c.Condition) -> nodes.Node:
        for label in nodes.labels(node):
            self.tests[int(label)] = replace(self.tests[int(label)], condition=condition)
        return node

    def _condition(self, token: Token) -> c.Condition:
        text, offset = str(token)[1:-1], (token.start_pos or 0) + 1
        try:
            found = parse_condition(text, Scope(where="the condition"))
        except errors.EnsueError as problem:
            inner = 0 if problem.place is None else problem.place.offset
            raise problem.at(errors.Place.at_offset(self._text, offset + inner)) from None
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
