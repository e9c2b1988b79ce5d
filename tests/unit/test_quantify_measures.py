"""Nested aggregates in MATCH_RECOGNIZE measures, against plain Python over the labels."""

from __future__ import annotations

import random
import re
from statistics import mean

import pyarrow as pa
import pytest

import ensue
from ensue import errors


def rows(labels: str, values: list[int] | None = None) -> pa.Table:
    return pa.table(
        {"k": list(labels), "x": values or list(range(len(labels))), "t": range(len(labels))}
    )


def measured(pattern: str, table: pa.Table, **measures: str) -> dict[str, list[object]]:
    q = ensue.pattern(pattern, types="k").order_by("t").measures(**measures)
    return q.matches(table).to_pydict()  # type: ignore[no-any-return]


def test_maximum_over_blocks_of_the_mean() -> None:
    randomness = random.Random(5)
    for _ in range(30):
        text = "".join(
            "A" + "B" * randomness.randint(0, 3) for _ in range(randomness.randint(1, 4))
        )
        values = [randomness.randint(0, 9) for _ in text]
        blocks = [
            [values[i] for i in range(m.start() + 1, m.end())] for m in re.finditer("AB*", text)
        ]
        means = [mean(block) for block in blocks if block]
        found = measured(
            "(A B*)+",
            rows(text, values),
            top="MAX(AVG(B.x))",
            total="SUM(COUNT(B.*))",
            n="COUNT(COUNT(A.*))",
            spread="MAX(MAX(B.x) - MIN(B.x))",
        )
        assert found["top"] == [max(means) if means else None]
        assert found["total"] == [sum(map(len, blocks))]
        assert found["n"] == [len(blocks)]
        spreads = [max(block) - min(block) for block in blocks if block]
        assert found["spread"] == [max(spreads) if spreads else None]


def test_three_levels_and_mixed_levels() -> None:
    table = rows("ABBABCABC", [1, 2, 4, 1, 9, 1, 1, 2, 6])
    found = measured(
        "((A B*)+ C)+",
        table,
        deep="SUM(MAX(AVG(B.x)))",
        flat="MAX(AVG(B.x))",
        mixed="MAX(SUM(AVG(B.x)) + COUNT(C.*))",
    )
    assert found == {"deep": [11.0], "flat": [9.0], "mixed": [13.0]}


def test_first_last_filter_and_keys() -> None:
    table = rows("ABBAB", [5, 1, 7, 2, 4])
    found = measured(
        "(A B*)+",
        table,
        gap="MAX(LAST(B.x) - FIRST(A.x) + 0 * COUNT(*))",
        big="SUM(COUNT(B.x) FILTER (WHERE B.x > 3))",
        at="MAX(MAX_BY(B.t, B.x))",
        every="BOOL_AND(BOOL_OR(B.x > 3))",
    )
    assert found == {"gap": [2], "big": [2], "at": [4], "every": [True]}


def test_alternation_permutation_and_counts() -> None:
    assert measured("((A | C) B{1,2})+", rows("ABBCB"), m="MAX(SUM(B.x))") == {"m": [4]}
    assert measured("PERMUTE(A, C) (A B)+", rows("CAABAB"), m="MIN(SUM(B.x))") == {"m": [3]}


def test_the_whole_query_prints_back() -> None:
    q = ensue.pattern("(A B*)+", types="k").order_by("t").measures(m="MAX(AVG(B.x))")
    assert "MAX(AVG(B.x)) AS m" in q.sql()


@pytest.mark.parametrize(
    ("pattern", "measure", "kind", "words"),
    [
        ("(A* B*)+", "MAX(AVG(B.x))", errors.UnsupportedError, "not determined by the labels"),
        ("(A+)+", "MAX(SUM(A.x))", errors.UnsupportedError, "label='A'"),
        ("A B*", "MAX(AVG(B.x))", errors.QueryError, "needs a repeated group"),
        ("(A B*)+", "MAX(COUNT(DISTINCT B.x))", errors.UnsupportedError, "DISTINCT"),
        ("(A B*)+", "MAX(ARRAY_AGG(B.x))", errors.UnsupportedError, "array_agg"),
        ("(A B*)+", "ARRAY_AGG(SUM(B.x))", errors.UnsupportedError, "array_agg"),
    ],
)
def test_refusals(pattern: str, measure: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        measured(pattern, rows("ABAB"), m=measure)


def test_running_measures_need_final() -> None:
    q = ensue.pattern("(A B*)+", types="k").order_by("t").rows_per_match("all rows")
    with pytest.raises(errors.UnsupportedError, match="FINAL"):
        q.measures(m="MAX(AVG(B.x))").matches(rows("AB"))
    found = q.measures(m="FINAL MAX(AVG(B.x))").matches(rows("ABAB"))
    assert found["m"].to_pylist() == [3.0] * 4
