"""Quantiles in constant space: a histogram of logarithmic buckets (DDSketch, VLDB 2019).

A value falls into the bucket of its logarithm, so an answer is within `error` of the true value,
relatively. At most `BUCKETS` are kept: past that the smallest magnitudes share one bucket. A sketch
is never changed in place, because a token that is copied shares it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

BUCKETS = 1024


@dataclass(frozen=True)
class Sketch:
    error: float = 0.01
    count: int = 0
    zeros: int = 0
    positive: dict[int, int] = field(default_factory=dict)
    negative: dict[int, int] = field(default_factory=dict)

    @property
    def _growth(self) -> float:
        return (1 + self.error) / (1 - self.error)

    def add(self, value: float) -> Sketch:
        if math.isnan(value):
            return self
        if value == 0 or math.isinf(value):
            zeros = self.zeros + (value == 0)
            return Sketch(self.error, self.count + 1, zeros, self.positive, self.negative)
        bucket = math.ceil(math.log(abs(value)) / math.log(self._growth))
        side = dict(self.positive if value > 0 else self.negative)
        side[bucket] = side.get(bucket, 0) + 1
        if len(side) > BUCKETS:
            least, second = sorted(side)[:2]
            side[second] += side.pop(least)
        if value > 0:
            return Sketch(self.error, self.count + 1, self.zeros, side, self.negative)
        return Sketch(self.error, self.count + 1, self.zeros, self.positive, side)

    def quantile(self, part: float) -> float | None:
        if self.count == 0:
            return None
        rank = part * (self.count - 1)
        seen = 0
        for bucket, number in sorted(self.negative.items(), reverse=True):
            seen += number
            if seen > rank:
                return -self._middle(bucket)
        seen += self.zeros
        if seen > rank and self.zeros:
            return 0.0
        for bucket, number in sorted(self.positive.items()):
            seen += number
            if seen > rank:
                return self._middle(bucket)
        return math.inf

    def _middle(self, bucket: int) -> float:
        return 2 * self._growth**bucket / (self._growth + 1)


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
