"""Complete partitions of a workload: one by one on merged states, or by the shared plan.

What is cheaper without a bound, and whether the exact answer fits into one, is decided here; the
rules are those of `merged.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.automaton.share import Union
from ensue.operator.budget import Bound
from ensue.operator.protocol import Metrics
from ensue.sequences.output import Found
from ensue.shared.absences import proved
from ensue.shared.calibrate import (
    Stretch,
    allowed_by,
    calibrate,
    partitions,
    sampled,
    stretch_of,
)
from ensue.shared.constants import LEAST_BOUND, SHEDDING
from ensue.shared.controller import ROWS, SECONDS, WORK
from ensue.shared.engine import Engine
from ensue.shared.listing import BatchTables, PatternTables, numbered
from ensue.shared.merged import EARLY, FEW, Allowance, Merged, TooDearError, Trial
from ensue.shared.options import Sharing
from ensue.shared.partials import MANY, Partials
from ensue.shared.prepare import TooLargeError
from ensue.shared.starts import Starts, Thinned


class Complete:
    """See the module; the evaluator of open partitions builds on it."""

    engine: Engine
    _plan: Plan
    _ready_schema: pa.Schema
    _partials: Partials
    _tables: PatternTables

    def __init__(self, union: Union, options: Sharing) -> None:
        self.union, self.options = union, options
        self.metrics = Metrics()
        self._reported = 0
        self._apart: bool | None = None  # patterns are matched one by one; None: not chosen yet
        self._in_vain = False  # the exact answer was tried under the bound, and did not fit
        self._dear = False  # nor did it in the least time that an event takes under a bound
        self.thinned = [Thinned() for _ in union.members]  # start rows, on merged states
        self.parts: dict[str, list[Found]] = {}  # patterns whose matches are kept, not put out

    def _complete(
        self, table: pa.Table, starts: NDArray[np.int64]
    ) -> Iterator[tuple[int, pa.Table]]:
        """Complete partitions: one by one on merged states, or by the shared plan."""
        try:
            if self.engine.controller.active:
                exact = self._within(table, starts)
                yield from self._together(table, starts) if exact is None else exact
            elif self._apart is None and self.options.merge and self.options.share:
                yield from self._cheapest(table, starts)
            else:
                yield from (self._alone if self._apart else self._together)(table, starts)
        except TooLargeError:
            yield from self._alone(table, starts)

    def _cheapest(
        self, table: pa.Table, starts: NDArray[np.int64]
    ) -> Iterator[tuple[int, pa.Table]]:
        """Chooses the way by what the shared plan needs for its first rows."""
        members, control = self.union.members, self.engine.controller
        if len(members) < FEW and not self.parts and self._merged.compiled:
            self._apart = True
            yield from self._alone(table, starts)
            return
        trial = Trial(table.num_rows, len(members))
        before = self.metrics.matches, self._reported, control.found.copy(), control.totals.copy()
        pieces = self._together(table, starts, trial)
        held: list[tuple[int, pa.Table]] = []
        try:
            while not trial.over and (piece := next(pieces, None)) is not None:
                held.append(piece)
        except TooDearError:
            if self.parts:
                raise  # whole patterns are matched alone, and these are cut
            self.metrics.matches, self._reported, control.found, control.totals = before
            self._partials = self.engine.partials(MANY)
            self._apart = self._merged.compiled
            yield from (self._alone if self._apart else self._together)(table, starts)
            return
        self._apart = False
        yield from held
        yield from pieces

    @cached_property
    def _merged(self) -> Merged:
        most = self.options.max_matches
        return Merged(self.union, self._plan, self._ready_schema, most)

    def _alone(
        self, table: pa.Table, starts: NDArray[np.int64], allowed: Allowance | None = None
    ) -> Iterator[tuple[int, pa.Table]]:
        """Each pattern by itself: exact, also where a number does not fit 64 bits."""
        control = self.engine.controller
        if control.active and allowed is None:
            raise errors.OverflowDataError(
                "a number in a condition over other events does not fit 64 bits, and exact "
                "evaluation takes no budget",
                remedy="leave the budget out, or cast to DOUBLE",
            )
        effort = allowed or Allowance(table.num_rows, len(self.union.members))
        for index, piece in self._merged.run(table, starts, effort):
            self._count(index, piece.num_rows)
            yield index, piece
        control.totals[[ROWS, WORK, SECONDS]] += (table.num_rows, *effort.used)

    def _within(
        self, table: pa.Table, starts: NDArray[np.int64]
    ) -> list[tuple[int, pa.Table]] | None:
        """The exact answer, where it fits into the bound; None where the bound has to be kept."""
        control = self.engine.controller
        merging = control.whole and self.options.merge and not self._in_vain
        merging = merging and self._merged.compiled
        if merging and control.only_timed and self._merged.thinnable:
            return self._thinned(table, starts)
        if merging and control.calibrating and control.only_timed and not self._dear:
            most = SHEDDING if self._measurable(table, starts) else math.inf
            exact = self._tried(table, starts, math.inf, most, 1.0)
            if exact is not None:
                control.cheap(math.isfinite(most))
                return exact
            self._dear = True
        if control.calibrating and not control.totals[ROWS]:
            calibrate(self.engine, table, starts, self.options.seed)
        if not merging:
            return None
        stretch, allowed = stretch_of(self.engine, table, starts), control.allowed()
        if allowed is None and stretch is not None:
            allowed = allowed_by(self.engine, stretch)
        if allowed is None:
            return None
        if math.isfinite(allowed[0]):  # trying in vain is work, too
            self._in_vain = self._needed(table, starts, stretch) > allowed[0]
            if self._in_vain:
                return None
        exact = self._tried(table, starts, allowed[0], allowed[1])
        self._in_vain = exact is None
        return exact

    def _thinned(self, table: pa.Table, starts: NDArray[np.int64]) -> list[tuple[int, pa.Table]]:
        """On merged states, without the start rows for which there is no time."""
        control, rows = self.engine.controller, len(table)
        allowed = control.allowed()
        bound = Bound(control.share, share=True)
        if allowed is not None:
            bound = Bound(max(allowed[1], LEAST_BOUND))
        self._merged.load(table)
        effort = Starts(rows, self.thinned, bound, SHEDDING, self.options.seed)
        left = sum(each.left for each in self.thinned)
        found = list(self._alone(table, starts, effort))
        tried, now_left = (sum(getattr(e, n) for e in self.thinned) for n in ("tried", "left"))
        if now_left > left:
            limit = math.inf if allowed is None else bound.amount
            control.thinned(tried, now_left, effort.seconds / rows, limit)
        elif allowed is None:
            control.cheap(True)
        else:
            control.exceeded(rows, effort.seconds, bound.amount)
        return found

    def _measurable(self, table: pa.Table, starts: NDArray[np.int64]) -> bool:
        """Whether some of the rows tell what a share is of, or following each partial match pays.

        Elsewhere the exact answer is the run without a bound, and anything else would take longer.
        """
        if len(self.union.members) >= FEW or len(sampled(starts, self.options.seed)):
            return True
        return stretch_of(self.engine, table, starts) is not None

    def _tried(
        self,
        table: pa.Table,
        starts: NDArray[np.int64],
        work: float,
        seconds: float,
        early: float = EARLY,
    ) -> list[tuple[int, pa.Table]] | None:
        """The exact answer, where it takes no more per row."""
        control, rows = self.engine.controller, table.num_rows
        if math.isfinite(seconds):
            self._merged.load(table)
        most = rows * work, rows * max(seconds, LEAST_BOUND)
        effort = Allowance(rows, len(self.union.members), *most, early)
        counted, found = (self.metrics.matches, self._reported), control.found.copy()
        try:
            exact = list(self._alone(table, starts, effort))
            control.exceeded(rows, effort.seconds, seconds)
            return exact
        except TooDearError:
            control.found = found
            self.metrics.matches, self._reported = counted
            control.tried(rows, *effort.used)
            return None

    def _needed(self, table: pa.Table, starts: NDArray[np.int64], stretch: Stretch | None) -> float:
        """Work per row of the exact answer: of a stretch, or of the sampled partitions."""
        if stretch is not None:
            return self._merged.work(stretch.table, stretch.starts, stretch.window)
        chosen = sampled(starts, self.options.seed)
        if not len(chosen):
            return math.inf
        return self._merged.work(*partitions(table, starts, chosen))

    def _together(
        self, table: pa.Table, starts: NDArray[np.int64], trial: Trial | None = None
    ) -> Iterator[tuple[int, pa.Table]]:
        """By the shared plan."""
        partials = self._partials
        partials.rewind()
        numbers: dict[int, NDArray[np.int64]] = {}
        listing = BatchTables(self._tables, table, starts)
        prepared = self.engine.prepare(table, starts, partials.nodes())
        chained = self.engine.run(prepared, partials, int(starts[-1]), True, trial)
        for chains in proved(chained, self.union, table, starts):
            for index, found in listing.by_pattern(chains):
                name = self.union.members[index].name
                if name in self.parts:
                    self.parts[name].append(found)
                    continue
                known = numbers.setdefault(index, np.zeros(len(starts) - 1, np.int64))
                found.number = numbered(found.partition, known)
                yield index, listing.table(index, found)
        for index, found in listing.strategies():
            yield index, listing.table(index, found)

    def _count(self, index: int, matches: int) -> None:
        self.metrics.matches += matches
        self._reported += matches
        self.engine.controller.found[index] += matches
        if self._reported > self.options.max_matches:
            raise errors.LimitError(
                f"there are more than {self.options.max_matches:,} matches",
                remedy="bound the patterns with within(...), ask for an aggregate, or raise "
                "max_matches",
            )
