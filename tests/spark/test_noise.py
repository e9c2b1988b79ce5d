"""A refused query says what Ensue has to say, and nothing else reaches the terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import ensue
from ensue.spark.errors import own_errors
from ensue.spark.session import local_session

spark, _ = local_session()
df = spark.createDataFrame([("a", t, float(t)) for t in range(9)], "k string, t int, x double")
df.createOrReplaceTempView("df")
CLAUSE = "MATCH_RECOGNIZE (MEASURES nosuch(A.x) AS m PATTERN (A))"
base = ensue.pattern("A B+").partition_by("k").order_by("t")
pair = ensue.pattern("A -> B").partition_by("k").order_by("t").define(B="x > 1")
wrong = pair.define(A="nosuch(x) > 1").measures(m="B.x")  # filtered before the shuffle
rate = spark.readStream.format("rate").load().selectExpr("'a' AS k", "timestamp AS t", "value AS x")
stream = rate.withWatermark("t", "1 second")
refused = [
    lambda: base.define(B="nosuch(x) > 1").matches(df),
    lambda: base.define(B="x > 1").measures(m="nosuch(LAST(B.x))").matches(df),
    lambda: base.define(B="size(x) > 1").matches(df),
    lambda: ensue.sql(f"SELECT * FROM df {CLAUSE}"),
    lambda: ensue.sql(f"SELECT * FROM (SELECT y FROM df) {CLAUSE}"),
    lambda: base.define(B="nosuch(x) > 1").explain(df),
    lambda: base.define(B="nosuch(x) > 1").matches(stream),
    lambda: wrong.matches(df),
    lambda: wrong.count(df),
    lambda: ensue.workload(one=wrong, two=pair.define(A="x > 2").measures(m="B.x")).matches(df),
    lambda: pair.define(A="x > 2").aggregate(df, n="nosuch(count(*))"),
    lambda: pair.define(A="x > 2").aggregate(stream, n="nosuch(count(*))"),
    lambda: pair.define(A="1 / t > 0").count(df),
    lambda: base.define(B="1 / t > 0").matches(df).collect(),
    lambda: base.define(B="x > 1").after_match("to first A").count(df),
    lambda: base.define(B="x > 1").after_match("to first A").matches(df).collect(),
]
for query in refused:
    try:
        with own_errors():
            query()
    except Exception as problem:
        text = str(problem)
        if not isinstance(problem, ensue.EnsueError):
            text = text.splitlines()[0]
        print(f"{type(problem).__name__}: {text}", file=sys.stderr)
"""


COMPILING = "ensue: compil"  # lines of Ensue's that a first run has
ABOUT_PANDAS = "ignore:PySpark does not yet fully support pandas"  # Spark's word on pandas 3
CONDITION = "ColumnTypeError: Spark rejects the condition NOSUCH(`x`) > 1: [UNRESOLVED_ROUTINE]"
GUARD = "What to do: guard the expression (nullif, try_cast, IF), or leave such rows out"
CHECK = "What to do: check column names, types and functions of this expression"
SKIP = [
    "SkipTargetError: AFTER MATCH SKIP TO A: the row labelled A is the first row of the match, so "
    "matching would never end, in the match that starts at row 1 (counted from 0) of its partition "
    "(k = 'a')",
    "What to do: skip to another variable, to the next row or past the last row",
]


def lines_of(*arguments: str) -> list[str]:
    """What a Python with these arguments writes to standard error."""
    done = subprocess.run(
        [sys.executable, "-W", ABOUT_PANDAS, *arguments],
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == ""
    return [line for line in done.stderr.splitlines() if not line.startswith(COMPILING)]


def check(lines: list[str], beginnings: list[str]) -> None:
    """Line by line; how Spark words the rest depends on its version."""
    assert [
        line[: len(begin)] for line, begin in zip(lines, beginnings, strict=False)
    ] == beginnings
    assert lines[len(beginnings) :] == []


def test_stderr_has_only_our_lines() -> None:
    expected = [
        CONDITION,
        CHECK,
        "ColumnTypeError: Spark rejects the measure m: [UNRESOLVED_ROUTINE]",
        CHECK,
        "ColumnTypeError: Spark rejects the condition SIZE(`x`) > 1: [DATATYPE_MISMATCH",
        CHECK,
        "ColumnTypeError: line 1, column 18: Spark rejects the measure m: [UNRESOLVED_ROUTINE]",
        "  SELECT * FROM df MATCH_RECOGNIZE (",  # the statement, and a mark below the place
        "                   ^",
        CHECK,
        "AnalysisException: [UNRESOLVED_COLUMN",
        *[CONDITION, CHECK] * 5,
        *["ColumnTypeError: Spark rejects the measure n: [UNRESOLVED_ROUTINE]", CHECK] * 2,
        *["DataError: Spark cannot compute 1 / `t`: [DIVIDE_BY_ZERO] Division by zero.", GUARD] * 2,
        *SKIP,
        *SKIP,
    ]
    check(lines_of("-c", SCRIPT), expected)


def test_the_command_line_shows_no_stack(tmp_path: Path) -> None:
    statement = tmp_path / "query.sql"
    statement.write_text("SELECT * FROM nowhere MATCH_RECOGNIZE (MEASURES A.y AS m PATTERN (A))")
    lines = lines_of("-m", "ensue.cli", "run", str(statement))
    told = "SparkFailureError: the statement reads `nowhere`, a table that is not there"
    assert lines[0] == told
    assert lines[-1] == "What to do: give its file: --table nowhere=..., or correct the name"
    assert not [line for line in lines if line.startswith(("{", "\tat", "'", "+-", "Traceback"))]
