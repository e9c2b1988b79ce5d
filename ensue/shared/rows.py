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
from ensue.operator.arrange import arrange, arrays_of
from ensue.operator.batch import Batch
from ensue.operator.budget import Budget
from ensue.operator.protocol import Events
from ensue.quantities.measures import Matches
from ensue.query.query import Query
from ensue.rows.evaluator import RowsEvaluator
from ensue.shared import row_turns
from ensue.shared.constants import EXPLORE_STARTS
from ensue.shared.options import Options, Report
from ensue.shared.own import joined_plan, own_table
from ensue.shared.recall import Estimate
from ensue.shared.row_budget import BLOCK, ROW_PATTERNS, RowBudget, check_shedding
from ensue.shared.row_sketch import StartSketch
from ensue.shared.row_turns import KeptStarts


class SheddingRows(RowsEvaluator):
    """The row evaluator with a mask of start rows; `decide` makes it."""

    def __init__(
        self,
        decide: Callable[[SheddingRows, Batch], NDArray[np.bool_]],
        learn: Callable[[SheddingRows], None],
    ) -> None:
        super().__init__()
        self._decide = decide
        self._learn = learn
        self.starts: list[NDArray[np.int64]] = []

    def learned(self) -> None:
        """What the last block led to is known."""
        self._learn(self)

    def _max_rows(self) -> int:
        return BLOCK

    def _run(self, batch: Batch, table: pa.Table) -> Iterator[pa.Table]:
        keep = self._decide(self, batch)
        self.starts = []
        yield from super()._run(KeptStarts.of(batch, keep), table)

    def _output(self, batch: Batch, matches: Matches) -> pa.Table:
        self.starts.append(matches.match[:, 1])
        return super()._output(batch, matches)


@dataclass
class _Pattern:
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
    rows: int = 0
    past: int = 0  # matches of the history
    log: list[tuple[int, int]] = field(default_factory=list)  # rows and start rows tried per block

    def begin(self, past: int) -> None:
        """The history is over: what was counted so far does not."""
        self.lost = self.spread = 0.0
        self.tried = self.shed = 0
        self.past = past
        self.log.clear()


def run_rows(
    queries: Mapping[str, Query],
    table: pa.Table,
    options: Options,
    budget: Budget | None,
    prepare: Callable[[Plan, pa.Table], pa.Table],
    finish: Callable[[Plan, pa.Table], pa.Table],
    log: dict[str, list[tuple[int, int]]] | None = None,
    history: pa.Table | None = None,
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
    found: dict[str, pa.Table] = {}
    past = None
    if history is not None and bounds is not None and history.num_rows:
        past = arrange(prepare(joined, history), first.partition_by, first.order_by)
    began, learning = time.thread_time(), 0.0
    opened: list[tuple[_Pattern, pa.Table, RowsEvaluator]] = []
    for name, planned in plans.items():
        own = own_table(joined, planned, arranged)
        pattern, evaluator = new_evaluator(name, planned, bounds, options)
        evaluator.open(planned, own.schema)
        if past is not None and bounds is not None:
            before = time.thread_time()
            teach(pattern, evaluator, bounds, own_table(joined, planned, past[0]), past[1])
            learning += time.thread_time() - before
        pattern.rows = arranged.num_rows
        opened.append((pattern, own, evaluator))
    patterns = [pattern for pattern, _, _ in opened]
    per_row = None if bounds is None else bounds.per_row(past is not None)
    listed: dict[str, list[pa.Table]] = {}
    if per_row is not None and arranged.num_rows:
        order = row_turns.turns(arranged, first)
        tables = [row_turns.numbered(own) for _, own, _ in opened]
        listed = _in_turns(patterns, tables, starts, order, per_row, past is not None, options.seed)
    else:
        complete = np.ones(len(starts) - 1, np.bool_)
        for pattern, own, evaluator in opened:
            listed[pattern.name] = list(evaluator.insert(Events(own, starts, complete)).tables())
            settle(evaluator, pattern)
            pattern.found = evaluator.metrics.matches - pattern.past
    for pattern, own, evaluator in opened:
        pieces = listed[pattern.name] or [evaluator.no_matches(own.schema)]
        found[pattern.name] = finish(pattern.planned, pa.concat_tables(pieces))
        if log is not None:
            log[pattern.name] = pattern.log
    return found, _report(patterns, arranged.num_rows, time.thread_time() - began - learning)


def _in_turns(
    patterns: list[_Pattern],
    tables: list[pa.Table],
    starts: NDArray[np.int64],
    order: NDArray[np.int64],
    per_row: float,
    taught: bool,
    seed: int,
) -> dict[str, list[pa.Table]]:
    """Matches of the start rows that are best in their stretch of time."""
    random = np.random.default_rng(seed)
    rows = len(order)
    known = []
    for pattern, table in zip(patterns, tables, strict=True):
        columns = arrays_of(table)
        possible = _starts(row_turns.whole_batch(pattern.planned, columns, starts))
        keys = pattern.sketch.keys(pattern.planned, columns, rows)
        known.append(row_turns.Candidates(*possible, keys, np.zeros(rows, np.bool_)))
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


def _choose(
    patterns: list[_Pattern],
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
    tried = 0
    for pattern, here, mine, rate, taken in zip(
        patterns, known, places, rates, row_turns.best(values, room), strict=True
    ):
        here.keep[mine[taken]] = True
        gone = ~taken
        pattern.lost += float(rate[gone].sum())
        seen = pattern.sketch.tried[here.keys[mine[gone]]] + 1
        pattern.spread += float((rate[gone] * (1 - rate[gone]) + rate[gone] / seen).sum())
        pattern.tried += int(taken.sum())
        pattern.shed += int(gone.sum())
        pattern.log.append((len(stretch), int(taken.sum())))
        tried += int(taken.sum())
    return tried


def new_evaluator(
    name: str,
    planned: Plan,
    bounds: RowBudget | None,
    options: Options,
    sketch: StartSketch | None = None,
) -> tuple[_Pattern, RowsEvaluator]:
    """The evaluator of one row pattern, and what is known of its run."""
    pattern = _Pattern(name, planned, sketch or StartSketch(), options.weights.get(name, 1.0))
    return pattern, _evaluator(pattern, bounds, options.seed)


def teach(
    pattern: _Pattern,
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
    evaluator.learned()
    bounds.learning = False
    pattern.begin(evaluator.metrics.matches)


def _evaluator(pattern: _Pattern, bounds: RowBudget | None, seed: int) -> RowsEvaluator:
    if bounds is None:
        return RowsEvaluator()
    random = np.random.default_rng(seed)
    last: list[tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_], int, float]] = []

    def learn(evaluator: SheddingRows) -> None:
        """What the block before led to."""
        if not last:
            return
        keys, tried, possible, allowed, began = last.pop()
        hit = np.zeros(len(keys), np.bool_)
        for starts in evaluator.starts:
            hit[starts] = True
        pattern.sketch.learn(keys, tried & possible, hit)
        bounds.measured(
            pattern.name, len(keys), int(tried.sum()), allowed, time.thread_time() - began
        )

    def decide(evaluator: SheddingRows, batch: Batch) -> NDArray[np.bool_]:
        learn(evaluator)
        began = time.thread_time()
        keys = pattern.sketch.keys(pattern.planned, batch.columns, batch.length)
        candidates, possible = _starts(batch)
        ahead = np.concatenate(
            [np.arange(b, e) >= c for b, e, c in zip(batch.starts[:-1], batch.starts[1:],
                                                     batch.cursor[:, 0], strict=True)]
        )  # fmt: skip
        candidates = candidates & ahead
        allowed = bounds.allowed(pattern.name, batch.length, int(candidates.sum()))
        worth = np.where(possible, pattern.sketch.rate(keys), 0.0)
        worth = np.where(random.random(len(worth)) < EXPLORE_STARTS, 1.0 + worth, worth)
        places = np.flatnonzero(candidates)
        order = places[np.argsort(-worth[places], kind="stable")]
        keep = np.zeros(batch.length, np.bool_)
        keep[order[:allowed]] = True
        gone = order[allowed:]
        rates = np.where(possible[gone], pattern.sketch.rate(keys[gone]), 0.0)
        pattern.lost += float(rates.sum())
        pattern.spread += float(
            (rates * (1 - rates) + rates / (pattern.sketch.tried[keys[gone]] + 1)).sum()
        )
        pattern.tried += int(keep.sum())
        pattern.shed += len(gone)
        pattern.log.append((batch.length, int(keep.sum())))
        last.append((keys, keep, possible, allowed, began))
        return keep

    return SheddingRows(decide, learn)


def settle(evaluator: RowsEvaluator, pattern: _Pattern) -> None:
    """Without a bound every start row was tried."""
    if not isinstance(evaluator, SheddingRows):
        pattern.tried = -1


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


def _report(patterns: list[_Pattern], rows: int, seconds: float) -> Report:
    estimates = {}
    for pattern in patterns:
        lost, spread = pattern.lost, 1.96 * pattern.spread**0.5
        total = pattern.found + lost
        estimates[pattern.name] = Estimate(
            pattern.found,
            lost,
            1.0 if total <= 0 else pattern.found / total,
            1.0 if total <= 0 else pattern.found / (total + spread),
            1.0
            if total <= 0
            else min(1.0, pattern.found / max(pattern.found, total - spread, 1e-9)),
        )
    tried = sum(max(0, pattern.tried) for pattern in patterns)
    shed = sum(pattern.shed for pattern in patterns)
    return Report(estimates, rows, tried, shed, 0, 0, seconds, 0)
