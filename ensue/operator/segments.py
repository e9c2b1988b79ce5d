"""Stretches of one key's events, each with the state before it: what `replay.py` goes back to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import pyarrow as pa

from ensue.operator.buffer import AT, numbers
from ensue.operator.hold import Held
from ensue.operator.protocol import Events, Key

SPACING = 2048  # rows between two states that are kept
Slice = tuple[pa.Table, int, int]  # rows of a table that many keys share: the first, and how many


@dataclass
class Segment:
    """Rows of one key, the state before them, and what they made the evaluator put out."""

    before: Held | None
    first: int  # least and greatest time, as codes
    last: int
    pieces: list[Slice] = field(default_factory=list)
    rows: int = 0
    output: list[Slice] = field(default_factory=list)

    def add(self, piece: Slice, last: int) -> None:
        self.pieces.append(piece)
        self.rows += piece[2]
        self.last = last


@dataclass
class Line:
    """What may still be corrected of one key."""

    key: Key
    segments: list[Segment] = field(default_factory=list)
    queued: bool = False  # time is waiting for its first segment

    def place(self, time: int) -> int:
        """The segment that an event of this time belongs to; rows of one time share one."""
        return max(0, bisect_right(self.segments, time, key=attrgetter("first")) - 1)


def pieces(events: Events) -> Iterator[Events]:
    """Events in pieces of at most about SPACING rows per key; rows of one time stay together."""
    lengths = np.diff(events.starts)
    if not len(lengths):
        return
    if int(lengths.max()) <= SPACING:
        yield events
        return
    times = numbers(events.table, AT)
    at = events.starts[:-1].copy()
    ends = events.starts[1:]
    while True:
        active = np.flatnonzero(at < ends)
        if not len(active):
            return
        cuts = np.minimum(at[active] + SPACING, ends[active])
        for index, (cut, end) in enumerate(zip(cuts.tolist(), ends[active].tolist(), strict=True)):
            cuts[index] = cut + np.searchsorted(times[cut:end], times[cut - 1], "right")
        sizes = cuts - at[active]
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        rows = np.repeat(at[active] - starts[:-1], sizes) + np.arange(int(starts[-1]))
        whole = len(active) == 1
        table = (
            events.table.slice(int(at[active[0]]), int(sizes[0]))
            if whole
            else events.table.take(pa.array(rows))
        )
        yield Events(table, starts, np.zeros(len(active), np.bool_))
        at[active] = cuts
