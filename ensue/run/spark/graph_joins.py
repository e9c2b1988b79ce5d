"""Paths by joins, hop by hop: for graphs that no worker can hold.

The frontier is a DataFrame of partial paths with their automaton state. A hop joins it with the
arcs of the automaton (a small table, broadcast) and then with the edges, on the node, the label,
the direction and the bits that say which conditions the edge passes; Spark evaluates those bits
once. Same automaton, same answers as the copied graph; a hop costs a shuffle of the edges it can
use, so this is for size, not for speed.

Up to eight hops are one plan, like joins by hand; beyond that, and for loops, each hop is
checkpointed, so that the plan stays small however long the paths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.automaton.paths import DEAD, PathAutomaton, PathPrograms, determine
from ensue.paths.asked import Asked
from ensue.paths.search import unbounded
from ensue.paths.tests import check_labels
from ensue.query.paths import EdgeTest, PathQuery, Semantics
from ensue.run.spark.graph_clean import (
    DST_COLUMN,
    EDGE_COLUMN,
    LABEL_COLUMN,
    SRC_COLUMN,
    EdgeColumns,
    entries_of,
    first_of_each,
    node_type,
    without_dangling,
    without_nulls,
    without_repeats,
)
from ensue.run.spark.keyed import quoted
from ensue.run.spark.raised import action
from ensue.run.spark.versions import worker_schema

MAX_IN_PLAN = 8  # hops that are planned together
MAX_LABELS = 100_000
MAX_CONDITIONS = 60
MAX_TOGETHER = 10  # conditions that one label can have to pass or fail in any combination


@dataclass
class JoinedGraph:
    """Cleaned edges with a number each, and the nodes' columns."""

    edges: DataFrame
    nodes: DataFrame | None
    node_id: str
    columns: tuple[str, ...]  # the edges' own
    labels: tuple[str, ...]
    edge_count: int
    notes: tuple[str, ...]

    @staticmethod
    def of(
        df: DataFrame, ends: EdgeColumns, nodes: Any, node_id: str, settings: dict[str, str]
    ) -> JoinedGraph:
        notes: list[str] = []
        src, label, dst = ends
        spark = df.sparkSession
        kind = node_type(df, src, dst)
        if nodes is not None and not isinstance(nodes, DataFrame):
            nodes = spark.createDataFrame(nodes)
        others = tuple(name for name in df.columns if name not in (src, label, dst))
        edges = df.select(
            F.col(quoted(src)).cast(kind).alias(SRC_COLUMN),
            F.col(quoted(label)).cast("string").alias(LABEL_COLUMN),
            F.col(quoted(dst)).cast(kind).alias(DST_COLUMN),
            *(F.col(quoted(name)) for name in others),
        )
        edges = without_nulls(edges, settings["nulls"], ends, notes)
        edges = without_repeats(edges, settings["duplicates"], notes)
        if nodes is not None:
            edges = without_dangling(edges, nodes, node_id, settings["dangling"], notes)
        # Numbered and stored once: a trail tells edges apart by their number.
        edges = edges.withColumn(EDGE_COLUMN, F.monotonically_increasing_id()).localCheckpoint()
        found = edges.select(LABEL_COLUMN).distinct().limit(MAX_LABELS + 1).collect()
        if len(found) > MAX_LABELS:
            raise errors.LimitError(
                f"the graph has more than {MAX_LABELS:,} labels",
                remedy="put what tells edges apart into a column and use conditions",
            )
        labels = tuple(sorted(row[0] for row in found))
        return JoinedGraph(edges, nodes, node_id, others, labels, edges.count(), tuple(notes))

    @cached_property
    def names(self) -> DataFrame:
        both = self.edges.select(F.col(SRC_COLUMN).alias("name")).unionByName(
            self.edges.select(F.col(DST_COLUMN).alias("name"))
        )
        return both.distinct().localCheckpoint()

    @cached_property
    def node_count(self) -> int:
        return self.names.count()

    @property
    def spark(self) -> SparkSession:
        return self.edges.sparkSession

    # -- questions -------------------------------------------------------------------------------

    def paths(self, asked: Asked) -> DataFrame:
        if asked.shortest:
            raise errors.UnsupportedError(
                "joins find all paths, and cannot tell the shortest ones without the others",
                remedy='give the workers room for the graph: worker_memory=, or plan="copy"',
            )
        search = _Search(self, asked)
        shown = search.paths().select(
            *search.query_column(),
            "start",
            F.col("node").alias("end"),
            "nodes",
            "labels",
            F.size("labels").alias("length"),
        )
        return first_of_each(shown, asked.limit, "length")

    def retrieve(self, questions: Any, ways: Any) -> DataFrame:
        raise errors.UnsupportedError(
            "questions are searched best first, which joins cannot do",
            remedy='give the workers room for the graph: worker_memory=, or plan="copy"',
        )

    def ends(self, asked: Asked) -> DataFrame:
        search = _Search(self, asked)
        reached = search.ends() if asked.semantics in _WALKS else search.paths()
        shown = reached.select(*search.query_column(), "start", F.col("node").alias("end"))
        return first_of_each(shown.distinct(), asked.limit, "end")

    def counts(self, asked: Asked, of: str, as_text: bool) -> DataFrame:
        search = _Search(self, asked)
        walks = asked.semantics in _WALKS
        if of == "ends" or not walks:
            reached = search.ends() if walks else search.paths()
            rows = reached.select("query", "start", "node")
            rows = rows.distinct() if of == "ends" else rows
            found = rows.groupBy("query", "start").agg(F.count("*").alias("count"))
        else:
            found = search.counts().groupBy("query", "start").agg(F.sum("count").alias("count"))
        if asked.starts is not None:
            wanted = search.asked_pairs()
            found = wanted.join(found, ["query", "start"], "left")
        exact = F.coalesce(F.col("count"), F.lit(0)).cast("decimal(38,0)")
        count = exact.cast("string") if as_text else exact
        return found.select(*search.query_column(), "start", count.alias("count"))

    def explain(self, asked: Asked) -> list[str]:
        search = _Search(self, asked)
        longest = search.automaton.longest
        bound = asked.max_hops if asked.max_hops is not None else longest
        return [
            f"           {self.edge_count:,} edges, {len(self.labels):,} labels, stored by Spark",
            f"queries    {len(asked.queries)}",
            f"automaton  {search.automaton.states} states, {len(search.arcs)} arcs (broadcast)",
            f"hops       one join each: {'until nothing is new' if bound is None else bound}",
        ]


_WALKS = (Semantics.WALK, Semantics.NO_RETURN)


class _Search:
    """One request: the automaton as tables, and the loop over hops."""

    def __init__(self, graph: JoinedGraph, asked: Asked) -> None:
        self._graph = graph
        self._asked = asked
        self._spark = graph.spark
        queries: Sequence[PathQuery] = asked.queries
        check_labels(queries, graph.labels)
        self._programs = PathPrograms.compile(queries)
        self._conditions = [n for n, t in enumerate(self._programs.tests) if t.condition]
        if len(self._conditions) > MAX_CONDITIONS:
            raise errors.UnsupportedError(
                f"{len(self._conditions)} conditions in one call; joins take {MAX_CONDITIONS}",
                remedy="ask fewer queries at a time",
            )
        self._classes = self._enumerate_classes()
        self._sets = self._asked_sets()
        tests = [tests for _, _, _, tests in self._classes]
        self.automaton: PathAutomaton = determine(self._programs, tests, list(self._sets))

    def _enumerate_classes(self) -> list[tuple[str, bool, int, frozenset[int]]]:
        """(label, backwards, bits, tests passed) of every combination of conditions."""
        found = []
        for label in self._graph.labels:
            for back in (False, True):
                fitting = _fitting(self._programs.tests, label, back)
                open_tests = [n for n in fitting if n in self._conditions]
                if len(open_tests) > MAX_TOGETHER:
                    raise errors.UnsupportedError(
                        f"{len(open_tests)} conditions can stand at an edge labelled {label!r}; "
                        f"joins take {MAX_TOGETHER}",
                        remedy="ask fewer queries at a time",
                    )
                always = frozenset(fitting) - set(open_tests)
                for size in range(len(open_tests) + 1):
                    for passed in combinations(open_tests, size):
                        bits = sum(1 << self._conditions.index(n) for n in passed)
                        found.append((label, back, bits, always | set(passed)))
        return found

    @cached_property
    def arcs(self) -> list[tuple[int, str, bool, int, int]]:
        return [
            (state, label, back, bits, int(target))
            for state, row in enumerate(self.automaton.table)
            for (label, back, bits, _), target in zip(self._classes, row, strict=False)
            if target != DEAD
        ]

    def _arc_table(self, arcs: list[tuple[int, str, bool, int, int]]) -> DataFrame:
        kinds = (pa.int32(), pa.string(), pa.bool_(), pa.int64(), pa.int32())
        columns = [pa.array(c, k) for c, k in zip(zip(*arcs, strict=True), kinds, strict=True)]
        names = ["state", "over", "over_back", "over_bits", "next"]
        return F.broadcast(self._spark.createDataFrame(pa.table(columns, names=names)))

    @cached_property
    def _entries(self) -> DataFrame:
        used = {(label, back) for _, label, back, _, _ in self.arcs}
        tests = [self._programs.tests[number] for number in self._conditions]
        return entries_of(self._graph, used, tests)

    # -- starts ----------------------------------------------------------------------------------

    def _asked_sets(self) -> dict[frozenset[int], list[Any]]:
        """Set of queries -> the start nodes that ask for it ([] and all queries: every node)."""
        starts = self._asked.starts
        if starts is None:
            return {frozenset(range(len(self._asked.queries))): []}
        by_node: dict[Any, set[int]] = {}
        for some in starts:
            for value in _plain(some.nodes):
                by_node.setdefault(value, set()).update(some.queries)
        sets: dict[frozenset[int], list[Any]] = {}
        for value, queries in by_node.items():
            sets.setdefault(frozenset(queries), []).append(value)
        return sets

    @cached_property
    def _starts(self) -> DataFrame:
        """(start, state) of every start node that the graph has."""
        entries = self.automaton.entries
        if self._asked.starts is None:
            (state,) = entries.values()
            every = self._graph.names.select(F.col("name").alias("start"))
            every = every.withColumn("state", F.lit(state))
            return every if state != DEAD else every.limit(0)
        rows = [(v, s) for s, values in self._sets.items() for v in values]
        known = self._known([value for value, _ in rows])
        if len(known) < len(rows):
            missing = [value for number, (value, _) in enumerate(rows) if number not in known]
            self._asked.absent("start", missing[:3], len(missing))
        left = [rows[number] for number in sorted(known) if entries[rows[number][1]] != DEAD]
        return self._table([v for v, _ in left], "state", [entries[s] for _, s in left])

    def _known(self, values: list[Any]) -> set[int]:
        """Places of the nodes, of these, that the graph has."""
        given = F.broadcast(self._table(values, "place", list(range(len(values)))))
        found = self._graph.names.join(given, given["start"] == F.col("name")).select("place")
        return {row[0] for row in found.collect()}

    def _table(self, values: list[Any], name: str, numbers: list[int]) -> DataFrame:
        """Nodes, as `start`, with a number each; of a size that Spark knows."""
        kind = worker_schema(self._graph.edges.select(SRC_COLUMN)).field(0).type
        try:
            starts = pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            raise errors.UnknownNodeError(
                f"the graph's nodes are of type {kind}, and not all of {values[:3]!r} are",
                remedy="give node names of the same type",
            ) from None
        table = pa.table({"start": starts, name: pa.array(numbers, pa.int32())})
        return self._spark.createDataFrame(table)

    def asked_pairs(self) -> DataFrame:
        """(start, query) of every known start and each query asked there."""
        rows = [(v, q) for s, values in self._sets.items() for v in values for q in sorted(s)]
        given = self._table([v for v, _ in rows], "query", [q for _, q in rows])
        return given.join(self._graph.names, given["start"] == F.col("name"), "left_semi")

    def query_column(self) -> list[Column]:
        names = self._asked.names
        if names is None:
            return []
        table = F.array(*(F.lit(name) for name in names))
        return [F.element_at(table, F.col("query") + 1).alias("query")]

    # -- hops ------------------------------------------------------------------------------------

    def paths(self) -> DataFrame:
        semantics = self._asked.semantics
        endless = self._asked.max_hops is None and self.automaton.longest is None
        watch, trails = semantics in _WALKS and endless, semantics is Semantics.TRAIL
        frontier = self._starts.select(
            "start",
            F.col("start").alias("node"),
            "state",
            F.array("start").alias("nodes"),
            F.array().cast("array<string>").alias("labels"),
            *([F.array().cast("array<bigint>").alias("crossed")] if trails else []),
            *([F.array("state").alias("states")] if watch else []),
        )

        def extend(step: DataFrame, hop: int) -> DataFrame:
            if watch:
                self._refuse_cycles(step)
            step = self._without_return(step, hop)
            if semantics is Semantics.SIMPLE:
                step = step.where(~F.array_contains("nodes", F.col("to")))
            elif trails:
                step = step.where(~F.array_contains("crossed", F.col("edge_number")))
            shown = F.when(F.col("back"), F.concat(F.lit("^"), F.col("label")))
            return step.select(
                "start",
                F.col("to").alias("node"),
                F.col("next").alias("state"),
                _appended("nodes", "to"),
                F.array_append("labels", shown.otherwise(F.col("label"))).alias("labels"),
                *([_appended("crossed", "edge_number")] if trails else []),
                *([_appended("states", "next")] if watch else []),
            )

        return self._loop(frontier, extend)

    def _without_return(self, step: DataFrame, hop: int) -> DataFrame:
        if self._asked.semantics is not Semantics.NO_RETURN or hop == 1:
            return step
        return step.where(~F.col("to").eqNullSafe(F.col("start")))

    def _refuse_cycles(self, step: DataFrame) -> None:
        """A path that is at a node in a state it was in before could go round for ever."""
        again = F.exists(
            F.arrays_zip("nodes", "states"),
            lambda seen: (seen["nodes"] == F.col("to")) & (seen["states"] == F.col("next")),
        )
        found = step.where(again).select("to").head(1)
        if found:
            raise unbounded(self._asked.queries, self._asked.semantics, found[0][0])

    def ends(self) -> DataFrame:
        frontier = self._starts.select("start", F.col("start").alias("node"), "state")
        loops = self.automaton.longest is None
        seen = [frontier]

        def extend(step: DataFrame, hop: int) -> DataFrame:
            step = self._without_return(step, hop)
            reached = step.select(
                "start", F.col("to").alias("node"), F.col("next").alias("state")
            ).distinct()
            if not loops:
                return reached
            fresh = reached.join(seen[0], ["start", "node", "state"], "left_anti")
            fresh = fresh.localCheckpoint()
            seen[0] = seen[0].unionByName(fresh).localCheckpoint()
            return fresh

        return self._loop(frontier, extend)

    def counts(self) -> DataFrame:
        if self._asked.max_hops is None and self.automaton.longest is None:
            raise errors.UnsupportedError(
                "counting the paths of a loop by joins needs a bound: nothing tells them finite",
                remedy='set max_hops, or count with of="ends"',
            )
        one = F.lit(1).cast("decimal(38,0)")
        frontier = self._starts.select(
            "start", F.col("start").alias("node"), "state", one.alias("count")
        )

        def extend(step: DataFrame, hop: int) -> DataFrame:
            step = self._without_return(step, hop)
            grouped = step.groupBy("start", F.col("to").alias("node"), F.col("next").alias("state"))
            return grouped.agg(F.sum("count").cast("decimal(38,0)").alias("count"))

        return self._loop(frontier, extend)

    def _loop(
        self, frontier: DataFrame, extend: Callable[[DataFrame, int], DataFrame]
    ) -> DataFrame:
        """All levels' rows that end a path, with their query."""
        if self._levels is not None:
            return self._in_one_plan(frontier, extend)
        entries = self._entries.persist()
        most, every = self._asked.max_hops, range(self.automaton.states)
        frontier = frontier.localCheckpoint()
        found = self._accepted(frontier)
        hop = 0
        with action(frontier, "following edges"):
            while (most is None or hop < most) and not frontier.isEmpty():
                hop += 1
                frontier = extend(self._crossed(frontier, entries, every), hop).localCheckpoint()
                found = found.unionByName(self._accepted(frontier))
        entries.unpersist()
        return found

    @cached_property
    def _levels(self) -> list[set[int]] | None:
        """The states after each number of steps; None where there are many, or no end of them."""
        most, longest = self._asked.max_hops, self.automaton.longest
        if longest is None or longest > MAX_IN_PLAN:
            return None
        levels = [{state for state in self.automaton.entries.values() if state != DEAD}]
        while levels[-1] and (most is None or len(levels) <= most):
            levels.append({target for state, *_, target in self.arcs if state in levels[-1]})
        return levels

    def _in_one_plan(
        self, frontier: DataFrame, extend: Callable[[DataFrame, int], DataFrame]
    ) -> DataFrame:
        """All hops as one plan, which Spark runs when it is asked for rows.

        A level that ends paths and has others behind it is read twice, so it is stored.
        """
        assert self._levels is not None
        found = None
        entries = self._entries
        for hop, states in enumerate(self._levels):
            if not states:
                break
            if hop:
                step = self._crossed(frontier, entries, self._levels[hop - 1])
                frontier = extend(step, hop)
            if not any(self.automaton.accepts(state) for state in states):
                continue
            if any(self._levels[hop + 1 :]):
                frontier = frontier.localCheckpoint()
            ended = self._accepted(frontier)
            found = ended if found is None else found.unionByName(ended)
        return self._accepted(frontier.limit(0)) if found is None else found

    def _crossed(
        self, frontier: DataFrame, entries: DataFrame, states: Collection[int]
    ) -> DataFrame:
        """The frontier with each edge that its states can cross, as far as these can be in it."""
        arcs = [arc for arc in self.arcs if arc[0] in states]
        here = F.col("node") == F.col("from")
        if len(arcs) == 1:  # nothing has to be looked up
            ((state, label, back, bits, following),) = arcs
            crossed = (F.col("label") == label) & (F.col("back") == F.lit(back))
            crossed &= F.col("bits") == bits
            if len(states) > 1:
                frontier = frontier.where(F.col("state") == state)
            return frontier.join(entries.where(crossed), here).withColumn("next", F.lit(following))
        directions = {arc[2] for arc in arcs}
        if len(directions) == 1:
            entries = entries.where(F.col("back") == F.lit(*directions))
        open_arcs = frontier.join(self._arc_table(arcs), "state")
        fits = here & (F.col("label") == F.col("over"))
        if len(directions) > 1:
            fits &= F.col("back") == F.col("over_back")
        if self._conditions:
            fits &= F.col("bits") == F.col("over_bits")
        return open_arcs.join(entries, fits).drop("over", "over_back", "over_bits")

    def _accepted(self, frontier: DataFrame) -> DataFrame:
        automaton = self.automaton
        pairs = [(s, q) for s in range(automaton.states) for q in automaton.accepts(s)]
        states, queries = [state for state, _ in pairs], [query for _, query in pairs]
        if len(set(queries)) == 1:
            ended = frontier.where(F.col("state").isin(states))
            found = ended.withColumn("query", F.lit(queries[0]))
        else:
            numbers = (pa.array(states, pa.int32()), pa.array(queries, pa.int32()))
            accepts = pa.table(numbers, names=["state", "query"])
            found = frontier.join(F.broadcast(self._spark.createDataFrame(accepts)), "state")
        if self._asked.ends is None:
            return found
        values = list(_plain(self._asked.ends))
        ends = self._table(values, "unused", [0] * len(values))
        return found.join(F.broadcast(ends), found["node"] == ends["start"], "left_semi")


def _appended(list_column: str, column: str) -> Column:
    return F.array_append(list_column, F.col(column)).alias(list_column)


def _plain(values: Any) -> Any:
    return values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else values


def _fitting(tests: Sequence[EdgeTest], label: str, back: bool) -> list[int]:
    return [n for n, t in enumerate(tests) if t.backward == back and t.accepts(label)]
