"""An ordered evaluator with nothing to correct: what stands behind Cleanse at σ = 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.operator.changes import Changes
from ensue.operator.hold import Kept
from ensue.operator.protocol import Events, Key, Output, Watermark


class Ordered(Protocol):
    """An evaluator that needs order, with its state."""

    @property
    def tails(self) -> Kept: ...
    def insert(self, events: Events) -> Output: ...
    def advance(self, mark: Watermark) -> Output: ...
    def end(self, keys: Iterable[Key] | None = None) -> Output: ...
    def no_matches(self, schema: pa.Schema) -> pa.Table: ...


class Straight:
    """An evaluator behind Cleanse at σ = 0: it sees order, and nothing is ever withdrawn."""

    def __init__(self, evaluator: Ordered, nothing: pa.Table) -> None:
        self._evaluator = evaluator
        self._nothing = nothing

    def change(self, added: Events, removed: Events | None = None) -> Changes:
        return self._changes(self._evaluator.insert(added))

    def advance(self, code: int, time: object) -> Changes:
        return self._changes(self._evaluator.advance(Watermark(time)))

    def end(
        self, keys: Sequence[Key] | None = None, names: NDArray[np.int64] | None = None
    ) -> Changes:
        return self._changes(self._evaluator.end(keys))

    @property
    def rows(self) -> int:
        return 0

    def to_bytes(self) -> bytes:
        return self._evaluator.tails.together()

    def restore(self, blob: bytes, code: int, time: object) -> None:
        self._evaluator.tails.restore_together(blob)

    def _changes(self, output: Output) -> Changes:
        return Changes(pa.concat_tables([self._nothing, *output.tables()]), self._nothing)
