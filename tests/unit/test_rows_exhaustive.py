"""Every small pattern over every short stream, in process against the oracle.

All streams are partitions of one table, so that a pattern costs one run. SKIP TO NEXT ROW shows
the match at every start row; the definitions differ in what the engine may share or prune.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ensue.query import nodes
from ensue.query.query import Query, SkipMode
from ensue.run import local
from tests import oracle
from tests.generate import short_streams, small_patterns, stream_query, stream_table
from tests.share import some
from tests.specs import comparable


def disagreements(queries: Iterable[Query], streams: list[str]) -> list[str]:
    """One line per pattern that the engine and the oracle see differently, with a stream."""
    table = stream_table(streams)
    rows = table.to_pylist()
    found = []
    for query in some(queries, repr):
        result = local.run(query, table)
        reference = oracle.run(query, rows)
        assert result.column_names == reference.columns
        got, expected = result.to_pylist(), reference.rows
        if comparable(query, got) != comparable(query, expected):
            found.append(_first_difference(query, streams, got, expected))
    return found


def _first_difference(query: Query, streams: list[str], got: list, expected: list) -> str:
    text = nodes.pattern_text(query.pattern)
    for number, stream in enumerate(streams):
        sides = [
            comparable(query, [row for row in side if row["stream"] == number])
            for side in (got, expected)
        ]
        if sides[0] != sides[1]:
            return f"{text} on {stream}: got {sides[0]}, expected {sides[1]}"
    return text


def report(found: list[str]) -> None:
    assert not found, f"{len(found)} patterns differ:\n" + "\n".join(found[:10])


UP_TO_THREE = small_patterns(1) + small_patterns(2) + small_patterns(3)
# A slice of the next size; the step shares no factor with the 11 forms under a quantifier.
OF_FOUR = small_patterns(4)[::13]


def test_labels_that_exclude_each_other() -> None:
    queries = (stream_query(pattern, "disjoint", SkipMode.PAST_LAST_ROW) for pattern in UP_TO_THREE)
    report(disagreements(queries, short_streams(3, "abc")))


def test_labels_that_overlap() -> None:
    queries = (stream_query(pattern, "overlap") for pattern in UP_TO_THREE)
    report(disagreements(queries, short_streams(4)))


def test_larger_patterns() -> None:
    queries = (stream_query(pattern, "overlap") for pattern in OF_FOUR)
    report(disagreements(queries, short_streams(4)))


@pytest.mark.parametrize("definitions", ["neighbour", "correlated"])
def test_conditions_over_other_rows(definitions: str) -> None:
    patterns = [p for p in UP_TO_THREE[::3] + OF_FOUR[::2] if nodes.labels(p)]
    queries = (stream_query(pattern, definitions) for pattern in patterns)
    report(disagreements(queries, short_streams(4)))


def test_exclusion() -> None:
    patterns = [
        pattern
        for pattern in UP_TO_THREE + OF_FOUR
        if any(isinstance(node, nodes.Exclusion) for node in nodes.walk(pattern))
    ]
    queries = (stream_query(p, "overlap", SkipMode.PAST_LAST_ROW, True) for p in patterns)
    report(disagreements(queries, short_streams(4)))


def test_longer_streams() -> None:
    queries = (stream_query(pattern, "overlap") for pattern in UP_TO_THREE[::7])
    report(disagreements(queries, short_streams(5)))
