"""What is said of an attempt, and the table of it.

One row per partition, of its best failed attempt, or one per start row. A table is filled as plain
lists; keys and order values are taken from the rows at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from ensue import errors
from ensue.query.query import Query

NO_START = "no start"
CONDITION = "condition"
NULL = "null"
WITHIN = "within"
FORBIDDEN = "forbidden"
END = "end"
CONSUMED = "consumed"
NOT_ADJACENT = "not adjacent"
REPETITION = "repetition"
MISSING = "missing"  # an event; only of nearest(), and of rows that were expected to match
# Where several apply, the first is given.
ORDER = (NO_START, END, WITHIN, FORBIDDEN, REPETITION, NOT_ADJACENT, NULL, CONDITION)

PARTITION, START = "partition", "start"
NEAREST = "nearest"  # one row per start that failed, with what it lacks
PER = (PARTITION, START)
COLUMNS = ("matched", "stopped_at", "variable", "reason", "text", "matches")
STARTS = ("row", "start")
LACKS = ("lacks", "missing")


@dataclass(frozen=True)
class Attempt:
    """Rows are counted in the batch; `stopped` None: nothing stopped it."""

    matched: tuple[str, ...] | None = None
    stopped: int | None = None
    variable: str | None = None
    reason: str | None = None
    text: str | None = None
    missing: tuple[str, ...] | None = None  # labels; None: no match can begin so


MATCHED = Attempt()  # of a partition in which no attempt failed


@dataclass
class Account:
    """The rows of the answer."""

    per: str
    attempts: list[Attempt] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # row in the batch: of the start, else any
    numbers: list[int] = field(default_factory=list)  # of the start row in its partition
    matches: list[int] = field(default_factory=list)

    def add(self, attempt: Attempt, start: int, number: int, matches: int) -> None:
        if self.per == NEAREST and attempt.missing is None:
            return
        self.attempts.append(attempt)
        self.starts.append(start)
        self.numbers.append(number)
        self.matches.append(matches)

    def table(self, query: Query, columns: Mapping[str, pa.Array]) -> pa.Table:
        rows = pa.array(self.starts, pa.int64())
        order = columns[query.order_by[0].column] if query.order_by else None
        stopped = pa.array([a.stopped for a in self.attempts], pa.int64())
        found = {name: columns[name].take(rows) for name in query.partition_by}
        if self.per != PARTITION:
            found["row"] = pa.array(self.numbers, pa.int64())
            found["start"] = pa.nulls(len(rows)) if order is None else order.take(rows)
        if self.per == NEAREST:
            lacks = [len(a.missing or ()) for a in self.attempts]
            found["lacks"] = pa.array(lacks, pa.int64())
            found["missing"] = pa.array([a.missing for a in self.attempts], pa.list_(pa.string()))
        found["matched"] = pa.array([a.matched for a in self.attempts], pa.list_(pa.string()))
        found["stopped_at"] = pa.nulls(len(rows)) if order is None else order.take(stopped)
        for name in ("variable", "reason", "text"):
            found[name] = pa.array([getattr(a, name) for a in self.attempts], pa.string())
        if self.per == NEAREST:
            return pa.table(found)
        most = max(self.matches, default=0)
        if most >= 1 << 63:
            raise errors.LimitError(
                f"{most:,} matches of one partition do not fit into the column matches",
                remedy="bound the pattern with within(...), or count them with q.count(data)",
            )
        found["matches"] = pa.array(self.matches, pa.int64())
        return pa.table(found)


def check(query: Query, per: str) -> None:
    """Refuse what has no answer here."""
    if per not in (*PER, NEAREST):
        raise errors.QueryError(
            f"why(per={per!r}): a row of the answer describes a partition or a start row",
            remedy='use per="partition" or per="start"',
        )
    if query.missing is not None and per != NEAREST:
        raise errors.UnsupportedError(
            "why() explains exact matches, and allow_missing reports what is missing itself",
            remedy="leave allow_missing out, or read the columns errors and missing of matches()",
        )
    more = {PARTITION: (), START: STARTS, NEAREST: (*STARTS, *LACKS)}[per]
    taken = {*COLUMNS, *more} & set(query.partition_by)
    if taken:
        name = min(taken)
        verb = "nearest()" if per == NEAREST else "why()"
        raise errors.DuplicateNameError(
            f"the partition column {name!r} has the name of a column of {verb}",
            remedy="rename the column first",
        )
