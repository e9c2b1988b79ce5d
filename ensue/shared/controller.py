"""Bounds on a workload: what they mean in work, and the sketch of what partial matches are worth.

The kernels know only *work*: partial matches asked about an event, per event. A bound on time
becomes one on work by the measured time of a unit; time is that of the matching thread, so that
what else the machine does sheds nothing. A share ("50%") is of what a sample of the partitions, a
history or the first rows needed without a bound. A bound on memory is one on records of the arena.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.share_automaton import SharedAutomaton
from ensue.operator.budget import EVERY, Bounds, Budget, Form, Room, Unbounded
from ensue.shared.constants import (
    EXPLORE,
    FADE,
    LEAST_FADE,
    LEAST_LIVED,
    LITTLE,
    SAFETY,
    SAFETY_PRICED,
    SHEDDING,
    TAU,
)
from ensue.shared.kernels import layout as at
from ensue.shared.kernels.layout import Sketch
from ensue.shared.options import Sharing
from ensue.shared.partials import Partials
from ensue.shared.prices import Prices
from ensue.shared.recall import Estimate, estimates
from ensue.shared.tables import Tables

BUCKETS = 1 << 14
COLUMNS = 64  # patterns beyond share the columns of the sketch
CHUNK = 1024
FOLLOWED = 2048  # nodes between which the flow of worth is kept; others lag behind
DEPTH = 32  # steps of a pattern that the flow of worth is followed
LEAST_CALIBRATION = 1000
_SLACK = 1.10
ROWS, WORK, SECONDS, RECORDS, EACH = 0, 1, 2, 3, 4  # of totals; from EACH on, loads of patterns
# What a state has of the sketch, by the names that it is written under.
_LEARNED = {
    name: name
    for name in (
        "completed", "node_seen", "node_completed", "direct", "flow", "rate", "lost", "unlived",
        "mass",
    )
} | {"bucket_seen": "seen"}  # fmt: skip
WORKLOADS = Room("workloads", EVERY, floors=True)
ALONE = Room("patterns outside a workload", EVERY - {Form.LATENCY_EACH})


class Controller:
    def __init__(
        self,
        automaton: SharedAutomaton,
        budget: Budget | None,
        sharing: Sharing,
    ) -> None:
        self._automaton = automaton
        names = tuple(member.name for member in automaton.union.members)
        self._names = names
        self.active = budget is not None
        bounds = Bounds() if budget is None else WORKLOADS.read(budget, names).part(sharing.part)
        self._total, self._seconds, self._records = bounds.work, bounds.latency, bounds.memory
        self._single = {names.index(name): each for name, each in bounds.latency_of.items()}
        columns = min(COLUMNS, max(1, len(names)))
        weights = np.zeros(columns, np.float64)
        for index, name in enumerate(names):
            weights[index % columns] += sharing.weights.get(name, 1.0)
        # Only their ratios count; levels of quality have room for so many octaves.
        if weights.any():
            weights /= weights.max()
        buckets = BUCKETS if self.active else 1
        flat, table = np.zeros(0), np.zeros((0, columns))
        self.sketch = Sketch(
            bucket_seen=np.zeros(buckets, np.float32), flow=np.zeros((1, 1)),
            completed=np.zeros((buckets, columns), np.float32), node_seen=flat,
            node_completed=table, weights=weights, rate=flat, theta=flat, lost=table, means=table,
            overloaded=np.zeros((len(names) + 63) // 64, np.uint64),
            mass=np.zeros((buckets, columns), np.float32),
            limits=np.full(len(names) if self._single else 0, np.inf),
            steps=np.zeros(0, np.int64), direct=table, unlived=flat, priority=np.zeros((0, 1)),
        )  # fmt: skip
        self._given_up = np.zeros((2, columns), np.float64)  # at least, and at most
        self.found = np.zeros(len(names), np.int64)
        self.knobs = np.zeros(at.KNOBS, np.float64)
        self.knobs[[at.LIMIT_WORK, at.LIMIT_RECORDS]] = np.inf
        self.knobs[at.BY_RATIO] = sharing.by_ratio
        self.knobs[at.LEARN] = self.knobs[at.CHECK] = self.active
        self.knobs[at.EXPLORE] = EXPLORE
        self.knobs[at.FADE] = FADE
        self._window = 0.0  # rows
        self._share = 1.0  # of the rows that are of the partition of a partial match, on average
        # The price of work is set where work as a whole is all that is bounded.
        priced = self.active and self._records is None and not self._single
        self._may_price = priced and sharing.rank is None and sharing.by_ratio
        self._rank = sharing.rank
        self.prices = Prices(automaton, BUCKETS, self.active)
        self._rows = 0
        self._timing = 0.0  # seconds per unit of work, faded
        self._fixed = math.inf  # least seconds per row seen
        self._sum: NDArray[np.float64] = np.zeros(EACH + len(names))  # of the calibration
        self._warned = False
        self._learning = self._calibrated = self._taught = False  # from rows of the past
        self._whole = False  # rows of the past are few: those before the first window count too
        self._before = 0  # rows before the bound held
        self._note = ""  # where the bound held
        self._why = ""  # else than that a share was not known yet
        self._tried = (0.0, 0.0)  # work and seconds per row, spent on trying the exact answer
        self.totals = np.zeros(RECORDS, np.float64)

    @property
    def calibrating(self) -> bool:
        shares = [b for b in (self._total, self._seconds, self._records) if b is not None]
        if not any(bound.share for bound in (*shares, *self._single.values())):
            return False
        return not self._calibrated and self._rows < self._calibration

    @property
    def timed(self) -> bool:
        """Whether seconds are bounded."""
        return self._seconds is not None or bool(self._single)

    @property
    def whole(self) -> bool:
        """Whether all that is bounded is work, or time, of the workload as a whole."""
        return self._may_price

    @property
    def only_timed(self) -> bool:
        """Whether seconds as a whole are all that is bounded."""
        return self._may_price and self._total is None

    @property
    def share(self) -> float:
        """The least share of the unbounded run that a bound names; 0 without one."""
        bounds = (bound for bound in (self._total, self._seconds) if bound is not None)
        return min((bound.amount for bound in bounds if bound.share), default=0.0)

    def allowed(self) -> tuple[float, float] | None:
        """Work and CPU seconds per row; None where it is not known yet what a share is of."""
        if self.calibrating:
            return None
        rows = max(1.0, self._sum[ROWS])
        work = math.inf if self._total is None else self._total.of(self._sum[WORK] / rows)
        seconds = math.inf
        if self._seconds is not None:
            seconds = self._seconds.of(self.needed_seconds)
        return work - self._tried[0], seconds - self._tried[1]

    def cheap(self, measurable: bool) -> None:
        """The exact answer was given before it was known what a share is of."""
        self._before = 0
        took = self.totals[SECONDS] / max(1.0, self.totals[ROWS])
        why = f"measuring a share and shedding take {SHEDDING * 1e6:.0f} µs per event"
        if not measurable:
            why = "two windows, which would tell what a share is of, are too much of the rows"
        self._note = (
            f"the exact answer took {took * 1e6:.2f} µs per event, and {why}; so what a share is "
            "of was not measured"
        )

    def thinned(self, tried: int, left: int, taken: float, allowed: float) -> None:
        """So many start rows were tried and left out on merged states; seconds are per row."""
        self._note = self._why = (
            f"the exact answer does not fit: {tried:,} of {tried + left:,} start rows were tried"
        )
        self._before = 0
        if taken > _SLACK * allowed:
            self._before = int(self.totals[ROWS])
            self._why += (
                f", and an event took {taken * 1e6:.2f} µs instead of {allowed * 1e6:.2f} µs"
            )

    def exceeded(self, rows: int, seconds: float, allowed: float) -> None:
        """Says so where the cheapest answer there is takes longer than allowed."""
        if seconds > rows * allowed:
            self._before = rows
            self._why = (
                f"{allowed * 1e6:.2f} µs per event are less than any answer takes; this one took "
                f"{seconds / rows * 1e6:.2f} µs"
            )

    def settled(self, ratio: float) -> None:
        """Rows behind the first window need so many times what all rows of the sample did."""
        self._sum[WORK:] *= ratio

    def tried(self, rows: int, work: float, seconds: float) -> None:
        """What the exact answer has cost in vain: the bound is less by that."""
        self._tried = self._tried[0] + work / rows, self._tried[1] + seconds / rows

    @property
    def unbounded(self) -> Unbounded:
        """The rows before the bound held, and why."""
        before = self._before
        if not before:
            return Unbounded(0, self._note)
        why = self._why or (
            f"a share is of the unbounded run, and the first {max(before, self._calibration):,} "
            f"rows (two windows, at least {LEAST_CALIBRATION:,}) tell what that costs"
        )
        return Unbounded.of(before, int(self.totals[ROWS]), why)

    @property
    def needed_seconds(self) -> float:
        """CPU time per row that was needed without a bound: what a share of latency is of."""
        return float(self._sum[SECONDS] / max(1.0, self._sum[ROWS]))

    @property
    def _calibration(self) -> int:
        return int(max(LEAST_CALIBRATION, 2 * self._window))

    # -- for the kernels -------------------------------------------------------------------------

    def seen(
        self,
        tables: Tables,
        kinds: NDArray[np.int64],
        spans: NDArray[np.int64],
        share: float,
    ) -> None:
        """A batch: how often an event concerns each node, and how long windows are."""
        nodes, before = tables.nodes, self.sketch.rate
        rate = tables.concerns @ (kinds / max(1, kinds.sum()))
        known = len(before)
        rate[:known] = np.where(before > 0, (before + rate[:known]) / 2, rate[:known])
        self.sketch = self.sketch._replace(rate=rate)
        if not self.active:
            return
        self._share = share
        self._cover(nodes)
        automaton = self._automaton
        size = np.array([len(automaton.taken_at(node)) for node in range(nodes)])
        asked = np.array(
            [(automaton.relevant(node) & automaton.correlated).bit_count() for node in range(nodes)]
        )
        self.sketch = self.sketch._replace(
            theta=np.maximum(rate, 1e-6) * (TAU * size + (1 - TAU) * (1 + asked)),
            steps=np.array([automaton.steps(node) for node in range(nodes)], np.int64),
        )
        if len(spans):
            self._window = max(self._window, float(np.quantile(spans, 0.9)))
        self.knobs[at.FADE_EVERY] = max(LEAST_FADE, self._window / 4)

    def _cover(self, nodes: int) -> None:
        """Room for nodes found since."""
        sketch, followed = self.sketch, max(1, min(nodes, FOLLOWED))
        flow = np.zeros((followed, followed))
        flow[: len(sketch.flow), : len(sketch.flow)] = sketch.flow
        names = ("node_seen", "node_completed", "direct", "lost", "unlived")
        grown = {}
        for name in names:
            array = getattr(sketch, name)
            more = np.zeros((nodes - len(array), *array.shape[1:]))
            grown[name] = np.concatenate([array, more])
        self.sketch = sketch._replace(flow=flow, **grown)

    def arrays(self, partials: Partials) -> Sketch:
        if self.active:
            self.prices.rescale()
            self._set_prices()
            self._set_limits(partials)
            rate = self.sketch.rate
            self.sketch = self.sketch._replace(means=self._means(max(1, len(rate))))
            if self._rank is not None:
                self.sketch = self.sketch._replace(priority=self._rank(rate))
        return self.sketch

    def _means(self, nodes: int, lived: bool = False) -> NDArray[np.float64]:
        """Matches per partial match with a whole window, for each node and pattern.

        Solved along the flow from node to node, so that what the last step of a pattern has learned
        reaches the first one at once; buckets tell only how they differ from their node. With
        `lived`, per time that partial matches had before they were shed.
        """
        sketch = self.sketch
        columns = len(sketch.weights)
        member = np.zeros((nodes, columns))
        for node in range(nodes):
            for pattern, _ in self._automaton.nodes[node]:
                member[node, pattern % columns] = 1.0
        own = sketch.direct + LITTLE * member
        seen = sketch.node_seen[:, None] + 1.0
        if lived:
            seen = np.maximum(seen - sketch.unlived[:, None], LEAST_LIVED * seen)
        parent, child = np.nonzero(sketch.flow)
        share = sketch.flow[parent, child][:, None]
        found = own / seen
        for _ in range(min(nodes, DEPTH)):
            total = own.copy()
            np.add.at(total, parent, share * found[child])
            found = total / seen
        beyond = sketch.node_completed[FOLLOWED:] + LITTLE * member[FOLLOWED:]
        found[FOLLOWED:] = beyond / seen[FOLLOWED:]
        least = 1e-9
        result: NDArray[np.float64] = np.maximum(found * member, least)
        return result

    def stops(self, begin: int, stop: int) -> Iterator[int]:
        """Rows after which the kernel comes back; without bounds only the last."""
        if not self.active:
            yield stop
            return
        if begin >= stop:
            yield stop  # no row is new, but the end of a partition may settle matches
        # How many partial matches few rows keep is only seen by looking often.
        closely = self._whole and self._records is not None
        step = 8 if closely else 128
        most = 64 if closely else CHUNK if self._seconds is None else 512
        while begin < stop:
            left = self._calibration - self._rows if self.calibrating else step
            begin = min(begin + max(1, min(step, left)), stop)
            yield begin
            step = min(most, 2 * step)

    def measured(self, rows: int, work: int, seconds: float, partials: Partials) -> None:
        self.totals += (rows, work, seconds)
        if not self.active or rows <= 0:
            return
        settled = self._whole or self._rows >= self._calibration // 2
        if settled and (self.calibrating or self._learning):
            loads = self._loads(partials)
            self._sum[:EACH] += (rows, work, seconds, float(partials.meta[at.RECORDS]) * rows)
            self._sum[EACH:] += loads * rows
        priced = bool(self.knobs[at.PRICED])
        sketch, passed = self.sketch, self.prices.arrays().lost
        if priced and passed.any():
            means = self._means(len(sketch.node_seen))
            means /= (means * sketch.weights).sum(axis=1, keepdims=True)
            self._given_up += (passed[: len(means), None] * means).sum(axis=0)
            passed[:] = sketch.lost[:] = 0.0
        elif sketch.lost.any():
            for row, lived in enumerate((False, True)):
                means = self._means(len(sketch.node_seen), lived)
                self._given_up[row] += (sketch.lost * means).sum(axis=0)
            sketch.lost[:] = 0.0
        self.prices.since += work
        if self.calibrating and not self._learning:
            self._before += rows
        self._rows += rows
        self._fixed = min(self._fixed, seconds / rows)
        if work > 0:
            unit = seconds / work
            self._timing = unit if self._timing == 0.0 else 0.8 * self._timing + 0.2 * unit
        self._warn(rows, seconds, partials)

    def _loads(self, partials: Partials) -> NDArray[np.float64]:
        """Expected work of the next event per pattern (l_i)."""
        found = np.zeros(len(self._names))
        for node in np.flatnonzero(partials.lists.waiting > 0.0).tolist():
            part = partials.lists.waiting[node] * self.sketch.rate[node]
            for pattern, _ in self._automaton.nodes[node]:
                found[pattern] += part
        return found

    def learn_from_the_past(self, rows: int) -> None:
        """So many rows from now on are those of the past: nothing is shed, shares are of them."""
        self.knobs[at.COUNTED] = self._may_price
        self._learning, self._whole = True, rows < self._calibration

    def begin(self, together: float = 1.0) -> None:
        """The past is over: the bounds hold, and what was found so far does not count.

        Of the partitions that take turns, so many times those of the past will be open at once.
        """
        self._learning = self._whole = False
        self._taught = True
        self._calibrated = self._sum[ROWS] > 0
        self._sum[RECORDS] *= together
        self.found[:] = 0
        self.totals[:] = 0
        self.sketch.lost[:] = self._given_up[:] = self.sketch.mass[:] = 0
        self._set_prices()

    def _set_limits(self, partials: Partials) -> None:
        if self.calibrating or self._learning:
            return
        rows = max(1.0, self._sum[ROWS])
        allowed = self.allowed()
        assert allowed is not None
        work, seconds = allowed
        if self._timing > 0.0:
            work = min(work, max(seconds / self._timing, 0.5))
        priced = bool(self.knobs[at.PRICED])
        self.knobs[at.LIMIT_WORK] = (SAFETY_PRICED if priced else SAFETY) * work
        self.knobs[at.BOUND] = work
        if self._records is not None:
            records = self._records.amount / partials.bytes_per_record
            if self._records.share:
                records = self._records.amount * self._sum[RECORDS] / rows
            self.knobs[at.LIMIT_RECORDS] = max(records, 1.0)
        for pattern, bound in self._single.items():
            if bound.share:
                self.sketch.limits[pattern] = bound.amount * self._sum[EACH + pattern] / rows
            elif self._timing > 0.0:
                self.sketch.limits[pattern] = max(bound.amount / self._timing, 0.5)

    def _set_prices(self) -> None:
        """The index of visits anew, where much was learned since; in use where a bound holds."""
        held = self._may_price and not self.calibrating and not self._learning
        priced = held and (self.prices.ready or self._taught)
        if priced and (not self.prices.ready or self.prices.due()):
            rate = self.sketch.rate * self._share
            self.prices.solve(rate, self._window, self.sketch.weights)
        self.knobs[at.PRICED] = priced

    def _warn(self, rows: int, seconds: float, partials: Partials) -> None:
        """A bound that no choice can meet: report the least possible, and continue with that."""
        if self._warned or self.calibrating or self._rows < LEAST_CALIBRATION:
            return
        least = None
        bound = self._seconds
        if bound is not None and not bound.share and self._fixed > bound.amount * _SLACK:
            least = f"latency: an event takes {self._fixed * 1e6:.2f} µs with nothing to match"
        memory = self._records
        if memory is not None and not memory.share and memory.amount < partials.bytes_per_record:
            least = f"memory: one partial match needs {partials.bytes_per_record} bytes"
        if least is not None:
            self._warned = True
            warnings.warn(
                f"the bound cannot be met, whatever is shed; {least}; going on at that",
                errors.BoundWarning,
                stacklevel=2,
            )

    # -- state -----------------------------------------------------------------------------------

    def learned(self) -> dict[str, NDArray[Any]]:
        """All that was learned, by name."""
        scalars = (self._window, self._rows, self._timing, self._calibrated, self._before)
        return {
            **{told: getattr(self.sketch, name) for name, told in _LEARNED.items()},
            "given_up": self._given_up, "found": self.found, "calibration": self._sum,
            "totals": self.totals, "scalars": np.array(scalars, np.float64),
        }  # fmt: skip

    def restore(self, values: Callable[[str], NDArray[Any]]) -> None:
        """What `learned` returned."""
        restored = {name: values(told) for name, told in _LEARNED.items()}
        self.sketch = self.sketch._replace(**restored)
        self._given_up, self.found = values("given_up"), values("found")
        self._sum, self.totals = values("calibration"), values("totals")
        self._window, rows, self._timing, calibrated, *before = values("scalars").tolist()
        self._rows, self._calibrated = int(rows), bool(calibrated)
        self._before = int(sum(before))  # states from before do not tell

    def restore_prices(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.prices.restore(arrays)
        self.knobs[at.COUNTED] = self._may_price

    def carry(self, before: Controller, stayed: Collection[str]) -> None:
        """What was found and given up under the patterns from before, of those that stay."""
        self.totals += before.totals
        columns, gone = len(self.sketch.weights), len(before.sketch.weights)
        for index, name in enumerate(self._names):
            if name in stayed:
                old = before._names.index(name)
                sharing = len(range(old % gone, len(before._names), gone))
                self.found[index] = before.found[old]
                self._given_up[:, index % columns] += before._given_up[:, old % gone] / sharing

    # -- what it cost ----------------------------------------------------------------------------

    def estimates(self) -> dict[str, Estimate]:
        """Recall per pattern."""
        priced = bool(self.knobs[at.PRICED])
        return estimates(self._names, self.found, self._given_up, self.sketch, priced)
