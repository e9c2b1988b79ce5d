"""`ensue.sql`: a whole statement, with row patterns wherever a table or a window may stand.

Tables that are given by name are matched in process (`sql_tables.py`); without any, names are those
of the Spark session. Both replace clause by clause (`sql_statement.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from sqlglot import exp

from ensue import errors
from ensue.api import sql_fence
from ensue.api.order import unordered_sql
from ensue.api.sql_statement import Hidden, Statement
from ensue.api.sql_tables import over_tables
from ensue.front import sql as front
from ensue.front import statement, window_clause
from ensue.front.clause import Clause, MatchTable, clause_of
from ensue.front.placing import located
from ensue.front.translate import spark_sql
from ensue.operator.as_of import LATEST
from ensue.operator.budget import Budget
from ensue.operator.notices import Notices
from ensue.query.depth import roomy
from ensue.query.query import Query
from ensue.query.timeout import Timeout, timed
from ensue.scalar.fence import fence_of

if TYPE_CHECKING:
    from ensue.run.spark.sql import Frame, Session


@overload
def sql(
    text: str,
    *,
    spark: Session | None = None,
    dialect: str = "spark",
    budget: Budget | None = None,
    as_of: Any = LATEST,
    why: bool = False,
    trust: str = "all",
    reads: str | Sequence[str] = (),
    tables: None = None,
    timeout: Timeout | None = None,
) -> Frame: ...
@overload
def sql(
    text: list[str] | tuple[str, ...],
    *,
    spark: Session | None = None,
    dialect: str = "spark",
    budget: Budget | None = None,
    as_of: Any = LATEST,
    why: bool = False,
    trust: str = "all",
    reads: str | Sequence[str] = (),
    tables: None = None,
    timeout: Timeout | None = None,
) -> list[Frame]: ...
@overload
def sql(
    text: str | list[str] | tuple[str, ...],
    *,
    spark: Session | None = None,
    dialect: str = "spark",
    budget: Budget | None = None,
    as_of: Any = LATEST,
    why: bool = False,
    trust: str = "all",
    reads: str | Sequence[str] = (),
    tables: Mapping[str, Any] | None = None,
    timeout: Timeout | None = None,
    **named: Any,
) -> Any: ...
@roomy
@timed
def sql(
    text: str | list[str] | tuple[str, ...],
    *,
    spark: Session | None = None,
    dialect: str = "spark",
    budget: Budget | None = None,
    as_of: Any = LATEST,
    why: bool = False,
    trust: str = "all",
    reads: str | Sequence[str] = (),
    tables: Mapping[str, Any] | None = None,
    timeout: Timeout | None = None,
    **named: Any,
) -> Any:
    """The result of a statement in which MATCH_RECOGNIZE may stand anywhere a table may.

    `dialect` names the SQL of the text: spark, databricks, trino, snowflake, oracle, flink, duckdb
    or bigquery.
    Without `spark`, the active session runs it. Several statements, as a list, share a budget and
    give a list of results. Under a budget whole start rows are shed, which needs AFTER MATCH SKIP
    TO NEXT ROW. `as_of` is the time by which SHOW TIMEOUT MATCHES calls attempts over: by default
    the latest in the table, "end" where the data is complete, or a value of the order column.
    With `why`, the answer is why its row patterns did not match, in place of what they matched
    (docs/why.md).

    With tables given by name, `sql("... FROM events ...", events=df)`, or as `tables={...}` where a
    name is that of an option, the statement runs in process and gives the kind of the first table.

    `trust="pattern"` is for statements of people who may ask for patterns and nothing else:
    one SELECT with row patterns over the tables `reads` (in process those given), and only the
    functions of docs/functions.md (docs/security.md).

    Examples:
        >>> import ensue, pandas as pd
        >>> ticks = pd.DataFrame({"ts": [1, 2, 3], "price": [9, 8, 7]})
        >>> ensue.sql('''
        ...     SELECT low FROM ticks MATCH_RECOGNIZE (
        ...         ORDER BY ts MEASURES LAST(b.price) AS low
        ...         PATTERN (a b+) DEFINE b AS price < PREV(price))
        ... ''', ticks=ticks)
           low
        0    7
    """
    texts = [text] if isinstance(text, str) else list(text)
    given = check_tables(spark, tables, named)
    _check_trust(texts, dialect, trust, [reads] if isinstance(reads, str) else reads, given)
    if why:
        from ensue.api.sql_why import why as asked

        _refuse(budget, "what was shed was never tried, so that why=True would blame the pattern")
        told = [asked(part, dialect, spark, given) for part in texts]
        return told[0] if isinstance(text, str) else told
    if given:
        answers = over_tables(texts, dialect, budget, as_of, given)
        return answers[0] if isinstance(text, str) else answers
    from ensue.run.spark import sql as runner

    session = spark if spark is not None else runner.active_session()
    for part in texts if fence_of(trust) else ():
        sql_fence.check_columns(part, dialect, lambda table: runner.columns(session, table))
    found = [_one(session, part, dialect, budget, as_of, len(texts)) for part in texts]
    return found[0] if isinstance(text, str) else found


def _one(
    session: Session, text: str, dialect: str, budget: Budget | None, as_of: Any, among: int
) -> Frame:
    if dialect == "spark" and not _OF_PATTERNS.search(text):
        _refuse(budget, "the statement has no row pattern, so nothing can be shed")
        return session.sql(text)  # Spark's own, whatever sqlglot knows of it
    tree = statement.parse_statement(text, dialect)
    return OnSpark(
        text=text, dialect=dialect, session=session, budget=budget, as_of=as_of, among=among
    ).run(tree)


@dataclass(kw_only=True)
class OnSpark(Statement["Frame"]):
    session: Session
    budget: Budget | None = None
    as_of: Any = LATEST  # of SHOW TIMEOUT MATCHES
    among: int = 1  # statements that share the budget
    notices: Notices = field(default_factory=Notices)

    def run(self, tree: exp.Expression) -> Frame:
        patterns = [n for n in tree.find_all(MatchTable, exp.Window) if clause_of(n) is not None]
        if not patterns:
            _refuse(self.budget, "the statement has no row pattern, so nothing can be shed")
            text = self.text if self.dialect == "spark" else self._spark_sql(tree)
            return self.session.sql(text)
        if isinstance(tree, exp.Create) and str(tree.args.get("kind")).upper() == "VIEW":
            return self._create_view(tree)
        return self.replaced(tree)

    def _create_view(self, tree: exp.Create) -> Frame:
        from ensue.run.spark import sql as runner

        if tree.find(exp.TemporaryProperty) is None:
            raise errors.UnsupportedError(
                "a permanent view cannot be built on matches, which are computed outside Spark SQL",
                remedy="write CREATE TEMPORARY VIEW, or CREATE TABLE ... AS to keep the matches",
                place=errors.Place.at_offset(self.text, 0),
            )
        query = tree.expression
        query.pop()
        schema = tree.this if isinstance(tree.this, exp.Schema) else None
        columns = [column.name for column in schema.expressions] if schema else []
        name = (schema.this if schema else tree.this).name
        found = self.replaced(query)
        return runner.create_view(found, name, columns, bool(tree.args.get("replace")))

    # -- one clause ------------------------------------------------------------------------------

    def matched(self, asked: front.MatchQuery, source: Frame) -> Frame:
        from ensue.run.spark import sql as runner
        from ensue.run.spark import timeouts

        if asked.all_matches:
            found = runner.totals(asked.query, source, self.as_of)
        elif asked.timeouts:
            _refuse(self.budget, "time-outs are what was not found: shedding would add to them")
            found = timeouts.run(asked.query, source, self.as_of)
        else:
            hidden = [name for name, _ in asked.hidden]
            found = runner.match(asked.query, source, hidden, self.budget, self.among)
        return found

    def integers(self, source: Frame) -> frozenset[str]:
        from ensue.run.spark import sql as runner

        return runner.integer_columns(source)

    def answered(self, query: Query, source: Frame, hidden: Hidden) -> None:
        if not query.order_by and not source.isStreaming:
            self.notices.warn(unordered_sql(source.columns))

    def pattern_window(self, select: exp.Select) -> exp.Expression:
        from ensue.run.spark import windows

        _refuse(self.budget, "a window shows a value on every row, even where its match was shed")
        taken = window_clause.take_apart(select, self.dialect)
        source = self.input_of(taken.below, taken.windows[0].clause, select)
        hidden = [name for window in taken.windows for name, _ in window.hidden]
        columns = [name for name in source.columns if name not in hidden]
        for window in taken.windows:
            try:
                wanted = window_clause.wanted(window)
                source = windows.add_columns(window.window, source, wanted, window.zero_if_none)
            except errors.EnsueError as problem:
                raise located(problem, window.clause) from None
            self.answered(window.window.query, source, window.hidden)
        table = self.register(source.drop(*hidden) if hidden else source)
        return window_clause.put_together(taken, table, columns)

    # -- Spark -----------------------------------------------------------------------------------

    def input_of(self, below: exp.Expression, clause: Clause, node: exp.Expression) -> Frame:
        from ensue.run.spark import sql as runner

        text, tables = self._spark_sql(below), self._used(below)
        if not _below_a_query(node):
            return runner.frame(self.session, text, tables)
        correlated = errors.UnsupportedError(
            "the input of a row pattern cannot read a column of an outer query",
            remedy="match first and join the result, or compute the column in the input",
            place=clause.place(),
        )
        return runner.input_frame(self.session, text, tables, correlated)

    def frame(self, tree: exp.Expression) -> Frame:
        from ensue.run.spark import sql as runner

        return runner.frame(self.session, self._spark_sql(tree), self._used(tree))

    def _spark_sql(self, tree: exp.Expression) -> str:
        for node in tree.find_all(exp.In):
            _name_literal(node.args.get("query"))
        return spark_sql(tree, self.text, self.dialect)

    def _used(self, tree: exp.Expression) -> dict[str, Frame]:
        named = {table.name for table in tree.find_all(exp.Table)}
        return {name: found for name, found in self.tables.items() if name in named}


# Words without which a text has nothing for us to read, and goes to Spark as it is.
_OF_PATTERNS = re.compile(r"\bpattern\b|\b(final|running)\s+\w+\s*\(", re.IGNORECASE)


def check_tables(
    spark: Session | None, tables: Mapping[str, Any] | None, named: Mapping[str, Any]
) -> dict[str, Any]:
    """The tables in process; refuses what is neither an option nor a table."""
    for name, value in named.items():
        if value is None or (isinstance(value, str) and not Path(value).expanduser().exists()):
            raise errors.QueryError(
                f"{name}={value!r} is neither an option nor a table of the statement",
                remedy="options are spark, dialect, budget, as_of, why, trust, reads, timeout "
                "and tables; a table is an Arrow, pandas or Polars table, or the path of a file",
            )
    for name in named.keys() & (tables or {}).keys():
        raise errors.DuplicateNameError(
            f"the table {name!r} is given twice, by name and in tables=",
            remedy="leave one of them out",
        )
    given = {**(tables or {}), **named}
    if given and spark is not None:
        raise errors.QueryError(
            f"spark= and tables in process ({', '.join(given)}) name two places to run",
            remedy="leave one of them out",
        )
    return given


def _check_trust(
    texts: Sequence[str],
    dialect: str,
    trust: str,
    reads: Sequence[str],
    given: Mapping[str, Any],
) -> None:
    if fence_of(trust) is None:
        if reads:
            raise errors.QueryError(
                f"reads={reads!r} bounds what untrusted text may read, and trust is 'all'",
                remedy="give trust='pattern', or leave reads out",
            )
        return
    if not (reads or given):
        raise errors.QueryError(
            "trust='pattern' on Spark needs the tables that a statement may read",
            remedy="name them: reads='events', or reads=['shop.visits', 'shop.orders']",
        )
    for text in texts:
        sql_fence.check(text, dialect, reads or list(given))


def _refuse(budget: Budget | None, reason: str) -> None:
    if budget is not None:
        raise errors.UnsupportedError(
            f"this statement cannot run under a budget: {reason}", remedy="leave the budget out"
        )


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
