"""What was found for questions, and how pieces of it are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.paths.believed import Believed, over_batches
from ensue.paths.graph_store import GraphStore
from ensue.paths.kernels.budget import Piece
from ensue.paths.search import Found
from ensue.paths.tables import path_table


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Paths found for questions, by question, best first."""

    store: GraphStore
    texts: list[str]  # of the expressions
    questions: int
    question: NDArray[np.int32]
    found: Found
    score: NDArray[np.float32]
    work: NDArray[np.int64]  # per question: extensions of partial paths
    bytes: NDArray[np.int64]  # per question: most bytes of partial paths and answers
    complete: NDArray[np.bool_]  # per question: nothing was left out
    seconds: float  # searching, all questions
    embedding_seconds: float
    repairs: pa.Table  # expressions not asked as given: query, label, read_as, similarity, reason
    believed: Believed

    @property
    def recall(self) -> float | None:
        """The share of a question's answers that were found, on average; None: not known."""
        return self.believed.recall

    @property
    def low(self) -> float | None:
        """Where an interval begins that holds the recall with a probability of 95 %."""
        return self.believed.low

    @property
    def high(self) -> float | None:
        """Where it ends."""
        return self.believed.high

    @cached_property
    def table(self) -> pa.Table:
        """question, query, start, end, nodes, labels, length, score."""
        table = path_table(self.store, self.found, self.texts)
        table = table.add_column(0, "question", pa.array(self.question))
        return table.append_column("score", pa.array(self.score))

    def answers(self) -> list[list[Any]]:
        """Per question the distinct ends, best first: by score, then by how many paths agree."""
        names = self.store.names
        tallies: list[dict[int, list[float]]] = [{} for _ in range(self.questions)]
        rows = zip(
            self.question.tolist(), self.found.end.tolist(), self.score.tolist(), strict=True
        )
        for question, end, score in rows:
            entry = tallies[question].setdefault(end, [0.0, 0.0])
            entry[0] = max(entry[0], score)
            entry[1] += 1.0
        ranked = [sorted(t, key=lambda end: t[end], reverse=True) for t in tallies]
        flat = names.take(pa.array([end for ends in ranked for end in ends], pa.int32()))
        values = iter(flat.to_pylist())
        return [[next(values) for _ in ends] for ends in ranked]


def pieced(
    store: GraphStore,
    texts: list[str],
    questions: int,
    pieces: list[tuple[int, Piece]],  # each with the first of its questions
    seconds: float,
    embedded: float,
    repairs: pa.Table,
    believed: Believed,
) -> Retrieval:
    moved, offsets, total = [], [np.zeros(1, np.int64)], 0
    latest = np.zeros(questions, np.int64)  # the piece that answers a question, of several
    work, held = np.zeros(questions, np.int64), np.zeros(questions, np.int64)
    complete = np.ones(questions, np.bool_)
    for number, (begin, piece) in enumerate(pieces):
        moved.append(piece.found[:, 0] + np.int32(begin))
        offsets.append(piece.offset[1:] + total)
        total += int(piece.offset[-1])
        span = slice(begin, begin + len(piece.work))
        latest[span] = number
        work[span], held[span], complete[span] = piece.work, piece.bytes, piece.complete
    rows, score, visited, labels = (
        np.concatenate([getattr(piece, name) for _, piece in pieces])
        for name in ("found", "score", "nodes", "labels")
    )
    query, end = rows[:, 1], rows[:, 2]
    question, offset = np.concatenate(moved), np.concatenate(offsets)
    start = visited[offset[:-1] + np.arange(len(query))]
    source = np.repeat(np.arange(len(pieces)), [len(piece.found) for _, piece in pieces])
    order = np.lexsort((np.arange(len(query)), -score, question))
    order = order[latest[question[order]] == source[order]]
    found = _ordered(Found(query, start, end, offset, visited, labels), order)
    return Retrieval(
        store, texts, questions, question[order], found, score[order],
        work, held, complete, seconds, embedded, repairs, believed,
    )  # fmt: skip


def _ordered(found: Found, order: NDArray[np.int64]) -> Found:
    lengths = np.diff(found.offset)
    node_begin = found.offset[:-1] + np.arange(len(lengths))
    offset = np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64)
    return Found(
        found.query[order],
        found.start[order],
        found.end[order],
        offset,
        found.nodes[_spans(node_begin[order], lengths[order] + 1)],
        found.labels[_spans(found.offset[:-1][order], lengths[order])],
    )


def _spans(begin: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """All places of the spans, one span after the other."""
    total = int(length.sum())
    shift = np.repeat(begin - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
    return np.arange(total, dtype=np.int64) + shift


def joined(several: Sequence[Retrieval]) -> Retrieval:
    """The answers of batches of questions, numbered one batch after the other."""
    texts: dict[str, int] = {}
    query, question, first = [], [], 0
    for one in several:
        numbers = [texts.setdefault(text, len(texts)) for text in one.texts]
        query.append(np.array(numbers, np.int32)[one.found.query])
        question.append(one.question + np.int32(first))
        first += one.questions
    lengths = _whole([np.diff(one.found.offset) for one in several])
    start, end, nodes, labels = (
        _whole([getattr(one.found, name) for one in several])
        for name in ("start", "end", "nodes", "labels")
    )
    offset = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    found = Found(_whole(query), start, end, offset, nodes, labels)
    each = ("score", "work", "bytes", "complete")
    score, work, held, complete = (_whole([getattr(o, name) for o in several]) for name in each)
    return Retrieval(
        several[0].store, list(texts), first, _whole(question), found,
        score, work, held, complete,
        sum(one.seconds for one in several), sum(one.embedding_seconds for one in several),
        pa.concat_tables([one.repairs for one in several]),
        over_batches([one.questions for one in several], [one.believed for one in several]),
    )  # fmt: skip


def _whole(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays)
