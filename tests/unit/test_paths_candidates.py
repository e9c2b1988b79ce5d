"""Candidate expressions of questions as language models write them: repaired, or dropped alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.paths import budget as path_budget

FILMS = pa.table(
    {
        "subject": ["Alila", "Kedma", "Alila", "Alila", "Kedma", "Alila"],
        "relation": ["written_by", "written_by", "has_genre", "starred_actors", "next", "next"],
        "object": ["Gitai", "Gitai", "Drama", "Abecassis", "Alila", "Kedma"],
    }
)
GOOD = ("written_by/^written_by", "has_genre")


@pytest.fixture(scope="module")
def graph() -> ensue.Graph:
    return ensue.graph(FILMS)


def asked(*expressions: str, start: str = "Alila") -> ensue.Question:
    return ensue.Question(f"who wrote [{start}]", start, expressions)


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ("film.written_by/^written_by", "film.written_by"),
        ("writtenBy/^film.film.written_by", "writtenBy"),
        ("<http://e/writtenBy>/^written_by", "http://e/writtenBy"),
        ("written_by/^!(Has_Genre|starred_actors|`the next`)", "Has_Genre"),
    ],
)
def test_near_labels_are_read_as_those_of_the_graph(
    graph: ensue.Graph, given: str, label: str
) -> None:
    with pytest.warns(errors.CandidateWarning, match="nearest labels"):
        found = graph.retrieve(asked(given))
    assert found.answers() == [["Kedma"]]
    repair = found.repairs.to_pylist()[0]
    assert repair["query"] == given and repair["label"] == label
    assert repair["read_as"] in graph.labels and repair["similarity"] > 0.6


@pytest.mark.parametrize(
    ("bad", "label"),
    [
        ("spouse_of/written_by", "spouse_of"),
        ("written_by/(", None),
        ("", None),
        ("written_by[edge.no_such = 1]", None),
        ("next+", None),
        ("(next|written_by)*/next/(next|written_by){20}", None),
    ],
)
def test_one_bad_candidate_is_dropped_alone(
    graph: ensue.Graph, bad: str, label: str | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = graph.retrieve([asked(*GOOD), asked(GOOD[1])])
        assert alone.repairs.num_rows == 0
    with pytest.warns(errors.CandidateWarning, match="1 were dropped"):
        batch = graph.retrieve([asked(bad, *GOOD), asked(GOOD[1]), asked(bad)])
    assert batch.table.equals(alone.table)
    assert batch.answers() == [*alone.answers(), []]
    (repair,) = batch.repairs.to_pylist()
    assert (repair["query"], repair["label"], repair["read_as"]) == (bad, label, None)
    assert repair["reason"]
    with pytest.raises(errors.EnsueError):
        graph.retrieve([asked(bad, *GOOD)], unknown="error")


def test_settings_of_repairs(graph: ensue.Graph) -> None:
    given = asked("film.written_by", GOOD[1])
    with pytest.warns(errors.CandidateWarning):
        assert graph.retrieve(given, unknown="drop").answers() == [["Drama"]]
    with pytest.warns(errors.CandidateWarning):
        assert graph.retrieve(asked("actors"), threshold=0.99).answers() == [[]]
    with pytest.raises(errors.UnknownLabelError):
        graph.retrieve(given, unknown="error")
    for wrong in ({"unknown": "guess"}, {"threshold": 2.0}, {"threshold": float("nan")}):
        setting: dict[str, Any] = wrong
        with pytest.raises(errors.QueryError):
            graph.retrieve(given, **setting)


def test_a_repaired_candidate_is_trusted_less(graph: ensue.Graph) -> None:
    with pytest.warns(errors.CandidateWarning):
        found = graph.retrieve(asked("starred_actors", "actors"))
    rows = found.table.to_pylist()
    assert [row["query"] for row in rows] == ["starred_actors", "actors"]
    alike = found.repairs["similarity"][0].as_py()
    assert rows[1]["score"] == pytest.approx(rows[0]["score"] * alike, rel=1e-5)


def test_vectors_are_kept_with_the_graph() -> None:
    graph, seen = ensue.graph(FILMS), []

    def embedder(texts: list[str]) -> np.ndarray:
        seen.extend(texts)
        return np.array([[len(text), text.count("w") + 1] for text in texts], np.float32)

    questions = [asked(*GOOD), asked(*GOOD, start="Kedma")]
    first = graph.retrieve(questions, embedder=embedder)
    assert len(seen) == len(set(seen)) and sum("who wrote" in text for text in seen) == 1
    again, known = graph.retrieve(questions, embedder=embedder), len(seen)
    assert len(seen) == known and again.table.equals(first.table)
    widths = iter([2, 3, 4])

    def odd(texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), next(widths)))

    with pytest.raises(errors.QueryError, match="of one length"):
        graph.retrieve(questions, embedder=odd)


def test_embedding_is_part_of_a_bound_on_time(
    graph: ensue.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("ensue.paths.budget.time.perf_counter", lambda: now[0])

    def slow(texts: list[str]) -> np.ndarray:
        now[0] += 1.0
        return np.ones((len(texts), 2))

    given: list[float] = []
    timed = path_budget._Search._timed

    def noted(*args: Any) -> Any:
        given.append(args[-1])
        return timed(*args)

    monkeypatch.setattr(path_budget._Search, "_timed", staticmethod(noted))
    found = graph.retrieve(asked(*GOOD), embedder=slow, budget=ensue.Budget(latency="10 s"))
    assert found.embedding_seconds >= 2.0
    assert given == [pytest.approx(10 - found.embedding_seconds)]
    with pytest.warns(errors.BoundWarning, match="embedding took"):
        graph.retrieve(
            ensue.Question("another", "Alila", GOOD),
            embedder=slow,
            budget=ensue.Budget(latency="1 s"),
        )
