"""Cleanse (AFA §5.3): disorder in, order out, for many keys at once and before any evaluator.

Events are held until the watermark comes within σ of them, the *speculation factor*: with watermark
t, exactly the events before t + σ have been let through. σ = 0 waits for the watermark, so what is
behind sees ordered input and never has to take anything back; σ = ∞ lets everything through.

What has been let through but may still be corrected (at or after the watermark) is remembered, so
that Cleanse alone knows what is a copy, a correction or a mistake:

- An event before the watermark is *late*: returned and counted, never used.
- A null event time, a second event of one id with other values, and a retraction of an event never
  seen, seen no more (before the watermark) or retracted already are *rejected*: returned with a
  reason, and the rest of the batch goes on.
- With an `identity` column, a copy of an event that is there is ignored and counted: sources that
  deliver at least once are harmless. Without, rows equal in everything are that many events, which
  are interchangeable: the copies are called the first, the second, ... whatever order they came in.

Equal times are ordered by the further ORDER BY columns, then by a hash of the row (or of the key
and id), never by arrival (SEMANTICS, event patterns 6).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import PREFIX
from ensue.operator import intake, state
from ensue.operator import protocol as base
from ensue.operator.arrange import arrange, flat
from ensue.operator.buffer import AT, CONTENT, EVENT, HIDDEN, KEY, Buffer, numbers
from ensue.operator.clock import BEYOND, HIGHEST, LOWEST, Clock
from ensue.operator.identity import column_hashes, copy_hashes, folded, row_hashes
from ensue.operator.intake import REASON
from ensue.operator.protocol import Capabilities, Events, Key, Snapshot
from ensue.query.query import OrderKey
from ensue.query.stored import Fingerprint, fingerprint

KIND, SHARED = state.Kind("cleanse", version=2), state.Kind("cleanse shared", version=2)
Codes = NDArray[np.int64]
_STAGE = PREFIX + "stage"  # in stored state: held, let through, or retracted

NO_ID = "the id is null"
OTHER_VALUES = "there is already an event with this id and other values: retract it first"
NEVER_SEEN = "retraction of an event that was never seen"
FINAL = "retraction of an event older than the watermark: it is final"
TWICE = "the event was already retracted"


@dataclass(frozen=True)
class Released:
    """What one call lets through. Tables have the input's columns and the hidden ones (HIDDEN)."""

    events: Events  # in order, key after key
    withdrawn: Events  # events let through earlier that are taken back
    late: pa.Table
    rejected: pa.Table  # with a column `reason`


@dataclass
class Counts:
    """Counted since the start."""

    rows: int = 0
    late: int = 0
    rejected: int = 0
    duplicates: int = 0
    retracted: int = 0


@dataclass
class Cleanse:
    """See the module. `schema` is the input's, without hidden columns."""

    schema: pa.Schema
    partition_by: Sequence[str]
    order_by: Sequence[OrderKey]
    speculation: Any = 0  # σ: 0, a length of time ("10 seconds", or a number), or math.inf
    identity: str | None = None  # column that names an event inside its partition
    delay: Any = None  # the watermark follows the newest event at this distance
    history: Any = 0  # how long events are remembered behind the watermark
    counts: Counts = field(default_factory=Counts)

    capabilities = Capabilities(ordered_input=False, retraction=True)

    def __post_init__(self) -> None:
        key = event_time(self.order_by)
        self.clock = Clock(key.column, self.schema.field(key.column).type)
        self._sigma = self.clock.amount(self.speculation, "speculation")
        self._delay = None if self.delay is None else self.clock.amount(self.delay, "delay")
        self._history = self.clock.amount(self.history, "history")
        fields = [*self.schema, *(pa.field(name, pa.int64()) for name in HIDDEN)]
        self.full_schema = pa.schema(fields)
        self._held = Buffer(self.full_schema)  # not let through yet
        self._sent = Buffer(self.full_schema)  # let through, but may still be corrected
        self._gone = Buffer(self.full_schema)  # retracted, since the watermark
        empty = self.full_schema.empty_table()
        self._nothing = Events(empty, np.zeros(1, np.int64), np.zeros(0, np.bool_))
        self._none_rejected = intake.with_reasons(self.schema.empty_table(), "")
        self.watermark = LOWEST  # as a code
        self.newest = LOWEST

    # -- calls -----------------------------------------------------------------------------------

    def insert(self, table: pa.Table) -> Released:
        """Take events in, in any order; let through what the watermark allows."""
        self.counts.rows += table.num_rows
        fitted, reasons = self._fitted(table, self.schema.names)
        timed, untimed = intake.split(self._hidden(fitted), reasons)
        in_time, late = intake.in_time(timed, self.watermark)
        named, refused = self._named(in_time)
        self.counts.late += late.num_rows
        if named.num_rows:
            self.newest = max(self.newest, int(numbers(named, AT).max()))
            self._held.add(named)
        mark = self.watermark
        if self._delay is not None:
            mark = max(mark, self.clock.later(self.newest, -self._delay))
        return Released(
            self._release(mark),
            self._events(None),
            late.select(self.schema.names),
            self._refused([untimed, refused]),
        )

    def retract(self, table: pa.Table) -> Released:
        """Take events back: all their columns, or the partition columns and the identity."""
        self.counts.rows += table.num_rows
        needed = self.schema.names
        if self.identity is not None:
            needed = [*self.partition_by, self.identity]
        fitted, reasons = self._fitted(table, needed)
        if self.identity is not None:  # the name alone says which event is meant
            reasons = pa.nulls(len(reasons), pa.string())
        given, untimed = intake.split(self._hidden(fitted), reasons)
        wanted, refused = self._to_retract(given)
        held = self._held.remove(EVENT, wanted)
        withdrawn = self._sent.remove(EVENT, wanted)
        self._gone.add(held)
        self._gone.add(withdrawn)
        self.counts.retracted += held.num_rows + withdrawn.num_rows
        return Released(
            self._events(None),
            self._events(withdrawn),
            self.schema.empty_table(),
            self._refused([untimed, refused]),
        )

    def advance(self, time: Any) -> Released:
        """A watermark: no event before `time` will come."""
        return self.advance_to(self.clock.code(time))

    def advance_to(self, code: int) -> Released:
        """As `advance`, by code. A watermark never goes back."""
        passed = self._release(max(self.watermark, code))
        return Released(passed, self._events(None), self.schema.empty_table(), self._refused([]))

    def end(self, keys: Iterable[Key] | None = None) -> Events:
        """Let everything of these keys through: no more will come."""
        if keys is None:
            wanted = np.union1d(self._held.keys(), self._sent.keys())
        else:
            wanted = self.key_hashes(keys)
        passed = self._held.remove(KEY, wanted)
        self._sent.remove(KEY, wanted)
        self._gone.remove(KEY, wanted)
        return self._events(passed)

    def between(self, begin: int, end: int) -> Events:
        """Events let through already, from one time on and before another, if remembered."""
        return self._events(self._sent.from_time(begin, end))

    @property
    def remembered_from(self) -> int:
        """From this time on, every event let through is still known."""
        return self.clock.later(self.watermark, -self._history)

    def __len__(self) -> int:
        """Events held back."""
        return len(self._held)

    @property
    def remembered(self) -> int:
        """Events let through that are still known."""
        return len(self._sent)

    @property
    def nbytes(self) -> int:
        return self._held.nbytes + self._sent.nbytes

    # -- taking in -------------------------------------------------------------------------------

    def _fitted(self, table: pa.Table, needed: Sequence[str]) -> tuple[pa.Table, pa.Array]:
        """The table with the declared columns and types, and why a row cannot be used (or null)."""
        arrays = []
        reasons = pa.nulls(table.num_rows, pa.string())
        for column in self.schema:
            if column.name not in table.column_names:
                if column.name in needed:
                    raise errors.UnknownColumnError(
                        f"the events have no column {column.name!r}",
                        remedy=f"give the columns {', '.join(needed)}",
                    )
                arrays.append(pa.nulls(table.num_rows, column.type))
                continue
            array = flat(table, column.name)
            if column.name == self.clock.name:
                fitted = intake.cast_times(array, column.type)
                reasons = intake.time_reasons(array, fitted)
                arrays.append(fitted)
            else:
                arrays.append(intake.cast(array, column))
        return pa.table(arrays, schema=self.schema), reasons

    def _hidden(self, table: pa.Table) -> pa.Table:
        """With the hidden columns; the name is still that of the content."""
        content = pa.array(row_hashes(table, self.schema.names).view(np.int64))
        keys = pa.array(self._key_hashes(table))
        codes = pa.array(self.clock.codes(flat(table, self.clock.name)))
        return pa.table([*table.columns, codes, keys, content, content], schema=self.full_schema)

    def _key_hashes(self, table: pa.Table) -> Codes:
        return row_hashes(table, self.partition_by).view(np.int64)

    def _named(self, table: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Events under their names, and those that cannot have one."""
        content = numbers(table, CONTENT)
        if self.identity is None:
            copy = self._copies(content) + intake.count_before(content)
            names = copy_hashes(content.view(np.uint64), copy).view(np.int64)
            return intake.with_names(table, names), intake.with_reasons(table.slice(0, 0), NO_ID)
        names = self._identities(table)
        known = self._known_content(names)
        first = intake.count_before(names) == 0
        before = np.where(first, known, content[intake.first_of(names)])
        there = ~first | self._exists(names)
        valid = flat(table, self.identity).is_valid().to_numpy(zero_copy_only=False)
        same = there & (before == content) & valid
        self.counts.duplicates += int(same.sum())
        table = intake.with_names(table, names)
        unnamed = intake.with_reasons(table.filter(pa.array(~valid)), NO_ID)
        other = intake.with_reasons(table.filter(pa.array(valid & there & ~same)), OTHER_VALUES)
        return table.filter(pa.array(valid & ~there)), pa.concat_tables([unnamed, other])

    def _identities(self, table: pa.Table) -> Codes:
        """Names made of the key and the identity column."""
        assert self.identity is not None
        ids = column_hashes(flat(table, self.identity))
        return folded(numbers(table, KEY).view(np.uint64), ids).view(np.int64)

    def _exists(self, names: Codes) -> NDArray[np.bool_]:
        return (self._held.count(EVENT, names) + self._sent.count(EVENT, names)) > 0

    def _copies(self, content: Codes) -> Codes:
        """How many rows of that content there are, held or let through."""
        return self._held.count(CONTENT, content) + self._sent.count(CONTENT, content)

    def _known_content(self, names: Codes) -> Codes:
        """The content of the event that has each name; 0 where there is none."""
        found = np.zeros(len(names), np.int64)
        for buffer in (self._held, self._sent):
            rows = buffer.find(EVENT, names)
            if rows.num_rows:
                known = numbers(rows, EVENT)
                index = np.argsort(known)
                place = np.searchsorted(known[index], names)
                place = index[np.minimum(place, len(index) - 1)]
                found = np.where(known[place] == names, numbers(rows, CONTENT)[place], found)
        return found

    def _to_retract(self, table: pa.Table) -> tuple[Codes, pa.Table]:
        """Names of the events to retract, and the retractions that mean none."""
        if self.identity is None:
            asked = numbers(table, CONTENT)
            copy = self._copies(asked) - 1 - intake.count_before(asked)
            names = copy_hashes(asked.view(np.uint64), copy).view(np.int64)
            there, column = copy >= 0, CONTENT
        else:
            names = asked = self._identities(table)
            there, column = self._exists(names) & (intake.count_before(names) == 0), EVENT
        final = self._is_final(table, names, there)
        again = ~there & ((self._gone.count(column, asked) > 0) | (intake.count_before(asked) > 0))
        refused = []
        for reason, which in (
            (FINAL, final),
            (TWICE, again & ~final),
            (NEVER_SEEN, ~there & ~again & ~final),
        ):
            refused.append(intake.with_reasons(table.filter(pa.array(which)), reason))
        return names[there & ~final], pa.concat_tables(refused)

    def _is_final(
        self, table: pa.Table, names: Codes, there: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Whether the event meant is before the watermark: as told, or as it was when it came."""
        told = flat(table, self.clock.name).is_valid().to_numpy(zero_copy_only=False)
        final = told & ~there & (numbers(table, AT) < self.watermark)
        if self._history:
            remembered = self._sent.find(EVENT, names[there])
            old = numbers(remembered, EVENT)[numbers(remembered, AT) < self.watermark]
            final |= np.isin(names, old)
        return final

    # -- letting through -------------------------------------------------------------------------

    def _release(self, mark: int) -> Events:
        self.watermark = mark
        limit = BEYOND if self._sigma == math.inf else self.clock.later(mark, self._sigma)
        passed = self._held.take_below(BEYOND if limit == HIGHEST else limit)
        kept_from = self.remembered_from
        self._sent.take_below(kept_from)
        self._gone.take_below(mark)
        if passed.num_rows:
            correctable = numbers(passed, AT) >= kept_from
            if correctable.all():
                self._sent.add(passed)
            elif correctable.any():
                self._sent.add(passed.filter(pa.array(correctable)))
        return self._events(passed)

    def _events(self, table: pa.Table | None) -> Events:
        """Key after key, each in order; none of the partitions is complete."""
        if table is None or not table.num_rows:
            return self._nothing
        rows, starts = self.arranged(table)
        return Events(rows, starts, np.zeros(len(starts) - 1, np.bool_))

    def arranged(self, table: pa.Table) -> tuple[pa.Table, Codes]:
        """Rows in the order of this stream, and the partitions' first rows + length."""
        return arranged(table, self.partition_by, self.order_by)

    def _refused(self, tables: Iterable[pa.Table]) -> pa.Table:
        some = [table for table in tables if table.num_rows]
        if not some:
            return self._none_rejected
        self.counts.rejected += sum(table.num_rows for table in some)
        return pa.concat_tables(some).select([*self.schema.names, REASON])

    def key_hashes(self, keys: Iterable[Key]) -> Codes:
        """The hidden KEY of keys given as tuples."""
        listed = list(keys)
        columns = []
        for index, name in enumerate(self.partition_by):
            kind = self.schema.field(name).type
            values = [key[index] for key in listed]
            if pa.types.is_floating(kind):
                values = [math.nan if value == "NaN" else value for value in values]
            columns.append(pa.array(values, kind))
        if not columns:
            return np.zeros(len(listed), np.int64) + self._key_hashes(intake.one_row(self.schema))
        return self._key_hashes(pa.table(columns, names=list(self.partition_by)))

    # -- state -----------------------------------------------------------------------------------

    @property
    def _fingerprint(self) -> Fingerprint:
        told = (str(self.schema), tuple(self.partition_by), tuple(self.order_by), self.identity)
        return fingerprint(None, *told, earlier=repr(told))

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        """State per key (of the keys touched, where given), and what all keys share.

        A key that has nothing left is not in it; a caller that stores entries per key deletes those
        of touched keys that are missing.
        """
        table = self._staged(None if touched is None else self.key_hashes(touched))
        rows, starts = arrange(table, self.partition_by, ())
        names, named = keys_of(rows, starts, self.partition_by), self._fingerprint
        entries = {
            key: state.to_bytes(KIND, rows.slice(begin, end - begin), query=named)
            for key, (begin, end) in zip(names, pairwise(starts.tolist()), strict=True)
        }
        return Snapshot(entries, self._shared())

    def _staged(self, wanted: Codes | None) -> pa.Table:
        tables = []
        for stage, buffer in enumerate((self._held, self._sent, self._gone)):
            rows = buffer.table() if wanted is None else buffer.find(KEY, wanted)
            stages = pa.array(np.full(rows.num_rows, stage, np.int8))
            tables.append(rows.append_column(_STAGE, stages))
        return pa.concat_tables(tables).combine_chunks()

    def _shared(self) -> bytes:
        return state.to_bytes(SHARED, pa.table({}), self._numbers(), self._fingerprint)

    def to_bytes(self) -> bytes:
        """All state in one piece."""
        return state.to_bytes(KIND, self._staged(None), self._numbers(), self._fingerprint)

    def _numbers(self) -> dict[str, int]:
        return {"watermark": self.watermark, "newest": self.newest, **asdict(self.counts)}

    def restore(self, saved: Snapshot | bytes) -> None:
        """Go on from a state; keys that are not in it stay as they are."""
        if isinstance(saved, bytes):
            self._restore_shared(self._restore_rows(saved))
            return
        for blob in saved.keys.values():
            self._restore_rows(blob)
        if saved.shared:
            self._restore_shared(state.from_bytes(SHARED, saved.shared, self._fingerprint)[1])

    def _restore_rows(self, blob: bytes) -> dict[str, int]:
        table, told = state.from_bytes(KIND, blob, self._fingerprint)
        stages = numbers(table, _STAGE)
        rows = table.drop_columns([_STAGE]).cast(self.full_schema)
        for buffer in (self._held, self._sent, self._gone):
            buffer.remove(KEY, numbers(rows, KEY))
        for stage, buffer in enumerate((self._held, self._sent, self._gone)):
            buffer.add(rows.filter(pa.array(stages == stage)))
        return told

    def _restore_shared(self, told: dict[str, int]) -> None:
        self.watermark, self.newest = told.pop("watermark"), told.pop("newest")
        self.counts = Counts(**told)


def event_time(order_by: Sequence[OrderKey]) -> OrderKey:
    """The first order column, which must rise with time."""
    if not order_by:
        raise errors.QueryError(
            "events that come one by one need an event time, and there is no order_by(...)",
            remedy="say which column holds the time: order_by('ts')",
        )
    if order_by[0].descending:
        raise errors.QueryError(
            f"the event time {order_by[0].column!r} is ordered descending: a stream goes forward",
            remedy="order by it ascending",
        )
    return order_by[0]


def arranged(
    table: pa.Table, partition_by: Sequence[str], order_by: Sequence[OrderKey]
) -> tuple[pa.Table, Codes]:
    """Rows with hidden columns key after key, each in the order that arrival cannot change."""
    in_time, starts = arrange(table, partition_by, [OrderKey.of(AT)])
    codes = numbers(in_time, AT)
    ties = codes[1:] == codes[:-1]
    ties[starts[1:-1] - 1] = False
    if not ties.any():
        return in_time, starts
    return arrange(in_time, partition_by, [OrderKey.of(AT), *order_by[1:], OrderKey.of(EVENT)])


def keys_of(table: pa.Table, starts: Codes, names: Sequence[str]) -> list[Key]:
    """The key of each partition."""
    return base.keys_of(Events(table, starts, np.zeros(len(starts) - 1, np.bool_)), names)
