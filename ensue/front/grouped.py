"""GROUP BY beside a pattern window: the grouping moves into a sub-query below the window.

    SELECT k, count(*) AS n, m OVER w FROM t GROUP BY k HAVING count(*) > 1 WINDOW w AS (...)

is, as SQL has it, a window over the rows that grouping leaves:

    SELECT k, c1 AS n, m OVER w FROM (SELECT k, count(*) AS c1 FROM t GROUP BY k HAVING ...)
    WINDOW w AS (...)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from ensue import errors
from ensue.front.clause import Clause
from ensue.front.dialect import is_aggregate
from ensue.front.translate import shown, start_of

_NAME = "_ensue_group_"
_WRAPPERS = (exp.IgnoreNulls, exp.RespectNulls, exp.Filter, exp.WithinGroup)
_READ = ("expressions", "windows", "order", "qualify")
_SETS = ("rollup", "cube", "grouping_sets")
_BELOW = ("from_", "joins", "laterals", "where", "group", "having")


def is_called_over(node: exp.Expression) -> bool:
    """Whether an aggregate is called OVER a window, or is a part of the aggregate that is."""
    above: Any = node
    while isinstance(above.parent, _WRAPPERS):
        above = above.parent
    return isinstance(above.parent, exp.Window) and above.parent.this is above


def own(select: exp.Select, parts: tuple[str, ...] = _READ) -> Iterator[exp.Expression]:
    """Nodes of a SELECT's own lists, not of queries below it."""
    for part in parts:
        value = select.args.get(part)
        for tree in value if isinstance(value, list) else [value] if value else []:
            yield from tree.walk(prune=lambda node: isinstance(node, exp.Query))


def group_below(select: exp.Select, clause: Clause) -> None:
    """Moves FROM, WHERE, GROUP BY, HAVING and the aggregates of a SELECT into a sub-query."""
    plain = (node for node in own(select) if is_aggregate(node) and not is_called_over(node))
    if select.args.get("group") or select.args.get("having") or next(plain, None) is not None:
        _Grouping(select, clause).move()


class _Grouping:
    def __init__(self, select: exp.Select, clause: Clause) -> None:
        self._select, self._clause = select, clause
        self._columns: dict[str, exp.Expression] = {}  # of the sub-query
        self._names: dict[str, str] = {}  # of an expression, by its text

    def move(self) -> None:
        select = self._select
        self._spell_out()
        self._keys()
        for item in list(select.expressions):
            self._replace(item)
        for part in _READ[1:]:
            value = select.args.get(part)
            for tree in value if isinstance(value, list) else [value] if value else []:
                self._replace(tree)
        self._check()
        below = exp.Select()
        columns = [exp.alias_(value, name, quoted=True) for name, value in self._columns.items()]
        below.set("expressions", columns or [exp.alias_(exp.Literal.number(1), f"{_NAME}0")])
        for part in _BELOW:
            value = select.args.get(part)
            if value:
                below.set(part, value)
                select.set(part, None)
        select.set("from_", exp.From(this=below.subquery("_ensue_groups")))

    def _spell_out(self) -> None:
        """Ordinals and aliases of the list, which the sub-query does not have."""
        select = self._select
        aliases = {
            item.alias.casefold(): item.this
            for item in select.expressions
            if item.alias and all(c.name != item.alias for c in item.find_all(exp.Column))
        }
        group: Any = select.args.get("group")
        if group is not None and group.args.get("all"):
            raise self._refused(
                "GROUP BY ALL stands beside a row pattern window", "name the columns", group
            )
        for node in list(own(select, ("group", "having"))):
            single = isinstance(node, exp.Column) and len(node.parts) == 1
            meant = aliases.get(node.name.casefold()) if single else None
            if meant is not None:
                node.replace(meant.copy() if node.parent is group else exp.Paren(this=meant.copy()))
        for key in list(group.expressions) if group is not None else []:
            if isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit():
                number = int(key.name) - 1
                if number not in range(len(select.expressions)):
                    raise self._refused(
                        f"GROUP BY {key.name} is beyond the list of the SELECT",
                        "name the column",
                        key,
                    )
                key.replace(select.expressions[number].unalias().copy())

    def _keys(self) -> None:
        group: Any = self._select.args.get("group")
        if group is None:
            return
        sets = [n for part in _SETS for n in group.args.get(part) or [] if not isinstance(n, bool)]
        keys = []
        for key in [*group.expressions, *sets]:
            several = isinstance(key, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple))
            keys += list(key.find_all(exp.Column)) if several else [key]
        for key in keys:
            plain: Any = key.unnest() if isinstance(key, exp.Paren) else key
            if isinstance(plain, exp.Column):
                name = plain.name
                if name in self._columns and self._columns[name] != plain:
                    name = self._name_of(plain)
                self._columns.setdefault(name, plain.copy())
                self._names[_text(plain)] = name
                self._names.setdefault(plain.name.casefold(), name)
            else:
                self._column_for(plain)

    def _name_of(self, value: exp.Expression) -> str:
        return self._names.setdefault(_text(value), f"{_NAME}{len(self._names) + 1}")

    def _column_for(self, value: exp.Expression) -> exp.Column:
        name = self._name_of(value)
        self._columns.setdefault(name, value.copy())
        return exp.column(name, quoted=True)

    def _replace(self, node: exp.Expression) -> None:
        if isinstance(node, exp.Query):
            return
        inner: Any = node
        while isinstance(inner, _WRAPPERS):
            inner = inner.this
        if is_aggregate(inner) and not is_called_over(inner):
            self._put(node, self._column_for(node))
        elif isinstance(node, exp.Condition) and _text(node) in self._names:
            self._put(node, exp.column(self._names[_text(node)], quoted=True))
        else:
            for child in list(node.iter_expressions()):
                measure = isinstance(node, exp.Window) and isinstance(child, exp.Column)
                if not (measure and child is node.this):
                    self._replace(child)

    def _put(self, node: exp.Expression, column: exp.Column) -> None:
        if node.parent is self._select and node.arg_key == "expressions":
            name = node.name if isinstance(node, exp.Column) else node.sql("spark").lower()
            node.replace(exp.alias_(column, name, quoted=True))
        else:
            node.replace(column)

    def _check(self) -> None:
        """What is left in the list must be a column of the groups."""
        for node in own(self._select, ("expressions", "windows")):
            over = isinstance(node.parent, exp.Window) and node.parent.this is node
            if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
                raise self._refused("* stands beside GROUP BY", "name the columns", node)
            if isinstance(node, exp.Column) and not over and node.name not in self._columns:
                raise self._refused(
                    f"{shown(node)} is neither a key of GROUP BY nor inside an aggregate",
                    "group by it, or put it into an aggregate such as max(...)",
                    node,
                )

    def _refused(self, problem: str, remedy: str, node: exp.Expression) -> errors.QueryError:
        place = self._clause.place(start_of(node))
        return errors.QueryError(problem, remedy=remedy, place=place)


def _text(node: exp.Expression) -> str:
    """Equal for expressions that SQL takes for the same."""
    return node.sql("spark", normalize_functions="lower", comments=False).casefold()
