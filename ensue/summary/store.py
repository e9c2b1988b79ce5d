"""`Store`: the retained events of one key as arrays, and the selection loop over them.

Arrays grow with the events up to size + 1, so a key with few events costs little; counters exist
only inside a decision. `Selection` is what all keys share: the policy, the machine, the window and
what is known about arrivals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.stopping import look
from ensue.summary.kernels import expect
from ensue.summary.kernels import select as kernel
from ensue.summary.kernels.arrays import Retained, Tables, make_lanes
from ensue.summary.machine import ClassedAutomaton
from ensue.summary.recall import Follower, Matches

MODES = {
    "benefit": kernel.BENEFIT,
    "present": kernel.PRESENT,
    "fifo": kernel.FIFO,
    "random": kernel.RANDOM,
}
MOST_STEPS = 1 << 16
NO_WINDOW = 1 << 62
LEARN_EVERY = 256


@dataclass
class Selection:
    """How events are chosen; `probability` by class, learned where `learn`."""

    machine: ClassedAutomaton
    size: int
    mode: int
    window: int | float
    counted: bool  # the window is in rows, so a step of time is one arrival
    sums: bool
    given: dict[int, float] | None  # label to probability
    seed: int
    detect: bool = False
    foresight: float = 0.0  # the weight of what is expected; 0: by how much fits the summary
    _tables: Tables | None = None

    @property
    def learn(self) -> bool:
        return self.given is None

    @property
    def horizon(self) -> int:
        """Rows of the coefficient table; a look ahead counts kept events, at most `size`."""
        reach = 2 * self.size
        if self.counted:
            reach = min(reach, int(self.window))
        return min(reach, MOST_STEPS)

    @property
    def decay(self) -> float:
        """Growth of the weight of later events: half is forgotten in about 3 windows or 3,000."""
        return 1.0 + 1.0 / max(4_000, 4 * min(self.horizon, MOST_STEPS))

    def fresh_tables(self) -> Tables:
        """Class weights, probabilities and cached coefficients, as arrays of one shape."""
        classes, steps = self.machine.classes, self.horizon + 1
        tables = Tables(
            # The weight of an event, events since the last refresh (at once), rows filled.
            learning=np.array([1.0, 1e18, 0.0]),
            class_weight=np.ones(classes + 1),
            probability=np.full(classes, 1.0 / (classes + 1)),
            coefficient=np.zeros((steps, self.machine.states)),
            exponent=np.zeros(steps),
        )
        if self.given is not None:
            for number, mask in enumerate(self.machine.masks):
                single = mask & (mask - 1) == 0
                label = mask.bit_length() - 1
                tables.probability[number] = self.given.get(label, 0.0) if single else 0.0
        return tables

    def tables(self) -> Tables:
        """The tables all keys share, grown when a new class was seen."""
        old = self._tables
        if old is None:
            self._tables = self.fresh_tables()
        elif len(old.probability) < self.machine.classes:
            tables, known = self.fresh_tables(), len(old.probability)
            tables.class_weight[:known] = old.class_weight[:known]
            tables.class_weight[known:-1] = 0.0
            tables.class_weight[-1] = old.class_weight[-1]
            tables.probability[:known] = old.probability
            tables.learning[kernel.WEIGHT] = old.learning[kernel.WEIGHT]
            self._tables = tables
        assert self._tables is not None
        return self._tables


class Store:
    """One key's retained events, in order."""

    def __init__(self, selection: Selection, kind: type[np.generic]) -> None:
        self._selection = selection
        self.numbers = np.zeros(9, np.int64)
        self.numbers[kernel.SEED] = selection.seed
        self.levels = np.zeros(5)
        self.levels[kernel.FORESIGHT] = selection.foresight
        kinds = (kind, np.int64, np.float64, np.int64, np.float64)
        self._events = Retained(*(np.empty(0, each) for each in kinds))
        self.followers: dict[int, Follower] = {}  # none until an event is dropped

    @property
    def count(self) -> int:
        return int(self.numbers[kernel.COUNT])

    @property
    def times(self) -> NDArray[Any]:
        return self._events.times[: self.count]

    @property
    def classes(self) -> NDArray[np.int64]:
        return self._events.classes[: self.count]

    @property
    def weights(self) -> NDArray[np.float64]:
        return self._events.weights[: self.count]

    @property
    def ids(self) -> NDArray[np.int64]:
        return self._events.ids[: self.count]

    @property
    def past(self) -> NDArray[np.float64]:
        return self._events.past[: self.count]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self._events)

    def insert(
        self,
        times: NDArray[Any],
        classes: NDArray[np.int64],
        weights: NDArray[np.float64],
        ids: NDArray[np.int64],
    ) -> None:
        """Events in order of time; −1 is the class of events without a label of the pattern."""
        chosen = self._selection
        self._follow(times, classes)
        self._reserve(min(chosen.size, self.count + len(times)) + 1)
        kernel.run(
            chosen.size,
            chosen.mode,
            chosen.learn,
            chosen.decay,
            LEARN_EVERY,
            chosen.detect,
            chosen.counted,
            self._events.times.dtype.type(chosen.window),
            times,
            classes,
            weights,
            ids,
            chosen.sums,
            self.numbers,
            self.levels,
            *self._events,
            *chosen.tables(),
            *chosen.machine.arrays(),
        )
        look()

    def ranked(self) -> tuple[NDArray[np.float64], bool]:
        """What the selection would rank by at the time of the latest event, and whether those are
        binary logarithms (where plain scores overflow)."""
        return subset_scores(
            self._selection, self.times, self.classes, self.weights, self.numbers, self.levels
        )

    def least(self) -> tuple[float, int]:
        """The lowest score as a binary logarithm, and the oldest event that has it."""
        scores, logged = self.ranked()
        at = int(np.argmin(scores))
        lowest = float(scores[at])
        return (lowest if logged else math.log2(lowest) if lowest > 0 else -math.inf), at

    def _follow(self, times: NDArray[Any], classes: NDArray[np.int64]) -> None:
        """Events that come, where one may be dropped: all matches are followed from then on."""
        full = self.count + int((classes >= 0).sum()) > self._selection.size
        if full and self.knows_all:
            self._begin_to_follow()
        for follower in self.followers.values():
            self._feed(follower, times, classes)

    def _begin_to_follow(self) -> None:
        """Nothing was dropped so far: what there was is what is retained."""
        self.followers[0] = self._new_follower()
        self._feed(self.followers[0], self.times, self.classes)

    def _new_follower(self) -> Follower:
        return Follower(self._events.times.dtype.type, self._selection.machine.states)

    def _feed(self, follower: Follower, times: NDArray[Any], classes: NDArray[np.int64]) -> None:
        window = self._events.times.dtype.type(self._selection.window)
        follower.insert(times, classes, self._selection.machine.arrays(), window)

    @property
    def knows_all(self) -> bool:
        """Whether every event that takes part is retained."""
        gone = self.numbers[kernel.REMOVED] + self.numbers[kernel.DISCARDED]
        return not self.followers and not gone

    def matches(self) -> Matches | None:
        """Those that there were; None where that is not known."""
        if not self.followers:
            return None
        return self.followers[0].told(self._selection.machine.arrays())

    def remove(self, index: int) -> None:
        if self.knows_all:
            self._begin_to_follow()
        kernel.drop(index, self.numbers, self._events)
        # What closed starts had settled is added up again at the next decision.
        self.numbers[kernel.SETTLED] = 0
        self._events.past[: self.count] = 0.0
        self.numbers[kernel.REMOVED] += 1

    def _reserve(self, room: int) -> None:
        have = len(self._events.times)
        if have >= room:
            return
        room = min(max(room, 2 * have, 64), self._selection.size + 1)
        grown = [np.zeros(room, array.dtype) for array in self._events]
        for larger, array in zip(grown, self._events, strict=True):
            larger[:have] = array
        self._events = Retained(*grown)

    # -- as stored state ---------------------------------------------------------------------------

    def columns(self) -> dict[str, NDArray[Any]]:
        masks = np.array(self._selection.machine.masks, np.int64)
        return {
            "time": self.times,
            "mask": masks[self.classes],
            "weight": self.weights,
            "id": self.ids,
            "past": self.past,
        }

    def fill(self, columns: dict[str, NDArray[Any]], numbers: Any, levels: Any) -> None:
        """What `columns`, `numbers` and `levels` were; COUNT and SETTLED are among the numbers."""
        count = len(columns["time"])
        self._reserve(count + 1)
        self._events.times[:count] = columns["time"]
        self._events.classes[:count] = self._selection.machine.classes_of(columns["mask"])
        self._events.weights[:count] = columns["weight"]
        self._events.ids[:count] = columns["id"]
        self._events.past[:count] = columns["past"]
        self.numbers[:] = numbers
        self.levels[:] = levels


def subset_scores(
    chosen: Selection,
    times: NDArray[Any],
    classes: NDArray[np.int64],
    weights: NDArray[np.float64],
    numbers: NDArray[np.int64],
    levels: NDArray[np.float64],
    tables: Tables | None = None,
) -> tuple[NDArray[np.float64], bool]:
    """Scores of these events alone, from nothing settled; the last time is now.

    True where they are binary logarithms. `tables` in place of what all keys share.
    """
    count, machine = len(times), chosen.machine
    scores = np.zeros(count)
    if count == 0:
        return scores, False
    room = float(chosen.size)
    if tables is None:
        refreshed(chosen, times.dtype.type, levels)
        tables = chosen.tables()
    else:
        # What can take part has its share of the places too.
        whole = chosen.tables().probability.sum()
        room *= tables.probability.sum() / whole if whole > 0 else 1.0
    scratch = numbers.copy()
    scratch[kernel.COUNT], scratch[kernel.SETTLED] = count, 0
    arcs = machine.arrays()
    now = times.dtype.type(levels[kernel.LATEST])
    kernel.score(
        count,
        room,
        min(chosen.mode, kernel.PRESENT),
        max(now, times[-1]),
        scratch,
        levels,
        Retained(times, classes, weights, np.empty(0, np.int64), np.zeros(count)),
        scores,
        times.dtype.type(chosen.window),
        chosen.counted,
        arcs,
        chosen.sums,
        tables,
        make_lanes(count, arcs),
    )
    return scores, bool(scratch[kernel.RESCALED] > numbers[kernel.RESCALED])


def refreshed(chosen: Selection, kind: Any, levels: NDArray[np.float64]) -> None:
    """Brings the shared tables up to what was learned."""
    kernel.refresh_tables(
        chosen.learn,
        chosen.counted,
        kind(chosen.window),
        levels,
        chosen.tables(),
        chosen.machine.arrays(),
    )


def with_shares(chosen: Selection, shares: NDArray[np.float64]) -> Tables:
    """The shared tables as they are where only these shares of each class can take part."""
    tables = Tables(*(array.copy() for array in chosen.tables()))
    tables.probability[:] *= shares
    refill(chosen, tables)
    return tables


def refill(chosen: Selection, tables: Tables) -> None:
    """Coefficients from the probabilities of the tables, as far as they were filled."""
    rows = int(tables.learning[kernel.FILLED])
    expect.retained_coefficients(tables, chosen.machine.arrays(), rows)
