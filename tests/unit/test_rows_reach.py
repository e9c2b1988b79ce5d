"""Attempts that no row ahead can complete are dropped early, with the same matches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.automaton.plan import plan
from ensue.guards.compile import compile_guards
from ensue.operator.prepare import prepare
from ensue.query.binding import bind
from ensue.rows import thread_engine
from ensue.rows.kernels import threads
from ensue.rows.reach import comparisons
from ensue.scalar.arrow_kinds import from_arrow
from tests import oracle
from tests.specs import comparable

# Pattern, conditions, and how many comparisons tell an attempt early.
CASES: list[tuple[str, dict[str, str], int]] = [
    ("A B* C", {"C": "x > A.x + 1"}, 1),
    ("A B* C", {"C": "A.x - 2 >= x"}, 1),
    ("A B*? C", {"B": "x < A.x", "C": "x > A.x"}, 2),
    ("A+ B* C", {"C": "x > FIRST(A.x) + n"}, 0),
    ("A+ B* C", {"C": "PREV(x) + n > FIRST(A.x) * 1.5"}, 1),
    ("A+ B* C", {"C": "x > LAST(A.x)"}, 0),  # A may come again
    ("A B* C", {"B": "n >= FIRST(n)", "C": "n > FIRST(n) AND x < FIRST(n)"}, 2),
    ("(A | B) C* (D | A)", {"D": "x > B.x", "C": "x > 0"}, 1),
    ("A B* (C D | D)$", {"C": "x > A.x", "D": "n <= A.x AND x < 3"}, 2),
    ("A (B | C)* D", {"C": "x < A.n", "D": "x >= A.n AND n > A.n"}, 2),
    ("A B* C", {"C": "x = A.x"}, 0),
    ("A B* C", {"C": "kind > A.kind"}, 1),  # of texts: not computed, and nothing is dropped
]


def tables() -> list[pa.Table]:
    rng = np.random.default_rng(22)
    found = []
    for rows in (1, 5, 12, 12):
        x = [
            None if r < 0.1 else float("nan") if r < 0.2 else float(rng.integers(0, 5))
            for r in rng.random(rows)
        ]
        n = [None if r < 0.1 else int(rng.integers(0, 5)) for r in rng.random(rows)]
        kinds = rng.choice(["a", "b"], rows).tolist()
        key = sorted(rng.integers(0, 2, rows).tolist())
        columns = {"k": key, "t": list(range(rows)), "x": x, "n": n, "kind": kinds}
        types = {"x": pa.float64(), "n": pa.int64()}
        found.append(pa.table({m: pa.array(v, types.get(m)) for m, v in columns.items()}))
    return found


def asked(text: str, define: dict[str, str], skip: str) -> Any:
    query = ensue.pattern(text).define(**define).partition_by("k").order_by("t", ties="ignore")
    last = text.replace("*", "").replace("?", "").replace("(", "").replace(")", "")
    label = last.replace("$", "").split()[-1]
    return query.after_match(skip).measures(n="COUNT(*)", a="FIRST(t)", c=f"LAST({label}.t)")


@pytest.mark.parametrize(("text", "define", "told"), CASES, ids=[str(case[:2]) for case in CASES])
def test_same_matches(text: str, define: dict[str, str], told: int) -> None:
    for skip in ("past last row", "to next row"):
        pattern = asked(text, define, skip)
        for table in tables():
            query = pattern.query
            reference = oracle.run(query, table.to_pylist(), table.column_names)
            found = pattern.matches(table).to_pylist()
            assert comparable(query, found) == comparable(query, reference.rows)
            live = pattern.matcher()
            parts = [live.insert(table.slice(row, 1)) for row in range(table.num_rows)]
            ops = pa.concat_tables([*parts, live.end()]).column("op").to_pylist()
            assert ops.count("+") - ops.count("-") == len(reference.rows)
    schema = tables()[0].schema
    planned = plan(bind(pattern.query, schema.names))
    assert len(_told(planned, schema)) == told


def _told(planned: Any, schema: pa.Schema) -> list[Any]:
    prepared = prepare(planned, schema.empty_table())
    kinds = {field.name: from_arrow(field.type) for field in prepared.schema}
    return comparisons(planned, compile_guards(planned, kinds).row_registers)


@pytest.mark.parametrize(
    ("text", "define", "grows"),
    [
        ("A B* C", {"C": "x > A.x"}, ""),
        ("A B* C", {"C": "x = A.x"}, "(C: x = A.x)"),
        ("A B* C", {"C": "x > AVG(B.x)"}, "(C: x > AVG(B.x))"),
        ("A B* C", {"B": "x > LAST(B.x, 1) + LAST(B.x, 2)", "C": "x > LAST(B.x)"}, ""),
        ("A B* C", {"B": "x < A.x", "C": "x > A.x"}, "B: x < A.x"),
        ("A B C", {"C": "x = A.x"}, ""),
    ],
)
def test_explain_warns_of_a_square(text: str, define: dict[str, str], grows: str) -> None:
    pattern, table = asked(text, define, "to next row"), tables()[1]
    told = str(pattern.explain(table))
    assert ("growth: attempts may stay alive" in told) == bool(grows)
    assert grows in told
    assert "growth:" not in str(pattern.within("9 rows").explain(table))


def test_attempts_that_stay_alive_cost_no_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """Falling prices: each start is one more that waits, and nothing ever rises by half."""
    traces: list[int] = []
    run = threads.run_threads

    def counted(*given: Any) -> Any:
        traces.append(given[5])
        return run(*given)

    monkeypatch.setattr(thread_engine.threads, "run_threads", counted)
    rows = 3_000
    table = pa.table({"t": np.arange(rows), "x": 1e6 - np.arange(rows)})
    pattern = ensue.pattern("A B* C").define(C="x > A.x * 1.5").order_by("t", ties="ignore")
    monkeypatch.setattr(thread_engine, "MAX_TRACE", 4)
    monkeypatch.setattr(thread_engine, "_FIRST_TRACE", 4)
    assert pattern.measures(n="COUNT(*)").matches(table).num_rows == 0
    assert traces == [4]  # no attempt took more than a step or two
