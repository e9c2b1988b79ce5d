"""The spec cases through the in-process runner."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ensue.query.query import Query
from ensue.run import local
from tests import specs


def run(query: Query, table: pa.Table) -> tuple[list[str], list[specs.Row]]:
    result = local.run(query, table)
    return result.column_names, result.to_pylist()


@pytest.mark.parametrize("case", specs.cases(), ids=str)
def test_spec(case: specs.Case) -> None:
    specs.check(case, run)


@pytest.mark.parametrize("case", specs.cases(), ids=str)
def test_spec_with_the_rows_in_another_order(case: specs.Case) -> None:
    backwards = pa.array(reversed(range(len(case.table))), pa.int64())
    specs.check(case, lambda query, table: run(query, table.take(backwards)))
