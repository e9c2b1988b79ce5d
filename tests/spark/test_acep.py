"""Patterns with events missing on Spark give what they give in process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.api import Pattern

_CHANCE = np.random.default_rng(3)
EVENTS = pa.table(
    {
        "user": _CHANCE.integers(0, 5, 120),
        "id": np.arange(120),
        "kind": _CHANCE.choice(list("ABCX"), 120),
        "x": _CHANCE.integers(0, 6, 120),
    }
)


def asked(**define: str) -> Pattern:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("id")
    return pattern.within(30).define(**define)


def rows(found: Any) -> list[str]:
    if isinstance(found, pa.Table):
        return sorted(map(str, found.to_pylist()))
    return sorted(str(row.asDict(recursive=True)) for row in found.collect())


CASES = {
    "exact": (asked().allow_missing(1), None),
    "weights": (asked().allow_missing(1, missing={"A": 0.5}, required=["C"]), None),
    "conditions": (asked(B="x >= A.x").allow_missing(1), None),
    "measures": (asked().measures(top="MAX(B.x)").allow_missing(1), None),
    "budget above need": (asked().allow_missing(1), ensue.Budget(work=10**9)),
}


@pytest.mark.parametrize("name", CASES)
def test_like_in_process(spark: Any, name: str) -> None:
    pattern, budget = CASES[name]
    local = pattern.matches(EVENTS, budget=budget)
    remote = pattern.matches(spark.createDataFrame(EVENTS), budget=budget)
    assert remote.columns == local.column_names
    assert rows(remote) == rows(local)


def test_a_small_budget_reports_true_matches(spark: Any) -> None:
    pattern = asked().allow_missing(1, history=2)
    frame = spark.createDataFrame(EVENTS)
    exact = set(rows(pattern.matches(frame).drop("match_number")))
    some = rows(pattern.matches(frame, budget=ensue.Budget(work=1)).drop("match_number"))
    assert 0 < len(some) < len(exact) and set(some) <= exact
    assert pattern.count(frame) == len(exact)
