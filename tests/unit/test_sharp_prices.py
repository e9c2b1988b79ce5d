"""Work at a price: the index of visits, what may be passed over, state, and start rows in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.api.pattern import Pattern
from ensue.shared.kernels.price import AGES, age_bin, cell_of
from ensue.shared.kernels.sketch import level_of
from ensue.shared.prices import Prices
from ensue.shared.row_turns import best, stages
from tests.workload_cases import shared


def q(text: str, **define: str) -> Pattern:
    return ensue.pattern(text, types="kind").define(**define).order_by("id")


def stream(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count),
            "kind": rng.choice(list("ABCX"), count, p=[0.3, 0.3, 0.3, 0.1]),
            "x": rng.integers(0, 100, count),
        }
    )


def matches(found: pa.Table) -> set[tuple[object, ...]]:
    return {
        (m["pattern"], *(e["row"] for e in m["events"]))
        for m in found.select(["pattern", "events"]).to_pylist()
    }


class OneNode:
    """An automaton with the one node that a test solves."""

    def steps(self, node: int) -> int:
        return 1


def one_node() -> Prices:
    """Two buckets and two classes of events: every cell was visited a thousand times."""
    prices = Prices(OneNode(), 4, True)  # type: ignore[arg-type]
    classes = np.zeros((1, 1024), np.bool_)
    classes[0, [0, 1]] = True
    prices.cover([0, 2], classes)
    now = prices.arrays()
    now.owner[:2], now.born[:2] = 0, 100
    for bucket in (0, 1):
        for event in (0, 1):
            cell = cell_of(0, bucket, event, now)
            now.asked[cell] = now.distinct[cell] = 1000
            now.visits[bucket] += 1000
            now.events[0, event] = 1000
    return prices


@pytest.mark.compiled
def test_the_index_is_the_price_at_which_a_visit_pays() -> None:
    prices = one_node()
    now = prices.arrays()
    wanted = {(0, 0): 0.5, (0, 1): 0.05, (1, 0): 0.2, (1, 1): 0.0}
    for (bucket, event), share in wanted.items():
        now.done[cell_of(0, bucket, event, now)] = 1000 * share
    prices.solve(np.array([0.1]), 80.0, np.ones(1))
    assert prices.ready
    for (bucket, event), share in wanted.items():
        index = now.pays[cell_of(0, bucket, event, now)]
        assert (index == index[0]).all()  # a visit that completes matches gains as much at any age
        if share:
            assert abs(int(index[0]) - level_of(share)) <= 2
        else:
            assert index[0] < level_of(0.02)
    assert now.best[0, 0] == now.pays[cell_of(0, 0, 0, now), 0]
    # Ten visits in a whole window, half of each class; the newest partial match has 7.5 to come.
    assert now.value[0, AGES - 1] == pytest.approx(7.5 * 0.275, rel=0.05)
    assert np.all(np.diff(now.value[0]) > 0)
    assert now.best[3, 0] == 255  # a bucket that was never seen is tried


def test_bins_of_age_and_stages() -> None:
    assert [age_bin(left) for left in (-1.0, 0.0, 0.5, 1.0)] == [0, 0, AGES // 2, AGES - 1]
    assert stages(100, True) == [(0, 100)] and stages(100, False) == [(0, 10), (10, 100)]
    assert stages(5, False) == [(0, 5)]


def test_the_best_of_several_patterns() -> None:
    first, second = best([np.array([0.1, 0.9]), np.array([0.5, 0.05, 0.9])], 3)
    assert first.tolist() == [False, True] and second.tolist() == [True, False, True]
    assert [taken.sum() for taken in best([np.zeros(2), np.zeros(0)], 9)] == [2, 0]


@pytest.mark.compiled
def test_nothing_false_where_events_forbid_or_end_matches() -> None:
    """A visit that may end a partial match cannot be passed over without it."""
    table, past = stream(1500, 0), stream(2500, 7)
    named = {
        "n": q("A ->> B ->> !X ->> C", C="x > A.x").within(60),
        "t": q("A ->> B ->> !X", B="x > A.x").within(30),
        "s": q("A -> B", B="x > A.x").within(30),
        "k": q("A ->> B+ ->> C", C="x > A.x").within(12),
    }
    load = shared(named)
    exact = matches(load.matches(table))
    for share in (0.5, 0.1):
        work = share * load.report.work / 1500
        found = matches(load.matches(table, ensue.Budget(work=work), history=past))
        assert found < exact and len(found) > share / 2 * len(exact)
        load.matches(table)


def restored_halfway(load: Any, table: pa.Table, work: float) -> tuple[Any, Any]:
    """A run with a history that has had 600 rows, and the one that its snapshot gives."""
    budget = ensue.Budget(work=work)
    live = load.live(table.schema, budget, history=stream(2000, 7))
    live.insert(table.slice(0, 600))
    return live, load.live(table.schema, budget, live.snapshot())


@pytest.mark.compiled
def test_what_is_known_of_prices_is_in_the_snapshot() -> None:
    table = stream(1200, 0)
    load = shared(a=q("A ->> B ->> C", C="x > A.x").within(60))
    live, again = restored_halfway(load, table, work=6)
    told = live._evaluator.engine.controller.prices
    kept = again._evaluator.engine.controller.prices
    assert told.ready and kept.ready
    for name, values in told.learned().items():
        assert np.array_equal(values, kept.learned()[name]), name
    exact = matches(load.matches(table))
    restored = matches(again.insert(table.slice(600))) | matches(again.end())
    assert 100 < len(restored) < len(exact) and restored <= exact


@pytest.mark.compiled
def test_start_rows_of_busy_partitions_come_first() -> None:
    """Quiet partitions hardly match inside the window; the bound is spent where matches are."""
    rng = np.random.default_rng(3)
    count = 8000
    busy = rng.random(count) < 0.5
    table = pa.table(
        {
            "t": np.arange(count),
            "u": np.where(busy, 0, rng.integers(1, 60, count)),
            "kind": rng.choice(list("ABCD"), count),
        }
    )
    define = {"A": "kind = 'A'", "N": "kind = 'C'", "B": "kind = 'B'"}
    pattern = ensue.pattern("A N* B").define(**define).partition_by("u").order_by("t").within(6)
    load = shared(p=pattern.after_match("to next row"))
    exact = matches(load.matches(table, ensue.Budget(work=1000)))
    work = load.report.work
    found = matches(load.matches(table, ensue.Budget(work=0.4 * work / count)))
    assert found <= exact and load.report.work <= 0.4 * work + 1
    assert len(found) > 0.95 * min(len(exact), 0.4 * work)


@pytest.mark.compiled
def test_what_a_history_taught_is_forgotten_when_the_data_change() -> None:
    """Low values of B complete matches in the past and in the first rows, high values later."""

    def flipped(count: int, seed: int, at: int) -> pa.Table:
        rng = np.random.default_rng(seed)
        kind, x = rng.choice(list("ABC"), count), rng.integers(0, 100, count)
        ends = rng.integers(0, 30, count) + np.where(np.arange(count) < at, 0, 70)
        return pa.table({"id": np.arange(count), "kind": kind, "x": np.where(kind == "C", ends, x)})

    table, past = flipped(8000, 0, 2500), flipped(3000, 5, 3000)
    load = shared(a=q("A ->> B ->> C", C="abs(x - B.x) < 3").within(80))
    exact = matches(load.matches(table))
    work = 0.4 * load.report.work / 8000
    found = matches(load.matches(table, ensue.Budget(work=work), history=past))

    def recall(begin: int, end: int) -> float:
        want = {m for m in exact if begin <= int(str(m[-1])) < end}
        return len(want & found) / len(want)

    assert found < exact and load.report.work / 8000 <= work
    assert recall(0, 2500) > 0.9
    assert recall(5500, 8000) > 0.7, recall(5500, 8000)


@pytest.mark.compiled
@pytest.mark.parametrize("taught", [True, False])
def test_only_the_ratios_of_weights_count(taught: bool) -> None:
    table, past = stream(2500, 0), stream(2500, 7) if taught else None
    named = {
        "c": q("A ->> B ->> C", C="x > A.x").within(120),
        "d": q("A ->> B ->> X", X="x < B.x").within(120),
    }
    plain = shared(named)
    exact = matches(plain.matches(table))
    bound = ensue.Budget(work=0.1 * plain.report.work / 2500)
    found = matches(plain.matches(table, bound, history=past))
    heavy = shared(named, weights={"c": 2.0**20, "d": 2.0**20})
    assert matches(heavy.matches(table, bound, history=past)) == found < exact
    assert heavy.report.work == plain.report.work


@pytest.mark.compiled
def test_a_restored_run_uses_the_buckets_that_it_learned() -> None:
    table = stream(1200, 0)
    load = shared(a=q("A ->> (B | X) ->> C", C="x > A.x").within(60))
    live, again = restored_halfway(load, table, work=4)
    went_on = matches(live.insert(table.slice(600)))
    restored = matches(again.insert(table.slice(600)))
    one, two = live._evaluator.engine, again._evaluator.engine
    assert one.bins.bases() == two.bins.bases()
    for node in range(len(one.automaton.nodes)):
        assert one.automaton.taken_at(node) == two.automaton.taken_at(node)
    # Not the same ones: the moving average of work begins anew.
    assert len(restored) > 0.8 * len(went_on) > 500


def test_what_open_partial_matches_have_taken_outlives_a_change_of_the_workload() -> None:
    table = stream(60, 0)
    live = shared(a=q("A ->> B ->> C", C="x > A.x").within(60)).live(table.schema)
    live.insert(table)
    live.revise(add={"b": q("A ->> B ->> X").within(30)})
    automaton = live._evaluator.engine.automaton
    sizes = {len(automaton.taken_at(node)) for node in range(len(automaton.nodes))}
    assert sizes == {0, 1, 2}


@pytest.mark.compiled
def test_restored_prices_hold_from_the_first_row() -> None:
    """While a history is read again, or the first rows say what a share is of, nothing is shed."""
    table, past = stream(3000, 0), stream(1500, 7)
    load = shared(a=q("A ->> B ->> C", C="x > A.x").within(60))
    exact = matches(load.matches(table))
    unbounded = load.report.work / load.report.rows
    budget = ensue.Budget(work=4)
    live = load.live(table.schema, budget, history=past)
    found = matches(live.insert(table.slice(0, 600)))
    again = load.live(table.schema, budget, live.snapshot(), history=past)
    found |= matches(again.insert(table.slice(600, 600)))
    assert found < exact and again.report.work / again.report.rows <= 4
    # A short history is enough to say what a share is of.
    short = load.live(table.schema, budget, history=past.slice(0, 300))
    short.insert(table.slice(0, 100))
    share = load.live(table.schema, ensue.Budget(work="50%"), short.snapshot())
    assert matches(share.insert(table.slice(100, 1200))) < exact
    assert share.report.work / share.report.rows < 0.6 * unbounded
    assert not share.report.unbounded and not share.report.reason


@pytest.mark.compiled
@pytest.mark.parametrize("text", ["A ->> B", "A ->> !X ->> C", "A ->> B ->> C"])
def test_windows_shorter_than_the_time_between_checks_keep_the_bound(text: str) -> None:
    table = stream(6000, 0)
    load = shared(a=q(text).within(12))
    exact = matches(load.matches(table))
    unbounded = load.report.work
    for share in (0.5, 0.1):
        found = matches(load.matches(table, ensue.Budget(work=share * unbounded / 6000)))
        assert found < exact and len(found) > 0.5 * share * len(exact)
        assert load.report.work <= 1.15 * share * unbounded
