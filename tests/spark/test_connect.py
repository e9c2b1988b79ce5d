"""The same code over Spark Connect, in a process of its own (one kind of session per process)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json
import ensue
from ensue.java import ensure_java
ensure_java()
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
spark = SparkSession.builder.remote("local[2]").getOrCreate()
rows = [("a", i, float((i * 7) % 5)) for i in range(20)]
rows += [("b", i, float(i % 3)) for i in range(9)]
df = spark.createDataFrame(rows, "k string, t int, x double")
near = (
    ensue.pattern("A B+ C+").define(B="x < PREV(x)", C="x > PREV(x)")
    .partition_by("k").order_by("t").measures(n="COUNT(*)", low="LAST(B.x)", s="concat(k, '!')")
)
far = ensue.pattern("A B+").define(B="B.x > A.x AND SUM(B.x) < 9").partition_by("k").order_by("t")
out = {
    "near": sorted(map(list, near.matches(df).collect())),
    "far": far.count(df),
    "near_local": sorted(map(list, near.matches(df.toArrow()).to_pandas().values.tolist())),
    "far_local": far.count(df.toArrow()),
}
try:
    ensue.pattern("A").define(A=F.col("k") == "a")
except ensue.EnsueError as problem:
    out["column"] = type(problem).__name__
print("RESULT" + json.dumps(out))
spark.stop()
"""


@pytest.mark.xdist_group("connect")  # servers share a port
def test_connect_gives_the_same_matches() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert found, done.stderr[-3000:]
    out = json.loads(found[0].removeprefix("RESULT"))
    assert out["near"] == out["near_local"]
    assert len(out["near"]) > 3
    assert out["far"] == out["far_local"] > 2
    assert out["column"] == "UnsupportedInputError"
