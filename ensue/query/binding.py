"""Binding a query to an input: every column name spelt as the input spells it.

Names match without regard to case, as in Spark. A qualifier that is neither a variable nor a
column is the usual slip (`Z.price` where the pattern has no Z), so the error says both.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence

from ensue import errors
from ensue.query import condition as c
from ensue.query import rules
from ensue.query.query import Query


def bind(query: Query, names: Sequence[str]) -> Query:
    """The query with the input's own spelling of every column."""
    for name in names:
        if name.startswith(rules.RESERVED_PREFIX):
            raise rules.reserved(name)
    binder = _Binder(query, names)
    return query.mapped(binder.condition, binder.name)


def rename(query: Query, names: Mapping[str, str]) -> Query:
    """A bound query over columns that were renamed."""
    return query.mapped(
        lambda value, _: _spelt(value, lambda column: names.get(column.name, column.name)),
        lambda name, _: names.get(name, name),
    )


def _spelt(condition: c.Condition, name: Callable[[c.Column], str]) -> c.Condition:
    def change(node: c.Condition) -> c.Condition | None:
        return c.Column(name(node), node.path) if isinstance(node, c.Column) else None

    return c.transform(condition, change)


class _Binder:
    def __init__(self, query: Query, names: Sequence[str]) -> None:
        self._query = query
        self._names = list(names)
        self._folded: dict[str, list[str]] = {}
        for name in names:
            self._folded.setdefault(name.casefold(), []).append(name)

    def name(self, name: str, where: str, path: tuple[str, ...] = ()) -> str:
        found = self._folded.get(name.casefold(), [])
        if len(found) == 1:
            return found[0]
        if found:
            raise errors.UnknownColumnError(
                f"{where}: the column {name!r} is ambiguous, the input has {', '.join(found)}",
                remedy="rename the columns so that they differ in more than case",
            )
        if path:
            known = ", ".join(self._query.variables)
            raise errors.UnknownVariableError(
                f"{where}: {name!r} in {name}.{'.'.join(path)} is neither a pattern variable nor a "
                "column",
                remedy=f"variables are: {known}; columns are: {self._some()}",
            )
        near = difflib.get_close_matches(name.casefold(), self._folded, n=3)
        hint = ", ".join(self._folded[n][0] for n in near) or self._some()
        if where == "ORDER BY" and name.upper() in ("ASC", "DESC"):
            raise errors.UnknownColumnError(
                f"{where}: the input has no column {name!r}",
                remedy=f"write the direction behind its column: order_by('ts {name.upper()}')",
            )
        raise errors.UnknownColumnError(
            f"{where}: the input has no column {name!r}",
            remedy=f"did you mean: {hint}" if near else f"columns are: {hint}",
        )

    def _some(self) -> str:
        shown = ", ".join(self._names[:20])
        return shown + (", ..." if len(self._names) > 20 else "")

    def condition(self, condition: c.Condition, where: str) -> c.Condition:
        return _spelt(condition, lambda column: self.name(column.name, where, column.path))
