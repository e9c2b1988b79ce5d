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

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        return pa.int64()

    def identity(self) -> int:
        return 0

    def absorb(self, state: int, *values: Any) -> int:
        return state + (None not in values)

    def finish(self, state: int) -> int:
        return state

    def over_columns(self, columns: list[pa.Array], offsets: Offsets, running: bool) -> pa.Array:
        counted = _counted(columns)
        if counted.shape[0]:
            before = flat.prefix_counts(counted)  # rows that count before each row
        else:
            before = np.arange(offsets[-1] + 1)
        if running:
            return pa.array(before[1:] - np.repeat(before[offsets[:-1]], np.diff(offsets)))
        return pa.array(np.diff(before[offsets]))


def _counted(columns: list[pa.Array]) -> flat.Mask:
    """True for rows with no null, or `NO_NULLS` when that is every row."""
    counted = flat.NO_NULLS
    for column in columns:
        valid = flat.validity(column)
        if valid.shape[0]:
            counted = valid & counted if counted.shape[0] else valid
    return counted
