"""Quantiles in constant space: how many values fell into each bucket (DDSketch, VLDB 2019).

Buckets grow with the values, so the middle of one is within `error` of every value in it,
relatively. Every octave has the same number of them, cut at tabulated bounds: which bucket a value
falls into is a matter of exact comparisons, the same on every machine, one by one or in arrays.
Buckets are numbered in the order of their values, from -infinity by 0 to infinity and NaN, as Spark
orders them; so a sketch is two flat arrays, and the sketch of two inputs is their sum, in any
order. Nothing is ever collapsed: doubles have 2,098 octaves of each sign, which bounds the size
(146,865 buckets of 16 bytes for 1 %, where values really fill 600 decades). A sketch is never
changed in place, because a token that is copied shares it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue import errors

VERSION = 2  # of a stored sketch; 1 had at most 1,024 buckets, and lost small values past them
LEAST_ERROR = 1e-4  # below that the buckets are more than most inputs have values
_FIRST = -1074  # below the exponent of the least double
_OCTAVES = 2100  # places for those of the doubles, and for infinity
Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]


class Scale:
    """The buckets of one octave, from 0.5 up to 1, and the number of every bucket."""

    def __init__(self, error: float) -> None:
        growth = math.log1p(2 * error / (1 - error))
        self.parts = math.ceil(math.log(2) / growth)
        # By decimal arithmetic, which rounds alike everywhere; a power of floats does not.
        exact = Context(prec=40)
        bounds = [
            exact.divide(exact.power(Decimal(2), exact.divide(Decimal(j), Decimal(self.parts))), 2)
            for j in range(self.parts + 1)
        ]
        self.bounds = [float(bound) for bound in bounds[:-1]]
        self.middles = [
            float(exact.divide(exact.multiply(exact.add(low, low), high), exact.add(low, high)))
            for low, high in pairwise(bounds)
        ]
        self.infinity = _OCTAVES * self.parts

    def bucket(self, value: float) -> int:
        if value == 0:
            return 0
        if math.isnan(value):
            return self.infinity + 1
        if math.isinf(value):
            return self.infinity if value > 0 else -self.infinity
        part, exponent = math.frexp(abs(value))
        number = (exponent - _FIRST) * self.parts + bisect_right(self.bounds, part)
        return number if value > 0 else -number

    def buckets(self, values: Numbers) -> Integers:
        """The same, of many values."""
        part, exponent = np.frexp(np.abs(values))
        inside = np.searchsorted(np.array(self.bounds), part, side="right")
        number = (exponent.astype(np.int64) - _FIRST) * self.parts + inside
        number[values == 0] = 0
        number[np.isinf(values)] = self.infinity
        number = np.where(values < 0, -number, number)
        number[np.isnan(values)] = self.infinity + 1
        return number

    def value(self, bucket: int) -> float:
        """The middle of a bucket."""
        size = abs(bucket)
        if size >= self.infinity:
            return math.nan if size > self.infinity else math.copysign(math.inf, bucket)
        if size == 0:
            return 0.0
        octave, part = divmod(size - 1, self.parts)
        return math.copysign(math.ldexp(self.middles[part], octave + _FIRST), bucket)


@lru_cache(maxsize=16)
def scale(error: float) -> Scale:
    return Scale(error)


def _none() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Sketch:
    error: float = 0.01
    buckets: Integers = field(default_factory=_none)  # those with a value, ascending
    counts: Integers = field(default_factory=_none)  # and how many

    @staticmethod
    def of(values: Numbers, error: float) -> Sketch:
        return Sketch(error, *np.unique(scale(error).buckets(values), return_counts=True))

    def add(self, value: float) -> Sketch:
        bucket = scale(self.error).bucket(value)
        place = int(np.searchsorted(self.buckets, bucket))
        if place < len(self.buckets) and self.buckets[place] == bucket:
            counts = self.counts.copy()
            counts[place] += 1
            return Sketch(self.error, self.buckets, counts)
        buckets = np.insert(self.buckets, place, bucket)
        return Sketch(self.error, buckets, np.insert(self.counts, place, 1))

    def quantile(self, part: float) -> float | None:
        ends = np.cumsum(self.counts)
        if len(ends) == 0:
            return None
        rank = _rank(part, ends[-1:])
        place = np.searchsorted(ends, rank, side="right")
        return scale(self.error).value(int(self.buckets[place][0]))


def _rank(part: float, count: Integers) -> Integers:
    return np.floor(part * (count - 1)).astype(np.int64)


def quantiles(values: Numbers, starts: Integers, error: float, part: float) -> Numbers:
    """The answers of the sketches of many stretches at once; every stretch has a value."""
    used = scale(error)
    buckets = used.buckets(values)
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    ordered = buckets[np.lexsort((buckets, owner))]
    chosen = ordered[starts[:-1] + _rank(part, np.diff(starts))]
    return np.array([used.value(bucket) for bucket in chosen.tolist()], np.float64)


class AddToSketch:
    """The fold; a class, so that it travels to workers."""

    __name__ = "sketch"

    def __init__(self, error: float) -> None:
        self.error = error

    def __call__(self, state: Any, value: Any) -> Any:
        sketch = Sketch(self.error) if state is None else state
        if sketch.error != self.error:
            raise _other_error(sketch.error, self.error)
        return sketch if value is None else sketch.add(float(value))


class QuantileOf:
    """The answer of a sketch."""

    __name__ = "quantile"

    def __init__(self, part: float) -> None:
        self.part = part

    def __call__(self, sketch: Any) -> float | None:
        return None if sketch is None else sketch.quantile(self.part)


def stored(sketch: Sketch) -> list[Any]:
    """What JSON keeps of a sketch."""
    return [VERSION, sketch.error, sketch.buckets.tolist(), sketch.counts.tolist()]


def restored(saved: list[Any]) -> Sketch:
    version = saved[0] if len(saved) == 4 else 1
    if version != VERSION:
        raise errors.StateError(
            f"the stored state holds a quantile of version {version}; this Ensue reads version "
            f"{VERSION}" + (", whose buckets differ" if version < VERSION else ""),
            remedy="start the query afresh, or restore it with the version of Ensue that wrote it",
        )
    _, error, buckets, counts = saved
    found = Sketch(float(error), np.array(buckets, np.int64), np.array(counts, np.int64))
    if len(found.buckets) != len(found.counts):
        raise ValueError("another sketch")
    return found


def _other_error(given: float, wanted: float) -> errors.StateError:
    return errors.StateError(
        f"the stored quantile has the error {given}, and the query asks for {wanted}",
        remedy=f"restore it with error={given}, or start afresh",
    )
