"""A small GraphRAG kit: question and candidate paths in, ranked evidence and a prompt out.

An LLM proposes a few path expressions for a question; the graph is searched for all of them under
a bound; the paths found are ranked and written as evidence into a prompt. No LLM is needed to run
this file: `python examples/graphrag.py` uses a small graph and proposals by hand, and shows the
answers and their scores. Plug in your own: `propose` and `complete` are plain functions.

    from sentence_transformers import SentenceTransformer       # pip install sentence-transformers
    model = SentenceTransformer("all-MiniLM-L6-v2")
    kit = GraphRAG(graph, embedder=model.encode)                # any list of texts -> array
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import ensue
from ensue.api.rag import in_words

PROMPT = """Answer the question from the evidence only. If it does not say, say so.

Evidence:
{evidence}

Question: {question}
Answer:"""


@dataclass
class Evidence:
    """What was found for one question, best first."""

    question: str
    answers: list[Any]
    paths: list[str]
    complete: bool  # nothing was left out by the bound
    work: int

    def prompt(self, most: int = 20) -> str:
        lines = [f"{number}. {path}" for number, path in enumerate(self.paths[:most], 1)]
        if len(self.paths) > most or not self.complete:
            lines.append("(there may be more)")
        return PROMPT.format(evidence="\n".join(lines) or "none", question=self.question)


@dataclass
class GraphRAG:
    """Retrieval over a graph for questions with several candidate paths."""

    graph: ensue.Graph
    budget: ensue.Budget | None = None
    embedder: Any = None
    label_texts: Mapping[str, str] | None = None
    propose: Callable[[str, Any], Sequence[str]] | None = None  # question, topic -> expressions
    complete: Callable[[str], str] | None = None  # prompt -> answer, any LLM client
    history: list[Evidence] = field(default_factory=list)

    def retrieve(self, questions: Sequence[ensue.Question]) -> list[Evidence]:
        """Paths of all candidates of all questions, under the bound, ranked."""
        found = self.graph.retrieve(
            list(questions),
            budget=self.budget,
            embedder=self.embedder,
            label_texts=self.label_texts,
        )
        answers = found.answers()
        texts: list[list[str]] = [[] for _ in questions]
        for row in found.table.to_pylist():
            texts[row["question"]].append(in_words(row["nodes"], row["labels"]))
        evidence = [
            Evidence(
                question.text,
                answers[number],
                list(dict.fromkeys(texts[number])),
                bool(found.complete[number]),
                int(found.work[number]),
            )
            for number, question in enumerate(questions)
        ]
        self.history.extend(evidence)
        return evidence

    def ask(self, text: str, topic: Any) -> str:
        """Propose, retrieve and complete; the prompt itself where no LLM is plugged in."""
        if self.propose is None:
            raise ValueError("plug in `propose`: question and topic to path expressions")
        question = ensue.Question(text, topic, tuple(self.propose(text, topic)))
        prompt = self.retrieve([question])[0].prompt()
        return prompt if self.complete is None else self.complete(prompt)


def score(found: Sequence[Any], gold: Sequence[Any]) -> dict[str, float]:
    """Answers against the gold ones, as sets; `first` says whether the best answer is one."""
    got, want = set(found), set(gold)
    hits = len(got & want)
    return {
        "precision": hits / len(got) if got else 0.0,
        "recall": hits / len(want) if want else 1.0,
        "first": float(bool(found) and found[0] in want),
        "exact": float(got == want),
    }


def example() -> tuple[GraphRAG, list[ensue.Question], list[set[str]]]:
    """The films of the SHARP paper's first figure, and a few around them."""
    triples = [
        ("Alila", "written_by", "Amos Gitai"),
        ("Kedma", "written_by", "Amos Gitai"),
        ("Kadosh", "written_by", "Amos Gitai"),
        ("Alila", "directed_by", "Amos Gitai"),
        ("Kadosh", "directed_by", "Amos Gitai"),
        ("Alila", "starred_actors", "Yaël Abecassis"),
        ("Kadosh", "starred_actors", "Yaël Abecassis"),
        ("Alila", "starred_actors", "Uri Klauzner"),
        ("Alila", "has_genre", "Drama"),
        ("Heat", "has_genre", "Drama"),
        ("Alila", "release_year", "2003"),
    ]
    columns = list(zip(*triples, strict=True))
    names = ["subject", "relation", "object"]
    edges = pa.table([pa.array(column) for column in columns], names=names)
    kit = GraphRAG(
        ensue.graph(edges),
        budget=ensue.Budget(work=6),
        label_texts={"written_by": "writer wrote scriptwriter", "directed_by": "director directed"},
    )
    questions = [
        ensue.Question(
            "what other movies did the scriptwriter of [Alila] write",
            "Alila",
            ("written_by/^written_by", "has_genre/^has_genre", "directed_by/^directed_by"),
        ),
        ensue.Question(
            "who starred in [Alila]", "Alila", ("directed_by", "starred_actors", "has_genre")
        ),
    ]
    return kit, questions, [{"Kedma", "Kadosh"}, {"Yaël Abecassis", "Uri Klauzner"}]


def main() -> None:
    kit, questions, gold = example()
    for evidence, want in zip(kit.retrieve(questions), gold, strict=True):
        print(evidence.prompt())
        print(f"→ ranked: {', '.join(evidence.answers)}; {score(evidence.answers, list(want))}")
        print(f"→ {evidence.work} extensions, complete: {evidence.complete}\n")


if __name__ == "__main__":
    main()
