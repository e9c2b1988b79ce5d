"""Arrow columns as flat NumPy arrays and back, without a Python object per row.

A validity mask of length 0 means that no value is null: kernels then skip the test.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

NO_NULLS: Mask = np.empty(0, np.bool_)


def validity(column: pa.Array) -> Mask:
    """True where the value is not null, or `NO_NULLS`."""
    if column.null_count == 0:
        return NO_NULLS
    return column.is_valid().to_numpy(zero_copy_only=False)


def values(column: pa.Array, dtype: type[np.generic]) -> NDArray[np.generic]:
    """The raw values of a fixed-width column, read as `dtype`; those of nulls mean nothing."""
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.empty(0, dtype)
    everything = np.frombuffer(data, dtype)
    return everything[column.offset : column.offset + len(column)]


_WIDTHS: dict[tuple[bool, int], type[np.generic]] = {
    (False, 8): np.int8,
    (False, 16): np.int16,
    (False, 32): np.int32,
    (False, 64): np.int64,
    (True, 8): np.uint8,
    (True, 16): np.uint16,
    (True, 32): np.uint32,
    (True, 64): np.uint64,
}


def integers(column: pa.Array) -> NDArray[np.int64]:
    """A column of booleans, whole numbers, dates or times as int64; uint64 keeps its bits."""
    if pa.types.is_boolean(column.type):
        return column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)
    unsigned = pa.types.is_unsigned_integer(column.type)
    raw = values(column, _WIDTHS[unsigned, column.type.bit_width])
    return raw.astype(np.int64, copy=False)


def floats(column: pa.Array) -> NDArray[np.float64]:
    raw = values(column, column.type.to_pandas_dtype())
    return raw.astype(np.float64, copy=False)


def limbs(column: pa.Array) -> NDArray[np.uint64]:
    """[row, 2] of a decimal128 column: the low and the high half of the unscaled value."""
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.empty((0, 2), np.uint64)
    return np.frombuffer(data, np.uint64).reshape(-1, 2)[
        column.offset : column.offset + len(column)
    ]


def column(data: NDArray[np.generic], valid: Mask, kind: pa.DataType) -> pa.Array:
    """An Arrow column over `data` (one item of `kind`'s width per row), null where not valid."""
    size = data.shape[0]
    bitmap = None
    if valid.shape[0] and not valid.all():
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, size, [bitmap, pa.py_buffer(np.ascontiguousarray(data))])


def prefix_counts(flags: Mask) -> NDArray[np.int64]:
    """At i, how many of the first i flags are set."""
    counts = np.zeros(flags.shape[0] + 1, np.int64)
    np.cumsum(flags, out=counts[1:])
    return counts
