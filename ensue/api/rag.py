"""From a question in words to evidence from a graph, with any language model in between.

The model is a function from a prompt to its reply. It is shown the labels of the graph and says
where to begin and which path expressions may answer; it need not be exact, since `graph.retrieve`
repairs labels and drops what cannot be asked. `ensue.api.retrievers` makes retrievers of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ensue import errors
from ensue.api.graph import Graph
from ensue.paths.similarity import Question

Propose = Callable[[str], Question]  # a question in words to one with a start and candidates

PROMPT = """A graph has edges with these labels:
{labels}

A path expression is a label; a/b crosses a, then b; ^a crosses an edge a from its object to its
subject; a|b is either. Which node is the question about, and which path expressions lead from it
to the answer? Give up to {most}, the likeliest first. Reply in JSON only:
{{"start": "...", "paths": ["...", "..."]}}

Question: {question}
"""


@dataclass(frozen=True)
class Evidence:
    """One path that may answer a question."""

    text: str  # Alila -written_by-> Amos Gitai <-written_by- Kedma
    score: float
    about: Mapping[str, Any] = field(default_factory=dict)  # start, end, nodes, labels, query ...


def proposer(graph: Graph, model: Callable[[str], str], *, most: int = 4) -> Propose:
    """A `propose` function backed by a language model: `model` maps a prompt to a reply."""
    labels = "\n".join(graph.labels)

    def propose(text: str) -> Question:
        return read_reply(text, model(PROMPT.format(labels=labels, most=most, question=text)))

    return propose


def read_reply(text: str, reply: str) -> Question:
    """The question that a model's reply makes of a text: the first JSON object in it counts.

    What is around the object, as a fence or a remark, is passed over, and so is a path that is no
    text. Where the text names the start, brackets mark it: questions then differ in it only.
    """
    found = _first_object(reply)
    start, paths = found.get("start"), found.get("paths")
    paths = [paths] if isinstance(paths, str) else paths
    given = [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
    if start is None or not given:
        raise errors.DataError(
            f"the reply to {text!r} lacks a start or a path: {reply[:200]!r}",
            remedy='it has to hold {"start": "...", "paths": ["..."]}; ask the model again',
        )
    marked = f"[{start}]"
    if isinstance(start, str) and start and marked not in text:
        text = text.replace(start, marked)
    return Question(text, start, tuple(dict.fromkeys(given)))


def _first_object(reply: str) -> dict[str, Any]:
    decoder = json.JSONDecoder()
    at = reply.find("{")
    while at >= 0:
        try:
            found, _ = decoder.raw_decode(reply, at)
        except json.JSONDecodeError:
            found = None
        if isinstance(found, dict):
            return found
        at = reply.find("{", at + 1)
    return {}


def evidence(
    graph: Graph, questions: Sequence[Question], most: int = 20, **options: Any
) -> list[list[Evidence]]:
    """Per question the best paths as texts; `options` are those of `graph.retrieve`.

    A path that several candidates found is listed once.
    """
    found = graph.retrieve(list(questions), **options)
    complete = found.complete.tolist()
    told: list[dict[str, Evidence]] = [{} for _ in questions]
    for row in found.table.to_pylist():
        number = row.pop("question")
        text = in_words(row["nodes"], row["labels"])
        if len(told[number]) < most and text not in told[number]:
            score = row.pop("score")
            about = row | {"complete": complete[number]}
            told[number][text] = Evidence(text, score, about)
    return [list(some.values()) for some in told]


def in_words(nodes: Sequence[Any], labels: Sequence[str]) -> str:
    """`Alila -written_by-> Amos Gitai <-written_by- Kedma`."""
    text = str(nodes[0])
    for label, node in zip(labels, nodes[1:], strict=True):
        text += f" <-{label[1:]}- {node}" if label.startswith("^") else f" -{label}-> {node}"
    return text
