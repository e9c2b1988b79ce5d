"""Spec cases in one streaming job, keyed by case: a lane is a case, with its own pattern.

Rows travel as bytes, since every case has columns of its own; everything else is what a stream
does: micro-batches, disorder, watermark, state in RocksDB, wake-ups, and the order to end.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.operator.buffer import CONTENT
from ensue.operator.prepare import finish
from ensue.operator.protocol import Key
from ensue.query.query import Query
from ensue.run import local
from ensue.run.lanes.work import Holding, Stage, Work
from ensue.run.lanes.works import matches_work
from ensue.run.spark import control, stream_operator
from ensue.spark.control import Control
from tests import sequence_specs, specs
from tests.lanes import streams
from tests.spark import batches

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PAYLOAD = "payload"
EVERY = 8  # a lane of its own each; all of them run in tests/lanes
SCHEMA = pa.schema(
    [(streams.TIME, pa.timestamp("us", "UTC")), (PAYLOAD, pa.binary()), (CONTENT, pa.int64())]
)
FOUND = pa.schema([("case", pa.int64()), (PAYLOAD, pa.binary())])


class Wrapped(Stage):
    """A case's stage: rows out of bytes, and what it finds into bytes."""

    def __init__(self, inner: Stage, work: Work, case: int) -> None:
        self._inner, self._work, self._case = inner, work, case

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        parts = [
            pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(b), self._work.schema)])
            for b in rows[PAYLOAD].to_pylist()
        ]
        return self._found(self._inner.insert(pa.concat_tables(parts).combine_chunks()))

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        return self._found(self._inner.advance(horizon))

    def end(self, keys: Collection[Key] | None = None) -> Iterator[pa.Table]:
        return self._found(self._inner.end())

    def spent(self) -> tuple[int, int, float, float]:
        return self._inner.spent()

    def _found(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            for batch in table.combine_chunks().to_batches():
                blob = batch.serialize().to_pybytes()
                yield pa.table({"case": [self._case], PAYLOAD: [blob]}, schema=FOUND)

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        raise NotImplementedError

    def copy(self) -> Stage:
        raise NotImplementedError

    def save(self) -> bytes:
        return self._inner.save()

    def load(self, blob: bytes) -> None:
        self._inner.load(blob)

    @property
    def evaluators(self) -> Sequence[Holding]:
        return self._inner.evaluators


@dataclass(frozen=True)
class CasesWork(Work):
    works: tuple[Work, ...] = field(default=())

    def stage(self, lane: int) -> Stage:
        return Wrapped(self.works[lane].stage(0), self.works[lane], lane)


def _shifted(asked: tuple[Query, pa.Table]) -> tuple[Query, pa.Table]:
    """All cases live in the same hours, since they share a watermark."""
    query, table = asked
    times = table[streams.TIME].cast(pa.int64()).to_numpy()
    times = times - times.min(initial=2**62) + streams.EPOCH
    place = table.schema.get_field_index(streams.TIME)
    moved = pa.array(times, pa.timestamp("us", "UTC"))
    return query, table.set_column(place, streams.TIME, moved)


def test_spec_cases_in_one_job(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    works: list[Work] = []
    asked: list[tuple[Query, pa.Table, Any]] = []
    lanes, times, payloads, contents = [], [], [], []
    queries = [(c.query(), c.table) for c in specs.cases() if c.error is None]
    queries += [(c.pattern.query, c.table) for c in sequence_specs.cases()]
    for written, given_table in queries[::EVERY]:
        timed = streams.timed(written, given_table)
        if timed is None or not given_table.num_rows:
            continue
        query, table = _shifted(timed)
        planned, ready = streams.streamed(query, table)
        arguments = (ready.schema, streams.TIME, streams.settings(), {})
        works.append(matches_work(planned, None, *arguments))
        for batch in (
            ready.slice(i, 1).combine_chunks().to_batches()[0] for i in range(len(ready))
        ):
            lanes.append(len(asked))
            payloads.append(batch.serialize().to_pybytes())
            contents.append(batch.column(CONTENT)[0].as_py())
        times += table[streams.TIME].cast(pa.int64()).to_pylist()
        asked.append((query, table, planned))
    rows = pa.table(
        {
            stream_operator.LANE: pa.array(lanes, pa.int32()),
            streams.TIME: pa.array(times, pa.timestamp("us", "UTC")),
            PAYLOAD: pa.array(payloads, pa.binary()),
            CONTENT: pa.array(contents, pa.int64()),
        }
    )
    cut = streams.cut(np.array(times), seed=7, most=len(rows))
    source = tmp_path / "in"
    batches.write(source, (rows.take(pa.array(part)) for part in cut.rows if part))
    schema = spark.read.parquet(str(source)).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    marked = stream.parquet(str(source)).withWatermark(streams.TIME, "3 seconds")
    work = CasesWork(SCHEMA, FOUND, (), streams.TIME, streams.settings(), {}, tuple(works))
    orders = control.orders(spark, str(tmp_path / "control"), len(works))
    found = stream_operator.run(marked, work, 3000, orders)
    told: dict[int, list[pa.Table]] = {index: [] for index in range(len(asked))}

    def sink(frame: Any, number: int) -> None:
        for row in frame.select("case", F.base64(PAYLOAD).alias("b"), PAYLOAD).collect():
            blob = pa.py_buffer(bytes(row[PAYLOAD]))
            schema = works[row["case"]].found
            told[row["case"]].append(
                pa.Table.from_batches([pa.ipc.read_record_batch(blob, schema)])
            )

    spark.conf.set(PROVIDER, ROCKS)
    try:
        query = (
            found.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        Control(tmp_path / "control").finish(query)
    finally:
        spark.conf.unset(PROVIDER)
    wrong = []
    for index, (query, table, planned) in enumerate(asked):
        parts = [works[index].found.empty_table(), *told[index]]
        got = finish(planned, pa.concat_tables(parts)).to_pylist()
        wanted = local.run(query, table).to_pylist()
        if not query.row_semantics:
            for row in (*got, *wanted):
                del row["match_number"]
        if specs.comparable(query, got) != specs.comparable(query, wanted):
            wrong.append(json.dumps({"case": index, "got": got, "wanted": wanted}, default=str))
    assert not wrong, "\n".join(wrong[:3])
    assert len(asked) > 60
