"""TRY(expression) in Spark's SQL, which has TRY only of single functions.

`tried(e)` is an expression that is null where `e` raises and equal to it elsewhere. It exists for
what never raises, and for functions that are null of a null and have a TRY of their own: there the
null of a part makes the whole null, as TRY would. COALESCE, CASE or AND of a part that raises have
none: they would go on with the null of the part.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ensue.front.dialect import FRAME

NO_TRY = "TRY works on casts and arithmetic, not on this expression"
INSTEAD_OF_TRY = "use TRY_CAST, or test first: CASE WHEN b <> 0 THEN ... END"
# They raise for no value of their operands.
_SAFE = (
    exp.Column, exp.Literal, exp.Null, exp.Boolean, exp.Star, exp.Identifier, exp.DataType,
    exp.Paren, exp.And, exp.Or, exp.Not, exp.Is, exp.Between, exp.In, exp.EQ, exp.NEQ, exp.LT,
    exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Case, exp.If, exp.Coalesce,
    exp.Nullif, exp.Lower, exp.Upper, exp.Length, exp.Count, exp.Min, exp.Max, exp.TryCast,
)  # fmt: skip
# Null of a null, and raising nothing of their own.
_STRICT = (exp.Paren, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_OPERATORS: dict[type[exp.Expression], str] = {
    exp.Add: "TRY_ADD",
    exp.Sub: "TRY_SUBTRACT",
    exp.Mul: "TRY_MULTIPLY",
    exp.Div: "TRY_DIVIDE",
    exp.Mod: "TRY_MOD",
}
_AGGREGATES: dict[type[exp.Expression], str] = {exp.Sum: "TRY_SUM", exp.Avg: "TRY_AVG"}
_MOVES = ("FIRST", "LAST", "PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER")


def tried(node: Any) -> exp.Expression | None:
    """An equal of TRY(node) without TRY; None where Spark has none."""
    if _never_raises(node):
        return node.copy()
    if isinstance(node, exp.Cast):  # Spark's dialects read CAST as a TryCast that is not safe
        inner = tried(node.this)
        return None if inner is None else exp.TryCast(this=inner, to=node.to.copy(), safe=True)
    if type(node) in _OPERATORS:
        return _called(_OPERATORS[type(node)], node.this, node.expression)
    if type(node) in _AGGREGATES and _never_raises(node.this):
        return _called(_AGGREGATES[type(node)], node.this)
    if isinstance(node, exp.Neg):
        return _called("TRY_MULTIPLY", node.this, exp.Neg(this=exp.Literal.number(1)))
    if isinstance(node, exp.IntDiv):
        return _integer_division(node)
    if isinstance(node, _STRICT):
        parts = {role: tried(part) for role, part in node.args.items() if part is not None}
        return None if None in parts.values() else type(node)(**parts)
    if _moves(node):
        first, *rest = node.expressions
        inner = tried(first)
        if inner is not None:
            given = [inner, *(part.copy() for part in rest)]
            return exp.Anonymous(this=node.this, expressions=given)
    return None


def _called(name: str, *parts: Any) -> exp.Expression | None:
    given = [tried(part) for part in parts]
    return None if None in given else exp.Anonymous(this=name, expressions=given)


def _integer_division(node: exp.IntDiv) -> exp.Expression | None:
    """By 0 it raises, and by -1 the least integer has no quotient."""
    left, right = tried(node.this), tried(node.expression)
    if left is None or right is None:
        return None
    number = exp.Literal.number
    opposite = exp.Anonymous(this="TRY_SUBTRACT", expressions=[number(0), left])
    return exp.Case(
        ifs=[
            exp.If(this=exp.EQ(this=exp.Paren(this=right), expression=number(0)), true=exp.Null()),
            exp.If(
                this=exp.EQ(this=exp.Paren(this=right.copy()), expression=exp.Neg(this=number(1))),
                true=opposite,
            ),
        ],
        default=exp.IntDiv(
            this=exp.Paren(this=left.copy()), expression=exp.Paren(this=right.copy())
        ),
    )


def _moves(node: Any) -> bool:
    if not isinstance(node, exp.Anonymous):
        return False
    return node.name.upper() in _MOVES and bool(node.expressions)


def _never_raises(node: Any) -> bool:
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal)
    if isinstance(node, exp.Try):
        return True  # whoever meets it reads it as a TRY of its own
    if isinstance(node, exp.Anonymous):
        if node.name.upper() not in (*_MOVES, *_OPERATORS.values(), FRAME):
            return False
    elif not isinstance(node, _SAFE) or (
        isinstance(node, exp.TryCast) and not node.args.get("safe")
    ):
        return False
    return all(_never_raises(part) for part in node.iter_expressions())
