"""Paths on Spark: a graph that fits is copied to every worker once, a larger one is joined.

*Copy*: the edges are collected, laid out once and written as Arrow files; Spark carries the files
to each host once (`addArtifacts`), where every worker process maps them into memory and keeps them.
Small graphs travel inside the task itself, which Spark broadcasts. The starts are spread over the
workers; each batch is one call of the same engine that runs in process.
*Join*: `graph_joins.py`. Which of the two runs is decided by the estimated size, and `explain` says
so. Spark Connect runs the same code.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.capabilities import Task, Way, refusal
from ensue.operator.budget import read_size
from ensue.paths.asked import Asked
from ensue.paths.batches import (
    COLUMNS,
    answer_schema,
    answer_table,
    question_table,
    questions_of,
    retrieve_all,
)
from ensue.paths.budget import Ways
from ensue.paths.explain import explain_plan
from ensue.paths.graph_read import build_graph, check_columns, check_settings
from ensue.paths.graph_store import GraphStore
from ensue.paths.plan import Origins
from ensue.paths.search import Found, PathEngine, Request
from ensue.paths.similarity import Question
from ensue.paths.tables import count_table, ends_table, path_table
from ensue.paths.warm import warm_up
from ensue.run.spark.graph_clean import EdgeColumns
from ensue.run.spark.graph_joins import JoinedGraph
from ensue.run.spark.raised import action
from ensue.run.spark.ship import shipped
from ensue.run.spark.versions import add_files, spark_schema, worker_schema

IN_TASK_BYTES = 4 << 20  # a graph up to this size travels with the task
BYTES_PER_EDGE = 64  # both entries, offsets and a share of the names
_ROWS = 10_000
_PLANS = ("auto", "copy", "join")
_ENGINES: dict[str, PathEngine] = {}  # of a worker process, by graph


@dataclass(frozen=True)
class Ticket:
    """How a worker finds the graph: in the task, or in files that Spark has carried."""

    key: str
    parts: tuple[tuple[str, bytes], ...] = ()
    archive: str = ""
    folder: str = ""  # on the driver's host, which local workers share

    def engine(self) -> PathEngine:
        if self.key not in _ENGINES:
            _ENGINES[self.key] = PathEngine(GraphStore.load(self._open()))
        return _ENGINES[self.key]

    def _open(self) -> Path:
        if self.folder and Path(self.folder, "labels.arrow").is_file():
            return Path(self.folder)
        folder = Path(tempfile.mkdtemp(prefix="ensue-graph-"))
        if self.parts:
            for name, content in self.parts:
                (folder / name).write_bytes(content)
            return folder
        for name in ("labels", "names", "offset", "entries", "edges", "nodes"):
            carried = Path(SparkFiles.get(f"{self.archive}-{name}.arrow"))
            (folder / f"{name}.arrow").symlink_to(carried)
        return folder


class SparkGraph:
    """The Spark side of `ensue.Graph`: one of the two ways, and why."""

    def __init__(
        self, runner: CopiedGraph | JoinedGraph, reason: str, notes: tuple[str, ...]
    ) -> None:
        self._runner = runner
        self._reason = reason
        self.notes = notes

    @staticmethod
    def of(
        df: DataFrame,
        columns: EdgeColumns,
        nodes: Any,
        node_id: str,
        settings: dict[str, str],
        worker_memory: str,
        plan: str,
    ) -> SparkGraph:
        if plan not in _PLANS:
            raise errors.QueryError(
                f"plan={plan!r} is not known", remedy="use " + ", ".join(_PLANS)
            )
        if df.isStreaming:
            raise refusal(Task.PATHS, Way.STREAM_FINAL)
        check_settings(**settings)
        check_columns(df.columns, *columns)
        bound = read_size(worker_memory, f"worker_memory={worker_memory!r}")
        with action(df, "counting edges"):
            edges = df.count()
        size = edges * BYTES_PER_EDGE
        shown = f"{edges:,} edges, about {size >> 20:,} MB of {bound >> 20:,} MB (worker_memory)"
        if plan == "copy" or (plan == "auto" and size <= bound):
            why = "fits a worker" if plan == "auto" else "by hand"
            with action(df, "loading the graph"):
                table = df.toArrow()
            attributes = nodes.toArrow() if isinstance(nodes, DataFrame) else nodes
            if attributes is not None and not isinstance(attributes, pa.Table):
                attributes = pa.table(attributes)
            store = build_graph(table, *columns, nodes=attributes, node_id=node_id, **settings)
            return SparkGraph(CopiedGraph(df, store), f"copy: {why} ({shown})", store.notes)
        why = "does not fit a worker" if plan == "auto" else "by hand"
        with action(df, "loading the graph"):
            joined = JoinedGraph.of(df, columns, nodes, node_id, settings)
        return SparkGraph(joined, f"join: {why} ({shown})", joined.notes)

    @property
    def labels(self) -> tuple[str, ...]:
        return self._runner.labels

    @property
    def node_count(self) -> int:
        return self._runner.node_count

    @property
    def edge_count(self) -> int:
        return self._runner.edge_count

    def paths(self, asked: Asked) -> DataFrame:
        return self._runner.paths(asked)

    def ends(self, asked: Asked) -> DataFrame:
        return self._runner.ends(asked)

    def counts(self, asked: Asked, of: str, as_text: bool) -> DataFrame:
        return self._runner.counts(asked, of, as_text)

    def count(self, asked: Asked, of: str) -> int:
        counts = self.counts(asked, of, True)
        with action(counts, "counting"):
            rows = counts.select("count").collect()
        return sum(int(row[0]) for row in rows)

    def retrieve(self, questions: DataFrame | list[Question], ways: Ways) -> DataFrame:
        return self._runner.retrieve(questions, ways)

    def explain(self, asked: Asked) -> str:
        lines = [f"graph      on Spark, {self._reason}", *self._runner.explain(asked)]
        return "\n".join([*lines, *(f"note       {note}" for note in self.notes)])


class CopiedGraph:
    """The graph in files on every host; queries are spread over workers."""

    def __init__(self, df: DataFrame, store: GraphStore) -> None:
        self._spark = df.sparkSession
        self._partitions = max(1, int(self._spark.conf.get("spark.sql.shuffle.partitions") or 8))
        self.store = store
        self.labels = store.labels
        self.node_count = store.node_count
        self.edge_count = store.edge_count

    @cached_property
    def _engine(self) -> PathEngine:
        return PathEngine(self.store)

    @cached_property
    def ticket(self) -> Ticket:
        """Writes the files, once, and hands them to Spark."""
        key = uuid.uuid4().hex
        folder = self.store.save()
        # Spark serves executors that come later from here: as long as the session may ask.
        weakref.finalize(self._spark, shutil.rmtree, str(folder), True)
        files = sorted(folder.glob("*.arrow"))
        if sum(file.stat().st_size for file in files) <= IN_TASK_BYTES:
            parts = tuple((file.name, file.read_bytes()) for file in files)
            return Ticket(key, parts=parts)
        archive = f"ensue-graph-{key}"
        carried = []
        for file in files:
            copy = folder / f"{archive}-{file.name}"
            copy.hardlink_to(file)
            carried.append(str(copy))
        add_files(self._spark, carried)
        return Ticket(key, archive=archive, folder=str(folder))

    def paths(self, asked: Asked) -> DataFrame:
        def answer(engine: PathEngine, request: Request) -> Iterator[pa.Table]:
            for found in engine.paths(request):
                yield path_table(engine.store, found, names)

        names = asked.names
        empty = path_table(self.store, Found.nothing(asked.weight is not None), names)
        return self._run(asked, answer, empty.schema)

    def ends(self, asked: Asked) -> DataFrame:
        def answer(engine: PathEngine, request: Request) -> Iterator[pa.Table]:
            yield ends_table(engine.store, engine.ends(request), names)

        names = asked.names
        empty = ends_table(self.store, Found.nothing(), names)
        return self._run(asked, answer, empty.schema, enumerates=False)

    def counts(self, asked: Asked, of: str, as_text: bool) -> DataFrame:
        every, names = asked.starts is None, asked.names

        def answer(engine: PathEngine, request: Request) -> Iterator[pa.Table]:
            rows = engine.counts(request, of)
            yield count_table(engine.store, request, rows, names, every, as_text=True)

        empty = count_table(self.store, None, [], names, every, as_text=True)
        counted = self._run(asked, answer, empty.schema, of == "paths", turn=False)
        if as_text:
            return counted
        return counted.withColumn("count", F.expr("CAST(count AS DECIMAL(38,0))"))

    def retrieve(self, questions: DataFrame | list[Question], ways: Ways) -> DataFrame:
        """A task answers its batches of questions, each under the bound."""
        if not isinstance(questions, DataFrame):
            questions = self._spark.createDataFrame(question_table(questions))
        absent = [name for name in ("id", *COLUMNS) if name not in questions.columns]
        if absent:
            raise errors.UnknownColumnError(
                f"the questions have no column {absent[0]!r}",
                remedy=f"name their columns id, {', '.join(COLUMNS)} and, if wanted, weights",
            )
        retrieve_all(self._engine, [], ways)  # what is wrong with them is told here
        names = ["id", *COLUMNS, *(["weights"] if "weights" in questions.columns else [])]
        asked = questions.select(*names)
        ticket = self.ticket
        schema = answer_schema(self.store, worker_schema(asked).field("id").type)

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            engine = ticket.engine()
            for batch in batches:
                table = pa.Table.from_batches([batch])
                found = retrieve_all(engine, questions_of(table), ways)
                ids = table["id"].combine_chunks()
                answers = answer_table(found, ids).cast(schema)
                yield from answers.combine_chunks().to_batches(max_chunksize=_ROWS)

        return asked.mapInArrow(shipped(work), spark_schema(schema))

    def explain(self, asked: Asked) -> list[str]:
        request = asked.request(self._engine)
        pairs = len(request.origins.pairs()[0])
        size = "inside the task" if self.ticket.parts else "as files, mapped by every worker"
        return [
            f"           {self.node_count:,} nodes, {self.edge_count:,} edges, "
            f"{self.store.nbytes / 2**20:.1f} MB, carried {size}",
            *explain_plan(self._engine.plan(request), request),
            f"starts     {pairs:,} (query, node) pairs over {self._partitions} partitions",
        ]

    def _run(
        self,
        asked: Asked,
        answer: Callable[[PathEngine, Request], Iterator[pa.Table]],
        schema: pa.Schema,
        enumerates: bool = True,
        turn: bool = True,
    ) -> DataFrame:
        request = asked.request(self._engine, turn)
        # So that a wrong label or a loop without end fails here, not in a worker.
        self._engine.check(request, enumerates)
        warm_up(
            "shortest" if asked.shortest else "paths" if enumerates else "ends"
        )  # workers of this host find the cache filled
        ticket, nodes, queries = self.ticket, *request.origins.pairs()
        nothing = Origins.of_pairs(nodes[:0], queries[:0], len(request.queries))
        whole = replace(request, origins=nothing)  # what travels: each batch has its own starts

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            engine = ticket.engine()
            for batch in batches:
                node = batch.column("node").to_numpy()
                query = batch.column("query").to_numpy()
                origins = Origins.of_pairs(node, query, len(whole.queries))
                for table in answer(engine, replace(whole, origins=origins)):
                    yield from table.combine_chunks().to_batches(max_chunksize=_ROWS)

        starts = self._spark.createDataFrame(pa.table({"query": queries, "node": nodes}))
        # By node: the queries of a node share their beginnings.
        spread = starts.repartition(min(self._partitions, max(len(nodes), 1)), "node")
        return spread.mapInArrow(shipped(work), spark_schema(schema))
