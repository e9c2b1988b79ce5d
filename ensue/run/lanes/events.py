"""Event patterns as stages of a lane: matches, and aggregates that never list them.

Both evaluators match partitions in pieces (`operator/hold.py`) and write the state of all
of a lane's keys as one blob. Totals of groups are kept beside it. Lanes are hashed by the columns
of the *groups*, so that every partition of a group is in one lane and its total is one number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.missing.exact import missing_evaluator
from ensue.operator.arrange import arrange
from ensue.operator.buffer import CONTENT, EVENT
from ensue.operator.hold import Tails
from ensue.operator.listing import Listing
from ensue.operator.protocol import Events, Key, Output, Watermark
from ensue.query.query import OrderKey, Query, WindowKind
from ensue.rows.flat import lasting
from ensue.run.lanes.stages import found_schema, named, refused, unnamed, with_identity
from ensue.run.lanes.work import STATUS, Settings, Stage, Work
from ensue.sequences.evaluator import SequencesEvaluator


@dataclass(frozen=True)
class EventsWork(Work):
    """Matches of an event pattern."""

    planned: Plan
    listing: Listing | None

    def stage(self, lane: int) -> Stage:
        return EventsStage(self.planned, self.listing, self.schema, self.settings.speculative)


def events_work(
    planned: Plan,
    listing: Listing | None,
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> EventsWork:
    if listing is not None and (listing.limit is not None or listing.sample is not None):
        raise errors.UnsupportedError(
            "limit= and sample= choose among all matches, and a stream never has them all",
            remedy="leave them out, or use q.aggregate(...)",
        )
    if listing is not None and listing.timeouts and (settings.late or settings.speculative):
        raise errors.UnsupportedError(
            f"timeouts=True has a column {STATUS!r} of its own, and what timed out is never taken "
            "back",
            remedy="leave timeouts out, or late=True and emit='changes'",
        )
    stage = EventsStage(planned, listing, schema, settings.speculative)
    return EventsWork(
        schema,
        stage.found(),
        planned.query.partition_by,
        time,
        settings,
        description,
        planned,
        listing,
    )


def ordered(query: Query, rows: pa.Table) -> Events:
    """Rows of any keys as events of open partitions; ties by content."""
    tie = EVENT if EVENT in rows.column_names else CONTENT
    table, starts = arrange(rows, query.partition_by, (*query.order_by, OrderKey(tie)))
    return Events(table, starts, np.zeros(len(starts) - 1, np.bool_))


class HeldRows(ABC):
    """What a lane asks about rows held per key (`Tails`)."""

    def __init__(self, query: Query) -> None:
        self._query = query

    @property
    @abstractmethod
    def tails(self) -> Tails: ...

    def next_time(self) -> int | None:
        window = self._query.within
        if window is None or window.kind is WindowKind.ROWS:
            return None
        waiting = [h.since for h in self.tails.held.values() if h.since is not None]
        return int(min(waiting) + window.size) + 1 if waiting else None

    def drop(self, keys: set[Key]) -> None:
        for key in keys:
            self.tails.held.pop(key, None)

    def sizes(self) -> Mapping[Key, int]:
        held = self.tails.held
        largest = max((h.length for h in held.values()), default=0)
        return {key: h.length for key, h in held.items() if h.length == largest and largest}

    def silent(self, before: int) -> list[Key]:
        """Keys of which no row is newer; one without rows has been silent since they left."""
        found = []
        for key, held in self.tails.held.items():
            last = held.offset + held.length - 1
            column = held.block.column(self._query.order_by[0].column)
            if not held.length or time_of(column, last) < before:
                found.append(key)
        return found

    @property
    def partials(self) -> int:
        return sum(h.begin < h.length for h in self.tails.held.values())

    @property
    def keys(self) -> int:
        return len(self.tails.held)


def time_of(column: pa.ChunkedArray, row: int) -> int:
    """The moment in a row, in microseconds."""
    moment = column.slice(row, 1).combine_chunks()
    return int(moment.cast(pa.timestamp("us", "UTC")).cast(pa.int64())[0].as_py())


class EventsStage(HeldRows):
    """See the module."""

    def __init__(
        self, planned: Plan, listing: Listing | None, schema: pa.Schema, identified: bool
    ) -> None:
        super().__init__(planned.query)
        self._made_of = (planned, listing, schema, identified)
        self._planned, self._named = planned, identified
        # Without numbers of matches and rows to go on with, a key that holds no row is as new.
        self._lasting = lasting(planned)
        self._inner = named(schema.empty_table()).schema if identified else schema
        self._evaluator = self._opened()

    def _opened(self) -> SequencesEvaluator:
        evaluator = (
            SequencesEvaluator(self._made_of[1])
            if self._planned.query.missing is None
            else missing_evaluator(self._planned, self._made_of[1])
        )
        evaluator.open(self._planned, self._inner)
        return evaluator

    @property
    def tails(self) -> Tails:
        return self._evaluator.tails

    def found(self) -> pa.Schema:
        return found_schema(self._evaluator.no_matches(self._inner), self._named)

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        rows = named(rows) if self._named else rows
        return self._found(self._evaluator.insert(ordered(self._query, rows)))

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        return self._found(self._evaluator.advance(Watermark(horizon)))

    def end(self) -> Iterator[pa.Table]:
        return self._found(self._evaluator.end())

    def forget(self, before: int) -> Iterator[pa.Table]:
        keys = self.silent(before)
        return self._found(self._evaluator.end(keys)) if keys else iter(())

    def _found(self, output: Output) -> Iterator[pa.Table]:
        for table in output.tables():
            yield with_identity(table) if self._named else table

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        return refused(orders)

    def standing(self) -> Iterator[pa.Table]:
        return iter(())

    def copy(self) -> EventsStage:
        made = EventsStage(*self._made_of)
        made.tails.held.update(self.tails.held)
        return made

    def take_over(self, old: EventsStage, change: Callable[[pa.Table], pa.Table]) -> None:
        """Read the rows another pattern holds: its partial matches begin again here.

        What these rows alone would match was told by the other pattern, or came before this one.
        """
        before = {key: held for key, held in old.tails.held.items() if held.length}
        if not before:
            return
        parts = [held.block.slice(held.offset, held.length) for held in before.values()]
        rows = change(unnamed(pa.concat_tables(parts).combine_chunks()))
        for _ in self.insert(rows.select(unnamed(self._inner.empty_table()).column_names)):
            pass
        for key, held in self.tails.held.items():
            held.base += before[key].base
            held.matches = before[key].matches

    def save(self) -> bytes:
        if not self._lasting:
            for key in [key for key, held in self.tails.held.items() if not held.length]:
                del self.tails.held[key]
        return self._evaluator.snapshot_together().shared

    def load(self, blob: bytes) -> None:
        self._evaluator = self._opened()
        self.tails.restore_together(blob)
