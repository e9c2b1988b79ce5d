"""Many questions at once: as tables, and a batch at a time.

A batch has one automaton for the candidates of its questions and one table of weights, questions by
candidates. A language model writes other candidates for each question, so both would grow with the
square of the questions; batches keep them small. A bound holds in each batch, on average over its
questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.paths.budget import MANY, Ways, retrieve
from ensue.paths.graph_store import GraphStore
from ensue.paths.retrieval import Retrieval, joined
from ensue.paths.search import Found, PathEngine
from ensue.paths.similarity import Question
from ensue.paths.tables import path_table

MOST_CANDIDATES = 256  # different ones in a batch: beyond that, their automaton grows large
MOST_QUESTIONS = 65_536
COLUMNS = ("text", "start", "expressions")


def retrieve_all(engine: PathEngine, questions: Sequence[Question], ways: Ways) -> Retrieval:
    """The answers of all questions, numbered in their order."""
    found = []
    for batch in batches(questions):  # no comprehension: warnings count frames
        found.append(retrieve(engine, batch, ways))
    return found[0] if len(found) == 1 else joined(found)


def batches(questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
    """Questions in their order; at least one batch, however few they are."""
    begin, candidates = 0, set[str]()
    for number, question in enumerate(questions):
        more = candidates.union(question.expressions)
        if number - begin == MOST_QUESTIONS or (len(more) > MOST_CANDIDATES and number > begin):
            yield questions[begin:number]
            begin, more = number, set(question.expressions)
        candidates = more
    yield questions[begin:]


def questions_of(table: pa.Table) -> list[Question]:
    """Rows as questions."""
    absent = [name for name in COLUMNS if name not in table.column_names]
    if absent:
        raise errors.UnknownColumnError(
            f"the table of questions has no column {absent[0]!r}",
            remedy=f"name its columns {', '.join(COLUMNS)} and, if wanted, weights",
        )
    columns = [table[name].to_pylist() for name in COLUMNS]
    weights = [None] * len(table)
    if "weights" in table.column_names:
        weights = table["weights"].to_pylist()
    for row, values in enumerate(zip(*columns, strict=True)):
        if None in values:
            name = COLUMNS[values.index(None)]
            raise errors.DataError(
                f"row {row} of the questions has no {name}", remedy="fill it, or leave the row out"
            )
    return [
        Question(text, start, expressions, None if given is None else tuple(given))
        for text, start, expressions, given in zip(*columns, weights, strict=True)
    ]


def question_table(questions: Sequence[Question]) -> pa.Table:
    """Questions as rows, with their number as id."""
    starts: list[Any] = [question.start for question in questions]
    if any(isinstance(start, MANY) for start in starts):
        starts = [list(start) if isinstance(start, MANY) else [start] for start in starts]
    weights = [question.weights for question in questions]
    return pa.table(
        {
            "id": pa.array(range(len(questions)), pa.int64()),
            "text": pa.array([question.text for question in questions], pa.string()),
            "start": starts,
            "expressions": pa.array([q.expressions for q in questions], pa.list_(pa.string())),
            "weights": pa.array(weights, pa.list_(pa.float64())),
        }
    )


def answer_table(found: Retrieval, ids: pa.Array) -> pa.Table:
    """The paths of a batch by the ids of its questions."""
    table, numbers = found.table, pa.array(found.question)
    complete = pa.array(found.complete[found.question].astype(np.bool_))
    return table.set_column(0, "question", ids.take(numbers)).append_column("complete", complete)


def answer_schema(store: GraphStore, ids: pa.DataType) -> pa.Schema:
    """The columns of `answer_table`."""
    columns = [pa.field("question", ids), *path_table(store, Found.nothing(), []).schema]
    return pa.schema([*columns, pa.field("score", pa.float32()), pa.field("complete", pa.bool_())])
