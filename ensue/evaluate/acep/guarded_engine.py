"""The guarded engine for partitions in pieces: the rows of the window are matched again."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ensue.automaton.plan import Plan
from ensue.automaton.thompson import LetterStates
from ensue.evaluate.acep.conditions import Conditions
from ensue.evaluate.acep.guarded import GuardedNodes
from ensue.evaluate.acep.tracks import Pairs, Track
from ensue.evaluate.acep.words import Answer
from ensue.evaluate.sequence_batch import EventBatch


class GuardedEngine:
    """Keeps nothing between pieces but the rows."""

    def __init__(self, plan: Plan, states: LetterStates) -> None:
        self._plan = plan
        self._states = states
        self._conditions: tuple[EventBatch, Conditions] | None = None

    def matches(
        self, batch: EventBatch, begin: int, row: int, stop: int, end: int, track: Track
    ) -> Iterator[tuple[Pairs, Answer | None]]:
        if self._conditions is None or self._conditions[0] is not batch:
            self._conditions = (batch, Conditions(self._plan, batch.columns))
        conditions = self._conditions[1]
        conditions.open_partition(begin, end)
        nodes = GuardedNodes(self._states, conditions)
        low = batch.low
        for here in range(begin, stop):
            first = begin if low is None else int(low[here])
            for found in nodes.event(here, batch.bits[here], first):
                if here >= row:
                    yield found

    def keep_from(self, batch: EventBatch, begin: int, stop: int, track: Track) -> int:
        low = batch.low
        return begin if low is None else int(low[stop - 1])

    def save(self, track: Track) -> dict[str, pa.Table]:
        return {}

    def load(self, track: Track, tables: dict[str, pa.Table]) -> None:
        return

    def save_shared(self) -> bytes:
        return b""

    def load_shared(self, blob: bytes) -> None:
        return
