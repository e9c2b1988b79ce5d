"""How many of the matches a summary still counts: those that there were are followed beside it.

Until the first event is dropped all of them are retained, and nothing is followed. From then on the
matches of every start are counted over all events, kept or not (`kernels/follow.py`); beyond
`MOST_LANES` open windows those of a random sample of starts, and the recall has an interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ensue.stopping import look
from ensue.summary.kernels import follow as kernel
from ensue.summary.kernels.arrays import Arcs

MOST_LANES = 512
_LANES = 32
_Z = 1.96


class Recall(NamedTuple):
    """The reported share of the matches, and an interval that holds it in 95 % of cases."""

    recall: float | None  # None where nothing is known
    low: float | None
    high: float | None


WHOLE, UNKNOWN = Recall(1.0, 1.0, 1.0), Recall(None, None, None)


class Matches(NamedTuple):
    """Matches that there were, and the variance of that estimate, as binary logarithms."""

    total: float = -math.inf
    variance: float = -math.inf
    sampled: bool = False

    @staticmethod
    def of(count: int) -> Matches:
        """So many, exactly."""
        return Matches(math.log2(count)) if count else Matches()

    def and_those(self, other: Matches) -> Matches:
        """Of two keys."""
        return Matches(
            float(np.logaddexp2(self.total, other.total)),
            float(np.logaddexp2(self.variance, other.variance)),
            self.sampled or other.sampled,
        )

    def recall(self, count: int) -> Recall:
        """Where so many are counted now."""
        if not count and self.total == -math.inf:
            return UNKNOWN if self.sampled else WHOLE
        if not count:
            return Recall(0.0, 0.0, 0.0)
        counted = math.log2(count)
        most = max(self.total, counted)
        spread = 0.0
        if self.variance > -math.inf:
            relative = 2.0 ** min(self.variance - 2.0 * most, 60.0)
            spread = _Z * math.sqrt(math.log1p(relative)) / math.log(2.0)
        return Recall(
            2.0 ** (counted - most),
            2.0 ** (counted - most - spread),
            2.0 ** min(counted - self.total + spread, 0.0),
        )


class Counted(Protocol):
    """The events of one key, some of which may have been dropped."""

    @property
    def knows_all(self) -> bool: ...

    def matches(self) -> Matches | None: ...


def recall_of(found: Iterable[tuple[Counted, int]]) -> Recall:
    """Of keys together, each with the matches that it counts now."""
    there, counted = Matches(), 0
    for store, count in found:
        mine = Matches.of(count) if store.knows_all else store.matches()
        if mine is None:
            return UNKNOWN
        there, counted = there.and_those(mine), counted + count
    return there.recall(counted)


class Follower:
    """The lanes of one key."""

    def __init__(self, kind: type[np.generic], states: int) -> None:
        numbers = np.zeros(kernel.NUMBERS)
        numbers[kernel.RATE] = 1.0
        numbers[[kernel.TOTAL, kernel.VARIANCE]] = -np.inf
        self._lanes = kernel.Followed(
            numbers, np.zeros(_LANES, kind), np.zeros(_LANES), np.zeros(_LANES),
            np.zeros((states, _LANES)),
        )  # fmt: skip

    def insert(
        self, times: NDArray[Any], classes: NDArray[np.int64], arcs: Arcs, window: Any
    ) -> None:
        begin = 0
        while True:
            room = len(self._lanes.drawn)
            begin += kernel.follow(
                self._lanes, arcs, window, times[begin:], classes[begin:], room < 2 * MOST_LANES
            )
            look()
            if begin >= len(times):
                return
            self._lanes = kernel.Followed(
                self._lanes.numbers, *(_twice(array) for array in self._lanes[1:])
            )

    def told(self, arcs: Arcs) -> Matches:
        numbers = kernel.told(self._lanes, arcs)
        sampled = bool(numbers[kernel.RATE] < 1.0)
        return Matches(float(numbers[kernel.TOTAL]), float(numbers[kernel.VARIANCE]), sampled)

    def copy(self) -> Follower:
        return self.of(*(array.copy() for array in self._lanes))

    # -- as stored state ---------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The open lanes."""
        low, high = (int(self._lanes.numbers[place]) for place in (kernel.LOW, kernel.HIGH))
        numbers = self._lanes.numbers.copy()
        numbers[[kernel.LOW, kernel.HIGH]] = 0, high - low
        lanes = [array[..., low:high].ravel() for array in self._lanes[1:]]
        return dict(zip(kernel.Followed._fields, (numbers, *lanes), strict=True))

    @classmethod
    def of(cls, numbers: Any, times: Any, drawn: Any, exponent: Any, ways: Any) -> Follower:
        made = cls(times.dtype.type, len(ways))
        made._lanes = kernel.Followed(numbers, times, drawn, exponent, ways)
        return made

    @classmethod
    def restored(
        cls, arrays: dict[str, NDArray[Any]], kind: type[np.generic], states: int
    ) -> Follower:
        """What `arrays` returned."""
        made = cls(kind, states)
        held = len(arrays["times"])
        while len(made._lanes.drawn) < held:
            made._lanes = kernel.Followed(
                made._lanes.numbers, *(_twice(array) for array in made._lanes[1:])
            )
        made._lanes.numbers[:] = arrays["numbers"]
        for name in ("times", "drawn", "exponent"):
            getattr(made._lanes, name)[:held] = arrays[name]
        made._lanes.ways[:, :held] = arrays["ways"].reshape(states, held)
        return made


def _twice(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((array, np.zeros_like(array)), axis=-1)
