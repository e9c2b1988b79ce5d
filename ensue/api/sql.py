"""`ensue.sql`: a whole statement, with row patterns wherever a table or a window may stand.

Clause by clause, innermost first: the input becomes a DataFrame (Spark's answer to the relation
the clause stands on, with the CTEs it sees), its matches become another, and a table reference
takes the clause's place. What is left is plain Spark SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from sqlglot import exp

from ensue import errors
from ensue.front import sql as front
from ensue.front import statement, window_clause
from ensue.front.clause import Clause, MatchTable
from ensue.front.translate import spark_sql
from ensue.operator.budget import Budget
from ensue.rows.warm import warm_up

if TYPE_CHECKING:
    from ensue.run.spark.sql import Frame, Session

_TABLE = "ensue_matches_"


@overload
def sql(
    text: str,
    *,
    spark: Session | None = None,
    dialect: str = "spark",
    budget: Budget | None = None,
) -> Frame: ...
@overload
def sql(
    text: list[str] | tuple[str, ...],
    *,
    spark: Session | None = None,
    dialect: str = "spark",
    budget: Budget | None = None,
) -> list[Frame]: ...
def sql(
    text: str | list[str] | tuple[str, ...],
    *,
    spark: Session | None = None,
    dialect: str = "spark",
    budget: Budget | None = None,
) -> Frame | list[Frame]:
    """The result of a statement in which MATCH_RECOGNIZE may stand anywhere a table may.

    `dialect` names the SQL of the text: spark, databricks, trino, snowflake, oracle or flink.
    Without `spark`, the active session runs it. Several statements, as a list, share a budget and
    give a list of results. Under a budget whole start rows are shed, which needs AFTER MATCH SKIP
    TO NEXT ROW.
    """
    from ensue.run.spark import sql as runner

    session = spark if spark is not None else runner.active_session()
    texts = [text] if isinstance(text, str) else list(text)
    found = [_one(session, part, dialect, budget, len(texts)) for part in texts]
    return found[0] if isinstance(text, str) else found


def _one(session: Session, text: str, dialect: str, budget: Budget | None, among: int) -> Frame:
    if dialect == "spark" and not re.search(r"\bpattern\b", text, re.IGNORECASE):
        _refuse(budget, "the statement has no row pattern, so nothing can be shed")
        return session.sql(text)  # Spark's own, whatever sqlglot knows of it
    tree = statement.parse_statement(text, dialect)
    return _Statement(session, text, dialect, budget, among).run(tree)


@dataclass
class _Statement:
    session: Session
    text: str
    dialect: str
    budget: Budget | None = None
    among: int = 1  # statements that share the budget
    tables: dict[str, Frame] = field(default_factory=dict)

    def run(self, tree: exp.Expression) -> Frame:
        patterns = [n for n in tree.find_all(MatchTable, exp.Window) if _is_pattern(n)]
        if not patterns:
            _refuse(self.budget, "the statement has no row pattern, so nothing can be shed")
            text = self.text if self.dialect == "spark" else self._spark_sql(tree)
            return self.session.sql(text)
        warm_up()
        if isinstance(tree, exp.Create) and str(tree.args.get("kind")).upper() == "VIEW":
            return self._create_view(tree)
        return self._query(tree)

    def _query(self, tree: exp.Expression) -> Frame:
        while True:
            table = statement.next_match_table(tree)
            select = window_clause.next_select(tree)
            if table is not None and not (select is not None and _is_below(select, table)):
                tree = self._match_table(table)
            elif select is not None:
                tree = self._pattern_window(select)
            else:
                return self._frame(tree)

    def _create_view(self, tree: exp.Create) -> Frame:
        from ensue.run.spark import sql as runner

        if tree.find(exp.TemporaryProperty) is None:
            raise errors.UnsupportedError(
                "a permanent view cannot stand on matches, which are computed outside Spark SQL",
                remedy="write CREATE TEMPORARY VIEW, or CREATE TABLE ... AS to keep the matches",
                place=errors.Place.at_offset(self.text, 0),
            )
        query = tree.expression
        query.pop()
        schema = tree.this if isinstance(tree.this, exp.Schema) else None
        columns = [column.name for column in schema.expressions] if schema else []
        name = (schema.this if schema else tree.this).name
        found = self._query(query)
        return runner.create_view(found, name, columns, bool(tree.args.get("replace")))

    # -- one clause ------------------------------------------------------------------------------

    def _match_table(self, node: MatchTable) -> exp.Expression:
        from ensue.run.spark import sql as runner
        from ensue.run.spark import timeouts

        clause = _clause(node)
        asked = front.read_table(node, self.dialect)
        below = statement.input_query(node, asked.hidden_columns())
        source = self._input(below, clause, node)
        if front.depends_on_types(node, self.dialect):
            asked = front.read_table(node, self.dialect, runner.integer_columns(source))
        try:
            if asked.all_matches:
                found = runner.totals(asked.query, source)
                return statement.replace_with_table(node, self._register(found))
            if asked.timeouts:
                _refuse(self.budget, "time-outs are what was not found: shedding would add to them")
                found = timeouts.run(asked.query, source)
                return statement.replace_with_table(node, self._register(found))
            hidden = [name for name, _ in asked.hidden]
            found = runner.match(asked.query, source, hidden, self.budget, self.among)
        except errors.EnsueError as problem:
            raise front.located(problem, clause) from None
        return statement.replace_with_table(node, self._register(found))

    def _pattern_window(self, select: exp.Select) -> exp.Expression:
        from ensue.run.spark import windows

        _refuse(self.budget, "a window shows a value on every row, also where its match was shed")
        taken = window_clause.take_apart(select, self.dialect)
        source = self._input(taken.below, taken.windows[0].clause, select)
        hidden = [name for window in taken.windows for name, _ in window.hidden]
        columns = [name for name in source.columns if name not in hidden]
        for window in taken.windows:
            try:
                wanted = window_clause.wanted(window)
                source = windows.add_columns(window.window, source, wanted, window.zero_if_none)
            except errors.EnsueError as problem:
                raise front.located(problem, window.clause) from None
        table = self._register(source.drop(*hidden) if hidden else source)
        return window_clause.put_together(taken, table, columns)

    # -- Spark -----------------------------------------------------------------------------------

    def _input(self, below: exp.Expression, clause: Clause, node: exp.Expression) -> Frame:
        from ensue.run.spark import sql as runner

        text, tables = self._spark_sql(below), self._used(below)
        if not _below_a_query(node):
            return runner.frame(self.session, text, tables)
        correlated = errors.UnsupportedError(
            "the input of a row pattern may read a column of an outer query, which it cannot",
            remedy="match first and join the result, or compute the column in the input",
            place=clause.place(),
        )
        return runner.input_frame(self.session, text, tables, correlated)

    def _frame(self, tree: exp.Expression) -> Frame:
        from ensue.run.spark import sql as runner

        return runner.frame(self.session, self._spark_sql(tree), self._used(tree))

    def _spark_sql(self, tree: exp.Expression) -> str:
        window_clause.refuse_left(tree, self.text)
        for node in tree.find_all(exp.In):
            _name_literal(node.args.get("query"))
        return spark_sql(tree, self.text, self.dialect)

    def _register(self, found: Frame) -> str:
        name = f"{_TABLE}{len(self.tables) + 1}_"
        self.tables[name] = found
        return name

    def _used(self, tree: exp.Expression) -> dict[str, Frame]:
        named = {table.name for table in tree.find_all(exp.Table)}
        return {name: found for name, found in self.tables.items() if name in named}


def _refuse(budget: Budget | None, reason: str) -> None:
    if budget is not None:
        raise errors.UnsupportedError(
            f"this statement cannot run under a budget: {reason}", remedy="leave the budget out"
        )


def _clause(node: exp.Expression) -> Clause:
    clause = statement.clause_of(node)
    assert clause is not None
    return clause


def _is_pattern(node: exp.Expression) -> bool:
    return statement.clause_of(node) is not None


def _is_below(select: exp.Expression, node: exp.Expression) -> bool:
    """Whether `select` stands in the input of the match table `node`."""
    above: Any = select
    while above is not None and above is not node:
        above = above.parent
    return above is node


def _below_a_query(node: exp.Expression) -> bool:
    """Whether another query stands above, whose columns a name could mean."""
    own: Any = node if isinstance(node, exp.Select) else node.parent_select
    above: Any = own.parent if own is not None else None
    while above is not None:
        if isinstance(above, exp.Select):
            return True
        above = above.parent
    return False


def _name_literal(query: Any) -> None:
    """`IN (SELECT 'x')` is a typed literal to Spark's parser; with a name it is a query."""
    select = query.this if isinstance(query, exp.Subquery) else query
    if isinstance(select, exp.Select) and isinstance(select.expressions[0], exp.Literal):
        select.set("expressions", [exp.alias_(select.expressions[0], "value")])
