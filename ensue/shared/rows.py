"""Row patterns as a workload: conditions asked once, and whole start rows shed under a bound.

A row pattern reports, per start row, the match that is preferred. Shedding inside a start could
make another match preferred, which would be false; so a start row is tried in full or not at all,
and only where matches do not depend on each other (AFTER MATCH SKIP TO NEXT ROW).

*Work* is start rows tried per row of the table: rows that satisfy a first label. What a start row
is worth is learned per pattern from the values that the conditions read in it (binned) and its
partition; one that cannot match by its row-local conditions alone is worth nothing. The best are
tried until the bound is used up. Under a bound on work the rows of all partitions are taken in the
order of time (`row_turns`), where all rows are at hand; else block by block, so that later ones
profit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan, plan
from ensue.automaton.program import ACCEPT, START
from ensue.kernels.automaton import NEVER
from ensue.operator import ties
from ensue.operator.arrange import arrange, arrays_of
from ensue.operator.batch import Batch
from ensue.operator.budget import Budget, Unbounded
from ensue.operator.notices import Notices
from ensue.operator.protocol import Events
from ensue.quantities.measures import Matches
from ensue.query.query import Query
from ensue.rows.evaluator import RowsEvaluator
from ensue.shared import row_turns
from ensue.shared.constants import EXPLORE_STARTS
from ensue.shared.options import Report, Sharing
from ensue.shared.own import joined_plan, own_table
from ensue.shared.recall import Estimate
from ensue.shared.row_budget import BLOCK, ROW_PATTERNS, RowBudget, check_shedding
from ensue.shared.row_sketch import StartSketch
from ensue.shared.row_turns import KeptStarts


@dataclass
class RowPattern:
    """One row pattern while it runs under a bound."""

    name: str
    planned: Plan
    sketch: StartSketch
    weight: float
    found: int = 0
    lost: float = 0.0
    spread: float = 0.0
    tried: int = 0
    shed: int = 0
    past: int = 0  # matches of the history
    log: list[tuple[int, int]] = field(default_factory=list)  # rows and start rows tried per block

    def begin(self, past: int) -> None:
        """The history is over: what was counted so far does not."""
        self.lost = self.spread = 0.0
        self.tried = self.shed = 0
        self.past = past
        self.log.clear()

    def decided(
        self, rows: int, tried: int, shed: NDArray[np.int64], rates: NDArray[np.float64]
    ) -> None:
        """Start rows of a block were tried; others were shed, of these keys and rates."""
        seen = self.sketch.tried[shed] + 1
        self.lost += float(rates.sum())
        self.spread += float((rates * (1 - rates) + rates / seen).sum())
        self.tried += tried
        self.shed += len(shed)
        self.log.append((rows, tried))


@dataclass
class _Block:
    """Rows of which it was decided where matches may start."""

    keys: NDArray[np.int64]
    possible: NDArray[np.bool_]
    keep: NDArray[np.bool_]
    matched: NDArray[np.bool_]
    began: float


class SheddingRows(RowsEvaluator):
    """The row evaluator that tries of each block the start rows that are worth most."""

    def __init__(self, pattern: RowPattern, bounds: RowBudget, seed: int = 0) -> None:
        super().__init__()
        self._pattern, self._bounds = pattern, bounds
        self._random = np.random.default_rng(seed)
        self._block: _Block | None = None

    def learn(self) -> None:
        """What the last block led to is known."""
        block, self._block = self._block, None
        if block is None:
            return
        self._pattern.sketch.learn(block.keys, block.keep & block.possible, block.matched)
        spent, tried = time.thread_time() - block.began, int(block.keep.sum())
        self._bounds.measured(self._pattern.name, len(block.keys), tried, spent)

    def _max_rows(self) -> int:
        return BLOCK

    def _match(self, batch: Batch) -> Iterator[pa.Table]:
        self.learn()
        self._block = block = self._decide(batch)
        yield from super()._match(KeptStarts.of(batch, block.keep))

    def _output(self, batch: Batch, matches: Matches) -> pa.Table:
        if self._block is not None:  # else this is the shape of no matches
            self._block.matched[matches.match[:, 1]] = True
        return super()._output(batch, matches)

    def _decide(self, batch: Batch) -> _Block:
        began = time.thread_time()
        pattern, length = self._pattern, batch.length
        keys = pattern.sketch.keys(pattern.planned, batch.columns, length)
        candidates, possible = _starts(batch)
        ahead = np.concatenate(
            [np.arange(b, e) >= c for b, e, c in zip(batch.starts[:-1], batch.starts[1:],
                                                     batch.cursor[:, 0], strict=True)]
        )  # fmt: skip
        places = np.flatnonzero(candidates & ahead)
        allowed = self._bounds.allowed(pattern.name, length, len(places))
        rates = np.where(possible, pattern.sketch.rate(keys), 0.0)
        worth = np.where(self._random.random(length) < EXPLORE_STARTS, 1.0 + rates, rates)
        order = places[np.argsort(-worth[places], kind="stable")]
        keep = np.zeros(length, np.bool_)
        keep[order[:allowed]] = True
        shed = order[allowed:]
        pattern.decided(length, int(keep.sum()), keys[shed], rates[shed])
        return _Block(keys, possible, keep, np.zeros(length, np.bool_), began)


def run_rows(
    queries: Mapping[str, Query],
    table: pa.Table,
    options: Sharing,
    budget: Budget | None,
    prepare: Callable[[Plan, pa.Table], pa.Table],
    finish: Callable[[Plan, pa.Table], pa.Table],
    log: dict[str, list[tuple[int, int]]] | None = None,
    history: pa.Table | None = None,
    notices: Notices | None = None,
) -> tuple[dict[str, pa.Table], Report | None]:
    """The matches of each pattern; `log` receives the work of each block."""
    plans = {name: plan(query) for name, query in queries.items()}
    bounds = None
    if budget is not None:
        check_shedding(queries, plans)
        bounds = RowBudget(ROW_PATTERNS.read(budget, queries), tuple(queries), options.part)
    joined = joined_plan(list(plans.values()))
    first = next(iter(queries.values()))
    arranged, starts = arrange(prepare(joined, table), first.partition_by, first.order_by)
    ties.check(joined, arranged, notices or Notices())
    found: dict[str, pa.Table] = {}
    past = None
    if history is not None and bounds is not None and history.num_rows:
        past = arrange(prepare(joined, history), first.partition_by, first.order_by)
    began, learning = time.thread_time(), 0.0
    opened: list[tuple[RowPattern, pa.Table, RowsEvaluator]] = []
    for name, planned in plans.items():
        own = own_table(joined, planned, arranged)
        pattern, evaluator = new_evaluator(name, planned, bounds, options)
        evaluator.open(planned, own.schema)
        if past is not None and bounds is not None:
            before = time.thread_time()
            teach(pattern, evaluator, bounds, own_table(joined, planned, past[0]), past[1])
            learning += time.thread_time() - before
        opened.append((pattern, own, evaluator))
    patterns = [pattern for pattern, _, _ in opened]
    listed: dict[str, list[pa.Table]] = {}
    if bounds is not None and bounds.of_work and arranged.num_rows:
        order = row_turns.turns(arranged, first)
        tables = [row_turns.numbered(own) for _, own, _ in opened]
        known = [_candidates(*each, starts) for each in zip(patterns, tables, strict=True)]
        per_row = bounds.per_row(sum(int(c.starts.sum()) for c in known) / len(order))
        taught = past is not None
        listed = _in_turns(patterns, tables, known, starts, order, per_row, taught, options.seed)
    else:
        complete = np.ones(len(starts) - 1, np.bool_)
        for pattern, own, evaluator in opened:
            listed[pattern.name] = list(evaluator.insert(Events(own, starts, complete)).tables())
            pattern.found = evaluator.metrics.matches - pattern.past
    for pattern, own, evaluator in opened:
        pieces = listed[pattern.name] or [evaluator.no_matches(own.schema)]
        found[pattern.name] = finish(pattern.planned, pa.concat_tables(pieces))
        if log is not None:
            log[pattern.name] = pattern.log
    rows, seconds = arranged.num_rows, time.thread_time() - began - learning
    free = Unbounded() if bounds is None else bounds.unbounded(rows)
    return found, _report(patterns, rows, seconds, free)


def _in_turns(
    patterns: list[RowPattern],
    tables: list[pa.Table],
    known: list[row_turns.Candidates],
    starts: NDArray[np.int64],
    order: NDArray[np.int64],
    per_row: float,
    taught: bool,
    seed: int,
) -> dict[str, list[pa.Table]]:
    """Matches of the start rows that are best in their stretch of time."""
    random = np.random.default_rng(seed)
    rows = len(order)
    found: dict[str, list[pa.Table]] = {pattern.name: [] for pattern in patterns}
    part = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    matched = {pattern.name: np.zeros(len(starts) - 1, np.int64) for pattern in patterns}
    left = 0.0
    for begin, end in row_turns.stages(rows, taught):
        for here in known:
            here.keep = np.zeros(rows, np.bool_)
        for place in range(begin, end, BLOCK):
            stretch = order[place : min(place + BLOCK, end)]
            room = per_row * len(stretch) + left
            left = room - _choose(patterns, known, stretch, int(room), random)
            left = min(left, BLOCK / 2)
        for pattern, table, here in zip(patterns, tables, known, strict=True):
            evaluator = row_turns.ChosenRows(here.keep, part, matched[pattern.name])
            evaluator.open(pattern.planned, table.schema)
            complete = np.ones(len(starts) - 1, np.bool_)
            found[pattern.name] += evaluator.insert(Events(table, starts, complete)).tables()
            pattern.found += evaluator.metrics.matches
            np.add.at(matched[pattern.name], part[evaluator.matched], 1)
            if end < rows:
                pattern.sketch.learn(here.keys, here.keep & here.possible, evaluator.matched)
    return found


def _candidates(
    pattern: RowPattern, table: pa.Table, starts: NDArray[np.int64]
) -> row_turns.Candidates:
    columns, rows = arrays_of(table), table.num_rows
    possible = _starts(row_turns.whole_batch(pattern.planned, columns, starts))
    keys = pattern.sketch.keys(pattern.planned, columns, rows)
    return row_turns.Candidates(*possible, keys, np.zeros(rows, np.bool_))


def _choose(
    patterns: list[RowPattern],
    known: list[row_turns.Candidates],
    stretch: NDArray[np.int64],
    room: int,
    random: np.random.Generator,
) -> int:
    """Marks the start rows of a stretch that are tried; how many they are."""
    places, rates, values = [], [], []
    for pattern, here in zip(patterns, known, strict=True):
        mine = stretch[here.starts[stretch]]
        rate = np.where(here.possible[mine], pattern.sketch.rate(here.keys[mine]), 0.0)
        explored = random.random(len(mine)) < EXPLORE_STARTS
        places.append(mine)
        rates.append(rate)
        values.append(pattern.weight * np.where(explored & here.possible[mine], 1.0 + rate, rate))
    total = 0
    for pattern, here, mine, rate, taken in zip(
        patterns, known, places, rates, row_turns.best(values, room), strict=True
    ):
        here.keep[mine[taken]] = True
        tried = int(taken.sum())
        pattern.decided(len(stretch), tried, here.keys[mine[~taken]], rate[~taken])
        total += tried
    return total


def new_evaluator(
    name: str,
    planned: Plan,
    bounds: RowBudget | None,
    options: Sharing,
    sketch: StartSketch | None = None,
) -> tuple[RowPattern, RowsEvaluator]:
    """The evaluator of one row pattern, and what is known of its run."""
    pattern = RowPattern(name, planned, sketch or StartSketch(), options.weights.get(name, 1.0))
    if bounds is None:
        return pattern, RowsEvaluator()
    return pattern, SheddingRows(pattern, bounds, options.seed)


def teach(
    pattern: RowPattern,
    evaluator: RowsEvaluator,
    bounds: RowBudget,
    past: pa.Table,
    starts: NDArray[np.int64],
) -> None:
    """Rows of the past, every start row tried: the sketch and the bounds learn from them."""
    assert isinstance(evaluator, SheddingRows)
    bounds.learning = True
    for _ in evaluator.insert(Events(past, starts, np.ones(len(starts) - 1, np.bool_))).tables():
        pass
    evaluator.learn()
    bounds.learning = False
    pattern.begin(evaluator.metrics.matches)


def _starts(batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows that satisfy a first label, and those from which the row parts allow a match."""
    program = batch.plan.program
    words = batch.label_bits()
    least = batch.viability()
    limits = Batch.window_limits(batch)
    reach = limits if len(limits) else np.full(batch.length, NEVER - 1, np.int32)
    candidates = np.zeros(batch.length, np.bool_)
    possible = np.zeros(batch.length, np.bool_)
    for target, _ in program.arcs_of(START):
        if target == ACCEPT:
            continue
        label = int(program.label[target])
        candidates |= (words[:, label >> 6] >> np.uint64(label & 63) & np.uint64(1)).astype(
            np.bool_
        )
        possible |= least[:, target] <= np.minimum(reach, NEVER - 1)
    return candidates, possible


def _report(patterns: list[RowPattern], rows: int, seconds: float, free: Unbounded) -> Report:
    estimates = {}
    for pattern in patterns:
        found, lost, spread = pattern.found, pattern.lost, 1.96 * pattern.spread**0.5
        recall = low = high = 1.0
        if (total := found + lost) > 0:
            recall, low = found / total, found / (total + spread)
            high = found / max(found, total - spread, 1e-9)
        estimates[pattern.name] = Estimate(found, lost, recall, low, high)
    tried, shed = sum(p.tried for p in patterns), sum(p.shed for p in patterns)
    return Report(estimates, rows, tried, shed, 0, 0, seconds, 0, *free)
