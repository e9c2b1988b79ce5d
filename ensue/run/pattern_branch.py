"""One pattern in a matcher: its matches, or totals over them.

They come, and go where later events disprove them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import plan
from ensue.operator.budget import Budget
from ensue.operator.buffer import AT, EVENT, KEY, numbers
from ensue.operator.changes import Changes
from ensue.operator.clock import HIGHEST, LOWEST
from ensue.operator.identity import row_hashes
from ensue.operator.match_names import EVENTS, HIGH, LOW
from ensue.operator.prepare import finish, finish_totals
from ensue.operator.protocol import Events, Key, Metrics, Snapshot
from ensue.operator.replay import Replay
from ensue.operator.rerun import Ahead, Rerun
from ensue.operator.settle import Settle
from ensue.operator.straight import Ordered, Straight
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.rows.evaluator import RowsEvaluator
from ensue.run import choose
from ensue.run.branch import (
    NEW,
    WITHDRAWN,
    Branch,
    MatcherOptions,
    Names,
    Seeds,
    prepared,
    with_hidden,
)
from ensue.sequences.totals import Grouping
from ensue.sequences.totals_evaluator import TotalsEvaluator


class Corrected(Protocol):
    """An evaluator that takes corrections: events and time in, changes out."""

    @property
    def rows(self) -> int:
        """Events that may still be corrected."""

    def change(self, added: Events, removed: Events | None = None) -> Changes: ...
    def advance(self, code: int, time: object) -> Changes: ...
    def end(self, keys: Sequence[Key] | None = None, names: Names = None) -> Changes: ...
    def to_bytes(self) -> bytes: ...
    def restore(self, blob: bytes, code: int, time: object) -> None: ...


class OneBranch(Branch):
    """One pattern, whose evaluator takes corrections."""

    corrected: Corrected

    def __init__(
        self,
        name: str,
        query: Query,
        schema: pa.Schema,
        options: MatcherOptions,
        begin: int = LOWEST,
        end: int = HIGHEST,
    ) -> None:
        super().__init__({name: query}, begin, end)
        self._identity = options.identity
        bound = rules.check(bind(query, schema.names))
        self.plan = plan(bound)
        self._columns = prepared(self.plan, with_hidden(schema), self._identity).schema
        self._seeds = Seeds(name, bound)
        self._limit = LOWEST  # what was decided before it may go out, where changes are held back
        self._open(options)

    @abstractmethod
    def _open(self, options: MatcherOptions) -> None:
        """Make the evaluator, and `nothing`."""

    @property
    def _owes(self) -> bool:
        """Whether there is something to tell before any event."""
        return False

    @abstractmethod
    def _shaped(self, found: pa.Table, op: str) -> pa.Table:
        """Rows of the stage's output as rows of the changes table."""

    def change(self, added: Events, removed: Events | None = None) -> list[pa.Table]:
        added = self._within(added)
        removed = None if removed is None else self._within(removed)
        if removed is None or not removed.table.num_rows:
            if not added.table.num_rows and not self._owes:
                return []
            return self._shown(lambda: self.corrected.change(self._ready(added)))
        # Of what is taken back, only the names matter.
        gone = replace(removed, table=removed.table.select([AT, KEY, EVENT]))
        return self._shown(lambda: self.corrected.change(self._ready(added), gone))

    def advance(self, code: int, time: Any, limit: int = LOWEST) -> list[pa.Table]:
        self._limit = limit
        return self._shown(lambda: self.corrected.advance(code, time))

    def end(self, keys: Sequence[Key] | None = None, names: Names = None) -> list[pa.Table]:
        return self._shown(lambda: self.corrected.end(keys, names))

    def to_bytes(self) -> list[bytes]:
        return [self.corrected.to_bytes(), b""]

    def restore(self, blobs: Sequence[bytes], code: int, time: Any, limit: int) -> None:
        self._limit = limit
        self.corrected.restore(blobs[0], code, time)

    def _shown(self, run: Callable[[], Changes]) -> list[pa.Table]:
        def shaped() -> list[pa.Table]:
            changes = self._let_out(run())
            both = ((changes.went, WITHDRAWN), (changes.came, NEW))
            return [self._shaped(found, op) for found, op in both if found.num_rows]

        return self._guarded(shaped)

    def _let_out(self, changes: Changes) -> Changes:
        return changes

    def _ready(self, events: Events) -> Events:
        """Events with the columns that the evaluator reads."""
        return replace(events, table=prepared(self.plan, events.table, self._identity))

    def _within(self, events: Events) -> Events:
        """Events of the lifetime."""
        if (self.begin == LOWEST and self.end_at == HIGHEST) or not events.table.num_rows:
            return events
        times = numbers(events.table, AT)
        inside = (times >= self.begin) & (times < self.end_at)
        if inside.all():
            return events
        sizes = np.add.reduceat(inside.astype(np.int64), events.starts[:-1])
        sizes = sizes[sizes > 0]
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        complete = np.zeros(len(sizes), np.bool_)
        return Events(events.table.filter(pa.array(inside)).combine_chunks(), starts, complete)


class PatternBranch(OneBranch):
    """Matches."""

    corrected: Replay | Straight

    def _open(self, options: MatcherOptions) -> None:
        self.evaluator: Ordered
        self._under: Metrics | None = None
        settling = options.settle is not None
        if options.budget is not None:
            self._open_under(options.budget, self._columns, options.correctable)
        else:
            self._open_exact(self._columns, options)
        nothing = self.evaluator.no_matches(self._columns)
        self._settle: Settle | None = None
        if settling and isinstance(self.corrected, Replay):
            self._settle = Settle(self.corrected.nothing)
        self.nothing = self._shaped(nothing, NEW)

    def _open_under(self, budget: Budget, schema: pa.Schema, correctable: bool) -> None:
        refuse_corrections(correctable)
        evaluator = choose.best_effort()
        evaluator.open(self.plan, schema, budget)
        self.evaluator, self._under = evaluator, evaluator.metrics
        self.reason = "events missing under a budget: the most promising partial matches"
        self.corrected = Straight(evaluator, evaluator.no_matches(schema))

    def _open_exact(self, schema: pa.Schema, options: MatcherOptions) -> None:
        choice = choose.for_matcher(self.plan, options.timeouts)
        evaluator, self.reason = choice.evaluator, choice.reason
        evaluator.open(self.plan, schema)
        if isinstance(evaluator, RowsEvaluator):
            self.reason = f"rows ({evaluator.engine.name}): {evaluator.engine.reason}"
        self.evaluator = evaluator
        settling = options.settle is not None
        stage = choose.for_corrections(evaluator, self.plan, schema, options.correctable, settling)
        self.corrected, self.reason = stage.evaluator, self.reason + stage.reason

    @property
    def partitions(self) -> int:
        return len(self.evaluator.tails.held)

    @property
    def nbytes(self) -> int:
        return self.evaluator.tails.nbytes

    @property
    def metrics(self) -> Metrics | None:
        return self._under

    # -- changes out -----------------------------------------------------------------------------

    def end(self, keys: Sequence[Key] | None = None, names: Names = None) -> list[pa.Table]:
        found = super().end(keys, names)
        if self._settle is not None:
            found.append(self._shaped(self._settle.release_all(names), NEW))
        return found

    @property
    def settling(self) -> int:
        return 0 if self._settle is None else len(self._settle)

    def to_bytes(self) -> list[bytes]:
        return [self.corrected.to_bytes(), b"" if self._settle is None else self._settle.to_bytes()]

    def restore(self, blobs: Sequence[bytes], code: int, time: Any, limit: int) -> None:
        super().restore(blobs, code, time, limit)
        if self._settle is not None:
            self._settle.restore(blobs[1])

    def _let_out(self, changes: Changes) -> Changes:
        return changes if self._settle is None else self._settle.take(changes, self._limit)

    def _shaped(self, found: pa.Table, op: str) -> pa.Table:
        found = found.combine_chunks()
        shown = listed(finish(self.plan, found), found)
        high, low = (numbers(found, name).view(np.uint64) for name in (HIGH, LOW))
        return self._seeds.changes(shown, op, (high, low))


class TotalsBranch(OneBranch):
    """Aggregates over all matches: changes of the totals, a row per group.

    The query's measures are the aggregates. Groups share no state that could be put back key by
    key, so events since the watermark run again where one of them is corrected.
    """

    corrected: Rerun

    def __init__(
        self,
        name: str,
        query: Query,
        grouping: Grouping,
        schema: pa.Schema,
        options: MatcherOptions,
    ) -> None:
        self._grouping = grouping
        super().__init__(name, query, schema, options)

    def _open(self, options: MatcherOptions) -> None:
        if options.budget is not None or options.settle is not None:
            given = "budget" if options.budget is not None else "settle"
            raise errors.UnsupportedError(
                f"a matcher of aggregates takes no {given}: totals are exact, and cover every "
                "event "
                "that was let through",
                remedy=f"leave {given} out; speculation=0 emits only what is final",
            )
        planned, ready, grouping = self.plan, self._columns, self._grouping

        def make(state: Snapshot | None) -> TotalsEvaluator:
            evaluator = choose.totals(grouping)
            evaluator.open(planned, ready, None, state)
            return evaluator

        bound, mark = planned.query, planned.fingerprint
        line = Ahead(make, ready, bound.partition_by, bound.order_by, fingerprint=mark)
        first = make(None)
        nothing = first.no_matches(ready)
        self._named_by = first.named_by
        stage = choose.for_shared_corrections(line, nothing, options.correctable)
        self.corrected = stage.evaluator
        self.reason = f"totals: aggregates over all matches, never listed{stage.reason}"
        self.nothing = self._shaped(nothing, NEW)

    @property
    def partitions(self) -> int:
        return self.corrected.evaluator.open_keys

    @property
    def nbytes(self) -> int:
        return self.corrected.nbytes

    @property
    def _owes(self) -> bool:
        """Without groups there is one total, of no match at first."""
        return not self._named_by and not self.corrected.begun

    def result(self) -> pa.Table:
        """The totals as they stand."""
        return finish_totals(self.plan, self.corrected.standing.combine_chunks())

    def _shaped(self, found: pa.Table, op: str) -> pa.Table:
        found = found.combine_chunks()
        group = row_hashes(found, self._named_by)
        return self._seeds.changes(finish_totals(self.plan, found), op, (group, ~group))


def listed(shown: pa.Table, found: pa.Table) -> pa.Table:
    """The plain listing with times and ids in place of numbers of rows, which shift."""
    if EVENTS not in found.column_names:
        return shown
    shown = shown.drop_columns(["match_number"])
    place = shown.schema.get_field_index("events")
    return shown.set_column(place, "events", found.column(EVENTS))


def check_timeouts(query: Query, options: MatcherOptions, totals: bool) -> None:
    """What ran out of time is told of event patterns, once and for all."""
    if not options.timeouts:
        return
    if totals:
        raise errors.UnsupportedError(
            "timeouts=True lists partial matches, and aggregates are over matches",
            remedy="leave timeouts out, or ask a matcher without aggregate",
        )
    if options.correctable or options.settle is not None or options.budget is not None:
        raise errors.UnsupportedError(
            "timeouts=True tells what ran out of time, which is never taken back, held back or "
            "left out",
            remedy="say speculation=0, and leave settle and budget out; or leave timeouts out",
        )
    if query.row_semantics or query.missing is not None:
        what = "a row pattern" if query.row_semantics else "a pattern with allow_missing"
        raise errors.UnsupportedError(
            f"a matcher tells no partial matches of {what} (timeouts=True)",
            remedy="write an event pattern (->), or ask matches(table, timeouts=True)"
            if query.row_semantics
            else "leave timeouts out",
        )


def refuse_corrections(correctable: bool) -> None:
    if correctable:
        raise errors.UnsupportedError(
            "under a budget nothing can be taken back: what was learned and shed since cannot be "
            "undone",
            remedy="say speculation=0, or leave the budget out",
        )
