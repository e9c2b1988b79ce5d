"""Trials on Spark: the answer of a batch and of a stream is that of the process, whatever happens.

One session serves all trials but those that kill a driver. What a machine does not let a trial do
(mount a small disk without being root) is left out by name.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import ensue
from benchmarks import crash, session
from tests.chaos.report import COUNTED
from tests.spark import batches

EVERY = 40  # trials in one process for each on Spark
SCHEMA = "key string, t timestamp, kind string, x bigint"
EPOCH = 1_700_000_000


class LeftOutError(Exception):
    """This machine cannot do that."""


@cache
def spark() -> Any:
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    return session.start("ensue chaos", {**session.STORE, **settings})[0]


def stop() -> None:
    """Ends the session and its JVM, whatever state they are in; the next trial begins another."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if spark.cache_info().currsize:
        with suppress(Exception):
            spark().stop()
        spark.cache_clear()
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        SparkSession._instantiatedSession = SparkContext._active_spark_context = None
        SparkContext._gateway = SparkContext._jvm = None
        with suppress(Exception):
            gateway.shutdown()
        gateway.proc.kill()
        gateway.proc.wait()


def rows(chooser: random.Random) -> pa.Table:
    count = chooser.randrange(5, 300)
    return pa.table(
        {
            "key": pa.array(chooser.choices("pqrs" + "p" * chooser.choice((0, 90)), k=count)),
            "t": pa.array(
                [(EPOCH + n) * 1_000_000 for n in range(count)], pa.timestamp("us", "UTC")
            ),
            "kind": chooser.choices("AABBBCX", k=count),
            "x": pa.array([chooser.randrange(5) for _ in range(count)], pa.int64()),
        }
    )


def pattern(chooser: random.Random) -> Any:
    text = chooser.choice(("A -> B", "A ->> B+ -> C", "A B+ C?", "A ->> C", "A -> !X -> B"))
    found = ensue.pattern(text, types="kind").partition_by("key").order_by("t").within("9 seconds")
    if "B" in text and chooser.random() < 0.5:
        found = found.define(B=chooser.choice(("x > 1", "x >= A.x", "x + A.x < 6")))
    return found.measures(n="COUNT(*)", first="FIRST(t)", last="LAST(t)")


def said(table: pa.Table) -> list[str]:
    names = ("key", "n", "first", "last")
    return sorted(str([getattr(v, "timestamp", lambda v=v: v)() for v in (row[n] for n in names)])
                  for row in table.to_pylist())  # fmt: skip


def cut(table: pa.Table, chooser: random.Random) -> list[pa.Table]:
    """In files, each row at most 5 s late."""
    order = sorted(range(table.num_rows), key=lambda n: n + chooser.uniform(0, 5))
    size = chooser.choice((7, 40, 200))
    return [table.take(order[at : at + size]) for at in range(0, len(order), size)]


def start(asked: Any, folder: Path, schema: str = SCHEMA, **options: Any) -> Any:
    source = spark().readStream.schema(schema).option("maxFilesPerTrigger", 2)
    frame = source.parquet(str(folder / "in")).withWatermark("t", "6 seconds")
    sink = asked.matches(frame, **options).writeStream.format("parquet")
    sink = sink.option("checkpointLocation", str(folder / "disk" / "checkpoint"))
    return sink.option("path", str(folder / "out")).trigger(availableNow=True).start()


def run(asked: Any, folder: Path, **options: Any) -> None:
    start(asked, folder, **options).awaitTermination()


def fails(asked: Any, folder: Path, **options: Any) -> str:
    """What the stream says; that it ends without a word is a finding."""
    try:
        run(asked, folder, **options)
    except Exception as problem:
        return str(problem)
    raise AssertionError("the stream ended as if nothing had happened")


@contextmanager
def folder_of(parts: list[pa.Table]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="trial-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        batches.write(folder / "in", parts)
        (folder / "disk").mkdir()
        try:
            yield folder
        finally:
            for running in spark().streams.active:  # the trial was cut
                running.stop()


def check(asked: Any, folder: Path, table: pa.Table) -> None:
    """Ends all partitions with a row far ahead of each key, and compares."""
    late = {name: table.column(name).slice(0, 1).to_pylist() * 2 for name in table.column_names}
    late["key"] = ["far"] * 2
    late["t"] = [(EPOCH + 10_000 * n) * 1_000_000 for n in (1, 2)]
    late["kind"] = ["X"] * 2
    beyond = pa.table(late, schema=table.schema)
    batches.write(folder / "in", [beyond.slice(0, 1), beyond.slice(1)], 5_000)
    run(asked, folder)
    run(asked, folder)
    found = spark().read.parquet(str(folder / "out")).toArrow()
    assert said(found) == said(asked.matches(table))


# -- trials ---------------------------------------------------------------------------------------


def batch(chooser: random.Random) -> None:
    asked, table = pattern(chooser), rows(chooser)
    shuffled = table.take(chooser.sample(range(table.num_rows), table.num_rows))
    frame = spark().createDataFrame(shuffled)
    assert said(asked.matches(frame).toArrow()) == said(asked.matches(table))


def stream(chooser: random.Random) -> None:
    """Two starts: the second goes on where the first stopped, with other settings of Spark."""
    asked, table = pattern(chooser), rows(chooser)
    parts = cut(table, chooser)
    half = chooser.randrange(len(parts) + 1)
    with folder_of(parts[:half]) as folder:
        if half:
            run(asked, folder)
        spark().conf.set(
            "spark.sql.execution.arrow.maxRecordsPerBatch", chooser.choice((3, 10_000))
        )
        batches.write(folder / "in", parts[half:], half)
        check(asked, folder, table)


def other_pattern(chooser: random.Random) -> None:
    """A checkpoint of another question is refused, and the right one goes on."""
    asked, table = pattern(chooser), rows(chooser)
    first, *others = cut(table, chooser)
    with folder_of([first]) as folder:
        run(asked, folder)
        batches.write(folder / "in", others or [table.slice(0, 0)], 1)
        assert fails(asked.within("8 seconds"), folder)
        check(asked, folder, table)


def other_schema(chooser: random.Random) -> None:
    """A column that changes its type between two starts: an error, never another answer."""
    asked, table = pattern(chooser), rows(chooser)
    with folder_of(cut(table, chooser)) as folder:
        run(asked, folder)
        batches.write(folder / "in", [table.slice(0, 1)], 4_000)
        other = SCHEMA.replace("x bigint", "x string").replace("kind string", "kind bigint")
        with suppress(ensue.EnsueError):
            fails_to = start(asked, folder, other)
            with suppress(Exception):
                fails_to.awaitTermination()
            assert fails_to.exception() is not None


def vanished_file(chooser: random.Random) -> None:
    """A file that is gone before it is read fails the stream; it is back, and all is well."""
    asked, table = pattern(chooser), rows(chooser)
    with folder_of(cut(table, chooser)) as folder:
        files = sorted((folder / "in").iterdir())
        kept, written = files[0].read_bytes(), files[0].stat().st_mtime

        def put(content: bytes) -> None:
            """A file that looks newer than the others would make them too old to be read."""
            files[0].write_bytes(content)
            os.utime(files[0], (written, written))

        put(kept[: len(kept) // 2])
        assert fails(asked, folder)
        put(kept)
        check(asked, folder, table)


def unwritable(chooser: random.Random) -> None:
    """A checkpoint that is a file: refused; a folder in its place, and all is well."""
    asked, table = pattern(chooser), rows(chooser)
    with folder_of(cut(table, chooser)) as folder:
        blocked = folder / "disk" / "checkpoint"
        blocked.write_text("in the way")
        assert fails(asked, folder)
        blocked.unlink()
        check(asked, folder, table)


def full_disk(chooser: random.Random) -> None:
    """The disk of the checkpoint fills up; with room again the stream goes on and loses nothing."""
    if os.geteuid() != 0:
        raise LeftOutError("only root mounts a small disk")
    asked, table = pattern(chooser), rows(chooser)
    with folder_of(cut(table, chooser)) as folder:
        disk = folder / "disk"
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            raise LeftOutError("this machine mounts no tmpfs")
        try:
            (disk / "ballast").write_bytes(bytes(chooser.choice((40_000, 60_000))))
            assert fails(asked, folder)
            (disk / "ballast").unlink()
            grow = ["mount", "-o", "remount,size=256m", str(disk)]
            subprocess.run(grow, capture_output=True, check=True)
            check(asked, folder, table)
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=False)


def killed(chooser: random.Random) -> None:
    """Drivers, or Python workers, are killed while a stream runs into two sinks."""
    seed, kills = chooser.randrange(10**6), chooser.choice((1, 2))
    with tempfile.TemporaryDirectory(prefix="trial-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        table = crash.prepare(folder, 4_000, seed, 6)
        try:
            if chooser.random() < 0.5:
                COUNTED["drivers killed"] += crash.survive(folder, kills, seed, 6)
            else:
                COUNTED["workers killed"] += crash.kill_workers(folder, kills, seed)
        except SystemExit as problem:
            raise AssertionError(str(problem)) from None
        found = crash.answers(folder, table)
        wanted = found.pop("batch")
        for sink, told in found.items():
            assert told == wanted, sink


TRIALS = {
    "spark-batch": batch,
    "spark-stream": stream,
    "other-pattern": other_pattern,
    "other-schema": other_schema,
    "vanished-file": vanished_file,
    "unwritable-checkpoint": unwritable,
    "full-disk": full_disk,
    "killed": killed,
}
