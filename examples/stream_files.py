"""Files as a stream, matched into parquet, closed at the end: the batch answer, bit by bit.

python examples/stream_files.py
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import ensue
from ensue.demo import data
from ensue.spark.control import Control
from ensue.spark.listener import progress_line
from ensue.spark.session import local_session

FUNNEL = (
    ensue.pattern("V C+ P")
    .define(V="kind = 'view'", C="kind = 'cart'", P="kind = 'pay'")
    .partition_by("user_id")
    .order_by("ts")
    .within("1 hour")
    .measures(at="FIRST(ts)", carts="COUNT(C.*)", paid="P.amount")
)


def main() -> None:
    spark, _ = local_session()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        events = data.funnel(users=200, events=20_000).sort_by("ts")
        (folder / "events").mkdir()
        for number in range(4):
            path = folder / "events" / f"{number}.parquet"
            pq.write_table(events.slice(number * 5_000, 5_000), path)
            os.utime(path, (number, number))  # Spark reads files by the time of their last change
        schema = spark.read.parquet(str(folder / "events")).schema
        stream = (
            spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / "events"))
            .withWatermark("ts", "10 minutes")
        )
        found = FUNNEL.matches(stream, control=str(folder / "control"))
        query = (
            found.writeStream.format("parquet")
            .option("path", str(folder / "matches"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        query.processAllAvailable()
        print(progress_line(query))
        Control(folder / "control").finish(query)
        streamed = spark.read.parquet(str(folder / "matches")).count()
        print(f"{streamed:,} matches on the stream, {FUNNEL.count(events):,} in a batch")
        assert streamed == FUNNEL.count(events)
    spark.stop()


if __name__ == "__main__":
    main()
