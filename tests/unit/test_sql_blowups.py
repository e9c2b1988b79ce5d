"""Patterns on which naive matchers take exponential time: they end, or refuse at a limit."""

from __future__ import annotations

import resource

import pyarrow as pa
import pytest

from ensue import errors
from ensue.front.sql import read_query
from ensue.rows import python_engine
from ensue.run import local

pytestmark = pytest.mark.compiled
ROWS = 100_000
A_B = "A AS kind = 'a', B AS kind = 'b'"
PERMUTED = "A AS x = 0, C AS x = 1, D AS x = 2, E AS x = 3, F AS x = 4, G AS x = 5, H AS x = 6"


def table(rows: int, last: str = "a") -> pa.Table:
    kinds = ["a"] * (rows - 1) + [last]
    return pa.table({"id": range(rows), "kind": kinds, "x": [i % 7 for i in range(rows)]})


def lengths(pattern: str, define: str, data: pa.Table) -> list[int]:
    query = read_query(
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES COUNT(*) AS n "
        f"PATTERN ({pattern}) DEFINE {define})"
    )
    return local.run(query, data)["n"].to_pylist()


@pytest.mark.parametrize(
    ("pattern", "define", "last", "expected"),
    [
        ("(A|A)* B", A_B, "a", []),
        ("(A|A)* B", A_B, "b", [ROWS]),
        ("(A*)*", "A AS kind = 'a'", "a", [ROWS]),
        ("(A*)* B", A_B, "a", []),
        ("((A+)+)+ B", A_B, "a", []),
        ("(A?){30} A{30}", "A AS kind = 'a'", "a", [60] * 1666 + [40]),
        ("(A*? A*)* B", A_B, "a", []),
        ("((A??)*?)+ B", A_B, "b", [ROWS]),
        ("(A+? A* A?){3,5} B", A_B, "a", []),
        ("(A* (A+? | A*)?)* B", A_B, "a", []),
        ("PERMUTE(A, C, D, E, F, G, H, I)", PERMUTED, "a", [8] * (ROWS // 8)),
        ("(A|C)* B", A_B + ", C AS kind = 'a' AND x >= FIRST(x)", "a", []),
        ("(A|C)* B", A_B + ", C AS SUM(A.x) - SUM(C.x) > 5", "a", []),
        ("(A|C)* B", A_B + ", C AS kind = 'a' AND COUNT(C.*) < 3", "b", [ROWS]),
    ],
)
def test_ends(pattern: str, define: str, last: str, expected: list[int]) -> None:
    assert lengths(pattern, define, table(ROWS, last)) == expected


def test_refuses_where_every_labelling_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition on the list of all labels tells 2 to the 2,000 labellings apart."""
    monkeypatch.setattr(python_engine, "MAX_STEPS", 500_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    listing = A_B + " AND ARRAY_AGG(CLASSIFIER())[0] = 'Z'"
    with pytest.raises(errors.LimitError, match="steps"):
        lengths("(A | C)+ B", listing, table(2_000, "b"))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 1 << 20  # kilobytes: 1 GB


def test_a_repetition_above_the_limit_is_refused() -> None:
    with pytest.raises(errors.LimitError, match="limit"):
        lengths("A{1,20000}", "A AS true", table(10))
