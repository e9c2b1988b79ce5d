"""count(*) and count(x, ...): how many rows, or how many rows with no null among the arguments.

The state is the count.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.aggregate import columns as flat
from ensue.aggregate.base import Aggregate, Offsets


class Count(Aggregate):
    name = "count"
    arity = range(sys.maxsize)
    invertible = True

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        return pa.int64()

    def identity(self) -> int:
        return 0

    def lift(self, *values: Any) -> int:
        return 0 if any(value is None for value in values) else 1

    def combine(self, a: int, b: int) -> int:
        return a + b

    def inverse(self, a: int, b: int) -> int:
        return a - b

    def finish(self, state: int) -> int:
        return state

    def reduce_columns(self, columns: list[pa.Array], offsets: Offsets) -> pa.Array:
        counted = _counted(columns)
        if not counted.shape[0]:
            return pa.array(np.diff(offsets))
        return pa.array(np.diff(flat.prefix_counts(counted)[offsets]))

    def scan_columns(self, columns: list[pa.Array], offsets: Offsets) -> pa.Array:
        counted = _counted(columns)
        sizes = np.diff(offsets)
        if not counted.shape[0]:
            return pa.array(np.arange(1, offsets[-1] + 1) - np.repeat(offsets[:-1], sizes))
        counts = flat.prefix_counts(counted)
        return pa.array(counts[1:] - np.repeat(counts[offsets[:-1]], sizes))


def _counted(columns: list[pa.Array]) -> flat.Mask:
    """True for rows with no null, or `NO_NULLS` when that is every row."""
    counted = flat.NO_NULLS
    for column in columns:
        valid = flat.validity(column)
        if valid.shape[0]:
            counted = valid & counted if counted.shape[0] else valid
    return counted
