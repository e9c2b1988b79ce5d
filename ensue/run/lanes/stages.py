"""An evaluator as the stage of a lane: rows in order, names where matches may be withdrawn.

Every evaluator that keeps `LaneEvaluator` is driven by the one class here, whatever the algorithm.
A `Recipe` says how to make the evaluator and how to read what it puts out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.operator.arrange import arrange
from ensue.operator.buffer import CONTENT, EVENT
from ensue.operator.match_names import MATCH
from ensue.operator.protocol import Events, Key, LaneEvaluator, Output, Snapshot, Watermark
from ensue.query.query import OrderKey
from ensue.run.lanes.work import Stage, Work

# The number of the lane, and a state: an open evaluator.
Make = Callable[[int, Snapshot | None], LaneEvaluator]


@dataclass(frozen=True)
class Recipe:
    """What a stage runs; travels to the workers."""

    make: Make
    partition_by: tuple[str, ...]
    order_by: tuple[OrderKey, ...]
    found: pa.Schema  # of what is put out, `MATCH` left out
    identified: bool = False  # what is put out has names: it may be taken back
    named: bool = False  # the evaluator names matches by the names of their rows (EVENT)


@dataclass(frozen=True)
class EvaluatorWork(Work):
    """One evaluator in every lane."""

    recipe: Recipe

    def stage(self, lane: int) -> Stage:
        return EvaluatorStage(self.recipe, lane)


class EvaluatorStage(Stage):
    """See the module."""

    def __init__(
        self, recipe: Recipe, lane: int = 0, evaluator: LaneEvaluator | None = None
    ) -> None:
        self.recipe, self.lane = recipe, lane
        self.evaluator = recipe.make(lane, None) if evaluator is None else evaluator
        self._refused: list[pa.Table] = []

    @property
    def evaluators(self) -> Sequence[LaneEvaluator]:
        return [self.evaluator]

    # -- events ----------------------------------------------------------------------------------

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        rows = named(rows) if self.recipe.named else rows
        return self._shown(self.evaluator.insert(self._ordered(rows)))

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        return self._shown(self.evaluator.advance(Watermark(horizon)))

    def end(self, keys: Collection[Key] | None = None) -> Iterator[pa.Table]:
        return self._shown(self.evaluator.end(keys))

    def standing(self) -> Iterator[pa.Table]:
        return self._shown(Output(self.evaluator.standing()))

    def _ordered(self, rows: pa.Table) -> Events:
        if self.evaluator.capabilities.sorts_rows:
            return Events(rows, np.array([0, rows.num_rows], np.int64), np.zeros(1, np.bool_))
        return ordered(rows, self.recipe.partition_by, self.recipe.order_by)

    def _shown(self, output: Output) -> Iterator[pa.Table]:
        found = self.recipe.found
        names = [*found.names, *([MATCH] if self.recipe.identified else [])]
        for table in output.tables():
            shown = self.evaluator.identified(table) if self.recipe.identified else table
            yield shown if shown.column_names == names else shown.select(names)
        if output.rejected is not None:
            self._refused.append(output.rejected)

    def refused(self) -> pa.Table | None:
        rows, self._refused = self._refused, []
        return pa.concat_tables(rows) if rows else None

    def spent(self) -> tuple[int, int, float, float]:
        return self.evaluator.spent()

    # -- edits -----------------------------------------------------------------------------------

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        reason = "the stream was started without edits=True: its pattern is fixed"
        return [{"order": order.partition("\n")[0], "error": reason} for order in orders]

    # -- state -----------------------------------------------------------------------------------

    def copy(self) -> EvaluatorStage:
        return EvaluatorStage(self.recipe, self.lane, self.evaluator.copy())

    def save(self) -> bytes:
        return self.evaluator.snapshot_together().shared

    def load(self, blob: bytes) -> None:
        if not blob:
            raise errors.StateError(
                "there is no state", remedy="restore it from a copy of the checkpoint"
            )
        self.evaluator = self.recipe.make(self.lane, Snapshot(shared=blob))


def ordered(rows: pa.Table, partition_by: Sequence[str], order_by: Sequence[OrderKey]) -> Events:
    """Rows of any keys as events of open partitions; ties by content."""
    tie = EVENT if EVENT in rows.column_names else CONTENT
    table, starts = arrange(rows, partition_by, (*order_by, OrderKey(tie)))
    return Events(table, starts, np.zeros(len(starts) - 1, np.bool_))


def named(rows: pa.Table) -> pa.Table:
    """Rows as an evaluator wants them that names its matches (`operator/match_names.py`)."""
    names = [EVENT if name == CONTENT else name for name in rows.column_names]
    return rows.rename_columns(names)


def unnamed(rows: pa.Table) -> pa.Table:
    names = [CONTENT if name == EVENT else name for name in rows.column_names]
    return rows.rename_columns(names)
