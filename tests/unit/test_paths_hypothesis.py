"""Generated graphs and expressions: paths, end points and counts against the brute-force walker."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ensue
from ensue.front.paths import parse_path
from ensue.paths import graph_store
from ensue.paths import search as engine
from tests.oracle_paths import World, all_paths
from tests.share import examples

LABELS = "xyz"
SEMANTICS = ("walk", "trail", "simple", "no_return")
HOPS = 3


def expressions(depth: int = 2) -> st.SearchStrategy[str]:
    step = st.sampled_from(["x", "y", "z", "^x", "^y", ".", "^.", "!x", "!(x|^y)", "~'[xy]'"])
    condition = st.sampled_from(["", "", "[edge.w > 1]", "[node.v < 2]", "[edge.w > source.v]"])
    single = st.tuples(step, condition).map(
        lambda p: p[0] + p[1] if not p[0].startswith("!(") else p[0]
    )
    if depth == 0:
        return single
    inner = expressions(depth - 1)
    quantifier = st.sampled_from(["", "?", "*", "+", "{2}", "{1,2}", "{,2}"])
    return st.one_of(
        single,
        st.lists(inner, min_size=2, max_size=3).map("/".join),
        st.lists(inner, min_size=2, max_size=2).map(lambda p: f"({'|'.join(p)})"),
        st.tuples(inner, quantifier).map(lambda p: f"({p[0]}){p[1]}"),
        inner.map(lambda p: f"^({p})"),
    )


edges = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(LABELS), st.integers(0, 3), st.integers(0, 2)),
    min_size=1,
    max_size=5,
    unique=True,
)


def world_of(drawn: list[tuple[int, str, int, int]]) -> tuple[World, ensue.Graph]:
    triples = tuple((s, label, t) for s, label, t, _ in drawn)
    values = {n: {"id": n, "v": n % 3} for n in range(4)}
    world = World(triples, tuple({"w": w} for *_, w in drawn), values)
    columns = list(zip(*drawn, strict=True))
    table = pa.table(
        {
            "subject": pa.array(columns[0], pa.int64()),
            "relation": columns[1],
            "object": pa.array(columns[2], pa.int64()),
            "w": columns[3],
        }
    )
    # One edge of each label on a node that nothing else touches, so that every label is known.
    extra = [(9, label, 9, 0) for label in LABELS]
    more = [pa.array(column) for column in zip(*extra, strict=True)]
    table = pa.concat_tables([table, pa.table(more, names=table.column_names)])
    nodes = pa.table({"id": list(values), "v": [row["v"] for row in values.values()]})
    return world, ensue.graph(table, nodes=nodes)


@given(edges, expressions(), st.sampled_from(SEMANTICS))
@settings(max_examples=examples(150), deadline=None)
def test_like_the_walker(
    drawn: list[tuple[int, str, int, int]], expression: str, semantics: str
) -> None:
    world, graph = world_of(drawn)
    query = parse_path(expression)
    expected = Counter(all_paths(world, query, 0, semantics, HOPS))
    ask = {"start": 0, "semantics": semantics, "max_hops": HOPS}
    found = graph.paths(expression, **ask) if 0 in world.names() else None
    if found is None:
        return
    rows = found.to_pylist()
    assert Counter((tuple(r["nodes"]), tuple(r["labels"])) for r in rows) == expected
    assert [r["length"] for r in rows] == sorted(r["length"] for r in rows)
    assert all(r["nodes"][0] == r["start"] and r["nodes"][-1] == r["end"] for r in rows)
    ends = graph.ends(expression, **ask)["end"].to_pylist()
    assert sorted(ends) == sorted({nodes[-1] for nodes, _ in expected})
    assert graph.count(expression, **ask) == expected.total()
    target = rows[0]["end"] if rows else 0
    to_end = graph.paths(expression, end=target, max_hops=HOPS, semantics=semantics).to_pylist()
    wanted = [
        (nodes, labels)
        for start in world.names()
        for nodes, labels in all_paths(world, query, start, semantics, HOPS)
        if nodes[-1] == target
    ]
    assert Counter((tuple(r["nodes"]), tuple(r["labels"])) for r in to_end) == Counter(wanted)


@given(edges, st.lists(expressions(1), min_size=2, max_size=3, unique=True))
@settings(max_examples=examples(50), deadline=None)
def test_together_as_one_by_one(drawn: list[tuple[int, str, int, int]], several: list[str]) -> None:
    _, graph = world_of(drawn)
    starts = {text: [n for n in (0, 1, 2) if n != at] for at, text in enumerate(several)}
    starts = {
        text: sorted({drawn[0][0], drawn[0][2], *nodes} - {3}) for text, nodes in starts.items()
    }
    known = {n for s, _, t, _ in drawn for n in (s, t)} | {0, 1, 2}
    starts = {text: [n for n in nodes if n in known] for text, nodes in starts.items()}
    together = graph.paths(several, start=starts, max_hops=2).to_pylist()
    for text in several:
        alone = graph.paths(text, start=starts[text], max_hops=2).to_pylist()
        mine = [
            {k: v for k, v in r.items() if k != "query"} for r in together if r["query"] == text
        ]
        assert sorted(map(repr, mine)) == sorted(map(repr, alone))
    ends = graph.ends(several, start=starts, max_hops=2).to_pylist()
    assert {(r["query"], r["start"], r["end"]) for r in ends} == {
        (r["query"], r["start"], r["end"]) for r in together
    }


@given(edges, expressions(), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_bitset_search_finds_the_same_ends(
    drawn: list[tuple[int, str, int, int]], expression: str, no_return: bool
) -> None:
    _, graph = world_of(drawn)
    semantics = "no_return" if no_return else "walk"
    looped = f"({expression})+"
    known = sorted({n for s, _, t, _ in drawn for n in (s, t)})
    plain = graph.ends(looped, start=known, semantics=semantics).to_pylist()
    before = engine.BITSET_STARTS
    engine.BITSET_STARTS = 1
    try:
        bits = graph.ends(looped, start=known, semantics=semantics).to_pylist()
        count = graph.count(looped, start=known, semantics=semantics, of="ends")
    finally:
        engine.BITSET_STARTS = before
    assert sorted(map(repr, bits)) == sorted(map(repr, plain))
    assert count == len(plain)


@given(
    edges,
    st.lists(expressions(1), min_size=1, max_size=2, unique=True),
    st.sampled_from(SEMANTICS),
    st.integers(1, 4),
)
@settings(max_examples=examples(100), deadline=None)
def test_one_length_after_the_other_finds_the_same_first_paths(
    drawn: list[tuple[int, str, int, int]], several: list[str], semantics: str, limit: int
) -> None:
    _, graph = world_of(drawn)
    known = sorted({n for s, _, t, _ in drawn for n in (s, t)})
    asked = {"start": known, "semantics": semantics, "max_hops": HOPS, "limit": limit}
    by_levels = graph.paths(several, **asked)
    kept = engine.expand_paths
    engine.expand_paths = lambda *given: (*kept(*given)[:-1], True)
    try:
        assert graph.paths(several, **asked) == by_levels
    finally:
        engine.expand_paths = kept


@given(edges, expressions())
@settings(max_examples=examples(40), deadline=None)
def test_sparse_layout_gives_the_same(
    drawn: list[tuple[int, str, int, int]], expression: str
) -> None:
    _, dense = world_of(drawn)
    before = graph_store._DENSE_ALWAYS, graph_store._DENSE_FACTOR
    graph_store._DENSE_ALWAYS, graph_store._DENSE_FACTOR = 0, 0
    try:
        _, sparse = world_of(drawn)
    finally:
        graph_store._DENSE_ALWAYS, graph_store._DENSE_FACTOR = before
    assert dense._store is not None and sparse._store is not None
    assert len(sparse._store.entry_symbol) and not len(dense._store.entry_symbol)
    start = drawn[0][0]
    assert sparse.paths(expression, start=start, max_hops=2) == dense.paths(
        expression, start=start, max_hops=2
    )


@pytest.mark.parametrize("hops", [1, 10, 63, 64, 200, 1300])
def test_counts_of_any_size(hops: int) -> None:
    table = pa.table({"subject": [0, 0, 1, 1], "relation": ["x"] * 4, "object": [0, 1, 0, 1]})
    graph = ensue.graph(table)
    assert graph.count("x+", start=0, max_hops=hops) == 2 ** (hops + 1) - 2
    assert graph.count("x{1,}", max_hops=hops) == 2 * (2 ** (hops + 1) - 2)
    text = graph.counts("x+", start=0, max_hops=hops, as_text=True)["count"].to_pylist()
    assert text == [str(2 ** (hops + 1) - 2)]


@given(edges, st.lists(expressions(1), min_size=1, max_size=3, unique=True), st.integers(0, 6))
@settings(max_examples=examples(60), deadline=None)
def test_best_effort_invents_nothing(
    drawn: list[tuple[int, str, int, int]], several: list[str], work: int
) -> None:
    _, graph = world_of(drawn)
    start = drawn[0][0]
    exact = graph.paths(several, start=start, max_hops=2, semantics="no_return").to_pylist()
    paths = Counter((r["query"], tuple(r["nodes"]), tuple(r["labels"])) for r in exact)
    question = ensue.Question("who likes x", start, tuple(several))
    for strategy in ("contribution", "random", "selectivity"):
        free = graph.retrieve(question, max_hops=2, strategy=strategy)
        rows = free.table.to_pylist()
        assert Counter((r["query"], tuple(r["nodes"]), tuple(r["labels"])) for r in rows) == paths
        assert free.complete.all()
        bound = graph.retrieve(
            question, max_hops=2, strategy=strategy, budget=ensue.Budget(work=work)
        )
        some = bound.table.to_pylist()
        assert bound.work[0] <= work
        got = Counter((r["query"], tuple(r["nodes"]), tuple(r["labels"])) for r in some)
        assert got <= paths
        assert free.work[0] <= work or not bound.complete[0]
        if bound.complete[0]:
            assert got == paths


def test_prefixes_are_shared() -> None:
    n = 50
    table = pa.table(
        {
            "subject": ["s"] * n + [f"m{k}" for k in range(n)] * 2,
            "relation": ["a"] * n + ["b"] * n + ["c"] * n,
            "object": [f"m{k}" for k in range(n)] + ["t"] * n + ["u"] * n,
        }
    )
    graph = ensue.graph(table)
    graph.paths(["a/b", "a/c"], start="s")
    assert graph._local.work == 3 * n
    assert np.isclose(graph._local.store.average_degree, 6 * n / (n + 3))
