"""Which aggregate a call of SQL is, and its arguments.

`max(x, n)` and `max_by(x, y, n)` are aggregates of their own (`max_n`, `max_by_n`): they give
lists. Trino and DuckDB have them; Spark's parser reads them too, and so does every dialect here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

MOST = 10_000  # of n, as in Trino
AGGREGATES: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.ArrayAgg: "array_agg",
    exp.ArrayUniqueAgg: "collect_set",
    exp.ArgMax: "max_by",
    exp.ArgMin: "min_by",
    exp.CountIf: "count_if",
    exp.AnyValue: "min",  # any value will do; this one does not depend on the order of rows
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
}
# What the parser keeps by name: Spark's other names, and aggregates it has no node for.
_CALLED = {"EVERY": "bool_and", "SOME": "bool_or"}
_OF_MAPS = ("MAP_AGG", "MULTIMAP_AGG", "MAP_UNION")
_CALLED |= {name: name.lower() for name in _OF_MAPS}
_OF_PAIRS = ("max_by_n", "min_by_n", "multimap_agg")  # DISTINCT would be of pairs, nulls and all


@dataclass(frozen=True)
class Call:
    """An aggregate as it was called; `refused` says what of it is not known, and what to do."""

    function: str
    arguments: list[exp.Expression]
    distinct: bool = False
    refused: tuple[str, str] | None = None


def names() -> str:
    """Of the aggregates that a clause may call, for messages."""
    return ", ".join(sorted({*AGGREGATES.values(), *_CALLED.values()}))


def is_known(node: exp.Expression) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.upper() in _CALLED and bool(node.expressions)
    return type(node) in AGGREGATES


def called(node: Any) -> Call:
    """The aggregate that a known node calls."""
    if isinstance(node, exp.Anonymous):
        distinct = isinstance(node.expressions[0], exp.Distinct)
        given = node.expressions[0].expressions if distinct else node.expressions
        return _checked(Call(_CALLED[node.name.upper()], list(given), distinct))
    function = AGGREGATES[type(node)]
    inner = node.this
    if isinstance(inner, exp.Order):
        problem = (
            f"ORDER BY inside {function} is not supported: the rows of a match are already in order"
        )
        return Call(
            function, [], refused=(problem, "leave it out, or sort the array: array_sort(...)")
        )
    distinct = isinstance(inner, exp.Distinct)
    arguments = list(inner.expressions) if distinct else [inner] if inner is not None else []
    if node.args.get("expression") is not None:
        arguments.append(node.args["expression"])
    arguments.extend(node.args.get("expressions") or [])
    number = node.args.get("count")
    if number is None and function in ("min", "max") and len(arguments) == 2:
        number = arguments.pop()
    if number is None:
        return Call(function, arguments, distinct)
    whole = isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit()
    if not whole or not 1 <= int(number.name) <= MOST:
        problem = f"{function} of the n most extreme values takes n as a number, 1 to {MOST:,}"
        return Call(function, [], refused=(problem, "write a literal such as 3"))
    return _checked(Call(f"{function}_n", [*arguments, number], distinct))


def _checked(found: Call) -> Call:
    if found.distinct and found.function in _OF_PAIRS:
        name = found.function.removesuffix("_n")
        return Call(name, [], refused=(f"DISTINCT in {name} is not supported", "leave it out"))
    return found


def by_name(tree: exp.Expression) -> exp.Expression:
    """The tree with `max(x, n)` and the like called by name: the clause has them, Spark has not."""

    def change(node: exp.Expression) -> exp.Expression:
        if isinstance(node, (exp.Max, exp.Min)) and node.expressions:
            return exp.Anonymous(this=node.key.upper(), expressions=[node.this, *node.expressions])
        if isinstance(node, (exp.ArgMax, exp.ArgMin)) and node.args.get("count"):
            name = "MAX_BY" if isinstance(node, exp.ArgMax) else "MIN_BY"
            given = [node.this, node.expression, node.args["count"]]
            return exp.Anonymous(this=name, expressions=given)
        return node

    return tree.transform(change)
