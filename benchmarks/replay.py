"""Row patterns on events that come out of order: what disorder costs the in-process matcher.

W1 and W2 (see `rows.py`) as streams in order of time, in batches of 10,000 events, answered at once
(σ = ∞) with a watermark 2,000 events behind. 5 % of the events are late by 1 to 1,000 events, as in
the paper's experiments; each run is compared with the same stream in order, and with σ = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Target, compare, report
from benchmarks.rows import Settings, Workload, w1, w2

ROWS = 300_000
BATCH = 10_000
DISORDER, FARTHEST = 0.05, 1_000
BEHIND = 2_000  # events between the newest and the watermark


def in_time(table: pa.Table) -> pa.Table:
    return table.take(pc.sort_indices(table, sort_keys=[("ts", "ascending")]))


def disordered(table: pa.Table, seed: int = 7) -> pa.Table:
    """5 % of the events moved back by up to 1,000 places."""
    chooser = np.random.default_rng(seed)
    rows = table.num_rows
    places = np.arange(rows, dtype=np.float64)
    moved = chooser.random(rows) < DISORDER
    places[moved] += chooser.integers(1, FARTHEST + 1, int(moved.sum())) + 0.5
    return table.take(pa.array(np.argsort(places, kind="stable")))


def stream(work: Workload, table: pa.Table, sigma: Any) -> Callable[[], tuple[int, int, int]]:
    """Feeds the whole table; the changes, those that withdraw, and the net."""
    times = table.column("ts").to_numpy().astype("datetime64[us]").astype(np.int64)
    newest = np.maximum.accumulate(times)

    def run() -> tuple[int, int, int]:
        matcher = work.query.matcher(speculation=sigma)
        changes = withdrawn = 0
        for begin in range(0, table.num_rows, BATCH):
            found = [matcher.insert(table.slice(begin, BATCH))]
            last = begin + BATCH - BEHIND
            if last > 0:
                mark = np.datetime64(int(newest[min(last, len(newest) - 1)] - 1), "us")
                found.append(matcher.advance(pa.scalar(mark).as_py()))
            for table_of_changes in found:
                changes += table_of_changes.num_rows
                withdrawn += pc.sum(pc.equal(table_of_changes["op"], "-")).as_py() or 0
        changes += matcher.end().num_rows
        assert matcher.metrics.late == 0, matcher.metrics
        return changes, withdrawn, changes - 2 * withdrawn

    return run


def run_replay(settings: Settings) -> bool:
    """replay: W1 and W2 with 5 % of the events up to 1,000 late, against the same in order"""
    met = True
    for work in (w1(), w2()):
        rows = settings.rows or ROWS
        ordered = in_time(work.make(work.keys, rows).select(list(work.columns)))
        mixed = disordered(ordered)
        found = compare(
            {
                "in order, σ = ∞": (rows, stream(work, ordered, math.inf)),
                "5 % disorder, σ = ∞": (rows, stream(work, mixed, math.inf)),
                "in order, σ = 0": (rows, stream(work, ordered, 0)),
                "5 % disorder, σ = 0": (rows, stream(work, mixed, 0)),
            },
            repeat=settings.repeat,
            warm_up=1,
        )
        nets = {measurement.answer[2] for measurement in found}
        assert len(nets) == 1, f"the net must not depend on the order: {nets}"
        for measurement in found:
            changes, withdrawn, net = measurement.answer
            measurement.notes["changes"] = f"{changes:,}"
            measurement.notes["withdrawn"] = f"{withdrawn:,}"
            measurement.notes["net"] = f"{net:,}"
        ratio = found[1].cpu_median / found[0].cpu_median
        targets = [Target("CPU, disorder ÷ order at σ = ∞", ratio, 3.0)]
        title = f"{work.name}, {rows:,} events, {work.keys:,} keys, in process"
        met &= report(title, found, targets, f"replay_{work.name}")
    return met


COMMANDS = {"replay": run_replay}
