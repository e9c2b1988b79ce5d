"""Random queries over random tables, in process against the oracle."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, assume, given, settings

from ensue.errors import SkipTargetError
from ensue.query.query import Query
from ensue.run import local
from tests import oracle
from tests.generate import generated_case, query_texts, tables
from tests.share import examples
from tests.specs import comparable


@settings(
    max_examples=examples(300),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(query_texts(), tables())
def test_random_queries(query_text: dict[str, Any], table_text: str) -> None:
    case = generated_case(query_text, table_text)
    query, table = case.query(), case.table
    try:
        reference = oracle.run(query, table.to_pylist(), table.column_names, patience=20_000)
    except oracle.TooLongError:
        assume(False)
        return
    except SkipTargetError:
        assert _raises_skip_target(query, table)
        return
    result = local.run(query, table)
    assert result.column_names == reference.columns
    assert comparable(query, result.to_pylist()) == comparable(query, reference.rows)


def _raises_skip_target(query: Query, table: Any) -> bool:
    try:
        local.run(query, table)
    except SkipTargetError:
        return True
    return False
