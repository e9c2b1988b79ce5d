"""array_agg(x): the list of the values in row order, without nulls; empty of no values.

The state is the list. `collect_set` is `array_agg` over distinct values, in order of first
appearance (Spark's order is arbitrary); see `distinct.py`.

A running `array_agg` writes every prefix: its size is quadratic in the length of a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from ensue import errors
from ensue.aggregate import columns as flat
from ensue.aggregate.base import Aggregate, Offsets, plain_type

_MOST_ITEMS = 2**31 - 1  # of all lists in one Arrow column


class ArrayAgg(Aggregate):
    name = "array_agg"

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        return pa.list_(plain_type(argument_types[0]))

    def identity(self) -> list[Any]:
        return []

    def absorb(self, state: list[Any], *values: Any) -> list[Any]:
        if values[0] is not None:
            state.append(values[0])
        return state

    def finish(self, state: list[Any]) -> list[Any]:
        return list(state)

    def over_columns(self, columns: list[pa.Array], offsets: Offsets, running: bool) -> pa.Array:
        if not running:
            column, bounds = _without_nulls(columns[0], offsets)
            return self._lists(bounds, column)
        valid = flat.validity(columns[0])
        if not valid.shape[0]:
            valid = np.ones(len(columns[0]), np.bool_)
        before = flat.prefix_counts(valid)  # values before each row
        first = np.repeat(before[offsets[:-1]], np.diff(offsets))  # ... before its segment
        sizes = before[1:] - first
        bounds = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        self._check_size(bounds)
        column = columns[0].drop_null()
        return self._lists(bounds, column.take(pa.array(_prefixes(first, bounds))))

    def _lists(self, bounds: Offsets, items: pa.Array) -> pa.Array:
        self._check_size(bounds)
        return pa.ListArray.from_arrays(
            pa.array(bounds.astype(np.int32)), items, type=pa.list_(items.type)
        )

    def _check_size(self, bounds: Offsets) -> None:
        if bounds[-1] > _MOST_ITEMS:
            raise errors.LimitError(
                f"{self}: {bounds[-1]} items in one column of lists; Arrow holds {_MOST_ITEMS}",
                remedy="collect over fewer rows, or at the end of a match instead of at each row",
            )


def _without_nulls(column: pa.Array, offsets: Offsets) -> tuple[pa.Array, Offsets]:
    valid = flat.validity(column)
    if not valid.shape[0]:
        return column, offsets
    return column.drop_null(), flat.prefix_counts(valid)[offsets]


@njit(cache=True, nogil=True)
def _prefixes(first: NDArray[np.int64], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The items of list i: first[i], first[i] + 1, ... as far as its bounds reach."""
    items = np.empty(bounds[-1], np.int64)
    for row in range(first.shape[0]):
        for item in range(bounds[row], bounds[row + 1]):
            items[item] = first[row] + item - bounds[row]
    return items
