"""Questions to a graph: `Graph.retrieve`, in process and on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ensue import errors
from ensue.api.graph_given import Absence, hops_of, read_path, semantics_of
from ensue.api.tables import is_spark, to_arrow
from ensue.operator.budget import Budget
from ensue.paths import search as engine
from ensue.paths.batches import questions_of, retrieve_all
from ensue.paths.budget import Ways
from ensue.paths.candidates import THRESHOLD
from ensue.paths.embed import Embedder
from ensue.paths.graph_store import GraphStore
from ensue.paths.similarity import Question
from ensue.query.depth import roomy
from ensue.query.timeout import Timeout, timed


class Questioned:
    """A graph in process or on Spark, of which questions are asked."""

    def __init__(self, store: GraphStore | None, spark: Any, missing: str) -> None:
        self._store = store
        self._spark = spark
        self._missing = missing
        self._engine = None if store is None else engine.PathEngine(store)

    @property
    def _local(self) -> engine.PathEngine:
        if self._engine is None:
            raise errors.UnsupportedError(
                "only a graph in process can do this, and this graph is on Spark",
                remedy="collect the edges first: ensue.graph(df.toArrow())",
            )
        return self._engine

    @roomy
    @timed
    def retrieve(
        self,
        questions: Any,  # a Question, several, or a table of them
        *,
        budget: Budget | None = None,
        embedder: Embedder | None = None,
        label_texts: Mapping[str, str] | None = None,
        unknown: str = "nearest",
        threshold: float = THRESHOLD,
        semantics: str = "no_return",
        max_hops: int | None = None,
        strategy: str = "contribution",
        seed: int = 0,
        timeout: Timeout | None = None,
    ) -> Any:
        """Best-effort paths of questions with several candidate expressions (SHARP §5), ranked.

        Questions are `ensue.Question`, or the rows of a table with columns text, start,
        expressions (a list) and, if wanted, weights. On Spark the table is a DataFrame that has a
        column id too, and so is the answer: paths with `question` (an id), score and complete.

        The budget is per question and shared by its candidates: `work` in extensions of partial
        paths, `latency` as time or per cent of the unbounded run, `memory` in bytes of partial
        paths or per cent. Without one, all paths are found. `label_texts` says in words what a
        label means; `embedder` turns texts into vectors, which are kept with the graph.

        `unknown`: a label that the graph does not have is read as the "nearest" by the embedder
        if they are `threshold` alike; else, or with "drop", that expression alone is dropped, as
        is one that cannot be read. `found.repairs` lists them. "error" refuses the call.

        Examples:
            >>> made = {"subject": ["Alien", "Jaws"], "relation": ["by"] * 2, "object": ["Ann"] * 2}
            >>> g = ensue.graph(pa.table(made))
            >>> asked = ensue.Question("who made [Alien]", "Alien", ["by", "by/^by"])
            >>> g.retrieve(asked, budget=ensue.Budget(work=10)).answers()
            [['Ann', 'Jaws']]
        """
        ways = Ways(
            read_path,
            semantics_of(semantics),
            hops_of(max_hops),
            budget,
            embedder,
            label_texts,
            unknown,
            threshold,
            strategy,
            seed,
            Absence(self._missing, self._store),
        )
        if self._spark is not None:
            many = questions if is_spark(questions) else _several(questions)
            return self._spark.retrieve(many, ways)
        if is_spark(questions):
            raise errors.QueryError(
                "the questions are on Spark, and the graph is in process",
                remedy="make the graph of a Spark DataFrame, or collect: questions.toArrow()",
            )
        return retrieve_all(self._local, _several(questions), ways)


def _several(questions: Any) -> list[Question]:
    """Questions from one, from many, or from a table of them."""
    if isinstance(questions, Question):
        return [questions]
    if hasattr(questions, "__dataframe__") or hasattr(questions, "__arrow_c_stream__"):
        return questions_of(to_arrow(questions))
    many = list(questions)
    strange = next((q for q in many if not isinstance(q, Question)), None)
    if strange is not None:
        raise errors.QueryError(
            f"{strange!r} is not a question",
            remedy="give ensue.Question(text, start, expressions), one or a list of them, or a "
            "table with columns text, start and expressions",
        )
    return many
