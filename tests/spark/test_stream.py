"""Streams on Spark, end to end: sources, sinks, modes, edits, restarts and what is refused."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.spark.control import Control
from ensue.spark.listener import Metrics, counts_of, progress_line
from tests.lanes import streams
from tests.spark import batches

SCHEMA = "user string, ts timestamp, kind string, x bigint"
PATTERN = (
    ensue.pattern("A B+ C", types="kind")
    .partition_by("user")
    .order_by("ts")
    .measures(at="FIRST(ts)", bs="COUNT(B.*)", last="LAST(C.x)")
)


def events(count: int = 240, seed: int = 3) -> pa.Table:
    chance = np.random.default_rng(seed)
    times = streams.EPOCH + np.arange(count) * streams.SECOND
    return pa.table(
        {
            "user": [f"u{i}" for i in chance.integers(0, 5, count)],
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "kind": [str(k) for k in chance.choice(list("ABBC"), count)],
            "x": pa.array(chance.integers(0, 99, count)),
        }
    )


def files(table: pa.Table, folder: Path, seed: int = 1, most: int = 120) -> None:
    """The rows as files, each a micro-batch, out of order by up to 20 seconds."""
    times = table["ts"].cast(pa.int64()).to_numpy()
    cut = streams.cut(times, seed, most, 20 * streams.SECOND)
    batches.write(folder, (table.take(pa.array(part)) for part in cut.rows if part))


def stream_of(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).withWatermark("ts", "20 seconds")


def writer(found: Any, tmp_path: Path, sink: Any, name: str = "checkpoint") -> Any:
    return found.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / name))


def collect(into: list[Any]) -> Any:
    return lambda frame, number: into.extend(row.asDict(recursive=True) for row in frame.collect())


def plain(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[Any]:
    def naive(value: Any) -> Any:
        return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value

    return sorted(tuple(naive(row[name]) for name in names) for row in rows)


COLUMNS = ("user", "at", "bs", "last")


def test_edits_a_restart_and_parquet(spark: Any, tmp_path: Path) -> None:
    """An edit reaches all lanes at once; a second start goes on where the first stopped."""
    table = events()
    source, control = tmp_path / "in", Control(tmp_path / "control")
    files(table.slice(0, 120), source)
    found = PATTERN.matches(
        stream_of(spark, source), control=str(control.folder), edits=True, lanes=4, late=True
    )
    sink = found.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).queryName("edited")
    metrics = Metrics()
    spark.streams.addListener(metrics)
    try:
        sink.trigger(availableNow=True).start().awaitTermination()
        control.put("pattern", PATTERN)  # the same again: partial matches go on
        control.put("pattern", "SELECT broken")
        for name in ("00000003-pattern.sql", "00000004-pattern.sql.gz"):
            (control.folder / name).write_bytes(b"\xff\xfe[\x80")  # no text, and no archive
        files(table.slice(120), tmp_path / "more")
        for path in sorted((tmp_path / "more").iterdir()):
            path.rename(source / f"9{path.name}")
        query = sink.trigger(processingTime="0 seconds").start()
        query.processAllAvailable()
        line = progress_line(query)
        control.end()
        query.processAllAvailable()
        counted = [c for c in map(counts_of, query.recentProgress) if c][-1]
        query.stop()
        rows = [r.asDict() for r in spark.read.parquet(str(tmp_path / "out")).collect()]
        told = [row for row in rows if row["status"] == "matched"]
        _await_listener(metrics, len(told))
    finally:
        spark.streams.removeListener(metrics)
    assert plain(told, COLUMNS) == plain(PATTERN.matches(table).to_pylist(), COLUMNS)
    assert {row["version"] for row in told} == {0, 1} and {row["pattern"] for row in told} == {
        "pattern"
    }
    refused = [json.loads(row["event"]) for row in rows if row["status"] == "refused edit"]
    assert sorted(row["order"] for row in refused) == [
        *("00000002-pattern.sql", "00000003-pattern.sql", "00000004-pattern.sql.gz"),
    ]
    assert "rows/s" in line and "keys" in line
    assert counted["keys"] == 0
    _check_metrics(metrics, Counter(row["version"] for row in told))


def _await_listener(metrics: Metrics, matches: int) -> None:
    """Spark tells its listeners what happened some time after it did."""
    patience = time.monotonic() + 60
    while time.monotonic() < patience:
        totals = metrics.totals().get("edited", {})
        if totals.get("rows") == 240 and totals.get("matches") == matches:
            return
        time.sleep(0.1)


def _check_metrics(metrics: Metrics, by_version: Counter[int]) -> None:
    matches = by_version.total()
    totals = metrics.totals()["edited"]
    assert (totals["rows"], totals["matches"], totals["bad_edits"]) == (240, matches, 3)
    assert totals["recall"] == 1
    server = metrics.serve()
    try:
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        text = urllib.request.urlopen(url).read().decode()
    finally:
        server.shutdown()
    assert f'ensue_matches_total{{query="edited"}} {matches}' in text
    versions = metrics.patterns()["edited"]
    assert set(versions) == {("pattern", 0), ("pattern", 1)}
    for (_, version), counts in versions.items():
        assert counts["matches"] == by_version[version]
        label = f'query="edited",pattern="pattern",version="{version}"'
        assert f"ensue_pattern_matches_total{{{label}}} {by_version[version]}" in text


def test_changes_upserted_into_a_database(spark: Any, tmp_path: Path) -> None:
    """`ensue.sql` on a stream is final; the same pattern with changes upserts to the same rows."""
    table = events()
    source = tmp_path / "in"
    files(table, source)
    stream = stream_of(spark, source)
    stream.createOrReplaceTempView("stream_events")
    text = PATTERN.sql().replace("FROM input", "FROM stream_events")
    by_sql = ensue.sql(text, spark=spark)
    assert by_sql.isStreaming
    control = Control(tmp_path / "control")
    found = PATTERN.matches(
        stream, emit="changes", speculation="30 seconds", control=str(control.folder)
    )
    path = str(tmp_path / "out.db")

    def upsert(frame: Any, number: int) -> None:
        with sqlite3.connect(path) as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS matches (match_id TEXT PRIMARY KEY, user, at, bs, last)"
            )
            rows = frame.collect()
            gone = [(row.match_id,) for row in rows if row.op == "-"]
            database.executemany("DELETE FROM matches WHERE match_id = ?", gone)
            for row in (row for row in rows if row.op == "+"):
                database.execute(
                    "INSERT OR REPLACE INTO matches VALUES (?, ?, ?, ?, ?)",
                    (row.match_id, row.user, row["at"].isoformat(), row.bs, row["last"]),
                )

    final: list[Any] = []
    first = writer(by_sql, tmp_path, collect(final), "sql").start()
    second = writer(found, tmp_path, upsert).start()
    first.processAllAvailable()
    first.stop()
    control.finish(second)
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT user, at, bs, last FROM matches").fetchall()
    whole = plain(PATTERN.matches(table).to_pylist(), COLUMNS)
    assert sorted(rows) == [(u, at.isoformat(), bs, last) for u, at, bs, last in whole]
    told = plain(final, COLUMNS)
    assert len(told) > 10 and set(told) <= set(whole)  # all but those the end would settle


def test_aggregates_ended_by_a_stream_of_orders(spark: Any, tmp_path: Path) -> None:
    pattern = ensue.pattern("A ->> B ->> C", types="kind").partition_by("user").order_by("ts")
    pattern = pattern.within("15 seconds")
    table = events()
    files(table, tmp_path / "in")
    stream = stream_of(spark, tmp_path / "in")
    (tmp_path / "orders").mkdir()
    orders = spark.readStream.schema("name string, text string").json(str(tmp_path / "orders"))
    asked = {"by": "user", "n": "count(*)", "s": "sum(B.x)"}
    found = pattern.aggregate(stream, **asked, every="60 seconds", control=orders)
    got: list[Any] = []
    query = writer(found, tmp_path, collect(got)).start()
    query.processAllAvailable()
    (tmp_path / "orders" / "1.json").write_text('{"name": "00000001-stream.end"}\n{"text": "?"}\n')
    query.processAllAvailable()
    query.stop()
    names = ("user", "window_start", "window_end", "n", "s")
    wanted = pattern.aggregate(table, **asked, every="60 seconds").to_pylist()
    assert plain(got, names) == plain(wanted, names)


def test_rate_and_a_python_source(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"at": 0}

        def read(self, start: dict[str, int]) -> Any:
            first = start["at"]
            last = min(first + 30, 90)
            return iter([(i % 3, i, "AB"[i // 3 % 2]) for i in range(first, last)]), {"at": last}

        def readBetweenOffsets(self, start: Any, end: Any) -> Any:
            return iter([(i % 3, i, "AB"[i // 3 % 2]) for i in range(start["at"], end["at"])])

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ensue_test"

        def schema(self) -> str:
            return "k int, second int, kind string"

        def simpleStreamReader(self, schema: Any) -> Any:
            return Reader()

    spark.dataSource.register(Source)
    own = spark.readStream.format("ensue_test").load()
    timed = own.withColumn("ts", F.timestamp_seconds("second")).withWatermark("ts", "0 seconds")
    pair = ensue.pattern("A B", types="kind").partition_by("k").order_by("ts")
    got: list[Any] = []
    own_query = writer(pair.matches(timed, lanes=2), tmp_path, collect(got), "python").start()
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    rate = rate.withWatermark("timestamp", "0 seconds").withColumn("k", F.col("value") % 4)
    three = ensue.pattern("A B C").partition_by("k").order_by("timestamp", "value")
    found: list[Any] = []
    query = writer(three.matches(rate, lanes=2), tmp_path, collect(found), "rate").start()
    assert len(_from_socket(spark, tmp_path)) == 2  # while the others run
    while len(found) < 8 and query.exception() is None:
        query.awaitTermination(1)
    query.stop()
    assert len(found) >= 8 and all(len(row["events"]) == 3 for row in found)
    own_query.processAllAvailable()
    own_query.stop()
    assert len(got) >= 3 * 14


def _from_socket(spark: Any, tmp_path: Path) -> list[Any]:
    """Lines of a socket: `A B A B X`, one a second, from a thread that keeps the line open."""
    from pyspark.sql import functions as F  # noqa: N812

    lines = "".join(f"{second} {kind}\n" for second, kind in enumerate("ABABX"))
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            caller, _ = server.accept()
            with caller:
                caller.sendall(lines.encode())
                done.wait(120)

        threading.Thread(target=serve, daemon=True).start()
        reader = spark.readStream.format("socket").option("host", "127.0.0.1")
        text = reader.option("port", server.getsockname()[1]).load()
        words = F.split("value", " ")
        read = text.select(
            F.timestamp_seconds(words[0].cast("int")).alias("ts"), words[1].alias("kind")
        )
        found: list[Any] = []
        pair = ensue.pattern("A B", types="kind").order_by("ts")
        told = pair.matches(read.withWatermark("ts", "0 seconds"), lanes=1)
        query = writer(told, tmp_path, collect(found), "socket").start()
        for _ in range(60):
            query.processAllAvailable()
            if len(found) == 2:
                break
            query.awaitTermination(0.5)
        query.stop()
        done.set()
    return found


# -- refused before anything runs -----------------------------------------------------------------


def test_what_a_stream_refuses(spark: Any, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    plain_stream = spark.readStream.schema(SCHEMA).parquet(str(source))
    stream = plain_stream.withWatermark("ts", "20 seconds")
    refusals: list[tuple[type[Exception], str, Any]] = [
        (errors.WatermarkError, "no watermark on ts", lambda: PATTERN.matches(plain_stream)),
        (
            errors.WatermarkError,
            "the watermark is on other",
            lambda: PATTERN.matches(
                plain_stream.selectExpr("*", "ts AS other").withWatermark("other", "1 second")
            ),
        ),
        (errors.WatermarkError, "no order of its own", lambda: PATTERN.order_by().matches(stream)),
        (
            errors.WatermarkError,
            "descending",
            lambda: PATTERN.order_by("ts DESC").matches(stream),
        ),
        (
            errors.ColumnTypeError,
            "is of type bigint",
            lambda: PATTERN.order_by("x").matches(stream),
        ),
        (
            errors.QueryError,
            "emit='often' is not known",
            lambda: PATTERN.matches(stream, emit="often"),
        ),
        (errors.QueryError, "lanes=0", lambda: PATTERN.matches(stream, lanes=0)),
        (errors.QueryError, "key_limit=0", lambda: PATTERN.matches(stream, key_limit=0)),
        (errors.QueryError, "lain= is not known", lambda: PATTERN.matches(stream, lain=3)),
        (
            errors.QueryError,
            "withdraws none",
            lambda: PATTERN.matches(stream, speculation="1 second"),
        ),
        (
            errors.QueryError,
            "go together",
            lambda: PATTERN.matches(stream, changes="kind", identity="x"),
        ),
        (
            errors.UnknownColumnError,
            "no column 'op'",
            lambda: PATTERN.matches(stream, changes="op"),
        ),
        (errors.QueryError, "no control=", lambda: PATTERN.matches(stream, edits=True)),
        (
            errors.ReservedNameError,
            "'status'",
            lambda: PATTERN.matches(stream.withColumnRenamed("x", "status"), late=True),
        ),
        (
            errors.QueryError,
            "option of streams",
            lambda: PATTERN.matches(events(), emit="changes"),
        ),
        (
            errors.UnsupportedError,
            "never has them all",
            lambda: ensue.pattern("A -> B").order_by("ts").matches(stream, limit=3),
        ),
    ]
    for kind, text, call in refusals:
        with pytest.raises(kind, match=text):
            call()
    assert PATTERN.matches(plain_stream, emit="changes").isStreaming


# -- a process of its own -------------------------------------------------------------------------


def test_a_killed_driver(tmp_path: Path) -> None:
    """The small form of benchmarks/crash.py: two kills, then the batch answer in both sinks."""
    from benchmarks import crash

    table = crash.prepare(tmp_path, 20_000, seed=1, files=4)
    hit = crash.survive(tmp_path, kills=2, seed=1, files=4)
    found = crash.answers(tmp_path, table)
    assert hit == 2
    assert found["batch"] == found["files"] == found["database"] != []
