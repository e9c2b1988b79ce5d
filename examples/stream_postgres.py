"""Matches before they are final, upserted into PostgreSQL: one transaction for each micro-batch.

    python examples/stream_postgres.py "host=localhost dbname=test"      # needs psycopg

A micro-batch is copied into a table of its own; then rows that were taken back are deleted and
others inserted by `match_id`. Spark may call a sink twice with one micro-batch: the second time
changes nothing.
"""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

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
COLUMNS = "match_id, symbol, at, bottom"
TABLE = (
    "CREATE TABLE IF NOT EXISTS falls (match_id text PRIMARY KEY, symbol text, at timestamptz, "
    "bottom double precision)"
)
STAGE = "CREATE TEMP TABLE changes (op text, LIKE falls) ON COMMIT DROP"
COPY = f"COPY changes (op, {COLUMNS}) FROM STDIN"
DELETE = "DELETE FROM falls USING changes WHERE op = '-' AND falls.match_id = changes.match_id"
UPSERT = (
    f"INSERT INTO falls ({COLUMNS}) SELECT {COLUMNS} FROM changes WHERE op = '+' "
    "ON CONFLICT (match_id) DO UPDATE SET symbol = EXCLUDED.symbol, at = EXCLUDED.at, "
    "bottom = EXCLUDED.bottom"
)


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """What COPY gets; a match that is taken back and said again in one batch is both."""
    return [
        (r.op, r.match_id, r.symbol, r["at"].astimezone(dt.UTC).isoformat(), r.bottom)
        for r in frame.collect()
    ]


class Upsert:
    """A micro-batch in one transaction."""

    def __init__(self, connection: str) -> None:
        self.connection = connection

    def __call__(self, frame: Any, number: int) -> None:
        with import_module("psycopg").connect(self.connection) as database:
            cursor = database.cursor()
            cursor.execute(TABLE)
            cursor.execute(STAGE)
            with cursor.copy(COPY) as copy:
                for row in rows_of(frame):
                    copy.write_row(row)
            cursor.execute(DELETE)
            cursor.execute(UPSERT)


def stream(spark: Any, folder: Path, sink: Any) -> int:
    """Two files of ticks through a sink to the end; how many falls are in them."""
    ticks = data.ticks(symbols=20, rows=2_000).sort_by("ts")
    (folder / "ticks").mkdir()
    for number in range(2):
        path = folder / "ticks" / f"{number}.parquet"
        pq.write_table(ticks.slice(number * 1_000, 1_000), path)
    schema = spark.read.parquet(str(folder / "ticks")).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    arriving = source.parquet(str(folder / "ticks")).withWatermark("ts", "365 days")
    found = arriving.transform(FALL.matches, emit="changes", control=str(folder / "control"))
    writer = found.writeStream.foreachBatch(sink)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    Control(folder / "control").finish(query)
    return FALL.count(ticks)


def main(connection: str) -> None:
    spark, _ = local_session()
    with tempfile.TemporaryDirectory() as temporary:
        count = stream(spark, Path(temporary), Upsert(connection))
    print(f"{count:,} falls in the table `falls`")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
