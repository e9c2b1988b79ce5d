"""SHARP: the plan of the paper's figures, and bounds in work, so that runs are repeatable."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.api import Pattern
from ensue.automaton.share import sharing_plan, unite
from ensue.evaluate.base import Events
from ensue.evaluate.sharp.tables import as_integers, words_of


def q(text: str, **define: str) -> Pattern:
    return ensue.pattern(text, types="kind").define(**define).order_by("id")


PAPER = {
    "P1": q("A ->> B ->> C ->> D"),
    "P2": q("A ->> B ->> E ->> F"),
    "P3": q("A ->> B ->> E ->> G"),
}


# -- sharing -------------------------------------------------------------------------------------


def test_figure_2_twelve_states_become_seven() -> None:
    plan = ensue.workload(PAPER).plans[0]
    assert plan.separate == 12
    assert len(plan.nodes) - 1 == 7
    apart = sharing_plan(unite({n: p.query for n, p in PAPER.items()}), share=False)
    assert len(apart.nodes) - 1 == 12


def test_figure_3_labels_and_clusters() -> None:
    plan = ensue.workload(PAPER).plans[0]
    label = {node.path: plan.text(node.bitmap) for node in plan.nodes}
    assert [label[p] for p in ("A", "A B", "A B C", "A B E")] == ["111", "111", "001", "110"]
    clusters = {
        plan.text(bitmap): [plan.nodes[n].path for n in nodes]
        for bitmap, nodes in plan.clusters.items()
    }
    assert clusters == {"111": ["A", "A B"], "001": ["A B C"], "110": ["A B E"]}


def test_equal_conditions_are_recognised_however_they_are_written() -> None:
    one = q("A ->> B ->> C", B="x > 1 AND y < 2", C="x + B.x = 3")
    two = ensue.pattern("s ->> m ->> e").define(
        s="kind = 'A'", m="2 > y AND (1 < x) AND 'B' = kind", e="3 = m.x + e.x AND kind = 'C'"
    ).order_by("id")  # fmt: skip
    other = q("A ->> B ->> C", B="x > 1 AND y < 3", C="x + B.x = 3")
    union = unite({"one": one.query, "two": two.query, "other": other.query})
    assert union.members[0].common == union.members[1].common
    assert union.members[2].common[1] != union.members[0].common[1]
    # C reads B, so that another B makes another C
    assert union.members[2].common[2] != union.members[0].common[2]


def test_loops_are_shared() -> None:
    plan = ensue.workload(
        Q1=q("A ->> B+ ->> C ->> D"), Q2=q("A ->> B+ ->> E ->> F")
    ).plans[0]  # fmt: skip
    shared = [node.path for node in plan.nodes[1:] if node.bitmap == 0b11]
    assert shared[:2] == ["A", "A B"]


def test_bitmaps_have_as_many_words_as_they_need() -> None:
    bitmaps = [1 << 200 | 5, 0, (1 << 130) - 1]
    assert as_integers(words_of(bitmaps, 4)) == bitmaps


def test_the_picture_and_the_text_show_the_plan() -> None:
    load = ensue.workload(PAPER)
    assert "12 of the patterns alone, 7 together" in load.explain()
    assert "[110] A B E" in load.explain()
    assert load.plot().svg.count("<rect") == 8 and "A B E" in load.plot().dot


def test_a_thousand_patterns_are_planned_in_seconds() -> None:
    named = {f"p{i}": q(f"A ->> B ->> C{i % 40} ->> D{i}") for i in range(1000)}
    began = time.process_time()
    plan = ensue.workload(named).plans[0]
    assert time.process_time() - began < 5 * 4  # the requirement is 5 s; room for a busy machine
    assert len(plan.nodes) - 1 == 2 + 40 + 1000
    assert max(plan.clusters) == (1 << 1000) - 1


# -- bounds --------------------------------------------------------------------------------------


def stream(count: int, seed: int = 0, flip_at: int | None = None) -> pa.Table:
    """A then B then C or D; only low (after `flip_at`: high) values of B can be completed."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(list("ABCDX"), count)
    x = rng.integers(0, 100, count)
    late = np.zeros(count, np.bool_) if flip_at is None else np.arange(count) >= flip_at
    last = np.isin(kind, ["C", "D"])
    x[last & ~late] = rng.integers(0, 100, int((last & ~late).sum())) * 0.3
    x[last & late] = 70 + rng.integers(0, 30, int((last & late).sum()))
    return pa.table({"id": np.arange(count), "kind": kind, "x": x})


def chains(window: int = 120) -> dict[str, Pattern]:
    near = "abs(x - B.x) < 3"
    return {
        "C": q("A ->> B ->> C", C=near).within(window),
        "D": q("A ->> B ->> D", D=near).within(window),
    }


def matches(found: pa.Table) -> set[tuple[object, ...]]:
    return {
        (m["pattern"], *(e["row"] for e in m["events"]))
        for m in found.select(["pattern", "events"]).to_pylist()
    }


@pytest.mark.compiled
@pytest.mark.parametrize("mode", ["view", "instance", "separate"])
def test_bounded_answers_are_true_and_work_keeps_the_bound(mode: str) -> None:
    table = stream(4000)
    load = ensue.workload(chains(), materialise=mode)
    exact = matches(load.matches(table))
    unbounded = load.report.work / load.report.rows
    assert len(exact) > 3000
    recalls = []
    for share in (0.5, 0.2):
        found = matches(load.matches(table, ensue.Budget(work=share * unbounded)))
        assert found <= exact
        assert load.report.work / load.report.rows <= 1.02 * share * unbounded
        assert load.report.shed > 0
        recalls.append(len(found) / len(exact))
    least = {"view": (0.8, 0.38), "instance": (0.8, 0.38), "separate": (0.7, 0.25)}[mode]
    assert recalls[0] > least[0] and recalls[1] > least[1], recalls


@pytest.mark.compiled
def test_a_wide_bound_changes_nothing_and_runs_repeat() -> None:
    table = stream(2000)
    load = ensue.workload(chains())
    exact = load.matches(table)
    assert matches(load.matches(table, ensue.Budget(work=1e9))) == matches(exact)
    first = load.matches(table, ensue.Budget(work=3))
    assert load.matches(table, ensue.Budget(work=3)) == first


@pytest.mark.compiled
def test_the_moving_average_stays_inside_the_bound() -> None:
    from ensue import local
    from ensue.evaluate.shared import SharedEvaluator
    from ensue.evaluate.sharp.groups import groups

    table = stream(6000)
    (group,) = groups({n: p.query for n, p in chains().items()}, table.column_names, None)
    union = unite(group.queries)
    prepared = local.prepare(union.plan, table)

    def work(budget: ensue.Budget | None) -> np.ndarray:
        evaluator = SharedEvaluator(union)
        evaluator.keep_work = True
        evaluator.open(union.plan, prepared.schema, budget)
        starts = np.array([0, len(table)], np.int64)
        for _ in evaluator.found(Events(prepared, starts, np.ones(1, np.bool_))):
            pass
        return evaluator.engine.work[0]

    bound = 0.4 * work(None).mean()
    averages = np.convolve(work(ensue.Budget(work=bound)), np.ones(1000) / 1000, "valid")
    assert (averages <= bound).mean() >= 0.95


@pytest.mark.compiled
def test_patterns_inside_their_bound_lose_nothing() -> None:
    """By view only the bits of the overloaded pattern are cleared."""
    table = stream(3000)
    load = ensue.workload(chains())
    exact = matches(load.matches(table))
    found = matches(load.matches(table, ensue.Budget(latency={"C": "20%"})))
    assert found <= exact
    assert {m for m in found if m[0] == "D"} == {m for m in exact if m[0] == "D"}
    assert len({m for m in found if m[0] == "C"}) < 0.95 * len({m for m in exact if m[0] == "C"})


@pytest.mark.compiled
def test_weights_decide_who_loses() -> None:
    """Patterns that share nothing: partial matches of one can be kept and of the other dropped."""
    table = stream(4000)
    near = "abs(x - B.x) < 3"
    apart = {
        "C": q("A ->> B ->> C", C=near).within(120),
        "D": q("X ->> B ->> D", D=near).within(120),
    }
    light = ensue.workload(apart)
    exact = matches(light.matches(table))
    bound = ensue.Budget(work=0.15 * light.report.work / light.report.rows)

    def recall_of_c(weights: dict[str, float]) -> float:
        found = matches(ensue.workload(apart, weights=weights).matches(table, bound))
        return sum(m[0] == "C" for m in found) / sum(m[0] == "C" for m in exact)

    assert recall_of_c({"C": 50}) > recall_of_c({"D": 50}) + 0.05


@pytest.mark.compiled
def test_a_bound_on_memory() -> None:
    table = stream(3000)
    load = ensue.workload(chains())
    exact = matches(load.matches(table))
    most = load.report.most_records
    found = matches(load.matches(table, ensue.Budget(memory="8 KB")))
    assert found < exact
    assert load.report.most_records < most / 2


@pytest.mark.compiled
def test_the_estimate_of_recall_is_near_the_truth() -> None:
    table = stream(8000)
    load = ensue.workload(chains())
    exact = matches(load.matches(table))
    found = matches(load.matches(table, ensue.Budget(work=0.2 * load.report.work / 8000)))
    for name, told in load.report.patterns.items():
        true = sum(m[0] == name for m in found) / sum(m[0] == name for m in exact)
        assert told.low <= told.recall <= told.high
        assert abs(told.recall - true) < 0.2, (name, told, true)


@pytest.mark.compiled
def test_drift_is_followed() -> None:
    window = 120
    table = stream(8000, flip_at=4000)
    load = ensue.workload(chains(window))
    exact = matches(load.matches(table))
    found = matches(load.matches(table, ensue.Budget(work=0.5 * load.report.work / 8000)))

    def recall(begin: int, end: int) -> float:
        want = {m for m in exact if begin <= int(str(m[-1])) < end}
        return len(want & found) / len(want)

    assert recall(2000, 4000) > 0.8
    assert recall(6000, 8000) > 0.8


@pytest.mark.compiled
def test_a_hundred_patterns_with_a_common_prefix_cost_a_few_times_one() -> None:
    """In work: partial matches asked about an event."""
    rng = np.random.default_rng(1)
    kinds = [*"ABC", *(f"E{i}" for i in range(100))]
    chances = [0.25] * 3 + [0.0025] * 100
    table = pa.table(
        {
            "id": np.arange(3000),
            "kind": rng.choice(kinds, 3000, p=chances),
            "x": rng.integers(0, 9, 3000),
        }
    )
    one = ensue.workload(p=q("A ->> B ->> C ->> E0", C="x > A.x").within(60))
    one.matches(table)
    many = ensue.workload({
        f"p{i}": q(f"A ->> B ->> C ->> E{i}", C="x > A.x").within(60) for i in range(100)
    })  # fmt: skip
    many.matches(table)
    assert many.report.work <= 5 * one.report.work


@pytest.mark.compiled
def test_a_bound_that_nothing_can_meet_is_said_and_used() -> None:
    table = stream(3000)
    with pytest.warns(errors.BoundWarning, match="cannot be met"):
        found = ensue.workload(chains()).matches(table, ensue.Budget(memory="1 B"))
    assert found.num_rows < 100
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.BoundWarning)
        ensue.workload(chains()).matches(table, ensue.Budget(latency="1 hour"))


@pytest.mark.compiled
def test_negative_events_are_never_shed() -> None:
    table = stream(3000)
    load = ensue.workload(
        n=q("A ->> B ->> !X ->> C").within(60), t=q("A ->> B ->> C ->> !X").within(20)
    )
    exact = matches(load.matches(table))
    found = matches(load.matches(table, ensue.Budget(work=0.2 * load.report.work / 3000)))
    assert found < exact and len(found) > 20
