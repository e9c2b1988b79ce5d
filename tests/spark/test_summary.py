"""Summaries on Spark against the in-process ones, key by key."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ensue
from ensue import errors
from ensue.operator.buffer import CONTENT
from ensue.run.lanes.works import summary_work
from ensue.spark.control import Control
from ensue.summary.options import SummaryOptions
from tests.lanes import streams
from tests.spark import batches


def keyed(length: int, keys: int) -> pa.Table:
    chance = random.Random(1)
    return pa.table(
        {
            "user": pa.array([f"u{chance.randrange(keys)}" for _ in range(length)]),
            "kind": [chance.choice("ABCD") for _ in range(length)],
            "t": pa.array(range(length), pa.int64()),
            "v": [chance.randrange(10) for _ in range(length)],
        }
    )


def query(window: Any = 60) -> Any:
    found = ensue.pattern("A B* C", types="kind").select("any").partition_by("user").order_by("t")
    return found.within(window)


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (60, {"size": 1_000}),
        ("30 rows", {"size": 1_000}),
        (10_000, {"size": 1_000}),
        (60, {"size": 12}),
        (60, {"size": 12, "total": "sum(v)"}),
        (60, {"size": 40, "equal": {"v": ["B"]}}),
        (60, {"size": 1_000, "total": "sum(v)"}),
        (10_000, {"size": 1_000, "total": "avg(B.v / 7 - 0.5)", "counts": "text"}),
        (60, {"size": 1_000, "equal": {"v": ["B", "C"]}, "total": "max(v)"}),
    ],
)
def test_like_in_process(spark: Any, window: Any, options: dict[str, Any]) -> None:
    table = keyed(600, 7)
    found = query(window).summarize(spark.createDataFrame(table.to_pandas()), **options)
    rows = {row["user"]: row for row in found.collect()}
    # In process one key at a time, since keys learn shares together there and alone on Spark.
    for user in sorted(set(table["user"].to_pylist())):
        part = table.filter(pc.equal(table["user"], user))
        alone = query(window).summarize(part, **options)
        result = alone.result()[user]
        row = rows.pop(user)
        assert int(row["count"]) == result["count"]
        for name in ("sum", "avg", "min", "max"):
            if name in result:
                expected = result[name]
                given = row[name]
                assert (None if given is None else float(given)) == expected
        assert [event["t"] for event in row["events"]] == alone.events()["t"].to_pylist()
        assert row["metrics"]["kept"] == alone.metrics.kept
        assert row["metrics"]["rows"] == part.num_rows
    assert not rows


def test_an_event_of_several_labels_and_keys_that_are_null(spark: Any) -> None:
    chance = random.Random(5)
    rows = [
        (chance.choice([None, "u", "v"]), chance.randrange(10), i, chance.choice([None, 1, 2]))
        for i in range(90)
    ]
    df = spark.createDataFrame(rows, "user string, x int, t long, g int")
    found = ensue.pattern("(a | b)* c").define(a="x < 5", b="x > 2", c="x > 7")
    found = found.select("any").partition_by("user").order_by("t").within(20)
    for options in ({}, {"total": "sum(x)"}, {"equal": {"g": ["a", "c"]}, "total": "min(x)"}):
        table = pa.table(list(map(list, zip(*rows, strict=True))), names=df.columns)
        here = found.summarize(table, size=100, **options)
        there = {row["user"]: row for row in found.summarize(df, size=100, **options).collect()}
        assert {key: int(row["count"]) for key, row in there.items()} == {
            key: result["count"] for key, result in here.result().items()
        }
        if "total" in options:
            for key, result in here.result().items():
                assert int(there[key]["sum"]) == result["sum"]
                assert (there[key]["min"], there[key]["max"]) == (result["min"], result["max"])
        assert sum(row["metrics"]["irrelevant"] for row in there.values()) == (
            here.metrics.irrelevant
        )


def test_counts_beyond_decimal(spark: Any) -> None:
    letters = "A" + "B" * 500 + "C"
    df = spark.createDataFrame(
        [("x", letter, i) for i, letter in enumerate(letters)], "user string, kind string, t long"
    )
    found = query(10_000).summarize(df, size=1_000, counts="text").collect()
    assert int(found[0]["count"]) == 2**500
    with pytest.raises(Exception, match="ask for digits"):
        query(10_000).summarize(df, size=1_000).collect()


def test_refusals(spark: Any) -> None:
    df = spark.createDataFrame([("x", "A", 1)], "user string, kind string, t long")
    with pytest.raises(errors.UnsupportedError, match="budget over all keys"):
        query().summarize(df, size=5, budget=10)
    with pytest.raises(errors.ColumnTypeError, match="string"):
        query().summarize(df, size=5, total="sum(kind)")


def test_a_stream_shows_the_events_of_keys_that_are_nan_or_null() -> None:
    found = ensue.pattern("a b", types="kind").select("any").partition_by("k").order_by("t")
    keys = pa.array([math.nan, math.nan, None], pa.float64(), from_pandas=False)
    content = {CONTENT: ["x", "y", "z"]}
    rows = pa.table({"k": keys, "kind": list("aba"), "t": [1, 2, 3], **content})
    arguments = (rows.schema, "t", streams.settings(), {})
    stage = summary_work(found.within(9).query, SummaryOptions(5), *arguments).stage(0)
    assert not list(stage.insert(rows))
    stage = stage.copy()
    assert stage.keys == 2
    told = next(iter(stage.standing())).to_pylist()
    assert [(int(row["count"]), len(row["events"])) for row in told] == [(1, 2), (0, 1)]


SPARK_ONLY = {
    "define": {"A": "soundex(kind) = soundex('A')", "B": "levenshtein(kind, 'B') = 0"},
    "total": "sum(levenshtein(repeat(kind, 3), 'BB') + v)",
}


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_a_stream_takes_any_spark_function_as_a_batch_does(
    spark: Any, tmp_path: Path, emit: str
) -> None:
    table = keyed(200, 3)
    times = pc.add(streams.EPOCH, pc.multiply(table["t"], streams.SECOND))
    table = table.append_column("ts", times.cast(pa.timestamp("us", "UTC")))
    found = ensue.pattern("A ->> B").define(**SPARK_ONLY["define"])
    found = found.partition_by("user").order_by("ts").within("30 seconds")
    options = {"size": 40, "total": SPARK_ONLY["total"]}
    df = spark.createDataFrame(table.to_pandas())
    wanted = {
        row["user"]: row.asDict(recursive=True) for row in found.summarize(df, **options).collect()
    }
    for row in wanted.values():
        del row["metrics"]
    batches.write(tmp_path / "in", [table.slice(i, 50) for i in range(0, 200, 50)])
    control = Control(tmp_path / "control")
    reader = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(tmp_path / "in")).withWatermark("ts", "1 second")
    summed = found.summarize(stream, **options, lanes=2, emit=emit, control=str(control.folder))
    assert summed.schema["events"].dataType.elementType.fieldNames() == table.column_names
    rows: list[Any] = []
    writer = summed.writeStream.foreachBatch(lambda part, _: rows.extend(part.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    control.end()
    query.processAllAvailable()
    query.stop()
    told = [row.asDict(recursive=True) for row in rows]
    if emit == "changes":
        told = streams.net([pa.Table.from_pylist(told)])
    assert {
        row["user"]: {name: row[name] for name in wanted[row["user"]]} for row in told
    } == wanted
    assert all(row["count"] > 0 and row["sum"] > 0 for row in wanted.values())


def test_a_condition_that_spark_rejects_is_named(spark: Any) -> None:
    df = spark.createDataFrame(keyed(5, 1).to_pandas())
    with pytest.raises(errors.ColumnTypeError, match="Spark rejects DEFINE B"):
        query().define(B="no_such_function(kind)").summarize(df, size=5)
