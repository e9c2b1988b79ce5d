"""Quantified streams on Spark: a stream gives what the batch gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q
from ensue.spark.control import Control
from tests.lanes import streams
from tests.lanes.test_quantify_lanes import HOW, QUERIES, bids, rows, whole
from tests.spark import batches


def files(events: pa.Table, folder: Path) -> None:
    times = events["at"].cast(pa.int64()).to_numpy()
    cut = streams.cut(times, 1, 120, 20 * streams.SECOND)
    batches.write(folder, (events.take(pa.array(part)) for part in cut.rows if part))


def streaming(spark: Any, folder: Path) -> Any:
    schema = "auction bigint, bidder bigint, price bigint, channel string, at timestamp"
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).withWatermark("at", "20 seconds")


def test_batch_and_stream_on_spark_agree(spark: Any, tmp_path: Path) -> None:
    """Five queries in one stream each: labelled, block by block, windows of time, key by key."""
    events = bids(300)
    files(events, tmp_path / "in")
    frame = spark.createDataFrame(events)
    asked = [
        ("highest bid", "demand"),
        ("longest run below 700", "every"),
        ("bids per minute", "defined"),
        ("session budget", "defined"),
        ("low end, nine decades", "demand"),
    ]
    running = []
    for number, (name, output) in enumerate(asked):
        control = Control(tmp_path / f"control{number}")
        found = getattr(QUERIES[name], HOW[output])(
            streaming(spark, tmp_path / "in"),
            partition_by="auction",
            order_by="at",
            lanes=2,
            control=str(control.folder),
        )
        told: list[Any] = []

        def sink(part: Any, _: int, told: list[Any] = told) -> None:
            told.extend(part.toArrow().to_pylist())

        writer = found.writeStream.foreachBatch(sink)
        query = writer.option("checkpointLocation", str(tmp_path / f"state{number}")).start()
        running.append((name, output, told, query, control))
    for name, output, told, query, control in running:
        control.finish(query)
        batch = whole(QUERIES[name], frame, output).toArrow()
        assert told and sorted(map(str, told)) == rows([batch]), name
        local = whole(QUERIES[name], events, output)
        assert batch.num_rows == local.num_rows
        assert sorted(map(str, batch["value"].to_pylist())) == sorted(
            map(str, local["value"].to_pylist())
        )


def test_what_a_stream_refuses(spark: Any, tmp_path: Path) -> None:
    files(bids(10), tmp_path / "in")
    stream = streaming(spark, tmp_path / "in")
    with pytest.raises(errors.WatermarkError, match="no order of its own"):
        q.max("price").eval(stream, partition_by="auction")
    with pytest.raises(errors.QueryError, match=r"color= is not known"):
        q.max("price").label(stream, partition_by="auction", order_by="at", color="red")
    with pytest.raises(errors.QueryError, match=r"lanes= is for streams"):
        q.max("price").eval(bids(5), lanes=3)
    with pytest.raises(errors.DuplicateNameError, match="already has a column 'price'"):
        q.max("price").label(stream, "price", partition_by="auction", order_by="at")
