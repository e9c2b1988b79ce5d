"""Evaluators that match the rows held of a partition again with each piece of it.

What is held in between, and how, is said in `hold.py`. A room says how a piece is matched (`_run`)
and calls `_tails.keep` with what has to stay; time and the end of partitions are pieces without new
rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator

import pyarrow as pa

from ensue.automaton.plan import Plan
from ensue.operator.hold import HoldsRows, Piece, Tails
from ensue.operator.protocol import Events, Exact, Key, Metrics, Output, Snapshot, Watermark
from ensue.operator.window_clock import Clock


class InPieces(Exact, HoldsRows):
    """See the module; `_open` prepares it."""

    metrics: Metrics

    def _open(self, plan: Plan, schema: pa.Schema, state: Snapshot | None) -> None:
        self._plan, self._schema = plan, schema
        self._clock = Clock(plan.query)
        self._tails = Tails(plan, schema, self._clock.numbers)
        if state is not None:
            self._tails.restore(state.keys)
            if state.shared:
                self._tails.restore_together(state.shared)

    @property
    def tails(self) -> Tails:
        return self._tails

    def insert(self, events: Events) -> Output:
        self.metrics.rows += events.table.num_rows
        return Output(self._insert(events))

    def advance(self, mark: Watermark) -> Output:
        return Output(self._advance(mark))

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        return Output(self._end(list(self._tails.held if keys is None else keys)))

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        """Of open partitions: the rows that partial matches still need, and where they stand."""
        return Snapshot(self._tails.snapshot(touched))

    @abstractmethod
    def _run(self, piece: Piece, time: float | None = None) -> Iterator[pa.Table]:
        """Match what can be decided of a piece, at that time, and hold what cannot."""

    def _insert(self, events: Events) -> Iterator[pa.Table]:
        if len(events.complete):
            yield from self._run(self._tails.join(events))

    def _advance(self, mark: Watermark) -> Iterator[pa.Table]:
        time = self._clock.time(mark, self._tails)
        if time is None:
            return
        piece = self._tails.take(self._tails.expired(time - self._clock.size), complete=False)
        if piece is not None:
            yield from self._run(piece, time)

    def _end(self, keys: list[Key]) -> Iterator[pa.Table]:
        piece = self._tails.take(keys, complete=True)
        if piece is not None:
            yield from self._run(piece)
