"""Small questions about a tree of sqlglot: what a call is named, what a chain joins, a literal."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from ensue import errors
from ensue.front.dialect import FRAME
from ensue.query import condition as c

OF_THE_MATCH = (
    "PREV",
    "NEXT",
    "CLASSIFIER",
    "MATCH_NUMBER",
    FRAME,
)  # nothing but a clause has them
_DIGITS = 38  # of a decimal
CHAINED = (exp.And, exp.Or, exp.DPipe)  # as `condition.CHAINED`


def function_name(node: exp.Expression) -> str:
    """FIRST, LAST, PREV, NEXT, CLASSIFIER, MATCH_NUMBER or the frame marker; else ''."""
    return str(node.this).upper() if isinstance(node, exp.Anonymous) else ""


def is_of_the_match(node: exp.Expression, *more: str) -> bool:
    """Whether a node calls a function of the match, or one of `more`."""
    return isinstance(node, exp.Anonymous) and function_name(node) in (*OF_THE_MATCH, *more)


def operands(node: exp.Expression) -> list[exp.Expression]:
    """What a chain of one operator joins, brackets left out; it may be too long to recurse into."""
    found: list[exp.Expression] = []
    waiting: list[exp.Expression] = [node]
    while waiting:
        part = waiting.pop()
        inner = part.unnest() if isinstance(part, exp.Paren) else part
        if type(inner) is type(node):
            waiting += [inner.args["expression"], inner.args["this"]]
        else:
            found.append(part)
    return found


def literal(node: exp.Literal) -> c.Literal:
    if node.is_string:
        return c.Literal("string", node.this)
    text = node.this
    if "e" in text.lower():
        try:
            return c.Literal("double", float(text))
        except ValueError:  # sqlglot takes 1e9.x for a column of 1e9.
            raise errors.ConditionSyntaxError(
                f"{text[:50]} is not a number", remedy="write 1.5, 1e9 or 1.5e-3"
            ) from None
    whole, _, fraction = text.partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > _DIGITS:
        raise errors.LimitError(
            f"the number {text[:50]}{'...' * (len(text) > 50)} has {digits:,} digits; a decimal "
            f"has at most {_DIGITS}",
            remedy="write it with an exponent, as in 1e40, if it may be rounded",
        )
    if text.isdigit():
        return c.Literal("int", int(text))
    return c.Literal("decimal", Decimal(text))
