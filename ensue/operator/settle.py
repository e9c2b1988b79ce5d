"""Cleanse at the operator's output (AFA §5.3): changes are held back until they are stable.

The operator works ahead on everything it has (σ = ∞), so that nothing is left to compute when time
comes; what it finds goes out only when the watermark has come within a distance of the last event
that decided it. What is withdrawn while it is held never shows. At distance 0 only final matches go
out and nothing is ever withdrawn; latency is that of σ = 0, the work is spread.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ensue.operator import state
from ensue.operator.buffer import AT, CONTENT, KEY, Buffer, numbers
from ensue.operator.changes import Changes, telling
from ensue.operator.clock import BEYOND
from ensue.operator.identity import copy_hashes, row_hashes
from ensue.operator.intake import count_before

KIND = state.Kind("settle")


class Settle:
    """See the module. Rows of changes carry AT, the time of the last event that decided them."""

    def __init__(self, nothing: pa.Table) -> None:
        self._names = telling(nothing.column_names, (AT,))
        self._nothing = nothing
        self._held = Buffer(self._named(nothing).schema)

    def __len__(self) -> int:
        return len(self._held)

    def take(self, changes: Changes, limit: int) -> Changes:
        """Hold back what came; what goes out is decided before `limit`, or was out already."""
        came, went = self._named(changes.came), self._named(changes.went)
        names = numbers(went, CONTENT)
        inside = self._held.count(CONTENT, names) > 0
        self._held.remove(CONTENT, names[inside])
        # Seen already, and withdrawn only to be said again: nothing to tell.
        out = went.filter(pa.array(~inside))
        again = np.isin(numbers(came, CONTENT), numbers(out, CONTENT))
        still = np.isin(numbers(out, CONTENT), numbers(came, CONTENT)[again])
        self._held.add(came.filter(pa.array(~again)))
        return Changes(self.release(limit), self._plain(out.filter(pa.array(~still))))

    def release(self, limit: int) -> pa.Table:
        return self._plain(self._held.take_below(limit))

    def release_all(self, keys: np.ndarray | None) -> pa.Table:
        """Everything held, or everything of these keys."""
        found = self._held.take_below(BEYOND) if keys is None else self._held.remove(KEY, keys)
        return self._plain(found)

    def _named(self, table: pa.Table) -> pa.Table:
        content = row_hashes(table, self._names)
        copies = copy_hashes(content, count_before(content.view(np.int64)))
        return table.append_column(CONTENT, pa.array(copies.view(np.int64)))

    def _plain(self, table: pa.Table) -> pa.Table:
        return table.select(self._nothing.column_names)

    def to_bytes(self) -> bytes:
        return state.to_bytes(KIND, self._held.table())

    def restore(self, blob: bytes) -> None:
        self._held.replace([state.from_bytes(KIND, blob)[0]])
