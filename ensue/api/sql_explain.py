"""`ensue.explain`: how each row pattern of a SQL statement would be matched, and why.

The statement is read clause by clause as `ensue.sql` reads it, and nothing runs but what a clause
stands on: matches are those of no rows, and the SQL around the clauses is left alone. Without
tables and without a session the text alone is read; what depends on types is then left open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from ensue import errors
from ensue.api.pattern import Pattern
from ensue.api.sql import OnSpark, check_tables
from ensue.api.sql_statement import Hidden, Statement
from ensue.api.sql_tables import OnTables, named_tables
from ensue.automaton.view import View
from ensue.draw.diagram import Picture
from ensue.draw.table import Explanation
from ensue.front import statement, window_clause
from ensue.front.clause import Clause
from ensue.front.sql import MatchQuery
from ensue.query.depth import roomy
from ensue.query.nodes import pattern_text
from ensue.query.query import Query
from ensue.query.timeout import Timeout, timed

if TYPE_CHECKING:
    from ensue.run.spark.sql import Frame, Session

Asked = tuple[Query, Any, Hidden]  # a row pattern, and the rows it stands on where known


@roomy
@timed
def explain(
    text: str,
    *,
    spark: Session | None = None,
    dialect: str = "spark",
    tables: Mapping[str, Any] | None = None,
    timeout: Timeout | None = None,
    **named: Any,
) -> str:
    """How `ensue.sql` would match each row pattern of a statement, and why.

    With `spark`, or with tables given as `ensue.sql` takes them, types are known and the answer is
    exact; without either, nothing but the text is read. No match is computed.

    Examples:
        >>> clause = "PARTITION BY k ORDER BY ts PATTERN (A B) DEFINE B AS x > A.x"
        >>> text = f"SELECT * FROM t MATCH_RECOGNIZE ({clause})"
        >>> print(ensue.explain(text).splitlines()[0])
        Row pattern: one match per start row, by preference (SQL:2016)
    """
    given = check_tables(spark, tables, named)
    patterns = read_patterns(text, dialect, spark, given)
    parts = []
    for number, (query, data, hidden) in enumerate(patterns, 1):
        which = (
            f"Row pattern {number} of {len(patterns)}: {pattern_text(query.pattern, folds=False)}"
        )
        head = f"{which}\n{'-' * len(which)}\n" if len(patterns) > 1 else ""
        told = Pattern._of(query).explain(data)
        for name, expression in hidden:
            told = told.replace(name, expression.sql("spark"))
        parts.append(head + told)
    return Explanation("\n".join(parts))


def picture(text: str, dialect: str = "spark") -> Picture:
    """The automata of a statement's row patterns, in one picture."""
    views = [Pattern._of(query)._view() for query, *_ in read_patterns(text, dialect)]
    return Picture(views[0] if len(views) == 1 else View(parts=tuple(views)))


def read_patterns(
    text: str,
    dialect: str,
    spark: Session | None = None,
    given: Mapping[str, Any] | None = None,
) -> list[Asked]:
    """The row patterns of a statement, innermost first."""
    reader: Any
    if given:
        reader = _OnTables(text, dialect, named_tables(given))
        reader.plain(reader.parsed())
    else:
        tree = statement.parse_statement(text, dialect)
        if spark is not None:
            reader = _OnSpark(text=text, dialect=dialect, session=spark)
        else:
            reader = _AsWritten(text, dialect)
        reader.plain(tree)
    if not reader.asked:
        raise errors.QueryError(
            "the statement has no row pattern, so there is nothing to explain",
            remedy="give a statement with MATCH_RECOGNIZE; EXPLAIN is Spark's own word for others",
            place=errors.Place.at_offset(text, 0),
        )
    return list(reader.asked)


@dataclass
class _OnTables(OnTables):
    asked: list[Asked] = field(default_factory=list)

    def matched(self, asked: MatchQuery, source: pa.Table) -> pa.Table:
        return super().matched(asked, source.slice(0, 0))

    def answered(self, query: Query, source: pa.Table, hidden: Hidden) -> None:
        self.asked.append((query, source, hidden))


@dataclass(kw_only=True)
class _OnSpark(OnSpark):
    asked: list[Asked] = field(default_factory=list)

    def answered(self, query: Query, source: Frame, hidden: Hidden) -> None:
        self.asked.append((query, source, hidden))
        super().answered(query, source, hidden)


@dataclass
class _AsWritten(Statement[None]):
    """A statement of whose tables nothing is known."""

    asked: list[Asked] = field(default_factory=list)

    def answered(self, query: Query, source: None, hidden: Hidden) -> None:
        self.asked.append((query, source, hidden))

    def pattern_window(self, select: exp.Select) -> exp.Expression:
        taken = window_clause.take_apart(select, self.dialect)
        for window in taken.windows:
            self.answered(window.window.query, None, window.hidden)
        tree: exp.Expression = window_clause.put_together(taken, self.register(None), [])
        return tree

    def matched(self, asked: MatchQuery, source: None) -> None:
        return None

    def integers(self, source: None) -> frozenset[str]:
        return frozenset()

    def input_of(self, below: exp.Expression, clause: Clause, node: exp.Expression) -> None:
        return None

    def frame(self, tree: exp.Expression) -> None:
        return None
