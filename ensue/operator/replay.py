"""Replay: corrections of the past for every evaluator that needs order.

The events since the watermark are kept, key by key, in *segments* of a few thousand rows
(`segments.py`), each with the state of the evaluator before it and what the evaluator put out on
it. An event that belongs to the past, or one taken back, puts the state before its segment back and
runs on from there, segment by segment, until the state is what it was before: from then on
everything stays. The difference between what was put out then and now is the change.

So a correction costs by how far back it lies (and how long it keeps on mattering), not by how much
there is: no segment before it is read, and none after the state is the same again. All keys that a
call touches go through the evaluator together, round by round.

A segment whose events are all before the watermark can never be corrected and is dropped; the state
before the next one stands for it (the paper's cover(t), Appendix C.1).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.operator import segments, state
from ensue.operator.buffer import AT, EVENT, KEY, numbers
from ensue.operator.changes import Changes, difference
from ensue.operator.cleanse import arranged
from ensue.operator.clock import LOWEST
from ensue.operator.hold import Held, Tails
from ensue.operator.protocol import Events, Key, Output, Snapshot, Watermark, keys_of
from ensue.operator.segments import Line, Segment, Slice
from ensue.query import condition as c

KIND = state.Kind("replay", version=2)
Codes = NDArray[np.int64]


class Resumable(Protocol):
    """An evaluator whose state per key can be put back: rows held and a few numbers."""

    @property
    def tails(self) -> Tails: ...
    def insert(self, events: Events) -> Output: ...
    def advance(self, mark: Watermark) -> Output: ...
    def end(self, keys: Iterable[Key] | None = None) -> Output: ...
    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot: ...
    def no_matches(self, schema: pa.Schema) -> pa.Table: ...


@dataclass
class _Rerun:
    """A line that is run again: its segments from the first touched one on, as they were."""

    line: Line
    old: list[Segment]
    added: list[list[Slice]]  # per old segment
    final: Held | None  # the state at the end, as it was
    last_touched: int  # the last old segment with a change
    following: int = 0  # the next old segment to run


class Replay:
    """See the module. Rows have the hidden columns AT, KEY and EVENT."""

    def __init__(
        self,
        evaluator: Resumable,
        plan: Plan,
        schema: pa.Schema,
        nothing: pa.Table,
        settling: bool = False,
    ) -> None:
        self._evaluator = evaluator
        self._plan = plan
        # When a match was decided matters only to a stage that waits for that time to pass.
        self._apart = () if settling else (AT,)
        self._nothing = _stamped(nothing, np.zeros(0, np.int64))
        self._schema = schema
        self._lines: dict[int, Line] = {}
        self._due: list[tuple[int, int]] = []  # heap of (last time of the first segment, line)
        self._mark: Watermark | None = None
        self._floor = LOWEST  # the watermark as a code
        conditions = (*plan.atoms, *(part for t in plan.tests for part in t.correlated))
        numbered = any(c.has(condition, c.MatchNumber) for condition in conditions)
        self._alike = ("base", "matches") if numbered else ()

    # -- calls -----------------------------------------------------------------------------------

    def change(self, added: Events, removed: Events | None = None) -> Changes:
        """Events that are inserted and events that are retracted, each in order."""
        if removed is not None and removed.table.num_rows:
            return self._corrected(added, removed)
        hashes = numbers(added.table, KEY)[added.starts[:-1]].tolist()
        firsts = numbers(added.table, AT)[added.starts[:-1]].tolist()
        lines = [self._lines.get(name) for name in hashes]
        in_order = [
            line is None or not line.segments or first > line.segments[-1].last
            for line, first in zip(lines, firsts, strict=True)
        ]
        if all(in_order):
            found = self._feed(added)
            if self._plan.lookahead:  # a row that waited for its NEXT may be due already
                found += self._caught_up()
            return Changes(self._joined(found), self._nothing)
        return self._corrected(added, None)

    def advance(self, code: int, time: object) -> Changes:
        """Time passes for all keys; what lies before it is final."""
        self._mark, self._floor = Watermark(time), code
        found = self._note(self._evaluator.advance(self._mark))
        while self._due and self._due[0][0] < code:
            _, name = heapq.heappop(self._due)
            line = self._lines.get(name)
            if line is None:
                continue
            while line.segments and line.segments[0].last < code:
                del line.segments[0]
            if line.segments:
                heapq.heappush(self._due, (line.segments[0].last, name))
            else:
                del self._lines[name]
        return Changes(self._joined(found), self._nothing)

    def end(self, keys: Sequence[Key] | None = None, names: Codes | None = None) -> Changes:
        """These keys, and the hashes they are known by, are complete: all of them is final."""
        found = self._note(self._evaluator.end(keys))
        if names is None:
            self._lines, self._due = {}, []
        else:
            for name in names.tolist():
                self._lines.pop(name, None)
        return Changes(self._joined(found), self._nothing)

    @property
    def nothing(self) -> pa.Table:
        """The output of no matches, with the times at which matches were decided (AT)."""
        return self._nothing

    @property
    def rows(self) -> int:
        """Events that may still be corrected."""
        return sum(segment.rows for line in self._lines.values() for segment in line.segments)

    # -- forwards --------------------------------------------------------------------------------

    def _feed(self, events: Events) -> list[pa.Table]:
        """Rows that come after all others of their key, in pieces of about SPACING."""
        found: list[pa.Table] = []
        for piece in segments.pieces(events):
            names = numbers(piece.table, KEY)[piece.starts[:-1]].tolist()
            times = numbers(piece.table, AT)
            keys: list[Key] | None = None
            bounds = piece.starts.tolist()
            for index, name in enumerate(names):
                line = self._lines.get(name)
                if line is None:
                    keys = keys or keys_of(piece, self._plan.query.partition_by)
                    line = self._lines[name] = Line(keys[index])
                begin, end = bounds[index], bounds[index + 1]
                if not line.segments or self._is_full(line.segments[-1]):
                    first = int(times[begin])
                    line.segments.append(
                        Segment(self._state(line.key, 4 * piece.table.num_rows), first, first)
                    )
                    if not line.queued:
                        line.queued = True
                        heapq.heappush(self._due, (int(times[end - 1]), name))
                line.segments[-1].add((piece.table, begin, end - begin), int(times[end - 1]))
            found += self._note(self._evaluator.insert(piece))
        return found

    def _is_full(self, segment: Segment) -> bool:
        """Long enough, or begun before the watermark: so that old segments become droppable."""
        return segment.rows >= segments.SPACING or segment.first < self._floor

    def _state(self, key: Key, small: int = 0) -> Held | None:
        """The state of a key. Its rows lie in a block with those of others: unless the block is
        small beside the events that are kept anyway, they are copied, so that it can be freed."""
        held = self._evaluator.tails.held.get(key)
        if held is None:
            return None
        if held.block.num_rows <= max(small, 2 * held.length + 16):
            return replace(held)
        rows = pa.array(np.arange(held.offset, held.offset + held.length))
        return replace(held, block=held.block.take(rows), offset=0)

    def _resume(self, key: Key, held: Held | None) -> None:
        if held is None:
            self._evaluator.tails.held.pop(key, None)
        else:
            self._evaluator.tails.held[key] = replace(held)

    def _note(self, output: Output) -> list[pa.Table]:
        """What the evaluator puts out, written down with the last segment of each key."""
        tables = []
        for table in output.tables():
            if not table.num_rows:
                continue
            names = numbers(table, KEY)
            index = np.argsort(names, kind="stable")
            names = names[index]
            bounds = [0, *_changes(names).tolist(), len(names)]
            heads = names[bounds[:-1]].tolist()
            ordered = _stamped(table.take(pa.array(index)), self._stamps(heads, np.diff(bounds)))
            tables.append(ordered)
            for name, (begin, end) in zip(heads, pairwise(bounds), strict=True):
                line = self._lines.get(name)
                if line is not None and line.segments:
                    line.segments[-1].output.append((ordered, begin, end - begin))
        return tables

    def _stamps(self, names: list[int], sizes: Codes) -> Codes:
        """Per row: the time of the last event that its key has seen, which decided it at latest."""
        lines = [self._lines.get(name) for name in names]
        last = [line.segments[-1].last if line and line.segments else LOWEST for line in lines]
        return np.repeat(np.array(last, np.int64), sizes)

    def _caught_up(self) -> list[pa.Table]:
        """What the last watermark settles, for states that have not seen it."""
        return [] if self._mark is None else self._note(self._evaluator.advance(self._mark))

    # -- the past --------------------------------------------------------------------------------

    def _corrected(self, added: Events, removed: Events | None) -> Changes:
        """Lines with changes in their past run again; the others continue."""
        gone = np.zeros(0, np.int64) if removed is None else np.sort(numbers(removed.table, EVENT))
        touched = self._touched(added, removed)
        reruns, straight = self._plan_reruns(added, touched)
        found = self._feed(straight) if straight is not None else []
        old: list[Slice] = []
        new: list[pa.Table] = []
        active = reruns
        while active:
            active, fed = self._round(active, gone)
            new += fed
        if reruns or self._plan.lookahead:
            new += self._caught_up()
        for rerun in reruns:
            for segment in rerun.old[: rerun.following]:
                old += segment.output
        came, went = difference(self._joined(_tables(old)), self._joined(new), self._apart)
        return Changes(pa.concat_tables([self._joined(found), came]), went)

    def _touched(self, added: Events, removed: Events | None) -> dict[int, tuple[int, int]]:
        """Per line: the least and greatest time of its changes."""
        span: dict[int, tuple[int, int]] = {}
        for events in (added, removed):
            if events is None or not events.table.num_rows:
                continue
            names = numbers(events.table, KEY)[events.starts[:-1]].tolist()
            times = numbers(events.table, AT)
            lows = times[events.starts[:-1]].tolist()
            highs = times[events.starts[1:] - 1].tolist()
            for name, low, high in zip(names, lows, highs, strict=True):
                least, most = span.get(name, (low, high))
                span[name] = (min(least, low), max(most, high))
        return span

    def _plan_reruns(
        self, added: Events, touched: dict[int, tuple[int, int]]
    ) -> tuple[list[_Rerun], Events | None]:
        """Which lines run again, with their new rows by segment; and the rows of all others."""
        rows: dict[int, pa.Table] = {}
        names = (
            numbers(added.table, KEY)[added.starts[:-1]].tolist() if added.table.num_rows else []
        )
        bounds = added.starts.tolist()
        for index, name in enumerate(names):
            rows[name] = added.table.slice(bounds[index], bounds[index + 1] - bounds[index])
        reruns: list[_Rerun] = []
        straight: list[pa.Table] = []
        for name, (least, most) in touched.items():
            line, new = self._lines.get(name), rows.get(name)
            if line is None or not line.segments or least > line.segments[-1].last:
                if new is not None:
                    straight.append(new)
                continue
            reruns.append(self._rerun(line, least, most, new))
        if not straight:
            return reruns, None
        starts = np.concatenate(([0], np.cumsum([t.num_rows for t in straight]))).astype(np.int64)
        table = pa.concat_tables(straight).combine_chunks()
        return reruns, Events(table, starts, np.zeros(len(straight), np.bool_))

    def _rerun(self, line: Line, least: int, most: int, new: pa.Table | None) -> _Rerun:
        begin = line.place(least)
        final = self._state(line.key)
        old = line.segments[begin:]
        line.segments = line.segments[:begin]
        firsts = np.array([segment.first for segment in old])
        added: list[list[Slice]] = [[] for _ in old]
        if new is not None:
            places = np.maximum(0, np.searchsorted(firsts, numbers(new, AT), "right") - 1)
            for first, last in pairwise([0, *_changes(places).tolist(), len(places)]):
                added[int(places[first])].append((new, first, last - first))
        last_touched = max(0, int(np.searchsorted(firsts, most, "right")) - 1)
        self._resume(line.key, old[0].before)
        return _Rerun(line, old, added, final, last_touched)

    def _round(self, active: list[_Rerun], gone: Codes) -> tuple[list[_Rerun], list[pa.Table]]:
        """One segment of every line that runs again; those that have to go on, and the output."""
        slices: list[Slice] = []
        for rerun in active:
            slices += rerun.old[rerun.following].pieces
            slices += rerun.added[rerun.following]
        table = pa.concat_tables(_tables(slices)).combine_chunks()
        if len(gone):
            names = numbers(table, EVENT)
            place = np.minimum(np.searchsorted(gone, names), len(gone) - 1)
            table = table.filter(pa.array(gone[place] != names))
        query = self._plan.query
        rows, starts = arranged(table, query.partition_by, query.order_by)
        found = self._feed(Events(rows, starts, np.zeros(len(starts) - 1, np.bool_)))
        remaining = []
        for rerun in active:
            rerun.following += 1
            if rerun.following == len(rerun.old):
                continue
            following = rerun.old[rerun.following]
            key = rerun.line.key
            held = self._evaluator.tails.held.get(key)
            if rerun.following > rerun.last_touched and self._same(held, following.before):
                rerun.line.segments += rerun.old[rerun.following :]
                self._resume(key, rerun.final)
            else:
                remaining.append(rerun)
        return remaining, found

    def _same(self, one: Held | None, other: Held | None) -> bool:
        """Whether matching continues alike from two states, whatever was numbered before."""
        if one is None or other is None:
            return one is other
        for name in ("length", "begin", "fresh", "head", *self._alike):
            if getattr(one, name) != getattr(other, name):
                return False
        if max(one.floor, 0) != max(other.floor, 0) or (one.base == 0) != (other.base == 0):
            return False
        return bool(np.array_equal(_held_events(one), _held_events(other)))

    # -- state -----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The state before the first event that may be corrected, and those events, per key."""
        tails = copy(self._evaluator.tails)
        tails.held = dict(tails.held)
        tables = [self._schema.empty_table()]
        for line in self._lines.values():
            if not line.segments:
                continue
            before = line.segments[0].before
            if before is None:
                tails.held.pop(line.key, None)
            else:
                tails.held[line.key] = before
            tables += _tables([piece for segment in line.segments for piece in segment.pieces])
        parts = {"held": tails.together(), "rows": pa.concat_tables(tables)}
        return state.pack(KIND, parts, query=self._plan.fingerprint)

    def restore(self, blob: bytes, code: int, time: object) -> None:
        """Go on from a state at a watermark; what it had put out is not put out again."""
        parts = state.unpack(KIND, blob, self._plan.fingerprint)
        self._evaluator.tails.restore_together(parts.state("held"))
        rows = parts.table("rows")
        if time is not None:
            self._mark, self._floor = Watermark(time), code
        if rows.num_rows:
            query = self._plan.query
            rows = rows.cast(self._schema)
            rows, starts = arranged(rows, query.partition_by, query.order_by)
            self._feed(Events(rows, starts, np.zeros(len(starts) - 1, np.bool_)))
            self._caught_up()

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        return pa.concat_tables([self._nothing, *tables])


def _stamped(table: pa.Table, times: Codes) -> pa.Table:
    return table.append_column(AT, pa.array(times))


def _tables(slices: list[Slice]) -> list[pa.Table]:
    return [table.slice(begin, length) for table, begin, length in slices]


def _changes(values: Codes) -> Codes:
    """Places at which a value differs from the one before."""
    return np.flatnonzero(np.diff(values)) + 1


def _held_events(held: Held) -> Codes:
    return numbers(held.block.slice(held.offset, held.length), EVENT)
