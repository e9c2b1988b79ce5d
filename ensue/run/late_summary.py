"""A summary over disordered, corrected events: Cleanse in front of it, and Rerun's line behind.

At σ = 0 the summary sees ordered events, and is the one that they give in order. At σ > 0 it
answers for events beyond the watermark too: a copy has taken them, and takes them again from the
watermark on where one of them is corrected. Answers are computed when asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Self

import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import plan
from ensue.operator import state
from ensue.operator.cleanse import Cleanse, Released
from ensue.operator.clock import LOWEST
from ensue.operator.protocol import Capabilities, Events, Snapshot
from ensue.operator.rerun import Ahead
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.query.timeout import Timeout, timed
from ensue.run import choose
from ensue.run.branch import MatcherOptions
from ensue.run.cleansed import Cleansed, CleansedCounts
from ensue.run.keys import as_key
from ensue.summary.evaluator import Summary, SummaryMetrics
from ensue.summary.intake import Reader, as_table
from ensue.summary.lane_evaluator import SummaryEvaluator
from ensue.summary.options import SummaryOptions

KIND = state.Kind("late summary", version=2, oldest=2)


@dataclass
class LateSummaryMetrics(CleansedCounts, SummaryMetrics):
    """As those of a summary; `rows` are all that came."""


class LateSummary(Cleansed):
    """See the module and docs/summaries.md; made by `Pattern.summarize`."""

    name = "the summary"
    capabilities = Capabilities(ordered_input=False, retraction=True, result_on_demand=True)

    def __init__(
        self,
        query: Query,
        asked: SummaryOptions,
        options: MatcherOptions,
        reader: Reader | None = None,
    ) -> None:
        super().__init__(query, options)
        self._asked, self._read = asked, reader
        self._fresh = choose.summary(query, asked)  # refuses what cannot be summarized
        self._line: Ahead | None = None
        self._ended: Summary | None = None  # after the end of all keys, until the next event

    # -- calls -----------------------------------------------------------------------------------

    def insert(self, events: Any, *, timeout: Timeout | None = None) -> Self:
        """Insert events, in any order."""
        if isinstance(events, list) and not events:
            return self
        known = None if self._cleanse is None else self._cleanse.schema
        table = as_table(events, self._read, known)
        if self._cleanse is None:
            self._open(table.schema)
        self._passed(self._opened[0].insert(table))
        return self

    def retract(self, events: Any, *, timeout: Timeout | None = None) -> Self:
        """Retract events: whole rows, or the partition columns and the id where there is one."""
        cleanse, _ = self._opened
        self._passed(cleanse.retract(as_table(events, self._read, cleanse.schema)))
        return self

    def advance(self, time: Any, *, timeout: Timeout | None = None) -> Self:
        """A watermark: no event before `time` will come."""
        if self._cleanse is None:
            self._mark = time
        else:
            self._passed(self._cleanse.advance(time))
        return self

    def end(self, keys: Iterable[Any] | None = None, *, timeout: Timeout | None = None) -> pa.Table:
        """The answers of these keys (or all), which are complete: they are forgotten.

        After the end of all, `result` and `events` give the last answer until the next event.
        """
        cleanse, line = self._opened
        listed = None if keys is None else [as_key(key, cleanse.partition_by) for key in keys]
        names = None if listed is None else cleanse.key_hashes(listed)
        self._take(cleanse.end(listed), None)
        evaluator = line.settled
        assert isinstance(evaluator, SummaryEvaluator)
        last = evaluator.summary
        final = line.end(listed, names)
        if listed is None and last.keys:
            self._ended = last
        empty = evaluator.no_matches(cleanse.schema)
        return pa.concat_tables([empty, *final]).combine_chunks()

    def revise(self, *_: Any, **__: Any) -> None:
        raise errors.UnsupportedError(
            f"{self.name} does not support a pattern that changes while running (revise)",
            remedy="start another summary",
        )

    # -- looking at it ---------------------------------------------------------------------------

    @timed
    def result(self, *, timeout: Timeout | None = None) -> Any:
        """Aggregates over the matches among the retained events; a dict by key if partitioned."""
        return self._summary.result()

    @timed
    def count(self, *, timeout: Timeout | None = None) -> int:
        """The number of matches over all keys."""
        return self._summary.count()

    @timed
    def events(self, *, timeout: Timeout | None = None) -> pa.Table:
        """The retained events in order of time."""
        return self._summary.events()

    @timed
    def contribution(self, *, timeout: Timeout | None = None) -> pa.Table:
        """The retained events with `matches`: how many each takes part in."""
        return self._summary.contribution()

    @property
    def metrics(self) -> LateSummaryMetrics:
        told = LateSummaryMetrics(**asdict(self._summary.metrics))
        if self._cleanse is not None and self._line is not None:
            self._count_into(told)
            told.correctable = len(self._line)
            told.bytes = self.nbytes
        return told

    @property
    def nbytes(self) -> int:
        """Of the events that wait or may be corrected, and of what is retained."""
        if self._cleanse is None or self._line is None:
            return 0
        return self._cleanse.nbytes + self._line.nbytes

    def explain(self) -> str:
        """What runs, and why."""
        return f"cleanse: speculation {self._options.speculation}\nsummary: {self._asked.select}"

    # -- inside ----------------------------------------------------------------------------------

    @property
    def _opened(self) -> tuple[Cleanse, Ahead]:
        if self._cleanse is None or self._line is None:
            raise errors.StateError("no events have arrived yet", remedy="insert events first")
        return self._cleanse, self._line

    @property
    def _summary(self) -> Summary:
        """The summary that has seen everything that was let through."""
        if self._line is None:
            return self._fresh
        if self._ended is not None:
            return self._ended
        evaluator, _ = self._line.now()
        assert isinstance(evaluator, SummaryEvaluator)
        return evaluator.summary

    def _open(self, schema: pa.Schema) -> None:
        cleanse = self._cleanse_of(schema.remove_metadata())
        by, order = tuple(cleanse.partition_by), tuple(cleanse.order_by)
        planned = plan(bind(self._shape, cleanse.schema.names))

        def make(saved: Snapshot | None) -> SummaryEvaluator:
            evaluator = choose.summaries(self._asked)
            evaluator.open(planned, cleanse.full_schema, None, saved)
            return evaluator

        self._line = Ahead(make, cleanse.full_schema, by, order, together=True)
        self._cleanse = cleanse
        if self._mark is not None:
            cleanse.advance(self._mark)

    def _passed(self, released: Released) -> None:
        """What Cleanse lets through, and time."""
        self._aside.add(released.late, released.rejected)
        self._take(released.events, released.withdrawn)
        cleanse, line = self._opened
        if self._options.correctable and cleanse.watermark > LOWEST:
            line.settle(cleanse.watermark, self._time)

    def _take(self, added: Events, removed: Events | None) -> None:
        _, line = self._opened
        if added.table.num_rows:
            self._ended = None
        if self._options.correctable:
            line.take(added, removed)
        else:
            line.insert_settled(added)

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Everything as Arrow IPC bytes, for `ensue.restore`."""
        _, line = self._opened
        parts = {
            "asked": self._fresh.snapshot(),
            "options": asdict(self._options),
            **self._saved(),
            "line": line.to_bytes(),
            "ended": b"" if self._ended is None else self._ended.snapshot(),
        }
        return state.pack(KIND, parts)

    def _rewind(self) -> Callable[[], None]:
        fields = dict(vars(self))
        kept = None if self._cleanse is None else self.snapshot()

        def back() -> None:
            self._become(fields)
            if kept is not None:
                self.go_on(state.unpack(KIND, kept))

        return back

    def go_on(self, parts: state.Parts) -> Self:
        """Take over the parts of a snapshot of the same question."""
        self._open(parts.schema("schema"))
        self._resume(parts)
        self._opened[1].restore(parts.state("line"), self._time)
        ended = parts.state("ended")
        self._ended = self._fresh.restore(ended) if ended else None
        return self
