"""Events as the AFA operator's kernels read them, and the rows themselves as long as needed.

`Intake` answers the tests and inputs of an automaton (`revision/code.py`) on Arrow
columns for a batch at once. `RowStore` keeps rows by number: for arcs that are added with a
lifetime in the past, for the slow tier, and for matches that name their events. Where none of these
is wanted it stays empty, and an event is its *triggering set* and its inputs (Appendix F.1).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.operator.arrange import flat
from ensue.operator.batch import as_mask
from ensue.revision.code import Code, Texts
from ensue.revision.kernels.layout import Numbers
from ensue.scalar import kinds as k
from ensue.scalar.arrow_kinds import from_arrow
from ensue.scalar.columns import Rows, evaluate
from ensue.scalar.infer import require_boolean


def rows_of(table: pa.Table) -> Rows:
    return Rows({name: flat(table, name) for name in table.column_names}, table.num_rows, None)


def test_bits(code: Code, rows: Rows, wanted: Sequence[int] | None = None) -> Numbers:
    """Per row: which tests hold, one bit each."""
    bits = np.zeros(rows.length, np.int64)
    for place, test in enumerate(code.tests):
        if test is None or (wanted is not None and place not in wanted):
            continue
        value = evaluate(test, rows)
        require_boolean(test, from_arrow(value.type))
        bits |= as_mask(value).astype(np.int64) << place
    return bits


def input_cells(code: Code, rows: Rows, first: int = 0) -> tuple[Numbers, Numbers]:
    """Per row: the inputs as 64-bit cells, and which are null, one bit each."""
    wanted = code.inputs[first:]
    cells = np.zeros((rows.length, len(wanted)), np.int64)
    nulls = np.zeros(rows.length, np.int64)
    for place, item in enumerate(wanted):
        column = evaluate(item.expression, rows)
        if column.null_count:
            marks = column.is_null().to_numpy(zero_copy_only=False).astype(np.int64)
            nulls |= marks << (first + place)
        cells[:, place] = as_cells(column, item.kind, code.texts)
    return cells, nulls


def as_cells(column: pa.Array, kind: k.Kind, texts: Texts) -> Numbers:
    """A column as 64-bit cells: numbers, times in microseconds, days, bits of floats, codes."""
    found: Numbers
    match kind.name:
        case "float":
            values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
            found = np.ascontiguousarray(values).view(np.int64)
        case "boolean":
            found = as_mask(column).astype(np.int64)
        case "timestamp" | "interval":
            zoned = pa.types.is_timestamp(column.type)
            plain = column.cast(
                pa.timestamp("us", column.type.tz) if zoned else pa.duration("us"), safe=False
            )
            found = pc.fill_null(plain.cast(pa.int64()), 0).to_numpy()
        case "date":
            days = column.cast(pa.date32()).cast(pa.int32())
            found = pc.fill_null(days, 0).to_numpy().astype(np.int64)
        case "string":
            encoded = column.dictionary_encode()
            codes = np.array([texts.code(v) for v in encoded.dictionary.to_pylist()], np.int64)
            indices = pc.fill_null(encoded.indices, 0).to_numpy()
            found = codes[indices] if len(codes) else np.zeros(len(column), np.int64)
        case "null":
            found = np.zeros(len(column), np.int64)
        case _:
            found = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    return found


@dataclass
class _Chunk:
    first: int
    table: pa.Table
    latest: int  # greatest timestamp in it


class RowStore:
    """Rows by number, chunk by chunk; chunks leave when time has passed them."""

    def __init__(self) -> None:
        self._chunks: list[_Chunk] = []
        self._lists: dict[tuple[int, str], list[Any]] = {}

    def add(self, first: int, table: pa.Table, latest: int) -> None:
        if table.num_rows:
            self._chunks.append(_Chunk(first, table, latest))

    def drop_before(self, time: int) -> None:
        """Chunks in which every event is before the time."""
        kept = [chunk for chunk in self._chunks if chunk.latest >= time]
        if len(kept) < len(self._chunks):
            self._chunks = kept
            self._lists.clear()

    def chunks(self) -> list[tuple[int, int, pa.Table]]:
        """Number of the first row, greatest timestamp and rows of each chunk."""
        return [(chunk.first, chunk.latest, chunk.table) for chunk in self._chunks]

    @property
    def nbytes(self) -> int:
        return sum(chunk.table.nbytes for chunk in self._chunks)

    def _chunk(self, number: int) -> _Chunk:
        place = bisect_right([chunk.first for chunk in self._chunks], number) - 1
        if place < 0 or number - self._chunks[place].first >= self._chunks[place].table.num_rows:
            raise errors.StateError(
                f"the row of event {number} is no longer there", remedy="report this as a bug"
            )
        return self._chunks[place]

    def value(self, number: int, name: str) -> Any:
        chunk = self._chunk(number)
        key = (chunk.first, name)
        if key not in self._lists:
            self._lists[key] = chunk.table.column(name).to_pylist()
        return self._lists[key][number - chunk.first]

    def row(self, number: int) -> dict[str, Any]:
        chunk = self._chunk(number)
        return {name: self.value(number, name) for name in chunk.table.column_names}

    def take(self, numbers: Numbers) -> pa.Table:
        """Rows of these numbers, in this order."""
        firsts = np.array([chunk.first for chunk in self._chunks], np.int64)
        offsets = np.cumsum([0, *(chunk.table.num_rows for chunk in self._chunks)])
        place = np.searchsorted(firsts, numbers, "right") - 1
        whole = pa.concat_tables([chunk.table for chunk in self._chunks])
        return whole.take(pa.array(offsets[place] + numbers - firsts[place]))

    def table(self) -> tuple[pa.Table | None, Numbers]:
        """Everything, and the number of each row."""
        if not self._chunks:
            return None, np.zeros(0, np.int64)
        numbers = [np.arange(c.first, c.first + c.table.num_rows) for c in self._chunks]
        return pa.concat_tables([c.table for c in self._chunks]), np.concatenate(numbers)
