"""`ensue.sql` over Spark Connect, in a process of its own (one kind of session per process)."""

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
spark = SparkSession.builder.remote("local[2]").getOrCreate()
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
try:
    ensue.sql("SELECT * FROM ticks MATCH_RECOGNIZE (MEASURES A.nope AS x PATTERN (A))", spark=spark)
except ensue.EnsueError as problem:
    error = [type(problem).__name__, problem.line]
out = [[list(r) for r in joined.collect()], [list(r) for r in window.collect()], error]
print("RESULT" + json.dumps(out))
spark.stop()
"""


@pytest.mark.xdist_group("connect")  # servers share a port
def test_connect_runs_the_same_statements() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False
    )
    found = [line for line in done.stdout.splitlines() if "RESULT" in line]
    assert found, done.stderr[-3000:]
    joined, window, error = json.loads(found[0].partition("RESULT")[2])
    assert joined == [["a", 3, "x", "{A}"]]
    assert window == [["a", 1, None], ["a", 2, 2], ["a", 3, None], ["b", 1, None]]
    assert error == ["UnknownColumnError", 1]
