"""Patterns as steps of a pipeline: `DataFrame.transform`, tables by name, declarative pipelines."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import functions as F  # noqa: N812

import ensue
from ensue import errors
from ensue.spark.control import Control
from tests.spark import batches

ROOT = Path(__file__).parent.parent.parent
PIPELINE = ROOT / "examples" / "pipeline"
EVENTS = pa.table(
    {
        "user": [f"u{i % 3}" for i in range(60)],
        "t": list(range(60)),
        "kind": ["cart" if i * 7 % 5 < 3 else "pay" for i in range(60)],
        "amount": [float(i * 11 % 13) for i in range(60)],
    }
)
PAID = ensue.pattern("cart -> pay", types="kind").partition_by("user").order_by("t")
RISE = (
    ensue.pattern("A B+")
    .define(B="amount > PREV(amount)")
    .partition_by("user")
    .order_by("t")
    .measures(n="COUNT(*)", top="LAST(amount)")
)
BOTH = ensue.workload(paid=PAID.measures(at="cart.t", of="pay.t"), again=PAID.measures(at="pay.t"))


@pytest.fixture(scope="module")
def tables(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of the catalog that holds the table `events`."""
    folder = tmp_path_factory.mktemp("shop")
    spark.sql(f"CREATE DATABASE shop LOCATION '{folder}'")
    spark.createDataFrame(EVENTS).write.saveAsTable("shop.events")
    yield "shop"
    spark.sql("DROP DATABASE shop CASCADE")


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_verbs_are_steps_of_transform(spark: Any) -> None:
    frame = spark.createDataFrame(EVENTS)
    totals = {"n": "count(*)", "spent": "sum(pay.amount)"}
    for verb, options in [
        (RISE.matches, {}),
        (PAID.matches, {"max_matches": 10_000}),
        (PAID.aggregate, {"by": "user", **totals}),
        (BOTH.matches, {}),
        (BOTH.aggregate, {"n": "count(*)"}),
    ]:
        expected = rows(verb(EVENTS, **options))
        assert len(expected) > 1
        assert rows(frame.transform(verb, **options).toArrow()) == expected
    joined = frame.where("amount > 1").transform(RISE.matches).where("n > 2").groupBy("user")
    kept = EVENTS.filter(pa.compute.greater(EVENTS["amount"], 1))
    longer = [row for row in RISE.matches(kept).to_pylist() if row["n"] > 2]
    assert sum(row["count"] for row in joined.count().collect()) == len(longer) > 0


def test_a_stream_is_transformed_with_options(spark: Any, tmp_path: Path) -> None:
    batches.write(tmp_path / "in", [EVENTS.slice(0, 30), EVENTS.slice(30)])
    source = spark.readStream.schema(spark.createDataFrame(EVENTS).schema)
    timed = source.parquet(str(tmp_path / "in")).selectExpr(
        "user", "timestamp_seconds(t) AS at", "kind", "amount"
    )
    pattern = RISE.order_by("at")
    found = timed.withWatermark("at", "0 seconds").transform(pattern.matches, lanes=2)
    writer = found.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).toTable("risen", path=str(tmp_path / "risen"))
    try:
        query.awaitTermination(120)
        told = rows(spark.table("risen").toArrow())
        whole = rows(RISE.matches(EVENTS))
        assert set(told) <= set(whole) and len(whole) - 3 <= len(told)  # all but what is still open
    finally:
        spark.sql("DROP TABLE IF EXISTS risen")


def test_the_change_feed_of_a_delta_table_as_a_stream(spark: Any, tmp_path: Path) -> None:
    """Rows as Delta's feed has them: an update says the row before and the row after."""
    timed = EVENTS.set_column(1, "t", EVENTS["t"].cast(pa.timestamp("s")).cast(pa.timestamp("us")))
    old = timed.slice(6, 3)
    new = old.set_column(3, "amount", pa.array([20.0, 21.0, 0.5]))
    gone = timed.slice(30, 4)
    commits = [
        [(timed, "insert")],
        [(old, "update_preimage"), (new, "update_postimage"), (gone, "delete")],
    ]
    feed = [pa.concat_tables(commit(*rows, n) for rows in c) for n, c in enumerate(commits)]
    batches.write(tmp_path / "in", feed)
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    stream = source.parquet(str(tmp_path / "in")).withColumn("t", F.col("t").cast("timestamp"))
    pattern = RISE.measures(first="FIRST(amount)")
    found = (
        stream.withWatermark("t", "365 days")
        .drop("_commit_version", "_commit_timestamp")
        .transform(
            pattern.matches,
            changes="_change_type",
            emit="changes",
            speculation="365 days",
            control=str(tmp_path / "control"),
        )
    )
    standing: dict[str, tuple[Any, ...]] = {}
    withdrawn = 0

    def take(frame: Any, number: int) -> None:
        nonlocal withdrawn
        for row in sorted(frame.collect(), key=lambda row: row.op, reverse=True):  # "-" first
            if row.op == "-":
                del standing[row.match_id]
                withdrawn += 1
            else:
                standing[row.match_id] = (row.user, row["first"], row.n, row.top)

    writer = found.writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    Control(tmp_path / "control").finish(query)
    now = pa.concat_tables([timed.slice(0, 6), new, timed.slice(9, 21), timed.slice(34)])
    expected = [(m["user"], m["first"], m["n"], m["top"]) for m in pattern.matches(now).to_pylist()]
    assert sorted(standing.values()) == sorted(expected)
    assert withdrawn > 0


def commit(rows: pa.Table, kind: str, version: int) -> pa.Table:
    """What a commit did to rows."""
    rows = rows.append_column("_change_type", pa.array([kind] * rows.num_rows))
    rows = rows.append_column("_commit_version", pa.array([version] * rows.num_rows))
    at = pa.array([version] * rows.num_rows, pa.timestamp("us"))
    return rows.append_column("_commit_timestamp", at)


def test_tables_by_name_in_and_out(spark: Any, tables: str) -> None:
    name = f"spark_catalog.{tables}"
    spark.table(f"{name}.events").transform(RISE.matches).write.saveAsTable(f"{name}.rises")
    assert rows(spark.table(f"{tables}.rises").toArrow()) == rows(RISE.matches(EVENTS))
    by_sql = ensue.sql(RISE.sql().replace("FROM input", f"FROM {name}.events"), spark=spark)
    assert rows(by_sql.toArrow()) == rows(RISE.matches(EVENTS))


def test_a_name_alone_is_refused_with_what_to_write() -> None:
    with pytest.raises(errors.UnsupportedInputError, match=r"spark\.table\(name\)"):
        RISE.matches("shop.events")


def test_a_declarative_pipeline(tmp_path: Path) -> None:
    """What `spark-pipelines run` leaves in the tables of `examples/pipeline`."""
    if importlib.util.find_spec("pyspark.pipelines") is None:
        pytest.skip(f"pyspark {pyspark.__version__} has no pipelines")
    if importlib.util.find_spec("yaml") is None:
        pytest.skip("pyyaml, which pyspark's pipelines need, is not installed")
    folder = tmp_path / "pipeline"
    shutil.copytree(PIPELINE, folder, ignore=shutil.ignore_patterns("events", "spark-warehouse"))
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/ensue-orders", str(tmp_path / "storage")))
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    for command in (
        [sys.executable, "events.py"],
        [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run"],
    ):
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    events = pq.read_table(folder / "events")
    tables = {
        name: pq.read_table(folder / "spark-warehouse" / name)
        for name in ("orders", "carts", "orders_so_far")
    }
    order = (
        ensue.pattern("V C+ P")
        .define(V="kind = 'view'", C="kind = 'cart'", P="kind = 'pay'")
        .partition_by("user_id")
        .order_by("ts")
        .within("1 hour")
        .measures(at="FIRST(ts)", carts="COUNT(C.*)", paid="P.amount")
    )
    whole = order.matches(events)
    assert tables["orders"].num_rows == whole.num_rows > 50
    assert sum(tables["orders"]["carts"].to_pylist()) == sum(whole["carts"].to_pylist())
    assert whole.num_rows - 20 < tables["orders_so_far"].num_rows <= whole.num_rows
    purchase = ensue.pattern("cart -> pay", types="kind").partition_by("user_id").order_by("ts")
    assert sum(tables["carts"]["n"].to_pylist()) == purchase.count(events)
