"""Matches that stay compact: one row per end event, expanded to the same matches."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.sequences.compact import count
from tests.unit.test_sequences_exhaustive import CORRELATED, EVENTS, PATTERNS


def check(pattern: ensue.Pattern) -> None:
    pattern = pattern.partition_by("stream").order_by("id")
    expected = sorted(
        (row["stream"], tuple((e["label"], e["row"]) for e in row["events"]))
        for row in pattern.matches(EVENTS).to_pylist()
    )
    rows = pattern.matches(EVENTS, compact=True).to_pylist()
    found = []
    for row in rows:
        listed = list(ensue.expand(row["graph"]))
        assert len(listed) == count(row["graph"]) > 0
        assert all(match[-1][1] <= row["row"] for match in listed)
        found += [(row["stream"], tuple(match)) for match in listed]
    assert sorted(found) == expected
    assert len({(row["stream"], row["row"]) for row in rows}) == len(rows)


@pytest.mark.parametrize("text", PATTERNS[::3])
def test_expanding_gives_the_listing(text: str) -> None:
    check(ensue.pattern(text, types="kind"))
    check(ensue.pattern(text, types="kind").within(2))


def test_correlated_conditions() -> None:
    check(ensue.pattern("A ->> B+ ->> C", types="kind").define(B=CORRELATED[0]).within(3))


def test_the_graph_stays_small_and_is_read_lazily() -> None:
    kinds = ["A"] + ["B"] * 300 + ["C"]
    table = pa.table({"t": list(range(len(kinds))), "kind": kinds})
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("t")
    (row,) = pattern.matches(table, compact=True).to_pylist()
    assert count(row["graph"]) == pattern.count(table) == 2**300 - 1
    assert len(row["graph"]) < 7 * len(kinds)
    assert len(list(islice(ensue.expand(row["graph"]), 5))) == 5
    assert len(list(ensue.expand(row["graph"], limit=7))) == 7


def test_enumerating_costs_the_size_of_what_is_listed() -> None:
    """Steps of the enumeration, counted: at most a constant per event listed."""

    class Counted(list):  # type: ignore[type-arg]
        reads = 0

        def __getitem__(self, index):  # type: ignore[no-untyped-def]
            self.reads += 1
            return super().__getitem__(index)

    kinds = ["A"] * 3 + ["B", "X"] * 40 + ["C"]
    table = pa.table({"t": list(range(len(kinds))), "kind": kinds})
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("t")
    (row,) = pattern.matches(table, compact=True).to_pylist()
    for wanted in (10, 100, 1000):
        graph = Counted(row["graph"])
        size = sum(len(match) for match in ensue.expand(graph, limit=wanted))
        assert graph.reads <= 12 * size


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (ensue.pattern("A -> B").measures(n="COUNT(*)"), "measures belong to a single one"),
        (ensue.pattern("A -> B").after_match("past last row"), "compiled engines"),
        (ensue.pattern("A -> !B").within(3), "compiled engines"),
    ],
)
def test_refused(pattern: ensue.Pattern, problem: str) -> None:
    table = pa.table({"t": [1, 2], "kind": ["A", "B"]})
    with pytest.raises(errors.EnsueError, match=problem):
        pattern.order_by("t").matches(table, compact=True)
