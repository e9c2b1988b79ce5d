"""Start rows left out on merged states, where the exact answer takes longer than it may.

A class of merged partial matches stands for those of many starts, so giving up a class would lose
a part of each. What is left out are whole starts: no match begins at the row, all that begin at the
others are found, none is false, and following fewer starts never costs more. (Partial matches that
begin elsewhere do not see the difference, since only patterns whose first labels no later step
takes are thinned.)

The run begins as the exact one, and nothing of it is thrown away. What the starts so far have cost,
each by the part of its window that is over, says what they still will, and what those ahead will:
where that is too much, only so many of them are tried that the time which is left suffices, those
first whose values led to the most matches (`row_sketch.py`). A part of them is drawn at random,
whatever they are worth: what they lead to tells what the others lost (`operator/sampled.py`). A
share of the unbounded run is one of what the same model says of it.

On merged states starts share work, so half of them cost more than half of the time; and where most
of the time is output, no choice finds a greater part of the matches than it has of the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.operator.budget import Bound
from ensue.operator.sampled import Sample
from ensue.sequences.batch import EventBatch
from ensue.sequences.match_graph import Graph
from ensue.shared.merged import OWN_ROW, STRIDE, UNEVEN, Allowance
from ensue.shared.recall import Estimate
from ensue.shared.row_sample import TIES
from ensue.shared.row_sketch import StartSketch
from ensue.shared.row_turns import best

LEAST_SECONDS = 1e-3  # of a pattern: less tells nothing of what the rest will take
PART = 1 / 64  # of the rows that are matched before anything is judged
GROWTH = 2.0  # what has begun costs this power of the part of its window that is over
OFTEN = 4  # decisions per window, and per batch, at least
LEAST_ROWS, MOST_ROWS = 64, STRIDE  # between two of them
EARLY = 0.25  # of the time (of a share: that an exact answer may take) before any is left out
LEAST_OF_STARTS = 0.1  # of the time is for following what began
LEAST_STARTS = 0.01  # of the start rows are tried in any case
AHEAD = 2 * STRIDE  # start rows decided at a time, more than the rows until the next decision
DRAWN = 0.25  # of those that are tried are drawn at random
SAFE = 0.97  # of the time is aimed at


@dataclass
class Thinned:
    """What is known of the start rows of one pattern, and what was left out."""

    sketch: StartSketch = field(default_factory=StartSketch)
    tried: int = 0
    left: int = 0
    sure: int = 0  # matches of start rows of which none was left out
    rest: int = 0  # of others
    sample: Sample = field(default_factory=Sample)
    chance: float = 0.0  # with which a start row was drawn that would have been left out

    def estimate(self) -> Estimate:
        found = self.sure + self.rest
        told = self.sample.recall(self.sure, self.rest)
        recall, low, high = (None if r is None else r + self.chance * (1.0 - r) for r in told)
        if not found or recall is None:
            return Estimate(found, 0.0, None, None, None)
        return Estimate(found, found / recall - found, recall, low, high)


class _Batch:
    """The start rows of one batch: which are tried, and what came of them."""

    def __init__(
        self, graph: Graph, batch: EventBatch, rows: NDArray[np.int64], known: Thinned, seed: int
    ) -> None:
        self.graph, self._batch, self._rows, self._known = graph, batch, rows, known
        self._random = np.random.default_rng(seed)
        length = batch.table.num_rows
        lows = graph.walk.lows
        if not len(lows):
            lows = np.repeat(batch.starts[:-1], np.diff(batch.starts))
        self._lows = lows
        self._window = max(1, int((np.arange(length) - lows).max(initial=0)))
        self.every = min(MOST_ROWS, max(LEAST_ROWS, self._window // OFTEN))
        ends = batch.starts[np.searchsorted(batch.starts, rows, "right")]
        self._ends, self._costs = ends, self._cost(ends - rows)
        self._found = np.zeros(length, np.int64)
        self._keep = np.ones(len(rows), np.bool_)
        self._best = np.ones(len(rows), np.bool_)  # tried for what they are worth
        self._chance = np.zeros(len(rows))  # of being drawn; 0 where none was
        self._drawn = np.zeros(len(rows), np.bool_)
        self._keys: NDArray[np.int64] | None = None
        self._settled = self._closed = 0  # start rows that were decided, and whose window is over
        self.thins = False

    def _cost(self, ahead: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of start rows with so many rows behind them, as a part of one with a whole window."""
        return np.minimum(1.0, ahead / self._window) ** GROWTH

    def costs(self, row: int) -> tuple[float, float, float]:
        """Of the start rows that are tried before a row, now and in the end; of all behind it."""
        place = int(np.searchsorted(self._rows, row))
        keep, costs = self._keep[:place], self._costs
        now = self._cost(np.minimum(row, self._ends[:place]) - self._rows[:place])
        return float(now[keep].sum()), float(costs[:place][keep].sum()), float(costs[place:].sum())

    def matched(self, lengths: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        if len(rows):
            np.add.at(self._found, rows[np.cumsum(lengths) - lengths], 1)

    def decide(self, row: int, part: float) -> None:
        """Tries only a part of the start rows from here on."""
        self.thins = True
        self._settle(row)
        self._close(int(self._lows[row]))
        begin, ahead = self._settled, slice(self._settled, self._settled + AHEAD)
        keys = self._own_keys()[ahead]
        worth = self._known.sketch.rate(keys) + TIES * self._random.random(len(keys))
        drawn = self._random.random(len(keys)) < DRAWN * part
        room = max(0, round(part * len(keys)) - int(drawn.sum()))
        (chosen,) = best([np.where(drawn, -1.0, worth)], room)
        cut = worth[chosen].min(initial=np.inf)
        self._keep[begin:] = self._best[begin:] = self._drawn[begin:] = False
        self._best[ahead], self._drawn[ahead] = worth >= cut, drawn
        self._keep[ahead], self._chance[ahead] = chosen | drawn, DRAWN * part
        self.graph.leave_out(self._rows[begin:][~self._keep[begin:]], row)

    def end(self) -> None:
        self._settle(self._batch.table.num_rows)
        known, found = self._known, self._found[self._rows]
        sure = self._chance == 0.0
        known.sure += int(found[sure].sum())
        known.rest += int(found[~sure].sum())
        if not self.thins:
            return
        self._close(self._batch.table.num_rows)
        known.chance = float(self._chance[~sure].mean()) if not sure.all() else 0.0
        for start in np.flatnonzero(self._drawn & (found > 0)).tolist():
            there = int(found[start])
            known.sample.add(there * int(self._best[start]), there, float(self._chance[start]))

    def _own_keys(self) -> NDArray[np.int64]:
        if self._keys is None:
            batch, sketch, rows = self._batch, self._known.sketch, pa.array(self._rows)
            own = {name: batch.columns[name].take(rows) for name in sketch.reads(batch.plan)}
            self._keys = sketch.keys(batch.plan, own, len(rows))
        return self._keys

    def _settle(self, row: int) -> None:
        """Start rows before this one are as they were decided."""
        begin, end = self._settled, int(np.searchsorted(self._rows, row))
        kept = int(self._keep[begin:end].sum())
        self._known.tried += kept
        self._known.left += end - begin - kept
        self._settled = end

    def _close(self, low: int) -> None:
        """Nothing more comes of start rows before this one: what came is learned."""
        begin, end = self._closed, min(self._settled, int(np.searchsorted(self._rows, low)))
        if begin < end:
            found, keys = self._found[self._rows[begin:end]], self._own_keys()[begin:end]
            self._known.sketch.learn(keys, self._keep[begin:end], found)
            self._closed = end


class Starts(Allowance):
    """What some patterns may take, one after the other; see the module."""

    def __init__(
        self, rows: int, known: list[Thinned], bound: Bound, cheap: float, seed: int
    ) -> None:
        """An exact answer is given where it takes no more than `cheap` seconds per row, whatever
        share of it is asked for."""
        super().__init__(rows, len(known))
        self._known, self._bound, self._seed = known, bound, seed
        self._whole_cheap, self._cheap = cheap * rows, 0.0
        self._pattern = -1
        self._batch: _Batch | None = None
        self._since = 0.0  # seconds of the patterns before
        self._limit: float | None = None
        self._next = 0

    def begin(self) -> None:
        self._next_pattern()
        self._since, patterns = self.seconds, len(self._known) - self._pattern
        self._cheap = (self._whole_cheap - self.seconds) * min(1.0, UNEVEN / patterns)
        if not self._bound.share:
            self._limit = (self._bound.amount * self._rows - self.seconds) / patterns

    def end(self) -> None:
        self._next_pattern()

    def _next_pattern(self) -> None:
        if self._batch is not None:
            self._batch.end()
        self._batch, self._limit = None, None
        self._pattern += 1

    def follow(self, graph: Graph, batch: EventBatch) -> None:
        rows, known = graph.starts(), self._known[self._pattern]
        if rows is not None and len(rows):
            self._batch = _Batch(graph, batch, rows, known, self._seed)
            self.visits[1] = self.visits[0] + STRIDE
            self._next = LEAST_ROWS

    def spent(self, seconds: float, row: int) -> None:
        self.seconds += seconds
        self.visits[1] = self.visits[0] + STRIDE
        batch, used = self._batch, self.seconds - self._since
        if batch is None or not self._next <= row < self._rows:
            return
        self._next = row + batch.every
        now, begun, ahead = batch.costs(row)
        if (row < PART * self._rows or used < LEAST_SECONDS or not now) and not batch.thins:
            return
        rows = OWN_ROW * 1e-9
        unit = max(LEAST_OF_STARTS * used, used - rows * row) / now
        fixed = rows * self._rows + unit * begun
        if self._bound.share and not batch.thins:
            whole = fixed + unit * ahead
            self._limit = None if whole <= self._cheap else self._bound.amount * whole
        if self._limit is None:
            return
        early = EARLY * (self._cheap if self._bound.share else self._limit)
        if used < early and not batch.thins:
            return
        part = (SAFE * self._limit - fixed) / max(1e-12, unit * ahead)
        if batch.thins or part < 1.0:
            batch.decide(row, min(1.0, max(LEAST_STARTS, part)))

    def listed(self, matches: int) -> None:
        """Nothing is given up."""
        self._matches += matches

    def matched(self, lengths: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        if self._batch is not None:
            self._batch.matched(lengths, rows)
