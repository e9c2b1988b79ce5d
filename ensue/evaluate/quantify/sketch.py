"""Quantiles in constant space: a histogram of logarithmic buckets (DDSketch, VLDB 2019).

A value falls into the bucket of its logarithm, so an answer is within `error` of the true value,
relatively. At most `BUCKETS` are kept: past that the smallest magnitudes share one bucket. Values
are ordered as Spark orders them: NaN above infinity. A sketch is never changed in place, because a
token that is copied shares it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUCKETS = 1024
_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class Sketch:
    error: float = 0.01
    count: int = 0
    zeros: int = 0
    lowest: int = 0  # how often -infinity came
    highest: int = 0  # infinity
    nans: int = 0
    positive: dict[int, int] = field(default_factory=dict)
    negative: dict[int, int] = field(default_factory=dict)

    @property
    def _growth(self) -> float:
        return (1 + self.error) / (1 - self.error)

    def add(self, value: float) -> Sketch:
        more = replace(self, count=self.count + 1)
        if math.isnan(value):
            return replace(more, nans=self.nans + 1)
        if value == 0:
            return replace(more, zeros=self.zeros + 1)
        if math.isinf(value):
            if value > 0:
                return replace(more, highest=self.highest + 1)
            return replace(more, lowest=self.lowest + 1)
        bucket = math.ceil(math.log(abs(value)) / math.log(self._growth))
        side = dict(self.positive if value > 0 else self.negative)
        side[bucket] = side.get(bucket, 0) + 1
        if len(side) > BUCKETS:
            least, second = sorted(side)[:2]
            side[second] += side.pop(least)
        return replace(more, positive=side) if value > 0 else replace(more, negative=side)

    def quantile(self, part: float) -> float | None:
        if self.count == 0:
            return None
        rank = part * (self.count - 1)
        below = [(-self._middle(b), n) for b, n in sorted(self.negative.items(), reverse=True)]
        above = [(self._middle(b), n) for b, n in sorted(self.positive.items())]
        ends = [(math.inf, self.highest), (math.nan, self.nans)]
        seen = 0
        for value, number in [(-math.inf, self.lowest), *below, (0.0, self.zeros), *above, *ends]:
            seen += number
            if number and seen > rank:
                return value
        raise AssertionError("the numbers add up to the count")

    def _middle(self, bucket: int) -> float:
        # In logarithms: the bucket of the largest floats has a bound beyond them.
        middle = bucket * math.log(self._growth) + math.log(2 / (self._growth + 1))
        return math.exp(middle) if middle < math.log(_LARGEST) else _LARGEST


def quantiles(
    values: NDArray[np.float64], starts: NDArray[np.int64], error: float, part: float
) -> NDArray[np.float64]:
    """The answers of the sketches of many stretches at once; every stretch has a value.

    The same buckets as `Sketch`, found by sorting: a value's place is its sign and bucket, below
    `-BUCKETS`-th of which all share one.
    """
    finite = np.isfinite(values) & (values != 0)
    growth = (1 + error) / (1 - error)
    with np.errstate(divide="ignore", invalid="ignore"):
        bucket = np.ceil(np.log(np.abs(values)) / math.log(growth))
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    bucket = np.where(finite, _shared(bucket, np.sign(values), owner, finite), 0.0)
    rank = np.where(np.isnan(values), 3.0, np.where(np.isinf(values), 2.0, 1.0)) * np.where(
        values < 0, -1.0, 1.0
    )
    rank[values == 0] = 0.0
    place = np.lexsort((bucket * np.sign(rank), rank, owner))
    asked = starts[:-1] + np.floor(part * (np.diff(starts) - 1)).astype(np.int64)
    chosen = place[asked]
    middle = bucket[chosen] * math.log(growth) + math.log(2 / (growth + 1))
    with np.errstate(over="ignore"):
        size = np.minimum(np.exp(middle), _LARGEST)
    answers: NDArray[np.float64] = np.where(
        finite[chosen], np.sign(values[chosen]) * size, values[chosen]
    )
    return answers


def _shared(
    bucket: NDArray[np.float64],
    sign: NDArray[np.float64],
    owner: NDArray[np.int64],
    finite: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Buckets once the smallest magnitudes of a side share one."""
    rows = np.flatnonzero(finite)
    order = rows[np.lexsort((-bucket[rows], sign[rows], owner[rows]))]
    side = (owner[order], sign[order])
    new_side = np.ones(len(order), np.bool_)
    new_side[1:] = (side[0][1:] != side[0][:-1]) | (side[1][1:] != side[1][:-1])
    new = new_side.copy()
    new[1:] |= bucket[order][1:] != bucket[order][:-1]
    number = np.cumsum(new)
    if len(order):
        number = number - np.maximum.accumulate(np.where(new_side, number, 0))
    over = number >= BUCKETS
    if not over.any():
        return bucket
    kept = bucket.copy()
    last = np.maximum.accumulate(np.where(new & ~over, np.arange(len(order)), 0))
    kept[order[over]] = bucket[order[last[over]]]
    return kept


class AddToSketch:
    """The fold; a class, so that it travels to workers."""

    __name__ = "sketch"

    def __init__(self, error: float) -> None:
        self.error = error

    def __call__(self, state: Any, value: Any) -> Any:
        sketch = Sketch(self.error) if state is None else state
        return sketch if value is None else sketch.add(float(value))


class QuantileOf:
    """The answer of a sketch."""

    __name__ = "quantile"

    def __init__(self, part: float) -> None:
        self.part = part

    def __call__(self, sketch: Any) -> float | None:
        return None if sketch is None else sketch.quantile(self.part)
