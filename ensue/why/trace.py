"""The steps of a search through one partition, as a table.

A step is one thing that happened at one row to one partial match: a condition was asked, the row
was taken, left out, the partial match ended, a match was complete. Partial matches that nothing
ahead tells apart are followed as one (`partials` says how many they are), so there are as many
steps as an engine makes, never one per match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.operator.notices import Notices
from ensue.query.query import Query
from ensue.stopping import look

# A condition was asked; the row joined the partial match; it is in one place with a partial match
# that is preferred; the row was left out; the partial match ended; it is a match, unless one that
# is preferred follows; it is a match; rows that no attempt starts at.
ASK, TAKE, MERGE, SKIP, DROP = "ask", "take", "merge", "skip", "drop"
COMPLETE, MATCH, CONSUMED = "complete", "match", "consumed"

MOST_STEPS = 10_000
MOST_CELLS = 20_000_000  # rows in the partial matches of all steps
_COLUMNS = {
    "row": pa.int64(),
    "start": pa.int64(),
    "action": pa.string(),
    "variable": pa.string(),
    "held": pa.bool_(),
    "reason": pa.string(),
    "text": pa.string(),
    "matched": pa.list_(pa.string()),
    "rows": pa.list_(pa.int64()),
    "places": pa.list_(pa.string()),
    "partials": pa.int64(),
}
_MOST = (1 << 63) - 1


class CutTraceWarning(UserWarning):
    """A trace shows only its first steps."""


class FullError(Exception):
    """The trace has reached its limit of steps."""


@contextmanager
def cut(steps: Trace, notices: Notices) -> Iterator[None]:
    """Walk until the trace is full, and say so."""
    try:
        yield
    except FullError:
        notices.warn(
            CutTraceWarning(
                f"the trace is cut after {len(steps):,} steps: give a larger limit=, or fewer rows"
            )
        )


class Trace:
    """Steps in order; rows are counted in the partition."""

    def __init__(self, limit: int) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise errors.QueryError(
                f"trace(limit={limit!r}): the number of steps to show is a whole number, 1 or more",
                remedy=f"leave it out ({MOST_STEPS:,} steps), or give a number",
            )
        self.limit = limit
        self._steps: list[tuple[Any, ...]] = []
        self._cells = 0

    def __len__(self) -> int:
        return len(self._steps)

    def add(
        self,
        row: int,
        action: str,
        path: Sequence[tuple[str, int]],
        *,
        start: int | None = None,
        variable: str | None = None,
        held: bool | None = None,
        reason: str | None = None,
        text: str | None = None,
        places: Sequence[str] = (),
        partials: int = 1,
    ) -> None:
        """A step; `path` is what the partial match is now, `start` is given where it is empty."""
        look()
        self._cells += len(path)
        if len(self._steps) == self.limit or self._cells > MOST_CELLS:
            raise FullError
        first = path[0][1] if start is None and path else start
        labels, rows = [name for name, _ in path], [row for _, row in path]
        told = (action, variable, held, reason, text, labels, rows, list(places))
        self._steps.append((row, first, *told, min(partials, _MOST)))

    def table(self, query: Query, order: pa.Array | None) -> pa.Table:
        """The steps, with the order values of their rows; none after the last row."""
        found: dict[str, pa.Array] = {"step": pa.array(range(len(self._steps)), pa.int64())}
        for index, (name, kind) in enumerate(_COLUMNS.items()):
            found[name] = pa.array([step[index] for step in self._steps], kind)
            if name == "row":
                count = 0 if order is None else len(order)
                inside = [s[0] if s[0] < count else None for s in self._steps]
                taken = pa.array(inside, pa.int64())
                found["at"] = pa.nulls(len(taken)) if order is None else order.take(taken)
        return pa.table(found)
