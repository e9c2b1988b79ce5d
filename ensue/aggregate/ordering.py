"""How Spark orders and equates values, in Python and over columns.

- NaN equals itself and is greater than any number; 0.0 equals -0.0.
- Strings and bytes compare by their (UTF-8) bytes.
- Lists and structs compare item by item, null first; a list is less than its continuation.

Over columns, `sort_keys` gives numbers in the same order, and `take_extrema` takes the item where
the extremum of each segment stands: so min, max, min_by, max_by, bool_and and bool_or.
Cost: one pass over the keys; for strings and decimals beyond 64 bits, first a dictionary and its
sort.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from ensue.aggregate import columns as flat
from ensue.aggregate.base import Offsets

Keys = NDArray[np.int64] | NDArray[np.float64]


def key(value: Any) -> Any:
    """A hashable key that equates and orders values of one type as Spark does."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dict):
        return (1, tuple(key(item) for item in value.values()))
    if isinstance(value, list | tuple):
        return (1, tuple(key(item) for item in value))
    return (1, value)


def is_orderable(kind: pa.DataType) -> bool:
    """Spark orders every type but maps and calendar intervals, and what holds one."""
    if pa.types.is_map(kind) or pa.types.is_interval(kind):
        return False
    return all(is_orderable(kind.field(i).type) for i in range(kind.num_fields))


def sort_keys(column: pa.Array) -> Keys | None:
    """Numbers that order the column's values, or None for nested types."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    if pa.types.is_floating(kind):
        return flat.floats(column)
    if pa.types.is_uint64(kind):
        # With the first bit turned over, unsigned order is signed order.
        return flat.integers(column) ^ np.int64(-(2**63))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return flat.integers(column)
    if pa.types.is_decimal128(kind):
        low, high = np.ascontiguousarray(flat.limbs(column).view(np.int64).T)
        if np.array_equal(high, low >> 63):  # every unscaled value fits its low limb
            return low
    if pa.types.is_nested(kind):
        return None
    try:
        return _ranks(column)
    except pa.ArrowNotImplementedError:
        return None


def _ranks(column: pa.Array) -> NDArray[np.int64]:
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    ranks[-1] = -1
    return ranks[encoded.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)]


def take_extrema(
    taken: pa.Array,
    ordered_by: pa.Array,
    offsets: Offsets,
    running: bool,
    *,
    greatest: bool,
    last_of_equals: bool = False,
) -> pa.Array | None:
    """For each segment (or each row, if running) the item of `taken` where `ordered_by` is extreme.

    Null where all of `ordered_by` is null; None if its type needs comparison in Python.
    """
    keys = sort_keys(ordered_by)
    if keys is None:
        return None
    keys.flags.writeable = False  # as all arrays that kernels get
    valid = flat.validity(ordered_by)
    rows = _positions(keys, valid, offsets, running, greatest, last_of_equals)
    return taken.take(flat.column(rows, rows >= 0, pa.int64()))


@njit(cache=True, nogil=True)
def _beats(a: float, b: float, greatest: bool) -> bool:
    """a is strictly more extreme than b; NaN is the greatest. Also compiled for integers."""
    if greatest:
        return a > b or (np.isnan(a) and not np.isnan(b))
    return a < b or (np.isnan(b) and not np.isnan(a))


@njit(cache=True, nogil=True)
def _positions(
    keys: Keys,
    valid: flat.Mask,
    offsets: Offsets,
    running: bool,
    greatest: bool,
    last_of_equals: bool,
) -> NDArray[np.int64]:
    nullable = valid.shape[0] > 0
    positions = np.empty(offsets[-1] if running else offsets.shape[0] - 1, np.int64)
    for segment in range(offsets.shape[0] - 1):
        best = np.int64(-1)
        for row in range(offsets[segment], offsets[segment + 1]):
            if (not nullable or valid[row]) and (
                best < 0
                or _beats(keys[row], keys[best], greatest)
                or (last_of_equals and not _beats(keys[best], keys[row], greatest))
            ):
                best = np.int64(row)
            if running:
                positions[row] = best
        if not running:
            positions[segment] = best
    return positions
