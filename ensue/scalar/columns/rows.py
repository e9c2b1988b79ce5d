"""The rows that an expression is evaluated over, and how they shift within their partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.query.condition import Column
from ensue.scalar.arrow_kinds import foreign, from_arrow, to_arrow
from ensue.scalar.kinds import DEFAULT_ZONE, Kind

_LARGEST_STRING = 2**31 - 1


@dataclass(frozen=True)
class Rows:
    """Columns of equal length; `starts` are the sorted first rows of the partitions (None: one)."""

    columns: Mapping[str, pa.Array]
    length: int
    starts: np.ndarray[Any, Any] | None = None
    zone: str = ""  # of the session; empty: that of the first timestamp column
    _cache: dict[Column, pa.Array] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(table: pa.Table, starts: Sequence[int] | np.ndarray[Any, Any] | None = None) -> Rows:
        columns = {name: _whole(table[name]) for name in table.column_names}
        firsts = None if starts is None else np.asarray(starts, np.int64)
        return Rows(columns, table.num_rows, firsts)

    @property
    def session_zone(self) -> str:
        return self.zone or session_zone(self.columns)

    def raw(self, column: Column) -> pa.Array:
        """The column as it came, struct fields followed."""
        found = _whole(self.columns[_resolve(column.name, list(self.columns), "column")])
        for step in column.path:
            if not pa.types.is_struct(found.type):
                raise errors.UnknownColumnError(
                    f"{column.name} has no field {step!r}: it is {from_arrow(found.type)}",
                    remedy="check the name; a dot goes into a struct",
                )
            names = [inner.name for inner in found.type]
            found = pc.struct_field(found, [names.index(_resolve(step, names, "field"))])
        return found

    def kind(self, column: Column) -> Kind:
        return from_arrow(self.raw(column).type)

    def read(self, column: Column) -> pa.Array:
        """The column in the Arrow type of its kind."""
        if column not in self._cache:
            raw = self.raw(column)
            self._cache[column] = normalized(raw, from_arrow(raw.type))
        return self._cache[column]


def session_zone(columns: Mapping[str, pa.Array]) -> str:
    """The zone that times are read in: that of the first timestamp column."""
    zones = (a.type.tz for a in columns.values() if pa.types.is_timestamp(a.type))
    return next((zone for zone in zones if zone), DEFAULT_ZONE)


def normalized(values: pa.Array, kind: Kind) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if foreign(kind):
        return values
    wanted = to_arrow(kind)
    if values.type == wanted:
        return values
    if kind.name == "string" and values.nbytes > _LARGEST_STRING:
        return values
    return pc.cast(values, wanted, safe=False)


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(values, pa.ChunkedArray):
        return values
    if values.num_chunks == 1:
        return values.chunk(0)
    combined = values.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return pa.concat_arrays(combined.chunks)
    return combined


def _resolve(name: str, names: list[str], what: str) -> str:
    if name in names:
        return name
    folded = [n for n in names if n.lower() == name.lower()]
    if len(folded) == 1:
        return folded[0]
    if folded:
        raise errors.UnknownColumnError(
            f"the {what} {name!r} could be any of {', '.join(folded)}",
            remedy="spell it exactly, or rename one",
        )
    raise errors.UnknownColumnError(
        f"the input has no {what} {name!r}", remedy=f"use one of: {', '.join(names)}"
    )


def shift(values: pa.Array, by: int, starts: np.ndarray[Any, Any] | None) -> pa.Array:
    """`values[i + by]` where that row is in the partition of i, else null.

    The data moves in one copy; only the validity bits at the partitions' edges are rewritten, so
    the cost does not depend on the type and hardly on the number of partitions.
    """
    length = len(values)
    if by == 0 or length == 0:
        return values
    if abs(by) >= length:
        return pa.nulls(length, values.type)
    gap = pa.nulls(abs(by), values.type)
    kept = values.slice(by) if by > 0 else values.slice(0, length + by)
    moved = pa.concat_arrays([kept, gap] if by > 0 else [gap, kept])
    if starts is None or len(starts) <= 1:
        return moved
    return _without(moved, _edges(by, starts, length))


def _edges(by: int, starts: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    """Rows whose shifted row lies in another partition."""
    ends = np.append(starts[1:], length)
    reach = np.minimum(abs(by), ends - starts)
    first = starts if by < 0 else ends - reach
    offsets = np.arange(int(reach.sum())) - np.repeat(np.cumsum(reach) - reach, reach)
    return np.repeat(first, reach) + offsets


def _without(values: pa.Array, rows: np.ndarray[Any, Any]) -> pa.Array:
    """`values` with nulls at `rows`."""
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(_without(values.indices, rows), values.dictionary)
    length = len(values)
    if pa.types.is_null(values.type):
        return values
    if values.offset or values.type.num_fields:
        keep = np.ones(length, bool)
        keep[rows] = False
        return pc.if_else(pa.array(keep), values, pa.scalar(None, values.type))
    validity, *rest = values.buffers()
    size = (length + 7) // 8
    if validity is None:
        bits = np.full(size, 0xFF, np.uint8)
    else:
        bits = np.frombuffer(validity, np.uint8, size).copy()
    np.bitwise_and.at(bits, rows >> 3, ~(np.uint8(1) << (rows & 7).astype(np.uint8)))
    return pa.Array.from_buffers(values.type, length, [pa.py_buffer(bits), *rest])


def partition_ids(starts: np.ndarray[Any, Any] | None, rows: np.ndarray[Any, Any]) -> Any:
    """The number of the partition of each row."""
    if starts is None:
        return np.zeros(len(rows), np.int64)
    return np.searchsorted(starts, rows, side="right")
