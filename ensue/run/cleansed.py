"""Operators that users hold behind Cleanse: what all of them do with what comes, and what they say.

`Matcher` and `LateSummary` take events in any order. The columns may be known with the first event
only; what is late or cannot be used is gathered until it is taken away.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.operator import state
from ensue.operator.cleanse import Cleanse, event_time
from ensue.operator.cleanse import Counts as CleanseCounts
from ensue.operator.intake import Aside, PutsAside
from ensue.operator.turns import Turns
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.run.branch import MatcherOptions


@dataclass
class CleansedCounts(CleanseCounts):
    """What came since the start, and what is kept of it."""

    held: int = 0  # events waiting for the watermark
    correctable: int = 0  # events let through that may still be corrected


class Cleansed(PutsAside, Turns):
    """See the module."""

    def __init__(self, query: Query, options: MatcherOptions) -> None:
        """`query` says the keys and the order of the events."""
        event_time(query.order_by)
        self._shape, self._options = query, options
        self._cleanse: Cleanse | None = None
        self._mark: Any = None  # a watermark that came before the first event
        self._aside = Aside()

    def why(self) -> pa.Table:
        """The rows gathered that play no part, each with a `reason` (late, rejected) and a `text`.

        A last row says what was shed under a budget.
        """
        return self._aside.why(self._shed())

    def _shed(self) -> int:
        """How many extensions of partial matches a budget has left out."""
        return 0

    @property
    def watermark(self) -> Any:
        """No event before this time will come; None before the first watermark."""
        return self._mark if self._cleanse is None else self._time

    # -- inside ----------------------------------------------------------------------------------

    @property
    def _known(self) -> Cleanse:
        if self._cleanse is None:
            raise errors.StateError(
                "no events have arrived yet, so there is no state",
                remedy="insert events first, or give schema=... to matcher()",
            )
        return self._cleanse

    @property
    def _time(self) -> Any:
        cleanse = self._known
        return cleanse.clock.time(cleanse.watermark)

    def _cleanse_of(self, schema: pa.Schema) -> Cleanse:
        options = self._options
        if options.identity is not None and options.identity not in schema.names:
            raise errors.UnknownColumnError(
                f"the events have no column {options.identity!r} that could be their id",
                remedy=f"columns are: {', '.join(schema.names)}",
            )
        if options.settle is not None and options.speculation == 0:
            raise errors.QueryError(
                "settle holds back what was answered ahead of the watermark, and speculation=0 "
                "answers nothing ahead of it",
                remedy="leave settle out, or give speculation=math.inf",
            )
        bound = bind(self._shape, schema.names)
        self._aside = Aside(schema, bound.order_by[0].column)
        return Cleanse(
            schema,
            bound.partition_by,
            bound.order_by,
            options.speculation,
            options.identity,
            options.delay,
            options.history,
        )

    def _count_into(self, told: CleansedCounts) -> None:
        cleanse = self._known
        for name, value in asdict(cleanse.counts).items():
            setattr(told, name, value)
        told.held, told.correctable = len(cleanse), cleanse.remembered

    def _saved(self) -> dict[str, Any]:
        """The parts of a state that are the intake's."""
        cleanse = self._known
        return {"cleanse": cleanse.to_bytes(), "schema": cleanse.schema, **self._aside.saved()}

    def _resume(self, parts: state.Parts) -> None:
        """Take over these parts, where the columns are known."""
        self._known.restore(parts.state("cleanse"))
        self._aside = self._aside.restored(parts)
