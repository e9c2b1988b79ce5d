"""The patterns of a workload one by one, on merged states: exact, and mostly cheaper than sharing.

A shared plan follows every partial match by itself. The evaluator of a single pattern follows
classes: partial matches at the same place that remember the same are one state with back pointers
(`sequences/kernels/runs.py`), so its work does not grow with their number. Sharing pays where many
patterns have much in common and windows hold few partial matches.

- Without a bound: a few patterns are matched one by one; of more, the shared plan is tried on the
  first rows, and kept where it needs less than each pattern needs for its rows alone. The rule
  counts work and reads no clock, so that equal rows give equal numbers of matches.
- Under a bound on time or work as a whole, the exact answer is tried first (`Allowance`): it is
  given where it fits, and given up as soon as what it has cost is beyond its share of the rows.
  Where shedding alone would take longer than the bound allows, it may take as long as that; so a
  share of the time is not even measured where the exact answer takes less (`LEAST_BOUND`).

What follows partial matches in plain Python (after-match strategies, a trailing absence) is left
to the shared plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.automaton.share import Member, Union
from ensue.operator.as_of import AS_OF
from ensue.operator.listing import Listing
from ensue.operator.protocol import Events
from ensue.sequences.evaluator import SequencesEvaluator
from ensue.sequences.match_graph import Effort
from ensue.shared.own import own_table

# Nanoseconds that decide which way is cheaper, by cProfile and perf on DS1 and the streams of
# `benchmarks/sharp_promises.py`; only their ratios count.
UNIT = 70.0  # a partial match of the shared plan asked about an event
SHARED_ROW = 700.0  # of the shared plan, beside its work
OWN_ROW = 500.0  # of a pattern by itself
OWN_START = 4e6  # what a pattern by itself costs before its first row
FEW = 4  # patterns: fewer share too little to make up for a state per partial match
SETTLED = 1000  # rows of a trial, at least
SHORT = 16  # a trial takes this part of the rows, and of what the patterns by themselves need
STRIDE = 1 << 12  # visits between two looks at the allowance
EARLY = 1 / 16  # of an allowance may be used before the rows say how far it goes
UNEVEN = 1.25  # a pattern may cost so many times its share, while others are still to come


class TooDearError(Exception):
    """It costs more than it may."""


class Allowance(Effort):
    """What the exact answer may cost over so many rows: work, and CPU seconds."""

    def __init__(
        self,
        rows: int,
        patterns: int,
        work: float = math.inf,
        seconds: float = math.inf,
        early: float = EARLY,
    ) -> None:
        super().__init__()
        self._early = early
        self._allowed = (work, seconds)
        self._rows, self._left = rows, patterns
        self._matches = self._row = 0
        self._limits = self._before = (0.0, 0.0)  # of the pattern, and what those before it used

    @property
    def used(self) -> tuple[float, float]:
        """A visit is one unit of work, and listing a match is another."""
        return float(self.visits[0] + self._matches), self.seconds

    def begin(self) -> None:
        """The next pattern has its part of what is left, and the last one all of it."""
        part = min(1.0, max(self._early, UNEVEN / self._left))
        self._left, self._row, self._before = self._left - 1, 0, self.used
        allowed = zip(self._allowed, self._before, strict=True)
        work, seconds = ((whole - used) * part for whole, used in allowed)
        self._limits = work, seconds
        self.visits[1] = self.visits[0] + STRIDE

    def end(self) -> None:
        """All patterns are through."""

    def listed(self, matches: int) -> None:
        self._matches += matches
        self.check()

    def spent(self, seconds: float, row: int) -> None:
        super().spent(seconds, row)
        self._row = max(self._row, row)
        self.visits[1] = self.visits[0] + STRIDE
        self.check()

    def check(self) -> None:
        """Raises where more was used than the rows so far may have cost."""
        part = min(1.0, self._early + self._row / max(1, self._rows))
        for used, before, limit in zip(self.used, self._before, self._limits, strict=True):
            if used - before > part * limit:
                raise TooDearError


class Merged:
    """See the module; over complete partitions."""

    loaded = False  # the kernels, by this process

    def __init__(self, union: Union, joined: Plan, schema: pa.Schema, max_matches: int) -> None:
        self._union, self._joined = union, joined
        self._evaluators: list[SequencesEvaluator] = []
        empty = schema.empty_table()
        for member in union.members:
            evaluator = SequencesEvaluator(Listing(max_matches=max_matches, per_call=True))
            evaluator.open(member.plan, self._own(member, empty).schema)
            self._evaluators.append(evaluator)

    def _own(self, member: Member, table: pa.Table) -> pa.Table:
        """The columns of a pattern's plan, and the time by which the rows are judged."""
        own = own_table(self._joined, member.plan, table)
        if AS_OF not in table.column_names:
            return own
        return own.append_column(AS_OF, table.column(AS_OF))

    @property
    def compiled(self) -> bool:
        """Whether kernels follow every pattern; elsewhere the shared plan is the faster one."""
        return all(evaluator.compiled for evaluator in self._evaluators)

    @property
    def thinnable(self) -> bool:
        """Whether start rows of every pattern can be left out (`starts.py`)."""
        return all(evaluator.thinnable for evaluator in self._evaluators)

    def load(self, table: pa.Table) -> None:
        """Loads the kernels by a row, so that no bound on time pays for it."""
        if not Merged.loaded and table.num_rows:
            Merged.loaded = True
            self.work(table.slice(0, 1), np.array([0, 1], np.int64))

    def run(
        self, table: pa.Table, starts: NDArray[np.int64], effort: Allowance
    ) -> Iterator[tuple[int, pa.Table]]:
        """Matches per pattern (its index); TooDearError where they cost more than they may."""
        complete = np.ones(len(starts) - 1, np.bool_)
        for index, (member, evaluator) in enumerate(
            zip(self._union.members, self._evaluators, strict=True)
        ):
            effort.begin()
            evaluator.effort = effort
            own = self._own(member, table)
            for found in evaluator.insert(Events(own, starts, complete)).tables():
                effort.listed(found.num_rows)
                yield index, found
        effort.end()

    def work(self, table: pa.Table, starts: NDArray[np.int64], window: int = 0) -> float:
        """Of a row; of a single partition, of those behind its first `window` rows."""
        before = 0.0
        if window:
            before = self._whole(table.slice(0, window), np.array([0, window], np.int64))
        return (self._whole(table, starts) - before) / max(1, len(table) - window)

    def _whole(self, table: pa.Table, starts: NDArray[np.int64]) -> float:
        effort = Allowance(len(table), len(self._evaluators))
        for _ in self.run(table, starts, effort):
            pass
        return effort.used[0]


class Trial:
    """The first rows of the shared plan: whether it pays, by the work that they need."""

    def __init__(self, rows: int, patterns: int) -> None:
        self._rows = self._settled = rows
        # What the patterns by themselves cost where there is not a single partial match.
        self._least = patterns * (OWN_START + rows * OWN_ROW)
        self._half = 0, 0  # row and work in the middle of the trial
        self.over = False

    def stops(self, begin: int, stop: int, window: int) -> Iterator[int]:
        """Rows after which the kernel comes back: two windows long often, and then at the end."""
        self._settled = min(stop, max(SETTLED, stop // SHORT, 2 * window))
        step = 128
        while begin < self._settled:
            begin = min(begin + step, self._settled)
            yield begin
            step = min(1024, 2 * step)
        if begin < stop or begin == 0:
            yield stop

    def check(self, row: int, work: int) -> None:
        """TooDearError where the patterns by themselves are cheaper."""
        if self.over:
            return
        self.over = row >= self._rows
        if not self.over and work * UNIT > self._least / SHORT:
            raise TooDearError
        if row < self._settled // 2:
            self._half = row, work
        elif row >= self._settled and not self.over:
            begun, before = self._half
            whole = work + (work - before) / (row - begun) * (self._rows - row)
            if whole * UNIT + self._rows * SHARED_ROW > self._least:
                raise TooDearError
            self.over = True
