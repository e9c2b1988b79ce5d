"""A long stream over a sliding window: memory and batch time must stay flat.

    python -m benchmarks.soak --rows 20000000 --keys 100000
    python -m benchmarks.soak --minutes 60

Rows are made by Spark itself (`rate-micro-batch`, one micro-batch a step of event time); a pattern
within a window runs over them with state in RocksDB. Reported are the time of a micro-batch and the
memory of all processes in each tenth of the run; the last tenth is compared with the second, the
first one that has full windows. A line a minute says how far it is; a run that is interrupted or
told to end (SIGTERM) reports what it has seen.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import ensue
from benchmarks import session
from benchmarks.harness import Target, say
from benchmarks.processes import tree


def pattern() -> Any:
    return (
        ensue.pattern("A B+ C")
        .define(A="x < 30", B="x BETWEEN 30 AND 80", C="x > 80")
        .partition_by("key")
        .order_by("timestamp", "value")
        .within("30 seconds")
        .measures(n="COUNT(*)")
    )


def _end(number: int, _: Any) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def run(rows: int, minutes: float, keys: int, per_batch: int, folder: Path) -> bool:
    """Until so many rows have been read, or the time is over."""
    from pyspark.sql import functions as F  # noqa: N812

    progress = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
    settings = {"spark.driver.memory": "4g", **session.STORE, **progress}
    spark, _ = session.start("ensue soak", settings)
    source = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", per_batch)
        .option("numPartitions", 2)
        .option("advanceMillisPerBatch", 5_000)
        .option("startTimestamp", 1_700_000_000_000)
        .load()
    )
    made = source.select(
        "value",
        "timestamp",
        (F.xxhash64("value") % keys).alias("key"),
        F.pmod(F.xxhash64("value", F.lit(1)), F.lit(100)).alias("x"),
    )
    found = pattern().matches(made.withWatermark("timestamp", "5 seconds"), lanes=16)
    query = (
        found.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    seen: dict[int, tuple[float, float, float]] = {}
    begun = told = time.monotonic()
    read, problem, why = 0, None, "ended"
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        while read < rows and time.monotonic() - begun < 60 * minutes and problem is None:
            time.sleep(0.2)
            problem = query.exception()
            memory = sum(process.resident for process in tree())
            for progress in query.recentProgress:
                number = progress["batchId"]
                if number not in seen:
                    duration = progress["durationMs"].get("triggerExecution", 0) / 1000
                    kept = sum(s["memoryUsedBytes"] for s in progress["stateOperators"])
                    seen[number] = (duration, memory / 1e6, kept / 1e6)
                    read += progress["numInputRows"]
            if time.monotonic() - told >= 60:
                told = time.monotonic()
                say(f"{(told - begun) / 60:.0f} min: {read:,} rows, {memory / 1e6:,.0f} MB")
    except KeyboardInterrupt as stop:
        why = f"stopped by {stop}"
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    say(f"{why} after {(time.monotonic() - begun) / 60:.1f} minutes")
    flat = report(list(seen.values()), read, keys)
    if problem is not None:
        say(f"the stream failed: {problem}")
    with suppress(Exception):  # where the session is what failed
        query.stop()
        spark.stop()
    return flat and problem is None


def report(seen: list[tuple[float, float, float]], rows: int, keys: int) -> bool:
    size = max(1, len(seen) // 10)
    tenths = [seen[i * size : (i + 1) * size] for i in range(10)]
    say(f"{rows:,} rows, {keys:,} keys, {len(seen)} micro-batches, in tenths of the run")
    for number, part in enumerate((part for part in tenths if part), 1):
        figures = [median(column) for column in zip(*part, strict=True)]
        say(
            f"  {number:2}: {figures[0]:.2f} s a batch, {figures[1]:,.0f} MB in all processes, "
            f"{figures[2]:,.1f} MB in the state store"
        )
    targets = []
    if len(seen) < 20:
        say("  too few micro-batches to compare")
        return False
    for index, name in enumerate(("batch time", "memory", "state store")):
        early = median(row[index] for row in tenths[1])
        late = median(row[index] for row in tenths[-1])
        targets.append(Target(f"{name}, last tenth ÷ second", late / max(early, 1e-9), 1.2))
    for target in targets:
        say(f"  {target}")
    return all(target.met for target in targets)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, help="until so many are read; 20,000,000")
    parser.add_argument("--minutes", type=float, help="or until so many have passed")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=100_000, help="rows of a micro-batch")
    parser.add_argument("--data", type=Path, help="keep the checkpoint here")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ensue-soak-") as temporary:
        folder = given.data or Path(temporary)
        rows = given.rows or (sys.maxsize if given.minutes else 20_000_000)
        flat = run(rows, given.minutes or math.inf, given.keys, given.batch, folder)
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
