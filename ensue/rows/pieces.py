"""Row patterns whose partitions stay open, answered as soon as the rows decide.

`RowsEvaluator` matches complete partitions. Here the rows of each open partition are held from its
first undecided start on (`operator/hold.py`), all partitions that a call touches are matched in
one pass, and a start is tried again with every row that comes: the answer never waits for more rows
than it needs. Time settles what rows cannot: a window that ends before the watermark is over.

State is rows and a few numbers per key, never changed in place, so that `operator/replay.py` can go
back to an earlier one by putting it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.operator.arrange import arrays_of
from ensue.operator.batch import Batch
from ensue.operator.budget import Budget
from ensue.operator.hold import Carried, Piece, Tails
from ensue.operator.protocol import Events, Key, Output, Snapshot, Watermark
from ensue.operator.window_clock import Clock
from ensue.rows import evaluator as rows
from ensue.rows.evaluator import RowsEvaluator


class PiecewiseRows(RowsEvaluator):
    """See the module."""

    def open(
        self,
        plan: Plan,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None:
        super().open(plan, schema, budget)
        self._clock = Clock(plan.query)
        self.tails = Tails(plan, schema, self._clock.numbers)
        if state is not None:
            self.tails.restore(state.keys)

    @property
    def nbytes(self) -> int:
        return self.tails.nbytes

    def advance(self, mark: Watermark) -> Output:
        return Output(self._advance(mark))

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        return Output(self._finish(list(self.tails.held if keys is None else keys)))

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        return Snapshot(self.tails.snapshot(touched))

    def _take_in(self, events: Events) -> Iterator[pa.Table]:
        if len(events.complete):
            yield from self._match(self.tails.join(events))

    def _advance(self, mark: Watermark) -> Iterator[pa.Table]:
        time = self._clock.time(mark, self.tails)
        if time is None:
            return
        piece = self.tails.take(self.tails.expired(time - self._clock.size), complete=False)
        if piece is not None:
            yield from self._match(piece, time)

    def _finish(self, keys: list[Key]) -> Iterator[pa.Table]:
        piece = self.tails.take(keys, complete=True)
        if piece is not None:
            yield from self._match(piece)

    def _match(self, piece: Piece, horizon: float | None = None) -> Iterator[pa.Table]:
        self._check_size(piece)
        covered = np.maximum(piece.floor, piece.starts[:-1])
        batch = Batch(
            self._plan,
            arrays_of(piece.table),
            piece.starts,
            ~piece.complete,
            piece.base == 0,
            piece.base,
            np.ascontiguousarray(np.stack([piece.begins, piece.matches, covered], axis=1)),
            horizon,
        )
        yield from self._run(batch, piece.table)
        start, matches, covered = batch.cursor.T
        reach = piece.reach(0)
        carried = [Carried(floor) for floor in covered.tolist()]
        self.tails.keep(piece, reach, start, matches, carried)

    def _hold(self, batch: Batch, table: pa.Table, index: int) -> None:
        """Nothing here: `_match` holds the rows of all partitions at once."""

    def _check_size(self, piece: Piece) -> None:
        longest = int(np.diff(piece.starts).max(initial=0))
        needed = 4 * longest * self._plan.program.states
        if needed > rows.MAX_BYTES:
            raise errors.LimitError(
                f"one start row stays undecided over {longest:,} rows of its partition, which "
                f"needs {needed >> 20:,} MB; the limit is {rows.MAX_BYTES >> 20:,} MB",
                remedy="bound the pattern with within(...), or raise "
                "ensue.rows.evaluator.MAX_BYTES",
            )
