"""f(DISTINCT x, ...): an aggregate over each different value once, as it first appears.

The state maps the key of a value to the value.

Over columns, values become dense codes, and one pass marks the rows that show their code for the
first time in their segment. All other rows then count as null, which every aggregate here skips:
the aggregate inside does the rest with its own kernels, for `scan` as for `reduce`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from ensue.aggregate import columns as flat
from ensue.aggregate import ordering
from ensue.aggregate.base import Aggregate, Offsets, State, plain_type

Seen = dict[Any, tuple[Any, ...]]


class Distinct(Aggregate):
    distinct = True

    def __init__(self, inner: Aggregate, name: str | None = None) -> None:
        self.inner = inner
        self.name = name or inner.name
        self.distinct = name is None
        self.arity = range(max(1, inner.arity.start), inner.arity.stop)

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        for given in argument_types:
            if not ordering.is_orderable(plain_type(given)):
                raise self.refuse_type(given, "values that can be compared")
        return self.inner.result_type(argument_types)

    def identity(self) -> Seen:
        return {}

    def absorb(self, state: Seen, *values: Any) -> Seen:
        if not any(value is None for value in values):
            state.setdefault(ordering.key(values), values)
        return state

    def finish(self, state: Seen) -> Any:
        if self.inner.name == "count":
            return len(state)
        inside: State = self.inner.identity()
        for values in state.values():
            inside = self.inner.absorb(inside, *values)
        return self.inner.finish(inside)

    def over_columns(self, columns: list[pa.Array], offsets: Offsets, running: bool) -> pa.Array:
        first = _first_rows(columns, offsets)
        if running:
            rows = flat.column(np.arange(len(first)), first, pa.int64())
            return self.inner.scan([column.take(rows) for column in columns], offsets)
        kept = [column.filter(pa.array(first)) for column in columns]
        return self.inner.reduce(kept, flat.prefix_counts(first)[offsets])


def _first_rows(columns: list[pa.Array], offsets: Offsets) -> flat.Mask:
    """True where a row has no null and its values did not stand in its segment before."""
    codes, size = _codes(columns[0])
    for column in columns[1:]:
        more, count = _codes(column)
        both = np.where((codes < 0) | (more < 0), -1, codes * count + more)
        codes, size = _codes(flat.column(both, both >= 0, pa.int64()))
    return _first_of_segment(codes, size, offsets)


def _codes(column: pa.Array) -> tuple[NDArray[np.int64], int]:
    """A number from 0 for each different value, -1 for null; and how many there are."""
    if pa.types.is_floating(column.type):
        # One bit pattern for each value that Spark holds equal: NaN, and 0.0 with -0.0.
        plain = flat.floats(column) + 0.0
        plain[np.isnan(plain)] = np.nan
        column = flat.column(plain, flat.validity(column), pa.float64())
    try:
        encoded = column.dictionary_encode()
    except pa.ArrowNotImplementedError:
        return _codes_of_nested(column)
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), len(encoded.dictionary)


def _codes_of_nested(column: pa.Array) -> tuple[NDArray[np.int64], int]:
    known: dict[Any, int] = {}
    codes = np.empty(len(column), np.int64)
    for row, value in enumerate(column.to_pylist()):
        codes[row] = -1 if value is None else known.setdefault(ordering.key(value), len(known))
    return codes, len(known)


@njit(cache=True, nogil=True)
def _first_of_segment(codes: NDArray[np.int64], size: int, offsets: Offsets) -> flat.Mask:
    first = np.zeros(codes.shape[0], np.bool_)
    last_segment = np.full(size, -1, np.int64)  # in which a code was seen
    for segment in range(offsets.shape[0] - 1):
        for row in range(offsets[segment], offsets[segment + 1]):
            code = codes[row]
            if code >= 0 and last_segment[code] != segment:
                last_segment[code] = segment
                first[row] = True
    return first
