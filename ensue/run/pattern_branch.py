"""One pattern in a matcher: its matches come, and go where later events disprove them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import plan
from ensue.operator.budget import Budget
from ensue.operator.buffer import numbers
from ensue.operator.changes import Changes
from ensue.operator.clock import HIGHEST, LOWEST
from ensue.operator.match_names import EVENTS, HIGH, LOW
from ensue.operator.prepare import finish
from ensue.operator.protocol import Events, Key, Metrics
from ensue.operator.replay import Replay
from ensue.operator.settle import Settle
from ensue.operator.straight import Ordered, Straight
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.rows.pieces import PiecewiseRows
from ensue.run import choose
from ensue.run.branch import NEW, Branch, Names, Options, Seeds, prepared, with_hidden


class PatternBranch(Branch):
    """See the module."""

    stage: Replay | Straight

    def __init__(
        self,
        name: str,
        query: Query,
        schema: pa.Schema,
        options: Options,
        begin: int = LOWEST,
        end: int = HIGHEST,
    ) -> None:
        super().__init__({name: query}, begin, end)
        self._identity = options.identity
        self._bound = rules.check(bind(query, schema.names))
        self.plan = plan(self._bound)
        ready = prepared(self.plan, with_hidden(schema), self._identity)
        self.evaluator: Ordered
        self._under: Metrics | None = None
        settling = options.settle is not None
        if options.budget is not None:
            self._open_under(options.budget, ready.schema, options.correctable)
        else:
            self._open_exact(ready.schema, options.correctable, settling)
        nothing = self.evaluator.no_matches(ready.schema)
        self._settle: Settle | None = None
        if settling and isinstance(self.stage, Replay):
            self._settle = Settle(self.stage.nothing)
        self._seeds = Seeds(name, self._bound)
        (self.nothing,) = self._shaped(nothing, NEW)

    def _open_under(self, budget: Budget, schema: pa.Schema, correctable: bool) -> None:
        refuse_corrections(correctable)
        evaluator = choose.best_effort()
        evaluator.open(self.plan, schema, budget)
        self.evaluator, self._under = evaluator, evaluator.metrics
        self.reason = "events missing under a budget: the most promising partial matches"
        self.stage = Straight(evaluator, evaluator.no_matches(schema))

    def _open_exact(self, schema: pa.Schema, correctable: bool, settling: bool) -> None:
        choice = choose.for_matcher(self.plan)
        evaluator, self.reason = choice.evaluator, choice.reason
        evaluator.open(self.plan, schema)
        if isinstance(evaluator, PiecewiseRows):
            self.reason = f"rows ({evaluator.engine.name}): {evaluator.engine.reason}"
        self.evaluator = evaluator
        stage = choose.for_corrections(evaluator, self.plan, schema, correctable, settling)
        self.stage, self.reason = stage.evaluator, self.reason + stage.reason

    @property
    def partitions(self) -> int:
        return len(self.evaluator.tails.held)

    @property
    def nbytes(self) -> int:
        return self.evaluator.tails.nbytes

    @property
    def metrics(self) -> Metrics | None:
        return self._under

    def _ready(self, events: Events) -> Events:
        return replace(events, table=prepared(self.plan, events.table, self._identity))

    # -- changes out -----------------------------------------------------------------------------

    def end(self, keys: Sequence[Key] | None = None, names: Names = None) -> list[pa.Table]:
        found = super().end(keys, names)
        if self._settle is not None:
            found += self._shaped(self._settle.release_all(names), NEW)
        return found

    @property
    def settling(self) -> int:
        return 0 if self._settle is None else len(self._settle)

    def to_bytes(self) -> list[bytes]:
        return [self.stage.to_bytes(), b"" if self._settle is None else self._settle.to_bytes()]

    def restore(self, blobs: Sequence[bytes], code: int, time: Any, limit: int) -> None:
        super().restore(blobs, code, time, limit)
        if self._settle is not None:
            self._settle.restore(blobs[1])

    def _let_out(self, changes: Changes) -> Changes:
        return changes if self._settle is None else self._settle.take(changes, self._limit)

    def _shaped(self, found: pa.Table, op: str) -> list[pa.Table]:
        found = found.combine_chunks()
        shown = listed(finish(self.plan, found), found)
        high, low = (numbers(found, name).view(np.uint64) for name in (HIGH, LOW))
        return [self._seeds.changes(shown, op, (high, low))]


def listed(shown: pa.Table, found: pa.Table) -> pa.Table:
    """The plain listing with times and ids in place of numbers of rows, which shift."""
    if EVENTS not in found.column_names:
        return shown
    shown = shown.drop_columns(["match_number"])
    place = shown.schema.get_field_index("events")
    return shown.set_column(place, "events", found.column(EVENTS))


def refuse_corrections(correctable: bool) -> None:
    if correctable:
        raise errors.UnsupportedError(
            "under a budget nothing can be taken back: what was learnt and shed since cannot be "
            "undone",
            remedy="say speculation=0, or leave the budget out",
        )
