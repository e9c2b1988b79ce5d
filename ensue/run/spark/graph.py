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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from ensue import errors
from ensue.operator.budget import read_size
from ensue.paths.explain import explain_plan
from ensue.paths.graph_read import build_graph, check_columns, check_settings
from ensue.paths.graph_store import GraphStore
from ensue.paths.plan import Origins
from ensue.paths.search import Found, PathEngine, Request, ends_table, path_table
from ensue.paths.warm import warm_up
from ensue.query.paths import Semantics
from ensue.run.spark.graph_joins import JoinedGraph

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
        self, df: DataFrame, runner: CopiedGraph | JoinedGraph, reason: str, notes: tuple[str, ...]
    ) -> None:
        self._df = df
        self._runner = runner
        self._reason = reason
        self.notes = notes

    @staticmethod
    def of(
        df: DataFrame,
        src: str,
        label: str,
        dst: str,
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
            raise errors.UnsupportedInputError(
                "a streaming DataFrame was given; a graph is a batch of edges",
                remedy="use a batch DataFrame, or build the graph inside foreachBatch",
            )
        check_settings(**settings)
        check_columns(df.columns, src, label, dst)
        bound = read_size(worker_memory, f"worker_memory={worker_memory!r}")
        edges = df.count()
        size = edges * BYTES_PER_EDGE
        shown = f"{edges:,} edges, about {size >> 20:,} MB of {bound >> 20:,} MB (worker_memory)"
        if plan == "copy" or (plan == "auto" and size <= bound):
            why = "fits a worker" if plan == "auto" else "by hand"
            table = df.toArrow()
            attributes = nodes.toArrow() if isinstance(nodes, DataFrame) else nodes
            if attributes is not None and not isinstance(attributes, pa.Table):
                attributes = pa.table(attributes)
            store = build_graph(
                table, src, label, dst, nodes=attributes, node_id=node_id, **settings
            )
            return SparkGraph(df, CopiedGraph(df, store), f"copy: {why} ({shown})", store.notes)
        why = "does not fit a worker" if plan == "auto" else "by hand"
        joined = JoinedGraph.of(df, src, label, dst, nodes, node_id, settings)
        return SparkGraph(df, joined, f"join: {why} ({shown})", joined.notes)

    @property
    def labels(self) -> tuple[str, ...]:
        return self._runner.labels

    @property
    def node_count(self) -> int:
        return self._runner.node_count

    @property
    def edge_count(self) -> int:
        return self._runner.edge_count

    def paths(self, asked: dict[str, Any]) -> DataFrame:
        return self._runner.paths(asked)

    def ends(self, asked: dict[str, Any]) -> DataFrame:
        return self._runner.ends(asked)

    def counts(self, asked: dict[str, Any], of: str, as_text: bool) -> DataFrame:
        return self._runner.counts(asked, of, as_text)

    def count(self, asked: dict[str, Any], of: str) -> int:
        rows = self._runner.counts(asked, of, True).select("count").collect()
        return sum(int(row[0]) for row in rows)

    def explain(self, asked: dict[str, Any]) -> str:
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
        weakref.finalize(self, shutil.rmtree, str(folder), True)
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
        self._spark.addArtifacts(*carried, file=True)
        return Ticket(key, archive=archive, folder=str(folder))

    def paths(self, asked: dict[str, Any]) -> DataFrame:
        names = asked["names"]

        def answer(engine: PathEngine, request: Request) -> Iterator[pa.Table]:
            for found in engine.paths(request):
                yield path_table(engine.store, found, names)

        empty = path_table(self.store, _nothing(), names)
        return self._run(asked, answer, empty.schema, enumerates=True)

    def ends(self, asked: dict[str, Any]) -> DataFrame:
        names = asked["names"]

        def answer(engine: PathEngine, request: Request) -> Iterator[pa.Table]:
            yield ends_table(engine.store, engine.ends(request), names)

        empty = ends_table(self.store, _nothing(), names)
        return self._run(asked, answer, empty.schema, enumerates=False)

    def counts(self, asked: dict[str, Any], of: str, as_text: bool) -> DataFrame:
        everywhere, names = asked["starts"] is None, asked["names"]

        def answer(engine: PathEngine, request: Request) -> Iterator[pa.Table]:
            if of == "ends":
                rows = [[int(v) for v in row] for row in engine.end_counts(request)]
            else:
                rows = engine.path_counts(request)
            yield _count_table(engine.store, request, rows, names, everywhere)

        empty = _count_table(self.store, None, [], names, everywhere)
        found = self._run({**asked, "turn": False}, answer, empty.schema, of == "paths")
        return (
            found if as_text else found.withColumn("count", F.expr("CAST(count AS DECIMAL(38,0))"))
        )

    def explain(self, asked: dict[str, Any]) -> list[str]:
        starts, request = self._starts(asked)
        size = "inside the task" if self.ticket.parts else "as files, mapped by every worker"
        return [
            f"           {self.node_count:,} nodes, {self.edge_count:,} edges, "
            f"{self.store.nbytes / 2**20:.1f} MB, carried {size}",
            *explain_plan(self._engine.plan(request), request),
            f"starts     {len(starts):,} (query, node) pairs over {self._partitions} partitions",
        ]

    def _starts(self, asked: dict[str, Any]) -> tuple[pa.Table, Request]:
        """Pairs of query and node number, and the request with all of them (for checks)."""
        queries, ends, backwards = asked["queries"], asked["ends"], False
        numbers = None if ends is None else self._known(ends, "end", asked)
        turn = asked.get("turn", True)
        if asked["starts"] is not None:
            nodes = [self._known(values, "start", asked) for _, values in asked["starts"]]
            which = [
                np.full(len(found), query, np.int32)
                for (query, _), found in zip(asked["starts"], nodes, strict=True)
            ]
        elif (
            turn
            and numbers is not None
            and (asked["limit"] or asked["semantics"] is Semantics.NO_RETURN)
        ):
            pairs = self._engine.reaching(queries, numbers, asked["max_hops"])
            nodes, which = [pairs[0]], [pairs[1]]
        else:
            if turn and numbers is not None:
                queries, backwards = tuple(query.inverse() for query in queries), True
                every, numbers = numbers, None
            else:
                every = np.arange(self.store.node_count)
            nodes = [every] * len(queries)
            which = [np.full(len(every), query, np.int32) for query in range(len(queries))]
        node = np.concatenate(nodes) if nodes else np.zeros(0, np.int64)
        query = np.concatenate(which) if which else np.zeros(0, np.int32)
        # A pair is asked once, whichever batch it would travel in.
        distinct = np.unique(node.astype(np.int64) * len(queries) + query)
        node, query = distinct // len(queries), (distinct % len(queries)).astype(np.int32)
        request = Request(
            queries,
            Origins.of_pairs(node, query, len(queries)),
            numbers,
            asked["max_hops"],
            asked["semantics"],
            asked["limit"],
            asked["max_partials"],
            backwards,
        )
        return pa.table({"query": query, "node": node.astype(np.int64)}), request

    def _known(self, names: Any, what: str, asked: dict[str, Any]) -> Any:
        found = self.store.find(names)
        absent = np.flatnonzero(found < 0)
        if len(absent):
            asked["absent"](what, [names[int(at)] for at in absent[:3]], len(absent))
        return found[found >= 0]

    def _run(
        self,
        asked: dict[str, Any],
        answer: Callable[[PathEngine, Request], Iterator[pa.Table]],
        schema: pa.Schema,
        enumerates: bool,
    ) -> DataFrame:
        pairs, request = self._starts(asked)
        # So that a wrong label or a loop without end fails here, not in a worker.
        self._engine.check(request, enumerates)
        warm_up("paths" if enumerates else "ends")  # workers of this host find the cache filled
        ticket = self.ticket
        queries, ends, backwards = request.queries, request.ends, request.backwards
        hops, semantics = request.max_hops, request.semantics
        limit, most = request.limit, request.max_partials

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            engine = ticket.engine()
            for batch in batches:
                node = batch.column("node").to_numpy()
                query = batch.column("query").to_numpy()
                origins = Origins.of_pairs(node, query, len(queries))
                mine = Request(queries, origins, ends, hops, semantics, limit, most, backwards)
                for table in answer(engine, mine):
                    yield from table.combine_chunks().to_batches(max_chunksize=_ROWS)

        starts = self._spark.createDataFrame(pairs)
        # By node: the queries of a node share their beginnings.
        spread = starts.repartition(min(self._partitions, max(len(pairs), 1)), "node")
        return spread.mapInArrow(work, from_arrow_schema(schema))


def _nothing() -> Found:
    empty = np.zeros(0, np.int32)
    return Found(empty, empty, empty)


def _count_table(
    store: GraphStore,
    request: Request | None,
    rows: list[list[int]],
    names: list[str] | None,
    everywhere: bool,
) -> pa.Table:
    """Counts as text, since they may have any size."""
    kept = [
        (query, request.origins.node[origin], count)
        for origin, row in enumerate(rows)
        for query, count in enumerate(row)
        if request is not None
        and query in request.origins.sets[request.origins.asked[origin]]
        and (count or not everywhere)
    ]
    columns: dict[str, pa.Array] = {}
    if names is not None:
        columns["query"] = pa.array([names[query] for query, _, _ in kept], pa.string())
    columns["start"] = store.names.take(pa.array([node for _, node, _ in kept], pa.int32()))
    columns["count"] = pa.array([str(count) for _, _, count in kept], pa.string())
    return pa.table(columns)
