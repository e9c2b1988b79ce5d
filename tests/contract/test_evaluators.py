"""The operator protocol: every evaluator that lists matches keeps the same promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.automaton.plan import plan
from ensue.operator.arrange import arrange
from ensue.operator.budget import Budget
from ensue.operator.protocol import Capabilities, Events, Metrics, PatternChange
from ensue.query.binding import bind
from ensue.run import local
from ensue.run.choose import for_matches

QUERIES = {
    "automaton": ensue.pattern("A B+").define(A="x = 1", B="x = 2"),
    "threads": ensue.pattern("A B+").define(A="x = 1", B="B.x > A.x"),
    "python": ensue.pattern("A B+").define(A="x = 1", B="abs(B.x) > sqrt(A.x)"),
    "sequences": ensue.pattern("A ->> B").define(A="x = 1", B="x = 2"),
}
TABLE = pa.table(
    {"k": ["p", "p", "p", "q", "q", "q"], "t": [1, 2, 3, 1, 2, 3], "x": [1, 2, 2, 1, 2, 1]}
)


def opened(name: str) -> tuple[Any, pa.Table, np.ndarray, Any]:
    query = QUERIES[name].partition_by("k").order_by("t").query
    bound = bind(query, TABLE.column_names)
    planned = plan(bound)
    ready, starts = arrange(local.prepare(planned, TABLE), ("k",), bound.order_by)
    evaluator = for_matches(bound).evaluator
    evaluator.open(planned, ready.schema)
    return evaluator, ready, starts, planned


@pytest.mark.parametrize("name", QUERIES)
def test_it_declares_what_it_is(name: str) -> None:
    evaluator, *_ = opened(name)
    assert isinstance(evaluator.capabilities, Capabilities)
    assert isinstance(evaluator.metrics, Metrics)


@pytest.mark.parametrize("name", QUERIES)
def test_complete_partitions_leave_nothing_behind(name: str) -> None:
    evaluator, ready, starts, _ = opened(name)
    complete = np.ones(len(starts) - 1, np.bool_)
    found = list(evaluator.insert(Events(ready, starts, complete)).tables())
    assert sum(t.num_rows for t in found) >= 2
    assert evaluator.metrics.rows == TABLE.num_rows
    assert not evaluator.snapshot().keys
    assert sum(t.num_rows for t in evaluator.end().tables()) == 0


@pytest.mark.parametrize("name", QUERIES)
def test_insert_then_end_is_a_complete_insert(name: str) -> None:
    once, ready, starts, _ = opened(name)
    complete = np.ones(len(starts) - 1, np.bool_)
    whole = list(once.insert(Events(ready, starts, complete)).tables())
    later, *_ = opened(name)
    pieces = list(later.insert(Events(ready, starts, ~complete)).tables())
    pieces += list(later.end([("p",), ("q",)]).tables())
    rows = lambda tables: sorted(str(r) for t in tables for r in t.to_pylist())  # noqa: E731
    assert rows(pieces) == rows(whole)


@pytest.mark.parametrize("name", QUERIES)
def test_an_empty_insert_changes_nothing(name: str) -> None:
    evaluator, ready, _, _ = opened(name)
    nothing = Events(ready.slice(0, 0), np.zeros(1, np.int64), np.zeros(0, np.bool_))
    assert sum(t.num_rows for t in evaluator.insert(nothing).tables()) == 0
    assert not evaluator.snapshot().keys


@pytest.mark.parametrize("name", QUERIES)
def test_what_it_cannot_do_it_refuses_by_name(name: str) -> None:
    evaluator, ready, starts, planned = opened(name)
    events = Events(ready, starts, np.ones(len(starts) - 1, np.bool_))
    if not evaluator.capabilities.retraction:
        with pytest.raises(errors.UnsupportedError, match="corrections of earlier events"):
            evaluator.retract(events)
    if not evaluator.capabilities.revision:
        with pytest.raises(errors.UnsupportedError, match="changes while running"):
            evaluator.revise(PatternChange())
    if not evaluator.capabilities.result_on_demand:
        with pytest.raises(errors.UnsupportedError, match="on demand"):
            evaluator.result()
    if not evaluator.capabilities.shedding:
        with pytest.raises(errors.UnsupportedError, match="budget"):
            for_matches(planned.query).evaluator.open(planned, ready.schema, budget=Budget(work=1))


@pytest.mark.parametrize("name", QUERIES)
def test_no_matches_has_the_columns_of_matches(name: str) -> None:
    evaluator, ready, starts, _ = opened(name)
    complete = np.ones(len(starts) - 1, np.bool_)
    found = next(iter(evaluator.insert(Events(ready, starts, complete)).tables()))
    assert evaluator.no_matches(ready.schema).schema == found.schema
