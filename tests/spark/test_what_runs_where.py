"""What runs where on Spark: every cell of batches, streams and SQL is called.

All streams run over the same two files, rows out of order; the order to end makes everything
final.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ensue
from ensue import errors
from ensue.capabilities import TABLE, No, Task, Way, refusal
from ensue.spark.control import Control
from tests import where
from tests.spark import batches
from tests.where import AUTOMATON, BLOCK_SUM, BOTH, EDGES, EVENTS, NEAR, ROWS, SEQUENCE

STREAMS = (Way.STREAM_FINAL, Way.STREAM_CHANGES)
SCHEMA = "user string, ts timestamp, kind string, v bigint"
KEYED = {"partition_by": "user", "order_by": "ts"}

Answer = Callable[[Any], Any]  # rows as dictionaries to what is compared
Call = Callable[..., Any]


def _named(rows: where.Rows) -> list[Any]:
    return sorted((row["pattern"], *span) for row in rows for span in where.spans([row]))


TWICE = sorted((name, *span) for name in ("pairs", "again") for span in where.EVENT_MATCHES)
ASKED: dict[Task, tuple[Call, Answer, Any]] = {
    Task.ROWS: (ROWS.matches, where.spans, sorted(where.ROW_MATCHES)),
    Task.EVENTS: (SEQUENCE.matches, where.spans, sorted(where.EVENT_MATCHES)),
    Task.AGGREGATE: (
        lambda data, **options: SEQUENCE.aggregate(data, by="user", n="count(*)", **options),
        where.counts,
        where.COUNTS,
    ),
    Task.SUMMARIZE: (
        lambda data, **options: SEQUENCE.summarize(data, size=10, **options),
        where.counts,
        where.COUNTS,
    ),
    Task.MISSING: (NEAR.matches, where.spans, sorted(where.NEAR_MATCHES)),
    Task.WORKLOAD: (BOTH.matches, _named, TWICE),
    Task.AUTOMATON: (AUTOMATON.matches, where.spans, sorted(where.EVENT_MATCHES)),
    Task.QUANTIFY: (
        lambda data, **options: BLOCK_SUM.values(data, **KEYED, **options),
        where.blocks,
        where.BLOCKS,
    ),
}


@pytest.mark.parametrize("task", ASKED, ids=lambda task: task.name.lower())
def test_a_batch(spark: Any, task: Task) -> None:
    run, answer, wanted = ASKED[task]
    found = run(spark.createDataFrame(EVENTS))
    assert answer([row.asDict(recursive=True) for row in found.collect()]) == wanted


def _source(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema(SCHEMA).parquet(str(folder)).withWatermark("ts", "5 seconds")


def test_streams(spark: Any, tmp_path: Path) -> None:
    batches.write(tmp_path / "in", [EVENTS.take([6, 4, 3, 0]), EVENTS.take([5, 2, 1])])
    for number, (task, (run, answer, wanted)) in enumerate(ASKED.items()):
        for way, emit in zip(STREAMS, ("final", "changes"), strict=True):
            control = Control(tmp_path / f"control-{number}-{emit}")
            options = {"control": str(control.folder), "lanes": 1, "emit": emit}
            found = run(_source(spark, tmp_path / "in"), **options)
            rows: where.Rows = []

            def sink(part: Any, _: int, rows: where.Rows = rows) -> None:
                rows.extend(row.asDict(recursive=True) for row in part.collect())

            place = str(tmp_path / f"checkpoint-{number}-{emit}")
            writer = found.writeStream.foreachBatch(sink).option("checkpointLocation", place)
            control.finish(writer.start())
            told = where.net(rows) if way is Way.STREAM_CHANGES else rows
            assert answer(told) == wanted, (task, way)


def _sql(spark: Any, text: str) -> list[dict[str, Any]]:
    spark.createDataFrame(EVENTS).createOrReplaceTempView("where_events")
    return [row.asDict() for row in ensue.sql(text, spark=spark).collect()]


LISTED = """SELECT user, first, last FROM where_events MATCH_RECOGNIZE (
  PARTITION BY user ORDER BY ts
  MEASURES FIRST(ts) AS first, LAST(ts) AS last
  PATTERN ({pattern}) DEFINE A AS kind = 'A', B AS kind = 'B')"""
TOTAL = """SELECT * FROM where_events MATCH_RECOGNIZE (
  PARTITION BY user ORDER BY ts MEASURES COUNT(*) OVER ALL MATCHES AS n
  PATTERN (A -> B) DEFINE A AS kind = 'A', B AS kind = 'B')"""


def test_sql(spark: Any) -> None:
    plain = LISTED.format(pattern="A B")
    assert where.spans(_sql(spark, plain)) == sorted(where.ROW_MATCHES)
    with pytest.raises(errors.PatternSyntaxError) as raised:
        _sql(spark, LISTED.format(pattern="A -> B"))
    no = TABLE[Task.EVENTS][Way.SQL]
    assert isinstance(no, No) and no.reason in raised.value.problem
    assert where.counts(_sql(spark, TOTAL)) == where.COUNTS


def test_a_graph(spark: Any, tmp_path: Path) -> None:
    edges = spark.createDataFrame(EDGES)
    found = ensue.graph(edges).paths("x/y", start="a").collect()
    assert [(row["start"], row["end"]) for row in found] == where.PATHS
    batches.write(tmp_path / "edges", [EDGES])
    stream = spark.readStream.schema(edges.schema).parquet(str(tmp_path / "edges"))
    wanted = refusal(Task.PATHS, Way.STREAM_FINAL)
    with pytest.raises(errors.UnsupportedError) as raised:
        ensue.graph(stream)
    assert raised.value.problem == wanted.problem


@pytest.mark.parametrize(
    "task", [t for t in ASKED if isinstance(TABLE[t][Way.EDITS], No)], ids=lambda t: t.name.lower()
)
def test_edits_are_refused(spark: Any, tmp_path: Path, task: Task) -> None:
    (tmp_path / "in").mkdir()
    wanted = refusal(task, Way.EDITS)
    with pytest.raises(errors.UnsupportedError) as raised:
        ASKED[task][0](_source(spark, tmp_path / "in"), control=str(tmp_path), edits=True)
    assert (raised.value.problem, raised.value.remedy) == (wanted.problem, wanted.remedy)


def test_every_cell_is_called() -> None:
    """Those of tasks that run on streams, of SQL that says yes, and of graphs."""
    streamed = {task for task in Task if not isinstance(TABLE[task][Way.STREAM_FINAL], No)}
    assert streamed == set(ASKED)
    said = {task for task in Task if not isinstance(TABLE[task][Way.SQL], No)}
    assert said == {Task.ROWS, Task.AGGREGATE}
