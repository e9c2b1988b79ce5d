"""Path queries on Spark, both by copying the graph and by joins: the same answers as in process.

All cases of one kind are asked in one call: each lives in a corner of one graph of its own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.paths.batches import question_table
from tests import specs_paths
from tests.unit.test_paths_batches import FILMS, questions

CASES = [case for case in specs_paths.load() if "node.id" not in case.expression]
PLANS = ("copy", "join")


def _world(spark: Any) -> tuple[Any, Any]:
    edges: list[tuple[str, str, str, int | None]] = []
    ages: list[tuple[str, int]] = []
    for number, case in enumerate(CASES):
        for at, (source, label, target) in enumerate(case.edges):
            since = None if case.since is None else case.since[at]
            edges.append((f"{number}:{source}", label, f"{number}:{target}", since))
        ages += [(f"{number}:{name}", age) for name, age in (case.ages or {}).items()]
    columns = [list(column) for column in zip(*edges, strict=True)]
    table = pa.table(
        [*columns[:3], pa.array(columns[3], pa.int64())],
        names=["subject", "relation", "object", "since"],
    )
    nodes = pa.table({"id": [name for name, _ in ages], "age": [age for _, age in ages]})
    return spark.createDataFrame(table), spark.createDataFrame(nodes)


@pytest.fixture(scope="module", params=PLANS)
def graph(request: Any, spark: Any) -> Any:
    edges, nodes = _world(spark)
    return ensue.graph(edges, nodes=nodes, plan=request.param)


def _groups() -> dict[tuple[str, int | None, bool], list[int]]:
    groups = defaultdict(list)
    for number, case in enumerate(CASES):
        ask = case.ask
        key = (ask.get("semantics", "walk"), ask.get("max_hops"), "end" in ask)
        groups[key].append(number)
    return groups


def _question(numbers: list[int], to_end: bool) -> tuple[dict[str, str], dict[str, Any]]:
    expressions = {str(n): CASES[n].expression for n in numbers}
    starts = {}
    for n in numbers:
        names = CASES[n].world.names()
        mine = [CASES[n].ask["start"]] if "start" in CASES[n].ask else names
        starts[str(n)] = [f"{n}:{name}" for name in mine]
    ask: dict[str, Any] = {"start": starts}
    if to_end:
        ask["end"] = [f"{n}:{CASES[n].ask['end']}" for n in numbers]
    return expressions, ask


def test_every_case(graph: Any) -> None:
    for (semantics, hops, to_end), numbers in _groups().items():
        expressions, ask = _question(numbers, to_end)
        ask |= {"semantics": semantics, "max_hops": hops}
        found = defaultdict(list)
        for row in graph.paths(expressions, **ask).collect():
            nodes = [name.split(":")[1] for name in row["nodes"]]
            assert row["length"] == len(row["labels"])
            found[int(row["query"])].append(specs_paths.written(nodes, row["labels"]))
        for n in numbers:
            assert tuple(sorted(found[n])) == CASES[n].paths, CASES[n].name


def test_ends_and_counts(graph: Any) -> None:
    numbers = _groups()["no_return", None, False] + [
        n for n in _groups()["walk", None, False] if "+" not in CASES[n].expression
    ]
    numbers = [
        n for n in numbers if "*" not in CASES[n].expression and ",}" not in CASES[n].expression
    ]
    plain = [n for n in numbers if CASES[n].ask.get("semantics", "walk") == "walk"]
    expressions, ask = _question(plain, False)
    ends = {(r["query"], r["start"], r["end"]) for r in graph.ends(expressions, **ask).collect()}
    for n in plain:
        pairs = {(f"{n}:{p.split()[0]}", f"{n}:{p.split()[-1]}") for p in CASES[n].paths}
        assert {(s, e) for q, s, e in ends if q == str(n)} == pairs, CASES[n].name
    total = graph.count(expressions, **ask)
    assert total == sum(len(CASES[n].paths) for n in plain)
    rows = graph.counts(expressions, of="ends", **ask).collect()
    assert sum(row["count"] for row in rows) == len(ends)


def test_loops_end_points_and_refusals(graph: Any, spark: Any) -> None:
    table = pa.table({"subject": ["a", "b", "c"], "relation": ["x"] * 3, "object": ["b", "a", "c"]})
    plan = "join" if "join" in graph.explain("x") else "copy"
    cyclic = ensue.graph(spark.createDataFrame(table), plan=plan)
    found = {(r["start"], r["end"]) for r in cyclic.ends("x+", start=["a", "c"]).collect()}
    assert found == {("a", "a"), ("a", "b"), ("c", "c")}
    with pytest.raises(errors.UnboundedPathsError, match="a loop of the expression meets a cycle"):
        cyclic.paths("x+", start="a").collect()
    assert cyclic.count("x+", start="a", max_hops=5) == 5
    assert cyclic.paths("x+", start="a", max_hops=9, limit=2).count() == 2
    to_a = cyclic.paths("x+", end="a", max_hops=9, limit=1).collect()
    assert {(row["start"], row["length"]) for row in to_a} == {("a", 2), ("b", 1)}
    with pytest.raises(errors.UnknownLabelError, match="no edge labelled 'y'"):
        cyclic.paths("y", start="a")
    with pytest.warns(errors.MissingNodeWarning, match="'nobody'"):
        assert cyclic.paths("x", start="nobody").count() == 0
    with pytest.raises(errors.UnknownNodeError):
        ensue.graph(spark.createDataFrame(table), plan=plan, missing="error").paths(
            "x", start="nobody"
        ).collect()


def test_shortest_paths(spark: Any) -> None:
    steps = [("s", "r", "a", 1), ("a", "r", "e", 2), ("s", "r", "b", 3), ("b", "r", "e", 4),
             ("s", "far", "e", 9)]  # fmt: skip
    columns = list(zip(*steps, strict=True))
    names = ["subject", "relation", "object", "km"]
    table = pa.table([pa.array(column) for column in columns], names=names)
    asked = {"start": "s", "end": "e", "shortest": "all"}
    joined = ensue.graph(spark.createDataFrame(table), plan="join")
    with pytest.raises(errors.UnsupportedError, match="joins find all paths"):
        joined.paths("r+", **asked)
    here, there = ensue.graph(table), ensue.graph(spark.createDataFrame(table), plan="copy")
    for ask in (asked, asked | {"weight": "km"}, {"end": "e", "shortest": "any", "weight": "km"}):
        found = there.paths("(r|far)+", **ask).toArrow()
        local = here.paths("(r|far)+", **ask)
        assert found.schema.names == local.schema.names
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, local.to_pylist()))


def test_questions(spark: Any) -> None:
    films = spark.createDataFrame(FILMS)
    graph, here = ensue.graph(films), ensue.graph(FILMS)
    asked = questions(9)
    local = here.retrieve(asked, unknown="drop").table.to_pylist()
    budget = ensue.Budget(work=1000)
    found = graph.retrieve(asked, unknown="drop", budget=budget).toArrow().to_pylist()
    assert all(row.pop("complete") for row in found)
    assert sorted(map(repr, found)) == sorted(map(repr, local))
    table = question_table(asked).drop_columns("id")
    table = table.append_column("id", pa.array([f"q{n}" for n in range(9)]))
    by_id = graph.retrieve(spark.createDataFrame(table), unknown="drop").toArrow()
    assert {row["question"] for row in by_id.to_pylist()} == {f"q{r['question']}" for r in local}
    assert by_id["complete"].type == pa.bool_()
    with pytest.raises(errors.UnknownColumnError, match="no column 'id'"):
        graph.retrieve(spark.createDataFrame(table.drop_columns("id")))
    with pytest.raises(errors.QueryError, match="graph is in process"):
        here.retrieve(spark.createDataFrame(table))
    with pytest.raises(errors.QueryError, match="strategy"):
        graph.retrieve(asked, strategy="best")
    with pytest.raises(errors.UnsupportedError, match="best first"):
        ensue.graph(films, plan="join").retrieve(asked)


def test_size_decides(spark: Any) -> None:
    table = spark.createDataFrame(
        pa.table({"subject": ["a", "a"], "relation": ["x", "x"], "object": ["b", "b"]})
    )
    small = ensue.graph(table)
    assert "copy: fits a worker (2 edges" in small.explain("x")
    assert "repeat another" in small.explain("x")
    large = ensue.graph(table, worker_memory="100 B")
    assert "join: does not fit a worker" in large.explain("x", start="a")
    assert [r["end"] for r in large.ends("x", start="a").collect()] == ["b"]
    with pytest.raises(errors.QueryError, match="plan"):
        ensue.graph(table, plan="fast")


def test_files_reach_the_workers(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ensue.run.spark import graph as spark_graph

    monkeypatch.setattr(spark_graph, "IN_TASK_BYTES", 0)
    table = pa.table({"subject": ["a", "b"], "relation": ["x", "x"], "object": ["b", "c"]})
    graph = ensue.graph(spark.createDataFrame(table))
    assert "as files, mapped by every worker" in graph.explain("x")
    assert [r["nodes"] for r in graph.paths("x/x").collect()] == [["a", "b", "c"]]
    ticket = graph._spark._runner.ticket
    away = spark_graph.Ticket("another", archive=ticket.archive)
    assert away.engine().store.labels == ("x",)


def test_bad_edges(spark: Any) -> None:
    table = spark.createDataFrame(
        [("a", "x", "b"), (None, "x", "b")], "subject string, relation string, object string"
    )
    for plan in PLANS:
        with pytest.raises(errors.DataError, match="null"):
            ensue.graph(table, plan=plan)
        kept = ensue.graph(table, plan=plan, nulls="drop")
        assert kept.edge_count == 1 and kept.node_count == 2 and "dropped" in kept.notes[0]
