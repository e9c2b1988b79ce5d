"""The dry run of an edit on a DataFrame is that on a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import ensue

TABLE = pa.table(
    {
        "user": [user for user in "pq" for _ in range(6)],
        "ts": [*range(6), *range(6)],
        "kind": list("abbcab" + "aabcbc"),
    }
)


def pattern(text: str) -> ensue.Pattern:
    return ensue.pattern(text, types="kind").partition_by("user").order_by("ts")


@pytest.mark.parametrize(("old", "new"), [("a b+ c", "a b c"), ("a -> b", "a ->> b")])
def test_as_in_process(spark: Any, old: str, new: str) -> None:
    frame = spark.createDataFrame(TABLE.to_pandas())
    found = pattern(old).diff(pattern(new), frame)
    assert found.columns == ["op", "user", "first", "last", "events"]
    here = pattern(old).diff(pattern(new), TABLE).to_pylist()
    there = [row.asDict(recursive=True) for row in found.collect()]
    assert here
    assert sorted(map(str, there)) == sorted(map(str, here))
