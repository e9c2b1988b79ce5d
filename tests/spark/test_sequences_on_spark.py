"""Event patterns on Spark give what they give in process: many cases to a job."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from tests import sequence_specs

GROUP = 22
CASES = sequence_specs.cases()[::3]  # a Spark stage each; all of them run in process
GROUPS = [CASES[i : i + GROUP] for i in range(0, len(CASES), GROUP)]


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_specs(spark: Any, number: int) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    united = None
    for index, case in enumerate(GROUPS[number]):
        found = case.pattern.matches(spark.createDataFrame(case.table).coalesce(1))
        tagged = found.select(F.lit(index).alias("case"), "events")
        united = tagged if united is None else united.union(tagged)
    rows: dict[int, list[dict[str, Any]]] = {index: [] for index in range(len(GROUPS[number]))}
    for row in united.collect():  # type: ignore[union-attr]
        rows[row["case"]].append(row.asDict(recursive=True))
    for index, case in enumerate(GROUPS[number]):
        assert sequence_specs.shown(rows[index]) == case.expected, str(case)


EVENTS = pa.table(
    {
        "user": ["u"] * 6 + ["v"] * 4,
        "id": [0, 1, 2, 3, 4, 5, 0, 1, 2, 3],
        "kind": list("ABXBCC") + list("ABBC"),
        "x": [1, 2, 3, 4, 5, 6, 1, 5, 2, 9],
    }
)


def same(spark: Any, run: Any) -> None:
    local = run(EVENTS)
    remote = run(spark.createDataFrame(EVENTS))
    assert remote.columns == local.column_names
    key = str
    assert sorted((r.asDict(recursive=True) for r in remote.collect()), key=key) == sorted(
        local.to_pylist(), key=key
    )


def test_measures_and_correlated_conditions(spark: Any) -> None:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").define(B="x > A.x", C="x > LAST(B.x)")
    pattern = pattern.partition_by("user").order_by("id").within(5)
    same(spark, pattern.measures(n="COUNT(B.*)", last="LAST(B.x)", past="PREV(C.x)").matches)
    same(spark, pattern.matches)


def test_aggregates(spark: Any) -> None:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("id")
    asked = {"n": "count(*)", "s": "sum(B.x)", "a": "avg(B.x)", "m": "max(C.x)"}
    same(spark, lambda data: pattern.aggregate(data, **asked))
    same(spark, lambda data: pattern.aggregate(data, by="user", **asked))
    same(spark, lambda data: pattern.aggregate(data, every=2, slide=1, **asked))
    frame = spark.createDataFrame(EVENTS)
    assert pattern.count(frame) == pattern.count(EVENTS) == len(pattern.matches(EVENTS))


def test_timeouts(spark: Any) -> None:
    pattern = ensue.pattern("A -> B -> C", types="kind").partition_by("user").order_by("id")
    same(spark, lambda data: pattern.within(2).matches(data, timeouts=True))


def test_too_many_matches_reach_the_driver(spark: Any) -> None:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("id")
    found = pattern.matches(spark.createDataFrame(EVENTS), max_matches=2)
    with pytest.raises(Exception, match="max_matches is 2"):
        found.collect()
    assert issubclass(errors.LimitError, errors.EnsueError)
