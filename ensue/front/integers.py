"""Which expressions of a clause are integers, for dialects in which integers divide to integers."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ensue.front.dialect import FRAME

DIALECTS = ("trino", "flink")
_SAME = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Div, exp.IntDiv)
_MOVES = ("FIRST", "LAST", "PREV", "NEXT")


def divide_integers(tree: Any, columns: frozenset[str]) -> Any:
    """The tree with `/` between integers as integer division; `columns` are the integer ones."""

    # From the bottom up, so that a quotient of quotients is seen as what it was.
    integral = [node for node in tree.find_all(exp.Div) if _is_integer(node, columns)]
    for node in reversed(integral):
        replaced = exp.IntDiv(this=node.this, expression=node.expression)
        if node is tree:
            return replaced
        node.replace(replaced)
    return tree


def _is_integer(node: Any, columns: frozenset[str]) -> bool:
    match node:
        case exp.Paren() | exp.Try() | exp.Neg() | exp.Abs() | exp.Sum() | exp.Min() | exp.Max():
            return _is_integer(node.this, columns)
        case exp.Literal():
            return not node.is_string and node.name.isdigit()
        case exp.Column():
            return node.name.casefold() in columns
        case exp.Count():
            return True
        case exp.Cast():
            return node.to.this in exp.DataType.INTEGER_TYPES
        case exp.Coalesce():
            return all(_is_integer(part, columns) for part in (node.this, *node.expressions))
        case exp.Anonymous():
            name = node.name.upper()
            if name == FRAME:
                return _is_integer(node.expressions[1], columns)
            if name in _MOVES and node.expressions:
                return _is_integer(node.expressions[0], columns)
            return name == "MATCH_NUMBER"
        case _ if isinstance(node, _SAME):
            return _is_integer(node.this, columns) and _is_integer(node.expression, columns)
    return False
