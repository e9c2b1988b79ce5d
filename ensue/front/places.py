"""What may stand where in a statement: each rule is checked on the tree before anything runs.

Functions of the match belong inside a clause; what is read over a pattern window belongs in SELECT,
QUALIFY and ORDER BY; a pattern inside a condition, or inside the recursion of a CTE, has no meaning
(SQL:2016 forbids all of them). Named windows that build on one another are written out here, so
that nothing behind this has to look a name up twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from ensue import errors
from ensue.front.clause import Clause, MatchTable, clause_of
from ensue.front.dialect import FRAME
from ensue.front.translate import shown, start_of
from ensue.front.trees import function_name, is_of_the_match

_ROLES = {
    "where": "WHERE",
    "group": "GROUP BY",
    "having": "HAVING",
    "joins": "ON",
    "from_": "FROM",
    "laterals": "LATERAL VIEW",
    "limit": "LIMIT",
    "distinct": "DISTINCT ON",
    "connect": "CONNECT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "sort": "SORT BY",
}
_READS = ("expressions", "windows", "order", "qualify")
_OWN = ("partition_by", "order", "spec")


def check_places(tree: exp.Expression, text: str) -> None:
    """Raises for what stands where it may not; writes named windows out in place."""
    for select in tree.find_all(exp.Select):
        _Windows(select, text).check()
    for clause in _clauses(tree):
        _refuse_patterns_inside(clause)
    for node in tree.find_all(exp.Anonymous):
        if is_of_the_match(node):
            raise _outside(node, text)
    for cte in tree.find_all(exp.CTE):
        _refuse_recursion(cte)


def _clauses(tree: exp.Expression) -> Iterator[Clause]:
    for node in tree.find_all(MatchTable, exp.Window):
        clause = clause_of(node)
        if clause is not None:
            yield clause


def _outside(node: exp.Anonymous, text: str) -> errors.NavigationError:
    word = function_name(node)
    word = node.expressions[0].name if word == FRAME else word
    return errors.NavigationError(
        f"{word} refers to the rows of a match, and is used outside a row pattern",
        remedy="write it in MEASURES or DEFINE of MATCH_RECOGNIZE"
        + ("" if word not in ("PREV", "NEXT") else ", or use LAG and LEAD over a window"),
        place=errors.Place.at_offset(text, start_of(node) or 0),
    )


def _refuse_patterns_inside(clause: Clause) -> None:
    trees = [*clause.partition_by, *clause.order_by]
    trees += [item.value for item in (*clause.measures, *clause.define)]
    trees += [clause.frame] if isinstance(clause.frame, exp.Expression) else []
    for tree in trees:
        inner = next(_clauses(tree), None)
        if inner is not None:
            raise errors.QueryError(
                "a row pattern stands inside an expression of another one",
                remedy="match it first: WITH m AS (SELECT ... MATCH_RECOGNIZE ...), and join m",
                place=inner.place(),
            )


def _refuse_recursion(cte: exp.CTE) -> None:
    above: Any = cte.parent
    if not (isinstance(above, exp.With) and above.args.get("recursive")):
        return
    name = cte.alias.casefold()
    inner = next(_clauses(cte.this), None)
    if inner is not None and any(t.name.casefold() == name for t in cte.find_all(exp.Table)):
        raise errors.UnsupportedError(
            f"a row pattern stands in the recursion of {cte.alias!r}: its input would be its own "
            "result",
            remedy="close the recursion in a CTE of its own, and match on that",
            place=inner.place(),
        )


class _Windows:
    """The windows of one SELECT."""

    def __init__(self, select: exp.Select, text: str) -> None:
        self._select, self._text = select, text
        self._named: dict[str, exp.Window] = {}

    def check(self) -> None:
        for window in self._select.args.get("windows") or []:
            name = window.this.name
            if name.casefold() in self._named:
                raise errors.DuplicateNameError(
                    f"two windows are called {name!r}",
                    remedy="give each window a name of its own",
                    place=self._place(window.this),
                )
            self._named[name.casefold()] = window
        for window in list(self._named.values()):
            self._write_out(window, ())
        for window in list(self._select.find_all(exp.Window)):
            if window.parent_select is self._select and window.args.get("over"):
                self._check_reference(window)

    def _check_reference(self, window: exp.Window) -> None:
        base = window.args.get("alias")
        builds = clause_of(window) or any(window.args.get(part) for part in _OWN)
        if base is not None and builds:
            self._write_out(window, ())
            base = None
        named = None if base is None else self._declared(base, window)
        pattern = clause_of(window) or (clause_of(named) if named is not None else None)
        if pattern is None:
            if isinstance(window.this, exp.Column):
                raise errors.QueryError(
                    f"{shown(window.this)} is read OVER a window that has no row pattern",
                    remedy="give the window MEASURES and PATTERN, or call a window function",
                    place=self._place(window),
                )
            return
        role = _role(self._select, window)
        if role not in _READS:
            place = _ROLES.get(role, role.upper())
            raise errors.QueryError(
                f"{shown(window)} stands in {place}: a row pattern window is computed of the rows "
                "that FROM, WHERE, GROUP BY and HAVING leave, and read by the SELECT that has it",
                remedy="name it in a sub-query, and use its name outside",
                place=self._place(window),
            )

    def _declared(self, base: exp.Expression, at: exp.Expression) -> exp.Window:
        named = self._named.get(base.name.casefold())
        if named is None:
            known = ", ".join(w.this.name for w in self._named.values()) or "none"
            raise errors.QueryError(
                f"the window {base.name!r} is not declared in this SELECT",
                remedy=f"declare it in its WINDOW clause; declared are: {known}",
                place=self._place(base if start_of(base) is not None else at),
            )
        return named

    def _write_out(self, window: exp.Window, above: tuple[str, ...]) -> None:
        """PARTITION BY, ORDER BY and the frame of the windows that this one builds on."""
        base = window.args.get("alias")
        if base is None:
            return
        name = base.name.casefold()
        named = self._declared(base, window)
        own = "" if window.args.get("over") else window.this.name.casefold()
        if name == own or name in above:
            raise errors.QueryError(
                f"the window {base.name!r} builds on itself",
                remedy="write its PARTITION BY and ORDER BY out",
                place=self._place(base),
            )
        if clause_of(named) is not None:
            raise self._cannot_build(base, "has a row pattern")
        self._write_out(named, (*above, own))
        added = [part for part in ("partition_by", "order") if window.args.get(part)]
        if "partition_by" in added:
            raise self._cannot_build(base, "is given another PARTITION BY")
        if "order" in added and named.args.get("order"):
            raise self._cannot_build(base, "has an ORDER BY, and is given another")
        if named.args.get("spec"):
            raise self._cannot_build(base, "has a frame")
        for part in ("partition_by", "order"):
            found = named.args.get(part)
            if found and part not in added:
                copies = [v.copy() for v in found] if isinstance(found, list) else found.copy()
                window.set(part, copies)
        window.set("alias", None)

    def _cannot_build(self, base: exp.Expression, reason: str) -> errors.QueryError:
        return errors.QueryError(
            f"no window can build on {base.name!r}, which {reason}",
            remedy="write PARTITION BY, ORDER BY and the frame out in the window that needs them",
            place=self._place(base),
        )

    def _place(self, node: exp.Expression) -> errors.Place:
        return errors.Place.at_offset(self._text, start_of(node) or 0)


def _role(select: exp.Select, node: exp.Expression) -> str:
    """The part of the SELECT that a node stands in."""
    below: Any = node
    while below.parent is not select:
        below = below.parent
    return str(below.arg_key)
