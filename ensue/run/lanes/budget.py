"""Patterns with events missing under a budget as a stage of a lane.

A lane learns from its own keys. Its state is one blob: the rows and match nodes that windows still
hold, and what was learnt (history and Q-table), so a restart goes on with what it knew. Nothing is
ever taken back: under a budget `emit="changes"` is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.missing.evaluator import ApproximateEvaluator
from ensue.missing.tracks import Tracks
from ensue.missing.warm import warm_up
from ensue.operator.budget import Budget
from ensue.operator.listing import Listing
from ensue.operator.protocol import Key, Output, Watermark
from ensue.run.lanes.events import ordered, time_of
from ensue.run.lanes.stages import found_schema, refused
from ensue.run.lanes.work import Settings, Stage, Work


@dataclass(frozen=True)
class BudgetWork(Work):
    """Matches of a pattern under a budget."""

    planned: Plan
    listing: Listing | None
    budget: Budget

    def stage(self, lane: int) -> Stage:
        return BudgetStage(self.planned, self.listing, self.schema, self.budget)


def budget_work(
    planned: Plan,
    listing: Listing | None,
    budget: Budget,
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> BudgetWork:
    if settings.speculative or settings.corrections:
        raise errors.UnsupportedError(
            "under a budget nothing can be taken back: what was learnt and shed since cannot be "
            "made undone",
            remedy="leave emit='changes' and changes= out, or the budget",
        )
    warm_up()  # compiled once here, not by every worker
    found = BudgetStage(planned, listing, schema, budget).found()
    by = planned.query.partition_by
    return BudgetWork(schema, found, by, time, settings, description, planned, listing, budget)


class BudgetStage:
    """See the module."""

    def __init__(
        self, planned: Plan, listing: Listing | None, schema: pa.Schema, budget: Budget
    ) -> None:
        self._made_of = (planned, listing, schema, budget)
        self._query, self._schema = planned.query, schema
        self._evaluator = ApproximateEvaluator(listing)
        self._evaluator.open(planned, schema, budget)
        self._told = (0, 0, 0.0, 0.0)

    @property
    def _tracks(self) -> Tracks:
        tracks = self._evaluator.tails
        assert isinstance(tracks, Tracks)
        return tracks

    def found(self) -> pa.Schema:
        return found_schema(self._evaluator.no_matches(self._schema), False)

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        return _tables(self._evaluator.insert(ordered(self._query, rows)))

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        return _tables(self._evaluator.advance(Watermark(horizon)))

    def end(self) -> Iterator[pa.Table]:
        return _tables(self._evaluator.end())

    def forget(self, before: int) -> Iterator[pa.Table]:
        name = self._query.order_by[0].column
        silent = []
        for key, track in self._tracks.open.items():
            assert track.rows is not None
            if time_of(track.rows.column(name), track.rows.num_rows - 1) < before:
                silent.append(key)
        return _tables(self._evaluator.end(silent)) if silent else iter(())

    def standing(self) -> Iterator[pa.Table]:
        return iter(())

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        return refused(orders)

    def copy(self) -> BudgetStage:
        made = BudgetStage(*self._made_of)
        made.load(self.save())
        return made

    def save(self) -> bytes:
        return self._tracks.together()

    def load(self, blob: bytes) -> None:
        self._tracks.restore_together(blob)
        self._told = self._work()

    def next_time(self) -> int | None:
        """Only events complete a match."""
        return None

    def drop(self, keys: set[Key]) -> None:
        for key in keys:
            self._tracks.open.pop(key, None)

    def sizes(self) -> Mapping[Key, int]:
        held = {
            key: track.rows.num_rows
            for key, track in self._tracks.open.items()
            if track.rows is not None
        }
        largest = max(held.values(), default=0)
        return {key: rows for key, rows in held.items() if rows == largest and largest}

    @property
    def partials(self) -> int:
        return sum(track.kept is not None for track in self._tracks.open.values())

    @property
    def keys(self) -> int:
        return len(self._tracks.open)

    def spent(self) -> tuple[int, int, float, float]:
        """Of partial matches since the last call: extended, not extended, promised, followed."""
        before, self._told = self._told, self._work()
        made, left, promised, followed = self._told
        return made - before[0], left - before[1], promised - before[2], followed - before[3]

    def _work(self) -> tuple[int, int, float, float]:
        return (*self._evaluator.work_so_far, *self._evaluator.promise)


def _tables(output: Output) -> Iterator[pa.Table]:
    yield from output.tables()
