"""The rows of a source as lanes: partitions in order, and each row's place on the axis.

Only the columns of the partition and of the order are sorted; the rest is read where a row is
looked at, so that a table of thousands of columns costs no more than a narrow one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue.operator.arrange import arrange, group_codes
from ensue.query.query import Query
from ensue.studio.values import classed, column_cells, label

_PLACE = "__ensue_place"


@dataclass(frozen=True)
class Arranged:
    """Positions count the arranged rows; `index` says where each is in the table."""

    table: pa.Table
    partition_by: tuple[str, ...]
    order: str | None
    index: NDArray[np.int64]
    starts: NDArray[np.int64]  # of the partitions, and the number of rows
    moved: NDArray[np.int64]  # by position: the place that `operator.arrange` gives the row

    @property
    def keys(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def heads(self) -> pa.Table:
        """The partition columns, a row per key."""
        return self.table.select(list(self.partition_by)).take(
            pa.array(self.index[self.starts[:-1]])
        )

    @cached_property
    def labels(self) -> list[str]:
        if not self.partition_by:
            return ["all rows"] * self.keys
        columns = [column_cells(self.heads.column(name)) for name in self.partition_by]
        return [label(list(values)) for values in zip(*columns, strict=True)]

    @property
    def axis(self) -> str:
        if self.order is not None:
            kind = classed(self.table.schema.field(self.order).type)
            if kind in ("time", "number"):
                return kind
        return "rank"

    @cached_property
    def at(self) -> NDArray[np.float64]:
        """The place of each row on the axis; NaN where the order is null."""
        if self.axis == "rank" or self.order is None:
            return self.rows_in_partition.astype(np.float64)
        column = self.table.column(self.order).take(pa.array(self.index))
        if self.axis == "time":
            moments = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
            return _floats(moments) / 1000.0
        return _floats(column)

    @cached_property
    def rows_in_partition(self) -> NDArray[np.int64]:
        sizes = np.diff(self.starts)
        return np.arange(len(self.index)) - np.repeat(self.starts[:-1], sizes)

    @cached_property
    def extent(self) -> tuple[float, float]:
        known = self.at[np.isfinite(self.at)]
        if not len(known):
            return 0.0, 1.0
        return float(known.min()), float(known.max())

    def rows(self, key: int) -> tuple[int, int]:
        """First position of a partition, and the one behind its last."""
        return int(self.starts[key]), int(self.starts[key + 1])

    def values(self, positions: Sequence[int], columns: Sequence[str]) -> pa.Table:
        return self.table.select(list(columns)).take(pa.array(self.index[list(positions)]))

    def keys_of(self, found: pa.Table) -> NDArray[np.int64]:
        """The key of each row of a result that has the partition columns."""
        if not self.partition_by:
            return np.zeros(found.num_rows, np.int64)
        names = list(self.partition_by)
        results = found.select(names).cast(self.heads.schema)
        both = pa.concat_tables([self.heads, results]).combine_chunks()
        codes, count = group_codes(both, names)
        key = np.full(count, -1, np.int64)
        key[codes[: self.keys]] = np.arange(self.keys)
        return key[codes[self.keys :]]


def arranged(query: Query, table: pa.Table) -> Arranged:
    """`query` is bound: its columns are those of the table."""
    names = list(dict.fromkeys([*query.partition_by, *(key.column for key in query.order_by)]))
    places = pa.array(np.arange(table.num_rows))
    known = table.select(names).append_column(_PLACE, places).combine_chunks()
    found, starts = arrange(known, query.partition_by, query.order_by)
    index = found.column(_PLACE).to_numpy()
    order = query.order_by[0].column if query.order_by else None
    moved, starts = _by_value(found.select(list(query.partition_by)), starts)
    return Arranged(table, query.partition_by, order, index[moved], starts, moved)


def _by_value(
    keys: pa.Table, starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Partitions in the order of their values, where these have one; else as they first appear."""
    count = len(starts) - 1
    try:
        heads = keys.take(pa.array(starts[:-1]))
        names = []
        for number, name in enumerate(keys.column_names):  # nulls first, as Spark has them
            heads = heads.append_column(f"{_PLACE}{number}", pc.is_valid(heads.column(name)))
            names += [(f"{_PLACE}{number}", "ascending"), (name, "ascending")]
        order = None
        if names and count:
            order = pc.sort_indices(heads, sort_keys=names).to_numpy()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        order = None
    if order is None:
        return np.arange(starts[-1]), starts
    order = order.astype(np.int64)
    sizes = np.diff(starts)[order]
    sorted_starts = np.concatenate(([0], np.cumsum(sizes)))
    moved = np.arange(starts[-1]) + np.repeat(starts[order] - sorted_starts[:-1], sizes)
    return moved, sorted_starts


def _floats(column: Any) -> NDArray[np.float64]:
    values = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
