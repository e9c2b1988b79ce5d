"""What an event is called, and what a match is called: 64-bit hashes of content, 128 bits out.

An event's name must not depend on when it came or in which batch, and a match must be called the
same when it is withdrawn, after a restart too. So names are hashes of values: of the columns of a
row (in no order of columns, each column folded in under its own name) and, for a match, the sum of
the mixed hashes of its (label, event) pairs, which is the same however the pairs are listed.

Hashes are not proof: two of n events share a name with a chance of about n² / 2⁶⁵, which is 3 in
10⁸ for a million events that are open at once. Matches have 128 bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue.kernels.identity import hash_bytes

Hashes = NDArray[np.uint64]
_NULL = np.uint64(0x9AE16A3B2F90404F)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(values: Hashes) -> Hashes:
    """SplitMix64's last rounds: neighbouring values land far apart."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def folded(first: Hashes, second: Hashes) -> Hashes:
    """A hash of the pair; not the same the other way round."""
    return mixed(first * _GOLDEN + second)


def text_hash(text: str) -> np.uint64:
    """The hash of a name, such as a column's or a pattern's."""
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))


def row_hashes(table: pa.Table, names: Sequence[str]) -> Hashes:
    """One hash per row over the columns named; equal rows have equal hashes."""
    hashes = np.zeros(table.num_rows, np.uint64)
    for name in names:
        column = table.column(name)
        values = column_hashes(
            column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        )
        hashes = hashes + folded(np.full(len(values), text_hash(name)), values)
    return mixed(hashes)


def column_hashes(column: pa.Array) -> Hashes:
    """One hash per value, equal where the values are (0.0 and −0.0 are, and all NaN)."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column_hashes(column.cast(kind.value_type))
    if pa.types.is_null(kind):
        return np.full(len(column), _NULL)
    hashes = mixed(_bits(column))
    if column.null_count:
        hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, hashes)
    return hashes


def _bits(column: pa.Array) -> Hashes:
    """64 bits per value, not mixed yet; anything where the value is null."""
    kind, types = column.type, pa.types
    if types.is_boolean(kind):
        return pc.fill_null(column, False).cast(pa.uint8()).to_numpy().astype(np.uint64)
    if types.is_uint64(kind):
        return pc.fill_null(column, 0).to_numpy().astype(np.uint64)
    if types.is_integer(kind):
        return pc.fill_null(column.cast(pa.int64()), 0).to_numpy().view(np.uint64)
    if types.is_floating(kind):
        numbers = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy() + 0.0
        return np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
    if types.is_date32(kind) or types.is_time32(kind):
        return _bits(column.cast(pa.int32()))
    if types.is_temporal(kind) and not types.is_interval(kind):
        return _bits(column.cast(pa.int64()))
    if types.is_decimal128(kind):
        words = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 2)
        low, high = words[column.offset : column.offset + len(column)].T
        return folded(high, low)
    if types.is_struct(kind):
        total = np.zeros(len(column), np.uint64)
        for index in range(kind.num_fields):
            total = folded(total, column_hashes(column.field(index)))
        return total
    if types.is_list(kind) or types.is_large_list(kind):
        return _list_hashes(column)
    if types.is_string(kind) or types.is_binary(kind):
        return _byte_hashes(column.cast(pa.large_binary()))
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return _byte_hashes(column)
    return _byte_hashes(pa.array([repr(value) for value in column.to_pylist()], pa.large_string()))


def _list_hashes(column: pa.Array) -> Hashes:
    """Per list: the sum of its values' hashes, each mixed with its place."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    begin, end = int(offsets[0]), int(offsets[-1])
    lengths = np.diff(offsets)
    places = np.arange(begin, end) - np.repeat(offsets[:-1], lengths)
    values = column_hashes(column.values.slice(begin, end - begin))
    sums = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(folded(values, places.astype(np.uint64)), out=sums[1:])
    return folded(sums[offsets[1:] - begin] - sums[offsets[:-1] - begin], lengths.astype(np.uint64))


def _byte_hashes(column: pa.Array) -> Hashes:
    offsets = np.frombuffer(column.buffers()[1], np.int64)
    data = column.buffers()[2]
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    with np.errstate(over="ignore"):
        return hash_bytes(content, offsets[column.offset : column.offset + len(column) + 1])


def copy_hashes(content: Hashes, copy: NDArray[np.int64]) -> Hashes:
    """Names of rows equal in everything: the first copy, the second, ..."""
    return folded(content, copy.astype(np.uint64))


def pair_sums(
    labels: NDArray[np.int64] | NDArray[np.int32],
    events: Hashes,
    offsets: NDArray[np.int64],
    seed: np.uint64,
) -> Hashes:
    """Per match: the sum of its mixed (label, event) pairs, as one half of its name."""
    pairs = mixed(folded(labels.astype(np.uint64) + seed, events))
    sums = np.zeros(len(pairs) + 1, np.uint64)
    np.cumsum(pairs, out=sums[1:])
    return mixed(sums[offsets[1:]] - sums[offsets[:-1]] + seed)


def as_text(high: Hashes, low: Hashes) -> pa.Array:
    """128 bits as 32 hexadecimal digits, for all rows at once."""
    return _digits(np.stack([high, low], axis=1), 32)


def as_short_text(hashes: Hashes) -> pa.Array:
    """64 bits as 16 hexadecimal digits, for all rows at once."""
    return _digits(hashes, 16)


def _digits(words: Hashes, width: int) -> pa.Array:
    digits = words.astype(">u8").tobytes().hex().encode()
    offsets = np.arange(0, len(digits) + 1, width, dtype=np.int32)
    return pa.StringArray.from_buffers(len(words), pa.py_buffer(offsets), pa.py_buffer(digits))
