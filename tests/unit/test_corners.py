"""Corners where an answer was once wrong or an error had no name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.automaton.plan import plan
from ensue.front.grammar import parse_pattern
from ensue.operator import sorting
from ensue.operator.arrange import arrange
from ensue.operator.protocol import Events
from ensue.query.binding import bind
from ensue.query.query import OrderKey, Query
from ensue.rows import evaluator as rows_module
from ensue.rows.evaluator import RowsEvaluator
from ensue.run import local

PAIR = ensue.pattern("A B").order_by("t").measures(a="A.t", b="B.t")


def pairs(query: Any, values: list[Any], kind: pa.DataType | None = None) -> list[Any]:
    found = query.matches(pa.table({"t": pa.array(values, kind)})).to_pylist()
    return [(m["a"], m["b"]) for m in found]


def test_a_row_after_the_first_is_seen_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "WORK_BYTES", 1)
    table = pa.table({"t": range(5_000)})
    query = ensue.pattern("A B").order_by("t").measures(m="NEXT(FIRST(t, 1))")
    assert query.matches(table)["m"].to_pylist() == [*range(2, 5_000, 2), None]
    defined = ensue.pattern("A B").define(B="NEXT(FIRST(t, 1)) > 0").order_by("t")
    assert defined.count(table) == 2_499


@pytest.mark.parametrize(
    ("order", "values"),
    [
        ("t", [None, -100, 0]),
        ("t DESC NULLS FIRST", [None, 100, 0]),
        ("t NULLS LAST", [0, 9, None]),
    ],
)
def test_a_null_order_value_widens_no_window(order: str, values: list[int | None]) -> None:
    assert pairs(PAIR.order_by(order).within(5), values) == []


def test_a_null_order_value_leaves_other_windows_alone() -> None:
    assert pairs(PAIR.within(5), [None, 1, 4]) == [(1, 4)]
    assert pairs(PAIR.order_by("t NULLS LAST").within(5), [1, 4, None]) == [(1, 4)]


def test_windows_over_decimals_are_exact() -> None:
    point = [Decimal("0.1"), Decimal("0.4")]
    assert len(pairs(PAIR.within(0.3), point)) == 1
    large = [Decimal(10**22), Decimal(10**22 + 1)]
    assert pairs(PAIR.within(0), [Decimal(10**15), Decimal(10**15 + 1)]) == []
    assert len(pairs(PAIR.within(1), large)) == 1


def test_windows_over_the_whole_range_of_integers() -> None:
    ends = [-(2**63), 2**63 - 1]
    assert pairs(PAIR.within(5), ends) == []
    assert pairs(PAIR.order_by("t DESC").within(5), ends) == []
    assert len(pairs(PAIR.within(1), [2**63 - 2, 2**63 - 1])) == 1


def test_infinity_is_within_reach_of_itself() -> None:
    single = ensue.pattern("A").order_by("t").within(1.0)
    assert single.count(pa.table({"t": [1.0, float("inf")]})) == 2


def test_constant_measures_keep_their_rows() -> None:
    query = ensue.pattern("A").order_by("t").measures(m="1")
    assert query.matches(pa.table({"t": [1, 2]})).to_pylist() == [{"m": 1}, {"m": 1}]


def test_the_python_tier_reads_times_in_the_session_zone() -> None:
    zone = ZoneInfo("America/New_York")
    night = dt.datetime(2024, 1, 1, 23, tzinfo=zone)
    table = pa.table(
        {"ts": pa.array([night, night + dt.timedelta(hours=1)], pa.timestamp("us", zone.key))}
    )
    query = ensue.pattern("A B").order_by("ts")
    assert query.define(B="hour(ts) > hour(A.ts)").count(table) == 0
    assert query.define(B="hour(A.ts) = 23 AND hour(ts) = 0").count(table) == 1


@pytest.mark.parametrize(
    "kind", [pa.duration("us"), pa.time64("us"), pa.date64(), pa.large_binary(), pa.uint64()]
)
def test_spilled_runs_of_any_type_of_key(kind: pa.DataType) -> None:
    values = np.random.default_rng(5).integers(0, 20, 2_000)
    if kind == pa.large_binary():
        keys = pa.array([str(v).encode() for v in values], kind)
    elif kind == pa.date64():
        keys = pa.array(values.astype(np.int64) * 86_400_000).cast(kind)
    elif kind == pa.uint64():
        keys = pa.array(values.astype(np.uint64) + np.uint64(2**63 - 10))
    else:
        keys = pa.array(values.astype(np.int64)).cast(kind)
    table = pa.table({"k": keys, "t": range(2_000)})
    query = Query(parse_pattern("A"), partition_by=("k",), order_by=(OrderKey.of("t"),))
    events = sorting.sorted_events(table.to_batches(100), table.schema, query, memory=4_000)
    assert sum(int(e.complete.sum()) for e in events) == 20
    assert len(arrange(table, ("k",), query.order_by)[1]) == 21


def test_state_of_another_query_is_refused() -> None:
    table = pa.table({"t": [1, 2], "x": [1, 2]})

    def opened(limit: int, state: Any = None) -> RowsEvaluator:
        query = ensue.pattern("A+ B").define(A=f"x < {limit}", B=f"x = {limit}").order_by("t")
        planned = plan(bind(query.query, table.column_names))
        evaluator = RowsEvaluator()
        ready = local.prepare(planned, table)
        evaluator.open(planned, ready.schema, state=state)
        events = Events(ready, np.array([0, 2], np.int64), np.array([False]))
        list(evaluator.insert(events).tables())
        return evaluator

    state = opened(9).snapshot()
    opened(9, state)
    with pytest.raises(errors.StateError, match="another query"):
        opened(4, state)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: PAIR.order_by(1), errors.QueryError),
        (lambda: PAIR.partition_by(["a", 1]), errors.QueryError),
        (lambda: PAIR.after_match(5), errors.QueryError),
        (lambda: PAIR.rows_per_match(5), errors.QueryError),
        (lambda: ensue.pattern(5), errors.QueryError),
        (lambda: PAIR.within(float("inf")), errors.LimitError),
        (lambda: PAIR.within(2**70), errors.LimitError),
        (lambda: PAIR.within("99999999999999999999 rows"), errors.LimitError),
        (lambda: PAIR.define(B="LAST(t, 99999999999999999999) > 1").query, errors.NavigationError),
        (lambda: PAIR.measures(m="MATCH_NUMBER(1)").query, errors.NavigationError),
        (lambda: PAIR.partition_by("s", "S").query, errors.DuplicateNameError),
        (
            lambda: PAIR.matches(pa.table([[1], [2], [3]], names=["t", "x", "x"])),
            errors.DuplicateNameError,
        ),
        (
            lambda: PAIR.matches(pd.DataFrame([[1, 2, 3]], columns=["t", "x", "x"])),
            errors.UnsupportedInputError,
        ),
        (
            lambda: PAIR.matches(pd.DataFrame({"t": [1, 2], "x": [1, "a"]})),
            errors.UnsupportedInputError,
        ),
        (
            lambda: PAIR.partition_by("s").matches(pa.table({"t": [1], "s": [{"a": 1}]})),
            errors.ColumnTypeError,
        ),
    ],
)
def test_mistakes_have_names(build: Any, error: type[errors.EnsueError]) -> None:
    with pytest.raises(error) as raised:
        build()
    assert raised.value.remedy


def test_an_order_column_said_twice_is_harmless() -> None:
    query = PAIR.order_by("t", "t DESC").rows_per_match("all rows")
    assert query.matches(pa.table({"t": [2, 1], "x": [0, 0]}))["t"].to_pylist() == [1, 2]


def test_polars_types() -> None:
    frame = pl.DataFrame(
        {
            "t": [1, 2],
            "tags": [["a", "b"], []],
            "raw": [b"x", b"y"],
            "kind": pl.Series(["u", "v"], dtype=pl.Categorical),
        }
    )
    query = ensue.pattern("A B").define(A="kind = 'u'").order_by("t").rows_per_match("all rows")
    found = query.measures(label="CLASSIFIER()").matches(frame)
    assert found["label"].to_list() == ["A", "B"]
    assert found["tags"].to_list() == [["a", "b"], []]


def test_many_keys_in_the_python_tier_are_not_quadratic() -> None:
    table = pa.table(
        {"k": np.repeat(np.arange(3_000), 4), "t": range(12_000), "s": ["a", "b"] * 6_000}
    )
    query = ensue.pattern("A B").define(B="upper(A.s) <> upper(s)").partition_by("k").order_by("t")
    assert query.count(table) == 6_000
