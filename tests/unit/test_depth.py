"""Long chains and deep nesting: they work up to the limit, and are refused by name above it."""

from __future__ import annotations

import sys
import warnings

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.front.sql import read_query
from ensue.query import condition as c
from ensue.query import stored
from ensue.query.depth import roomy

ROWS = pa.table({"x": pa.array(range(6)), "s": list("abcdef")})


def found(condition: str) -> list[dict[str, int]]:
    """Rows that match, by a pattern whose text and stored form mean the same."""
    limit = sys.getrecursionlimit()
    query = ensue.pattern("A").define(A=condition).order_by("x").measures(x="A.x")
    again, kept = read_query(query.sql()), stored.from_json(stored.to_json(query.query))
    assert roomy(lambda: again == query.query == kept)()
    hash(query)
    query.explain()
    ensue.explain(query.sql())
    rows = query.matches(ROWS).to_pylist()
    assert sys.getrecursionlimit() == limit
    return rows


DEEP = {
    "brackets": "(" * 999 + "x = 1" + ")" * 999,
    "functions": "abs(" * 300 + "x" + ")" * 300 + " = 1",
    "sum": "x - " + " + ".join(["1"] * 300) + " = 299",
    "negations": "NOT " * 300 + "x = 1",
}


@pytest.mark.parametrize("name", DEEP)
def test_what_nests_gives_its_answer(name: str) -> None:
    assert len(found(DEEP[name])) == 1


NESTED = {  # how many matches: rows are labelled ABABAB
    "(" * 999 + "A" + ")" * 999: 3,
    "(" * 999 + "A" + ")+" * 999: 3,
    "(X | " * 999 + "A" + ")" * 999: 3,
    "(A " * 998 + "B" + ")" * 998: 0,
    "A -> " + "(B -> " * 998 + "B" + ")" * 998: 0,
    "(A | A -> " * 999 + "B" + ")" * 999: 6,
}


@pytest.mark.parametrize("text", NESTED)
def test_patterns_nest(text: str) -> None:
    rows = pa.table({"x": list(range(6)), "k": list("ABABAB")})
    query = ensue.pattern(text, types="k").order_by("x")
    assert query.matches(rows).num_rows == NESTED[text]
    matcher = query.matcher()
    assert matcher.insert(rows).num_rows + matcher.end().num_rows == NESTED[text]
    assert repr(query) and query.explain() and query.why(rows).num_rows == 1


def test_path_expressions_nest() -> None:
    graph = ensue.graph(
        pa.table({"subject": ["a", "b"], "relation": ["r"] * 2, "object": list("bc")})
    )
    for text in (
        "(" * 999 + "r" + ")" * 999,
        "(" * 999 + "r" + ")+" * 999,
        "(q|" * 999 + "r" + ")" * 999,
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert graph.paths(text.replace("q", "r"), max_hops=1).num_rows == 2
    with pytest.raises(errors.LimitError, match="nests deeper than 1,000 brackets"):
        graph.paths("(" * 1_001 + "r" + ")" * 1_001)


def test_long_chains_are_shallow_and_mean_what_they_say() -> None:
    terms = [f"x = {i}" for i in range(-300, 3)]
    assert found(" OR ".join(terms)) == [{"x": 0}, {"x": 1}, {"x": 2}]
    assert found(" AND ".join(f"x <> {i}" for i in range(1, 300))) == [{"x": 0}]
    assert found(" || ".join(["s"] * 150) + " > 'f'") == [{"x": 5}]
    many = " OR ".join(f"x = {i}" for i in range(4_000))
    tree = ensue.pattern("A").define(A=many).query.definition("A")
    levels, layer = 0, [tree]
    while layer:
        levels, layer = levels + 1, [child for node in layer for child in c.children(node)]
    assert levels < 20 and len(c.operands("or", tree)) == 4_000


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1_001 + "x = 1" + ")" * 1_001,
        "abs(" * 5_000 + "x" + ")" * 5_000 + " = 1",
        " + ".join(["x"] * 1_100) + " > 0",
    ],
)
def test_above_the_limit_there_is_a_limit_error(text: str) -> None:
    with pytest.raises(errors.LimitError, match="nests deeper than 1,000 levels"):
        ensue.pattern("A").define(A=text).order_by("x").matches(ROWS)
    with pytest.raises(errors.LimitError, match="nests deeper than 1,000 levels"):
        read_query(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x PATTERN (A) DEFINE A AS {text})")
