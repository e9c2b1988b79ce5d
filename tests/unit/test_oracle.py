"""The spec cases against the oracle: what was derived by hand, and what brute force finds."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ensue.pattern.query import Query
from tests import oracle, specs


def run(query: Query, table: pa.Table) -> tuple[list[str], list[specs.Row]]:
    result = oracle.run(query, table.to_pylist(), table.column_names)
    return result.columns, result.rows


@pytest.mark.parametrize("case", specs.cases(), ids=str)
def test_oracle_gives_what_was_derived_by_hand(case: specs.Case) -> None:
    specs.check(case, run)


@pytest.mark.parametrize("rule", range(1, 13))
def test_every_rule_has_cases(rule: int) -> None:
    covered = [case for case in specs.cases() if case.data.get("rule") == rule]
    assert len(covered) >= 3


def test_there_are_enough_cases() -> None:
    assert len(specs.cases()) >= 120


def test_the_order_of_the_input_rows_does_not_matter() -> None:
    for case in specs.cases():
        if case.error is None:
            query, rows, columns = case.query(), case.input, case.table.column_names
            forwards = oracle.run(query, rows, columns).rows
            backwards = oracle.run(query, rows[::-1], columns).rows
            assert specs.comparable(query, forwards) == specs.comparable(query, backwards), case
