"""`ensue.sql(..., why=True)`: why the row patterns of a statement did not match.

The statement is read clause by clause, as it is run; what each clause stands on is asked why. The
SQL around the clauses plays no part but for what it gives to clauses further out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ensue import errors
from ensue.api.sql import OnSpark
from ensue.api.sql_statement import Hidden
from ensue.api.sql_tables import OnTables, named_tables
from ensue.api.tables import in_kind
from ensue.api.together import together
from ensue.front import statement
from ensue.query.nodes import pattern_text
from ensue.query.query import Query
from ensue.run import why as in_process

if TYPE_CHECKING:
    from ensue.run.spark.sql import Frame, Session


def why(text: str, dialect: str, session: Session | None, given: Mapping[str, Any]) -> Any:
    """One row per partition of each row pattern; of several, with the column `pattern`."""
    reader: _Tables | _Spark
    if given:
        reader = _Tables(text, dialect, named_tables(given))
        reader.plain(reader.parsed())
    else:
        from ensue.run.spark import sql as runner

        session = session if session is not None else runner.active_session()
        reader = _Spark(text=text, dialect=dialect, session=session)
        reader.plain(statement.parse_statement(text, dialect))
    if not reader.told:
        raise errors.QueryError(
            "the statement has no row pattern, so there is nothing to explain",
            remedy="give a statement with MATCH_RECOGNIZE",
            place=errors.Place.at_offset(text, 0),
        )
    if isinstance(reader, _Spark):
        from ensue.run.spark.workload import together as on_spark

        return on_spark(reader.told) if len(reader.told) > 1 else next(iter(reader.told.values()))
    found = next(iter(reader.told.values())) if len(reader.told) == 1 else together(reader.told)
    return in_kind(found, next(iter(given.values())))


def _name(query: Query, number: int) -> str:
    """What distinguishes a clause: its number, the innermost first, and its pattern."""
    return f"{number}: {pattern_text(query.pattern)}"


@dataclass
class _Tables(OnTables):
    told: dict[str, pa.Table] = field(default_factory=dict)

    def answered(self, query: Query, source: pa.Table, hidden: Hidden) -> None:
        found = in_process.run(query, source, "partition", self.notices)
        self.told[_name(query, len(self.told) + 1)] = found


@dataclass(kw_only=True)
class _Spark(OnSpark):
    told: dict[str, Frame] = field(default_factory=dict)

    def answered(self, query: Query, source: Frame, hidden: Hidden) -> None:
        from ensue.run.spark import why as on_spark

        found = on_spark.run(query, source, "partition")
        self.told[_name(query, len(self.told) + 1)] = found
        super().answered(query, source, hidden)
