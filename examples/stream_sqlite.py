"""Matches before they are final, upserted into SQLite: `+` rows inserted, `-` rows deleted.

    python examples/stream_sqlite.py

A socket would do as well as files: `spark.readStream.format("socket")` gives lines of text.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import ensue
from ensue.demo import data
from ensue.spark.control import Control
from ensue.spark.session import local_session

FALL = (
    ensue.pattern("A B+ C")
    .define(B="price < LAST(price, 1)", C="price > LAST(price, 1)")
    .partition_by("symbol")
    .order_by("ts")
    .measures(at="FIRST(ts)", bottom="LAST(B.price)")
)


class Upsert:
    """A micro-batch in one transaction; the same one twice changes nothing."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, frame: Any, number: int) -> None:
        rows = frame.collect()
        with sqlite3.connect(self.path) as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS falls (match_id TEXT PRIMARY KEY, symbol, at, bottom)"
            )
            gone = [(row.match_id,) for row in rows if row.op == "-"]
            database.executemany("DELETE FROM falls WHERE match_id = ?", gone)
            new = [(r.match_id, r.symbol, str(r["at"]), r.bottom) for r in rows if r.op == "+"]
            database.executemany("INSERT OR REPLACE INTO falls VALUES (?, ?, ?, ?)", new)


def main() -> None:
    spark, _ = local_session()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ticks = data.ticks(symbols=20, rows=2_000).sort_by("ts")
        (folder / "ticks").mkdir()
        halves = (range(0, 2_000, 2), range(1, 2_000, 2))  # every other tick comes late
        for number, rows in enumerate(halves):
            pq.write_table(ticks.take(pa.array(rows)), folder / "ticks" / f"{number}.parquet")
        schema = spark.read.parquet(str(folder / "ticks")).schema
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        stream = source.parquet(str(folder / "ticks")).withWatermark("ts", "365 days")
        found = FALL.matches(stream, emit="changes", control=str(folder / "control"))
        writer = found.writeStream.foreachBatch(Upsert(str(folder / "falls.db")))
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        Control(folder / "control").finish(query)
        with sqlite3.connect(folder / "falls.db") as database:
            kept = database.execute("SELECT COUNT(*) FROM falls").fetchone()[0]
        print(f"{kept:,} falls in SQLite, {FALL.count(ticks):,} in a batch")
        assert kept == FALL.count(ticks)
    spark.stop()


if __name__ == "__main__":
    main()
