"""Match bundles (Definition 3), and all matches of a bundle of which one is known.

A match point is the time of a match's last event. Match points closer than a window belong to one
bundle. Once a match point is known, the whole bundle is recovered by matching its stretch of the
stream again, without a budget: the stretch is extended by a window on both sides until an extension
has no further match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.missing.exact import missing_evaluator
from ensue.missing.words import window_length
from ensue.operator.protocol import Events
from ensue.sequences.batch import EventBatch


class Recovery:
    """All matches of bundles, from the rows of complete partitions."""

    def __init__(self, plan: Plan) -> None:
        query = plan.query
        if query.missing is None or query.within is None:
            raise errors.QueryError(
                "recover() needs allow_missing(...) and within(...): a bundle is what a window "
                "joins",
                remedy="add them, or call matches(...) without a budget",
            )
        if query.measures is not None:
            raise errors.UnsupportedError(
                "recover() reads the plain listing, and the query has measures",
                remedy="leave measures(...) out, and compute them from the events",
            )
        self._window = window_length(query.within)
        self._plan = plan

    def tables(self, events: Events, ends: Sequence[Sequence[int]]) -> Iterator[pa.Table]:
        """`ends[i]`: rows of partition i at which a known match ends."""
        for index, rows in enumerate(ends):
            if not rows:
                continue
            begin, stop = int(events.starts[index]), int(events.starts[index + 1])
            part = events.table.slice(begin, stop - begin).combine_chunks()
            yield from self._partition(part, rows)

    def _partition(self, part: pa.Table, rows: Sequence[int]) -> Iterator[pa.Table]:
        size = part.num_rows
        batch = EventBatch(self._plan, None, part, np.array([0, size], np.int64))
        order = batch.order
        times = np.arange(size, dtype=float) if order is None else order.astype(float)
        number = 0
        reached = -np.inf
        for row in sorted(rows):
            if times[row] <= reached:
                continue  # in a bundle that is recovered already
            table, reached = self._bundle(part, times, row)
            count = table.num_rows
            numbers = pa.array(np.arange(number + 1, number + 1 + count, dtype=np.int64))
            place = table.column_names.index("match_number")
            number += count
            yield table.set_column(place, "match_number", numbers)

    def _bundle(
        self, part: pa.Table, times: NDArray[np.float64], row: int
    ) -> tuple[pa.Table, float]:
        first = last = float(times[row])
        while True:
            low, high = first - self._window, last + self._window
            table, points = self._matches(part, times, low, high)
            inside = [p for p in points if low <= p <= high]
            nearest = min(inside, default=first), max(inside, default=last)
            if nearest == (first, last) or not inside:
                kept = np.array([first <= p <= last for p in points], np.bool_)
                return table.filter(pa.array(kept)), last
            first, last = min(first, nearest[0]), max(last, nearest[1])

    def _matches(
        self, part: pa.Table, times: NDArray[np.float64], low: float, high: float
    ) -> tuple[pa.Table, list[float]]:
        """Matches whose match point lies in a stretch of time, and their match points."""
        begin = int(np.searchsorted(times, low - self._window, side="left"))
        stop = int(np.searchsorted(times, high, side="right"))
        rows = part.slice(begin, stop - begin).combine_chunks()
        evaluator = missing_evaluator(self._plan)
        evaluator.open(self._plan, rows.schema)
        whole = Events(rows, np.array([0, stop - begin], np.int64), np.ones(1, np.bool_))
        found = evaluator.insert_cut(whole, np.zeros(1, np.int64), np.array([begin], np.int64))
        table = pa.concat_tables(list(found.tables()) or [evaluator.no_matches(rows.schema)])
        points = [times[e[-1]["row"]] for e in table.column("events").to_pylist()]
        return table, [float(point) for point in points]
