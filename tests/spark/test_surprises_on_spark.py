"""What a DataFrame leaves open is refused or told, not answered."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.spark.errors import own_errors
from tests.spark import batches

ROWS = [("a", 1, "view"), ("a", 2, "cart"), ("a", 2, "pay"), ("b", 1, "view"), ("b", 3, "pay")]
QUERY = ensue.pattern("cart -> pay", types="kind").partition_by("user")
CLAUSE = "MATCH_RECOGNIZE (PARTITION BY user {} MEASURES A.kind AS k PATTERN (A))"


@pytest.fixture(scope="module")
def clicks(spark: Any) -> Any:
    frame = spark.createDataFrame(ROWS, "user string, ts int, kind string")
    frame.createOrReplaceTempView("surprising_clicks")
    return frame


def test_a_forgotten_order_is_refused(clicks: Any) -> None:
    for verb in (
        QUERY.matches,
        QUERY.count,
        lambda df: QUERY.aggregate(df, n="count(*)"),
        lambda df: QUERY.summarize(df, size=5),
        lambda df: QUERY.diff(QUERY, df),
        ensue.workload(a=QUERY).matches,
    ):
        with pytest.raises(errors.MissingOrderError, match=r"order_by\('ts'\)"):
            verb(clicks)
    view = ensue.pattern("view", types="kind").order_by(ensue.UNORDERED)
    assert view.count(clicks) == 2


def test_an_order_left_open_is_refused_on_streams(spark: Any) -> None:
    stream = spark.readStream.format("rate").load()
    query = ensue.pattern("A -> B").order_by(ensue.UNORDERED)
    with pytest.raises(errors.EnsueError, match="order_by"):
        query.matches(stream)
    rows = ensue.pattern("A B").order_by("timestamp").within("1 minute")
    with pytest.raises(errors.UnsupportedError, match="a stream cannot"):
        rows.matches(stream.withWatermark("timestamp", "0 seconds"), timeouts=True)


def test_sql_without_an_order_warns_once(spark: Any, clicks: Any) -> None:
    twice = f"SELECT * FROM surprising_clicks {CLAUSE.format('')}"
    with pytest.warns(errors.OrderWarning, match="ORDER BY ts") as told:
        ensue.sql(f"{twice} UNION ALL {twice}", spark=spark)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.OrderWarning)
        ensue.sql(f"SELECT * FROM surprising_clicks {CLAUSE.format('ORDER BY ts')}", spark=spark)


def test_ties_fail_the_job_where_that_was_asked(clicks: Any) -> None:
    with pytest.raises(errors.TiesError, match="2 rows share ts and user"), own_errors():
        QUERY.order_by("ts", ties="error").matches(clicks).collect()
    assert QUERY.order_by("ts", "kind", ties="error").count(clicks) == 1


def test_a_sink_with_two_actions_counts_each_row_once(spark: Any, tmp_path: Path) -> None:
    times = pa.array([n * 1_000_000 for n in range(40)], pa.timestamp("us", "UTC"))
    table = pa.table(
        {"user": ["a", "b"] * 20, "ts": times, "kind": ["cart", "cart", "pay", "pay"] * 10}
    )
    batches.write(tmp_path / "rows", (table.slice(0, 20), table.slice(20)))
    reader = spark.readStream.schema("user string, ts timestamp, kind string")
    stream = reader.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows"))
    found = (
        QUERY.order_by("ts")
        .within("1 minute")
        .matches(stream.withWatermark("ts", "0 seconds"), lanes=4)
    )

    def twice(frame: Any, _: int) -> None:
        frame.collect()
        frame.count()

    writer = found.writeStream.foreachBatch(twice)
    query = writer.option("checkpointLocation", str(tmp_path / "state")).start()
    query.processAllAvailable()
    observed = [p["observedMetrics"]["ensue"] for p in query.recentProgress if p["numInputRows"]]
    query.stop()
    assert sum(one["rows"] for one in observed) == 40
    assert all(set(one["lanes"]) <= {"0", "1", "2", "3"} for one in observed)
    assert query.exception() is None


@pytest.mark.parametrize("text", ["cartt -> pay", "cartt pay"])
def test_a_count_of_nothing_says_why(clicks: Any, text: str) -> None:
    query = ensue.pattern(text, types="kind").partition_by("user").order_by("ts", ties="ignore")
    near = "cartt: no row has kind = 'cartt'; the nearest value is 'cart'"
    with pytest.warns(errors.NothingMatchesWarning, match=near) as told:
        assert query.count(clicks) == 0
        assert query.count(clicks) == 0
    # PySpark 4.0 leaves sockets to be collected, with a ResourceWarning each.
    assert [w.category for w in told].count(errors.NothingMatchesWarning) == 1
    explained = query.explain(clicks)
    assert "Data: 5 rows" in explained
    assert f"cartt: 0 (0.0%): {near.partition(': ')[2]}" in explained
    assert "pay: 2 (40.0%)" in explained
    assert "kind 0.0%" in explained
    late = query.define(pay="ts > 7").explain(clicks)
    assert "no row has ts > 7 of the 2 with kind = 'pay'; the column is from 1 to 3" in late
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.NothingMatchesWarning)
        assert QUERY.order_by("ts", ties="ignore").count(clicks) == 1
