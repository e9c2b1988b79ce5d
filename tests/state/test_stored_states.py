"""States of rows that version 1 stored still load and go on to the same matches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.automaton.plan import plan
from ensue.operator.protocol import Events, Snapshot
from ensue.query.binding import bind
from ensue.rows.evaluator import RowsEvaluator
from ensue.run import local

FOLDER = Path(__file__).parent
TABLE = pa.table({"k": ["a"] * 8, "t": range(8), "x": [5, 4, 3, 4, 9, 8, 7, 8]})
QUERY = (
    ensue.pattern("A B+ C+ D")
    .define(B="x < PREV(x)", C="x > PREV(x)", D="x > A.x")
    .partition_by("k")
    .order_by("t")
    .measures(n="COUNT(*)", low="LAST(B.x)", top="FIRST(A.x)")
)
CUT = 3


def _half() -> tuple[RowsEvaluator, pa.Table]:
    planned = plan(bind(QUERY.query, TABLE.column_names))
    ready = local.prepare(planned, TABLE)
    evaluator = RowsEvaluator()
    evaluator.open(planned, ready.schema)
    return evaluator, ready


def _events(table: pa.Table, complete: bool) -> Events:
    return Events(table, np.array([0, table.num_rows], np.int64), np.array([complete]))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("rows_v*.arrow")), ids=lambda p: p.stem)
def test_rows(path: Path) -> None:
    planned = plan(bind(QUERY.query, TABLE.column_names))
    _, ready = _half()
    evaluator = RowsEvaluator()
    evaluator.open(planned, ready.schema, state=Snapshot({("a",): path.read_bytes()}))
    found = list(evaluator.insert(_events(ready.slice(CUT), True)).tables())
    result = local.finish(planned, pa.concat_tables(found)).to_pylist()
    assert result == QUERY.matches(TABLE).to_pylist()
    assert result == [{"k": "a", "n": 6, "low": 3, "top": 5}]
