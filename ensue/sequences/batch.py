"""Rows of several partitions, ready for the engines of event patterns: bits, windows, order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.automaton.subsets import Subsets
from ensue.operator.arrange import arrays_of
from ensue.operator.as_of import AS_OF
from ensue.operator.batch import Batch, order_kind, order_numbers
from ensue.operator.hold import Reach
from ensue.operator.protocol import Events
from ensue.query.query import WindowKind
from ensue.sequences.kernels.counts import window_lows
from ensue.sequences.runs import NEVER, Partition


@dataclass
class EventBatch:
    """Rows of several partitions; everything here is computed once for all of them."""

    plan: Plan
    subsets: Subsets | None  # None: no joint is bounded
    table: pa.Table
    starts: NDArray[np.int64]
    pieces: Reach | None = None  # None: complete partitions, never seen before

    @staticmethod
    def of(plan: Plan, subsets: Subsets | None, events: Events) -> EventBatch:
        return EventBatch(plan, subsets, events.table, events.starts)

    @cached_property
    def reach(self) -> Reach:
        reach = self.pieces or Reach.whole(self.starts)
        if AS_OF not in self.columns:
            return reach
        floors = np.where(reach.is_open, reach.floors, reach.begins)
        if self.now is not None and self.low is not None:
            window = self.plan.query.within
            assert window is not None and self.order is not None
            edge = self.now - window.size
            if self.order.dtype == np.int64:
                edge = max(-(1 << 63), math.ceil(edge))
            for index in np.flatnonzero(~reach.is_open).tolist():
                begin, stop = reach.begins[index], reach.stops[index]
                floors[index] += np.searchsorted(self.order[begin:stop], edge, side="left")
        return replace(reach, floors=floors)

    @cached_property
    def now(self) -> int | float | None:
        """The time at the end of complete partitions; None: it is their end, or is not known."""
        column = self.columns.get(AS_OF)
        if column is None or column.null_count or not len(column) or self.order is None:
            return None
        now: int | float = self._ascending(column[:1])[0].item()
        return now

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """Per partition: starts below are out of the window once all its rows are through."""
        reach = self.reach
        if self.low is None:
            return np.where(reach.is_open, reach.begins, reach.stops)
        edges = np.maximum(reach.begins, reach.floors)
        some = reach.stops > reach.begins
        edges[some] = np.maximum(edges[some], self.low[reach.stops[some] - 1])
        return edges

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        return arrays_of(self.table)

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        """Per row: the labels whose row and neighbour parts hold, 64 to a word."""
        partitions = len(self.starts) - 1
        zeros = np.zeros(partitions, np.int64)
        batch = Batch(
            self.plan,
            self.columns,
            self.starts,
            np.zeros(partitions, np.bool_),
            np.ones(partitions, np.bool_),
            zeros,
            np.zeros((partitions, 3), np.int64),
        )
        return batch.label_bits()

    @cached_property
    def classes(self) -> tuple[NDArray[np.int32], list[int]]:
        """Per row: the number of its class (rows that fit the same labels), and each one's bits."""
        words = self.words
        if words.shape[1] == 1:
            column = words[:, 0]
            if len(column) and int(column.max()) < 1 << 16:
                # few labels: a table is faster than sorting
                present = np.flatnonzero(np.bincount(column.astype(np.int64)))
                numbers = np.zeros(int(present[-1]) + 1, np.int32)
                numbers[present] = np.arange(len(present), dtype=np.int32)
                return numbers[column.astype(np.int64)], [int(value) for value in present]
            found, classes = np.unique(column, return_inverse=True)
            return classes.astype(np.int32).ravel(), [int(value) for value in found]
        found, classes = np.unique(words, axis=0, return_inverse=True)
        bits = [sum(int(word) << (64 * i) for i, word in enumerate(row)) for row in found]
        return classes.astype(np.int32).ravel(), bits

    @cached_property
    def bits(self) -> list[int]:
        words = self.words
        if words.shape[1] == 1:
            return list(words[:, 0].tolist())
        found = words[:, 0].astype(object)
        for index in range(1, words.shape[1]):
            found = found | (words[:, index].astype(object) << (64 * index))
        return list(found)

    @cached_property
    def order(self) -> NDArray[np.int64] | NDArray[np.float64] | None:
        """Order values as numbers that ascend; None where nothing needs them."""
        query = self.plan.query
        window = query.within
        timed = window is not None and window.kind is not WindowKind.ROWS
        bounded = self.subsets is not None and self.subsets.automaton.bounds
        if not timed and not bounded:
            return None
        if not query.order_by:
            raise errors.QueryError(
                "within needs an order: the time from first to last event is measured on the "
                "first order column",
                remedy="add order_by(...), or use a window in rows",
            )
        key = query.order_by[0]
        column = self.columns[key.column]
        numbers = self._ascending(column)
        return numbers if column.null_count == 0 else self._monotone(numbers, column)

    def _ascending(self, column: pa.Array) -> NDArray[np.int64] | NDArray[np.float64]:
        query = self.plan.query
        key = query.order_by[0]
        numbers = order_numbers(column, order_kind(query, column), key.column)
        if key.descending:
            numbers = -numbers if numbers.dtype == np.float64 else np.invert(numbers)
        return numbers

    def _monotone(self, numbers: np.ndarray, column: pa.Array) -> np.ndarray:
        """Rows without a value, which are in no match, given one that keeps the order."""
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        numbers = numbers.copy()
        for begin, end in self.spans():
            present = numbers[begin:end][valid[begin:end]]
            if len(present) and len(present) < end - begin:
                edge = present[-1] if valid[begin] else present[0]
                numbers[begin:end][~valid[begin:end]] = edge
        return numbers

    @cached_property
    def low(self) -> NDArray[np.int64] | None:
        """Per row: the earliest row at which a match that holds it may begin."""
        window = self.plan.query.within
        if window is None:
            return None
        rows = np.arange(int(self.starts[-1]), dtype=np.int64)
        begins = np.repeat(self.starts[:-1], np.diff(self.starts))
        if window.kind is WindowKind.ROWS:
            return np.maximum(begins, rows - int(window.size) + 1)
        order = self.order
        assert order is not None
        if order.dtype == np.float64 or isinstance(window.size, float):
            size = float(window.size)
            return window_lows(order.astype(np.float64), self.starts, size, -np.inf)
        whole = min(window.size, 1 << 62)
        return window_lows(order, self.starts, whole, whole - (1 << 63))

    def spans(self) -> Iterator[tuple[int, int]]:
        for index in range(len(self.starts) - 1):
            yield int(self.starts[index]), int(self.starts[index + 1])

    def partitions(self) -> Iterator[Partition]:
        low = None if self.low is None else self.low.tolist()
        order = None if self.order is None else self.order.tolist()
        reach = self.reach
        timed = low is not None
        ended = ~reach.is_open & (AS_OF not in self.columns)
        for index, inside in enumerate(self.spans()):
            yield Partition(
                int(reach.begins[index]),
                int(reach.stops[index]),
                self.bits,
                low,
                order,
                inside,
                int(reach.fresh[index]),
                int(reach.floors[index]) if timed or ended[index] else NEVER,
                bool(reach.is_open[index]),
                None if reach.is_open[index] else self.now,
            )
