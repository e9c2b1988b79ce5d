"""Bounds as a share hold from the first row they can hold for; else the report and a warning say
why not."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.api.pattern import Pattern
from ensue.api.workload import Workload

KINDS = list("abcdefgh")


def sessions(count: int, seed: int = 0) -> pa.Table:
    """So many sessions of 5 to 20 rows, which overlap in time."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 21, count)
    times = [b + np.cumsum(rng.integers(1, 5, n)) for b, n in zip(np.arange(count) * 15, sizes)]  # noqa: B905
    rows = int(sizes.sum())
    return pa.table(
        {
            "session": np.repeat(np.arange(count), sizes),
            "ts": np.concatenate(times),
            "kind": rng.choice(KINDS, rows),
            "x": rng.random(rows),
        }
    )


def thirty(within: object = None) -> Workload:
    """Thirty event patterns of three steps each."""
    rng = np.random.default_rng(1)
    found = {}
    for number in range(30):
        a, b, c = rng.choice(KINDS, 3, replace=False)
        q = ensue.pattern(f"{a} ->> {b}+ ->> {c}", types="kind").partition_by("session")
        q = q.order_by("ts", ties="ignore")
        found[f"p{number}"] = q if within is None else q.within(within)
    return ensue.workload(found)


def thirty_of_rows() -> Workload:
    pairs = [(a, b) for a in KINDS[:6] for b in KINDS[:6] if a != b]
    return ensue.workload(
        {
            f"p{number}": ensue.pattern("A N* B")
            .define(A=f"kind = '{a}'", N="x < 0.8", B=f"kind = '{b}'")
            .partition_by("session").order_by("ts", ties="ignore").after_match("to next row")
            for number, (a, b) in enumerate(pairs)
        }
    )  # fmt: skip


def pairs(found: pa.Table) -> set[tuple[object, ...]]:
    return {
        (m["pattern"], m["session"], *((e["label"], e["row"]) for e in m["events"]))
        for m in found.to_pylist()
    }


@pytest.mark.compiled
@pytest.mark.parametrize("within", [None, 30, "8 rows"])
@pytest.mark.parametrize("share", [10, 50])
def test_thirty_patterns_over_short_sessions_keep_to_a_share_of_work(
    within: object, share: int
) -> None:
    table, load = sessions(600), thirty(within)
    exact = pairs(load.matches(table))
    assert load.report is not None
    unbounded = load.report.work
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pairs(load.matches(table, ensue.Budget(work=f"{share}%")))
    assert found < exact and len(found) > 0.7 * share / 100 * len(exact)
    assert load.report.work <= 1.1 * share / 100 * unbounded
    assert load.report.rows == table.num_rows and load.report.shed > 0
    assert (load.report.unbounded, load.report.reason) == (0, "")
    # The sample is drawn by the seed: the same call sheds the same.
    assert pairs(load.matches(table, ensue.Budget(work=f"{share}%"))) == found


@pytest.mark.compiled
@pytest.mark.parametrize("budget", [{"memory": "20%"}, {"latency": {"p1": "20%"}}])
def test_other_shares_hold_from_the_first_row_too(budget: dict[str, object]) -> None:
    table, load = sessions(400), thirty(30)
    exact = pairs(load.matches(table))
    found = pairs(load.matches(table, ensue.Budget(**budget)))
    assert load.report is not None and load.report.shed > 0 and load.report.reason == ""
    assert found < exact and len(found) > 0.05 * len(exact)


@pytest.mark.compiled
@pytest.mark.parametrize("share", [10, 50])
def test_row_patterns_keep_to_a_share_of_their_start_rows(share: int) -> None:
    load = thirty_of_rows()
    for count in (20, 300):
        table = sessions(count)
        exact = pairs(load.matches(table, ensue.Budget(work=1000)))
        assert load.report is not None
        unbounded = load.report.work
        found = pairs(load.matches(table, ensue.Budget(work=f"{share}%")))
        assert found < exact or share == 50
        assert 0 < load.report.work <= 1.01 * share / 100 * unbounded
        assert found <= exact and load.report.reason == ""


@pytest.mark.compiled
def test_where_there_are_too_few_rows_the_report_and_a_warning_say_so() -> None:
    table, load = sessions(20), thirty()
    exact = pairs(load.matches(table))
    with pytest.warns(errors.BoundWarning, match=r"(?s)held for no row.*1,000.*work=1000"):
        assert pairs(load.matches(table, ensue.Budget(work="10%"))) == exact
    assert load.report is not None and load.report.unbounded == table.num_rows
    assert "the bound held for no row" in load.report.reason and load.report.reason in str(
        load.report
    ).replace("\n", " ")
    # An amount, or rows of the past, and it holds.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load.matches(table, ensue.Budget(work=2))
        assert load.report.shed and not load.report.unbounded
        load.matches(table, ensue.Budget(work="10%"), history=sessions(20, 5))
        assert load.report.shed and not load.report.unbounded


@pytest.mark.compiled
def test_long_partitions_are_bounded_after_two_windows() -> None:
    rng = np.random.default_rng(3)
    rows = 4000
    table = pa.table(
        {"session": np.zeros(rows, int), "ts": np.arange(rows), "kind": rng.choice(KINDS, rows)}
    )
    load = thirty(within=20)
    with pytest.warns(errors.BoundWarning, match="from row 1,001 of 4,000 on"):
        load.matches(table, ensue.Budget(work="10%"))
    assert load.report is not None and load.report.unbounded == 1000 and load.report.shed > 0


@pytest.mark.compiled
def test_while_rows_arrive_the_report_says_that_the_bound_does_not_hold_yet() -> None:
    table, load = sessions(200), thirty(30)
    live = load.live(table.schema, ensue.Budget(work="10%"))
    live.insert(table.slice(0, 500))
    assert live.report.unbounded == 500 and "held for no row" in live.report.reason
    live.insert(table.slice(500))
    assert 500 < live.report.unbounded < 1100 and "on:" in live.report.reason
    again = load.live(table.schema, ensue.Budget(work="10%"), live.snapshot())
    assert again.report.unbounded == live.report.unbounded


@pytest.mark.compiled
def test_one_event_pattern_keeps_to_a_share() -> None:
    table = sessions(400)
    q: Pattern = thirty().patterns["p0"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        some = q.matches(table, budget=ensue.Budget(work="10%"))
    assert 0 < some.num_rows < q.matches(table).num_rows
    with pytest.warns(errors.BoundWarning, match="held for no row"):
        q.matches(table.slice(0, 200), budget=ensue.Budget(work="10%"))


@pytest.mark.compiled
@pytest.mark.parametrize("budget", [ensue.Budget(work="10%"), ensue.Budget(work=1)])
def test_patterns_with_events_missing_say_how_long_they_learned(budget: ensue.Budget) -> None:
    table = sessions(300)
    q = ensue.pattern("a ->> b ->> c", types="kind").partition_by("session")
    q = q.order_by("ts", ties="ignore").within(30)
    with pytest.warns(errors.BoundWarning, match=r"(?s)held for no row.*learn=1000"):
        found = q.allow_missing(1, required=["a"], history=4096).matches(table, budget=budget)
    told = json.loads(found.schema.metadata[b"ensue"])
    assert told["unbounded"] == table.num_rows and not told["shed"]
    assert "4,096 match bundles or 200,000 rows" in told["reason"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = q.allow_missing(1, required=["a"], learn=200).matches(table, budget=budget)
    told = json.loads(found.schema.metadata[b"ensue"])
    assert 0 < told["unbounded"] < 250 and told["shed"] > 0
    assert "of 3," in told["reason"]
