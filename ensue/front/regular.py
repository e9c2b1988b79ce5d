"""Regular expressions as text: what the grammars of patterns and of path expressions share.

A `Grammar` checks the length and the brackets of a text, parses it, and says where it is wrong; a
`Reader` turns the parse tree into pattern nodes, bottom up.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from ensue import errors
from ensue.query import nodes
from ensue.query.depth import check_characters, roomy

MAX_TEXT = 100_000
QUANTIFIERS = ("STAR", "PLUS", "QUESTION", "LBRACE")  # tokens that begin one
_BOUNDS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(frozen=True)
class Grammar:
    """A grammar, and how its errors speak."""

    rules: str
    subject: str  # what such a text is called
    error: type[errors.EnsueError]
    max_depth: int
    brackets: Mapping[str, str]  # closing to opening
    opaque: str  # regular expression of quotes and comments, in which brackets mean nothing
    shorten: str  # what to do about a text that is too long
    empty: str  # what `()` stands for
    manual: str
    hints: Mapping[str, str]  # what to do about a token, or a character, that cannot stand here

    @cached_property
    def _parser(self) -> Lark:
        return Lark(self.rules, parser="lalr", maybe_placeholders=False, propagate_positions=True)

    @roomy
    def read(self, text: str, reader: Reader) -> Any:
        """What the reader makes of the text; an error points at the column otherwise."""
        if len(text) > MAX_TEXT:
            raise errors.LimitError(
                f"the {self.subject} has {len(text):,} characters; the limit is {MAX_TEXT:,}",
                remedy=self.shorten,
            )
        check_characters(text, f"the {self.subject}", self.error)
        if not text.strip():
            remedy = f"write at least one label, or () for {self.empty}"
            raise self._error(text, 0, f"the {self.subject} is empty", remedy)
        self._check_brackets(text)
        try:
            tree = self._parser.parse(text)
        except UnexpectedInput as problem:
            raise self._syntax_error(text, problem) from None
        try:
            return reader.transform(tree)
        except Exception as problem:
            original = getattr(problem, "orig_exc", problem)
            if isinstance(original, errors.EnsueError | RecursionError):
                raise original from None
            raise

    def _check_brackets(self, text: str) -> None:
        """Brackets balance and nest no deeper than the limit; said better here than by Lark."""
        cleaned = re.sub(self.opaque, lambda m: " " * len(m[0]), text, flags=re.DOTALL)
        # Longer ones first: `{-` is not `{`.
        tokens = sorted({*self.brackets, *self.brackets.values()}, key=len, reverse=True)
        stack: list[tuple[str, int]] = []
        for bracket in re.finditer("|".join(map(re.escape, tokens)), cleaned):
            token, offset = bracket[0], bracket.start()
            opening = self.brackets.get(token)
            if opening is None:
                stack.append((token, offset))
                if len(stack) > self.max_depth:
                    raise errors.LimitError(
                        f"the {self.subject} nests deeper than {self.max_depth:,} brackets",
                        remedy="remove redundant brackets",
                        place=errors.Place.at_offset(text, offset),
                    )
            elif stack and stack[-1][0] == opening:
                stack.pop()
            else:
                remedy = f"remove it or open it with {opening!r}"
                raise self._error(text, offset, f"{token!r} closes nothing", remedy)
        if stack:
            token, offset = stack[-1]
            raise self._error(text, offset, f"{token!r} is never closed", "close it")

    def _syntax_error(self, text: str, problem: UnexpectedInput) -> errors.EnsueError:
        offset = problem.pos_in_stream if problem.pos_in_stream is not None else len(text)
        remedy = f"see {self.manual}"
        if isinstance(problem, UnexpectedCharacters):
            what = f"{text[offset]!r} has no meaning in a {self.subject}"
        elif isinstance(problem, UnexpectedToken) and problem.token.type != "$END":
            what = f"{str(problem.token)!r} cannot stand here"
        else:
            assert isinstance(problem, UnexpectedEOF | UnexpectedToken)
            what = f"the {self.subject} ends where a label or a group is expected"
            return self._error(text, len(text), what, remedy)
        if isinstance(problem, UnexpectedCharacters):
            if problem.char in self.hints:
                remedy = self.hints[problem.char]
            elif problem.char in "'\"`":
                what, remedy = f"the quote {problem.char!r} is never closed", "close it"
        elif problem.token in ("|", ")") and text[:offset].rstrip()[-1:] in ("", "|", "("):
            what = "an alternative is empty"
            remedy = f"write () for {self.empty}"
        else:
            remedy = self.hints.get(problem.token.type, remedy)
        return self._error(text, offset, what, remedy)

    def _error(self, text: str, offset: int, what: str, remedy: str) -> errors.EnsueError:
        return self.error(what, remedy=remedy, place=errors.Place.at_offset(text, offset))


class Reader(Transformer[Token, nodes.Node]):
    """The parts that every grammar of regular expressions has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def start(self, items: list[Any]) -> nodes.Node:
        return items[0]

    def alternation(self, items: list[Any]) -> nodes.Node:
        return items[0] if len(items) == 1 else nodes.Alternation(tuple(items))

    def quantifier(self, items: list[Any]) -> Any:
        """The least and the greatest number of times."""
        return _BOUNDS[str(items[0])] if isinstance(items[0], Token) else items[0]

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
        self._check_bounds(low, high, self._place(most if least is None else least))
        return low, high

    @abstractmethod
    def _check_bounds(self, least: int, most: int | None, place: errors.Place) -> None:
        """Raises where a repetition's bounds do not fit."""

    def _place(self, token: Token | None) -> errors.Place:
        offset = 0 if token is None or token.start_pos is None else token.start_pos
        return errors.Place.at_offset(self._text, offset)


def unquoted(token: Token) -> str:
    """The name inside quotes, where a doubled quote stands for one, or inside `<>`."""
    mark = token[0]
    inside = str(token)[1:-1]
    return inside if mark == "<" else inside.replace(mark * 2, mark)
