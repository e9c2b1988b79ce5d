"""Arrow columns as flat NumPy arrays and back, without a Python object per row.

A validity mask of length 0 means that no value is null: kernels then skip the test. Arrays that go
to kernels are read-only, copied or not, so that each kernel is compiled once per type of number.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
_Item = TypeVar("_Item", bound=np.generic)


def frozen(array: NDArray[_Item]) -> NDArray[_Item]:
    """The array itself, read-only."""
    array.flags.writeable = False
    return array


NO_NULLS: Mask = frozen(np.empty(0, np.bool_))


def validity(column: pa.Array) -> Mask:
    """True where the value is not null, or `NO_NULLS`."""
    if column.null_count == 0:
        return NO_NULLS
    return frozen(column.is_valid().to_numpy(zero_copy_only=False))


def values(column: pa.Array, dtype: type[np.generic]) -> NDArray[np.generic]:
    """The raw values of a fixed-width column, read as `dtype`; those of nulls mean nothing."""
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.empty(0, dtype)
    width = np.dtype(dtype).itemsize
    return np.frombuffer(data, dtype, len(column), column.offset * width)


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
        return frozen(column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64))
    unsigned = pa.types.is_unsigned_integer(column.type)
    raw = values(column, _WIDTHS[unsigned, column.type.bit_width])
    return frozen(raw.astype(np.int64, copy=False))


def floats(column: pa.Array) -> NDArray[np.float64]:
    raw = values(column, column.type.to_pandas_dtype())
    return frozen(raw.astype(np.float64, copy=False))


def limbs(column: pa.Array) -> NDArray[np.uint64]:
    """[row, 2] of a decimal128 column: the low and the high half of the unscaled value."""
    data = column.buffers()[1]
    if data is None or not len(column):
        return frozen(np.empty((0, 2), np.uint64))
    return np.frombuffer(data, np.uint64, 2 * len(column), 16 * column.offset).reshape(-1, 2)


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
