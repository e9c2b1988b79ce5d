"""The same code over Spark Connect, in a process of its own (one kind of session per process)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_stream import PATTERN, events, files

# A server and what it needs take longer to start than all the questions.
SCRIPT = """
import json, os, sys
from pathlib import Path
import ensue
from ensue.java import ensure_java
from ensue.spark.errors import own_errors
ensure_java()
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark.test_stream import PATTERN, stream_of
folder = Path(sys.argv[1])
spark = SparkSession.builder.remote("local[2]").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.conf.set("spark.sql.shuffle.partitions", "2")
out = {}

found = PATTERN.matches(stream_of(spark, folder / "in"), lanes=4)
writer = found.writeStream.format("parquet").option("path", str(folder / "out"))
writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
query = writer.trigger(availableNow=True).start()

rows = [("a", i, float((i * 7) % 5)) for i in range(20)]
rows += [("b", i, float(i % 3)) for i in range(9)]
df = spark.createDataFrame(rows, "k string, t int, x double")
near = (
    ensue.pattern("A B+ C+").define(B="x < PREV(x)", C="x > PREV(x)")
    .partition_by("k").order_by("t").measures(n="COUNT(*)", low="LAST(B.x)", s="concat(k, '!')")
)
far = ensue.pattern("A B+").define(B="B.x > A.x AND SUM(B.x) < 9").partition_by("k").order_by("t")
out["matches"] = {
    "near": sorted(map(list, near.matches(df).collect())),
    "step": sorted(map(list, df.transform(near.matches).collect())),
    "far": far.count(df),
    "near_local": sorted(map(list, near.matches(df.toArrow()).to_pandas().values.tolist())),
    "far_local": far.count(df.toArrow()),
}
events, b = {"A": 1, "B": 2}, {"k": "b"}
asked = {
    "why": far.why,
    "funnel": far.funnel_of_attempts,
    "nearest": far.nearest,
    "missing": ensue.pattern("A ->> B").define(B="x > A.x + 3").order_by("t").nearest,
    "trace": lambda rows: far.trace(rows, "b"),
    "rows": lambda rows: far.why(rows, events=events, key=b),
}
out["why"] = {}
for name, ask in asked.items():
    there, here = ask(df), ask(df.toArrow())
    there = there.toArrow() if hasattr(there, "toArrow") else there
    out["why"][name] = [sorted(map(str, told.to_pylist())) for told in (there, here)]
try:
    ensue.pattern("A").define(A=F.col("k") == "a")
except ensue.EnsueError as problem:
    out["matches"]["column"] = type(problem).__name__

rows = [("a", 1, 3), ("a", 2, 2), ("a", 3, 5), ("b", 1, 1)]
spark.createDataFrame(rows, "k string, t int, v int").createOrReplaceTempView("ticks")
joined = ensue.sql('''
    WITH m AS (SELECT * FROM ticks MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY t MEASURES COUNT(*) AS n, (SELECT 'x') AS x
      PATTERN (A B+) DEFINE B AS v <> PREV(v)) AS q)
    SELECT m.*, z.name FROM m JOIN (VALUES ('a', '{A}')) z(k, name) ON z.k = m.k''', spark=spark)
window = ensue.sql('''
    SELECT k, t, n OVER w FROM ticks WINDOW w AS (
      PARTITION BY k ORDER BY t MEASURES COUNT(*) AS n
      ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING AFTER MATCH SKIP TO NEXT ROW SEEK
      PATTERN (A B) DEFINE B AS v > PREV(v)) ORDER BY k, t''', spark=spark)
# What the client writes to standard error while queries are refused.
sys.stderr.flush()
terminal = os.dup(2)
os.dup2(os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT), 2)
try:
    ensue.sql("SELECT * FROM ticks MATCH_RECOGNIZE (MEASURES A.nope AS x PATTERN (A))", spark=spark)
except ensue.EnsueError as problem:
    error = [type(problem).__name__, problem.line]
clause = "ticks MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES 1 AS n PATTERN (A A A A))"
told = ensue.sql("SELECT * FROM " + clause, spark=spark, why=True)
out["why"]["sql"] = sorted([r["k"], r["reason"]] for r in told.collect())
try:
    near.define(A="nosuch(x) > 1").matches(df)
except ensue.EnsueError as problem:
    out["matches"]["refused"] = type(problem).__name__
try:
    with own_errors():
        near.after_match("to first A").matches(df).collect()
except ensue.EnsueError as problem:
    out["matches"]["raised"] = type(problem).__name__
sys.stderr.flush()
os.dup2(terminal, 2)
out["heard"] = [
    line for line in (folder / "stderr").read_text().splitlines() if "ensue: compil" not in line
]
out["sql"] = [[list(r) for r in joined.collect()], [list(r) for r in window.collect()], error]

# A task that waits until the handler was told of it.
import time
import ensue.run.spark.watch as watch
seen, told = folder / "seen", []
def show(state):
    told.append([state.done, state.total])
    seen.touch()
def held(batches):
    patience = time.monotonic() + 60
    for batch in batches:
        while not seen.exists() and time.monotonic() < patience:
            time.sleep(0.05)
        yield batch
with watch._handling(spark, show):
    spark.range(0, 8, 1, 2).mapInArrow(held, "id long").collect()
out["progress"] = told

query.awaitTermination(120)
out["stream"] = spark.read.parquet(str(folder / "out")).count()
print("RESULT" + json.dumps(out))
spark.stop()
"""
EVENTS = events(120)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("connect")
    files(EVENTS, folder / "in")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "SPARK_TESTING": "1"},  # a free port, so that servers do not collide
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if "RESULT" in line]
    assert found, done.stderr[-3000:]
    assert "QueryContextLogger" not in done.stderr  # a refusal is Ensue's to tell
    result: dict[str, Any] = json.loads(found[0].partition("RESULT")[2])
    return result


def test_the_same_matches(answers: dict[str, Any]) -> None:
    out = answers["matches"]
    assert out["near"] == out["near_local"] == out["step"]
    assert len(out["near"]) > 3
    assert out["far"] == out["far_local"] > 2
    assert out["column"] == "UnsupportedInputError"
    assert out["refused"] == "ColumnTypeError"
    assert out["raised"] == "SkipTargetError"
    assert answers["heard"] == []


def test_progress_is_reported(answers: dict[str, Any]) -> None:
    assert answers["progress"]
    assert all(0 <= done <= total and total for done, total in answers["progress"])


def test_the_same_statements(answers: dict[str, Any]) -> None:
    joined, window, error = answers["sql"]
    assert joined == [["a", 3, "x", "{A}"]]
    assert window == [["a", 1, None], ["a", 2, 2], ["a", 3, None], ["b", 1, None]]
    assert error == ["UnknownColumnError", 1]


def test_the_same_reasons(answers: dict[str, Any]) -> None:
    told = dict(answers["why"])
    assert told.pop("sql") == [["a", "end"], ["b", "end"]]
    for name, (there, here) in told.items():
        assert there == here, name
        assert here, name


def test_the_same_stream(answers: dict[str, Any]) -> None:
    whole = PATTERN.matches(EVENTS).num_rows
    assert whole - 12 < answers["stream"] <= whole
