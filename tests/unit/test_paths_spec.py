"""Every operator of path expressions: by hand, against the brute-force walker, in process."""

from __future__ import annotations

import pytest

import ensue
from ensue.front.paths import parse_path
from tests import specs_paths
from tests.oracle_paths import all_paths

CASES = specs_paths.load()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_paths_of_a_case(case: specs_paths.Case) -> None:
    graph = ensue.graph(case.table, nodes=case.nodes)
    assert specs_paths.rows(graph.paths(case.expression, **case.ask)) == case.paths


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ends_and_counts_of_a_case(case: specs_paths.Case) -> None:
    graph = ensue.graph(case.table, nodes=case.nodes)
    pairs = sorted({(path.split()[0], path.split()[-1]) for path in case.paths})
    ends = graph.ends(case.expression, **case.ask)
    assert sorted((r["start"], r["end"]) for r in ends.to_pylist()) == pairs
    assert graph.count(case.expression, **case.ask) == len(case.paths)
    assert graph.count(case.expression, of="ends", **case.ask) == len(pairs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_oracle_agrees_with_the_cases(case: specs_paths.Case) -> None:
    world, ask = case.world, dict(case.ask)
    if any(word in case.expression for word in (" OR ",)):
        pytest.skip("the oracle reads comparisons and AND only")
    starts = [ask["start"]] if "start" in ask else world.names()
    hops = ask.get("max_hops", 5)
    query = parse_path(case.expression)
    found = []
    for start in starts:
        for nodes, labels in all_paths(world, query, start, ask.get("semantics", "walk"), hops):
            if "end" not in ask or nodes[-1] == ask["end"]:
                found.append(specs_paths.written(list(nodes), list(labels)))
    assert tuple(sorted(found)) == case.paths
