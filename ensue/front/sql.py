"""A MATCH_RECOGNIZE clause to a `Query`: names resolved, dialects followed, mistakes placed.

The query is always in Spark's functions. A clause in another dialect is checked as written, so that
an error points at the user's text, then each expression is translated and read again; a text and
its translation therefore give equal queries.

Sub-queries that do not read the match, and ORDER BY expressions, are no part of a `Query`: they
become hidden columns of the input, which the runner adds and takes away again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sqlglot import exp

from ensue import errors
from ensue.front import integers
from ensue.front.aggregates import by_name
from ensue.front.clause import OVER_ALL, Clause, Item, MatchTable, Name, clause_in
from ensue.front.dialect import FRAME
from ensue.front.expressions import CONSTANT_COLUMN, Scope, from_sqlglot, parse_condition
from ensue.front.grammar import parse_pattern
from ensue.front.statement import base_dialect, parse_statement
from ensue.front.translate import spark_sql, start_of
from ensue.front.trees import function_name, is_of_the_match
from ensue.query import condition as c
from ensue.query import nodes, rules
from ensue.query.depth import roomy
from ensue.query.query import Measure, OrderKey, Query, Rows, Skip, SkipMode, Window, WindowKind

HIDDEN = "_ensue_hidden_"
Result = TypeVar("Result")
# Functions of the match that a dialect spells in its own way.
_SNOWFLAKE: dict[Any, str] = {exp.Lag: "PREV", exp.Lead: "NEXT"}
# sqlglot keeps a few dialect functions that Spark lacks by name; they have Spark equals.
_RENAMED = {"ARBITRARY": "ANY_VALUE"}
_NOW = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentDatetime, exp.Localtimestamp)


@dataclass(frozen=True)
class MatchQuery:
    """What a clause asks, and the hidden columns its input needs."""

    query: Query
    hidden: tuple[tuple[str, exp.Expression], ...] = ()
    timeouts: bool = False
    all_matches: bool = False  # measures are aggregates OVER ALL MATCHES


@roomy
def read_query(text: str, dialect: str = "spark") -> Query:
    """The query of the only MATCH_RECOGNIZE in a statement."""
    tables = list(parse_statement(text, dialect).find_all(MatchTable))
    if len(tables) != 1:
        raise errors.QueryError(
            f"the statement has {len(tables)} MATCH_RECOGNIZE clauses, where one is expected",
            remedy="give one clause; ensue.sql runs any number",
            place=errors.Place.at_offset(text, 0),
        )
    return read_table(tables[0], dialect).query


@roomy
def read_order(text: str, dialect: str = "spark") -> Query:
    """The query of an order to a stream: `SELECT * FROM t MATCH_RECOGNIZE (...)` and no more.

    The rows are those of the stream, so whatever else a statement may say is refused.
    """
    tree = parse_statement(text, dialect)
    query = read_query(text, dialect)
    table: Any = tree.find(MatchTable)
    said = {role for role, value in tree.args.items() if value}
    alone = isinstance(tree, exp.Select) and said <= {"expressions", "from_", "kind"}
    listed = all(isinstance(item, (exp.Star, exp.Column)) for item in tree.expressions)
    plain = isinstance(table.this, exp.Table) and isinstance(table.this.this, exp.Identifier)
    joined = any(value for role, value in table.args.items() if role not in ("this", "alias"))
    if not (alone and listed and plain) or joined or read_table(table, dialect).hidden:
        raise errors.UntrustedError(
            "an edit of a stream is one row pattern over its rows, and this has more: another "
            "table, a sub-query, a condition or an expression around or below the clause",
            remedy="write SELECT * FROM t MATCH_RECOGNIZE (...)",
            place=errors.Place.at_offset(text, 0),
        )
    return query


def read_table(
    node: MatchTable, dialect: str = "spark", integer_columns: frozenset[str] = frozenset()
) -> MatchQuery:
    """The query of a MATCH_RECOGNIZE table; `integer_columns` of its input, in lower case."""
    # Qualifiers that mean the input: its alias, or the table's own name.
    names = frozenset(n.casefold() for n in (node.this.alias_or_name, node.this.name) if n)
    return _ClauseReader(clause_in(node), dialect, names, integer_columns).read()


def depends_on_types(node: MatchTable, dialect: str) -> bool:
    """Whether what the clause means depends on the types of its input's columns."""
    clause = clause_in(node)
    items = (*clause.measures, *clause.define)
    return dialect in integers.DIALECTS and any(item.value.find(exp.Div) for item in items)


def read_clause(
    clause: Clause, dialect: str, inputs: frozenset[str] = frozenset(), window: bool = False
) -> MatchQuery:
    """The checked query of a clause; the listing of a `window` clause is every row's."""
    if window:
        clause = replace(clause, rows=Rows.ALL_SHOW_EMPTY)
    return _ClauseReader(clause, dialect, inputs).read()


class _ClauseReader:
    def __init__(
        self,
        clause: Clause,
        dialect: str,
        inputs: frozenset[str],
        integer_columns: frozenset[str] = frozenset(),
    ) -> None:
        self._integer_columns = integer_columns
        self._clause = clause
        self._dialect = dialect
        self._inputs = inputs
        self._fold = dialect != "flink"  # Flink's names keep their case
        self._hidden: dict[str, exp.Expression] = {}

    def read(self) -> MatchQuery:
        clause = self._clause
        pattern = self._placed(self._read_pattern)
        labels = nodes.labels(pattern)
        subsets = tuple(
            (self._name(name), tuple(self._name(m) for m in members))
            for name, members in clause.subsets
        )
        variables = (*labels, *(name for name, _ in subsets))
        self._variables = variables
        keys = [self._order_key(ordered) for ordered in clause.order_by]
        # A column that comes again decides nothing.
        self._order = tuple({key.column.casefold(): key for key in reversed(keys)}.values())[::-1]
        query = Query(
            pattern=pattern,
            subsets=subsets,
            partition_by=tuple(self._partition(column) for column in clause.partition_by),
            order_by=self._order,
            measures=(),
            rows=clause.rows,
            skip=self._skip(variables),
            within=self._within(),
        )
        if clause.over_all is not None:
            self._check_over_all()
            query = replace(query, all_matches=True)
        self._placed(lambda: rules.check(replace(query, measures=None)))
        self._placed(lambda: self._definitions(query))
        define = tuple(
            (
                self._name(item.name),
                self._condition(
                    item, Scope(variables, f"DEFINE {item.name.text}", True, self._fold)
                ),
            )
            for item in clause.define
        )
        measures = tuple(
            Measure(
                item.name.text,
                self._condition(
                    item, Scope(variables, f"measure {item.name.text}", False, self._fold)
                ),
            )
            for item in clause.measures
        )
        query = replace(query, define=define, measures=measures)
        return MatchQuery(
            self._placed(lambda: rules.check(query)),
            tuple(self._hidden.items()),
            clause.timeouts,
            clause.over_all is not None,
        )

    # -- names and small parts -------------------------------------------------------------------

    def _name(self, name: Name) -> str:
        return name.text if name.quoted or not self._fold else name.text.upper()

    def _read_pattern(self) -> nodes.Node:
        try:
            arrows = self._clause.over_all is not None
            return parse_pattern(self._clause.pattern, fold=self._fold, arrows=arrows)
        except errors.EnsueError as problem:
            offset = self._clause.pattern_start
            if problem.place is not None:
                offset += problem.place.offset
            raise problem.at(self._clause.place(offset)) from None

    def _definitions(self, query: Query) -> None:
        """Names of DEFINE are checked before their conditions are read."""
        named = tuple((self._name(item.name), c.TRUE) for item in self._clause.define)
        rules.check(replace(query, define=named, measures=None))

    def _check_over_all(self) -> None:
        """A clause speaks of each match or of all of them, never of both."""
        clause = self._clause
        if clause.timeouts or clause.rows.all_rows:
            raise errors.QueryError(
                "OVER ALL MATCHES gives one row per partition, and the clause asks for rows of "
                "each match",
                remedy="leave ALL ROWS PER MATCH and SHOW TIMEOUT MATCHES out",
                place=clause.place(clause.over_all),
            )
        for item in clause.measures:
            found = [node for node in item.value.find_all(exp.Expression) if _is_aggregate(node)]
            if not found or not all(OVER_ALL in node.meta for node in found):
                raise errors.QueryError(
                    f"the measure {item.name.text} is about a single match, and another one about "
                    "all of them",
                    remedy="write OVER ALL MATCHES after every aggregate, or use two clauses",
                    place=clause.place(item.start),
                )

    def _skip(self, variables: tuple[str, ...]) -> Skip:
        clause = self._clause
        if clause.skip is None:
            return Skip() if clause.over_all is None else Skip(SkipMode.NONE)
        if clause.skip_to is None:
            return Skip(clause.skip)
        variable = self._name(clause.skip_to)
        if variable not in variables:
            raise errors.UnknownVariableError(
                f"AFTER MATCH SKIP names the variable {variable!r}, which the pattern does not "
                "have",
                remedy=f"use one of: {', '.join(variables)}, or declare it with SUBSET",
                place=clause.place(clause.skip_to.start),
            )
        return Skip(clause.skip, variable)

    def _within(self) -> Window | None:
        window = self._clause.within
        if window is None:
            return None
        if window.kind is not WindowKind.ROWS and not self._clause.order_by:
            raise errors.QueryError(
                "WITHIN measures the first ORDER BY column, and there is none",
                remedy="add ORDER BY, or count rows: WITHIN 500 ROWS",
                place=self._clause.place(),
            )
        if self._dialect == "flink" and window.kind is WindowKind.TIME:
            return replace(window, size=max(0, int(window.size) - 1))  # its right edge is excluded
        return window

    def _partition(self, node: exp.Expression) -> str:
        if not isinstance(node, exp.Column) or not self._is_input(node):
            raise errors.QueryError(
                f"PARTITION BY {node.sql('spark')} is not a column of the input",
                remedy="compute it in a sub-query, and partition by its name",
                place=self._clause.place(start_of(node)),
            )
        return node.name

    def _is_input(self, node: exp.Column) -> bool:
        return len(node.parts) == 1 or (
            len(node.parts) == 2 and node.table.casefold() in self._inputs
        )

    def _order_key(self, node: exp.Expression) -> OrderKey:
        ordered = node if isinstance(node, exp.Ordered) else exp.Ordered(this=node)
        value = ordered.this
        if isinstance(value, exp.Column) and self._is_input(value):
            name = value.name
        elif value.find(exp.Star) is not None and value.find(exp.Func) is None:
            raise errors.ConditionSyntaxError(
                "ORDER BY of MATCH_RECOGNIZE takes columns and expressions, not *",
                remedy="name the columns",
                place=self._clause.place(start_of(value)),
            )
        else:
            name = self._hide(value)
        return OrderKey.of(name, bool(ordered.args.get("desc")), bool(ordered.args["nulls_first"]))

    # -- expressions -----------------------------------------------------------------------------

    def _condition(self, item: Item, scope: Scope) -> c.Condition:
        tree = self._without_subqueries(self._spelt(item.value), scope)
        if self._dialect in integers.DIALECTS:
            tree = integers.divide_integers(tree, self._integer_columns)
        checked = from_sqlglot(tree, scope, self._clause.text, item.start)
        self._no_aggregate_of_aggregates(checked, item, scope)
        text = spark_sql(by_name(tree), self._clause.text, self._dialect)
        if base_dialect(self._dialect) in ("spark", "databricks"):
            return checked
        return parse_condition(text, replace(scope, fold=True))

    def _no_aggregate_of_aggregates(self, value: c.Condition, item: Item, scope: Scope) -> None:
        """Other front ends aggregate over the rounds of a repeated group; SQL has no such thing."""
        for node in c.walk(value):
            below = (part for child in c.children(node) for part in c.walk(child))
            if isinstance(node, c.Aggregate) and any(isinstance(p, c.Aggregate) for p in below):
                raise errors.NavigationError(
                    f"{scope.where}: {node.function.upper()} cannot contain an aggregate",
                    remedy="aggregate columns of the rows, not other aggregates",
                    place=self._clause.place(item.start),
                )

    def _spelt(self, tree: exp.Expression) -> exp.Expression:
        """The dialect's own spelling of functions of the match, in the standard's."""

        def change(node: exp.Expression) -> exp.Expression:
            if self._dialect == "snowflake" and type(node) in _SNOWFLAKE:
                given = [node.this, *([node.args["offset"]] if node.args.get("offset") else [])]
                return exp.Anonymous(this=_SNOWFLAKE[type(node)], expressions=given)
            if not isinstance(node, exp.Anonymous):
                return node
            name = node.name.upper()
            if name in ("MATCH_SEQUENCE_NUMBER", "MATCH_ROW_NUMBER"):
                return exp.Count(this=exp.Star())
            if name in ("MATCH_ROWTIME", "MATCH_PROCTIME") and self._order:
                return exp.Anonymous(this="LAST", expressions=[exp.column(self._order[0].column)])
            if name in _RENAMED:
                return exp.AnyValue(this=node.expressions[0])
            return node

        return tree.transform(change)

    def _without_subqueries(self, tree: exp.Expression, scope: Scope) -> exp.Expression:
        """Sub-queries replaced by hidden columns of the input."""

        def change(node: exp.Expression) -> exp.Expression:
            if isinstance(node, (exp.Any, exp.All)) and isinstance(node.this.unnest(), exp.Query):
                raise errors.NavigationError(
                    f"{scope.where}: {node.key.upper()} (SELECT ...) cannot be used here",
                    remedy="write A.x IN (SELECT ...), or A.x > (SELECT max(x) FROM ...)",
                    place=self._clause.place(start_of(node)),
                )
            if isinstance(node, exp.In) and node.args.get("query") is not None:
                return self._hidden_membership(node, scope)
            if isinstance(node, (exp.Subquery, exp.Select)):
                return exp.column(self._hide(node))
            if isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
                return exp.column(self._hide(node))
            if isinstance(node, _NOW):  # one moment for the whole statement, as Spark has it
                return exp.column(self._hide(node))
            return node

        return tree.transform(change)

    def _hidden_membership(self, node: exp.In, scope: Scope) -> exp.Expression:
        """`A.x IN (SELECT ...)` as the column `x IN (SELECT ...)` of the rows of A."""
        value = from_sqlglot(node.this.copy(), scope, self._clause.text)
        moved = any(is_of_the_match(n, "FIRST", "LAST") for n in node.this.walk())
        atoms = c.atoms(value)
        variables = {a.variable if isinstance(a, c.Navigate) else "" for a in atoms}
        plain = all(
            isinstance(a, c.Navigate)
            and isinstance(a.argument, c.Column)
            and (a.anchor, a.offset, a.shift, a.final) == (c.Anchor.LAST, 0, 0, False)
            for a in atoms
        )
        if not plain or moved or len(variables) > 1:
            raise errors.NavigationError(
                f"{scope.where}: the value of IN (SELECT ...) may name columns of one row only",
                remedy="put the IN inside the navigation, as in LAST(A.x IN (SELECT ...))",
                place=self._clause.place(start_of(node)),
            )
        bare = node.copy()
        qualifier = None
        for column in list(bare.this.find_all(exp.Column)):
            if len(column.parts) > 1:
                qualifier = column.args["table"].copy()
                column.set("table", None)
        hidden = exp.column(self._hide(bare))
        if qualifier is not None and variables != {None}:
            hidden.set("table", qualifier)
        return hidden

    def _hide(self, value: exp.Expression) -> str:
        self._refuse_reading_the_match(value)
        for name, known in self._hidden.items():
            if known == value:
                return name
        whole = (exp.Subquery, exp.Select, exp.Exists, *_NOW)
        looked_at = value.this if isinstance(value, exp.In) else value
        constant = isinstance(value, whole) or looked_at.find(exp.Column) is None
        name = f"{CONSTANT_COLUMN if constant else HIDDEN}{len(self._hidden) + 1}"
        self._hidden[name] = value.copy()
        return name

    def _refuse_reading_the_match(self, value: exp.Expression) -> None:
        """A hidden column is computed before there is a match."""
        sources = {
            name.casefold()
            for node in value.find_all(exp.Table, exp.Subquery, exp.CTE)
            for name in (node.alias, node.name)
        }
        node: Any
        for node in value.walk():
            said = function_name(node) if is_of_the_match(node) else None
            said = node.expressions[0].name if said == FRAME else said
            if isinstance(node, exp.Column) and node.table and node.table not in sources:
                name = node.table if not self._fold else node.table.upper()
                said = node.sql("spark") if name in self._variables else None
            if said is not None:
                raise errors.NavigationError(
                    f"{said} reads the match, in an expression that is computed before there is "
                    "one: a sub-query, or ORDER BY",
                    remedy="compare outside of it: A.x = (SELECT max(x) FROM t)",
                    place=self._clause.place(start_of(node)),
                )

    # -- places of errors ------------------------------------------------------------------------

    def _placed(self, action: Callable[[], Result]) -> Result:
        """Runs a check; an error without a place gets that of the name it speaks of."""
        try:
            return action()
        except errors.EnsueError as problem:
            if problem.place is not None:
                raise
            raise problem.at(self._clause.place(self._offset_of(problem.problem))) from None

    def _offset_of(self, problem: str) -> int:
        clause = self._clause
        parts = {
            "DEFINE": [item.name for item in clause.define],
            "measure": [item.name for item in clause.measures],
            "SUBSET": [name for pair in clause.subsets for name in (pair[0], *pair[1])],
        }
        everywhere = [name for names in parts.values() for name in names]
        spoken = re.findall(r"'([^']+)'", problem) + re.findall(r"DEFINE (\w+)", problem)
        for word in spoken:
            alike = [n.start for n in everywhere if n.text.casefold() == word.casefold()]
            if alike:
                return alike[-1]
        if "exclusion" in problem:
            return clause.pattern_start + max(0, clause.pattern.find("{-"))
        return clause.start


def _is_aggregate(node: exp.Expression) -> bool:
    return isinstance(node, exp.AggFunc) or bool(node._meta and OVER_ALL in node.meta)
