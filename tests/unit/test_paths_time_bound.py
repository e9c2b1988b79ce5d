"""How a bound on time becomes one on work, on a clock that counts work.

Random graphs are asked under a bound of an hour, which is never reached, and of a microsecond.
`ENSUE_CASES` says how many.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.paths import budget as path_budget
from ensue.paths.kernels.budget import Piece
from ensue.paths.retrieval import Retrieval

CASES = int(os.environ.get("ENSUE_CASES", "40"))
EASY, HARD, EACH = 2.0, 200.0, 20_000


class Searches:
    """Sorted questions, easy ones first; a unit of work takes a microsecond."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.needs = np.repeat([EASY, HARD], EACH)
        self.now = 0.0
        monkeypatch.setattr(path_budget.time, "thread_time", lambda: self.now)

    def __call__(self, begin: int, end: int, work: float, held: int, saved: float) -> Piece:
        used = np.minimum(self.needs[begin:end], work + saved / max(end - begin, 1))
        self.now += float(used.sum()) * 1e-6
        left = saved + work * (end - begin) - float(used.sum())
        empty, held_each = np.zeros(0), np.full(end - begin, 24.0)
        return Piece(*[empty] * 5, used, held_each, empty, max(left, 0.0), end - begin, None)


def test_sorted_questions_tell_their_mean_need(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Searches(monkeypatch)
    seconds, held = path_budget._unbounded(searches, 2 * EACH)
    assert seconds == pytest.approx((EASY + HARD) / 2 * 1e-6)
    assert held == 24
    assert path_budget._unbounded(searches, 1)[0] == pytest.approx(EASY * 1e-6)
    assert path_budget._unbounded(searches, 0) == (0.0, 0.0)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_time_is_kept_and_no_question_starves(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    searches = Searches(monkeypatch)
    bound = share * (EASY + HARD) / 2 * 1e-6
    pieces = path_budget._Search._timed(searches, 2 * EACH, 1e18, 0, bound)
    used = np.concatenate([piece.work for piece in pieces])
    assert len(used) == 2 * EACH
    assert searches.now <= 1.1 * bound * 2 * EACH
    assert searches.now >= 0.7 * bound * 2 * EACH
    settled = used[EACH + 8 * path_budget.WINDOW :]
    assert settled.min() >= 0.25 * share * HARD


# -- time is looked at inside a question ----------------------------------------------------------


class Slices:
    """One question that needs `need` steps; a step takes a microsecond."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, need: int) -> None:
        self.need, self.taken, self.now = need, 0, 0.0
        self.slices: list[int] = []
        monkeypatch.setattr(path_budget.time, "thread_time", lambda: self.now)

    def __call__(self, begin: int, end: int, *given: Any) -> Piece:
        steps, paused = given[3], given[5]
        assert paused == (self.taken if self.slices else None)
        done = min(steps, self.need - self.taken)
        self.taken += done
        self.now += done * 1e-6
        self.slices.append(done)
        over = int(self.taken == self.need)
        work, complete = np.array([self.taken]), np.array([True])
        return Piece(*[np.zeros(0)] * 5, work, work, complete, 0.0, over, self.taken)


@pytest.mark.parametrize("microseconds", [1, 100, 10_000, 1_000_000])
def test_a_question_goes_on_while_time_allows_and_stops_soon_after(
    monkeypatch: pytest.MonkeyPatch, microseconds: int
) -> None:
    slices = Slices(monkeypatch, 10**9)
    piece, spent = path_budget._sliced(slices, 0, 1e18, 0, microseconds * 1e-6)
    assert not piece.complete[0]
    assert microseconds <= slices.taken <= microseconds + path_budget._FIRST_SLICE
    assert spent == pytest.approx(slices.taken * 1e-6)
    assert len(slices.slices) <= 60 + microseconds * 1e-6 / path_budget._SLICE


def test_a_question_that_ends_in_time_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    slices = Slices(monkeypatch, 12_345)
    piece, _ = path_budget._sliced(slices, 0, 1e18, 0, 1.0)
    assert piece.complete[0] and slices.taken == 12_345


def paths(found: Retrieval) -> Counter[tuple[Any, ...]]:
    names = ("question", "query", "start", "end", "nodes", "labels", "score")
    return Counter(
        tuple(tuple(row[n]) if n in ("nodes", "labels") else row[n] for n in names)
        for row in found.table.to_pylist()
    )


def random_graph(draw: random.Random) -> tuple[ensue.Graph, list[ensue.Question]]:
    nodes = [f"n{number}" for number in range(draw.randint(2, 12))]
    edges = [
        {
            "subject": draw.choice(nodes),
            "relation": draw.choice("pqr"),
            "object": draw.choice(nodes),
        }
        for _ in range(draw.randint(1, 60))
    ]
    there = [edge["subject"] for edge in edges]
    texts = ["p", "q/r", "p/^p", "(p|q)/r", "p+", "(p|q|r){1,3}", "^q/p/r?"]
    questions = [
        ensue.Question("p of q", draw.choice(there), tuple(draw.sample(texts, draw.randint(1, 3))))
        for _ in range(draw.choice([1, 1, 2, 5]))
    ]
    known = {edge["relation"] for edge in edges}
    edges += [{"subject": "n0", "relation": r, "object": "n0"} for r in "pqr" if r not in known]
    return ensue.graph(pa.Table.from_pylist(edges)), questions


def test_an_ample_time_finds_everything_and_a_tiny_one_nothing_false(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(CASES):
        draw = random.Random(seed)
        graph, questions = random_graph(draw)
        monkeypatch.setattr(path_budget, "_FIRST_SLICE", draw.choice([1, 3, 64]))
        monkeypatch.setattr(path_budget, "_SLICE", draw.choice([0.0, 0.02]))
        asked: dict[str, Any] = {
            "max_hops": draw.choice([2, 3, 4]),
            "semantics": draw.choice(["walk", "no_return", "trail", "simple"]),
            "strategy": draw.choice(list(path_budget.STRATEGIES)),
        }
        exact = graph.retrieve(questions, **asked)
        assert exact.complete.all()
        ample = graph.retrieve(questions, budget=ensue.Budget(latency="1 hour"), **asked)
        assert ample.complete.all() and paths(ample) == paths(exact), seed
        tiny = graph.retrieve(questions, budget=ensue.Budget(latency="1 microsecond"), **asked)
        assert not paths(tiny) - paths(exact), seed
        both = graph.retrieve(questions, budget=ensue.Budget(latency="1 hour", work=20), **asked)
        assert not paths(both) - paths(exact), seed
        assert both.work.sum() <= 20 * len(questions), seed


def test_one_question_of_many_answers_is_not_cut_short() -> None:
    wide = pa.table(
        {"subject": ["hub"] * 1000, "relation": ["r"] * 1000, "object": [*map(str, range(1000))]}
    )
    question = ensue.Question("r", "hub", ("r",))
    found = ensue.graph(wide).retrieve(question, budget=ensue.Budget(latency="1 hour"))
    assert found.table.num_rows == 1000 and found.complete.all()


@pytest.mark.parametrize("bound", [{"latency": "1 s"}, {"latency": "50%"}, {"work": 3}])
def test_no_question_has_no_answer(bound: dict[str, Any]) -> None:
    edges = pa.table({"subject": ["a"], "relation": ["r"], "object": ["b"]})
    found = ensue.graph(edges).retrieve([], budget=ensue.Budget(**bound))
    assert found.table.num_rows == 0 and len(found.complete) == 0
