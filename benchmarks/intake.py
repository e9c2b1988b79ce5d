"""The intake of a lane beside that of a matcher, for one lane of a stream: CPU and bytes of state.

Both take the same micro-batches of disordered rows, hash them, hold them until the watermark and
let them through in order; the state is written and read between any two, as a stream does. No
evaluator stands behind either. `docs/decisions/0069` has the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.harness import say
from benchmarks.rows import Settings
from ensue.operator.cleanse import Cleanse
from ensue.operator.protocol import Key
from ensue.query.query import OrderKey
from ensue.run.lanes.hashes import Hashes
from ensue.run.lanes.lane import Lane
from ensue.run.lanes.stages import ordered
from ensue.run.lanes.work import Settings as LaneSettings
from ensue.run.lanes.work import Stage, Work

SECOND = 1_000_000
DELAY = 30 * SECOND
STEPS, ROWS = 20, 10_000
Step = Callable[[pa.Table, int], int]


class _Nothing(Stage):
    """Takes ordered rows and puts nothing out."""

    evaluators: Sequence[object] = ()

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        ordered(rows, ("k",), (OrderKey("ts"),))
        return iter(())

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        return iter(())

    def end(self, keys: Collection[Key] | None = None) -> Iterator[pa.Table]:
        return iter(())

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        return []

    def copy(self) -> _Nothing:
        return self

    def save(self) -> bytes:
        return b""

    def load(self, blob: bytes) -> None:
        pass


class _Intake(Work):
    def stage(self, lane: int) -> Stage:
        return _Nothing()


def batches(keys: int, late: int, seed: int = 1) -> list[pa.Table]:
    """Rows that come up to `late` after their time."""
    chance = np.random.default_rng(seed)
    due = np.sort(chance.integers(0, STEPS * 60 * SECOND, STEPS * ROWS)) + 10**15
    times = due - chance.integers(0, max(late, 1), len(due))
    rows = pa.table(
        {
            "k": chance.integers(0, keys, len(due)),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "price": chance.random(len(due)),
        }
    )
    return [rows.slice(step * ROWS, ROWS) for step in range(STEPS)]


def by_lane(schema: pa.Schema) -> Step:
    hashes = Hashes(tuple(schema.names), ("k",), ("k",), 1, False)
    full = hashes.added(schema.empty_table()).schema
    work = _Intake(full, schema, ("k",), "ts", LaneSettings(), {})
    blob: bytes | None = None

    def step(rows: pa.Table, mark: int) -> int:
        nonlocal blob
        lane = Lane(work, 0)
        if blob is not None:
            lane.load(blob)
        for _ in lane.step([hashes.added(rows)], mark):
            pass
        blob = lane.save(always=True)
        return len(blob or b"")

    return step


def by_cleanse(schema: pa.Schema) -> Step:
    blob = b""

    def step(rows: pa.Table, mark: int) -> int:
        nonlocal blob
        cleanse = Cleanse(schema, ("k",), (OrderKey("ts"),))
        if blob:
            cleanse.restore(blob)
        cleanse.insert(rows)
        cleanse.advance_to(mark)
        blob = cleanse.to_bytes()
        return len(blob)

    return step


def measured(make: Callable[[pa.Schema], Step], tables: list[pa.Table]) -> tuple[float, int]:
    """CPU of all steps, the best of five, and the largest state."""
    best, size = float("inf"), 0
    for _ in range(5):
        step = make(tables[0].schema)
        began = time.process_time()
        for number, rows in enumerate(tables):
            mark = 10**15 + (number + 1) * 60 * SECOND - DELAY
            size = max(size, step(rows, mark))
        best = min(best, time.process_time() - began)
    return best, size


def run_intake(settings: Settings) -> bool:
    """intake: rows wait for the watermark in a lane, and as a matcher's intake would hold them"""
    say(f"{STEPS} steps of {ROWS:,} rows, the watermark {DELAY // SECOND} s behind")
    for keys in (100, 5_000):
        tables = batches(keys, DELAY)
        lane, held = measured(by_lane, tables)
        cleanse, known = measured(by_cleanse, tables)
        say(
            f"{keys:,} keys: lane {lane:.3f} s, {held:,} bytes; Cleanse {cleanse:.3f} s "
            f"({cleanse / lane:.2f}x), {known:,} bytes ({known / held:.2f}x)"
        )
    return True


COMMANDS = {"intake": run_intake}
