"""Row patterns in windows (SQL:2016 R020): `measure OVER w` to columns that a runner computes.

A SELECT with such windows is taken apart. Below: its FROM and WHERE, as a query of their own. On
top of that the runner adds one column for each thing read `OVER` a pattern window. Above: the same
SELECT over that table, each of those things replaced by its column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from ensue import errors
from ensue.front.clause import Clause, MatchTable, clause_in, clause_of
from ensue.front.dialect import is_aggregate
from ensue.front.expressions import Scope, from_sqlglot
from ensue.front.grouped import group_below, is_called_over, own
from ensue.front.sql import read_clause
from ensue.front.statement import visible_ctes, with_ctes
from ensue.front.translate import shown, start_of
from ensue.front.trees import is_of_the_match
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Measure, Query
from ensue.query.window import WindowQuery

_COLUMN = "_ensue_over_"
_OUTER = "_ensue_column_"
_FRAME = "_ensue_frame"
# They number and compare the rows of the partition, whatever the frame.
_WITHOUT_FRAME = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile, exp.PercentRank, exp.CumeDist, exp.Lag,
    exp.Lead,
)  # fmt: skip
_POSITIONAL = {exp.FirstValue: "FIRST", exp.LastValue: "LAST", exp.NthValue: "FIRST"}


@dataclass
class PatternWindow:
    """One window specification, and the columns wanted of it."""

    clause: Clause
    window: WindowQuery  # its measures are what is read over it
    named: tuple[Measure, ...]  # the clause's own
    hidden: tuple[tuple[str, exp.Expression], ...]
    zero_if_none: list[str] = field(default_factory=list)  # COUNT over no rows is 0


@dataclass
class PatternSelect:
    """A SELECT taken apart."""

    select: exp.Select
    below: exp.Select
    windows: list[PatternWindow]
    alias: str | None


def next_select(tree: exp.Expression) -> exp.Select | None:
    """A SELECT with a pattern window whose own FROM holds no unfinished pattern."""
    for select in tree.find_all(exp.Select):
        if not any(clause_of(window) for window in _own(select, exp.Window)):
            continue
        needed = [select.args.get("from_"), *(select.args.get("joins") or [])]
        needed += [select.args.get("where"), *visible_ctes(select)]
        inner = [
            node
            for part in needed
            if part is not None
            for node in part.find_all(MatchTable, exp.Window)
        ]
        if not any(isinstance(n, MatchTable) or clause_of(n) for n in inner):
            return select
    return None


def _own(select: exp.Select, kind: Any) -> Iterator[Any]:
    """Nodes of a kind in a SELECT's own lists, not in queries below it."""
    return (node for node in own(select) if isinstance(node, kind))


def wanted(window: PatternWindow) -> list[str]:
    """Names of the columns that are read over a window."""
    return [measure.name for measure in window.window.query.measures or ()]


def take_apart(select: exp.Select, dialect: str) -> PatternSelect:
    """Reads the windows of a SELECT and replaces in place what is read over them."""
    return _Reader(select, dialect).read()


class _Reader:
    def __init__(self, select: exp.Select, dialect: str) -> None:
        self._select = select
        self._dialect = dialect
        self._named: dict[str, exp.Window] = {}
        for window in select.args.get("windows") or []:
            self._named[window.this.name.casefold()] = window
        self._found: dict[str, PatternWindow] = {}
        self._count = 0

    def read(self) -> PatternSelect:
        select = self._select
        self._refuse_nesting()
        clause = next(filter(None, map(clause_of, _own(select, exp.Window))))
        group_below(select, clause)
        for window in list(_own(select, exp.Window)):
            if window.args.get("over") or window.parent_select is not select:
                self._replace(window)
        for name, window in self._named.items():
            if clause_of(window) and name not in self._found:
                self._found[name] = self._read_window(window)  # checked, though not used
        kept = [w for w in select.args.get("windows") or [] if not clause_of(w)]
        select.set("windows", kept or None)
        found = list(self._found.values())
        below, alias = self._below(found)
        return PatternSelect(select, below, found, alias)

    def _refuse_nesting(self) -> None:
        """Windows are computed of the rows that grouping left, so no aggregate can hold one."""
        for reference in _own(self._select, exp.Window):
            if not reference.args.get("over") or self._pattern_of(reference) is None:
                continue
            above: Any = reference.parent
            while above is not None and above is not self._select:
                inside = (
                    "an aggregate"
                    if isinstance(above, exp.Filter)
                    or (is_aggregate(above) and not is_called_over(above))
                    else "another window function"
                    if isinstance(above, exp.Window)
                    else None
                )
                if inside:
                    raise errors.QueryError(
                        f"{shown(reference)} stands inside {inside}: {shown(above)}",
                        remedy="name it in a sub-query, and use its name outside: "
                        "SELECT max(m) FROM (SELECT m OVER w AS m FROM ...)",
                        place=self._place_of(reference),
                    )
                above = above.parent

    def _pattern_of(self, reference: exp.Window) -> Clause | None:
        name = reference.args.get("alias")
        named = self._named.get(name.name.casefold()) if name is not None else None
        return clause_of(reference) or (clause_of(named) if named is not None else None)

    def _place_of(self, node: exp.Expression) -> errors.Place | None:
        clause = next(filter(None, map(clause_of, _own(self._select, exp.Window))))
        return clause.place(start_of(node))

    # -- one reference ---------------------------------------------------------------------------

    def _replace(self, reference: exp.Window) -> None:
        found = self._window_of(reference)
        if found is None:
            return
        key, window = found
        this = reference.this
        if isinstance(this, _WITHOUT_FRAME):
            plain = exp.Window(
                this=this,
                over="OVER",
                partition_by=window.args.get("partition_by"),
                order=window.args.get("order"),
            )
            reference.replace(plain)
            return
        if key not in self._found:
            self._found[key] = self._read_window(window)
        value, count = self._value(this, self._found[key])
        name = self._add(self._found[key], value, count)
        column = exp.column(name, quoted=True)
        alias = this.name if isinstance(this, exp.Column) else reference.sql("spark").lower()
        if reference.parent is self._select:
            reference.replace(exp.alias_(column, alias, quoted=True))
        else:
            reference.replace(column)

    def _window_of(self, reference: exp.Window) -> tuple[str, exp.Window] | None:
        if clause_of(reference):
            return f"({reference.sql()} {id(clause_of(reference))}", reference
        name = reference.args.get("alias")
        window = self._named.get(name.name.casefold()) if name is not None else None
        if window is None or not clause_of(window):
            return None
        return window.this.name.casefold(), window

    def _read_window(self, window: exp.Window) -> PatternWindow:
        clause = clause_in(window)
        order = window.args.get("order")  # its own, or of the window it builds on
        whole = replace(
            clause,
            partition_by=window.args.get("partition_by") or [],
            order_by=order.expressions if order else [],
        )
        asked = read_clause(whole, self._dialect, self._qualifiers(), window=True)
        query = replace(asked.query, pattern=_without_exclusion(asked.query.pattern))
        self._check(query, clause)
        end: int | None = None
        column: str | None = None
        hidden = asked.hidden
        frame = clause.frame
        if frame == "CURRENT ROW":
            end = 0
        elif isinstance(frame, exp.Literal) and not frame.is_string and frame.name.isdigit():
            end = int(frame.name)
        elif frame != "UNBOUNDED":
            self._check_frame(clause, query)
            column = f"{_FRAME}_{len(self._found)}"
            hidden = (*hidden, (column, frame))
        unread = replace(query, measures=())
        window_query = WindowQuery(unread, clause.seek, end, column)
        return PatternWindow(clause, window_query, query.measures or (), hidden)

    def _check_frame(self, clause: Clause, query: Query) -> None:
        """A frame is known before the pattern is looked for in it."""
        frame = clause.frame
        measures = {item.name.text.casefold() for item in clause.measures}
        variables = {name.casefold() for name in query.variables}
        why = None
        for node in frame.walk():
            if isinstance(node, exp.Column) and len(node.parts) == 1:
                if node.name.casefold() in measures:
                    why = f"reads the measure {node.name}"
            elif isinstance(node, exp.Column) and node.table.casefold() in variables:
                why = f"reads {shown(node)}, a row of the match"
            elif is_aggregate(node) or is_of_the_match(node):
                why = f"calls {shown(node)}"
        if isinstance(frame, exp.Neg) or (isinstance(frame, exp.Literal) and frame.is_string):
            why = "is not a number of rows"
        if why is not None:
            raise errors.QueryError(
                f"the end of the frame {why}: {shown(frame)}",
                remedy="write n FOLLOWING, n a number or an expression of the row that the frame "
                "begins with; qualify a column that has the name of a measure",
                place=clause.place(start_of(frame)),
            )

    def _check(self, query: Query, clause: Clause) -> None:
        for node in nodes.walk(query.pattern):
            kind = {
                nodes.AnchorStart: "the anchor ^",
                nodes.AnchorEnd: "the anchor $",
            }.get(type(node))
            if kind:
                raise errors.QueryError(
                    f"{kind} cannot be used in the pattern of a window: the frame, not the "
                    "partition, bounds the match",
                    remedy="leave it out, or use MATCH_RECOGNIZE",
                    place=clause.place(clause.pattern_start),
                )
        for condition in query.conditions():
            if c.has(condition, c.MatchNumber):
                raise errors.QueryError(
                    "MATCH_NUMBER has no meaning in a window: every row has its own search",
                    remedy="use MATCH_RECOGNIZE to number matches",
                    place=clause.place(),
                )

    # -- what is read over a window --------------------------------------------------------------

    def _value(self, this: exp.Expression, found: PatternWindow) -> tuple[c.Condition, bool]:
        clause = found.clause
        if isinstance(this, exp.Column):
            for measure in found.named:
                if measure.name.casefold() == this.name.casefold() and len(this.parts) == 1:
                    return measure.value, False
            known = ", ".join(m.name for m in found.named) or "none"
            raise errors.QueryError(
                f"the window has no measure {this.sql('spark')!r}",
                remedy=f"its measures are: {known}",
                place=clause.place(),
            )
        scope = Scope((), f"{this.sql('spark')} OVER")
        for kind, navigation in _POSITIONAL.items():
            if isinstance(this, kind):
                offset = int(this.args["offset"].name) - 1 if this.args.get("offset") else 0
                inner = from_sqlglot(this.this, scope, clause.text, clause.start)
                if isinstance(inner, c.Navigate):
                    moved = replace(inner, anchor=c.Anchor[navigation], offset=offset)
                    return moved, False
        value = from_sqlglot(this.copy(), scope, clause.text, clause.start)
        if not isinstance(value, c.Aggregate):
            raise errors.QueryError(
                f"{this.sql('spark')} is neither a measure of the window nor an aggregate",
                remedy="name a measure, or use an aggregate or ranking function",
                place=clause.place(),
            )
        return value, value.function == "count"

    def _add(self, found: PatternWindow, value: c.Condition, count: bool) -> str:
        self._count += 1
        name = f"{_COLUMN}{self._count}"
        query = found.window.query
        measures = (*(query.measures or ()), Measure(name, value))
        found.window = replace(found.window, query=replace(query, measures=measures))
        if count:
            found.zero_if_none.append(name)
        return name

    # -- the query below -------------------------------------------------------------------------

    def _qualifiers(self) -> frozenset[str]:
        source = self._select.args.get("from_")
        names = [source.this.alias_or_name] if source is not None else []
        names += [join.this.alias_or_name for join in self._select.args.get("joins") or []]
        return frozenset(name.casefold() for name in names if name)

    def _below(self, found: list[PatternWindow]) -> tuple[exp.Select, str | None]:
        select = self._select
        source = select.args.get("from_")
        joined = bool(select.args.get("joins") or select.args.get("laterals"))
        hidden = [
            exp.alias_(value.copy(), name, quoted=True)
            for window in found
            for name, value in window.hidden
        ]
        below = exp.Select()
        alias: str | None = None
        if joined:
            projections = self._rename_columns(found)
        else:
            projections = [exp.Star()]
            alias = source.this.alias_or_name if source is not None else None
        below.set("expressions", [*projections, *hidden])
        ctes = visible_ctes(select)
        own = select.args.get("with_")
        if own is not None:
            ctes = [*ctes, *own.expressions]
        for key in ("from_", "joins", "laterals", "where"):
            part = select.args.get(key)
            if part:
                below.set(key, part)
                select.set(key, None)
        return with_ctes(below, ctes), alias or None

    def _rename_columns(self, found: list[PatternWindow]) -> list[exp.Expression]:
        """Over a join, every column the SELECT reads gets a name of its own below."""
        select = self._select
        names: dict[str, Any] = {}
        for star in _own(select, exp.Star):
            raise errors.UnsupportedError(
                f"{star.sql('spark')} over a join, in a SELECT with a row pattern window",
                remedy="name the columns, or join in a sub-query",
                place=found[0].clause.place(),
            )
        for column in list(_own(select, exp.Column)):
            if column.name.startswith(_COLUMN):
                continue
            text = column.sql("spark")
            if text not in names:
                names[text] = exp.alias_(column.copy(), f"{_OUTER}{len(names) + 1}", quoted=True)
            renamed = exp.column(names[text].alias, quoted=True)
            if column.parent is select:
                column.replace(exp.alias_(renamed, column.name, quoted=True))
            else:
                column.replace(renamed)
        read: dict[str, None] = {}
        for window in found:
            query = window.window.query
            read.update(dict.fromkeys(query.partition_by))
            read.update(dict.fromkeys(key.column for key in query.order_by))
            read.update(dict.fromkeys(n for v in query.conditions() for n in c.columns(v)))
        hidden = {name for window in found for name, _ in window.hidden}
        plain = [exp.column(name, quoted=True) for name in read if name not in hidden]
        return [*plain, *names.values()]


def _without_exclusion(node: nodes.Node) -> nodes.Node:
    """Exclusion hides rows of the output, and a window shows every row: it has no effect."""
    if isinstance(node, nodes.Exclusion):
        return _without_exclusion(node.part)
    return nodes.rebuilt(node, _without_exclusion)


def put_together(taken: PatternSelect, table: str, columns: list[str]) -> Any:
    """The SELECT over the table that has the windows' columns; returns the statement's root."""
    select = taken.select
    source = exp.Table(this=exp.to_identifier(table, quoted=False))
    if taken.alias:
        source.set("alias", exp.TableAlias(this=exp.to_identifier(taken.alias, quoted=True)))
    expanded: list[exp.Expression] = []
    for item in select.expressions:
        star = isinstance(item, exp.Star) or (
            isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        )
        if star:
            expanded += [exp.column(name, quoted=True) for name in columns]
        else:
            expanded.append(item)
    select.set("expressions", expanded)
    select.set("from_", exp.From(this=source))
    return select.root()
