"""A lane: all keys of one hash bucket of a stream, and one step per micro-batch for all of them.

Rows wait in `pending` until the watermark has passed them: then no earlier row can come, they are
sorted and go to the stage (the evaluator with its state). So the stage sees ordered input, and what
it puts out is final. Without corrections or speculation a lane need not wait for Spark to move the
watermark after the micro-batch: its own rows prove a part of it at once (`_newest_mark`), so that
state holds what may still be overtaken, not a micro-batch of rows.

With `emit="changes"` the rows still pending are tried as well: a copy of the stage runs over those
before watermark + σ, and the difference to what was emitted before goes out as `+` and `-` rows.
Corrections (CDC) change pending rows; what the watermark has passed is settled, and an event or
correction that comes for it is late.

The answer depends on the set of rows and on the watermarks, never on the order of arrival: ties
are broken by content, and corrections cancel by content or by identity and sequence.

This module knows no Spark: `run/spark/stream_operator.py` calls it in the workers, tests call it
directly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import PREFIX
from ensue.operator import intake
from ensue.operator.arrange import flat, group_codes
from ensue.operator.buffer import AT, CONTENT, Buffer, numbers
from ensue.operator.changes import difference
from ensue.operator.clock import BEYOND, LOWEST
from ensue.operator.match_names import MATCH
from ensue.operator.protocol import Key, key_at, key_table, keys_in
from ensue.operator.state import numbers_of, restoring
from ensue.operator.status import LATE, REJECTED, SHED, STATUS, TIMEOUT
from ensue.run.lanes import side, state
from ensue.run.lanes.rows import newest, newest_names, told_apart, uncancelled
from ensue.run.lanes.signing import authentic
from ensue.run.lanes.work import (
    END,
    IDENTITY,
    SEQUENCE,
    SIGN,
    Counts,
    Several,
    Work,
    pattern_name,
)

PENDING, SPOKEN, STAGE, OVERFULL, LAST = "pending", "spoken", "stage", "shed", "last"
_TIME = PREFIX + "time"


@dataclass
class Lane:
    """One lane in one micro-batch: restored, stepped once, saved where something changed."""

    work: Work
    number: int
    counts: Counts = field(default_factory=Counts)
    patterns: dict[str, int] = field(default_factory=dict)  # what was emitted of each pattern

    def __post_init__(self) -> None:
        self._stage = self.work.stage(self.number)
        self._pending = Buffer(self.work.schema.append(pa.field(AT, pa.int64())))
        self._spoken: pa.Table | None = None
        self._shed: set[Key] = set()
        self._last: dict[Key, int] = {}  # the newest event time of each key, where keys expire
        self._closed = False
        self._changed = False
        self._reached: int | None = None  # what the lane's own rows say the watermark will be
        self._given: int | None = None  # Spark's watermark of the last step
        self._behind = False  # Spark's watermark has not caught up with what rows proved

    # -- state -----------------------------------------------------------------------------------

    @restoring()
    def load(self, blob: bytes) -> None:
        parts = state.from_bytes(blob, self.work.description)
        self.counts.state_bytes = len(blob)
        self._pending.replace([self._with_times(parts.table(PENDING))])
        numbers = parts.numbers or numbers_of(parts.state(PENDING))  # where version 1 kept them
        self._closed = bool(numbers["closed"])
        self._reached, self._given = numbers.get("reached"), numbers.get("given")
        self._behind = bool(numbers.get("behind"))
        self._stage.load(parts.state(STAGE))
        if SPOKEN in parts:
            self._spoken = parts.table(SPOKEN)
        if OVERFULL in parts:
            self._shed = set(keys_in(parts.table(OVERFULL), self.work.partition_by))
        if LAST in parts:
            last = parts.table(LAST)
            times = last[_TIME].to_pylist()
            self._last = dict(zip(keys_in(last, self.work.partition_by), times, strict=True))
        elif self.work.settings.forget is not None:
            # Written before lanes knew the times: silence counts from here.
            self._last = dict.fromkeys(self._stage.known(), self._given or 0)

    def save(self, always: bool = False) -> bytes | None:
        """The state; None where it is what it was."""
        if not self._changed and not always:
            return None
        numbers = {"closed": int(self._closed)}
        if self._reached is not None:
            numbers |= {"reached": self._reached, "behind": int(self._behind)}
        if self._given is not None:
            numbers["given"] = self._given
        parts = {PENDING: self._plain(self._pending.table()), STAGE: self._stage.save()}
        if self._spoken is not None and self._spoken.num_rows:
            parts[SPOKEN] = self._spoken
        if self._shed:
            parts[OVERFULL] = self._key_table(self._shed)
        if self._last:
            times = pa.array(list(self._last.values()), pa.int64())
            parts[LAST] = self._key_table(self._last).append_column(_TIME, times)
        blob = state.to_bytes(parts, self.work.description, numbers)
        self.counts.state_bytes = len(blob)
        return blob

    def _key_table(self, keys: Collection[Key]) -> pa.Table:
        return key_table(keys, [self.work.schema.field(n) for n in self.work.partition_by])

    def wake_at(self, watermark: int | None) -> int | None:
        """The least watermark (in microseconds) at which this lane has something to do."""
        times = [self._stage.next_time()]
        if len(self._pending):
            moments = numbers(self._pending.table(), AT)
            times.append(int(moments.min()) + 1)
            sigma = self.work.settings.speculation
            hidden = moments[moments >= (watermark or 0) + (sigma or 0)]
            if sigma is not None and self.work.settings.speculative and len(hidden):
                times.append(int(hidden.min()) - sigma + 1)
        if self.work.settings.forget is not None and self._last:
            times.append(min(self._last.values()) + self.work.settings.forget + 1)
        known = [time for time in times if time is not None]
        return min(known) if known else None

    # -- a step ----------------------------------------------------------------------------------

    def step(
        self, tables: Iterable[pa.Table], watermark: int | None, orders: Sequence[str] = ()
    ) -> Iterator[pa.Table]:
        """New rows, the watermark in microseconds and orders; drain it before `save`."""
        rows = [table for table in tables if table.num_rows]
        settings = self.work.settings
        orders, unsigned = authentic(orders, settings.secret)
        end = not self._closed and any(is_end(order) for order in orders)
        watermark = self._own_mark(watermark)
        if rows:
            self._changed = True
            came = pa.concat_tables(self._by_time(rows)).combine_chunks()
            self.counts.rows += came.num_rows
            yield from self._take_in(came, watermark)
            watermark = self._newest_mark(watermark)
        mark = BEYOND if end else LOWEST if watermark is None else watermark
        ready, useless = self._events(self._pending.take_below(mark))
        if settings.corrections == "content":
            # A deletion by identity is the newest version of its event, and rightly left over.
            yield from self._side(useless, REJECTED, side.NOTHING_TO_TAKE_BACK)
        if end:
            self._changed = self._closed = True
        found = list(self._settled(ready, watermark, end))
        if ready.num_rows or found:
            self._changed = True
        edits = [order for order in orders if not is_end(order)]
        if edits:
            self._changed = True
            unsigned += self._stage.revise(edits, watermark)
        if self.number == 0:  # all lanes come to the same result; one of them tells it
            yield from self._refused(unsigned)
        if settings.speculative:
            yield from self._told(found, watermark)
        else:
            for table in found:
                matched = self._in_time(table)
                self.counts.matches += matched.num_rows
                self._tally(matched, "matches")
                yield side.shown(self.work, table)
        yield from self._refused(self._stage.stops())
        unused = self._stage.refused()
        if unused is not None:
            self.counts.rejected += unused.num_rows
            if settings.late:
                yield side.unused(self.work, unused)
        yield from self._check_limits()
        self.counts.partials = self._stage.partials
        self.counts.pending = len(self._pending)
        self.counts.keys = self._stage.keys
        spent = self._stage.spent()
        self.counts.extended, self.counts.unextended = spent[:2]
        self.counts.promised, self.counts.followed = spent[2:]

    def _in_time(self, found: pa.Table) -> pa.Table:
        """Matches; partial matches that ran out of their window are counted apart."""
        if not self.work.settings.timeouts:
            return found
        matched = found.filter(pc.not_equal(found[STATUS], TIMEOUT))
        self.counts.within += found.num_rows - matched.num_rows
        return matched

    def _tally(self, told: pa.Table, what: str) -> None:
        """Count by pattern."""
        stage, settings = self._stage, self.work.settings
        found: Mapping[str, int] = {pattern_name(settings.name, 0): told.num_rows}
        if isinstance(stage, Several):
            found = stage.by_pattern(told)
        for name, rows in found.items():
            counted = f"{name} {what}"
            self.patterns[counted] = self.patterns.get(counted, 0) + rows

    def _settled(self, ready: pa.Table, watermark: int | None, end: bool) -> Iterator[pa.Table]:
        stage = self._stage
        if ready.num_rows:
            yield from stage.insert(told_apart(ready))
        if watermark is not None:
            due = stage.next_time()
            if due is not None and due <= watermark:
                self._changed = True
                yield from stage.advance(watermark)
        if self.work.settings.forget is not None:
            yield from self._forget(ready, watermark, self.work.settings.forget)
        if end:
            self._last = {}
            yield from stage.end()

    def _forget(self, ready: pa.Table, watermark: int | None, after: int) -> Iterator[pa.Table]:
        """Keys that have been silent for so long are complete."""
        if ready.num_rows:
            codes, count = group_codes(ready, self.work.partition_by)
            newest = np.full(count, np.iinfo(np.int64).min)
            np.maximum.at(newest, codes, self._times(ready).to_numpy())
            _, firsts = np.unique(codes, return_index=True)
            keys = keys_in(ready.take(pa.array(firsts)), self.work.partition_by)
            self._last.update(zip(keys, newest.tolist(), strict=True))
        if watermark is None:
            return
        silent = [key for key, time in self._last.items() if time < watermark - after]
        if silent:
            self._changed = True
            for key in silent:
                del self._last[key]
            yield from self._stage.end(silent)

    # -- time ------------------------------------------------------------------------------------

    def _own_mark(self, watermark: int | None) -> int | None:
        """Spark's watermark, or what this lane has derived from its rows, if Spark lost a batch.

        A driver that dies between a file sink's log and Spark's own runs the micro-batch again; the
        sink then leaves it out, so that no row tells Spark the time. The watermark stands still
        for a micro-batch and is behind until later rows come; what the lane knows still holds.
        A watermark that moves, and less than the rows proved, is that of several sources.
        """
        reached, before = self._reached, self._given
        self._given = watermark
        if reached is None or (watermark is not None and watermark >= reached):
            self._behind = False
            return watermark
        if not self._behind and watermark != before:
            raise errors.WatermarkError(
                f"the watermark is at {watermark} microseconds and rows of the micro-batch before "
                f"proved {reached}: the stream has several watermarks, and Spark takes the least",
                remedy="call withWatermark once, after the union, or say clock='spark' and start "
                "with a new checkpoint",
            )
        self._behind = self._changed = True
        return reached

    def _newest_mark(self, watermark: int | None) -> int | None:
        """The watermark that the rows of this micro-batch prove for the next one.

        It will be the newest event of the whole stream less the delay, in whole milliseconds; so
        what is older than the newest event *here* less the delay is late by then and need not wait.
        """
        delay, newest = self.work.settings.delay, self._pending.latest
        if delay is None or newest is None:
            return watermark
        proved = newest // 1000 * 1000 - delay
        if proved <= 0 or (watermark is not None and proved <= watermark):
            return watermark
        self._reached = proved
        return proved

    # -- rows that come --------------------------------------------------------------------------

    def _by_time(self, pieces: list[pa.Table]) -> list[pa.Table]:
        """The pieces by their first event: sources are mostly in order of time, a shuffle is not.

        The answer does not depend on it; rows that are almost in order are put in order quickly.
        """
        if len(pieces) == 1:
            return pieces
        firsts = [piece.column(self.work.time)[0].value for piece in pieces]
        known = [first if first is not None else 0 for first in firsts]
        return [pieces[index] for index in np.argsort(np.array(known, np.int64), kind="stable")]

    def _times(self, table: pa.Table) -> pa.Array:
        return flat(table, self.work.time).cast(pa.timestamp("us", "UTC")).cast(pa.int64())

    def _with_times(self, rows: pa.Table) -> pa.Table:
        return rows.append_column(AT, self._times(rows))

    def _plain(self, rows: pa.Table) -> pa.Table:
        return rows.drop_columns([AT])

    def _take_in(self, came: pa.Table, watermark: int | None) -> Iterator[pa.Table]:
        """Rows into `pending`; what cannot go there is counted and shown."""
        came, untimed = intake.parted(came, self._untimed(came))
        yield from self._side(untimed, REJECTED, intake.NO_TIME)
        mark = BEYOND if self._closed else LOWEST if watermark is None else watermark
        came, late = intake.in_time(self._with_times(came), mark)
        yield from self._side(late, LATE)
        if self._shed:
            came, shed = self._without_shed(came)
            yield from self._side(shed, SHED, self._too_many)
        if not self.work.settings.corrections:
            self._pending.add(came)
            return
        came, unknown = intake.parted(came, flat(came, SIGN).to_numpy() == 0)
        yield from self._side(unknown, REJECTED, side.UNKNOWN)
        self._pending.add(came)
        self._correct()

    def _untimed(self, came: pa.Table) -> NDArray[np.bool_]:
        column = flat(came, self.work.time)
        untimed = column.is_null().to_numpy(zero_copy_only=False)
        if column.null_count and self.work.settings.nulls == "fail":
            key = key_at(came, int(np.flatnonzero(untimed)[0]), self.work.partition_by)
            raise errors.DataError(
                f"a row of the key {key} has no event time ({self.work.time} is null)",
                remedy="filter such rows before matching, or leave nulls='reject', which counts "
                "them and goes on",
            )
        return untimed

    def _side(self, rows: pa.Table, status: str, text: str = "") -> Iterator[pa.Table]:
        """Rows that come to nothing, counted as their status says, and shown on request."""
        setattr(self.counts, status, getattr(self.counts, status) + rows.num_rows)
        if self.work.settings.late and rows.num_rows:
            yield side.aside(self.work, rows, status, text, self._closed)

    def _correct(self) -> None:
        """Withdrawals against what is pending, in any order of arrival."""
        table = self._pending.table()
        if self.work.settings.corrections == "identity":
            keep = newest(flat(table, IDENTITY).to_numpy(), flat(table, SEQUENCE))
        else:
            keep = uncancelled(flat(table, CONTENT).to_numpy(), flat(table, SIGN).to_numpy())
        kept, gone = intake.parted(table, ~keep)
        self.counts.corrected += gone.num_rows
        self._pending.replace([kept])

    def _events(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Events, and withdrawals that found nothing to withdraw."""
        rows = self._plain(rows)
        if not self.work.settings.corrections:
            return rows, rows.slice(0, 0)
        return intake.parted(rows, flat(rows, SIGN).to_numpy() <= 0)

    def _refused(self, refused: list[dict[str, str]]) -> Iterator[pa.Table]:
        """Orders that cannot be carried out, counted and shown."""
        if not refused:
            return
        self.counts.bad_edits += len(refused)
        if self.work.settings.late:
            yield side.refused(self.work, refused)

    # -- limits ----------------------------------------------------------------------------------

    @property
    def _too_many(self) -> str:
        return f"its key had more rows in state than key_limit = {self.work.settings.key_limit:,}"

    def _without_shed(self, came: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Rows of other keys, and of those that are left out."""
        starts, codes = self._groups(came)
        wanted = np.array(
            [key_at(came, int(first), self.work.partition_by) not in self._shed for first in starts]
        )
        return intake.parted(came, ~wanted[codes])

    def _groups(self, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A row of each key, and the number of its key for each row."""
        codes, _ = group_codes(table, self.work.partition_by)
        _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return firsts, inverse

    def _check_limits(self) -> Iterator[pa.Table]:
        limit = self.work.settings.key_limit
        sizes = dict(self._stage.sizes())
        if len(self._pending) + sum(sizes.values()) <= limit:
            return
        if len(self._pending):
            table = self._pending.table()
            firsts, codes = self._groups(table)
            for first, count in zip(firsts, np.bincount(codes), strict=True):
                key = key_at(table, int(first), self.work.partition_by)
                sizes[key] = sizes.get(key, 0) + int(count)
        over = {key: size for key, size in sizes.items() if size > limit}
        if not over:
            return
        if self.work.settings.overflow == "fail":
            key, size = max(over.items(), key=lambda item: item[1])
            raise errors.LimitError(
                f"the key {key} keeps {size:,} rows in state; key_limit is {limit:,}",
                remedy="bound the pattern with within(...), raise key_limit=..., or say "
                "overflow='shed' to leave such keys out from then on",
            )
        self._shed |= set(over)
        self._last = {key: time for key, time in self._last.items() if key not in over}
        self._changed = True
        self._stage.drop(over)
        kept, shed = self._without_shed(self._pending.table())
        self._pending.replace([kept])
        self.counts.shed += sum(over.values()) - shed.num_rows  # the stage's, no longer rows
        yield from self._side(shed, SHED, self._too_many)

    # -- output ----------------------------------------------------------------------------------

    def _told(self, final: list[pa.Table], watermark: int | None) -> Iterator[pa.Table]:
        """The difference between what was said and what now holds."""
        nothing = self.work.found.append(pa.field(MATCH, pa.string())).empty_table()
        settled, tried, before = (
            newest_names(pa.concat_tables([nothing, *tables], promote_options="default"))
            for tables in (
                final,
                [] if self._closed else self._tried(watermark),
                [] if self._spoken is None else [self._spoken],
            )
        )
        again = pc.is_in(tried[MATCH], settled[MATCH].combine_chunks())
        tried = tried.filter(pc.invert(again)).combine_chunks()
        came, went = difference(before, pa.concat_tables([settled, tried]))
        for op, rows, what in (("-", went, "retracted"), ("+", came, "matches")):
            if rows.num_rows:
                self._tally(rows, what)
                yield side.shown(self.work, rows, op=op)
        self.counts.matches += came.num_rows
        self.counts.retracted += went.num_rows
        self._changed |= bool(came.num_rows or went.num_rows)
        self._spoken = tried if tried.num_rows else None

    def _tried(self, watermark: int | None) -> list[pa.Table]:
        """What a copy of the stage puts out on the rows that wait, up to σ past the watermark."""
        rows, sigma = self._pending.table(), self.work.settings.speculation
        if sigma is not None:
            rows, _ = intake.parted(rows, numbers(rows, AT) >= (watermark or 0) + sigma)
        visible, _ = self._events(rows)
        stage, found = self._stage, []
        if visible.num_rows:
            stage = stage.copy()
            found = list(stage.insert(told_apart(visible)))
        return [*found, *stage.standing()]


def is_end(order: str) -> bool:
    """Whether an order (a file's name, a line end, its text) closes the stream."""
    return order.partition("\n")[0].endswith("." + END)
