"""Events waiting for time to pass: an unsorted heap of Arrow chunks, found by name or by time.

Rows are appended in the order of arrival and sorted only when they leave. Chunks are merged like
the digits of a counter up to `CHUNK_ROWS`, so a row is copied O(log n) times and taking rows out
rewrites only the chunks they are in: no call costs as much as the whole buffer holds, beyond one
comparison per chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import PREFIX

AT = PREFIX + "at"  # the event time as a code (clock.py)
KEY = PREFIX + "key"  # hash of the partition columns
EVENT = PREFIX + "event"  # the event's name
CONTENT = PREFIX + "content"  # hash of the whole row
HIDDEN = (AT, KEY, EVENT, CONTENT)
CHUNK_ROWS = 1 << 15

Codes = NDArray[np.int64]


def numbers(table: pa.Table, name: str) -> Codes:
    """A hidden column as numpy."""
    column = table.column(name)
    flat = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    found: Codes = flat.to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True)
class Chunk:
    table: pa.Table

    @cached_property
    def at(self) -> Codes:
        return numbers(self.table, AT)

    @cached_property
    def earliest(self) -> int:
        return int(self.at.min())

    @cached_property
    def latest(self) -> int:
        return int(self.at.max())

    @cached_property
    def _sorted(self) -> dict[str, tuple[Codes, Codes]]:
        return {}

    def places(self, name: str) -> tuple[Codes, Codes]:
        """The sorted values of a hidden column, and the rows they are in."""
        if name not in self._sorted:
            values = numbers(self.table, name)
            index = np.argsort(values, kind="stable")
            self._sorted[name] = (values[index], index)
        return self._sorted[name]


class Buffer:
    """See the module."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._chunks: list[Chunk] = []

    def __len__(self) -> int:
        return sum(chunk.table.num_rows for chunk in self._chunks)

    @property
    def nbytes(self) -> int:
        return sum(chunk.table.nbytes for chunk in self._chunks)

    @property
    def latest(self) -> int | None:
        return max((chunk.latest for chunk in self._chunks), default=None)

    def table(self) -> pa.Table:
        """Everything, in no order."""
        return self._joined([chunk.table for chunk in self._chunks])

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        if len(tables) == 1:
            return tables[0]
        if not tables:
            return self._schema.empty_table()
        return pa.concat_tables(tables).combine_chunks()

    def add(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self._chunks.append(Chunk(table.combine_chunks()))
        while len(self._chunks) > 1:
            last, before = self._chunks[-1].table, self._chunks[-2].table
            if before.num_rows > 2 * last.num_rows or before.num_rows > CHUNK_ROWS:
                return
            self._chunks[-2:] = [Chunk(self._joined([before, last]))]

    def count(self, name: str, wanted: Codes) -> Codes:
        """How many rows have each of the values in the hidden column."""
        found = np.zeros(len(wanted), np.int64)
        for chunk in self._chunks:
            values, _ = chunk.places(name)
            found += np.searchsorted(values, wanted, "right") - np.searchsorted(values, wanted)
        return found

    def find(self, name: str, wanted: Codes) -> pa.Table:
        """The rows that have one of the values."""
        return self._joined(
            [chunk.table.take(pa.array(rows)) for chunk, rows in self._matching(name, wanted)]
        )

    def remove(self, name: str, wanted: Codes) -> pa.Table:
        """Take out the rows that have one of the values."""
        return self._take({id(c): rows for c, rows in self._matching(name, wanted)})

    def _matching(self, name: str, wanted: Codes) -> list[tuple[Chunk, Codes]]:
        wanted = np.unique(wanted)
        found = []
        for chunk in self._chunks:
            values, index = chunk.places(name)
            begin = np.searchsorted(values, wanted)
            sizes = np.searchsorted(values, wanted, "right") - begin
            if sizes.any():
                firsts = np.repeat(begin - np.cumsum(sizes) + sizes, sizes)
                found.append((chunk, index[firsts + np.arange(int(sizes.sum()))]))
        return found

    def take_below(self, code: int) -> pa.Table:
        """Take out the rows before a time."""
        return self._where(
            lambda c: c.earliest < code, lambda c: np.flatnonzero(c.at < code).astype(np.int64)
        )

    def from_time(self, begin: int, end: int) -> pa.Table:
        """The rows from one time on and before another; they stay."""
        found = []
        for chunk in self._chunks:
            if chunk.latest >= begin and chunk.earliest < end:
                found.append(chunk.table.filter(pa.array((chunk.at >= begin) & (chunk.at < end))))
        return self._joined(found)

    def _where(self, may: Callable[[Chunk], bool], rows: Callable[[Chunk], Codes]) -> pa.Table:
        return self._take({id(chunk): rows(chunk) for chunk in self._chunks if may(chunk)})

    def _take(self, rows: dict[int, Codes]) -> pa.Table:
        taken, kept = [], []
        for chunk in self._chunks:
            wanted = rows.get(id(chunk))
            if wanted is None or not len(wanted):
                kept.append(chunk)
            elif len(wanted) == chunk.table.num_rows:
                taken.append(chunk.table)
            else:
                mask = np.zeros(chunk.table.num_rows, np.bool_)
                mask[wanted] = True
                taken.append(chunk.table.filter(pa.array(mask)))
                kept.append(Chunk(chunk.table.filter(pa.array(~mask)).combine_chunks()))
        self._chunks = kept
        return self._joined(taken)

    def keys(self) -> Codes:
        """Hashes of the keys that have rows here."""
        found = [np.unique(numbers(chunk.table, KEY)) for chunk in self._chunks]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def replace(self, tables: Iterable[pa.Table]) -> None:
        self._chunks = []
        for table in tables:
            self.add(table)
