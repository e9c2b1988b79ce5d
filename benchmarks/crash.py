"""A stream whose driver is killed (SIGKILL) again and again must end with the batch answer.

    python -m benchmarks.crash --rows 2000000 --kills 10
    python -m benchmarks.crash --rows 200000 --workers 5       # Python workers killed instead

The parent writes the rows as files, out of order within the watermark, and starts a driver that
matches them into a file sink (parquet) and a database sink (SQLite, each micro-batch in one
transaction with its number). It kills the driver's whole process group at random moments
of its micro-batches and starts it again on the same checkpoints until it ends by itself; then both
sinks are compared with the matches of all rows at once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import session
from ensue.demo import data
from examples.stream_files import FUNNEL

HERE = Path(__file__).parent.parent
MEASURES = ("user_id", "at", "carts", "paid")
FILES = 40
DELAY = 3_600_000_000  # microseconds that a row may be late


def prepare(folder: Path, rows: int, seed: int, files: int = FILES) -> pa.Table:
    """The rows as files in the order of arrival."""
    table = data.funnel(max(10, rows // 100), rows, seed).select(
        ["user_id", "ts", "kind", "amount"]
    )
    chance = np.random.default_rng(seed)
    times = table["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    arrival = np.argsort(times + chance.integers(0, DELAY, len(times)))
    source = folder / "in"
    source.mkdir(parents=True)
    size = -(-rows // files)
    for number in range(files):
        part = table.take(pa.array(arrival[number * size : (number + 1) * size]))
        path = source / f"{number:04d}.parquet"
        pq.write_table(part, path)
        os.utime(path, (number, number))  # Spark reads files by the time of their last change
    return table


def drive(folder: Path) -> None:
    """The driver: both sinks, to the end of the stream."""
    from ensue.spark.control import Control

    spark, _ = session.start("ensue crash test", session.STORE, "local[2,4]")
    schema = spark.read.parquet(str(folder / "in")).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    stream = source.parquet(str(folder / "in")).withWatermark("ts", "1 hour")
    control = folder / "control"
    found = FUNNEL.matches(stream, control=str(control), lanes=8)
    to_files = found.writeStream.format("parquet").option("path", str(folder / "out"))
    to_table = found.writeStream.foreachBatch(Database(folder / "out.db"))
    running = [
        writer.option("checkpointLocation", str(folder / f"checkpoint-{number}")).start()
        for number, writer in enumerate((to_files, to_table))
    ]
    for one in running:
        one.processAllAvailable()
    if not any(name.endswith(".end") for name in Control(control).versions()):
        Control(control).end()
    for one in running:
        one.processAllAvailable()
        one.stop()
    spark.stop()


class Database:
    """Rows of a micro-batch and its number in one transaction: a batch that comes twice is one."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __call__(self, frame: Any, number: int) -> None:
        rows = [tuple(row) for row in frame.selectExpr(*self._columns()).collect()]
        with sqlite3.connect(self.path, timeout=60) as database:
            database.execute("CREATE TABLE IF NOT EXISTS matches (user_id, at, carts, paid)")
            database.execute("CREATE TABLE IF NOT EXISTS batches (number PRIMARY KEY)")
            done = database.execute("SELECT 1 FROM batches WHERE number = ?", (number,)).fetchone()
            if done is None:
                database.executemany("INSERT INTO matches VALUES (?, ?, ?, ?)", rows)
                database.execute("INSERT INTO batches VALUES (?)", (number,))

    @staticmethod
    def _columns() -> list[str]:
        return ["user_id", "unix_micros(at)", "carts", "paid"]


def answers(folder: Path, table: pa.Table) -> dict[str, list[tuple[Any, ...]]]:
    """What the sinks hold, and what they should."""
    import pyarrow.dataset as ds

    def plain(found: pa.Table) -> list[tuple[Any, ...]]:
        moments = found["at"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        rest = [found[name].to_pylist() for name in ("user_id", "carts", "paid")]
        return sorted(zip(rest[0], moments, *rest[1:], strict=True))

    # Spark's file sink says in its log which files count; a killed task leaves others behind.
    names: list[str] = []
    log = folder / "out" / "_spark_metadata"
    import json

    entries = sorted(
        (p for p in log.iterdir() if not p.name.startswith(".")),
        key=lambda p: (int(p.name.split(".")[0]), "." not in p.name),
    )
    compacted = [p for p in entries if p.name.endswith(".compact")]
    first = int(compacted[-1].name.split(".")[0]) if compacted else -1
    wanted = [*compacted[-1:], *(p for p in entries if p.name.isdigit() and int(p.name) > first)]
    for entry in wanted:
        for line in entry.read_text().splitlines()[1:]:
            names.append(json.loads(line)["path"].removeprefix("file://"))
    files = ds.dataset(names, format="parquet").to_table() if names else None
    with sqlite3.connect(folder / "out.db") as database:
        rows = database.execute("SELECT user_id, at, carts, paid FROM matches").fetchall()
    return {
        "batch": plain(FUNNEL.matches(table)),
        "files": plain(files) if files is not None else [],
        "database": sorted(rows),
    }


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver, whose files go with the folder; it does not outlive the block."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    with (folder / "driver.log").open("ab") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.crash", "--drive", str(folder)],
            cwd=HERE,
            env={**os.environ, "PYTHONPATH": str(HERE), "TMPDIR": str(temporary)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield driver
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


def _failure(folder: Path) -> str:
    """What the driver said last: its log may be gone with the folder."""
    said = (folder / "driver.log").read_text(errors="replace").splitlines()
    return "the driver failed:\n" + "\n".join(said[-40:])


def survive(folder: Path, kills: int, seed: int, files: int) -> int:
    """Start, kill and start again; how many kills hit a driver that was still at work.

    A kill waits for the progress of one of the queries, not for a clock, so that it hits on any
    machine: the checkpoint says which micro-batch has begun, and a random part of one follows.
    """
    chance = random.Random(seed)
    hit = 0
    while True:
        with started(folder) as driver:
            if hit < kills and _reached(folder, driver, kills - hit, files, chance):
                hit += 1
                continue
            if driver.wait() != 0:
                raise SystemExit(_failure(folder))
            return hit


def _reached(
    folder: Path, driver: subprocess.Popen[bytes], kills: int, files: int, chance: random.Random
) -> bool:
    """Wait for a random moment of a micro-batch that has not begun; False: the driver ended.

    Each file is a micro-batch of each query, so there are `files` of them whatever the speed.
    """
    begun = [max(_numbers(folder, query, "offsets"), default=-1) for query in (0, 1)]
    fresh = [query for query in (0, 1) if begun[query] < files - 1]
    if not fresh:
        return False
    query = chance.choice(fresh)
    share = max(1, (files - 1 - begun[query]) // (2 * kills))
    batch = begun[query] + chance.randint(1, share)
    part = chance.random() * _usual(folder, query)
    since = None
    while driver.poll() is None:
        if since is None and batch in _numbers(folder, query, "offsets"):
            since = time.monotonic()
        if since is not None:
            done = batch in _numbers(folder, query, "commits")
            if done or time.monotonic() - since >= part:
                return True
        time.sleep(0.01)
    return False


def _numbers(folder: Path, query: int, kind: str) -> set[int]:
    place = folder / f"checkpoint-{query}" / kind
    return {int(p.name) for p in place.iterdir() if p.name.isdigit()} if place.is_dir() else set()


def _usual(folder: Path, query: int) -> float:
    """Seconds that the last micro-batch took, by the times of its two files."""
    done = _numbers(folder, query, "commits")
    if not done:
        return 1.0
    place = folder / f"checkpoint-{query}"
    ended, began = (place / kind / str(max(done)) for kind in ("commits", "offsets"))
    return max(0.0, ended.stat().st_mtime - began.stat().st_mtime)


def kill_workers(folder: Path, kills: int, seed: int) -> int:
    """One driver; Python workers below it are killed while it runs."""
    from benchmarks.processes import tree

    chance = random.Random(seed)
    hit = 0
    with started(folder) as driver:
        while driver.poll() is None and hit < kills:
            time.sleep(chance.uniform(1.5, 4.0))
            below = tree(driver.pid)
            daemons = {p.pid for p in below if p.name.startswith("python") and p.pid != driver.pid}
            workers = [p for p in below if p.parent in daemons]
            if workers and driver.poll() is None:
                os.kill(chance.choice(workers).pid, signal.SIGKILL)
                hit += 1
        if driver.wait() != 0:
            raise SystemExit(_failure(folder))
    return hit


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--workers", type=int, default=0, help="kill Python workers instead")
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="work here, and leave everything behind")
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.drive is not None:
        drive(given.drive)
        return 0
    with tempfile.TemporaryDirectory(prefix="ensue-crash-") as temporary:
        folder = given.data or Path(temporary)
        table = prepare(folder, given.rows, given.seed, given.files)
        began = time.time()
        if given.workers:
            hit = kill_workers(folder, given.workers, given.seed)
        else:
            hit = survive(folder, given.kills, given.seed, given.files)
        found = answers(folder, table)
        right = found["batch"] == found["files"] == found["database"]
        told = ", ".join(f"{len(rows):,} in {name}" for name, rows in found.items())
        print(
            f"{given.rows:,} rows, {hit} kills, {time.time() - began:.0f} s: {told}: "
            f"{'the same' if right else 'DIFFERENT'}"
        )
        return 0 if right and found["batch"] else 1


if __name__ == "__main__":
    sys.exit(main())
