"""Shortest paths: every small graph by every small expression, against the brute-force walker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations, permutations, product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ensue
from ensue import errors
from ensue.front.paths import parse_path
from ensue.paths import shortest as engine
from tests.oracle_paths import World, all_paths, readings, walks
from tests.share import examples, some
from tests.unit.test_paths_hypothesis import edges, expressions, world_of

Edge = tuple[int, str, int]
HOPS = 4
EXPRESSIONS = (
    "x", "x/y", "x|^y", "x*", "(x|y)+", "(.|^.)*", "^x/y*", "(x/y)+", "x{2}", "(x|^x){1,3}",
    "x?/(^y|x)*", "(x/x)*|y", "((x|^x)/(y|^y))*",
)  # fmt: skip


def small_graphs() -> Iterator[tuple[Edge, ...]]:
    """All graphs of up to three nodes, two labels and three edges, one of each shape."""
    possible = [(s, label, t) for s, label, t in product(range(3), "xy", range(3))]
    seen = set()
    for size in (1, 2, 3):
        for chosen in combinations(possible, size):
            shapes = [
                tuple(sorted((p[s], label, p[t]) for s, label, t in chosen))
                for p in permutations(range(3))
            ]
            if min(shapes) not in seen:
                seen.add(min(shapes))
                yield min(shapes)


def graph_of(triples: tuple[Edge, ...], weights: list[Any] | None = None) -> ensue.Graph:
    """With an edge of each label beside, so that the labels are known."""
    apart = [(9, label, 9) for label in "xy"]
    columns = list(zip(*triples, *apart, strict=True))
    table = pa.table(dict(zip(("subject", "relation", "object"), columns, strict=True)))
    if weights is not None:
        table = table.append_column("km", pa.array([*weights, 1, 1]))
    return ensue.graph(table)


def rows_of(table: pa.Table) -> Counter[tuple[tuple[int, ...], tuple[str, ...]]]:
    return Counter((tuple(r["nodes"]), tuple(r["labels"])) for r in table.to_pylist())


def shortest_of(paths: list[Any]) -> dict[tuple[int, int], Counter[Any]]:
    """Per start and end the shortest of some paths."""
    least: dict[tuple[int, int], int] = {}
    for nodes, labels in paths:
        pair = nodes[0], nodes[-1]
        least[pair] = min(least.get(pair, len(labels)), len(labels))
    return {
        pair: Counter(p for p in paths if (p[0][0], p[0][-1]) == pair and len(p[1]) == length)
        for pair, length in least.items()
    }


def check(graph: ensue.Graph, text: str, expected: dict[Any, Counter[Any]], **asked: Any) -> None:
    every = rows_of(graph.paths(text, shortest="all", **asked))
    assert every == sum(expected.values(), Counter())
    one = rows_of(graph.paths(text, shortest="any", **asked))
    assert Counter((nodes[0], nodes[-1]) for nodes, _ in one) == Counter(dict.fromkeys(expected, 1))
    assert not one - every


def test_all_small_graphs_by_all_expressions() -> None:
    graphs = list(small_graphs())
    assert len(graphs) > 150
    for triples in some(graphs):
        world, graph = World(triples), graph_of(triples)
        names = sorted(world.names())
        steps = {start: list(walks(world, start, "walk", HOPS - 1)) for start in names}
        for text in EXPRESSIONS:
            query = parse_path(text)
            found = [
                (
                    (start, *(world.ends(step)[1] for step in walk)),
                    tuple(("^" if back else "") + triples[e][1] for e, back in walk),
                )
                for start in names
                for walk in steps[start]
                if len(walk) in readings(world, query, query.pattern, walk, 0)
            ]
            expected = shortest_of(found)
            hops = {"max_hops": HOPS - 1}
            check(graph, text, expected, start=names, **hops)
            for end in names:
                to_end = {pair: paths for pair, paths in expected.items() if pair[1] == end}
                check(graph, text, to_end, start=names, end=end, **hops)
                check(graph, text, to_end, end=end, **hops)


@given(edges, expressions(), st.booleans())
@settings(max_examples=examples(120), deadline=None)
def test_with_conditions_and_without_return(
    drawn: list[tuple[int, str, int, int]], text: str, no_return: bool
) -> None:
    world, graph = world_of(drawn)
    semantics = "no_return" if no_return else "walk"
    names, query = sorted(world.names()), parse_path(text)
    found = [p for start in names for p in all_paths(world, query, start, semantics, 3)]
    expected = shortest_of(found)
    asked = {"semantics": semantics, "max_hops": 3}
    check(graph, text, expected, start=names, **asked)
    for end in names:
        to_end = {pair: paths for pair, paths in expected.items() if pair[1] == end}
        check(graph, text, to_end, start=names, end=end, **asked)


@given(edges, expressions(), st.lists(st.integers(0, 3), min_size=5, max_size=5))
@settings(max_examples=examples(120), deadline=None)
def test_by_weight(drawn: list[tuple[int, str, int, int]], text: str, weights: list[int]) -> None:
    triples = tuple((s, label, t) for s, label, t, _ in drawn)
    columns = tuple({"w": w, "km": km} for (*_, w), km in zip(drawn, weights, strict=False))
    world = World(triples, columns, {n: {"id": n, "v": n % 3} for n in range(4)})
    table = pa.table({
        "subject": [s for s, _, _ in triples] + [9] * 3,
        "relation": [label for _, label, _ in triples] + list("xyz"),
        "object": [t for _, _, t in triples] + [9] * 3,
        "w": [c["w"] for c in columns] + [0] * 3,
        "km": [c["km"] for c in columns] + [1] * 3,
    })  # fmt: skip
    nodes = pa.table({"id": list(range(4)), "v": [n % 3 for n in range(4)]})
    graph = ensue.graph(table, nodes=nodes)
    names, query = sorted(world.names()), parse_path(text)
    costs: dict[tuple[int, int], int] = {}
    found: Counter[Any] = Counter()
    for start in names:
        for steps in walks(world, start, "walk", 3):
            if len(steps) in readings(world, query, query.pattern, steps, 0):
                end = world.ends(steps[-1])[1] if steps else start
                cost = sum(columns[edge]["km"] for edge, _ in steps)
                costs[start, end] = min(costs.get((start, end), cost), cost)
                found[start, end, cost] += 1
    asked = {"start": names, "max_hops": 3, "weight": "km"}
    one = graph.paths(text, shortest="any", **asked).to_pylist()
    assert {(r["start"], r["end"]): r["weight"] for r in one} == costs
    assert len(one) == len(costs)
    if min(c["km"] for c in columns) > 0:
        every = graph.paths(text, shortest="all", **asked).to_pylist()
        told = Counter((r["start"], r["end"], r["weight"]) for r in every)
        assert told == Counter({(*pair, cost): found[*pair, cost] for pair, cost in costs.items()})
    # Without a bound: from both ends, as from one, and no dearer than what a bound allows.
    several = engine._FEW_ENDS
    free: list[dict[Any, float]] = []
    for few in (several, 0):
        engine._FEW_ENDS = few
        try:
            pairs = [
                r
                for end in names
                for r in graph.paths(
                    text, start=names, end=end, shortest="any", weight="km"
                ).to_pylist()
            ]
        finally:
            engine._FEW_ENDS = several
        free.append({(r["start"], r["end"]): r["weight"] for r in pairs})
    assert free[0] == free[1]
    assert all(free[0][pair] <= cost for pair, cost in costs.items())


def grid(size: int) -> pa.Table:
    """Nodes (x, y) as x * size + y, edges to the right and down."""
    steps = [
        (x * size + y, label, (x + dx) * size + y + dy)
        for x, y in product(range(size), repeat=2)
        for label, dx, dy in (("right", 1, 0), ("down", 0, 1))
        if x + dx < size and y + dy < size
    ]
    names = ("subject", "relation", "object")
    return pa.table(dict(zip(names, map(list, zip(*steps, strict=True)), strict=True)))


def test_a_grid_has_more_shortest_paths_than_anyone_can_list() -> None:
    graph = ensue.graph(grid(60))
    asked = {"start": 0, "end": 3599}
    one = graph.paths("(right|down)*", shortest="any", **asked).to_pylist()
    assert [row["length"] for row in one] == [118]
    assert len(set(one[0]["nodes"])) == 119
    some = graph.paths("(right|down)*", shortest="all", limit=1000, **asked)
    assert len(rows_of(some)) == 1000
    with pytest.raises(errors.LimitError, match="more than 5,000 shortest paths"):
        graph.paths("(right|down)*", shortest="all", max_partials=5000, **asked)
    small = ensue.graph(grid(6)).paths("(right|down)*", start=0, end=35, shortest="all")
    assert len(rows_of(small)) == 252  # 10 over 5


def test_a_limit_keeps_the_nearest_ends() -> None:
    graph = ensue.graph(grid(5))
    near = graph.paths("(right|down)+", start=0, shortest="any", limit=3).to_pylist()
    assert [row["length"] for row in near] == [1, 1, 2]
    to = graph.paths("(right|down)*", start=0, end=[24, 6], shortest="all", limit=3).to_pylist()
    assert [(row["end"], row["length"]) for row in to] == [(6, 2), (6, 2), (24, 8)]


def test_several_queries_have_each_their_shortest() -> None:
    graph = ensue.graph(grid(4))
    asked = {"r": "right+", "any": "(right|down)+"}
    rows = graph.paths(asked, start={"r": [0], "any": [0, 5]}, end=12, shortest="any").to_pylist()
    assert [(r["query"], r["start"], r["length"]) for r in rows] == [("r", 0, 3), ("any", 0, 3)]


def test_weights_may_be_decimals_and_are_checked_where_they_can_be_crossed() -> None:
    triples = ((0, "x", 1), (1, "x", 2), (0, "y", 2))
    graph = graph_of(triples, [Decimal("1.5"), Decimal("2.25"), None])
    row = graph.paths("x+", start=0, end=2, shortest="any", weight="km").to_pylist()[0]
    assert (row["nodes"], row["weight"]) == ([0, 1, 2], 3.75)
    with pytest.raises(errors.DataError, match="edge 2 is None"):
        graph.paths("x|y", start=0, end=2, shortest="any", weight="km")
    free = graph_of(triples, [0, 0, 1])
    assert free.paths("x+", start=0, end=2, shortest="any", weight="km")["weight"][0].as_py() == 0
    with pytest.raises(errors.DataError, match="infinitely many"):
        free.paths("x+", start=0, end=2, shortest="all", weight="km")
    with pytest.raises(errors.UnknownColumnError, match=r"edge\.miles"):
        free.paths("x+", start=0, shortest="any", weight="miles")


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"shortest": "best"}, "not a setting"),
        ({"weight": "km"}, "all paths are wanted"),
        ({"shortest": "any", "semantics": "trail"}, "no search that is quick"),
        ({"shortest": "any", "weight": "relation"}, "no column 'relation'"),
    ],
)
def test_what_is_refused(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(errors.EnsueError, match=problem):
        graph_of(((0, "x", 1),), [1]).paths("x", start=0, **asked)


def test_nothing_leads_there() -> None:
    graph = graph_of(((0, "x", 1), (2, "x", 3)), [1, 1])
    for weight in (None, "km"):
        none = graph.paths("x+", start=0, end=3, shortest="all", weight=weight)
        assert none.num_rows == 0
        assert ("weight" in none.column_names) == (weight is not None)
    assert "both ends" in graph.explain("x+", start=0, end=3, shortest="any")
    assert "one search per start" in graph.explain("x+", start=0, shortest="any")
