"""Rows of all times that Spark has, from the year 1 to 9999, and what is to become of each.

A watermark is defined here once more, as Spark defines it: the newest row of the micro-batches
before, in whole milliseconds, less the delay; none before 1970. A row before it is late, one
without a time is rejected.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ensue.query.query import Query, Window, WindowKind
from tests.lanes import streams

SECOND = streams.SECOND
DAY = 86_400 * SECOND
# The years 1 and 9999 in all zones, so that some times have no date in UTC.
FIRST, LAST = -62_135_596_800 * SECOND - DAY // 2, 253_402_300_800 * SECOND + DAY // 2 - 1
# Where something might happen: the ends, 64 bits of nanoseconds, the epoch, Gregory, today.
NANOSECONDS = 2**63 // 1000  # 64 bits of them
PLACES = (FIRST, -NANOSECONDS, -12_219_292_800 * SECOND, 0, streams.EPOCH, NANOSECONDS, LAST)
ZONES = ("UTC", "Asia/Tokyo", "America/Los_Angeles")
DELAYS = (0, 10 * SECOND, 400 * DAY)
Row = dict[str, Any]


def moment(chance: random.Random, near: int) -> int:
    """Anywhere, at a place of interest, or a little after the one before."""
    kind = chance.random()
    if kind < 0.55:
        time = near + chance.choice((1, 999, 1000, SECOND, 7 * SECOND, 40 * SECOND))
    elif kind < 0.7:
        time = chance.choice(PLACES) + chance.randrange(-3, 4)
    elif kind < 0.9:
        time = chance.choice(PLACES) + chance.randrange(-60 * SECOND, 60 * SECOND)
    else:
        time = chance.randrange(FIRST, LAST + 1)
    return min(max(time, FIRST), LAST)


@dataclass(frozen=True)
class Sent:
    """Micro-batches of rows, and what is to become of each row."""

    table: pa.Table
    batches: list[list[int]]
    watermarks: list[int | None]
    late: set[int]
    rejected: set[int]
    last: int | None

    @property
    def used(self) -> pa.Table:
        rows = range(self.table.num_rows)
        return self.table.take([i for i in rows if i not in self.late | self.rejected])


def sent(seed: int, delay: int) -> Sent:
    """Rows at random, mostly forward in time, a little out of order."""
    chance = random.Random(seed)
    count = chance.randrange(12, 26)
    times = moments(chance, count)
    if chance.random() < 0.3:
        chance.shuffle(times)
    batches: list[list[int]] = []
    place = 0
    while place < count:
        part = list(range(place, min(count, place + chance.randrange(1, 9))))
        place += len(part)
        chance.shuffle(part)
        batches.append(part)
    zone = chance.choice(ZONES)
    keys = pa.array([chance.choice((FIRST, 0, LAST)) for _ in times], pa.timestamp("us", zone))
    if chance.random() < 0.5:
        keys = pa.array([chance.choice("xyz") for _ in times])
    return judged(times, keys, batches, delay, zone, chance)


def moments(chance: random.Random, count: int) -> list[int | None]:
    times: list[int | None] = []
    near = chance.choice(PLACES)
    for _ in range(count):
        near = moment(chance, near)
        times.append(None if chance.random() < 0.05 else near)
    return sorted(times, key=lambda time: (time or 0) + chance.randrange(20 * SECOND))


def judged(
    times: list[int | None],
    keys: pa.Array,
    batches: list[list[int]],
    delay: int,
    zone: str,
    chance: random.Random,
) -> Sent:
    watermarks: list[int | None] = []
    late: set[int] = set()
    newest, mark = FIRST, None
    for part in batches:
        watermarks.append(mark)
        known = [(i, time) for i in part if (time := times[i]) is not None]
        late |= {i for i, time in known if mark is not None and time < mark}
        newest = max([newest, *(time for _, time in known)])
        reached = (newest // 1000 - delay // 1000) * 1000
        mark = reached if reached > 0 else None
    table = pa.table(
        {
            "id": pa.array(range(len(times))),
            "k": keys,
            "ts": pa.array(times, pa.timestamp("us", zone)),
            "kind": pa.array([chance.choice("AABBC") for _ in times]),
            "x": pa.array([chance.randrange(9) for _ in times]),
        }
    )
    rejected = {i for i, time in enumerate(times) if time is None}
    return Sent(table, batches, watermarks, late, rejected, mark)


def numbers(table: pa.Table) -> pa.Table:
    """Times as numbers: Python has no year 10000, where a zone may lead."""
    return table.cast(pa.schema([(f.name, _timeless(f.type)) for f in table.schema]))


def _timeless(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_timeless(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, _timeless(f.type)) for f in kind])
    return kind


def told(rows: list[Row]) -> list[str]:
    """Counts and sums are decimals where they come from all matches."""
    whole = [{n: int(v) if isinstance(v, Decimal) else v for n, v in r.items()} for r in rows]
    return sorted(str(sorted(row.items())) for row in whole)


def in_numbers(query: Query) -> Query:
    """The same question where times are numbers."""
    window = query.within
    return replace(query, within=window and Window(WindowKind.NUMBER, window.size))
