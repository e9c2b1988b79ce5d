"""The GraphRAG kit in examples/ runs and finds what its story says."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

KIT = Path(__file__).parents[2] / "examples" / "graphrag.py"


@pytest.fixture(scope="module")
def kit() -> dict[str, Any]:
    return runpy.run_path(str(KIT))


def test_the_example(kit: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    kit["main"]()
    shown = capsys.readouterr().out
    assert "1. Alila -written_by-> Amos Gitai <-written_by- Kedma" in shown
    rag, questions, gold = kit["example"]()
    for evidence, want in zip(rag.retrieve(questions), gold, strict=True):
        scores = kit["score"](evidence.answers, list(want))
        assert scores["first"] == 1 and scores["recall"] == 1
        assert evidence.question in evidence.prompt()


def test_any_llm_plugs_in(kit: dict[str, Any]) -> None:
    rag, questions, _ = kit["example"]()
    rag.propose = lambda text, topic: questions[1].expressions
    rag.complete = lambda prompt: prompt.splitlines()[3]
    assert rag.ask("who starred in [Alila]", "Alila").startswith("1. Alila -starred_actors->")
    assert kit["score"]([], ["x"]) == {"precision": 0.0, "recall": 0.0, "first": 0.0, "exact": 0.0}
