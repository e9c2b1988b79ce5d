"""Row pattern expressions in a sqlglot dialect.

`row_dialect(name)` is sqlglot's dialect of that name with the three things it lacks: the RUNNING
and FINAL prefixes, FIRST/LAST/PREV/NEXT with an offset, and MATCH_RECOGNIZE's own functions kept
by name instead of being read as the aggregates they share it with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from ensue import errors

FRAME = "__FRAME"  # __FRAME('FINAL', f(...)): how a prefixed call travels through the tree
# What is quoted or a comment; a comma before nothing; a bracket before a comma.
_EMPTY = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|,(?=\s*[,)])|\((?=\s*,)", re.S
)
_NAMED = ("FIRST", "LAST", "PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER")

# Aggregates of Spark that sqlglot reads as any other function.
_AGGREGATES = {
    "bitmap_and_agg", "collect_union", "count_min_sketch", "every", "first", "grouping",
    "grouping_id", "histogram_numeric", "hll_sketch_agg", "hll_union_agg", "kll_merge_agg_bigint",
    "kll_merge_agg_double", "kll_merge_agg_float", "kll_sketch_agg_bigint", "kll_sketch_agg_double",
    "kll_sketch_agg_float", "last", "mean", "measure", "some", "std", "theta_intersection_agg",
    "theta_sketch_agg", "theta_union_agg", "try_avg", "try_sum", "tuple_intersection_agg_double",
    "tuple_intersection_agg_integer", "tuple_sketch_agg_double", "tuple_sketch_agg_integer",
    "tuple_union_agg_double", "tuple_union_agg_integer",
}  # fmt: skip


def is_aggregate(node: Any) -> bool:
    """Whether a call is an aggregate of Spark."""
    if isinstance(node, exp.Anonymous):
        return node.name.casefold() in _AGGREGATES
    if isinstance(node, exp.Any):  # also the quantifier of a comparison
        return not (isinstance(node.parent, exp.Binary) and node.parent.expression is node)
    return isinstance(node, exp.AggFunc)


def check_commas(text: str, what: str) -> None:
    """Refuses an argument that is not there: sqlglot reads `f(x, , y)`, and cannot print it."""
    for found in _EMPTY.finditer(text):
        if found[0] in ",(":
            raise errors.ConditionSyntaxError(
                f"{what}: something is missing next to a comma",
                remedy="write the argument, or leave the comma out",
                place=errors.Place.at_offset(text, found.end() - 1),
            )


@contextmanager
def syntax_errors(text: str, problem: str) -> Iterator[None]:
    """What sqlglot finds wrong with a text, as an error of ours that points at the place."""
    try:
        yield
    except ParseError as found:
        detail = found.errors[0] if found.errors else {}
        token = str(detail.get("highlight") or "")
        column = max(1, int(detail.get("col") or 1) - max(0, len(token) - 1))
        raise errors.ConditionSyntaxError(
            f"{problem}: {_told(str(detail.get('description', found)), token)}",
            remedy="check the text at the mark",
            place=errors.Place(text, detail.get("line") or 1, column),
        ) from None
    except TokenError:
        quote, offset = _unclosed(text)
        what = f"{quote!r} is never closed" if quote else "a part of it cannot be read"
        raise errors.ConditionSyntaxError(
            f"{problem}: {what}",
            remedy="check quotes and comments",
            place=errors.Place.at_offset(text, offset),
        ) from None


def _told(description: str, token: str) -> str:
    """What the parser says, in words of ours."""
    found = repr(token) if token else "the end of the text"
    what = description.rstrip(".")
    if what.startswith("Expecting "):
        return f"expected {what.removeprefix('Expecting ')}, found {found}"
    if what.startswith("Expected ") and " but got " in what:
        return f"expected {what[9 : what.index(' but got ')]}, found {found}"
    if what.startswith("Required keyword"):
        return f"something is missing at {found}"
    if "Unexpected token" in what or "<" in what:
        return f"{found} cannot stand here"
    return what


def _unclosed(text: str) -> tuple[str, int]:
    """The quote or comment that has no end, and where it begins."""
    for found in _OPENING.finditer(text):
        if found.lastgroup == "open":
            return found[0][:2] if found[0].startswith("/*") else found[0][0], found.start()
    return "", 0


_OPENING = re.compile(
    r"""--[^\n]*|/\*(?:.|\n)*?\*/|'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*"|`(?:``|[^`])*`"""
    r"""|(?P<open>/\*|['"`])""",
    re.DOTALL,
)


def _named(name: str) -> Callable[..., exp.Expression]:
    def build(args: list[exp.Expression], *_: object, **__: object) -> exp.Expression:
        return exp.Anonymous(this=name, expressions=args)

    return build


def parse_frame(parser: Any) -> exp.Expression | None:
    """`RUNNING f(...)` or `FINAL f(...)` at the parser's position, else None."""
    current, following = parser._curr, parser._next
    if current is None or following is None or current.text.upper() not in ("RUNNING", "FINAL"):
        return None
    index = parser._index
    parser._advance()
    call = parser._parse_function()
    if call is None:
        parser._retreat(index)
        return None
    framed = exp.Anonymous(this=FRAME, expressions=[exp.Literal.string(current.text.upper()), call])
    framed.meta["start"] = current.start
    return framed


@lru_cache(maxsize=16)
def row_dialect(name: str) -> type[Dialect]:
    """The dialect `name` extended for row pattern expressions."""
    base: Any = Dialect.get_or_raise(name).__class__

    class RowParser(base.Parser):  # type: ignore[misc]
        FUNCTIONS: ClassVar[dict[str, Any]] = {
            **base.Parser.FUNCTIONS,
            **{name: _named(name) for name in _NAMED},
        }
        # Oracle's NEXT VALUE FOR would hide NEXT(...).
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser
            for name, parser in base.Parser.NO_PAREN_FUNCTION_PARSERS.items()
            if name not in _NAMED
        }

        # Places after a join where further joins lead to no ON; None: they are read as they come.
        _no_condition: set[tuple[int, int]] | None = None

        def _parse_unary(self) -> exp.Expression | None:
            return parse_frame(self) or super()._parse_unary()

        def reset(self) -> None:
            super().reset()
            self._no_condition = set()

        def _parse_table(self, *given: Any, **named: Any) -> Any:
            if not named.get("joins"):
                return super()._parse_table(*given, **named)
            before, self._no_condition = self._no_condition, None
            try:
                return super()._parse_table(*given, **named)
            finally:
                self._no_condition = before

        def _parse_joins(self, **named: Any) -> Iterator[exp.Join]:
            """After a join without a condition sqlglot looks for `JOIN ... ON ... ON`, and forgets
            what it found there: each further join would double its time."""
            place = id(self._tokens), self._index
            if self._no_condition is None or "alias_tokens" not in named:
                return super()._parse_joins(**named)
            if place in self._no_condition:
                return iter(())
            found = list(super()._parse_joins(**named))
            ahead = self._curr.token_type if found and self._curr else None
            if ahead not in (TokenType.ON, TokenType.USING):
                self._no_condition.add(place)
            return iter(found)

    class RowTokenizer(base.Tokenizer):  # type: ignore[misc]
        # Spark 4 also reads a doubled quote inside a string as one quote.
        STRING_ESCAPES: ClassVar[list[str]] = list(
            dict.fromkeys([*base.Tokenizer.STRING_ESCAPES, "'"])
        )

    parts = {"Parser": RowParser, "Tokenizer": RowTokenizer}
    return type(f"Row{base.__name__}", (base,), parts)
