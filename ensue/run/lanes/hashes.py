"""Which lane a row belongs to, and the hash of its content, found where rows are packed.

Both are Spark's `xxhash64`, and were columns that Spark computed; a column that crosses to Python
costs more than the hash does (docs/decisions/0013). Types whose hash is not written here
(`covers`) leave both to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.kernels.xxhash import SEED, hash_bytes, hash_ints, hash_longs
from ensue.operator.arrange import flat
from ensue.operator.buffer import CONTENT, KEY

_LONG_DIGITS = 18  # of decimals, that Spark keeps in a long
_ALL = np.zeros(0, np.bool_)


@dataclass(frozen=True)
class Hashes:
    """What the packing of rows finds out about each."""

    content: tuple[str, ...]  # the columns that make up a row
    key: tuple[str, ...]
    lane_by: tuple[str, ...]
    lanes: int
    keyed: bool  # the key's hash goes along

    def fields(self) -> list[pa.Field]:
        """Of the columns that are added, in order."""
        names = [CONTENT, *([KEY] if self.keyed else [])]
        return [pa.field(name, pa.int64(), nullable=False) for name in names]

    def added(self, table: pa.Table) -> pa.Table:
        table = table.append_column(CONTENT, pa.array(_content(table, self.content)))
        if self.keyed:
            table = table.append_column(KEY, pa.array(_place(table, self.key)))
        return table

    def lanes_of(self, table: pa.Table) -> NDArray[np.int64]:
        return _place(table, self.lane_by) % self.lanes


def _place(table: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """The hash of a key, whose floats are doubles; without a key all rows are in one place."""
    if not names:
        return np.zeros(table.num_rows, np.int64)
    columns = {name: flat(table, name) for name in names}
    for name, column in columns.items():
        if pa.types.is_float32(column.type):
            columns[name] = column.cast(pa.float64())
    return spark_hashes(pa.table(columns), names)


def _content(table: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """As a null leaves the hash as it is, which columns have one is hashed on top."""
    hashes = spark_hashes(table, names)
    nulls = [flat(table, name).is_null().to_numpy(zero_copy_only=False) for name in names]
    rows = np.flatnonzero(np.logical_or.reduce(nulls)) if nulls else _ALL
    if not len(rows):
        return hashes
    told = np.full(len(rows), SEED, np.uint64)
    hash_longs(hashes[rows], _ALL, told)
    for flags in nulls:
        hash_ints(flags[rows].astype(np.uint32), _ALL, told)
    hashes[rows] = told.view(np.int64)
    return hashes


def covers(kinds: Iterable[pa.DataType]) -> bool:
    """Whether the hash of all these types is written here."""
    return all(_form(kind) is not None for kind in kinds)


def spark_hashes(table: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """`xxhash64` of the columns, per row."""
    hashes = np.full(table.num_rows, SEED, np.uint64)
    for name in names:
        _take_on(flat(table, name), hashes)
    return hashes.view(np.int64)


def _form(kind: pa.DataType) -> str | None:
    types = pa.types
    if types.is_int64(kind) or types.is_timestamp(kind):
        return "long"
    if types.is_decimal128(kind) and kind.precision <= _LONG_DIGITS:
        return "decimal"
    if types.is_signed_integer(kind) or types.is_date32(kind) or types.is_boolean(kind):
        return "int"
    if types.is_float64(kind) or types.is_float32(kind):
        return "float"
    if types.is_string(kind) or types.is_binary(kind):
        return "bytes"
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return "large bytes"
    return None


def _take_on(column: pa.Array, hashes: NDArray[np.uint64]) -> None:
    """The hashes, by one column."""
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else _ALL
    form = _form(column.type)
    if form == "long":
        hash_longs(_buffer(column, np.int64), valid, hashes)
    elif form == "decimal":
        # 128 bits, little-endian: of so few digits the lower half says it all.
        halves = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset :]
        hash_longs(np.ascontiguousarray(halves[: 2 * len(column) : 2]), valid, hashes)
    elif form == "int":
        hash_ints(_buffer(column.cast(pa.int32()), np.uint32), valid, hashes)
    elif form == "float":
        _floats(column, valid, hashes)
    elif form == "bytes":
        _bytes(column, np.int32, valid, hashes)
    else:
        assert form == "large bytes", column.type
        _bytes(column, np.int64, valid, hashes)


def _buffer(column: pa.Array, kind: type) -> NDArray[Any]:
    """The values as they lie in memory; under a null anything."""
    if not len(column):
        return np.zeros(0, kind)
    return np.frombuffer(column.buffers()[1], kind, column.offset + len(column))[column.offset :]


def _floats(column: pa.Array, valid: NDArray[np.bool_], hashes: NDArray[np.uint64]) -> None:
    """All NaN are one value, and so are 0.0 and -0.0."""
    double = pa.types.is_float64(column.type)
    values = _buffer(column, np.float64 if double else np.float32)
    one = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    if double:
        hash_longs(one.view(np.int64), valid, hashes)
    else:
        hash_ints(one.view(np.uint32), valid, hashes)


def _bytes(
    column: pa.Array, offset_type: type, valid: NDArray[np.bool_], hashes: NDArray[np.uint64]
) -> None:
    if not len(column):
        return
    _, offsets, data = column.buffers()
    first = column.offset
    places: NDArray[Any] = np.frombuffer(offsets, offset_type)[first : first + len(column) + 1]
    values = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    hash_bytes(values, places, valid, hashes)
