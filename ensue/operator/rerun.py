"""Rerun: disorder and corrections for every evaluator, whatever its state looks like.

`Replay` puts the state of one key back. Where keys share state (totals of groups, summaries, the
partial matches of a workload), only the whole can be put back. So one evaluator stands at the
watermark, where nothing changes any more, beside the events since. Another stands *ahead*: a copy
of the first that has taken those events too. Events that come in order go to the one ahead; an
event that belongs to the past, or one taken back, makes a new copy, and the events since the
watermark run again. The difference between what was emitted and what holds now goes out.

What the evaluator puts out (matches, windows that are over) and what it answers on demand (totals,
summaries) are told alike: as rows that came and rows that went. What the evaluator at the watermark
puts out is final.

The cost of a correction is that of the events since the watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.operator import snapshots, state
from ensue.operator.buffer import AT, EVENT, KEY, Buffer, numbers
from ensue.operator.changes import Changes, difference
from ensue.operator.cleanse import arranged
from ensue.operator.clock import BEYOND
from ensue.operator.protocol import Events, Key, LaneEvaluator, Output, Snapshot, Watermark
from ensue.query.query import OrderKey
from ensue.query.stored import Fingerprint

KIND = state.Kind("rerun", version=2, oldest=2)
TOLD = state.Kind("rerun told", version=2, oldest=2)
Codes = NDArray[np.int64]
Make = Callable[[Snapshot | None], LaneEvaluator]


class Ahead:
    """An evaluator at the watermark, the events since, and one that has taken them too."""

    def __init__(
        self,
        make: Make,
        schema: pa.Schema,
        partition_by: Sequence[str],
        order_by: Sequence[OrderKey],
        together: bool = False,
        fingerprint: Fingerprint = state.NO_QUERY,
    ) -> None:
        """`together`: keys share what depends on their common order, so that time is one line."""
        self._make, self._schema, self._fingerprint = make, schema.remove_metadata(), fingerprint
        self._by, self._order, self._together = tuple(partition_by), tuple(order_by), together
        self.settled = make(None)  # the evaluator at the watermark
        self._since = Buffer(self._schema)
        self._ahead: LaneEvaluator | None = None
        self._newest: dict[int, int] = {}  # the last time that the one ahead has seen, by key
        self._mark: Watermark | None = None

    def __len__(self) -> int:
        """Events that may still be corrected."""
        return len(self._since)

    @property
    def nbytes(self) -> int:
        ahead = 0 if self._ahead is None else self._ahead.nbytes
        return self.settled.nbytes + ahead + self._since.nbytes

    def take(self, added: Events, removed: Events | None = None) -> list[pa.Table] | None:
        """Events that come and events that go; what the one ahead puts out on them.

        None: it has to run again.
        """
        gone = removed is not None and removed.table.num_rows > 0
        in_order = not gone and self._in_order(added)
        self._since.add(added.table)
        if gone and removed is not None:
            self._since.remove(EVENT, numbers(removed.table, EVENT))
        if not in_order or (self._ahead is None and len(self._since) > added.table.num_rows):
            self._ahead = None
            return None
        if not added.table.num_rows:
            return []
        if self._ahead is None:
            self._ahead = self.settled.copy()
        found = _drained(self._ahead.insert(added))
        return found + self._caught_up(self._ahead)

    def settle(self, code: int, time: object) -> tuple[list[pa.Table], list[pa.Table]]:
        """A watermark: what is final, and what the one ahead puts out."""
        self._mark = Watermark(time)
        final = self._settle_rows(self._since.take_below(code))
        final += _drained(self.settled.advance(self._mark))
        return final, [] if self._ahead is None else _drained(self._ahead.advance(self._mark))

    def end(self, keys: Sequence[Key] | None, names: Codes | None) -> list[pa.Table]:
        """These keys, and the hashes they are known by, are complete: what is final."""
        rows = self._since.take_below(BEYOND) if names is None else self._since.remove(KEY, names)
        final = self._settle_rows(rows)
        self._ahead = None
        return final + _drained(self.settled.end(keys))

    def insert_settled(self, added: Events) -> list[pa.Table]:
        """Events that the watermark has passed already."""
        return _drained(self.settled.insert(added)) if added.table.num_rows else []

    def _settle_rows(self, rows: pa.Table) -> list[pa.Table]:
        return self.insert_settled(self._events(rows))

    def now(self) -> tuple[LaneEvaluator, list[pa.Table] | None]:
        """The evaluator that has seen everything, and what it put out where it had to run again."""
        if not len(self._since):
            self._ahead, self._newest = None, {}
            return self.settled, []
        if self._ahead is not None:
            return self._ahead, None
        self._ahead, self._newest = self.settled.copy(), {}
        events = self._events(self._since.table())
        self._in_order(events)
        found = _drained(self._ahead.insert(events))
        return self._ahead, found + self._caught_up(self._ahead)

    def _caught_up(self, evaluator: LaneEvaluator) -> list[pa.Table]:
        """What the last watermark settles of rows that waited for the next one."""
        return [] if self._mark is None else _drained(evaluator.advance(self._mark))

    def _in_order(self, events: Events) -> bool:
        """Whether these events come after all others of their key; they are noted as seen."""
        if not events.table.num_rows:
            return True
        times, names = numbers(events.table, AT), numbers(events.table, KEY)
        firsts, lasts = times[events.starts[:-1]], times[events.starts[1:] - 1]
        heads = names[events.starts[:-1]].tolist()
        if self._together:
            heads, firsts, lasts = [0], times.min(keepdims=True), times.max(keepdims=True)
        in_order = True
        for name, first, last in zip(heads, firsts.tolist(), lasts.tolist(), strict=True):
            known = self._newest.get(name)
            in_order = in_order and (known is None or first > known)
            self._newest[name] = last if known is None else max(known, last)
        return in_order

    def _events(self, rows: pa.Table) -> Events:
        if not rows.num_rows:
            return Events(rows, np.zeros(1, np.int64), np.zeros(0, np.bool_))
        rows, starts = arranged(rows, self._by, self._order)
        return Events(rows, starts, np.zeros(len(starts) - 1, np.bool_))

    # -- state -----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The state at the watermark, and the events since."""
        fields = [self._schema.field(name) for name in self._by]
        held = snapshots.to_bytes(self.settled.snapshot(), fields, self._fingerprint)
        rows = self._events(self._since.table()).table
        return state.pack(KIND, {"held": held, "rows": rows}, query=self._fingerprint)

    def restore(self, blob: bytes, time: object) -> None:
        parts = state.unpack(KIND, blob, self._fingerprint)
        held = snapshots.from_bytes(parts.state("held"), self._fingerprint)
        rows = parts.table("rows")
        self.settled = self._make(held)
        self._since.replace([rows.cast(self._schema)])
        self._ahead, self._newest = None, {}
        self._mark = None if time is None else Watermark(time)


class Rerun:
    """See the module. Rows have the hidden columns AT, KEY and EVENT."""

    def __init__(self, line: Ahead, nothing: pa.Table, correctable: bool = True) -> None:
        """`correctable`: events come before the watermark has passed them."""
        self._line, self._nothing, self._correctable = line, nothing, correctable
        self._tried: list[pa.Table] = []  # put out by the one ahead, and not final
        self._told = nothing  # what stands and is not final
        self._answers = line.settled.capabilities.result_on_demand
        self.begun = False  # something was emitted since the beginning, or the end of all keys
        self.last = nothing  # what stood when all keys had ended, until the next event

    @property
    def evaluator(self) -> LaneEvaluator:
        """At the watermark."""
        return self._line.settled

    @property
    def rows(self) -> int:
        return len(self._line)

    @property
    def nbytes(self) -> int:
        return self._line.nbytes

    @property
    def standing(self) -> pa.Table:
        """What was emitted and is not final; after the end of all, the last of it."""
        if self.begun or not self._answers:
            return self._told
        return self.last if self.last.num_rows else self._line.settled.result()

    def change(self, added: Events, removed: Events | None = None) -> Changes:
        """Events that are inserted and events that are retracted, each in order."""
        self.last = self._nothing
        if not self._correctable:
            return self._now(self._line.insert_settled(added), [])
        return self._now([], self._line.take(added, removed))

    def advance(self, code: int, time: object) -> Changes:
        final, found = self._line.settle(code, time)
        return self._now(final, found)

    def end(self, keys: Sequence[Key] | None = None, names: Codes | None = None) -> Changes:
        """These keys, and the hashes they are known by, are complete."""
        final = self._line.end(keys, names)
        if keys is not None:
            return self._now(final, None)
        came, went = difference(self._told, self._joined(final))
        self._told, self._tried, self.begun = self._nothing, [], False
        self.last = self._joined(final)
        return Changes(came, went)

    def _now(self, final: list[pa.Table], found: list[pa.Table] | None) -> Changes:
        """What changed: `final` went out for good, `found` is new of the one ahead (None: not
        known, it runs again)."""
        evaluator, again = self._line.now()
        self.begun = True
        if again is None and found is not None:
            if not final and not self._answers:  # nothing can have gone
                self._tried += found
                came = self._joined(found)
                self._told = pa.concat_tables([self._told, came])
                return Changes(came, self._nothing)
            # What is final now was found ahead before, unless it is new.
            self._tried = [difference(self._joined(final), self._joined(self._tried + found))[0]]
        else:
            self._tried = again or []
        standing = [evaluator.result()] if self._answers else []
        before, self._told = self._told, self._joined([*self._tried, *standing])
        came, went = difference(before, self._joined([*final, self._told]))
        return Changes(came, went)

    def _joined(self, tables: Iterable[pa.Table]) -> pa.Table:
        return pa.concat_tables([self._nothing, *tables])

    # -- state -----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        parts = {"line": self._line.to_bytes(), "last": self.last}
        return state.pack(TOLD, parts, {"begun": int(self.begun)})

    def restore(self, blob: bytes, code: int, time: object) -> None:
        """Continue from a state at a watermark; what it had emitted is not emitted again."""
        parts = state.unpack(TOLD, blob)
        self._line.restore(parts.state("line"), time)
        self.last = parts.table("last").cast(self._nothing.schema)
        if parts.numbers["begun"]:
            self._now([], None)


def _drained(output: Output) -> list[pa.Table]:
    return [table for table in output.tables() if table.num_rows]
