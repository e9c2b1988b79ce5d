"""Shuffling only what can match, at three selectivities, against shuffling every row.

Rows are of one Parquet file, in order of time, with a payload that the patterns do not read. Event
patterns: the share of rows that a variable can take. Row patterns: the share of keys that have a
row of the rarest variable, with and without a window.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ensue
from benchmarks.harness import Target, compare, report, say
from benchmarks.rows import MILLION, Settings
from ensue.run.spark.prefilter import SETTING

KEYS = 100_000
SHARES = (0.0001, 0.01, 0.5)
SPAN = 30 * 86_400  # seconds


def _frame(settings: Settings, name: str, kinds: np.ndarray, users: np.ndarray) -> Any:
    folder = settings.folder / f"prefilter-{name}-{len(kinds)}"
    if not folder.exists():
        count, random = len(kinds), np.random.default_rng(4)
        moments = np.sort(random.integers(0, SPAN * 1_000_000, count)) + 1_700_000_000_000_000
        table = pa.table(
            {
                "user": users,
                "ts": pa.array(moments, pa.timestamp("us", "UTC")),
                "kind": pa.array(np.array(["a", "b", "c", "d", "e"])[kinds]),
                "amount": random.random(count),
                "note": pa.array(random.integers(0, 1 << 40, count)).cast(pa.string()),
            }
        )
        folder.mkdir(parents=True)
        pq.write_table(table, folder / "part-0.parquet", row_group_size=count // 16)
    return settings.spark.read.parquet(str(folder))


def _run(frame: Any, pattern: Any, mode: str) -> Callable[[], int]:
    def run() -> int:
        os.environ[SETTING] = mode
        try:
            return int(pattern.matches(frame).count())
        finally:
            del os.environ[SETTING]

    return run


def _compared(settings: Settings, frame: Any, pattern: Any, mode: str, name: str) -> bool:
    """Off against `mode`; a saving, or where there is none hardly a cost."""
    rows, share = frame.count(), name.rpartition("-")[2]
    variants = {f"every row ({share})": "off", f"what can match ({share})": mode}
    found = compare(
        {told: (rows, _run(frame, pattern, how)) for told, how in variants.items()},
        repeat=settings.repeat,
        warm_up=1,
    )
    for one in found:
        one.notes["matches"] = f"{one.answer:,}"
    ratio = found[1].cpu_median / found[0].cpu_median
    limit = 1.05 if share == "50%" else 1.0
    met = report(name, found, [Target("CPU, what can match ÷ every row", ratio, limit)], name)
    if found[0].answer != found[1].answer:
        say(f"MISSED: {name} has other matches")
    return met and found[0].answer == found[1].answer


def run_prefilter(settings: Settings) -> bool:
    """prefilter: only rows that can match are shuffled; 0.01 %, 1 % and 50 % of them can"""
    count = settings.rows or 2 * MILLION
    keys = max(1, KEYS * count // (4 * MILLION))
    met = True
    event = ensue.pattern("a ->> b", types="kind").within("1 hour")
    row = ensue.pattern("a c d* b", types="kind").define(d="kind <> 'b'")
    row = row.after_match("to next row")
    for share in SHARES:
        random, told = np.random.default_rng(3), f"{100 * share:g}%"
        users = random.integers(0, keys, count)
        kinds = random.integers(0, 2, count)
        kinds[random.random(count) >= share] = 2
        frame = _frame(settings, f"events-{told}", kinds, users % 1_000)
        kept = event.partition_by("user").order_by("ts").measures(paid="b.amount")
        met &= _compared(settings, frame, kept, "rows", f"prefilter-events-{told}")
        # One `a` for each key that may match; of 50 %: half of all rows are an `a`.
        kinds = random.integers(1, 5, count)
        if share < 0.5:
            kinds[random.choice(count, max(1, int(share * keys)), replace=False)] = 0
        else:
            kinds[random.random(count) < share] = 0
        frame = _frame(settings, f"rows-{told}", kinds, users)
        kept = row.partition_by("user").order_by("ts").measures(paid="b.amount")
        met &= _compared(settings, frame, kept, "sample", f"prefilter-keys-{told}")
        bounded = kept.within("1 hour")
        met &= _compared(settings, frame, bounded, "sample", f"prefilter-window-{told}")
    return met


COMMANDS = {"prefilter": run_prefilter}
