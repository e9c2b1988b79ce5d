"""Rows into partitions, each in order: one vectorised sort, none where the input is in order.

Every key becomes integer codes that sort as Spark sorts the column (nulls and NaN placed, strings
by their bytes), so that numpy can do the rest whatever the type. Ties keep the order of arrival.
Input that is in order already, the usual case for a file written by key and time, is recognised by
comparing neighbours, without a code per row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.kernels.order import has_ties, index_by_group, is_ordered, put_in_order
from ensue.query.query import OrderKey

Codes = NDArray[np.int64]
_LOWEST = np.iinfo(np.int64).min
_ROWS_PER_RUN = 4  # below that, looking at runs of equal keys costs more than it saves
_MOVES_PER_ROW = 4  # beyond that, rows are not almost in order and numpy sorts them


def arrange(
    table: pa.Table, partition_by: Sequence[str], order_by: Sequence[OrderKey]
) -> tuple[pa.Table, NDArray[np.int64]]:
    """The table partition after partition in order, and the partitions' first rows + length."""
    rows = table.num_rows
    for name in (*partition_by, *(key.column for key in order_by)):
        check_key(name, table.schema.field(name).type)
    if rows == 0:
        return table, np.zeros(1, np.int64)
    runs = run_starts(table, partition_by)
    groups: Codes | None = None
    keys = [code for key in order_by for code in order_codes(flat(table, key.column), key)]
    if rows >= _ROWS_PER_RUN * (len(runs) - 1):
        heads, count = group_codes(table.take(runs[:-1]), partition_by)
        if count == len(heads) and is_ordered(runs, _stack(keys, rows)):
            return table, runs
        groups = np.repeat(heads, np.diff(runs))
    else:
        groups, _ = group_codes(table, partition_by)
    index = sort_index(groups, keys)
    del keys
    groups = groups[index]
    starts = np.flatnonzero(groups[1:] != groups[:-1]) + 1
    del groups
    return table.take(pa.array(index)), np.concatenate(([0], starts, [rows]))


def run_starts(table: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """First rows of the runs in which all the columns stay the same, and the number of rows."""
    rows = table.num_rows
    if rows == 0:
        return np.zeros(1, np.int64)
    changed = np.zeros(rows - 1, np.bool_)
    for name in names:
        check_key(name, table.schema.field(name).type)
        changed |= _changes(flat(table, name))
    return np.concatenate(([0], np.flatnonzero(changed) + 1, [rows])).astype(np.int64)


def _changes(column: pa.Array) -> NDArray[np.bool_]:
    """Per row but the first: whether it differs from the row before; null is equal to null."""
    if pa.types.is_floating(column.type):
        codes = _key_codes(column).indices.to_numpy(zero_copy_only=False)
        changed: NDArray[np.bool_] = codes[1:] != codes[:-1]
        return changed
    if pa.types.is_null(column.type):
        return np.zeros(max(0, len(column) - 1), np.bool_)
    _check_comparable(column.type)
    differs = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
    if not column.null_count:
        return differs.to_numpy(zero_copy_only=False)
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    filled = pc.fill_null(differs, False).to_numpy(zero_copy_only=False)
    return filled | (nulls[1:] != nulls[:-1])


def flat(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def group_codes(table: pa.Table, names: Sequence[str]) -> tuple[Codes, int]:
    """One code per row, equal where all partition columns are, and the number of codes."""
    combined, count = np.zeros(table.num_rows, np.int64), 1
    for name in names:
        check_key(name, table.schema.field(name).type)
        encoded = _key_codes(flat(table, name))
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if count == 1:
            combined, count = codes, len(encoded.dictionary)
            continue
        combined = combined * len(encoded.dictionary) + codes
        _, combined = np.unique(combined, return_inverse=True)
        count = int(combined.max(initial=-1)) + 1
    return combined, count


def _key_codes(column: pa.Array) -> pa.DictionaryArray:
    if pa.types.is_floating(column.type):
        # 0.0 and −0.0 are one key, and so are all NaN.
        column = pa.array(_ascending(column), mask=column.is_null().to_numpy(False))
    return column.dictionary_encode(null_encoding="encode")


def order_codes(column: pa.Array, key: OrderKey) -> list[Codes]:
    """Codes that sort ascending as the key asks; nulls in a code of their own where there are."""
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    codes = _ascending(column)
    if key.descending:
        codes = ~codes
    if valid is None:
        return [codes]
    codes = np.where(valid, codes, 0)
    return [(valid if key.nulls_first else ~valid).astype(np.int64), codes]


def has_value_codes(kind: pa.DataType) -> bool:
    """Whether the codes of a type depend on the value alone, not on the other rows."""
    types = pa.types
    return (
        types.is_floating(kind)
        or types.is_timestamp(kind)
        or types.is_date32(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
    )


def _ascending(column: pa.Array) -> Codes:
    kind = column.type
    if pa.types.is_uint64(kind):
        numbers = pc.fill_null(column, 0).to_numpy()
        return (numbers ^ np.uint64(1 << 63)).view(np.int64)
    if pa.types.is_floating(kind):
        return _float_codes(pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy())
    if pa.types.is_timestamp(kind):
        return pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    if pa.types.is_date32(kind):
        return pc.fill_null(column.cast(pa.int32()), 0).to_numpy().astype(np.int64)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    _check_comparable(kind)
    encoded = column.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    indices = pc.fill_null(encoded.indices, 0).to_numpy()
    return ranks[indices] if len(ranks) else np.zeros(len(column), np.int64)


def check_key(name: str, kind: pa.DataType) -> None:
    """Refuse a column that can be neither a partition nor an order key."""
    if pa.types.is_nested(kind):
        raise errors.ColumnTypeError(
            f"the column {name!r} of type {kind} cannot be a partition or order key",
            remedy="use its fields, or a text of it: to_json(...)",
        )


def _check_comparable(kind: pa.DataType) -> None:
    if pa.types.is_interval(kind):
        raise errors.ColumnTypeError(
            f"values of type {kind} have no order and cannot be keys: a month has no fixed length",
            remedy="cast the column to a duration or a number",
        )


def _float_codes(values: NDArray[np.float64]) -> Codes:
    """Integers in the order of floats, NaN greatest and −0.0 equal to 0.0."""
    values = np.where(np.isnan(values), np.nan, values + 0.0)
    bits = values.view(np.int64)
    return np.where(bits < 0, _LOWEST - bits - 1, bits)


def sort_index(groups: Codes, keys: list[Codes]) -> NDArray[np.int64]:
    """A stable index that sorts by group and keys.

    Keys after the first (the content of a row, to break ties) seldom decide: rows are sorted by
    group and first key as one number where it fits, and only where that ties by the others.
    """
    count = int(groups.max()) + 1
    moves = _MOVES_PER_ROW * len(groups)
    composite = _composite(groups, count, keys[0]) if keys else None
    if count <= len(groups) and (len(keys) > 1 or (keys and composite is None)):
        index = index_by_group(groups, count)
        if put_in_order(index, groups, np.stack(keys), moves):
            return index
    if composite is not None:
        index = np.argsort(composite)
        # numpy's fast sort is not stable; that matters only where two rows tie.
        if not has_ties(composite, index):
            return index
        index = np.argsort(composite, kind="stable")
        if len(keys) == 1 or put_in_order(index, groups, np.stack(keys), moves):
            return index
    return np.lexsort((*reversed(keys), groups))


def _composite(groups: Codes, count: int, key: Codes) -> Codes | None:
    """Group and key as one number; None where that does not fit."""
    low, high = int(key.min()), int(key.max())
    span = high - low + 1
    if span * count >= 2**63:
        return None
    composite = groups * span
    composite += key
    composite -= low
    return composite


def _stack(keys: list[Codes], rows: int) -> NDArray[np.int64]:
    if len(keys) == 1:
        return keys[0].reshape(1, -1)
    return np.stack(keys) if keys else np.zeros((0, rows), np.int64)


def arrays_of(table: pa.Table) -> dict[str, pa.Array]:
    """The columns by name, each in one piece."""
    return {name: flat(table, name) for name in table.column_names}
