"""What a graph and its questions refuse, note or repair, and what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.paths.counts import PRIMES, is_prime
from ensue.paths.embed import HashingEmbedder

EDGES = pa.table(
    {
        "subject": ["Alila", "Kedma", "Kadosh", "x"],
        "relation": ["written_by", "written_by", "directed_by", "likes"],
        "object": ["Gitai", "Gitai", "Gitai", "x"],
    }
)


@pytest.fixture(scope="module")
def graph() -> ensue.Graph:
    return ensue.graph(EDGES)


def test_unknown_label_lists_near_spellings(graph: ensue.Graph) -> None:
    with pytest.raises(errors.UnknownLabelError, match="did you mean written_by") as caught:
        graph.paths("directed_by/^writen_by", start="Alila")
    assert caught.value.column == 14


def test_unknown_label_without_near_ones_lists_labels(graph: ensue.Graph) -> None:
    with pytest.raises(errors.UnknownLabelError, match="its labels are directed_by, likes"):
        graph.paths("qqq", start="Alila")


def test_unknown_start_is_an_empty_answer_with_a_note(graph: ensue.Graph) -> None:
    with pytest.warns(errors.MissingNodeWarning, match="no node 'Alilah'"):
        found = graph.paths("written_by", start="Alilah")
    assert found.num_rows == 0
    assert found.column_names == ["start", "end", "nodes", "labels", "length"]


def test_unknown_start_is_an_error_by_setting() -> None:
    strict = ensue.graph(EDGES, missing="error")
    with pytest.raises(errors.UnknownNodeError, match="did you mean Alila"):
        strict.paths("written_by", start=["Kedma", "Alilah"])


def test_start_of_another_type(graph: ensue.Graph) -> None:
    with pytest.warns(errors.MissingNodeWarning):
        assert graph.paths("written_by", start=7).num_rows == 0
    with pytest.raises(errors.UnknownNodeError, match="containers"):
        graph.paths("written_by", start=[["Alila"]])


@pytest.mark.parametrize("semantics", ["walk", "no_return"])
@pytest.mark.parametrize("expression", ["likes+", "likes*", "(likes|written_by){2,}"])
def test_loop_on_a_cycle_without_a_bound(
    graph: ensue.Graph, expression: str, semantics: str
) -> None:
    with pytest.raises(errors.UnboundedPathsError, match="through 'x'") as caught:
        graph.paths(expression, semantics=semantics)
    for remedy in ("max_hops", "trail", "end points"):
        assert remedy in caught.value.remedy
    with pytest.raises(errors.UnboundedPathsError):
        graph.count(expression, start="x", semantics=semantics)
    assert graph.paths(expression, start="Alila", semantics=semantics).num_rows <= 2
    assert graph.ends(expression, start="x", semantics=semantics).num_rows <= 1


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("a//b", 3, "'/' cannot stand here"),
        ("a b", 3, "'b' cannot stand here"),
        ("a|", 3, "ends where"),
        ("*a", 1, "cannot stand here"),
        ("a)", 2, "closes nothing"),
        ("(a", 1, "never closed"),
        ("a{3,1}", 3, "at least 3 and at most 1"),
        ("a[x > 1]", 3, "edge or of a node"),
        ("a/b[edge.x > ]", 12, "not an SQL expression"),
        ("a#", 2, "has no meaning"),
        ("a/'x", 3, "quote"),
        ("a[count(edge.x) > 1]", 3, "this step only"),
        ("", 1, "empty"),
        ("a^b", 2, "cannot stand here"),
    ],
)
def test_malformed_expressions_point_at_the_column(
    graph: ensue.Graph, text: str, column: int, says: str
) -> None:
    with pytest.raises(errors.EnsueError, match=says) as caught:
        graph.paths(text, start="Alila")
    assert caught.value.column == column
    assert caught.value.remedy


def test_null_edges() -> None:
    table = pa.table(
        {"subject": ["a", None, "c"], "relation": ["x", "x", None], "object": list("bcd")}
    )
    with pytest.raises(errors.DataError, match="row 1 of the edges has no subject"):
        ensue.graph(table)
    kept = ensue.graph(table, nulls="drop")
    assert kept.edge_count == 1
    assert kept.notes == ("2 edges with a null end or label were dropped",)


def test_duplicate_edges() -> None:
    table = pa.table({"subject": list("aab"), "relation": list("xxx"), "object": list("bbc")})
    dropped = ensue.graph(table)
    assert dropped.edge_count == 2 and "1 edges that repeat" in dropped.notes[0]
    assert "repeat" in dropped.explain("x")
    assert ensue.graph(table, duplicates="keep").paths("x", start="a").num_rows == 2
    with pytest.raises(errors.DataError, match="row 1 of the edges repeats"):
        ensue.graph(table, duplicates="error")


def test_dangling_edges() -> None:
    table = pa.table({"subject": list("ab"), "relation": list("xx"), "object": list("bz")})
    nodes = pa.table({"id": list("abc"), "age": [1, 2, 3]})
    kept = ensue.graph(table, nodes=nodes)
    assert kept.paths("x+", start="a").num_rows == 2 and "does not have" in kept.notes[0]
    assert ensue.graph(table, nodes=nodes, dangling="drop").edge_count == 1
    with pytest.raises(errors.DataError, match="leads to the node 'z'"):
        ensue.graph(table, nodes=nodes, dangling="error")


def test_settings_and_columns_are_checked() -> None:
    with pytest.raises(errors.UnknownColumnError, match=r"no column 'subject' \(src=\)"):
        ensue.graph(EDGES.rename_columns(["s", "relation", "object"]))
    with pytest.raises(errors.QueryError, match="duplicates='maybe'"):
        ensue.graph(EDGES, duplicates="maybe")
    mixed = EDGES.set_column(2, "object", pa.array([1, 2, 3, 4]))
    with pytest.raises(errors.ColumnTypeError, match="a node has one type"):
        ensue.graph(mixed)
    with pytest.raises(errors.UnsupportedInputError):
        ensue.graph(7)


@pytest.mark.parametrize(
    "wrong",
    [
        {"semantics": "shortest"},
        {"max_hops": -1},
        {"limit": 0},
        {"start": {"other": "Alila"}},
    ],
)
def test_arguments_are_checked(graph: ensue.Graph, wrong: dict[str, object]) -> None:
    with pytest.raises(errors.QueryError):
        graph.paths("likes", **{"start": "x", **wrong})


def test_unknown_columns_in_conditions(graph: ensue.Graph) -> None:
    with pytest.raises(errors.UnknownColumnError, match="the edges have no column 'since'"):
        graph.paths("likes[edge.since > 1]")
    with pytest.raises(errors.UnknownColumnError, match="nodes=table"):
        graph.paths("likes[node.age > 1]")


def test_limits_stop_trails_and_simple_paths() -> None:
    size = 14
    pairs = [(i, j) for i in range(size) for j in range(size) if i != j]
    table = pa.table(
        {
            "subject": [i for i, _ in pairs],
            "relation": ["x"] * len(pairs),
            "object": [j for _, j in pairs],
        }
    )
    graph = ensue.graph(table)
    for semantics in ("trail", "simple"):
        found = graph.paths("x+", start=0, semantics=semantics, limit=20)
        assert found.num_rows == 20
        assert found["length"].to_pylist() == [1] * 13 + [2] * 7
        with pytest.raises(errors.LimitError, match="20,000"):
            graph.paths("x+", start=0, semantics=semantics, max_partials=20_000)


@pytest.mark.compiled
def test_the_first_paths_of_a_hub_need_no_whole_level() -> None:
    spokes = 2_000
    out, back = pa.array([0] * spokes), pa.array(range(1, spokes + 1))
    table = pa.table(
        {
            "subject": pa.concat_arrays([out, back]),
            "relation": ["x"] * spokes + ["y"] * spokes,
            "object": pa.concat_arrays([back, out]),
        }
    )
    graph = ensue.graph(table)
    # Two million beginnings x/y/x, of which a level would keep a row each.
    found = graph.paths("x/y/x/y", start=0, limit=3, max_partials=1_100_000)
    assert found["nodes"].to_pylist() == [[0, 1, 0, n, 0] for n in (1, 2, 3)]
    with pytest.raises(errors.LimitError, match=r"first 3 paths .* 1,100,000 beginnings"):
        graph.paths("x/y/x/x", start=0, limit=3, max_partials=1_100_000)


@pytest.mark.compiled
def test_a_limit_refuses_nothing_that_runs_without_one() -> None:
    """Deep answers, few of them: length by length the chain would be walked again and again."""
    length, starts = 4_000, 1_200
    table = pa.table(
        {
            "subject": range(length + 1),
            "relation": ["x"] * length + ["y"],
            "object": range(1, length + 2),
        }
    )
    graph = ensue.graph(table)
    for limit in (None, 2):
        found = graph.paths("x+/y", start=list(range(length - starts, length)), limit=limit,
                            max_partials=3_000_000)  # fmt: skip
        assert found["length"].to_pylist() == [n + 1 for n in range(starts, 0, -1)]


@pytest.mark.parametrize("semantics", ["walk", "trail", "simple", "no_return"])
def test_a_limit_is_per_start_where_only_the_end_is_given(semantics: str) -> None:
    table = pa.table(
        {"subject": [1, 2, 3, 3, 1], "relation": list("xxxyy"), "object": [2, 4, 4, 4, 4]}
    )
    graph = ensue.graph(table)
    found = graph.paths(".+", end=4, limit=1, max_hops=3, semantics=semantics)
    assert [(row["start"], row["length"]) for row in found.to_pylist()] == [(1, 1), (2, 1), (3, 1)]
    ends = graph.ends(".+", end=[4, 2], limit=1, max_hops=3, semantics=semantics)
    assert sorted(ends["start"].to_pylist()) == [1, 2, 3]


def test_paths_to_ends_come_by_start() -> None:
    table = pa.table({"subject": [1, 2, 1], "relation": list("xxx"), "object": [3, 3, 4]})
    found = ensue.graph(table).paths("x", end=[4, 3])
    assert found["nodes"].to_pylist() == [[1, 4], [1, 3], [2, 3]]


def test_nested_repetitions_are_refused_before_they_fill_the_memory() -> None:
    table = pa.table({"subject": [0], "relation": ["x"], "object": [0]})
    with pytest.raises(errors.LimitError, match="repetition of a repetition"):
        ensue.graph(table).ends("(x{0,100}){0,100}", start=0)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        ({"expression": None}, "text, not NoneType"),
        ({"max_partials": "many"}, "max_partials='many'"),
        ({"limit": True}, "limit=True"),
    ],
)
def test_arguments_of_the_wrong_type(ask: dict[str, Any], text: str) -> None:
    graph = ensue.graph(pa.table({"subject": [0], "relation": ["x"], "object": [1]}))
    with pytest.raises(errors.QueryError, match=text):
        graph.paths(**{"expression": "x", "start": 0, **ask})


def test_numbers_and_starts_of_any_kind() -> None:
    graph = ensue.graph(pa.table({"subject": [0, 1], "relation": ["x", "x"], "object": [1, 2]}))
    for start in (range(2), iter([0, 1]), {0: "", 1: ""}.keys(), {0, 1}):
        assert graph.ends("x", start=start)["end"].to_pylist() == [1, 2]
    found = graph.paths("x", start=0, max_hops=10**30, limit=10**30)
    assert found.equals(graph.paths("x", start=0, max_hops=np.int64(3), limit=np.int64(3)))
    assert graph.count("x", start=0, max_hops=10**30) == 1


@pytest.mark.parametrize("name", ["edges.tsv", "edges.nt"])
def test_files_that_are_not_utf8(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"<a> <x> <\xff> .\n" if name.endswith("nt") else b"\xff\tx\tb\n")
    with pytest.raises(errors.DataError, match=r"(?i)utf-?8"):
        ensue.graph(path)


def test_questions_that_are_none() -> None:
    graph = ensue.graph(pa.table({"subject": [0], "relation": ["x"], "object": [1]}))
    text: Any = "what"
    with pytest.raises(errors.QueryError, match="is not a question"):
        graph.retrieve(text)
    expression: Any = "x"
    one = ensue.Question("what", 0, expression)
    assert graph.retrieve(one).answers() == [[1]]
    for work in (-1, float("nan")):
        with pytest.raises(errors.QueryError, match="is not an amount of work"):
            graph.retrieve(one, budget=ensue.Budget(work=work))
    number: Any = 5
    with pytest.raises(errors.QueryError, match="not a function"):
        graph.retrieve(one, embedder=number)


def test_counts_beyond_decimals_are_refused_by_name() -> None:
    table = pa.table({"subject": [0, 0], "relation": ["x", "y"], "object": [0, 0]})
    graph = ensue.graph(table)
    with pytest.raises(errors.OverflowDataError, match="as_text"):
        graph.counts(".+", start=0, max_hops=200)


def test_files_of_triples(tmp_path: Path) -> None:
    plain = tmp_path / "kb.tsv"
    plain.write_text('a\tx\tb\nb\tx\t"c\n')
    assert ensue.graph(plain).ends("x/x", start="a")["end"].to_pylist() == ['"c']
    headed = tmp_path / "headed.tsv"
    headed.write_text("subject\trelation\tobject\tw\na\tx\tb\t3\n")
    assert ensue.graph(headed).paths("x[edge.w = 3]").num_rows == 1
    bars = tmp_path / "kb.txt"
    bars.write_text("a|x|b\n")
    assert ensue.graph(str(bars)).edge_count == 1
    triples = tmp_path / "kb.nt"
    triples.write_text(
        "# people\n<http://e/a> <http://e/knows> <http://e/b> .\n"
        '<http://e/b> <http://e/name> "B\\u00e9a \\"x\\""@fr .\n_:n <http://e/knows> <http://e/a>.\n'
    )
    graph = ensue.graph(triples)
    found = graph.paths("<http://e/knows>/<http://e/name>", start="http://e/a")
    assert found["end"].to_pylist() == ['Béa "x"']
    assert graph.ends("<http://e/knows>", end="http://e/a")["start"].to_pylist() == ["_:n"]
    triples.write_text("<http://e/a> knows <http://e/b> .\n")
    with pytest.raises(errors.DataError, match="line 1 is not a triple"):
        ensue.graph(triples)
    ragged = tmp_path / "bad.tsv"
    ragged.write_text("a\tx\tb\na\tx\n")
    with pytest.raises(errors.DataError, match=r"bad\.tsv"):
        ensue.graph(ragged)
    with pytest.raises(errors.UnsupportedInputError, match="there is no file"):
        ensue.graph(tmp_path / "none.tsv")


def test_pandas_and_polars_edges() -> None:
    for table in (pd.DataFrame(EDGES.to_pydict()), pl.DataFrame(EDGES.to_pydict())):
        assert ensue.graph(table).ends("written_by", start="Alila")["end"].to_pylist() == ["Gitai"]


def test_a_stored_graph_answers_the_same(tmp_path: Path, graph: ensue.Graph) -> None:
    folder = graph.save(tmp_path / "stored")
    again = ensue.graph(folder)
    assert again.paths("written_by/^written_by") == graph.paths("written_by/^written_by")
    assert not again._local.store.neighbour.flags.writeable
    with pytest.raises(errors.StateError, match="does not hold a stored graph"):
        ensue.graph(tmp_path)


def test_no_edges_at_all() -> None:
    empty = ensue.graph(EDGES.slice(0, 0))
    assert empty.node_count == 0
    with pytest.raises(errors.UnknownLabelError):
        empty.paths("x")
    assert empty.paths(".").num_rows == 0


def test_budgets_and_embedders_are_checked(graph: ensue.Graph) -> None:
    question = ensue.Question("who wrote [Alila]", "Alila", ("written_by", "directed_by"))
    for budget in (ensue.Budget(latency="-5%"), ensue.Budget(memory="much")):
        with pytest.raises(errors.EnsueError):
            graph.retrieve(question, budget=budget)
    with pytest.raises(errors.QueryError, match="one row per text"):
        graph.retrieve(question, embedder=lambda texts: np.zeros(3))
    with pytest.raises(errors.QueryError, match="no expression"):
        ensue.Question("who", "Alila", ())
    with pytest.raises(errors.QueryError, match="strategy"):
        graph.retrieve(question, strategy="best")
    with pytest.raises(errors.UnboundedPathsError):
        graph.retrieve(ensue.Question("who", "x", ("likes+",)), unknown="error")
    with pytest.warns(errors.MissingNodeWarning):
        nobody = ensue.Question("who", "nobody", ("likes",))
        assert graph.retrieve(nobody).table.num_rows == 0
    for budget in (
        ensue.Budget(latency="50%"),
        ensue.Budget(latency="1 second"),
        ensue.Budget(memory="1 KB"),
        ensue.Budget(memory="50%", work=10),
    ):
        assert graph.retrieve(question, budget=budget).table.num_rows <= 1


def test_similar_expressions_come_first(graph: ensue.Graph) -> None:
    question = ensue.Question("who is the writer of [Alila]", "Alila", (".", "written_by"))
    best = graph.retrieve(question).table.to_pylist()[0]
    assert best["query"] == "written_by"
    fitted = HashingEmbedder(256).fit(["written by", "directed by"])
    assert fitted(["written"]).shape == (1, 256)


def test_the_primes_are_primes() -> None:
    assert len(set(PRIMES)) == len(PRIMES) and all(is_prime(p) and p < 2**62 for p in PRIMES)
