"""Workloads and budgets over events as they come, held to the batch answer and the exact one."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import ensue
from ensue import errors
from tests.disorder import SCHEMA, arrived, canonical, events, net, withdrawn

AMPLE = ensue.Budget(work=10**9)
SIGMAS = (0, 4, math.inf)
EVENTS = ["A ->> B", "A -> B", "A ->> B ->> C", "A ->> B+ ->> C", "(A | B) ->> C"]


def made(text: str) -> ensue.Pattern:
    return ensue.pattern(text, types="kind").partition_by("key").order_by("t")


def several(chooser: random.Random, rows: bool) -> dict[str, ensue.Pattern]:
    patterns = {}
    for number in range(chooser.randrange(1, 4)):
        pattern = made(chooser.choice(EVENTS))
        if chooser.random() < 0.5:
            pattern = pattern.within(chooser.choice([3, 8]))
        patterns[f"q{number}"] = pattern
    if rows:
        patterns["rows"] = made("A B+")
    return patterns


def by_time(rows: list[dict[str, Any]]) -> list[str]:
    """Matches without the numbers that shift."""
    return canonical([{n: row[n] for n in ("pattern", "key", "first", "last")} for row in rows])


@pytest.mark.parametrize("seed", range(24))
def test_a_workload_as_it_comes_is_the_workload_of_the_table(seed: int) -> None:
    chooser = random.Random(seed)
    patterns = several(chooser, rows=chooser.random() < 0.4)
    work = ensue.workload(patterns)
    matcher = work.matcher(speculation=chooser.choice(SIGMAS), id="id", schema=SCHEMA)
    out, matcher, counted = arrived(matcher, events(chooser, 7), chooser, ensue.restore)
    out.append(matcher.end())
    assert by_time(net(out)) == by_time(work.matches(counted).to_pylist())


@pytest.mark.parametrize("seed", range(16))
def test_under_an_ample_budget_nothing_is_missing(seed: int) -> None:
    chooser = random.Random(seed)
    work = ensue.workload(several(chooser, rows=False))
    matcher = work.matcher(id="id", schema=SCHEMA, budget=AMPLE)
    out, matcher, counted = arrived(matcher, events(chooser, 7), chooser, ensue.restore)
    out.append(matcher.end())
    assert by_time(net(out)) == by_time(work.matches(counted).to_pylist())
    assert withdrawn(out) == 0 and matcher.metrics.shed == 0


def test_a_budget_sheds_and_tells_only_true_matches_under_the_names_of_the_exact_ones() -> None:
    pattern = made("A ->> B ->> C").within(20)
    table = [{"key": "p", "t": t, "id": t, "kind": "ABBC"[t % 4], "x": 0} for t in range(40)]
    bounded = pattern.matcher(schema=SCHEMA, budget=ensue.Budget(work=1))
    exact = pattern.matcher(schema=SCHEMA)
    found: dict[bool, set[str]] = {}
    for matcher, tight in ((bounded, True), (exact, False)):
        told = [matcher.insert(table), matcher.advance(41), matcher.end()]
        found[tight] = {name for part in told for name in part.column("match_id").to_pylist()}
    assert found[True] < found[False] and len(found[False]) > 20
    assert bounded.metrics.shed > 0 and bounded.metrics.recall < 1
    assert bounded.report is not None and exact.report is None
    assert "under a budget" in bounded.explain()


def test_patterns_under_a_budget_come_and_go_at_the_watermark() -> None:
    work = ensue.workload(pairs=made("A ->> B").within(9))
    matcher = work.matcher(schema=SCHEMA, budget=AMPLE)
    rows = [{"key": "p", "t": t, "id": t, "kind": "AB"[t % 2], "x": 0} for t in range(8)]
    out = [matcher.insert(rows), matcher.advance(4)]
    revised = matcher.revise(add={"late": made("B ->> A").within(9)})
    assert revised.lifetimes["late"].begin == 4
    matcher = ensue.restore(matcher.snapshot())
    out += [matcher.advance(6), matcher.revise(remove=["pairs"]).changes, matcher.end()]
    found = [(row["pattern"], row["first"], row["last"]) for row in net(out)]
    pairs = [("pairs", a, b) for a in (0, 2, 4) for b in (1, 3, 5) if a < b]
    assert sorted(found) == sorted([*pairs, ("late", 5, 6)])
    with pytest.raises(errors.UnsupportedError, match="are added and removed at the watermark"):
        matcher.revise(add={"again": (made("A ->> B").within(9), 2)})
    with pytest.raises(errors.QueryError, match="not of one group"):
        matcher.revise(remove=["nobody"])
    assert list(matcher.patterns) == ["late"]


def test_patterns_of_a_workload_are_edited_as_those_of_a_matcher() -> None:
    matcher = ensue.workload(pairs=made("A ->> B"), rows=made("A B+")).matcher(
        speculation=math.inf, schema=SCHEMA
    )
    rows = [{"key": "p", "t": t, "id": t, "kind": "AB"[t % 2], "x": 0} for t in range(4)]
    out = [matcher.insert(rows), matcher.revise(remove={"pairs": 2}).changes]
    assert [(r["first"], r["last"]) for r in net(out) if r["pattern"] == "pairs"] == [(0, 1)]


def test_what_a_matcher_under_a_budget_refuses() -> None:
    with pytest.raises(errors.UnsupportedError, match="nothing can be taken back"):
        made("A ->> B").matcher(schema=SCHEMA, budget=AMPLE, speculation=math.inf)
    with pytest.raises(errors.UnsupportedError, match="cannot run under a budget: after_match"):
        made("A ->> B").after_match("past last row").matcher(schema=SCHEMA, budget=AMPLE)
    with pytest.raises(errors.UnsupportedError, match="it is a row pattern"):
        ensue.workload(rows=made("A B+")).matcher(schema=SCHEMA, budget=AMPLE)
    with pytest.raises(errors.UnsupportedError, match="allow_missing has an evaluator of its own"):
        two = {"a": made("A ->> B").within(3).allow_missing(1), "b": made("A ->> B").within(3)}
        ensue.workload(two).matcher(schema=SCHEMA, budget=AMPLE)
    other = ensue.pattern("A ->> B", types="kind").partition_by("x").order_by("t")
    with pytest.raises(errors.QueryError, match="partitioned or ordered differently"):
        ensue.workload(a=made("A ->> B"), b=other).matcher(schema=SCHEMA)
