"""The recall that a retrieval reports, against the recall that it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.paths import batches
from ensue.paths.believed import Believed, over_batches

WAYS = ("a/b", "b/a", "c/^c")


def graph_of(seed: int, nodes: int = 300, edges: int = 2500) -> ensue.Graph:
    """A graph with hubs, so that questions differ in what they cost."""
    rng = np.random.default_rng(seed)
    ends = [(nodes * rng.random(edges) ** 2).astype(np.int64) for _ in range(2)]
    labels = pa.array(rng.choice(["a", "b", "c"], edges))
    return ensue.graph(pa.table({"subject": ends[0], "relation": labels, "object": ends[1]}))


def questions(graph: ensue.Graph, count: int, seed: int) -> list[ensue.Question]:
    rng = np.random.default_rng(seed)
    starts = rng.choice(graph.node_count - 1, count)
    known = graph._local.store.names.take(pa.array(starts)).to_pylist()
    return [ensue.Question(f"{WAYS[n % 3]} of [{s}]", s, WAYS) for n, s in enumerate(known)]


def recall_of(found: Any, full: Any) -> float:
    pairs = zip(found.answers(), full.answers(), strict=True)
    return float(np.mean([len(set(some)) / len(every) for some, every in pairs if every]))


def test_the_interval_covers_the_truth() -> None:
    covered = wide = near = 0
    trials = 60
    for seed in range(trials):
        graph = graph_of(seed % 6)
        asked = questions(graph, 400, seed)
        full = graph.retrieve(asked)
        share = (0.2, 0.4, 0.7)[seed % 3]
        budget = ensue.Budget(work=float(full.work.mean()) * share)
        found = graph.retrieve(asked, budget=budget, seed=seed)
        assert found.work.sum() <= full.work.sum() * share + found.work.max()
        truth = recall_of(found, full)
        assert found.recall is not None
        covered += found.low <= truth <= found.high
        wide += found.high - found.low < 0.9
        near += abs(found.recall - truth) < 0.2
    assert covered >= 0.9 * trials
    assert wide >= 0.9 * trials
    assert near >= 0.8 * trials


def test_what_is_known_without_asking() -> None:
    graph = graph_of(1)
    asked = questions(graph, 120, 2)
    free = graph.retrieve(asked)
    assert (free.recall, free.low, free.high) == (1.0, 1.0, 1.0)
    ample = graph.retrieve(asked, budget=ensue.Budget(work=1e6))
    assert ample.complete.all()
    assert (ample.recall, ample.low, ample.high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("count", "budget"),
    [
        (20, ensue.Budget(work=5)),  # too few questions to set some aside
        (400, ensue.Budget(memory="2 KB")),  # which holds for all of them
        (0, ensue.Budget(work=5)),
    ],
)
def test_nothing_is_said_where_nothing_is_known(count: int, budget: ensue.Budget) -> None:
    graph = graph_of(1)
    found = graph.retrieve(questions(graph, count, 2), budget=budget)
    assert (found.recall, found.low, found.high) == (None, None, None)


def test_under_a_bound_on_time() -> None:
    graph = graph_of(3)
    found = graph.retrieve(questions(graph, 2000, 1), budget=ensue.Budget(latency="30%"))
    if not found.complete.all() and found.recall is not None:
        assert 0 <= found.low <= found.recall <= found.high <= 1


def test_batches_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = over_batches([1, 3], [Believed(1.0, 1.0, 1.0), Believed(0.6, 0.2, 0.8)])
    assert (joined.recall, joined.low, joined.high) == pytest.approx((0.7, 0.4, 0.85))
    assert over_batches([1, 1], [Believed(), Believed(1.0, 1.0, 1.0)]) == Believed()
    graph = graph_of(1)
    monkeypatch.setattr(batches, "MOST_QUESTIONS", 60)
    found = graph.retrieve(questions(graph, 100, 1), budget=ensue.Budget(work=1e6))
    assert found.recall == 1.0
