"""Bounds on a workload: what they mean in work, the sketch, and the estimate of recall.

The kernels know only *work*: partial matches asked about an event, per event. A bound on time
becomes one on work by the measured time of a unit; time is that of the matching thread, so that
what else the machine does sheds nothing. A share ("50%") is of what the first rows needed without
a bound. A bound on memory is one on records of the arena.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.share import SharedAutomaton
from ensue.evaluate.base import Budget
from ensue.evaluate.path_budget import parse_bytes
from ensue.evaluate.sharp.tables import Tables
from ensue.kernels import shared_arena as at
from ensue.kernels import shared_select as knob
from ensue.pattern.duration import parse_duration

BUCKETS = 1 << 14
COLUMNS = 64  # patterns beyond share the columns of the sketch
TAU = 0.5  # of Theta = tau * size + (1 - tau) * conditions
EXPLORE = 0.01  # of what would be shed at birth is kept, to see whether it has become better
FADE = 0.93  # of the sketch is left after each quarter of a window (at least 250 rows)
SAFETY = 0.95  # of a bound is aimed at: the moving average swings by some percent around that
CHUNK = 1024
FOLLOWED = 2048  # nodes between which the flow of worth is kept; others lag behind
DEPTH = 32  # steps of a pattern that the flow of worth is followed
LITTLE = 0.1  # matches that a node is taken to have had before anything is known
ORDERS = ("contribution", "ratio", "work")
LEAST_CALIBRATION = 1000
_SLACK = 1.10


@dataclass(frozen=True)
class Bound:
    """A number, or a share of the unbounded run."""

    amount: float
    share: bool


@dataclass(frozen=True)
class Estimate:
    """What a pattern got and gave up."""

    found: int
    lost: float
    recall: float
    low: float  # of an interval that holds the recall with a probability of about 95 %
    high: float


def parse_bound(value: object, what: str) -> Bound | None:
    """A bound on latency (seconds), memory (bytes) or work."""
    if value is None:
        return None
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            share = float(value.strip()[:-1])
        except ValueError:
            share = -1.0
        if not 0 < share <= 100:
            raise errors.QueryError(
                f"{what}={value!r} is not a share of the unbounded run",
                remedy='write for example "50%"',
            )
        return Bound(share / 100, True)
    if what == "work":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise errors.QueryError(
                f"work={value!r} is not a positive number of partial matches asked per event",
                remedy='write work=1000, or a share such as "50%"',
            )
        return Bound(float(value), False)
    if not isinstance(value, str):
        raise errors.QueryError(
            f"{what}={value!r} is not text", remedy='write latency="50 ms", memory="256 MB"'
        )
    amount = parse_duration(value) / 1e6 if what == "latency" else float(parse_bytes(value))
    if amount <= 0:
        raise errors.QueryError(f"{what}={value!r} is not positive", remedy="give a larger bound")
    return Bound(amount, False)


def check_budget(budget: Budget | None, names: tuple[str, ...]) -> None:
    """Raises where a bound cannot be read, or names a pattern that is not there."""
    if budget is None:
        return
    if isinstance(budget.latency, Mapping):
        for name, value in budget.latency.items():
            if name not in names:
                raise errors.QueryError(
                    f"the budget names the pattern {name!r}, which the workload does not have",
                    remedy=f"use one of: {', '.join(names)}",
                )
            parse_bound(value, "latency")
    else:
        parse_bound(budget.latency, "latency")
    parse_bound(budget.memory, "memory")
    parse_bound(budget.work, "work")
    if budget.latency is None and budget.memory is None and budget.work is None:
        raise errors.QueryError(
            "the budget has no bound", remedy="give latency, memory or work, or leave it out"
        )


class Controller:
    def __init__(
        self,
        automaton: SharedAutomaton,
        budget: Budget | None,
        weights: Mapping[str, float],
        order_by: str,
        strategy: int,
        instance: bool,
    ) -> None:
        self._automaton = automaton
        names = tuple(member.name for member in automaton.union.members)
        self._names = names
        check_budget(budget, names)
        self.active = budget is not None
        self._total: Bound | None = None
        self._seconds: Bound | None = None
        self._records: Bound | None = None
        self._single: dict[int, Bound] = {}
        if budget is not None:
            self._total = parse_bound(budget.work, "work")
            self._records = parse_bound(budget.memory, "memory")
            if isinstance(budget.latency, Mapping):
                for name, value in budget.latency.items():
                    found = parse_bound(value, "latency")
                    assert found is not None
                    self._single[names.index(name)] = found
            else:
                self._seconds = parse_bound(budget.latency, "latency")
        columns = min(COLUMNS, max(1, len(names)))
        self._weights = np.zeros(columns, np.float64)
        for index, name in enumerate(names):
            self._weights[index % columns] += weights.get(name, 1.0)
        self.completed = np.zeros((BUCKETS, columns), np.float32)
        self.bucket_seen = np.zeros(BUCKETS, np.float32)
        self._derived = np.zeros(BUCKETS, np.float32)
        self._lived = np.zeros(BUCKETS, np.float32)  # squares of the time left, for the overhead
        self._node_seen = np.zeros(0, np.float64)
        self._node_completed = np.zeros((0, columns), np.float64)
        self._direct = np.zeros((0, columns), np.float64)  # matches completed from a node
        self._flow = np.zeros((1, 1), np.float64)  # worth handed from node to node
        self._rate = np.zeros(0, np.float64)
        self._theta = np.zeros(0, np.float64)
        self._steps = np.zeros(0, np.float64)  # events that a match still needs at least
        self._lost = np.zeros(columns, np.float64)
        self._mass = np.zeros((BUCKETS if self.active else 1, columns), np.float32)
        self._overloaded = np.zeros((len(names) + 63) // 64, np.uint64)
        self._limits = np.full(len(names) if self._single else 0, np.inf)
        self.found = np.zeros(len(names), np.int64)
        self.knobs = np.zeros(knob.KNOBS, np.float64)
        self.knobs[[knob.LIMIT_WORK, knob.LIMIT_RECORDS]] = np.inf
        self.knobs[knob.BY_RATIO] = ORDERS.index(order_by)
        self.knobs[knob.LEARN] = self.knobs[knob.CHECK] = self.active
        self.knobs[knob.INSTANCE] = instance
        self.knobs[knob.EXPLORE] = EXPLORE
        self.knobs[knob.STRATEGY] = strategy
        self.knobs[knob.FADE] = FADE
        self._window = 0.0  # rows
        self._rows = 0
        self._timing = 0.0  # seconds per unit of work, faded
        self._fixed = math.inf  # least seconds per row seen
        self._sum: NDArray[np.float64] = np.zeros(4 + len(names))  # of the calibration
        self._warned = False
        self.totals = np.zeros(3, np.float64)  # rows, work, seconds

    @property
    def calibrating(self) -> bool:
        shares = [b for b in (self._total, self._seconds, self._records) if b is not None]
        if not any(bound.share for bound in (*shares, *self._single.values())):
            return False
        return self._rows < self._calibration

    @property
    def _calibration(self) -> int:
        return int(max(LEAST_CALIBRATION, 2 * self._window))

    # -- for the kernels -------------------------------------------------------------------------

    def seen(self, tables: Tables, kinds: NDArray[np.int64], oldest: NDArray[np.int64]) -> None:
        """A batch: how often an event concerns each node, and how long windows are."""
        nodes = tables.nodes
        rate = tables.concerns @ (kinds / max(1, kinds.sum()))
        known = len(self._rate)
        rate[:known] = np.where(self._rate > 0, (self._rate + rate[:known]) / 2, rate[:known])
        self._rate = rate
        if not self.active:
            return
        grown = nodes - len(self._node_seen)
        self._node_seen = np.concatenate([self._node_seen, np.zeros(grown)])
        more = np.zeros((grown, self._node_completed.shape[1]))
        self._node_completed = np.concatenate([self._node_completed, more])
        self._direct = np.concatenate([self._direct, more])
        followed = min(nodes, FOLLOWED)
        flow = np.zeros((followed, followed))
        flow[: len(self._flow), : len(self._flow)] = self._flow
        self._flow = flow
        size = np.array([len(self._automaton.taken_at(node)) for node in range(nodes)])
        asked = np.array(
            [
                (self._automaton.relevant(node) & self._automaton.correlated).bit_count()
                for node in range(nodes)
            ]
        )
        self._theta = np.maximum(rate, 1e-6)
        if self.knobs[knob.BY_RATIO] != ORDERS.index("work"):
            self._theta = self._theta * (TAU * size + (1 - TAU) * (1 + asked))
        self._steps = np.array([self._automaton.steps(node) for node in range(nodes)], np.float64)
        if len(oldest):
            spans = np.arange(len(oldest)) - oldest
            self._window = max(self._window, float(np.quantile(spans, 0.9)))
        self.knobs[knob.FADE_EVERY] = max(250.0, self._window / 4)

    def arrays(self, lane: Any) -> tuple[tuple[Any, ...], NDArray[np.float64]]:
        if self.active:
            self._set_limits(lane)
        mean = float(self._theta.mean()) if len(self._theta) else 1.0
        nodes = max(1, len(self._rate))
        return (
            self.bucket_seen, self._derived, self.completed,
            self._node_seen if len(self._node_seen) else np.zeros(nodes),
            self._node_completed if len(self._node_completed) else np.zeros((nodes, 1)),
            self._weights, self._rate, self._theta if len(self._theta) else np.ones(nodes),
            self._lost, np.array([0.0, mean]), self._overloaded, self._mass, self._limits,
            self._steps if len(self._steps) else np.ones(nodes), self._lived,
            self._means(nodes), self._flow, self._direct if self.active else np.ones((1, 1)),
        ), self.knobs  # fmt: skip

    def _means(self, nodes: int) -> NDArray[np.float64]:
        """Matches per partial match with a whole window, for each node and pattern.

        Solved along the flow from node to node, so that what the last step of a pattern has learned
        reaches the first one at once; buckets tell only how they differ from their node.
        """
        columns = len(self._weights)
        if not self.active or not len(self._node_seen):
            return np.ones((nodes, columns))
        member = np.zeros((nodes, columns))
        for node in range(nodes):
            for pattern, _ in self._automaton.nodes[node]:
                member[node, pattern % columns] = 1.0
        own = self._direct + LITTLE * member
        seen = self._node_seen[:, None] + 1.0
        parent, child = np.nonzero(self._flow)
        share = self._flow[parent, child][:, None]
        found = own / seen
        for _ in range(min(nodes, DEPTH)):
            total = own.copy()
            np.add.at(total, parent, share * found[child])
            found = total / seen
        beyond = self._node_completed[FOLLOWED:] + LITTLE * member[FOLLOWED:]
        found[FOLLOWED:] = beyond / seen[FOLLOWED:]
        least = 1e-9
        result: NDArray[np.float64] = np.maximum(found * member, least)
        return result

    def stops(self, begin: int, stop: int) -> Iterator[int]:
        """Rows after which the kernel comes back; without bounds only the last."""
        if not self.active:
            yield stop
            return
        step = 128
        while begin < stop:
            begin = min(begin + step, stop)
            yield begin
            step = min(CHUNK, 2 * step) if self._seconds is None else min(512, 2 * step)
        if begin == stop and stop == 0:
            yield stop

    def measured(self, rows: int, work: int, seconds: float, lane: Any) -> None:
        self.totals += (rows, work, seconds)
        if not self.active or rows <= 0:
            return
        if self.calibrating and self._rows >= self._calibration // 2:
            loads = self._loads(lane)
            self._sum[:4] += (rows, work, seconds, float(lane.meta[at.RECORDS]) * rows)
            self._sum[4:] += loads * rows
        self._rows += rows
        self._fixed = min(self._fixed, seconds / rows)
        if work > 0:
            unit = seconds / work
            self._timing = unit if self._timing == 0.0 else 0.8 * self._timing + 0.2 * unit
        self._warn(rows, seconds, lane)

    def _loads(self, lane: Any) -> NDArray[np.float64]:
        """Expected work of the next event per pattern (l_i)."""
        found = np.zeros(len(self._names))
        for node in np.flatnonzero(lane.heads[1] > 0.0).tolist():
            part = lane.heads[1][node] * self._rate[node]
            for pattern, _ in self._automaton.nodes[node]:
                found[pattern] += part
        return found

    def _set_limits(self, lane: Any) -> None:
        if self.calibrating:
            return
        rows = max(1.0, self._sum[0])
        work = math.inf
        if self._total is not None:
            work = self._total.amount * (self._sum[1] / rows if self._total.share else 1.0)
        if self._seconds is not None:
            seconds = self._seconds.amount * (self._sum[2] / rows if self._seconds.share else 1.0)
            if self._timing > 0.0:
                work = min(work, max(seconds / self._timing, 0.5))
        self.knobs[knob.LIMIT_WORK] = SAFETY * work
        if self._records is not None:
            records = self._records.amount / lane.bytes_per_record
            if self._records.share:
                records = self._records.amount * self._sum[3] / rows
            self.knobs[knob.LIMIT_RECORDS] = max(records, 1.0)
        for pattern, bound in self._single.items():
            if bound.share:
                self._limits[pattern] = bound.amount * self._sum[4 + pattern] / rows
            elif self._timing > 0.0:
                self._limits[pattern] = max(bound.amount / self._timing, 0.5)

    def _warn(self, rows: int, seconds: float, lane: Any) -> None:
        """A bound that no choice can meet: say the least possible, and go on at that."""
        if self._warned or self.calibrating or self._rows < LEAST_CALIBRATION:
            return
        least = None
        bound = self._seconds
        if bound is not None and not bound.share and self._fixed > bound.amount * _SLACK:
            least = f"latency: an event takes {self._fixed * 1e6:.2f} µs with nothing to match"
        memory = self._records
        if memory is not None and not memory.share and memory.amount < lane.bytes_per_record:
            least = f"memory: one partial match needs {lane.bytes_per_record} bytes"
        if least is not None:
            self._warned = True
            warnings.warn(
                f"the bound cannot be met, whatever is shed; {least}; going on at that",
                errors.BoundWarning,
                stacklevel=2,
            )

    # -- what it cost ----------------------------------------------------------------------------

    def estimates(self) -> dict[str, Estimate]:
        """Recall per pattern from the sketch: what was shed, at the rates of what was kept."""
        found: dict[str, Estimate] = {}
        columns = len(self._weights)
        share = np.zeros(columns)
        for index in range(len(self._names)):
            share[index % columns] += 1
        for index, name in enumerate(self._names):
            column = index % columns
            lost = float(self._lost[column] / max(1.0, share[column]))
            spread = 0.0
            if lost:
                mass = self._mass[:, column].astype(np.float64) / share[column]
                rate_spread = (self.completed[:, column] + 1.0) / (self.bucket_seen + 2.0) ** 2
                spread = 1.96 * math.sqrt(lost + float((mass**2 * rate_spread).sum()))
            got = int(self.found[index])
            found[name] = Estimate(
                got,
                lost,
                _share(got, lost),
                _share(got, lost + spread),
                _share(got, max(0.0, lost - spread)),
            )
        return found


def _share(found: int, lost: float) -> float:
    return 1.0 if found + lost <= 0 else found / (found + lost)
