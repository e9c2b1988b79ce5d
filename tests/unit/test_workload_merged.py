"""Workloads on merged states: when the patterns are matched one by one, and exact first."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.api.pattern import Pattern
from ensue.api.workload import Workload
from ensue.automaton.share import unite
from ensue.operator.budget import Budget
from ensue.run import local
from ensue.sequences import match_graph
from ensue.sequences.evaluator import SequencesEvaluator
from ensue.shared import complete, merged, starts
from ensue.shared.engine import Engine
from ensue.shared.merged import Allowance, TooDearError, Trial
from tests import workload_cases as cases


def q(text: str, window: int = 60, **define: str) -> Pattern:
    return ensue.pattern(text, types="kind").define(**define).order_by("id").within(window)


def chains(names: str, window: int = 200) -> dict[str, Pattern]:
    """What follows D reads nothing, and what is before it reads one A or a pair of B and C."""
    define = {"B": "x > A.x", "D": "B.x + C.x < x"}
    return {
        name: q(f"A ->> B ->> C ->> D ->> {name}", window, **define, **{name: "x > 950"})
        for name in names
    }


def stream(rows: int, seed: int = 0, highest: int = 1000) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({
        "id": np.arange(rows), "kind": rng.choice(list("ABCDEFGH"), rows),
        "x": rng.integers(0, highest, rows), "u": np.sort(rng.integers(0, 4, rows)),
    })  # fmt: skip


def rows_of(found: pa.Table) -> list[tuple[object, ...]]:
    return sorted(
        (m["pattern"], *((e["label"], e["row"]) for e in m["events"])) for m in found.to_pylist()
    )


def followed_alone(load: Workload) -> bool:
    """No partial match was followed by itself."""
    assert load.report is not None
    return load.report.created == 0 and load.report.shed == 0


@pytest.mark.parametrize("seed", range(60))
def test_random_workloads_are_their_patterns_one_by_one(seed: int) -> None:
    case = cases.case(seed)
    found = ensue.workload(case.patterns).matches(case.table, as_of="end")
    assert cases.listed(found) == {name: m for name, m in case.exact().items() if m}


@pytest.mark.parametrize("seed", range(100, 140))
def test_under_a_bound_no_match_is_false(seed: int) -> None:
    case = cases.case(seed, budget=True)
    exact = case.exact()
    for budget in (Budget(work=0.5), Budget(work=3), Budget(work="30%"), Budget(latency="20%")):
        load = ensue.workload(case.patterns)
        found = cases.listed(load.matches(case.table, budget, as_of="end"))
        for name, matches in found.items():
            assert not set(matches) - set(exact[name])
        if followed_alone(load):
            assert found == {name: m for name, m in exact.items() if m}


def test_few_patterns_are_matched_one_by_one() -> None:
    table, load = stream(3000), ensue.workload(chains("EF"))
    found = load.matches(table)
    assert followed_alone(load)
    together = cases.shared(chains("EF"))
    assert rows_of(found) == rows_of(together.matches(table))
    assert not followed_alone(together)
    assert load.report.work < together.report.work / 3
    assert found == load.matches(table)


def test_many_patterns_share_where_they_hold_few_partial_matches() -> None:
    table = stream(3000)
    load = ensue.workload({f"p{i}": q("A ->> B ->> D", 3, D=f"x > {i * 80}") for i in range(12)})
    load.matches(table)
    assert not followed_alone(load)
    dense = {f"p{i}": q("A ->> B ->> C", 300, B=f"x >= {i}", C=f"A.x + B.x + {i} < x")
             for i in range(4)}  # fmt: skip
    load = ensue.workload(dense)
    found = load.matches(table)
    assert followed_alone(load)
    assert rows_of(found) == rows_of(cases.shared(dense).matches(table))


def test_sub_patterns_at_other_places_are_whole_again_where_sharing_does_not_pay() -> None:
    texts = ("A ->> B ->> C", "X ->> A ->> B ->> A", "C ->> X ->> A ->> B", "A ->> B ->> D")
    named = {f"p{i}": q(f"{text} ->> E", 300, B="x > 900") for i, text in enumerate(texts)}
    table = stream(2500)
    load = ensue.workload(named)
    found = load.matches(table)
    assert followed_alone(load)
    assert rows_of(found) == rows_of(cases.shared(named).matches(table))


@pytest.mark.compiled  # of a size: as plain Python it takes longer than 600 other tests
def test_what_fits_into_the_bound_is_exact() -> None:
    table, patterns = stream(6000), chains("EFG")
    full = rows_of(cases.shared(patterns).matches(table))
    load = ensue.workload(patterns)
    for budget in (Budget(work="50%"), Budget(work=200), Budget(latency="1 hour")):
        assert rows_of(load.matches(table, budget)) == full
        assert followed_alone(load)
        assert load.report.unbounded == 0 and not load.report.reason
        assert {each.recall for each in load.report.patterns.values()} == {1.0}


def test_a_share_is_not_measured_where_the_exact_answer_takes_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, patterns = stream(3000), chains("EFG")
    full = rows_of(ensue.workload(patterns).matches(table))
    load = ensue.workload(patterns)
    monkeypatch.setattr(complete, "SHEDDING", math.inf)
    assert rows_of(load.matches(table, Budget(latency="1%"))) == full
    assert followed_alone(load) and load.report.unbounded == 0
    assert "what a share is of was not measured" in load.report.reason
    assert {each.recall for each in load.report.patterns.values()} == {1.0}
    monkeypatch.setattr(complete, "LEAST_BOUND", 0.0)
    monkeypatch.setattr(complete, "SHEDDING", 0.0)
    monkeypatch.setattr(complete.Complete, "_measurable", lambda *_: True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.BoundWarning)
        found = rows_of(load.matches(table, Budget(latency="0.1%")))
    assert set(found) <= set(full)
    assert "was not measured" not in load.report.reason


def test_what_does_not_fit_is_kept_to_the_bound() -> None:
    table, patterns = stream(6000), chains("EFG")
    load = ensue.workload(patterns)
    full = set(rows_of(load.matches(table)))
    found = rows_of(load.matches(table, Budget(work=2)))
    assert not followed_alone(load) and load.report.shed > 0
    assert load.report.work <= 2 * 6000
    assert 0 < len(found) < len(full) and set(found) <= full


def test_an_answer_that_takes_longer_than_allowed_says_so() -> None:
    union = unite({"E": chains("E")["E"].query})
    prepared = local.prepare(union.plan, stream(1))
    engine = Engine(union, prepared.schema, Budget(latency="1 us"))
    engine.controller.exceeded(1000, 0.0005, 1e-6)
    assert engine.controller.unbounded.reason == ""
    engine.controller.totals[0] = 1000
    engine.controller.exceeded(1000, 0.005, 1e-6)
    assert "1.00 µs per event are less than any answer takes" in engine.controller.unbounded.reason
    assert "took 5.00 µs" in engine.controller.unbounded.reason


def test_an_allowance_ends_what_costs_more_than_its_rows() -> None:
    effort = Allowance(1000, 2, work=10_000)
    effort.begin()
    effort.visits[0] = 3000
    effort.spent(0.0, 500)  # half of the rows, of 6,250 units for this pattern
    effort.visits[0] = 4000
    with pytest.raises(TooDearError):
        effort.spent(0.0, 500)
    last = Allowance(1000, 1, work=10_000, seconds=1.0)
    last.begin()
    last.spent(0.5, 600)
    last.visits[0] = 9_900
    last.spent(0.0, 1000)
    with pytest.raises(TooDearError):
        last.listed(200)


def test_a_trial_ends_where_the_shared_plan_would_cost_more() -> None:
    alone = 10 * (merged.OWN_START + 20_000 * merged.OWN_ROW) / merged.UNIT
    cheap = Trial(20_000, 10)
    for row in cheap.stops(0, 20_000, 100):
        cheap.check(row, int(row / 20_000 * alone * 0.5))
    assert cheap.over
    dear = Trial(20_000, 10)
    with pytest.raises(TooDearError):
        for row in dear.stops(0, 20_000, 100):
            dear.check(row, int(row / 20_000 * alone * 1.5))
    assert not dear.over
    assert math.isclose(alone * merged.UNIT, 10 * (4e6 + 1e7))


class Ticks:
    """A clock that goes on by so much with every look."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.mark.parametrize("seed", range(4))
def test_of_a_start_row_all_matches_are_found_or_none(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """By a clock that ticks with every look, so that time does not depend on the machine."""
    table, patterns = stream(6000, seed), chains("EF", 400)
    full = rows_of(ensue.workload(patterns).matches(table))
    monkeypatch.setattr(merged, "STRIDE", 64)
    monkeypatch.setattr(starts, "STRIDE", 64)
    monkeypatch.setattr(match_graph, "thread_time", Ticks(5e-4))
    load = ensue.workload(patterns)
    found = rows_of(load.matches(table, Budget(latency="20 us")))
    assert "start rows were tried" in load.report.reason and followed_alone(load)
    tried = {match[:2] for match in found}
    assert 0 < len(found) < len(full)
    assert found == [match for match in full if match[:2] in tried]
    for name, told in load.report.patterns.items():
        mine, whole = (sum(match[0] == name for match in some) for some in (found, full))
        assert told.found == mine
        assert told.low is None or told.low <= mine / whole <= told.high


def test_start_rows_are_left_out_only_where_nothing_else_takes_their_label() -> None:
    table = stream(2000)
    for text, thin in (("A ->> B", True), ("A+ ->> B", False), ("A ->> !A ->> B", False)):
        plan = unite({"p": q(text, B="x > A.x").query}).members[0].plan
        evaluator = SequencesEvaluator()
        evaluator.open(plan, local.prepare(plan, table).schema)
        assert evaluator.thinnable == thin
