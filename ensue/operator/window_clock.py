"""Watermarks of event patterns: when a start is out of its window for good."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.operator.batch import order_numbers
from ensue.operator.hold import Piece, Tails
from ensue.operator.protocol import Watermark
from ensue.query.query import Query, WindowKind


class Clock:
    """Times as numbers, for a query with a window of time; nothing for others."""

    def __init__(self, query: Query) -> None:
        window = query.within
        self._kind: WindowKind | None = None
        self.size: int | float = 0
        if window is not None and window.kind is not WindowKind.ROWS and query.order_by:
            key = query.order_by[0]
            self._column = key.column
            self.size = window.size
            if not key.descending:  # time that runs backwards has no watermark
                self._kind = window.kind

    def numbers(self, table: pa.Table) -> NDArray[np.int64] | NDArray[np.float64] | None:
        """The order values of rows; None where time does not matter."""
        if self._kind is None:
            return None
        column = table.column(self._column).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        return order_numbers(column, self._kind, self._column)

    def time(self, mark: Watermark, tails: Tails) -> float | None:
        """The watermark in the unit of the order column."""
        if self._kind is None:
            return None
        some = next((held.block for held in tails.held.values() if held.length), None)
        if some is None:
            return None
        return self.moment(mark, some.schema)

    def moment(self, mark: Watermark, schema: pa.Schema) -> float | None:
        """The watermark in the unit of the order column of rows with that schema."""
        if self._kind is None:
            return None
        kind = schema.field(self._column).type
        try:
            moment = pa.array([mark.time], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError):
            raise errors.ColumnTypeError(
                f"the watermark {mark.time!r} is not a value of the order column {self._column!r}, "
                f"which is of type {kind}",
                remedy="give a value of that type",
            ) from None
        number: float = order_numbers(moment, self._kind, self._column)[0].item()
        return number

    def floors(self, piece: Piece, time: float, lookahead: int) -> NDArray[np.int64]:
        """Per partition: the first row whose window is not over at that time.

        A row that waits for its NEXT is not decided yet, so time stands still at it.
        """
        order = self.numbers(piece.table)
        assert order is not None
        floors = piece.begins.copy()
        stops = piece.reach(lookahead).stops
        for index, (begin, stop) in enumerate(zip(piece.begins, stops, strict=True)):
            now = min(time, order[stop]) if stop < piece.starts[index + 1] else time
            floors[index] += np.searchsorted(order[begin:stop], now - self.size, side="left")
        return floors
