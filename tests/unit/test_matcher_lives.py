"""Whatever the order of arrival, copies, corrections, restarts and edits: the net is the answer.

`ENSUE_LIVES=2000` runs thousands of random lives; by default there are a few hundred.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import ensue
from ensue import errors
from ensue.operator import segments
from tests.generate import generated_case, query_texts, tables
from tests.matcher_runs import SIGMAS, Life

LIVES = int(os.environ.get("ENSUE_LIVES", "30"))
thorough = settings(
    max_examples=LIVES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.fixture(autouse=True, params=[1, 3])
def short_segments(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """So that a dozen events lie in several segments."""
    monkeypatch.setattr(segments, "SPACING", request.param)


def sigma_of(chooser: random.Random, query: Any) -> Any:
    sigma = chooser.choice(SIGMAS)
    if sigma in (1, 4) and query.order_by[0].column == "ts":
        return f"{sigma} s"
    return sigma


@thorough
@given(query_texts(), tables(), st.sampled_from(["t", "ts", "id"]), st.integers(0, 10**6))
def test_row_patterns(query_text: dict[str, Any], table_text: str, order: str, seed: int) -> None:
    if isinstance(query_text.get("within"), int):
        order = "t"
    elif str(query_text.get("within", "")).endswith("s") and "rows" not in query_text["within"]:
        order = "ts"
    chooser = random.Random(seed)
    case = generated_case(query_text | {"order_by": order}, table_text)
    query, table = case.query(), case.table
    assume(table.num_rows)
    identity = chooser.choice([None, "id"])
    edits = {"first": query, "second": query} if chooser.random() < 0.3 else {}
    life = Life(query, table, chooser, sigma_of(chooser, query), identity, edits)
    try:
        life.check()
    except errors.SkipTargetError:
        return


PATTERNS = [
    "A -> B", "A ->> B", "A ->> B+ ->> C", "A -> B+ -> C", "A B", "A ->> B? ->> C", "A -> (B | C)",
    "A -> !X -> B", "A ->> !C", "A ->> B -> !X", "(A | B) ->> C", "A{2} ->> B", "A ->> A",
]  # fmt: skip
STRATEGIES = ["past last row", "to next row", "to last A", "no skip", "no skip"]
CONDITIONS = ["x > A.x", "SUM(B.x) < 6", "x > PREV(x)", "x < NEXT(x)"]


def event_query(chooser: random.Random) -> Any:
    text = chooser.choice(PATTERNS)
    pattern = ensue.pattern(text, types="kind").partition_by("key").order_by("t").select("any")
    if "B" in text and chooser.random() < 0.4:
        pattern = pattern.define(B=chooser.choice(CONDITIONS))
    if "!" in text or chooser.random() < 0.6:
        pattern = pattern.within(chooser.choice([1, 3, 6]))
    if chooser.random() < 0.4:
        pattern = pattern.after_match(chooser.choice(STRATEGIES))
    if chooser.random() < 0.4:
        pattern = pattern.measures(n="COUNT(*)", m="SUM(A.x)", p="PREV(A.x)", q="NEXT(A.x)")
    return pattern.query


def events(chooser: random.Random) -> pa.Table:
    """Three keys; the times of a key differ."""
    rows = []
    for key in "pqr"[: chooser.randrange(1, 4)]:
        for time in chooser.sample(range(14), chooser.randrange(2, 11)):
            kind = chooser.choice("AABBBCX")
            rows.append(
                {"key": key, "t": time, "id": len(rows), "kind": kind, "x": chooser.randrange(4)}
            )
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("seed", range(LIVES))
def test_event_patterns(seed: int) -> None:
    chooser = random.Random(seed)
    for _ in range(2):
        query = event_query(chooser)
        edits = {"first": query, "second": event_query(chooser)} if chooser.random() < 0.4 else {}
        if edits and edits["second"].measures != query.measures:
            del edits["second"]
        sigma = chooser.choice(SIGMAS)
        settle = chooser.choice([None, None, 0, 3]) if sigma else None
        identity = chooser.choice([None, "id"])
        life = Life(query, events(chooser), chooser, sigma, identity, edits, settle=settle)
        life.check()
