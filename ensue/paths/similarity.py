"""How alike a question, its candidate expressions and partial paths are (SHARP §5).

The text of an expression is its labels in words; that of a state of the automaton is the labels of
a shortest way to it, which all partial paths in the state have crossed or could have. The weight of
a candidate is its similarity to the question; names of nodes are left out, since the question does
not know them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.paths import DEAD, PathAutomaton
from ensue.paths.embed import Remembered
from ensue.paths.graph_store import GraphStore
from ensue.paths.plan import PathPlan
from ensue.query import nodes
from ensue.query.paths import PathQuery

_LEAST_WEIGHT = np.float32(1e-6)
_AT_ONCE = 4096  # texts


@dataclass(frozen=True)
class Question:
    """A question, the node it is about, and expressions that may answer it.

    `weights` says how much the asker trusts each expression (an LLM's own score); 1 where absent.

    Examples:
        >>> ensue.Question("who wrote [Alien]", "Alien", ("written_by", "directed_by")).expressions
        ('written_by', 'directed_by')
    """

    text: str
    start: Any
    expressions: tuple[str, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        given = self.expressions
        one = (given,) if isinstance(given, str) else tuple(given)
        object.__setattr__(self, "expressions", one)
        if not self.expressions:
            raise errors.QueryError(
                f"the question {self.text!r} has no expression", remedy="give at least one"
            )
        if self.weights is not None and len(self.weights) != len(self.expressions):
            raise errors.QueryError(
                f"{len(self.weights)} weights for {len(self.expressions)} expressions",
                remedy="give one weight per expression",
            )


def label_words(store: GraphStore, given: Mapping[str, str] | None) -> dict[str, str]:
    words = {label: label.replace("_", " ") for label in store.labels}
    for label, text in (given or {}).items():
        if label not in words:
            raise errors.UnknownLabelError(
                f"label_texts describes {label!r}, which the graph does not have",
                remedy="name one of " + ", ".join(store.labels[:10]),
            )
        words[label] = f"{words[label]} {text}"
    return words


def _query_text(query: PathQuery, words: Mapping[str, str]) -> str:
    """The labels of an expression, in words, in the order of the steps."""
    named: list[str] = []
    for node in nodes.walk(query.pattern):
        if isinstance(node, nodes.Label):
            test = query.tests[int(node.name)]
            named.extend(words.get(name, name) for name in test.labels if not test.negated)
    return " ".join(named)


def question_weights(
    questions: Sequence[Question],
    queries: Mapping[str, PathQuery],
    trust: Mapping[str, float],
    words: Mapping[str, str],
    embedder: Remembered,
) -> NDArray[np.float32]:
    """Per question and expression: how alike they are; 0 where not asked.

    Questions that differ in their topic only are of one kind, which is embedded once.
    """
    weight = np.zeros((len(questions), len(queries)), np.float32)
    if not len(questions) or not queries:
        return weight
    about = embedder.vectors([_query_text(query, words) for query in queries.values()])
    kinds: dict[str, int] = {}
    kind = [kinds.setdefault(_without_topic(q), len(kinds)) for q in questions]
    texts = list(kinds)
    similar = np.concatenate(
        [
            embedder.vectors(texts[begin : begin + _AT_ONCE]) @ about.T
            for begin in range(0, len(texts), _AT_ONCE)
        ]
    )
    numbers = {text: number for number, text in enumerate(queries)}
    columns = np.array([numbers.get(t, -1) for q in questions for t in q.expressions], np.int64)
    rows = np.repeat(np.arange(len(questions)), [len(q.expressions) for q in questions])
    trusted = np.array([trust.get(text, 1.0) for text in queries], np.float32)[columns]
    if any(q.weights is not None for q in questions):
        each = [w for q in questions for w in q.weights or (1.0,) * len(q.expressions)]
        trusted = trusted * np.array(each, np.float32)
    values = np.maximum(similar[np.array(kind)[rows], columns], 0) * trusted
    left = columns >= 0
    weight[rows[left], columns[left]] = np.maximum(values[left], _LEAST_WEIGHT)
    return weight


def _without_topic(question: Question) -> str:
    """The question without the name of its node, which says nothing about the kind of path."""
    text = question.text
    if "[" in text:
        starts = question.start if isinstance(question.start, (list, tuple)) else (question.start,)
        for start in starts:
            text = text.replace(f"[{start}]", " ")
    return text


def state_sharing(
    plan: PathPlan, words: Mapping[str, str], embedder: Remembered
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Per state: the queries it is shared by, and how alike its labels and theirs are."""
    crossed = _crossed(plan, words)
    wholes = embedder.vectors([_query_text(query, words) for query in plan.programs.queries])
    parts = embedder.vectors(crossed)
    offset, queries = [0], []
    for sharers in plan.automaton.queries_of:
        queries.extend(sorted(sharers))
        offset.append(len(queries))
    state_of = np.repeat(np.arange(plan.automaton.states), np.diff(offset))
    similar = np.zeros(len(queries), np.float32)
    if queries:
        similar = np.einsum("ij,ij->i", parts[state_of], wholes[queries]).astype(np.float32)
    # A little for every step, so that of two equally similar the longer goes first.
    depth = _depths(plan.automaton)
    similar = np.maximum(similar, 0) + np.float32(0.01) * (1 + depth[state_of])
    return np.array(offset, np.int32), np.array(queries, np.int32), similar.astype(np.float32)


def _crossed(plan: PathPlan, words: Mapping[str, str]) -> list[str]:
    """Per state: the words of a shortest sequence of labels that leads to it."""
    automaton = plan.automaton
    texts: list[str | None] = [None] * automaton.states
    frontier = [state for state in automaton.entries.values() if state != DEAD]
    for state in frontier:
        texts[state] = ""
    labels = plan.store.labels
    while frontier:
        following = []
        for state in frontier:
            for symbol in range(plan.store.symbols):
                for kind in plan.classes.under_symbol[symbol]:
                    target = int(automaton.table[state, kind])
                    if target != DEAD and texts[target] is None:
                        texts[target] = f"{texts[state]} {words[labels[symbol % len(labels)]]}"
                        following.append(target)
        frontier = following
    return [text or "" for text in texts]


def _depths(automaton: PathAutomaton) -> NDArray[np.int32]:
    depth = np.zeros(automaton.states, np.int32)
    frontier = {state for state in automaton.entries.values() if state != DEAD}
    seen, level = set(frontier), 0
    while frontier:
        level += 1
        following = {int(t) for s in frontier for t in automaton.table[s] if t != DEAD} - seen
        for state in following:
            depth[state] = level
        seen |= following
        frontier = following
    return depth
