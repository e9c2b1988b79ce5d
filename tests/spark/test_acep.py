"""Patterns with events missing on Spark give what they give in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Observation

import ensue
from ensue import errors
from ensue.api.pattern import Pattern
from ensue.operator.prepare import finish
from ensue.run import local
from ensue.run.lanes.works import matches_work
from tests.lanes import streams
from tests.spark import batches

_CHANCE = np.random.default_rng(3)
EVENTS = pa.table(
    {
        "user": _CHANCE.integers(0, 5, 120),
        "id": np.arange(120),
        "kind": _CHANCE.choice(list("ABCX"), 120),
        "x": _CHANCE.integers(0, 6, 120),
    }
)


def asked(**define: str) -> Pattern:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("id")
    return pattern.within(30).define(**define)


def rows(found: Any) -> list[str]:
    if isinstance(found, pa.Table):
        return sorted(map(str, found.to_pylist()))
    return sorted(str(row.asDict(recursive=True)) for row in found.collect())


CASES = {
    "exact": (asked().allow_missing(1), None),
    "weights": (asked().allow_missing(1, missing={"A": 0.5}, required=["C"]), None),
    "conditions": (asked(B="x >= A.x").allow_missing(1), None),
    "measures": (asked().measures(top="MAX(B.x)").allow_missing(1), None),
    "budget above need": (asked().allow_missing(1), ensue.Budget(work=10**9)),
}


@pytest.mark.parametrize("name", CASES)
def test_like_in_process(spark: Any, name: str) -> None:
    pattern, budget = CASES[name]
    local = pattern.matches(EVENTS, budget=budget)
    remote = pattern.matches(spark.createDataFrame(EVENTS), budget=budget)
    assert remote.columns == local.column_names
    assert rows(remote) == rows(local)


def test_a_small_budget_reports_true_matches(spark: Any) -> None:
    pattern = asked().allow_missing(1, history=2)
    frame = spark.createDataFrame(EVENTS)
    exact = set(rows(pattern.matches(frame).drop("match_number")))
    some = rows(pattern.matches(frame, budget=ensue.Budget(work=1)).drop("match_number"))
    assert 0 < len(some) < len(exact) and set(some) <= exact
    assert pattern.count(frame) == len(exact)


STREAMED = {
    "single rows": asked().allow_missing(1),
    "weights": asked().allow_missing(1, missing={"A": 0.5}, required=["C"]),
    "conditions": asked(B="x >= A.x").allow_missing(1),
    "measures": asked(C="x > A.x").measures(top="MAX(B.x)").allow_missing(1),
}


@pytest.mark.parametrize("name", STREAMED)
@pytest.mark.parametrize("emit", ["final", "changes"])
def test_lanes_of_a_stream_give_what_a_table_gives(name: str, emit: str) -> None:
    """State is written and read between any two micro-batches."""
    case = streams.timed(STREAMED[name].query, EVENTS.slice(0, 60))
    assert case is not None
    query, table = case
    planned, ready = streams.streamed(query, table)
    settings = streams.settings(emit=emit)
    work = matches_work(planned, None, ready.schema, streams.TIME, settings, {})
    times = table[streams.TIME].cast(pa.int64()).to_numpy()
    found = streams.drive(work, ready, streams.cut(times, 5))
    if emit == "changes":
        got = [
            {name: value for name, value in row.items() if name in work.found.names}
            for row in streams.net(found)
        ]
        told = pa.Table.from_pylist(got, schema=work.found)
    else:
        told = pa.concat_tables([work.found.empty_table(), *found])
    names = ("user", "errors", "missing", "missing_at", "first", "last", "top")
    some = [column for column in names if column in local.run(query, table).column_names]
    assert rows(finish(planned, told).select(some)) == rows(local.run(query, table).select(some))
    assert told.num_rows


def test_streams_with_and_without_a_budget(spark: Any, tmp_path: Path) -> None:
    """From q.matches(stream) to a sink, conditions on other events included."""
    moments = streams.EPOCH + np.arange(120) * streams.SECOND
    table = EVENTS.append_column("ts", pa.array(moments, pa.timestamp("us", "UTC")))
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("ts")
    pattern = pattern.within("30 seconds").define(B="x >= A.x").allow_missing(1)
    folder = tmp_path / "in"
    after = pa.array([streams.EPOCH + 86_400 * streams.SECOND], pa.timestamp("us", "UTC"))
    later = EVENTS.slice(0, 1).set_column(2, "kind", [["X"]]).append_column("ts", after)
    # With the last of them, the watermark passes all others.
    batches.write(folder, [*(table.slice(40 * number, 40) for number in range(3)), later])
    frame = spark.createDataFrame(table)
    reader = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(folder)).withWatermark("ts", "0 seconds")
    running = []
    for number, budget in enumerate((None, ensue.Budget(work=10**9))):
        got: list[Any] = []

        def sink(part: Any, _: int, got: list[Any] = got) -> None:
            got.extend(part.drop("match_number").collect())

        writer = pattern.matches(stream, lanes=2, budget=budget).writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(tmp_path / f"checkpoint{number}"))
        running.append((budget, writer.trigger(availableNow=True).start(), got))
    expected = sorted(map(str, pattern.matches(frame).drop("match_number").collect()))
    for budget, query, got in running:
        query.awaitTermination()
        assert sorted(map(str, got)) == expected, budget


def test_an_observation_is_told_what_a_budget_gave_up(spark: Any) -> None:
    pattern = asked().allow_missing(1, history=2)
    frame = spark.createDataFrame(EVENTS)
    costs = Observation()
    found = pattern.matches(frame, budget=ensue.Budget(work=1), observe=costs)
    assert found.columns == pattern.matches(frame).columns
    told = found.count(), costs.get
    assert told[1]["rows"] == EVENTS.num_rows and told[1]["matches"] == told[0] > 0
    assert told[1]["partials"] > 0 and told[1]["shed"] > 0 and 0 < told[1]["recall"] < 1
    everything = Observation()
    pattern.matches(frame, budget=ensue.Budget(work=10**9), observe=everything).collect()
    assert everything.get["shed"] == 0 and everything.get["recall"] == 1.0
    learning = Observation()
    asked().allow_missing(1).matches(frame, budget=ensue.Budget(work=1), observe=learning).collect()
    assert learning.get["unbounded"] == 0 and learning.get["shed"] > 0  # from the first row on
    for wrong in ({"data": EVENTS, "budget": ensue.Budget(work=1)}, {"data": frame}):
        with pytest.raises(errors.QueryError, match="observe="):
            pattern.matches(observe=Observation(), **wrong)


def test_a_workload_has_exact_and_approximate_patterns(spark: Any) -> None:
    patterns = {"exact": asked().select("any"), "loose": asked(B="x >= A.x").allow_missing(1)}
    frame = spark.createDataFrame(EVENTS)
    found = ensue.workload(**patterns).matches(frame).drop("match_number").collect()
    local = ensue.workload(**patterns).matches(EVENTS).drop_columns(["match_number"])
    assert len(found) == local.num_rows and {row["pattern"] for row in found} == set(patterns)
    names = local.column_names
    assert sorted(
        str({n: row.asDict(recursive=True)[n] for n in names}) for row in found
    ) == sorted(str(row) for row in local.to_pylist())
