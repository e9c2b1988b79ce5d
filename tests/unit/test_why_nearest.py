"""The attempts that lack least are those of the answers per start, in the oracle's order."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.operator.notices import Notices
from ensue.query import nodes
from ensue.query.query import Query, SkipMode
from ensue.run import why
from ensue.run.lacking import ways
from tests import oracle, oracle_acep, oracle_why, oracle_why_events
from tests.generate import short_streams, small_patterns, stream_query, stream_table
from tests.oracle import _partitions
from tests.short_streams import rows_of, table
from tests.unit.test_sequences_exhaustive import PATTERNS
from tests.unit.test_why_events import MORE

LETTERS = ["ABCAB", "AABBC", "ABXBC", "BACAC", "ABABC", "AXBCA", "CABBA", "AACB", "ABC", "X", "AB"]


def told(query: Query, data: pa.Table, n: int) -> list[dict[str, object]]:
    rows = why.run_nearest(query, data, n, Notices()).to_pylist()
    for row in rows:
        assert str(row.pop("text")).startswith(str(row["variable"]))
    return rows


@pytest.mark.parametrize("definitions", ["disjoint", "overlap", "correlated"])
def test_row_patterns(definitions: str) -> None:
    data = stream_table(short_streams(4))
    parts = _partitions(stream_query(nodes.Label("A"), definitions), data.to_pylist())
    patterns = [*small_patterns(3)[::11], *small_patterns(4)[::401]]
    for pattern in (p for p in patterns if nodes.labels(p)):
        oracle._patience[0] = 10_000_000
        query = stream_query(pattern, definitions, SkipMode.PAST_LAST_ROW)
        by_key = [
            ({"stream": p[0]["stream"]}, oracle_why.starts(query, p, lacks=True)) for p in parts
        ]
        expected = oracle_why.nearest(by_key)
        got = told(query, data, 10_000)
        assert got == expected, nodes.pattern_text(pattern)
        assert told(query, data, 3) == expected[:3]


@pytest.mark.parametrize("text", (PATTERNS + MORE)[::3])
def test_event_patterns(text: str) -> None:
    data = table(LETTERS)
    for pattern in (ensue.pattern(text, types="kind"), ensue.pattern(text, types="kind").within(2)):
        query = pattern.partition_by("stream").order_by("id").query
        if ways(query):
            continue  # events may be missing anywhere: below
        by_key = [
            ({"stream": number}, oracle_why_events.starts(query, rows, lacks=True))
            for number, rows in rows_of(data).items()
        ]
        assert told(query, data, 1_000) == oracle_why.nearest(by_key), text


LACKING = [
    "A ->> B ->> C",
    "A ->> B+ ->> C",
    "A ->> (B | C ->> B) ->> A",
    "PERMUTE(A, B)[any] ->> C",
]


@pytest.mark.parametrize("text", LACKING)
def test_events_missing_anywhere(text: str) -> None:
    data = table(LETTERS)
    plain = ensue.pattern(text, types="kind").select("any").define(C="x < 4").within(3)
    pattern = plain.partition_by("stream").order_by("id")
    missing = pattern.allow_missing(2)
    expected = []
    for number, rows in rows_of(data).items():
        found = oracle_acep.matches(missing.query, rows)
        exact = [set(pairs) for pairs, (cost, _) in found.items() if not cost]
        best: dict[int, tuple[object, ...]] = {}
        for pairs, (cost, lacks) in found.items():
            first = pairs[0][1]
            covered = any(e.issuperset(pairs) or min(r for _, r in e) == first for e in exact)
            if cost and not covered:
                names = [name for _, name in lacks]
                order = [(row, name) for name, row in pairs]
                told = (cost, -len(pairs), order, names, [name for name, _ in pairs])
                best[first] = min(best.get(first, told), told)
        for first, (cost, count, _, names, matched) in best.items():
            expected.append((int(cost), count, number, first, names, matched))
    for asked in (pattern, missing):
        got = [
            (r["lacks"], -len(r["matched"]), r["stream"], r["row"], r["missing"], r["matched"])
            for r in asked.nearest(data, 1_000).to_pylist()
        ]
        assert got == sorted(expected)


def test_a_number_of_attempts() -> None:
    pattern = ensue.pattern("A B", types="kind").partition_by("stream").order_by("id")
    data = table(LETTERS)
    assert pattern.nearest(data).num_rows == 8
    assert pattern.nearest(data.slice(0, 0)).schema == pattern.nearest(data).schema
    for n in (0, "1", True):
        with pytest.raises(errors.QueryError, match="a whole number, 1 or more"):
            pattern.nearest(data, n)
