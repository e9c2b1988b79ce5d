"""Row patterns as a workload: exact without a bound, true matches under one, refusals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.api import Pattern


def rows(count: int = 3000, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "t": np.arange(count),
            "u": rng.integers(0, 3, count),
            "kind": rng.choice(list("ABCDE"), count, p=[0.3, 0.1, 0.2, 0.2, 0.2]),
            "x": rng.integers(0, 100, count),
        }
    )


def query(last: str, skip: str = "to next row") -> Pattern:
    return (
        ensue.pattern(f"A N* B M* {last}")
        .define(A="kind = 'A'", N="kind <> 'B'", B="kind = 'B' AND x > A.x",
                M=f"kind NOT IN ('C', '{last}')", **{last: f"kind = '{last}'"})
        .partition_by("u").order_by("t").within("40 rows").after_match(skip)
    )  # fmt: skip


def listed(found: pa.Table) -> list[tuple[object, ...]]:
    return sorted(
        (m.get("pattern"), m["u"], m["first"], tuple((e["label"], e["row"]) for e in m["events"]))
        for m in found.to_pylist()
    )


@pytest.mark.compiled
def test_without_a_bound_the_separate_answers() -> None:
    table = rows()
    named = {"d": query("D"), "e": query("E", "past last row")}
    found = listed(ensue.workload(named).matches(table))
    expected = [
        (name, *match[1:]) for name, q in named.items() for match in listed(q.matches(table))
    ]
    assert found == sorted(expected) and len(found) > 100


@pytest.mark.compiled
def test_a_bound_on_start_rows_keeps_true_matches_and_the_best() -> None:
    table = rows(12_000)
    named = {"d": query("D"), "e": query("E")}
    exact = set(listed(ensue.workload(named).matches(table)))
    load = ensue.workload(named)
    unbounded = load.matches(table, ensue.Budget(work=1000))
    assert set(listed(unbounded)) == exact
    starts = load.report.work / load.report.rows
    for share, least in ((0.5, 0.75), (0.1, 0.2)):
        again = ensue.workload(named)
        found = set(listed(again.matches(table, ensue.Budget(work=share * starts))))
        assert found <= exact
        assert again.report.work <= share * load.report.work * 1.02
        recall = len(found) / len(exact)
        assert recall >= least, (share, recall)
        told = again.report.patterns
        assert sum(e.found for e in told.values()) == len(found)
        assert all(e.low <= e.recall <= e.high for e in told.values())


@pytest.mark.parametrize(("pattern", "says"), [
    (query("D", "past last row"), "depend on each other"),
    (query("D").rows_per_match("all rows with unmatched"), "unmatched"),
    (ensue.pattern("A*").define(A="kind = 'A'").order_by("t").after_match("to next row"), "no row"),
    (query("D").measures(n="MATCH_NUMBER()"), "MATCH_NUMBER"),
])  # fmt: skip
def test_budgets_that_would_make_answers_false_are_refused(pattern: Pattern, says: str) -> None:
    with pytest.raises(ensue.EnsueError, match=says):
        ensue.workload(q=pattern).matches(rows(10), ensue.Budget(work=1))
    with pytest.raises(ensue.EnsueError, match=says):
        pattern.matches(rows(10), budget=ensue.Budget(work=1))


def test_memory_is_no_bound_for_row_patterns() -> None:
    with pytest.raises(ensue.EnsueError, match="bound on memory"):
        ensue.workload(q=query("D")).matches(rows(10), ensue.Budget(memory="1 MB"))


@pytest.mark.compiled
def test_one_pattern_under_a_budget() -> None:
    table = rows()
    q = query("D")
    found = q.matches(table, budget=ensue.Budget(work=1000))
    assert found.column_names == q.matches(table).column_names
    assert listed(found) == listed(q.matches(table))
    with pytest.raises(ensue.EnsueError, match="one latency"):
        q.matches(table, budget=ensue.Budget(latency={"q": "1 ms"}))
