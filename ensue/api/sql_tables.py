"""`ensue.sql` over tables in process: Ensue matches, DuckDB runs the SQL around it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp

from ensue import errors
from ensue.api.order import unordered_here
from ensue.api.sql_statement import TABLE, Hidden, Statement
from ensue.api.tables import in_kind, is_spark, to_arrow
from ensue.front import statement
from ensue.front.clause import Clause
from ensue.front.sql import MatchQuery
from ensue.front.translate import duckdb_sql
from ensue.operator.as_of import LATEST, time_for
from ensue.operator.budget import Budget
from ensue.operator.notices import Notices
from ensue.query.query import Query
from ensue.run import local, timeouts
from ensue.run.tables_sql import answer
from ensue.sequences.totals import Grouping


def over_tables(
    texts: list[str], dialect: str, budget: Budget | None, as_of: Any, given: Mapping[str, Any]
) -> list[Any]:
    """One result per statement, each in the kind of the first table."""
    if budget is not None:
        raise errors.UnsupportedError(
            "a budget in SQL works on Spark only",
            remedy="leave the budget out, or use q.matches(table, budget=...)",
        )
    tables = named_tables(given)
    first = next(iter(given.values()))
    found = [OnTables(t, dialect, tables=dict(tables), as_of=as_of).answer() for t in texts]
    return [in_kind(answered, first) for answered in found]


def named_tables(given: Mapping[str, Any]) -> dict[str, pa.Table]:
    """The tables of a statement as Arrow; refuses those that are not in process."""
    tables = {}
    for name, data in given.items():
        if is_spark(data):
            raise errors.UnsupportedInputError(
                f"the table {name!r} is a Spark DataFrame, and Spark finds tables by the names "
                "of their views",
                remedy=f"write df.createOrReplaceTempView({name!r}), and pass no tables",
            )
        if name.startswith(TABLE):
            raise errors.ReservedNameError(
                f"a table is called {name!r}", remedy=f"names that begin with {TABLE} are Ensue's"
            )
        tables[name] = to_arrow(data)
    return tables


@dataclass
class OnTables(Statement[pa.Table]):
    """A statement over Arrow tables."""

    notices: Notices = field(default_factory=Notices)
    as_of: Any = LATEST  # of SHOW TIMEOUT MATCHES

    def answer(self) -> pa.Table:
        return self.replaced(self.parsed())

    def parsed(self) -> exp.Expression:
        tree = statement.parse_statement(self.text, self.dialect)
        if not isinstance(tree, exp.Query):
            raise errors.UnsupportedError(
                f"over tables in process only queries run, and this is {tree.key.upper()}",
                remedy="write SELECT ..., and store its result",
                place=errors.Place.at_offset(self.text, 0),
            )
        return tree

    def matched(self, asked: MatchQuery, source: pa.Table) -> pa.Table:
        if asked.timeouts:
            return timeouts.run(asked.query, source, self.as_of, self.notices)
        if asked.all_matches:
            grouping = Grouping(by=asked.query.partition_by)
            now = time_for((asked.query,), self.as_of)[1]
            return local.totals(asked.query, source, grouping, self.notices, now)
        found = local.run(asked.query, source, notices=self.notices)
        hidden = [name for name, _ in asked.hidden if name in found.column_names]
        return found.drop_columns(hidden) if asked.query.rows.all_rows else found

    def answered(self, query: Query, source: pa.Table, hidden: Hidden) -> None:
        warning = None if query.order_by else unordered_here(source)
        if warning is not None:
            self.notices.warn(warning)

    def integers(self, source: pa.Table) -> frozenset[str]:
        return frozenset(f.name.casefold() for f in source.schema if pa.types.is_integer(f.type))

    def pattern_window(self, select: exp.Select) -> exp.Expression:
        raise errors.UnsupportedError(
            "a row pattern in a window runs on Spark only",
            remedy="write it as MATCH_RECOGNIZE, or run the statement on Spark",
            place=errors.Place.at_offset(self.text, 0),
        )

    def input_of(self, below: exp.Expression, clause: Clause, node: exp.Expression) -> pa.Table:
        return self.frame(below)

    def frame(self, tree: exp.Expression) -> pa.Table:
        printed = duckdb_sql(tree, self.text, self.dialect)
        shown = [name for name in self.tables if not name.startswith(TABLE)]
        try:
            return answer(printed, self.tables, shown)
        except errors.QueryError as problem:
            raise problem.at(self._place_of(problem.problem)) from None

    def _place_of(self, said: str) -> errors.Place:
        """Of the first name that an error speaks of, as far as the text has it."""
        names = (found[1] or found[2] for found in re.finditer(r'"([^"]+)"|name (\w+)', said))
        for name in names:
            found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.text, re.IGNORECASE)
            if found is not None:
                return errors.Place.at_offset(self.text, found.start())
        inner = re.search(r"\(\s*SELECT", self.text, re.IGNORECASE) if "ubquery" in said else None
        if inner is not None:
            return errors.Place.at_offset(self.text, inner.start())
        return errors.Place.at_offset(self.text, 0)
