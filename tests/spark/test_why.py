"""Why it did not match: on a DataFrame as in process."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors

TABLE = pa.table(
    {
        "user": [user for user in "pqr" for _ in range(6)],
        "ts": [*range(6)] * 3,
        "kind": list("abbcab" + "aabcbc" + "cccaab"),
        "x": [1.5, 2.0, None, 4.0, 1.0, 2.0] * 3,
    }
)
PATTERNS = [
    ensue.pattern("a b+ c c", types="kind"),
    ensue.pattern("A B{3}").define(A="kind = 'a' AND x > 1", B="x > LAST(A.x) AND kind <> 'c'"),
    ensue.pattern("a b b b", types="kind").within(2),
    ensue.pattern("a -> b ->> c -> a", types="kind").without(end="x > 3"),
    ensue.pattern("A B{3}[strict] ->> C").define(
        A="kind = 'a'", B="x > A.x", C="upper(kind) = 'B'"
    ),
    ensue.pattern("A B+").define(A="rlike(kind, '[ab]')", B="x < PREV(x) AND upper(kind) = 'C'"),
]


@pytest.mark.parametrize("per", ["partition", "start"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_as_in_process(spark: Any, pattern: ensue.Pattern, per: str) -> None:
    frame = spark.createDataFrame(TABLE)
    asked = pattern.partition_by("user").order_by("ts")
    found = asked.why(frame, per=per)
    here = asked.why(TABLE, per=per)
    assert found.columns == here.column_names
    assert [row for row in here.to_pylist() if row["reason"]]
    there = [row.asDict(recursive=True) for row in found.collect()]
    assert sorted(map(str, there)) == sorted(map(str, here.to_pylist()))


def test_the_trace_is_that_in_process(spark: Any) -> None:
    frame = spark.createDataFrame(TABLE.append_column("user.id", TABLE["user"]))
    for pattern in (PATTERNS[1], PATTERNS[3]):
        here = pattern.partition_by("user").order_by("ts").trace(TABLE, "q")
        there = pattern.partition_by("user.id").order_by("ts").trace(frame, "q")
        assert there.to_pylist() == here.to_pylist()
    asked = PATTERNS[4].partition_by("user").order_by("ts")
    told = [asked.why(data, events={"A": 0, "B": [1, 2]}, key="p") for data in (TABLE, frame)]
    assert told[0].to_pylist() == told[1].to_pylist()
    assert told[0]["reason"].to_pylist() == ["null"]


def test_the_nearest_are_those_in_process(spark: Any) -> None:
    frame = spark.createDataFrame(TABLE).repartition(3)
    anywhere = ensue.pattern("a ->> b ->> c ->> d", types="kind")
    for pattern in (PATTERNS[0], PATTERNS[3], anywhere, anywhere.allow_missing(2)):
        asked = pattern.partition_by("user").order_by("ts")
        here = asked.nearest(TABLE, 4)
        there = asked.nearest(frame, 4)
        assert there.columns == here.column_names
        assert [row.asDict(recursive=True) for row in there.collect()] == here.to_pylist()


def test_names_with_dots_and_no_order(spark: Any) -> None:
    frame = spark.createDataFrame(TABLE).withColumnRenamed("user", "user.id")
    asked = ensue.pattern("a c", types="kind").partition_by("user.id").order_by("ts")
    answer = asked.why(frame)
    assert answer.columns[0] == "user.id"
    assert {row["user.id"] for row in answer.collect()} == {"p", "q", "r"}
    with pytest.raises(errors.MissingOrderError):
        ensue.pattern("a c", types="kind").why(frame)


def test_sql(spark: Any) -> None:
    clause = """MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES LAST(B.ts) AS ts
      ONE ROW PER MATCH PATTERN ({}) DEFINE B AS {}) AS {}"""
    inner = "(SELECT * FROM why_events " + clause.format("A B+", "x > PREV(x)", "m") + ")"
    text = f"SELECT user FROM {inner} {clause.format('A B', 'B.ts < A.ts', 'n')}"
    spark.createDataFrame(TABLE).createOrReplaceTempView("why_events")
    there = ensue.sql(text, spark=spark, why=True)
    here = ensue.sql(text, why=True, why_events=TABLE)
    assert there.columns == here.column_names
    rows = [row.asDict(recursive=True) for row in there.collect()]
    assert sorted(map(str, rows)) == sorted(map(str, here.to_pylist()))
    assert len(rows) == 6 and {row["reason"] for row in rows} >= {"condition"}


def test_a_stream_is_refused(spark: Any) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(errors.UnsupportedError, match="complete partitions"):
        ensue.pattern("A B").order_by("timestamp").why(stream)


@pytest.mark.parametrize("pattern", PATTERNS[::2], ids=str)
def test_the_funnel_is_that_in_process(spark: Any, pattern: ensue.Pattern) -> None:
    asked = pattern.partition_by("user").order_by("ts")
    there = asked.funnel_of_attempts(spark.createDataFrame(TABLE)).collect()
    here = asked.funnel_of_attempts(TABLE).to_pylist()
    assert [row.asDict() for row in there] == here
    none = asked.funnel_of_attempts(spark.createDataFrame(TABLE).where("ts < 0")).collect()
    assert [row["variable"] for row in none] == [
        row["variable"] for row in asked.funnel_of_attempts(TABLE.slice(0, 0)).to_pylist()
    ]


def test_an_automaton_as_in_process(spark: Any) -> None:
    frame = spark.createDataFrame(TABLE).repartition(3)
    asked = (
        ensue.Automaton({"n": "bigint"}, partition_by="user", within=3)
        .arc("q0", "q1", when="kind = 'a'", set={"n": "n + 1"})
        .arc("q1", "q1", when="kind <> 'c'", set={"n": "n + 1"})
        .arc("q1", "q2", when="x > n AND kind = 'c'")
        .final("q2")
    )
    for per in ("partition", "start"):
        here, there = asked.why(TABLE, per=per), asked.why(frame, per=per)
        assert there.columns == here.column_names
        rows = [row.asDict(recursive=True) for row in there.collect()]
        assert sorted(map(str, rows)) == sorted(map(str, here.to_pylist()))
    told = [row.asDict() for row in asked.funnel_of_attempts(frame).collect()]
    assert told == asked.funnel_of_attempts(TABLE).to_pylist()
    near = [row.asDict() for row in asked.nearest(frame, 5).collect()]
    assert near == asked.nearest(TABLE, 5).to_pylist() != []
    assert asked.trace(frame, "q").to_pylist() == asked.trace(TABLE, "q").to_pylist()
    with pytest.raises(errors.UnsupportedError, match="complete partitions"):
        asked.why(spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts"))
