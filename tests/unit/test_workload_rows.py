"""Row patterns as a workload: exact without a bound, true matches under one, refusals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.api.pattern import Pattern


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


@pytest.mark.compiled
def test_a_history_teaches_which_start_rows_to_keep() -> None:
    named = {"d": query("D"), "e": query("E")}
    recalls: dict[str, list[float]] = {"taught": [], "untaught": []}
    for seed in range(4):
        table, past = rows(3000, seed), rows(9000, seed + 100)
        load = ensue.workload(named)
        exact = set(listed(load.matches(table, ensue.Budget(work=1000))))
        starts = load.report.work
        bound = ensue.Budget(work=0.4 * starts / table.num_rows)
        for name, history in (("taught", past), ("untaught", None)):
            found = set(listed(load.matches(table, bound, history=history)))
            assert found <= exact
            recalls[name].append(len(found) / len(exact))
            # Neither rows, start rows nor matches of the past are told as those of the table.
            assert load.report.rows == table.num_rows
            assert load.report.work <= 0.4 * starts * 1.02
            assert sum(e.found for e in load.report.patterns.values()) == len(found)
    assert np.mean(recalls["taught"]) > np.mean(recalls["untaught"]) + 0.03, recalls


@pytest.mark.compiled
def test_a_share_of_work_is_of_the_history() -> None:
    table, past = rows(3000), rows(6000, 7)
    load = ensue.workload(d=query("D"))
    load.matches(table, ensue.Budget(work=1000))
    starts = load.report.work
    load.matches(table, ensue.Budget(work="50%"), history=past)
    assert 0.4 * starts < load.report.work < 0.6 * starts
    # An empty history is none.
    few = ensue.Budget(work=0.1)
    some = listed(load.matches(table, few, history=past.slice(0, 0)))
    assert some == listed(load.matches(table, few))


def test_a_history_needs_a_budget_and_the_columns() -> None:
    load = ensue.workload(d=query("D"))
    with pytest.raises(errors.QueryError, match=r"(?s)history.*give budget="):
        load.matches(rows(10), history=rows(10))
    with pytest.raises(ensue.EnsueError, match="kind"):
        load.matches(rows(10), ensue.Budget(work=1), history=rows(10).drop_columns(["kind"]))


def test_matches_are_numbered_through_where_the_first_rows_teach() -> None:
    table = rows(400)
    numbers = [
        (m["u"], m["match_number"], m["first"])
        for m in query("D").matches(table, budget=ensue.Budget(work=1000)).to_pylist()
    ]
    exact = query("D").matches(table).to_pylist()
    assert sorted(numbers) == sorted((m["u"], m["match_number"], m["first"]) for m in exact)
    assert len(numbers) > 30
