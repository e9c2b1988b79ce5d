"""Streams: W1 and W2 with `availableNow`, against what any stateful stream has to pay.

The floor is a stateless stream over the same files: shuffle by key, hand the rows to Python, do
nothing. The straightforward way is `transformWithStateInPandas` with one call per key. Both run in
the same process and in turn with Ensue; ratios are of rows per CPU second.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import flink, rows
from benchmarks.harness import Target, compare, report, say
from benchmarks.rows import MILLION, Settings, Workload

BATCHES = 5
EDITED = 10  # micro-batches of the stream whose pattern is edited
PER_KEY_ROWS = 30_000
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def source(
    settings: Settings, work: Workload, count: int, batches: int = BATCHES, at_once: bool = False
) -> Any:
    """A stream of files in the order of time: one a micro-batch, or all that there are."""
    folder = settings.folder / f"stream-{work.name}-{count}-{batches}"
    spark = settings.spark
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        table = work.make(work.keys, count).select(work.columns).sort_by("ts")
        size = -(-count // batches)
        for number in range(batches):
            path = folder / f"{number:04d}.parquet"
            pq.write_table(table.slice(number * size, size), path)
        (folder / "done").touch()
    schema = spark.read.parquet(str(folder / "0000.parquet")).schema
    reader = spark.readStream.schema(schema).option("pathGlobFilter", "*.parquet")
    if not at_once:
        reader = reader.option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def drain(settings: Settings, frame: Any, mode: str = "append") -> None:
    """Run the stream over all that is there, into nothing."""
    checkpoint = settings.folder / f"checkpoint-{uuid.uuid4().hex}"
    query = (
        frame.writeStream.format("noop")
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)


def stateless(frame: Any, work: Workload) -> Any:
    """Shuffle by key and hand the rows to Python, where nothing is done with them."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = sum(batch.num_rows for batch in batches)
        yield pa.record_batch({"n": pa.array([total], pa.int64())})

    return frame.select(*work.columns).repartition(work.key).mapInArrow(count, "n long")


def per_key(frame: Any, work: Workload) -> Any:
    """The pattern by hand, one call of `transformWithStateInPandas` per key (W2)."""
    from pyspark.sql.streaming import StatefulProcessor

    class Funnel(StatefulProcessor):
        """V C+ P within an hour, past the last row: what one writes in an afternoon."""

        def init(self, handle: Any) -> None:
            self._state = handle.getValueState("open", "began timestamp, carts int")

        def handleInputRows(self, key: Any, frames: Any, timers: Any) -> Any:  # noqa: N802
            known = self._state.get() if self._state.exists() else (None, 0)
            began, carts = known[0], known[1]
            found = []
            for part in frames:
                ordered = part.sort_values("ts")
                columns = (ordered["ts"], ordered["kind"], ordered["amount"])
                for moment, kind, amount in zip(*columns, strict=True):
                    hour = pd.Timedelta(hours=1)
                    if began is not None and moment - began > hour:
                        began, carts = None, 0
                    if kind == "view":
                        began, carts = moment, 0
                    elif kind == "cart" and began is not None:
                        carts += 1
                    elif kind == "pay" and began is not None and carts:
                        found.append((key[0], carts, amount))
                        began, carts = None, 0
                    else:
                        began, carts = None, 0
            self._state.update((began, carts))
            yield pd.DataFrame(found, columns=["user_id", "carts", "paid"])

        def close(self) -> None:
            return None

    grouped = frame.select(*work.columns).withWatermark("ts", "10 seconds").groupBy(work.key)
    return grouped.transformWithStateInPandas(
        Funnel(),
        outputStructType="user_id long, carts int, paid double",
        outputMode="append",
        timeMode="EventTime",
    )


def edited(settings: Settings, work: Workload, stream: Any, every_batch: bool) -> None:
    """W2 with patterns that may be edited; an edit in every micro-batch, or none."""
    from ensue.spark.control import Control

    folder = settings.folder / f"edits-{uuid.uuid4().hex}"
    control = Control(folder / "control")
    found = work.query.matches(stream, control=str(control.folder), edits=True, name="funnel")

    def sink(frame: Any, number: int) -> None:
        frame.write.format("noop").mode("overwrite").save()
        if every_batch and number < EDITED - 1:
            # Another meaning of C each time; the same columns.
            view, _, *rest = work.query._draft.define
            other = (view, ("C", f"kind = 'cart' AND amount > {number % 3}"), *rest)
            control.put("funnel", type(work.query)(replace(work.query._draft, define=other)))

    query = (
        found.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    shutil.rmtree(folder, ignore_errors=True)


def run_edits(settings: Settings) -> bool:
    """stream-edits: W2 on a stream whose pattern is edited in every micro-batch"""
    settings.spark.conf.set(PROVIDER, ROCKS)
    count = settings.rows or MILLION
    work = rows.w2()
    stream = source(settings, work, count, EDITED).withWatermark("ts", "10 seconds")
    found = compare(
        {
            "no edit": (count, lambda: edited(settings, work, stream, False)),
            "an edit in every micro-batch": (count, lambda: edited(settings, work, stream, True)),
        },
        repeat=settings.repeat,
        warm_up=1,
    )
    ratio = found[1].cpu_median / found[0].cpu_median
    limits = [Target("CPU, edits ÷ none", ratio, 1.1)]
    return report(f"edits, {count:,} rows in {EDITED} micro-batches", found, limits, "stream-edits")


def against_flink(settings: Settings, work: Workload, count: int) -> bool:
    """The same rows through Flink SQL in streaming mode, and the pattern that both can run."""
    table = work.make(work.keys, count).sort_by("ts")
    read, match = flink.run(work.name, table, settings.folder, settings.repeat, "streaming")
    stream = source(settings, work, count).withWatermark("ts", "10 seconds")
    ours = compare(
        {"Ensue": (count, lambda: drain(settings, work.peer_query.matches(stream)))},
        repeat=settings.repeat,
    )[0]
    limits = [Target("CPU, Flink ÷ Ensue", match.cpu_median / ours.cpu_median, 4, at_most=False)]
    title = f"{work.name} on a stream, {count:,} rows, Flink SQL in streaming mode"
    met = report(title, [ours, match, read], limits, f"stream-{work.name}-flink")
    # A stream's last rows are left open, so that the table's answer is the one to compare.
    whole = rows.answer_of(work, work.peer_query.matches(table))
    return rows.same("Flink and Ensue on the table", match.answer, whole) and met


def run_stream(settings: Settings) -> bool:
    """stream: W1 and W2 on a stream, against a stateless stream and one call per key"""
    settings.spark.conf.set(PROVIDER, ROCKS)
    count = settings.rows or MILLION
    met = True
    for work in (rows.w1(), rows.w2()):
        for at_once in (True, False):
            met &= _workload(settings, work, count, at_once)
        if settings.peer == "flink":
            met &= against_flink(settings, work, count)
    say("state store: RocksDB; sink: noop; watermark 10 seconds behind")
    return met


def _workload(settings: Settings, work: Workload, count: int, at_once: bool) -> bool:
    stream = source(settings, work, count, at_once=at_once)
    marked = stream.withWatermark("ts", "10 seconds")
    variants: dict[str, tuple[int, Callable[[], Any]]] = {
        "stateless": (count, lambda: drain(settings, stateless(stream, work))),
        "Ensue": (count, lambda: drain(settings, work.query.matches(marked))),
    }
    found = compare(variants, repeat=settings.repeat)
    ratio = found[1].rate / found[0].rate
    limits = [Target("rate, Ensue ÷ stateless", ratio, 0.6, at_most=False)]
    if work.name == "w2" and at_once:
        # Slow: fewer rows, in one micro-batch with all keys active, compared by rate.
        small = source(settings, work, PER_KEY_ROWS, 1, at_once=True)
        slow = {"one call per key": (PER_KEY_ROWS, lambda: drain(settings, per_key(small, work)))}
        found += compare(slow, repeat=1, warm_up=1)
        # By the clock on the wall: workers of that operator end with their CPU time uncounted.
        ours, theirs = count / found[1].wall_median, PER_KEY_ROWS / found[2].wall_median
        name = "rows per second of wall, Ensue ÷ one call per key"
        limits.append(Target(name, ours / theirs, 15, at_most=False))
    cut = "one micro-batch" if at_once else f"{BATCHES} micro-batches"
    title = f"{work.name} on a stream, {count:,} rows in {cut}"
    name = f"stream-{work.name}-{'one' if at_once else BATCHES}"
    return report(title, found, limits, name)


COMMANDS = {"stream": run_stream, "stream-edits": run_edits}
