"""The funnel of attempts is that of the answers per start row."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import ensue
from ensue import errors

TABLE = pa.table(
    {
        "user": [user for user in "pqr" for _ in range(6)],
        "ts": [*range(6)] * 3,
        "kind": list("abbcab" + "aabcbc" + "cccaab"),
    }
)
PATTERNS = ["a b+ c", "a b{2} c", "b $", "^ a b", "a -> b ->> c", "a -> !c -> b b"]


@pytest.mark.parametrize("text", PATTERNS)
def test_counts_of_the_answers_per_start(text: str) -> None:
    pattern = ensue.pattern(text, types="kind").partition_by("user").order_by("ts")
    starts = pattern.why(TABLE, per="start").to_pylist()
    tried = [row for row in starts if row["reason"] != "consumed"]
    stopped = Counter((row["variable"], row["reason"]) for row in tried if row["reason"])
    reached = Counter(name for row in tried for name in set(row["matched"]))
    *places, last = pattern.funnel_of_attempts(TABLE).to_pylist()
    assert last["reached"] == sum(row["reason"] is None for row in tried)
    assert {(r["variable"], r["reason"]): r["stopped"] for r in places if r["reason"]} == stopped
    for row in places:
        assert row["reached"] == reached[row["variable"]]
    assert last["reached"] + sum(row["stopped"] for row in places) == len(tried)
    numbers = [row["place"] for row in places]
    assert numbers == sorted(numbers)


def test_no_rows_and_unknown_columns() -> None:
    pattern = ensue.pattern("a b", types="kind").order_by("ts")
    rows = pattern.funnel_of_attempts(TABLE.slice(0, 0)).to_pylist()
    assert [(row["variable"], row["reached"]) for row in rows] == [("a", 0), ("b", 0), (None, 0)]
    with pytest.raises(errors.UnknownColumnError):
        pattern.define(b="nothing > 1").funnel_of_attempts(TABLE)
