"""Workloads: what users may get wrong, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.api.pattern import Pattern
from ensue.shared.row_sketch import StartSketch

TABLE = pa.table({"id": range(6), "u": [1, 1, 2, 2, 1, 1], "kind": list("ABABAB"), "x": range(6)})
BOUND = ensue.Budget(work=9)
Q = ensue.pattern("A ->> B", types="kind").define(B="x > A.x").partition_by("u").order_by("id")
ROWS = (
    ensue.pattern("A B").define(A="kind = 'A'", B="kind = 'B'")
    .partition_by("u").order_by("id").after_match("to next row")
)  # fmt: skip
LOAD = ensue.workload(a=Q)
TEXT = TABLE.set_column(3, "x", pa.array(list("abcdef")))
TWICE = pa.table([TABLE["x"], TABLE["x"]], names=["x", "x"])


def started(*, budget: ensue.Budget | None = None) -> Any:
    live = LOAD.live(TABLE.schema, budget)
    live.insert(TABLE.slice(0, 2))
    return live


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: ensue.workload(Q), errors.QueryError, "set of patterns with names"),
        (lambda: ensue.workload([Q, Q]), errors.QueryError, "a name and its pattern"),
        (lambda: ensue.workload({1: Q}), errors.QueryError, "name 1 of a pattern is not text"),
        (lambda: ensue.workload(a=Q, weights=[1]), errors.QueryError, "which pattern has which"),
        (lambda: ensue.workload(a=Q, weights={"a": float("inf")}), errors.QueryError, "finite"),
        (lambda: ensue.workload(a=Q, weights={"a": True}), errors.QueryError, "finite"),
        (lambda: ensue.workload(a=Q, seed=-1), errors.QueryError, "seed=-1"),
        (lambda: ensue.workload(a=Q, seed=2**70), errors.QueryError, "seed=1180591"),
        (lambda: ensue.workload(a=Q, seed="1"), errors.QueryError, "seed='1'"),
        (lambda: LOAD.matches(TABLE, "50%"), errors.QueryError, "'50%' is not a budget"),
        (lambda: LOAD.matches(TABLE, {"work": 5}), errors.QueryError, "is not a budget"),
        (lambda: LOAD.live(TABLE.schema, "50%"), errors.QueryError, "is not a budget"),
        (lambda: Q.matches(TABLE, budget="50%"), errors.QueryError, "is not a budget"),
        (lambda: LOAD.matches(TABLE, ensue.Budget(latency={})), errors.QueryError, "no pattern"),
        (lambda: LOAD.matches(TABLE, ensue.Budget(latency={"a": None})), errors.QueryError,
         "latency of 'a'=None is not a duration"),
        (lambda: LOAD.matches(TABLE, BOUND, history=TWICE), errors.EnsueError, "history"),
        (lambda: LOAD.matches(TABLE, BOUND, history=TEXT), errors.ColumnTypeError,
         "'x' of the history is string"),
        (lambda: LOAD.live(TABLE.schema, BOUND, history=TEXT), errors.ColumnTypeError, "'x'"),
        (lambda: LOAD.live(TABLE.schema, state=b"state"), errors.StateError, "type bytes"),
        (lambda: LOAD.aggregate(TABLE, BOUND, by="zz", n="count(*)"), errors.UnknownColumnError,
         "'zz'"),
        (lambda: started().insert(TABLE.drop_columns(["x"])), errors.UnknownColumnError, "'x'"),
        (lambda: started().insert(TEXT.slice(2)), errors.ColumnTypeError, "'x'.*string"),
        (lambda: started().insert(TABLE.slice(2).set_column(3, "x", pa.array([1.5] * 4))),
         errors.ColumnTypeError, "'x'.*double"),
        (lambda: started().revise(add={"z": "A ->> B"}), errors.QueryError, "is not a pattern"),
        (lambda: started().revise(add={1: Q}), errors.QueryError, "not text"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    call: Callable[[], object], kind: type[errors.EnsueError], says: str
) -> None:
    with pytest.raises(kind, match=says) as told:
        call()
    assert told.value.remedy


def test_rows_of_another_width_are_taken() -> None:
    narrow = TABLE.set_column(3, "x", TABLE["x"].cast(pa.int16()))
    live = started()
    found = live.insert(narrow.slice(2)).num_rows
    assert found + 1 == LOAD.matches(TABLE).num_rows
    LOAD.matches(TABLE, BOUND, history=narrow)


@pytest.mark.parametrize("budget", [ensue.Budget(work=1000), ensue.Budget(work="100%")])
@pytest.mark.parametrize(
    ("column", "pattern"),
    [
        (pa.array([b"\xff", b"\xff", b"b", b"b", b"\xff", b"\xff"]), ROWS),
        (TABLE["u"], ensue.pattern("A B")
         .define(A="kind = 'A'", B="kind = 'B' AND size(l) = size(A.l)")
         .partition_by("u").order_by("id").after_match("to next row")),
        (TABLE["u"], ensue.pattern("A B").define(A="kind = 'A'", B="kind = 'B'")
         .after_match("to next row")),
    ],
    ids=["bytes", "list", "no order"],
)  # fmt: skip
def test_row_patterns_over_any_column_take_a_budget(
    column: pa.Array, pattern: Pattern, budget: ensue.Budget
) -> None:
    table = TABLE.set_column(1, "u", column)
    table = table.append_column("l", pa.array([[1], [1], [2], [3], [4], [4]]))
    load = ensue.workload(a=pattern)
    assert load.matches(table, budget).to_pylist() == load.matches(table).to_pylist()


def test_bytes_are_told_apart() -> None:
    keys = StartSketch()._binned("u", pa.array([b"\xff", b"a", None, b"a"]), False)
    assert keys[1] == keys[3] and len(set(keys.tolist())) == 3
