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


class AddToSketch:
    """The fold; a class, so that it travels to workers."""

    __name__ = "sketch"

    def __init__(self, error: float) -> None:
        self._error = error

    def __call__(self, state: Any, value: Any) -> Any:
        sketch = Sketch(self._error) if state is None else state
        return sketch if value is None else sketch.add(float(value))


class QuantileOf:
    """The answer of a sketch."""

    __name__ = "quantile"

    def __init__(self, part: float) -> None:
        self._part = part

    def __call__(self, sketch: Any) -> float | None:
        return None if sketch is None else sketch.quantile(self._part)
