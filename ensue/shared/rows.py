"""Row patterns as a workload: conditions tested once, and whole start rows shed under a bound.

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
from ensue.shared.options import Report, Sharing
from ensue.shared.own import joined_plan, own_table
from ensue.shared.recall import Estimate
from ensue.shared.row_budget import ROW_PATTERNS, RowBudget, check_shedding
from ensue.shared.row_pace import BLOCK, Pace
from ensue.shared.row_sample import Drawn, drawn_of, ranked
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
    spread: float = 0.0  # the variance of that, from drawing what is explored
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

    def decided(self, rows: int, tried: int, rates: NDArray[np.float64]) -> None:
        """Start rows of a block were tried; others, of these rates, were shed."""
        self.lost += float(rates.sum())
        self.tried += tried
        self.shed += len(rates)
        self.log.append((rows, tried))

    def explored(self, drawn: Drawn, matched: NDArray[np.bool_]) -> None:
        """Corrects the rates of what was shed by what came of those drawn of it."""
        if not len(drawn.rows):
            return
        off = matched[drawn.rows] - drawn.rates
        each = 1.0 / drawn.chance
        self.lost += (each - 1.0) * float(off.sum())
        # One more that nobody expected: few draws say little of their own variance.
        squares = float((off**2).sum()) + float(drawn.rates.mean())
        self.spread += (1.0 - drawn.chance) * each**2 * squares


@dataclass
class _Block:
    """Rows of which it was decided where matches may start."""

    keys: NDArray[np.int64]
    possible: NDArray[np.bool_]
    keep: NDArray[np.bool_]
    matched: NDArray[np.bool_]
    drawn: Drawn


class SheddingRows(RowsEvaluator):
    """The row evaluator that tries of each block the start rows that are worth most."""

    def __init__(self, pattern: RowPattern, bounds: RowBudget, seed: int = 0) -> None:
        super().__init__()
        self._pattern, self._bounds = pattern, bounds
        self._random = np.random.default_rng(seed)
        self._block: _Block | None = None
        self._tried, self._choosing = 0, 0.0  # of a piece

    def learn(self) -> None:
        """What the last block led to is known."""
        block, self._block = self._block, None
        if block is None:
            return
        self._pattern.sketch.learn(block.keys, block.keep & block.possible, block.matched)
        self._pattern.explored(block.drawn, block.matched)
        if self._bounds.learning:
            self._bounds.learned(self._pattern.name, len(block.keys), int(block.keep.sum()))

    @property
    def _pace(self) -> Pace | None:
        return self._bounds.paces.get(self._pattern.name)

    def _max_rows(self) -> int:
        return BLOCK

    def _insert(self, events: Events) -> Iterator[pa.Table]:
        if (pace := self._pace) is None:
            yield from super()._insert(events)
            return
        rest: Events | None = events
        while rest is not None and rest.table.num_rows:
            most = BLOCK if self._bounds.learning else min(pace.piece, super()._max_rows())
            part, rest = _cut(rest, most)
            self._tried, self._choosing, spent = 0, 0.0, 0.0
            pieces, began = super(RowsEvaluator, self)._insert(part), time.thread_time()
            while (found := next(pieces, None)) is not None:
                spent += time.thread_time() - began
                yield found
                began = time.thread_time()
            spent += time.thread_time() - began
            past = self._bounds.learning
            pace.measured(part.table.num_rows, self._tried, spent, self._choosing, past)

    def _match(self, batch: Batch) -> Iterator[pa.Table]:
        began, pace = time.thread_time(), self._pace
        self.learn()
        if pace is not None and not (pace.sheds or pace.teaches or self._bounds.learning):
            yield from super()._match(batch)
            return
        self._block = block = self._decide(batch)
        self._tried += int(block.keep.sum())
        self._choosing += time.thread_time() - began
        yield from super()._match(KeptStarts.of(batch, block.keep))

    def _output(self, batch: Batch, matches: Matches) -> pa.Table:
        if self._block is not None:  # else this is the shape of no matches
            self._block.matched[matches.match[:, 1]] = True
        return super()._output(batch, matches)

    def _decide(self, batch: Batch) -> _Block:
        pattern, length = self._pattern, batch.length
        keys = pattern.sketch.keys(pattern.planned, batch.columns, length)
        candidates, possible = _starts(batch)
        begins, ends = batch.starts[:-1], batch.starts[1:]
        ahead = np.arange(length) >= np.repeat(batch.cursor[:, 0], ends - begins)
        places = np.flatnonzero(candidates & ahead)
        allowed = self._bounds.allowed(pattern.name, length, len(places))
        rates = np.where(possible[places], pattern.sketch.rate(keys[places]), 0.0)
        here = ranked(rates, possible[places], allowed, self._random)
        (taken,) = row_turns.best([here.order()], allowed)
        keep = np.zeros(length, np.bool_)
        keep[places[taken]] = True
        pattern.decided(length, int(taken.sum()), rates[~taken])
        drawn = drawn_of(here, places, taken)
        return _Block(keys, possible, keep, np.zeros(length, np.bool_), drawn)


def _cut(events: Events, most: int) -> tuple[Events, Events | None]:
    """The first partitions of at most so many rows, or as much of the first one, and the rest."""
    starts, count = events.starts, len(events.complete)
    whole = int(np.searchsorted(starts, most, "right")) - 1
    if whole >= count:
        return events, None
    if whole:
        row = int(starts[whole])
        part = Events(events.table.slice(0, row), starts[: whole + 1], events.complete[:whole])
        return part, Events(events.table.slice(row), starts[whole:] - row, events.complete[whole:])
    part = Events(events.table.slice(0, most), np.array([0, most]), np.zeros(1, np.bool_))
    return part, Events(events.table.slice(most), np.maximum(starts - most, 0), events.complete)


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
            if isinstance(evaluator, SheddingRows):
                evaluator.learn()
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
            here.keep, here.drawn = np.zeros(rows, np.bool_), []
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
            for drawn in here.drawn:
                pattern.explored(drawn, evaluator.matched)
            if end < rows:
                pattern.sketch.learn(here.keys, here.keep & here.possible, evaluator.matched)
    return found


def _candidates(
    pattern: RowPattern, table: pa.Table, starts: NDArray[np.int64]
) -> row_turns.Candidates:
    columns, rows = arrays_of(table), table.num_rows
    possible = _starts(row_turns.whole_batch(pattern.planned, columns, starts))
    keys = pattern.sketch.keys(pattern.planned, columns, rows)
    return row_turns.Candidates(*possible, keys, np.zeros(rows, np.bool_), [])


def _choose(
    patterns: list[RowPattern],
    known: list[row_turns.Candidates],
    stretch: NDArray[np.int64],
    room: int,
    random: np.random.Generator,
) -> int:
    """Marks the start rows of a stretch that are tried; how many they are."""
    asked = sum(int(here.starts[stretch].sum()) for here in known)
    most = max(pattern.weight for pattern in patterns)
    looked, values = [], []
    for pattern, here in zip(patterns, known, strict=True):
        mine = stretch[here.starts[stretch]]
        rate = np.where(here.possible[mine], pattern.sketch.rate(here.keys[mine]), 0.0)
        part = int(room * len(mine) / max(1, asked))
        order = ranked(rate, here.possible[mine], part, random, pattern.weight)
        looked.append((mine, order))
        values.append(order.order(most))
    total = 0
    for pattern, here, (mine, order), taken in zip(
        patterns, known, looked, row_turns.best(values, room), strict=True
    ):
        here.keep[mine[taken]] = True
        tried = int(taken.sum())
        pattern.decided(len(stretch), tried, order.rates[~taken])
        here.drawn.append(drawn_of(order, mine, taken))
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
    if (pace := bounds.paces.get(pattern.name)) is not None:
        pace.begin()
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
        found, lost = pattern.found, max(0.0, pattern.lost)
        spread = 1.96 * pattern.spread**0.5
        recall = low = high = 1.0
        if (total := found + lost) > 0:
            recall, low = found / total, found / (total + spread)
            high = found / max(found, total - spread, 1e-9)
        estimates[pattern.name] = Estimate(found, lost, recall, low, high)
    tried, shed = sum(p.tried for p in patterns), sum(p.shed for p in patterns)
    return Report(estimates, rows, tried, shed, 0, 0, seconds, 0, *free)
