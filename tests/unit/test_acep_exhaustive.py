"""Matches with events missing against the oracle: small patterns times all short streams."""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue.api.pattern import Pattern
from tests import oracle_acep
from tests.short_streams import rows_of, table

STREAMS = [
    "".join(letters)
    for length in range(1, 5)
    for letters in itertools.product("ABCX"[: 4 if length < 4 else 3], repeat=length)
] + ["ABCAB", "BACBA", "CABCA", "AABBC", "ABXCB", "CCABB"]
PATTERNS = [
    "A", "A ->> B", "A ->> B ->> C", "A ->> (B | C)", "A ->> (B | C) ->> A ->> B", "A ->> B+",
    "A ->> B+ ->> C", "A ->> B* ->> C", "A ->> B? ->> C", "A ->> B{2} ->> C", "A ->> B{1,2}",
    "A ->> B{2,}", "A ->> (B ->> C)+", "A ->> (B ->> C | C)", "A ->> PERMUTE(B, C)",
    "A ->> (B | B ->> C)* ->> A", "(A | B) ->> (B | C)", "A ->> A ->> A",
]  # fmt: skip


EVENTS = table(STREAMS)
ROWS = rows_of(EVENTS)


def listed(found: pa.Table) -> dict[int, dict[Any, Any]]:
    """Per stream: each match with its cost and what is missing where; repeated ones fail."""
    answers: dict[int, dict[Any, Any]] = defaultdict(dict)
    for match in found.to_pylist():
        pairs = tuple((e["label"], e["row"]) for e in match["events"])
        gone = tuple(zip(match["missing_at"], match["missing"], strict=True))
        assert pairs not in answers[match["stream"]], pairs
        answers[match["stream"]][pairs] = (Fraction(str(match["errors"])), gone)
    return answers


def asked(pattern: Pattern, k: float, **options: Any) -> Pattern:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pattern.allow_missing(k, **options).partition_by("stream").order_by("id")


def check(pattern: Pattern, events: pa.Table = EVENTS) -> None:
    got = listed(pattern.matches(events))
    for number, rows in rows_of(events).items() if events is not EVENTS else ROWS.items():
        expected = oracle_acep.matches(pattern.query, rows)
        letters = "".join(row["kind"] for row in rows)
        assert got[number] == expected, f"{pattern} on {letters}"


def said(text: str) -> Pattern:
    return ensue.pattern(text, types="kind").select("any")


@pytest.mark.parametrize("text", PATTERNS)
@pytest.mark.parametrize("k", [0, 1, 2])
def test_all_short_streams(text: str, k: int) -> None:
    check(asked(said(text), k))


@pytest.mark.parametrize("text", PATTERNS[::2])
def test_windows(text: str) -> None:
    check(asked(said(text).within(2), 1))
    check(asked(said(text).within("2 rows"), 2))


@pytest.mark.parametrize("text", PATTERNS)
def test_nothing_missing_is_the_exact_evaluator(text: str) -> None:
    exact = said(text).partition_by("stream").order_by("id").within(3)
    none = asked(said(text).within(3), 0)
    got = none.matches(EVENTS)
    assert set(got["errors"].to_pylist()) <= {0}
    assert all(not gone for gone in got["missing"].to_pylist())
    plain = sorted(map(str, exact.matches(EVENTS).select(["stream", "events"]).to_pylist()))
    assert sorted(map(str, got.select(["stream", "events"]).to_pylist())) == plain


@pytest.mark.parametrize("text", ["A ->> B ->> C", "A ->> B+ ->> C", "A ->> (B | C) ->> A"])
def test_weights_and_required(text: str) -> None:
    check(asked(said(text), 1.5, missing={"A": 0.5, "B": 1.5, "C": 0.75}))
    check(asked(said(text), 0.3, missing={"A": 0.1, "B": 0.2}))
    check(asked(said(text), 2, required=["B"]))
    check(asked(said(text), 1, missing={"A": 0}, required=["C"] if "C" in text else []))


CORRELATED = [
    "x > A.x",
    "x >= LAST(B.x, 1) OR COUNT(B.*) = 1",
    "SUM(B.x) < 6",
    "x > FIRST(B.x) AND x > A.x",
    "LAST(x, 1) < x",
]


@pytest.mark.parametrize("condition", CORRELATED)
@pytest.mark.parametrize("text", ["A ->> B+ ->> C", "A? ->> B ->> (B | C)"])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_conditions_on_other_events(condition: str, text: str, k: int) -> None:
    streams = [*STREAMS[:: 7 - k], "ABBC", "BBAC", "ABCB"]
    check(asked(said(text).define(B=condition), k), table(streams))


def test_neighbours() -> None:
    check(asked(said("A ->> B ->> C").define(B="PREV(x) < x", C="NEXT(x) <> 3"), 1))


def test_one_event_may_be_two_labels() -> None:
    either = ensue.pattern("P ->> Q ->> R").select("any")
    either = either.define(P="kind IN ('A', 'B')", Q="kind IN ('B', 'C')", R="kind <> 'A'")
    check(asked(either, 1))
