"""Tables as streams: cut at random, out of order within the watermark; and lanes without Spark."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import Plan, plan
from ensue.operator.arrange import arrange
from ensue.operator.buffer import CONTENT, KEY
from ensue.operator.identity import row_hashes
from ensue.operator.prepare import prepare
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import OrderKey, Query, Window, WindowKind
from ensue.run.lanes.lane import Lane
from ensue.run.lanes.work import Settings, Work

TIME = "event_time"
SECOND = 1_000_000
DISORDER = 3 * SECOND  # and the delay of the watermark
EPOCH = 1_700_000_000 * SECOND
CLOSE = "00000001-stream.end\n"


def timed(query: Query, table: pa.Table) -> tuple[Query, pa.Table] | None:
    """The same question about rows with an event time; None where their order has none.

    The time is the order value itself where a window measures it, else the place in the order.
    """
    window, order = query.within, query.order_by
    rows = table.num_rows
    if window is not None and window.kind is not WindowKind.ROWS:
        column = table[order[0].column].combine_chunks()
        if column.null_count or order[0].descending or pa.types.is_floating(column.type):
            return None
        if window.kind is WindowKind.TIME:
            times = column.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
        else:
            times = EPOCH + column.cast(pa.int64()).to_numpy() * SECOND
            size = window.size * SECOND
            if size != int(size):
                return None
            window = Window(WindowKind.TIME, int(size))
    else:
        places = table.append_column("__place", pa.array(np.arange(rows)))
        arranged, starts = arrange(places, query.partition_by, order)
        times = np.empty(rows, np.int64)
        inside = np.arange(rows) - np.repeat(starts[:-1], np.diff(starts))
        times[arranged["__place"].to_numpy()] = EPOCH + inside * SECOND
    stamped = table.append_column(TIME, pa.array(times, pa.timestamp("us", "UTC")))
    keys = (OrderKey(TIME), *order)
    if rows and _ties(stamped, query.partition_by, keys):
        return None
    return replace(query, order_by=keys, within=window), stamped


def _ties(table: pa.Table, partition_by: Any, order_by: tuple[OrderKey, ...]) -> bool:
    """Rows whose order is not told: then a stream and a batch may differ."""
    names = [*partition_by, *(key.column for key in order_by)]
    return len(set(map(str, table.select(names).to_pylist()))) < table.num_rows


@dataclass(frozen=True)
class Batches:
    """Micro-batches and the watermark, in microseconds, in force during each of them."""

    rows: list[list[int]]
    watermarks: list[int | None]
    last: int | None = None  # the watermark after all of them


def cut(times: np.ndarray, seed: int, most: int = 5, disorder: int = DISORDER) -> Batches:
    """Rows in micro-batches, at most `disorder` late."""
    chance = random.Random(seed)
    delays = np.array([chance.randrange(disorder + 1) for _ in times], np.int64)
    arrival = np.argsort(times + delays, kind="stable").tolist()
    rows: list[list[int]] = []
    watermarks: list[int | None] = []
    newest = None
    while arrival:
        size = chance.randint(0, most)
        part, arrival = arrival[:size], arrival[size:]
        chance.shuffle(part)
        rows.append(part)
        watermarks.append(None if newest is None else newest - disorder)
        newest = max(
            [*([] if newest is None else [newest]), *(int(times[i]) for i in part)], default=None
        )
    return Batches(rows, watermarks, None if newest is None else newest - disorder)


def streamed(query: Query, table: pa.Table) -> tuple[Plan, pa.Table]:
    """The plan, and the rows as lanes get them."""
    bound = rules.check(bind(query, table.column_names))
    planned = plan(bound)
    ready = prepare(planned, table.combine_chunks())
    content = row_hashes(ready, ready.column_names).view(np.int64)
    keys = row_hashes(ready, bound.partition_by).view(np.int64)
    ready = ready.append_column(CONTENT, pa.array(content))
    return planned, ready.append_column(KEY, pa.array(keys))


def drive(work: Work, table: pa.Table, batches: Batches, end: bool = True) -> list[pa.Table]:
    """A lane over micro-batches, its state written and read between any two."""
    state: bytes | None = None
    found: list[pa.Table] = []
    for rows, watermark in zip(batches.rows, batches.watermarks, strict=True):
        state = step(work, state, [table.take(pa.array(rows, pa.int64()))], watermark, (), found)
    if end:
        step(work, state, [], batches.last, (CLOSE,), found)
    return found


def step(
    work: Work,
    state: bytes | None,
    tables: list[pa.Table],
    watermark: int | None,
    orders: tuple[str, ...],
    found: list[pa.Table],
) -> bytes | None:
    lane = Lane(work, 0)
    if state is not None:
        lane.load(state)
    found.extend(lane.step(tables, watermark, orders))
    saved = lane.save()
    return state if saved is None else saved


def settings(**given: Any) -> Settings:
    return replace(Settings(lanes=1), **given)


def net(tables: list[pa.Table]) -> list[dict[str, Any]]:
    """What is left of `+` and `-` rows; each withdrawal names what was said before."""
    standing: dict[str, dict[str, Any]] = {}
    for row in (row for table in tables for row in table.to_pylist()):
        name = row["match_id"]
        if row["op"] == "+":
            assert name not in standing, f"{name} was said twice"
            standing[name] = row
        else:
            assert repr(standing.pop(name)) == repr({**row, "op": "+"})
    return [
        {n: v for n, v in row.items() if n not in ("op", "match_id")} for row in standing.values()
    ]
