"""Exact first: match points and bundles from the match graph, and a budget for listing matches.

The graph of all matches costs about as much per event as reading it, however many matches it holds
(`exact.py`); what can be too much is to list them. So all matches are counted, and listed if they
fit. Otherwise one match of each bundle comes first, then one of each match point, then more of each
in turn, as far as the budget goes. The recall is known, not estimated.

*Work* is events of matches listed, per row. Time is that of the graph, of counting, listing and
output; what listing costs is a line through two small tables at first, and then measured. What a
stretch of rows leaves of its budget is there for later ones, up to that of `SAVED` rows.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.missing.budget import ROOM
from ensue.missing.exact import ExactMissing
from ensue.missing.picked import Picked
from ensue.missing.words import window_length
from ensue.operator.budget import Bounds
from ensue.operator.buffer import EVENT
from ensue.operator.hold import Carried
from ensue.operator.listing import Listing
from ensue.operator.protocol import Capabilities, Snapshot, Watermark
from ensue.operator.state import Kind, kind_of, pack, unpack
from ensue.query.missing import Effort
from ensue.sequences.batch import EventBatch
from ensue.sequences.counts import count_partitions
from ensue.sequences.evaluator import _joined
from ensue.sequences.kernels.match_graph import Nodes, Walk, most_matches
from ensue.sequences.listing import too_many
from ensue.sequences.match_graph import Lister, Stretch

KIND = Kind("acep listing")
GRAPHS = replace(ROOM, goal=True)
SAVED = 1_000  # rows whose budget can be saved up
_FEW, _SOME = 16, 1_024  # matches of the two tables that tell what output costs
_ALL = 1 << 60
_LEAST = 1e-9  # seconds per event of a match
_USUAL = 5e-8  # the same, before anything was listed; trials that tell less than half are off
_NEARLY_ALL = "a share that is less than the match graph takes, which is nearly all of it"
_TRIALS = 2e-3  # seconds of counting and of the tables that tell what output costs
_READ = 3e-7  # seconds of a row beside the graph, which no bound saves
_SURE = 2.0  # what is expected to take less than its part of the bound is listed without trials


def lists_within(plan: Plan) -> bool:
    """Whether a budget is for listing: matches can be counted, and RC-ACEP was not asked for."""
    missing = plan.query.missing
    return missing is not None and missing.effort == Effort() and not plan.correlated


@dataclass
class Spent:
    """What was done, and what is left; kept in snapshots."""

    rows: int = 0
    there: int = 0  # matches
    listed: int = 0
    units: int = 0  # events of matches listed
    bundles: int = 0
    bundles_found: int = 0
    saved: float = 0.0  # units of work, or seconds
    unit: float = 0.0  # seconds per event of a match
    fixed: float = 0.0  # seconds per table
    counting: float = 0.0  # seconds per row
    uncounted: bool = False  # some matches were neither listed nor counted
    unbounded: int = 0
    warned: bool = False


class _Clock:
    """Seconds of this thread, between `start` and `stop`."""

    def __init__(self) -> None:
        self.spent, self._began = 0.0, 0.0

    def start(self) -> None:
        self._began = time.thread_time()

    def stop(self) -> None:
        self.spent += time.thread_time() - self._began

    @property
    def now(self) -> float:
        return self.spent + time.thread_time() - self._began


class ListsWithin(ExactMissing):
    """See the module."""

    capabilities = Capabilities(ordered_input=True, shedding=True)

    def __init__(self, bounds: Bounds, listing: Listing | None = None) -> None:
        super().__init__(listing)
        self.bounds = bounds
        self.spent_so_far = Spent()

    def _begin(self, plan: Plan, schema: pa.Schema, state: Snapshot | None) -> None:
        if state is not None and state.shared and kind_of(state.shared) == KIND.name:
            parts = unpack(KIND, state.shared, plan.fingerprint)
            self.spent_so_far = Spent(**parts.json("spent"))
            tails = parts.state("tails") if "tails" in parts else b""
            state = Snapshot(state.keys, tails)
        super()._begin(plan, schema, state)
        self.window = window_length(plan.query.within)
        self.output = self._columns.table
        self._measure()

    def snapshot(self, touched: object = None) -> Snapshot:
        return Snapshot(self._tails.snapshot(touched), self._saved())  # type: ignore[arg-type]

    def snapshot_together(self) -> Snapshot:
        return Snapshot(shared=self._saved(self._tails.together()))

    def _saved(self, tails: bytes | None = None) -> bytes:
        parts: dict[str, object] = {"spent": asdict(self.spent_so_far)}
        return pack(
            KIND, parts if tails is None else parts | {"tails": tails}, None, self._plan.fingerprint
        )

    def _advance(self, mark: Watermark) -> Iterator[pa.Table]:
        """Partitions out of the window are let go of where rows have names of their own."""
        yield from super()._advance(mark)
        if EVENT in self._schema.names and not self._plan.lookback:
            held = self._tails.held
            self._tails.drop([key for key, part in held.items() if not part.length])

    # -- matching --------------------------------------------------------------------------------

    def _match(
        self,
        batch: EventBatch,
        live: NDArray[np.int64],
        matches: NDArray[np.int64],
        carried: list[Carried] | None,
    ) -> Iterator[pa.Table]:
        spent, reach = self.spent_so_far, batch.reach
        rows = int(np.maximum(reach.stops - reach.fresh, 0).sum())
        spent.rows += rows
        clock = _Clock()
        clock.start()
        graph = self._graph_of(batch, live)
        if graph is None:
            spent.unbounded += rows
            before = self.metrics.matches
            yield from super()._match(batch, live, matches, carried)
            spent.there += self.metrics.matches - before
            spent.listed += self.metrics.matches - before
            self._measure()
            return
        turn = _Turn(self, batch, rows, clock)
        for stretch in graph.stretches(self._most(), turn.lister(graph.walk)):
            self._reported += len(stretch.lengths)
            if self._reported > self._listing.max_matches:
                raise too_many(self._reported, self._listing.max_matches)
            self.metrics.matches += len(stretch.lengths)
            spent.listed += len(stretch.lengths)
            spent.units += len(stretch.rows)
            began = clock.now
            table = self._columns.table(batch, _joined([stretch], batch, matches))
            turn.told(len(stretch.rows), clock.now - began)
            self._measure()
            clock.stop()
            yield table
            clock.start()
        turn.end()
        clock.stop()
        self._measure()

    def counted(self, batch: EventBatch) -> int | None:
        """The matches of a batch; None where its steps are too many for the kernels."""
        counts = count_partitions(batch, self._subsets)
        return None if counts is None else sum(counts)

    def _measure(self) -> None:
        spent, metrics = self.spent_so_far, self.metrics
        metrics.partials = spent.units
        metrics.shed = min(max(spent.there - spent.listed, 0), 1 << 62)
        recall = 1.0 if spent.there <= spent.listed else spent.listed / spent.there
        known = None if spent.uncounted else recall
        metrics.recall = metrics.low = metrics.high = known
        metrics.bundles, metrics.bundles_found = spent.bundles, spent.bundles_found
        metrics.bytes = self.nbytes
        if spent.unbounded:
            metrics.unbounded = spent.unbounded
            metrics.reason = (
                f"the bound did not hold for {spent.unbounded:,} rows: the pattern has too many "
                "states for the match graph"
            )


class _Turn:
    """One call: the rows of a batch, and what may be spent on them."""

    def __init__(self, of: ListsWithin, batch: EventBatch, rows: int, clock: _Clock) -> None:
        self._of, self._batch, self._clock = of, batch, clock
        self._rows, self._spent, self._bounds = rows, of.spent_so_far, of.bounds
        self._begin = int(batch.reach.begins[0]) if len(batch.reach.begins) else 0
        self._units = self._listed = 0  # in this turn
        self._length = 1.0  # events of a match
        self._written = 0.0  # seconds of output still to come
        self._graph = self._since = 0.0  # seconds that are not listing; the clock when they begin
        self._listing = 0.0  # seconds of the matches that wait for output
        self._all = True  # that there were are listed
        self._below = False  # a share of the time is less than the graph takes
        self._known: int | None = None
        self._last = (-1, -math.inf)  # partition and time of the last match point
        self._cheap = False  # all matches of a stretch are listed, whatever is left
        self._usual = len(batch.plan.marks.labels)  # events of a match, before any was listed

    # -- the budget ------------------------------------------------------------------------------

    def _there(self) -> int:
        """The matches, counted at first; at least those that were listed."""
        if self._known is None:
            began = self._clock.now
            found = self._of.counted(self._batch)
            self._spent.uncounted |= found is None
            self._known = found or 0
            self._spent.counting = (self._clock.now - began) / max(1, self._rows)
            self._graph += self._clock.now - began
        return max(self._known, self._listed)

    def _count_in_time(self) -> None:
        """Not all are listed: counts them, where there is time for it, before more is spent."""
        latency, known = self._bounds.latency, self._spent.counting
        if latency is None or self._known is not None or self._below:
            return
        each = (self._graph / max(1, self._rows)) + known
        if latency.share or each < latency.amount:
            self._there()

    def _left(self, done: float, through: float) -> float:
        """Events of matches that may still be listed with this part of the rows.

        The graph is through the part `through`; its time beyond `done` is that of later rows.
        """
        spent = self._spent
        if self._below:
            return -1.0
        if (work := self._bounds.work) is not None:
            if work.share:
                return work.amount * self._length * self._there() * done - self._units
            return work.amount * self._rows * done + spent.saved - self._units
        if (latency := self._bounds.latency) is not None:
            unit = max(spent.unit, _LEAST)
            ahead = self._graph * (1.0 - done / max(through, 1e-9))
            if latency.share:
                needed = self._graph / max(through, 1e-9) + unit * self._length * self._there()
                seconds = latency.amount * needed * done
            else:
                seconds = latency.amount * self._rows * done + spent.saved
            return (seconds + ahead - self._clock.now - self._written - spent.fixed) / unit
        return math.inf

    def _fits(self, upper: float, through: float) -> bool:
        """Whether listing all, at most so many matches, is surely inside the bound on time.

        Of a share also where it takes no longer than the graph and reading the rows: counting what
        is there and trying what output takes would cost as much as the matches.
        """
        latency = self._bounds.latency
        if latency is None:
            return False
        each = (self._length if self._listed else self._usual) * max(self._spent.unit, _USUAL)
        graph = self._graph
        if latency.share:
            first = self._spent.rows == self._rows
            room = graph + _READ * self._rows + (_TRIALS if first else 0.0)
        else:
            left = latency.amount * self._rows * through + self._spent.saved - self._clock.now
            room = left / _SURE
        if each * upper > room > graph:  # the window may leave far less of them
            upper = self._there()
            room -= self._graph - graph if not latency.share else 0.0
        fits = each * upper <= room
        if fits and latency.share and latency.amount * (graph + each * upper) < graph:
            self._warn(_NEARLY_ALL, "all matches are")
        return fits

    def end(self) -> None:
        """What is left, or too much, counts for later rows."""
        spent, latency = self._spent, self._bounds.latency
        graph = self._graph / max(1, self._rows)
        if self._all:
            spent.there += self._listed
        elif latency and self._known is None:
            spent.uncounted = True  # there was no time for it
            spent.there += self._listed + 1  # at least
        else:
            spent.there += self._there()
        if self._below:
            self._warn(_NEARLY_ALL)
        bound = self._bounds.work or latency
        if bound is None or bound.share:
            return
        used = self._units if bound is not latency else self._clock.now
        spent.saved = min(spent.saved + bound.amount * self._rows - used, bound.amount * SAVED)
        if bound is latency and graph > bound.amount:
            spent.saved = 0.0
            self._warn(f"an event takes {graph * 1e6:.2f} µs with nothing listed")

    def _warn(self, why: str, listed: str = "one match of each bundle is") -> None:
        """Of a bound that cannot be met, once."""
        if self._spent.warned or self._rows < SAVED:
            return
        self._spent.warned = True
        warnings.warn(
            f"the bound cannot be met, whatever is left out; latency: {why}; {listed} listed",
            errors.BoundWarning,
            stacklevel=2,
        )

    def told(self, events: int, seconds: float) -> None:
        """What a table of so many events of matches took."""
        spent, listing = self._spent, self._listing
        self._written = self._listing = 0.0
        self._since = self._clock.now
        if events >= _SOME:
            unit = max((seconds + listing - spent.fixed) / events, _LEAST)
            spent.unit = unit if not spent.unit else 0.5 * (spent.unit + unit)

    # -- listing ---------------------------------------------------------------------------------

    def lister(self, walk: Walk) -> Lister[Stretch]:
        """What lists the roots of a stretch of the graph."""
        begin, end = self._begin, int(self._batch.starts[-1])

        def listed(
            nodes: Nodes, roots: NDArray[np.int64], found: int, most: int
        ) -> Iterator[Stretch]:
            self._graph += self._clock.now - self._since
            row = end if walk.place[0] >= len(walk.begins) else int(walk.place[1])
            through = (row - begin) / max(1, end - begin)
            if found:
                counts = np.empty(int(roots[:found, 1].max()) + 1, np.float64)
                upper = most_matches(nodes, roots, found, counts)
                self._cheap = self._fits(upper, through)
                if not self._cheap:
                    self._try_output(Picked(nodes, roots[:found]))
                for first, last in self._slices(found):
                    until = row if last == found else int(roots[last, 0])
                    done = (until - begin) / max(1, end - begin)
                    pick = Picked(nodes, roots[first:last])
                    pick = self._list(
                        pick, counts[roots[first:last, 1]], upper, most, done, through
                    )
                    self._all &= not pick.open.any()
                    most -= pick.matches
                    if (stretch := pick.stretch()) is not None:
                        yield stretch
            self._since = self._clock.now

        return listed

    def _slices(self, found: int) -> list[tuple[int, int]]:
        """Parts of the roots, each with an output of its own, so that what it takes is seen."""
        parts, latency = 1, self._bounds.latency
        if latency is not None and self._spent.fixed and not self._cheap:
            seconds = latency.amount * (self._rows if not latency.share else self._spent.unit)
            if latency.share:
                seconds *= 0.0 if self._below else self._length * self._there()
            parts = int(min(max(1.0, seconds / (12 * self._spent.fixed)), 16.0, found))
        edges = np.linspace(0, found, parts + 1).astype(np.int64).tolist()
        return list(pairwise(edges))

    def _list(
        self,
        pick: Picked,
        counts: NDArray[np.float64],
        upper: float,
        most: int,
        done: float,
        through: float,
    ) -> Picked:
        """Matches of some roots, as many as there is room for, of all bundles and points alike."""
        goal, bounds, spent = self._bounds.recall, self._bounds, self._spent
        roots = np.arange(len(pick.roots))
        if goal is not None and bounds.work is None and bounds.latency is None:
            share = counts.sum() / upper if upper else 1.0
            most = min(most, math.ceil(goal * max(self._there(), 1) * min(1.0, share)))
        heads = self._heads(pick.roots[:, 0])
        spent.bundles += len(heads)
        fits = self._left(done, through) > 2 * self._length * counts.sum()
        if (self._cheap or fits) and most > counts.sum():
            every = np.full(len(roots), _ALL)
            self._take(pick, roots, every, most, done, through, least=self._cheap)
            spent.bundles_found += int((pick.known[heads] > 0).sum())
            return pick
        self._count_in_time()
        one = np.ones(len(roots), np.int64)
        self._take(pick, heads, one, most, done, through, least=bounds.latency is not None)
        spent.bundles_found += int((pick.known[heads] > 0).sum())
        self._take(pick, np.setdiff1d(roots, heads), one, most, done, through)
        deep = 4.0
        while pick.matches < most and (left := self._left(done, through)) > 0:
            more = np.flatnonzero(pick.open & (counts > pick.known))
            if not len(more):
                break
            each = min(most - pick.matches, left / self._length) / len(more)
            if each < 1:  # not one of each: evenly over the rows
                more = more[:: math.ceil(1 / max(each, 1e-9))]
            before = pick.matches
            stop = pick.known + int(max(1.0, min(deep, each)))
            self._take(pick, more, stop, most, done, through)
            deep *= 4
            if pick.matches == before and pick.open[more].all():
                break
        return pick

    def _take(
        self,
        pick: Picked,
        chosen: NDArray[np.int64],
        stop: NDArray[np.int64],
        most: int,
        done: float,
        through: float,
        least: bool = False,
    ) -> None:
        """Of the chosen roots up to `stop` matches each, a part at a time, as far as it goes.

        `least`: whatever is left.
        """
        timed = self._bounds.latency is not None
        size = max(1, len(chosen) // 8) if timed else max(1, len(chosen))
        for begin in range(0, len(chosen), size):
            left = math.inf if least else self._left(done, through)
            if left <= 0 or pick.matches >= most:
                return
            began, events, matches = self._clock.now, pick.events, pick.matches
            pick.take(chosen[begin : begin + size], stop, most - matches, left)
            spent = self._clock.now - began
            self._listing += spent
            self._units += pick.events - events
            self._listed += pick.matches - matches
            if self._units:
                self._length = self._units / self._listed
            expected = max(self._spent.unit, _LEAST) * (pick.events - events)
            self._written += max(0.0, expected - spent)

    def _heads(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The roots with which a bundle begins."""
        batch = self._batch
        order = batch.order
        times = rows.astype(np.float64) if order is None else order[rows].astype(np.float64)
        parts = np.searchsorted(batch.starts, rows, "right") - 1
        before_parts = np.concatenate(([self._last[0]], parts[:-1]))
        before_times = np.concatenate(([self._last[1]], times[:-1]))
        self._last = int(parts[-1]), float(times[-1])
        apart = times - before_times > self._of.window
        found: NDArray[np.int64] = np.flatnonzero((parts != before_parts) | apart)
        return found

    def _try_output(self, pick: Picked) -> None:
        """What listing and output cost: a line through two tables that nobody sees."""
        spent, batch = self._spent, self._batch
        if self._units or (self._bounds.latency is None and self._bounds.work is None):
            return
        points = []
        for most in (_FEW, _FEW, _SOME) if not spent.unit and self._bounds.latency else (_FEW,):
            trial, began = Picked(pick.nodes, pick.roots), self._clock.now
            every = np.arange(len(pick.roots))
            trial.take(every, np.full(len(every), most), most, math.inf)
            if (stretch := trial.stretch()) is None:
                return
            self._length = trial.events / trial.matches
            if self._bounds.latency:
                nothing = np.zeros(len(batch.starts) - 1, np.int64)
                self._of.output(batch, _joined([stretch], batch, nothing))
            points.append((trial.events, self._clock.now - began))
        if len(points) == 3:
            (few, first), (many, second) = points[1:]
            unit = (second - first) / (many - few) if many > few else 0.0
            spent.unit = max(unit, 0.1 * second / many, 0.5 * _USUAL)
            spent.fixed = max(0.0, min(first, second) - spent.unit * few)
        self._graph += self._clock.now - self._since
        self._since = self._clock.now
