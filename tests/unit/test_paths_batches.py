"""Many questions: as tables, and a batch at a time with the answers of one call."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.paths import batches

FILMS = pa.table({
    "subject": ["Alila", "Kedma", "Kadosh", "Alila", "Alila", "Kadosh"],
    "relation": ["written_by", "written_by", "written_by", "has_genre", "stars", "stars"],
    "object": ["Gitai", "Gitai", "Gitai", "Drama", "Abecassis", "Abecassis"],
})  # fmt: skip
WAYS = ["written_by/^written_by", "stars/^stars", "has_genre", "stars", "writen_by"]


def questions(count: int) -> list[ensue.Question]:
    films = ["Alila", "Kedma", "Kadosh"]
    return [
        ensue.Question(
            f"question {n} about [{films[n % 3]}]",
            films[n % 3],
            tuple(WAYS[(n + k) % len(WAYS)] for k in range(2)),
        )
        for n in range(count)
    ]


def rows(found: Any) -> list[dict[str, Any]]:
    return sorted(found.table.to_pylist(), key=repr)


@pytest.mark.filterwarnings("ignore::ensue.errors.CandidateWarning")
@pytest.mark.parametrize("budget", [None, ensue.Budget(work=100)])
def test_batches_answer_as_one_call(
    monkeypatch: pytest.MonkeyPatch, budget: ensue.Budget | None
) -> None:
    graph, asked = ensue.graph(FILMS), questions(17)
    whole = graph.retrieve(asked, budget=budget)
    assert len(list(batches.batches(asked))) == 1
    monkeypatch.setattr(batches, "MOST_CANDIDATES", 3)
    assert len(list(batches.batches(asked))) > 3
    for most in (4, 10_000):
        monkeypatch.setattr(batches, "MOST_QUESTIONS", most)
        found = graph.retrieve(asked, budget=budget)
        assert rows(found) == rows(whole)
        assert found.answers() == whole.answers()
        assert found.questions == 17
        assert found.work.tolist() == whole.work.tolist()
        assert found.complete.tolist() == whole.complete.tolist()
        assert {r["query"] for r in found.repairs.to_pylist()} == {"writen_by"}


@pytest.mark.filterwarnings("ignore::ensue.errors.CandidateWarning")
def test_questions_come_as_tables() -> None:
    graph, asked = ensue.graph(FILMS), questions(6)
    table = batches.question_table(asked)
    assert batches.questions_of(table) == asked
    expected = rows(graph.retrieve(asked))
    frames: list[Any] = [table, table.to_pandas(), pl.from_arrow(table)]
    for frame in frames:
        assert rows(graph.retrieve(frame)) == expected
    weighted = [ensue.Question("w", "Alila", ("stars", "has_genre"), (1.0, 0.5))]
    assert batches.questions_of(batches.question_table(weighted)) == weighted
    several = [ensue.Question("w", ("Alila", "Kedma"), ("written_by",)), asked[0]]
    again = batches.questions_of(batches.question_table(several))
    assert [question.start for question in again] == [["Alila", "Kedma"], ["Alila"]]
    assert graph.retrieve([]).table.num_rows == 0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (pd.DataFrame({"text": ["x"], "start": ["Alila"]}), "no column 'expressions'"),
        (
            pd.DataFrame({"text": ["x"], "start": [None], "expressions": [["stars"]]}),
            "row 0 of the questions has no start",
        ),
        (["who wrote it"], "is not a question"),
    ],
)
def test_what_is_no_question(given: Any, problem: str) -> None:
    with pytest.raises(errors.EnsueError, match=problem):
        ensue.graph(FILMS).retrieve(given)
