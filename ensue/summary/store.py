"""`Store`: the retained events of one key as arrays, and the selection loop over them.

Arrays grow with the events up to size + 1, so a key with few events costs little; counters exist
only inside a decision. `Selection` is what all keys share: the policy, the machine, the window and
what is known about arrivals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.summary.kernels import expect as suse_expect
from ensue.summary.kernels import select as kernel
from ensue.summary.machine import Machine

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

    machine: Machine
    size: int
    mode: int
    window: int | float
    counted: bool  # the window is in rows, so a step of time is one arrival
    sums: bool
    given: dict[int, float] | None  # label to probability
    seed: int
    detect: bool = False
    foresight: float = 0.0  # the weight of what is expected; 0: by how much fits the summary
    _tables: dict[str, Any] = field(default_factory=dict)

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

    def fresh_tables(self) -> dict[str, Any]:
        """Class weights, probabilities and cached coefficients, as arrays of one shape."""
        classes, steps = self.machine.classes, self.horizon + 1
        tables: dict[str, Any] = {
            # The weight of an event, events since the last refresh (at once), rows filled.
            "learning": np.array([1.0, 1e18, 0.0]),
            "class_weight": np.ones(classes + 1),
            "probability": np.full(classes, 1.0 / (classes + 1)),
            "coefficient": np.zeros((steps, self.machine.states)),
            "exponent": np.zeros(steps),
        }
        if self.given is not None:
            for number, mask in enumerate(self.machine.masks):
                single = mask & (mask - 1) == 0
                label = mask.bit_length() - 1
                tables["probability"][number] = self.given.get(label, 0.0) if single else 0.0
        return tables

    def tables(self) -> dict[str, Any]:
        """The tables all keys share, grown when a new class was seen."""
        if not self._tables:
            self._tables = self.fresh_tables()
        elif len(self._tables["probability"]) < self.machine.classes:
            old = self._tables
            self._tables = self.fresh_tables()
            known = len(old["probability"])
            self._tables["class_weight"][:known] = old["class_weight"][:known]
            self._tables["class_weight"][known:-1] = 0.0
            self._tables["class_weight"][-1] = old["class_weight"][-1]
            self._tables["probability"][:known] = old["probability"]
            self._tables["learning"][0] = old["learning"][0]
        return self._tables

    def shares(self) -> NDArray[np.float64]:
        """The share of each class among the rows, as given or as observed by now."""
        tables = self.tables()
        if not self.learn:
            return np.asarray(tables["probability"])
        weight = tables["class_weight"]
        return np.asarray(weight[:-1] / weight.sum())


class Store:
    """One key's retained events, in order."""

    def __init__(self, selection: Selection, kind: type[np.generic]) -> None:
        self._selection = selection
        self.numbers = np.zeros(9, np.int64)
        self.numbers[kernel.SEED] = selection.seed
        self.levels = np.zeros(5)
        self.levels[kernel.FORESIGHT] = selection.foresight
        self._times: NDArray[Any] = np.empty(0, kind)
        self._classes = np.empty(0, np.int64)
        self._weights = np.empty(0, np.float64)
        self._ids = np.empty(0, np.int64)
        self._past = np.empty(0, np.float64)

    @property
    def count(self) -> int:
        return int(self.numbers[kernel.COUNT])

    @property
    def times(self) -> NDArray[Any]:
        return self._times[: self.count]

    @property
    def classes(self) -> NDArray[np.int64]:
        return self._classes[: self.count]

    @property
    def weights(self) -> NDArray[np.float64]:
        return self._weights[: self.count]

    @property
    def ids(self) -> NDArray[np.int64]:
        return self._ids[: self.count]

    @property
    def bytes(self) -> int:
        held = (self._times, self._classes, self._weights, self._ids, self._past)
        return sum(array.nbytes for array in held)

    def insert(
        self,
        times: NDArray[Any],
        classes: NDArray[np.int64],
        weights: NDArray[np.float64],
        ids: NDArray[np.int64],
    ) -> None:
        """Events in order of time; −1 is the class of events without a label of the pattern."""
        chosen = self._selection
        self._reserve(min(chosen.size, self.count + len(times)) + 1)
        tables, arrays = chosen.tables(), chosen.machine.arrays()
        kernel.run(
            chosen.size,
            chosen.mode,
            chosen.learn,
            chosen.decay,
            LEARN_EVERY,
            chosen.detect,
            chosen.counted,
            self._times.dtype.type(chosen.window),
            times,
            classes,
            weights,
            ids,
            self.numbers,
            self.levels,
            self._times,
            self._classes,
            self._weights,
            self._ids,
            self._past,
            **tables,
            **arrays,
            fork=chosen.machine.fork,
            sums=chosen.sums,
        )

    def scores(self) -> NDArray[np.float64]:
        """What the selection would rank by, at the time of the latest event."""
        return self.ranked()[0]

    def ranked(self) -> tuple[NDArray[np.float64], bool]:
        """Scores, and whether they are binary logarithms (where plain ones overflow)."""
        return subset_scores(
            self._selection, self.times, self.classes, self.weights, self.numbers, self.levels
        )

    def least(self) -> tuple[float, int]:
        """The lowest score as a binary logarithm, and the oldest event that has it."""
        scores, logged = self.ranked()
        at = int(np.argmin(scores))
        lowest = float(scores[at])
        return (lowest if logged else math.log2(lowest) if lowest > 0 else -math.inf), at

    def expected(self) -> float:
        """The binary logarithm of the matches to expect of as many rows with these shares."""
        return self._expected(self._selection.shares())

    def _expected(self, shares: NDArray[np.float64]) -> float:
        chosen, arrays = self._selection, self._selection.machine.arrays()
        reach = chosen.window * suse_expect.arrival_rate(self.levels, chosen.counted)
        return float(
            suse_expect.expected_matches(
                shares,
                arrays["class_offset"],
                arrays["arc_from"],
                arrays["arc_to"],
                arrays["final"],
                chosen.machine.fork,
                int(self.numbers[kernel.ROWS]),
                int(min(reach, 2.0**62)),
            )
        )

    def remove(self, index: int) -> None:
        kernel.drop(
            index,
            self.numbers,
            self._times,
            self._classes,
            self._weights,
            self._ids,
            self._past,
        )
        # What closed starts had settled is added up again at the next decision.
        self.numbers[kernel.SETTLED] = 0
        self._past[: self.count] = 0.0
        self.numbers[kernel.REMOVED] += 1

    def _reserve(self, room: int) -> None:
        have = len(self._times)
        if have >= room:
            return
        room = min(max(room, 2 * have, 64), self._selection.size + 1)
        for name in ("_times", "_classes", "_weights", "_ids", "_past"):
            grown = np.zeros(room, getattr(self, name).dtype)
            grown[:have] = getattr(self, name)
            setattr(self, name, grown)

    # -- as stored state ---------------------------------------------------------------------------

    def columns(self) -> dict[str, NDArray[Any]]:
        masks = np.array(self._selection.machine.masks, np.int64)
        return {
            "time": self.times,
            "mask": masks[self.classes],
            "weight": self.weights,
            "id": self.ids,
            "past": self._past[: self.count],
        }

    def fill(self, columns: dict[str, NDArray[Any]], numbers: Any, levels: Any) -> None:
        """What `columns`, `numbers` and `levels` were; COUNT and SETTLED are among the numbers."""
        count = len(columns["time"])
        self._reserve(count + 1)
        distinct, inverse = np.unique(columns["mask"], return_inverse=True)
        classes = [self._selection.machine.class_of(int(mask)) for mask in distinct]
        self._times[:count] = columns["time"]
        self._classes[:count] = np.array(classes, np.int64)[inverse] if count else 0
        self._weights[:count] = columns["weight"]
        self._ids[:count] = columns["id"]
        self._past[:count] = columns["past"]
        self.numbers[:] = numbers
        self.levels[:] = levels


def subset_scores(
    chosen: Selection,
    times: NDArray[Any],
    classes: NDArray[np.int64],
    weights: NDArray[np.float64],
    numbers: NDArray[np.int64],
    levels: NDArray[np.float64],
    tables: dict[str, Any] | None = None,
) -> tuple[NDArray[np.float64], bool]:
    """Scores of these events alone, from nothing settled; the last time is now.

    True where they are binary logarithms. `tables` in place of what all keys share.
    """
    count, machine = len(times), chosen.machine
    scores = np.zeros(count)
    if count == 0:
        return scores, False
    arrays = machine.arrays()
    room = float(chosen.size)
    if tables is None:
        refreshed(chosen, times.dtype.type, levels)
        tables = chosen.tables()
    else:
        # What can take part has its share of the places too.
        whole = chosen.tables()["probability"].sum()
        room *= tables["probability"].sum() / whole if whole > 0 else 1.0
    scratch = numbers.copy()
    scratch[kernel.COUNT], scratch[kernel.SETTLED] = count, 0
    states = machine.states
    arcs = int(np.diff(arrays["class_offset"]).max())
    now = times.dtype.type(levels[kernel.LATEST])
    kernel.score(
        count,
        room,
        min(chosen.mode, kernel.PRESENT),
        max(now, times[-1]),
        scratch,
        levels,
        times,
        classes,
        weights,
        np.zeros(count),
        scores,
        times.dtype.type(chosen.window),
        chosen.counted,
        **arrays,
        fork=machine.fork,
        sums=chosen.sums,
        probability=tables["probability"],
        coefficient=tables["coefficient"],
        exponent=tables["exponent"],
        learning=tables["learning"],
        lane_first=np.empty(count, np.int64),
        lane_last=np.empty(count, np.int64),
        terminal=np.empty((states, count)),
        work=np.empty((4, states, count)),
        kept=np.empty(16),
        kept_sum=np.empty(16),
        spare=np.empty((arcs, 2, count)),
    )
    return scores, bool(scratch[kernel.RESCALED] > numbers[kernel.RESCALED])


def refreshed(chosen: Selection, kind: Any, levels: NDArray[np.float64]) -> None:
    """Brings the shared tables up to what was learned."""
    kernel.refresh_tables(
        chosen.learn,
        chosen.counted,
        kind(chosen.window),
        levels,
        **chosen.tables(),
        **_arcs(chosen),
    )


def with_shares(chosen: Selection, shares: NDArray[np.float64]) -> dict[str, Any]:
    """The shared tables as they are where only these shares of each class can take part."""
    tables = {name: array.copy() for name, array in chosen.tables().items()}
    tables["probability"] *= shares
    refill(chosen, tables)
    return tables


def refill(chosen: Selection, tables: dict[str, Any]) -> None:
    """Coefficients from the probabilities of the tables, as far as they were filled."""
    suse_expect.retained_coefficients(
        tables["probability"],
        **_arcs(chosen),
        coefficient=tables["coefficient"],
        exponent=tables["exponent"],
        rows=int(tables["learning"][kernel.FILLED]),
    )


def _arcs(chosen: Selection) -> dict[str, NDArray[Any]]:
    arrays = chosen.machine.arrays()
    return {name: arrays[name] for name in ("class_offset", "arc_from", "arc_to", "final")}
