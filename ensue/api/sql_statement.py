"""A statement, clause by clause, innermost first, whatever runs the SQL around the clauses.

The input of a clause becomes a table (the runner's answer to the relation the clause stands on,
with the CTEs it sees), its matches become another, and a table reference takes the clause's place.
What is left is plain SQL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sqlglot import exp

from ensue import errors
from ensue.front import sql as front
from ensue.front import statement, window_clause
from ensue.front.clause import Clause, MatchTable, clause_in
from ensue.front.placing import located
from ensue.query.query import Query

TABLE = "ensue_matches_"
Frame = TypeVar("Frame")
Hidden = Sequence[tuple[str, exp.Expression]]  # columns of the input that stand for expressions


@dataclass
class Statement(ABC, Generic[Frame]):
    """See the module."""

    text: str
    dialect: str
    tables: dict[str, Frame] = field(default_factory=dict)

    def replaced(self, tree: exp.Expression) -> Frame:
        """The answer: every clause replaced by its matches."""
        return self.frame(self.plain(tree))

    def plain(self, tree: exp.Expression) -> exp.Expression:
        """What is left when every clause is a table of its matches."""
        while True:
            table = statement.next_match_table(tree)
            select = window_clause.next_select(tree)
            if table is not None and not (select is not None and _is_below(select, table)):
                tree = self._match_table(table)
            elif select is not None:
                tree = self.pattern_window(select)
            else:
                return tree

    def _match_table(self, node: MatchTable) -> exp.Expression:
        clause = clause_in(node)
        asked = front.read_table(node, self.dialect)
        below = statement.input_query(node, asked.hidden)
        source = self.input_of(below, clause, node)
        if front.depends_on_types(node, self.dialect):
            asked = front.read_table(node, self.dialect, self.integers(source))
        try:
            found = self.matched(asked, source)
            self.answered(asked.query, source, asked.hidden)
        except errors.EnsueError as problem:
            raise located(problem, clause) from None
        return statement.replace_with_table(node, self.register(found))

    def register(self, found: Frame) -> str:
        name = f"{TABLE}{len(self.tables) + 1}_"
        self.tables[name] = found
        return name

    def answered(self, query: Query, source: Frame, hidden: Hidden) -> None:
        """Called with what each clause asks of its rows, once that is known to be possible."""

    # -- what the runner answers -----------------------------------------------------------------

    @abstractmethod
    def matched(self, asked: front.MatchQuery, source: Frame) -> Frame:
        """The matches of a clause."""

    @abstractmethod
    def integers(self, source: Frame) -> frozenset[str]:
        """Names, in lower case, of the columns that hold integers."""

    @abstractmethod
    def pattern_window(self, select: exp.Select) -> exp.Expression:
        """The statement with the row patterns in this query's windows replaced."""

    @abstractmethod
    def input_of(self, below: exp.Expression, clause: Clause, node: exp.Expression) -> Frame:
        """The rows that a clause stands on."""

    @abstractmethod
    def frame(self, tree: exp.Expression) -> Frame:
        """The answer to plain SQL over `tables`."""


def _is_below(select: exp.Expression, node: exp.Expression) -> bool:
    """Whether `select` stands in the input of the match table `node`."""
    above: Any = select
    while above is not None and above is not node:
        above = above.parent
    return above is node
