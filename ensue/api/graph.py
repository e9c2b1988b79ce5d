"""`ensue.graph(edges)`: the object that answers path queries.

Edges from an Arrow or pandas table or a file are searched in process and answers are Arrow tables;
edges from a Spark DataFrame are searched on Spark and answers are DataFrames. The questions are the
same, and so are the answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.api.files import SUFFIXES
from ensue.api.graph_given import (
    Absence,
    Expression,
    counted,
    hops_of,
    many,
    queries_of,
    semantics_of,
    starts_of,
    whole,
)
from ensue.api.graph_questions import Questioned
from ensue.api.tables import is_spark, to_arrow
from ensue.automaton.paths import PathPrograms
from ensue.draw.diagram import Picture
from ensue.draw.table import Explanation
from ensue.paths import search as engine
from ensue.paths.asked import Asked
from ensue.paths.explain import explain_local
from ensue.paths.graph_read import TEXT_SUFFIXES, build_graph, read_triples
from ensue.paths.graph_store import GraphStore
from ensue.paths.shortest import check_shortest
from ensue.paths.tables import count_table, ends_table, path_table
from ensue.paths.warm import warm_up
from ensue.progress import waiting
from ensue.query.depth import roomy
from ensue.query.options import known_options
from ensue.query.timeout import Timeout, timed


@known_options
@timed
def graph(
    edges: Any,
    src: str = "subject",
    label: str = "relation",
    dst: str = "object",
    *,
    nodes: Any = None,
    node_id: str = "id",
    nulls: str = "error",
    duplicates: str = "drop",
    dangling: str = "keep",
    missing: str = "note",
    worker_memory: str = "1 GB",
    plan: str = "auto",
    timeout: Timeout | None = None,
) -> Graph:
    """A graph from a table of edges, a file of triples (.tsv, .nt) or a folder made by `save`.

    `nodes` is a table of attributes by `node_id`. Bad input: `nulls` "error" or "drop";
    `duplicates` "drop", "keep" or "error"; `dangling` (ends that `nodes` does not have) "keep",
    "drop" or "error"; `missing` (an unknown start or end) "note" or "error". On Spark, a graph
    above `worker_memory` is not copied to the workers but expanded by joins; `plan` "copy" or
    "join" decides by hand.

    Examples:
        >>> films = pa.table({
        ...     "subject": ["Alien", "Dark Star", "Alien"],
        ...     "relation": ["written_by", "written_by", "directed_by"],
        ...     "object": ["O'Bannon", "O'Bannon", "Scott"],
        ... })
        >>> g = ensue.graph(films)
        >>> g
        <ensue graph in process: 3 edges, 2 labels>
    """
    if missing not in ("note", "error"):
        raise errors.QueryError(f"missing={missing!r} is not a setting", remedy="use note or error")
    settings = {"nulls": nulls, "duplicates": duplicates, "dangling": dangling}
    if is_spark(edges):
        from ensue.run.spark.graph import SparkGraph

        names = (src, label, dst)
        runner = SparkGraph.of(edges, names, nodes, node_id, settings, worker_memory, plan)
        return Graph(None, runner, missing)
    if isinstance(edges, (str, Path)):
        path = Path(edges)
        if path.is_dir():
            return Graph(GraphStore.load(path), None, missing)
        if path.suffix in TEXT_SUFFIXES or path.suffix.lower() not in SUFFIXES:
            edges = read_triples(path, src, label, dst)
    attributes = None if nodes is None else to_arrow(nodes)
    table = to_arrow(edges)
    with waiting("loading the graph", table.num_rows):
        store = build_graph(table, src, label, dst, nodes=attributes, node_id=node_id, **settings)
    return Graph(store, None, missing)


class Graph(Questioned):
    """A labelled, directed graph that answers regular path queries; see docs/graph.md.

    Examples:
        >>> films = {"subject": ["Alien"], "relation": ["written_by"], "object": ["O'Bannon"]}
        >>> ensue.graph(pa.table(films)).paths("written_by")["end"].to_pylist()
        ["O'Bannon"]
    """

    # -- looking at it ---------------------------------------------------------------------------

    @property
    def labels(self) -> tuple[str, ...]:
        """Every edge label, in order of appearance.

        Examples:
            >>> film = {"subject": ["Alien"], "relation": ["by"], "object": ["Ann"]}
            >>> g = ensue.graph(pa.table(film))
            >>> g.labels
            ('by',)
        """
        return tuple(self._spark.labels if self._spark is not None else self._local.store.labels)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done about duplicates, nulls and dangling edges.

        Examples:
            >>> twice = {"subject": ["a", "a"], "relation": ["r", "r"], "object": ["b", "b"]}
            >>> ensue.graph(pa.table(twice)).notes
            ('1 edges that repeat another in every column were dropped',)
        """
        return tuple(self._spark.notes if self._spark is not None else self._local.store.notes)

    @property
    def node_count(self) -> int:
        """How many nodes the graph has.

        Examples:
            >>> film = {"subject": ["Alien"], "relation": ["by"], "object": ["Ann"]}
            >>> g = ensue.graph(pa.table(film))
            >>> g.node_count
            2
        """
        if self._spark is not None:
            return int(self._spark.node_count)
        return self._local.store.node_count

    @property
    def edge_count(self) -> int:
        """How many edges the graph has, after duplicates were dropped.

        Examples:
            >>> film = {"subject": ["Alien"], "relation": ["by"], "object": ["Ann"]}
            >>> g = ensue.graph(pa.table(film))
            >>> g.edge_count
            1
        """
        if self._spark is not None:
            return int(self._spark.edge_count)
        return self._local.store.edge_count

    def save(self, folder: str | Path) -> Path:
        """Arrow files that `ensue.graph(folder)` maps back; workers of a host share them.

        Examples:
            >>> import tempfile
            >>> made = {"subject": ["Alien", "Jaws"], "relation": ["by"] * 2, "object": ["Ann"] * 2}
            >>> g = ensue.graph(pa.table(made))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     ensue.graph(g.save(folder))
            ...
            <ensue graph in process: 2 edges, 1 labels>
        """
        return self._local.store.save(Path(folder))

    def __repr__(self) -> str:
        where = "on Spark" if self._spark is not None else "in process"
        return f"<ensue graph {where}: {self.edge_count:,} edges, {len(self.labels)} labels>"

    # -- asking it -------------------------------------------------------------------------------

    @roomy
    @timed
    def paths(
        self,
        expression: Expression,
        start: Any = None,
        end: Any = None,
        *,
        max_hops: int | None = None,
        semantics: str = "walk",
        limit: int | None = None,
        shortest: str | None = None,
        weight: str | None = None,
        max_partials: int = engine.MAX_PARTIALS,
        timeout: Timeout | None = None,
    ) -> Any:
        """One row per path: start, end, nodes, labels, length; by start, shortest first.

        `expression` may be several, as a list or by name; then a column `query` says which one.
        `start` and `end` are a node or many (None: any); `start` may give each query its own, by
        name. `limit` is per start and query. `shortest` "any" or "all" gives, of each pair of
        start and end, one or all of the shortest paths, by steps or by an edge column `weight`.

        Examples:
            >>> made = {"subject": ["Alien", "Jaws"], "relation": ["by"] * 2, "object": ["Ann"] * 2}
            >>> g = ensue.graph(pa.table(made))
            >>> near = g.paths("(.|^.)*", start="Ann", end="Jaws", shortest="any")
            >>> near["nodes"].to_pylist()
            [['Ann', 'Jaws']]
            >>> again = g.paths("by/^by", start="Alien", semantics="no_return")
            >>> again["nodes"].to_pylist()
            [['Alien', 'Ann', 'Jaws']]
        """
        asked = self._asked(
            expression, start, end, max_hops, semantics, limit, max_partials, shortest, weight
        )
        if self._spark is not None:
            return self._spark.paths(asked)
        warm_up("shortest" if shortest else "paths")
        request = asked.request(self._local)
        pieces = list(self._local.paths(request)) or [engine.Found.nothing(weight is not None)]
        store = self._local.store
        table = pa.concat_tables([path_table(store, piece, asked.names) for piece in pieces])
        if request.backwards:
            starts = np.concatenate([piece.start for piece in pieces])
            size = table["weight" if weight else "length"].to_numpy()
            table = table.take(pa.array(np.lexsort((size, starts))))
        return table

    @roomy
    @timed
    def ends(
        self,
        expression: Expression,
        start: Any = None,
        end: Any = None,
        *,
        max_hops: int | None = None,
        semantics: str = "walk",
        limit: int | None = None,
        max_partials: int = engine.MAX_PARTIALS,
        timeout: Timeout | None = None,
    ) -> Any:
        """Each distinct pair of start and end that a path joins, without enumerating paths.

        Examples:
            >>> made = {"subject": ["Alien", "Jaws"], "relation": ["by"] * 2, "object": ["Ann"] * 2}
            >>> g = ensue.graph(pa.table(made))
            >>> g.ends("by/^by", start="Alien")["end"].to_pylist()
            ['Alien', 'Jaws']
        """
        asked = self._asked(expression, start, end, max_hops, semantics, limit, max_partials)
        if self._spark is not None:
            return self._spark.ends(asked)
        warm_up("ends")
        pairs = self._local.ends(asked.request(self._local))
        return ends_table(self._local.store, pairs, asked.names)

    @roomy
    @timed
    def counts(
        self,
        expression: Expression,
        start: Any = None,
        end: Any = None,
        *,
        of: str = "paths",
        max_hops: int | None = None,
        semantics: str = "walk",
        max_partials: int = engine.MAX_PARTIALS,
        as_text: bool = False,
        timeout: Timeout | None = None,
    ) -> Any:
        """Per start: the number of paths, or with of="ends" of distinct ends; no path is kept.

        Exact: decimal(38,0), and past that an error, or text of any length on request.

        Examples:
            >>> made = {"subject": ["Alien", "Jaws"], "relation": ["by"] * 2, "object": ["Ann"] * 2}
            >>> g = ensue.graph(pa.table(made))
            >>> g.counts("by", start="Alien").to_pylist()
            [{'start': 'Alien', 'count': Decimal('1')}]
        """
        asked = self._asked(expression, start, end, max_hops, semantics, None, max_partials)
        if self._spark is not None:
            return self._spark.counts(asked, counted(of), as_text)
        request, rows = self._count(asked, of)
        store = self._local.store
        return count_table(store, request, rows, asked.names, start is None, as_text)

    @roomy
    @timed
    def count(
        self,
        expression: Expression,
        start: Any = None,
        end: Any = None,
        *,
        of: str = "paths",
        max_hops: int | None = None,
        semantics: str = "walk",
        max_partials: int = engine.MAX_PARTIALS,
        timeout: Timeout | None = None,
    ) -> int:
        """The number of paths (or distinct ends) over all starts and queries, exact at any size.

        Examples:
            >>> made = {"subject": ["Alien", "Jaws"], "relation": ["by"] * 2, "object": ["Ann"] * 2}
            >>> g = ensue.graph(pa.table(made))
            >>> g.count("(by|^by)+", start="Alien", max_hops=10)
            93
        """
        asked = self._asked(expression, start, end, max_hops, semantics, None, max_partials)
        if self._spark is not None:
            return int(self._spark.count(asked, counted(of)))
        return sum(map(sum, self._count(asked, of)[1]))

    def plot(self, expression: Expression) -> Picture:
        """The automaton of an expression, or of several, as a picture: `.svg`, `.save(path)`.

        Examples:
            >>> film = {"subject": ["Alien"], "relation": ["by"], "object": ["Ann"]}
            >>> g = ensue.graph(pa.table(film))
            >>> g.plot("by/^by").svg[:4]
            '<svg'
        """
        return Picture(PathPrograms.compile(queries_of(expression)[0]).view())

    @timed
    def explain(
        self,
        expression: Expression,
        start: Any = None,
        end: Any = None,
        *,
        max_hops: int | None = None,
        semantics: str = "walk",
        limit: int | None = None,
        shortest: str | None = None,
        weight: str | None = None,
        max_partials: int = engine.MAX_PARTIALS,
        timeout: Timeout | None = None,
    ) -> str:
        """What would run for paths, end points and counts, and why.

        Examples:
            >>> film = {"subject": ["Alien"], "relation": ["by"], "object": ["Ann"]}
            >>> g = ensue.graph(pa.table(film))
            >>> "2 nodes, 1 edges" in g.explain("by+", start="Alien")
            True
        """
        asked = self._asked(
            expression, start, end, max_hops, semantics, limit, max_partials, shortest, weight
        )
        if self._spark is not None:
            return Explanation(self._spark.explain(asked))
        return Explanation(explain_local(self._local, asked.request(self._local)))

    def _asked(
        self,
        expression: Expression,
        start: Any,
        end: Any,
        max_hops: int | None,
        semantics: str,
        limit: int | None,
        max_partials: int,
        shortest: str | None = None,
        weight: str | None = None,
    ) -> Asked:
        """The arguments of a question, checked."""
        queries, names = queries_of(expression)
        check_shortest(shortest, weight, semantics_of(semantics))
        return Asked(
            queries,
            names,
            starts_of(start, names or [queries[0].text]),
            None if end is None else many(end),
            hops_of(max_hops),
            semantics_of(semantics),
            None if limit is None else whole("limit", "paths", limit, 1, "or None"),
            whole("max_partials", "partial paths", max_partials, 1),
            shortest,
            weight,
            Absence(self._missing, self._store),
        )

    def _count(self, asked: Asked, of: str) -> tuple[engine.Request, list[list[int]]]:
        request = asked.request(self._local, turn=False)
        warm_up("ends" if counted(of) == "ends" else "counts")
        return request, self._local.counts(request, of)
