"""Workloads on a stream of Spark: what `workload.matches` gives on all rows, through a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.spark.control import Control
from tests.lanes import streams
from tests.lanes.test_workload import AMPLE, MIXED, SHARED, asked, events, plain
from tests.spark import batches

SCHEMA = "k string, ts timestamp, kind string, x bigint"


def stream_of(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).withWatermark("ts", "3 seconds")


def files(table: pa.Table, folder: Path) -> int:
    cut = streams.cut(table["ts"].cast(pa.int64()).to_numpy(), 1, 40)
    parts = [table.take(pa.array(part)) for part in cut.rows if part]
    batches.write(folder, parts)
    return len(parts)


class Sink:
    """Starts the same stream again and again from one checkpoint."""

    def __init__(self, tmp_path: Path) -> None:
        self.rows: list[dict[str, Any]] = []
        self._checkpoint = str(tmp_path / "checkpoint")

    def run(self, found: Any, then: Any = None) -> None:
        def take(part: Any, _: int) -> None:
            self.rows += part.toArrow().to_pylist()

        writer = found.writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", self._checkpoint).start()
        query.processAllAvailable()
        if then is not None:
            then()
            query.processAllAvailable()
        query.stop()


@pytest.mark.parametrize("budget", [None, AMPLE], ids=["exact", "budget"])
def test_a_workload_on_a_stream_is_that_on_a_table(spark: Any, tmp_path: Path, budget: Any) -> None:
    """Half of the files, a restart, then the rest and the end."""
    patterns = MIXED if budget is None else SHARED
    work = ensue.workload(patterns)
    table = events(120, 4)
    files(table, tmp_path / "all")
    control, sink = Control(tmp_path / "control"), Sink(tmp_path)
    found = sorted((tmp_path / "all").iterdir())
    (tmp_path / "in").mkdir()

    def arrive(some: list[Path]) -> None:
        for path in some:
            path.rename(tmp_path / "in" / path.name)

    options = {"lanes": 2, "control": str(control.folder)}
    arrive(found[: len(found) // 2])
    sink.run(work.matches(stream_of(spark, tmp_path / "in"), budget, **options))
    before = len(sink.rows)
    arrive(found[len(found) // 2 :])
    sink.run(work.matches(stream_of(spark, tmp_path / "in"), budget, **options), control.end)
    assert 0 < before < len(sink.rows)
    assert plain(sink.rows) == plain(work.matches(table).to_pylist())


def test_a_pattern_alone_under_a_budget_that_is_edited(spark: Any, tmp_path: Path) -> None:
    table = events(60, 7)
    files(table, tmp_path / "in")
    control, sink = Control(tmp_path / "control"), Sink(tmp_path)
    pairs = SHARED["pairs"]
    told = pairs.matches(stream_of(spark, tmp_path / "in"), AMPLE, lanes=2)
    assert told.columns == ["k", "n", "first"]
    edited = pairs.matches(
        stream_of(spark, tmp_path / "in"),
        AMPLE,
        lanes=2,
        control=str(control.folder),
        edits=True,
        name="pairs",
    )
    assert edited.columns == ["pattern", "version", "k", "n", "first"]
    control.put("more", asked("A ->> C", n="COUNT(*)", first="FIRST(A.x)").within("20 seconds"))
    sink.run(edited, control.end)
    assert {row["pattern"] for row in sink.rows} >= {"pairs"}
    wanted = pairs.matches(table).num_rows
    assert sum(row["pattern"] == "pairs" for row in sink.rows) == wanted > 0


def test_what_a_stream_of_patterns_refuses(spark: Any, tmp_path: Path) -> None:
    files(events(5, 1), tmp_path / "in")
    stream = stream_of(spark, tmp_path / "in")
    with pytest.raises(errors.QueryError, match="leave name= out"):
        ensue.workload(SHARED).matches(stream, name="x")
    with pytest.raises(errors.QueryError, match="option of streams"):
        ensue.workload(SHARED).matches(events(5, 1), lanes=3)
    other = {"a": SHARED["pairs"], "b": SHARED["pairs"].partition_by("x")}
    with pytest.raises(errors.UnsupportedError, match="one partition and order"):
        ensue.workload(other).matches(stream, AMPLE)
    with pytest.raises(errors.ReservedNameError, match="'pattern'"):
        ensue.workload(SHARED).matches(stream.withColumnRenamed("x", "pattern"))
