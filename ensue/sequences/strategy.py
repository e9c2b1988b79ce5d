"""After-match strategies over the matches that the compiled graph lists.

The graph (`machine.py`) lists every match, whatever its start; a strategy then goes by starts, as
in `listing.py`, and needs only where each match begins and ends. So the choice is a pass over
sorted rows, and events are read only of matches that compete or that name where to resume.

A strategy may take few of very many matches, and plain Python stops following a start that has
matched. So what the kernels do is bounded by the rows: beyond, or where they fail on a match that
the strategy might have left out, there is no answer here and the classes of `runs.py` decide. Nor
is there one where partitions are open: which starts are still alive is not known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.operator.hold import Carried
from ensue.query.query import Query, SkipMode
from ensue.sequences.batch import EventBatch
from ensue.sequences.listing import Pairs, resume
from ensue.sequences.machine import EventMachine, GuardOverflowError
from ensue.sequences.match_graph import Effort, Stretch, list_within
from ensue.stopping import look

FEW = 1 << 16  # matches, and classes asked, that are never too many
MANY = 1 << 22  # matches that are too many unless there are fewer than rows
MATCHES_PER_ROW = 16
VISITS_PER_ROW = 256


class _TooDearError(Exception):
    """Following every start costs more than following each until it has matched."""


class _Bounded(Effort):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.visits[1] = most

    def spent(self, seconds: float, row: int) -> None:
        if self.visits[0] >= self.visits[1]:
            raise _TooDearError


class Chosen:
    """All matches of a batch of complete partitions, from which a strategy takes some."""

    def __init__(self, query: Query, batch: EventBatch, found: list[Stretch]) -> None:
        self._query, self._batch = query, batch
        self.lengths = np.concatenate([stretch.lengths for stretch in found])
        self.labels = np.concatenate([stretch.labels for stretch in found])
        self.rows = np.concatenate([stretch.rows for stretch in found])
        self.ends = np.cumsum(self.lengths)
        firsts, lasts = self.rows[self.ends - self.lengths], self.rows[self.ends - 1]
        order = np.lexsort((lasts, firsts))
        self._order: list[int] = order.tolist()
        self._firsts: list[int] = firsts[order].tolist()
        self._lasts: list[int] = lasts[order].tolist()

    def of(self, partition: int, carried: Carried) -> Iterator[int]:
        """The matches of a partition that the strategy takes, as `listing.listed` defines it."""
        begin, end = self._batch.starts[partition : partition + 2].tolist()
        fresh = int(self._batch.reach.fresh[partition])
        head, carried.head = carried.head, -1
        place = bisect_left(self._firsts, begin)
        beyond = bisect_left(self._firsts, end, place)
        while place < beyond:
            look()
            place = bisect_left(self._firsts, carried.floor, place, beyond)
            if place == beyond:
                return
            start = self._firsts[place]
            after = bisect_right(self._firsts, start, place, beyond)
            for last, match in self._completed(place, after):
                if start == head and last < fresh:
                    continue
                yield match
                carried.floor = max(carried.floor, self._resume(start, last, match))
                if start < carried.floor:
                    break
            place = after

    def _completed(self, place: int, after: int) -> Iterator[tuple[int, int]]:
        """Matches of one start with their last rows; of equal ends, the earliest events first."""
        while place < after:
            last = self._lasts[place]
            end = bisect_right(self._lasts, last, place, after)
            here: Sequence[int] = self._order[place:end]
            if len(here) > 1:
                here = sorted(here, key=self._by_events)
            for match in here:
                yield last, match
            place = end

    def _by_events(self, match: int) -> list[tuple[int, int]]:
        return [(row, label) for label, row in self.pairs(match)]

    def _resume(self, first: int, last: int, match: int) -> int:
        mode = self._query.skip.mode
        if mode is SkipMode.PAST_LAST_ROW:
            return last + 1
        if mode is SkipMode.TO_NEXT_ROW:
            return first + 1
        return resume(self._query, self.pairs(match))

    def pairs(self, match: int) -> Pairs:
        """Its (label, row) pairs, in order of the events."""
        end = self.ends[match]
        begin = end - self.lengths[match]
        labels, rows = self.labels[begin:end].tolist(), self.rows[begin:end].tolist()
        return list(zip(labels, rows, strict=True))

    def stretch(self, picks: NDArray[np.int64]) -> Stretch:
        """The events of some matches."""
        lengths = self.lengths[picks]
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1]) + np.repeat(self.ends[picks] - ends, lengths)
        return Stretch(lengths, self.labels[places], self.rows[places])


def all_matches(query: Query, machine: EventMachine, batch: EventBatch) -> Chosen | None:
    """The matches a strategy chooses from; None: plain Python follows start by start."""
    if batch.reach.is_open.any() or not len(batch.reach.begins):
        return None
    if machine.steps.skip_accept.any():
        return None  # completed by an event that is none of theirs
    length = batch.table.num_rows
    most = FEW + min(MATCHES_PER_ROW * length, max(MANY, length))
    found: list[Stretch] = []
    try:
        graph = machine.graph(batch, batch.reach.stops.copy())
        graph.walk = graph.walk._replace(fresh=graph.walk.begins)  # a choice depends on all
        graph.effort = _Bounded(FEW + VISITS_PER_ROW * length)
        for stretch in graph.stretches(most, list_within):
            most -= len(stretch.lengths)
            if most <= 0:
                return None
            found.append(stretch)
    except errors.TimeLimitError:
        raise
    except (_TooDearError, GuardOverflowError, errors.DataError, errors.LimitError):
        return None
    nothing = np.empty(0, np.int64)
    return Chosen(query, batch, found or [Stretch(nothing, nothing.astype(np.int32), nothing)])
