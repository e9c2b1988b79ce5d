"""A partition that arrives in pieces, through snapshots, gives what it gives at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensue import errors
from ensue.automaton.plan import Plan, plan
from ensue.operator.arrange import arrange
from ensue.operator.protocol import Events
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.rows import evaluator as rows_module
from ensue.rows.evaluator import RowsEvaluator
from ensue.run import local
from tests import specs
from tests.generate import generated_case, query_texts, tables
from tests.share import examples


def prepared(query: Query, table: pa.Table) -> tuple[Plan, pa.Table, np.ndarray]:
    bound = rules.check(bind(query, table.column_names))
    planned = plan(bound)
    ready = local.prepare(planned, table.combine_chunks())
    return planned, *arrange(ready, bound.partition_by, bound.order_by)


def in_pieces(query: Query, table: pa.Table, piece: int, restore: bool) -> pa.Table:
    """Every partition cut into pieces of `piece` rows, one insert each, then ended."""
    planned, arranged, starts = prepared(query, table)
    evaluator = RowsEvaluator()
    evaluator.open(planned, arranged.schema)
    found: list[pa.Table] = [evaluator.no_matches(arranged.schema)]
    for begin, end in pairwise(starts):
        for first in range(int(begin), int(end), piece):
            size = min(piece, int(end) - first)
            events = Events(
                arranged.slice(first, size), np.array([0, size], np.int64), np.array([False])
            )
            found.extend(evaluator.insert(events).tables())
            if restore:
                state = evaluator.snapshot()
                evaluator = RowsEvaluator()
                evaluator.open(planned, arranged.schema, state=state)
        found.extend(evaluator.end().tables())
    return local.finish(planned, pa.concat_tables(found))


def outcome(query: Query, run: Any) -> Any:
    try:
        return specs.comparable(query, run().to_pylist())
    except errors.SkipTargetError:
        return "skip target"


@pytest.mark.parametrize("piece", [1, 2])
@pytest.mark.parametrize("case", [c for c in specs.cases() if c.error is None], ids=str)
def test_spec_cases_in_pieces(case: specs.Case, piece: int) -> None:
    query, table = case.query(), case.table
    pieces = in_pieces(query, table, piece, restore=True).to_pylist()
    whole = local.run(query, table).to_pylist()
    assert specs.comparable(query, pieces) == specs.comparable(query, whole)


@settings(
    max_examples=examples(150),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(query_texts(), tables(), st.integers(1, 4), st.booleans())
def test_random_queries_in_pieces(
    query_text: dict[str, Any], table_text: str, piece: int, restore: bool
) -> None:
    case = generated_case(query_text, table_text)
    query, table = case.query(), case.table
    pieces = outcome(query, lambda: in_pieces(query, table, piece, restore))
    assert pieces == outcome(query, lambda: local.run(query, table))


def test_a_long_partition_is_cut_to_the_working_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "WORK_BYTES", 1024 * 4 * 3)
    case = generated_case(
        {
            "pattern": "A B+ C",
            "define": {"B": "x < PREV(x)", "C": "x > PREV(x)"},
            "order_by": "t",
            "measures": {"n": "COUNT(*)", "low": "LAST(B.x)"},
        },
        "t | x\n" + "\n".join(f"{i} | {(i * 7919) % 101}" for i in range(5000)),
    )
    expected = local.run(case.query(), case.table).to_pylist()
    monkeypatch.undo()
    assert local.run(case.query(), case.table).to_pylist() == expected
    assert len(expected) > 500


def test_an_undecided_start_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "WORK_BYTES", 1)
    monkeypatch.setattr(rows_module, "MAX_BYTES", 64 * 1024)
    case = generated_case(
        {"pattern": "A+ B", "define": {"A": "x = 0", "B": "x = 1"}, "order_by": "t"},
        "t | x\n" + "\n".join(f"{i} | {int(i == 9999)}" for i in range(10_000)),
    )
    with pytest.raises(errors.LimitError, match="stays undecided over"):
        local.run(case.query(), case.table)


def test_foreign_state_is_refused() -> None:
    query = specs.cases()[0].query()
    planned, arranged, _ = prepared(query, specs.cases()[0].table)
    evaluator = RowsEvaluator()
    from ensue.operator.protocol import Snapshot

    with pytest.raises(errors.StateError, match="not Ensue's, or is damaged"):
        evaluator.open(planned, arranged.schema, state=Snapshot({(): b"junk"}))
