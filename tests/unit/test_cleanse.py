"""Cleanse lets events through in order, and knows copies, corrections and mistakes apart."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue import errors
from ensue.operator import buffer, cleanse
from ensue.operator.buffer import AT, EVENT, Buffer
from ensue.operator.cleanse import Cleanse
from ensue.operator.clock import HIGHEST, LOWEST, Clock
from ensue.query.query import OrderKey

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64())])


def cleansed(sigma: Any = 0, **options: Any) -> Cleanse:
    return Cleanse(SCHEMA, ["k"], [OrderKey.of("t")], sigma, **options)


def table(*rows: tuple[Any, ...]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table([list(column) for column in columns], schema=SCHEMA)


def shown(events: Any) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in SCHEMA.names) for row in events.table.to_pylist()]


def reasons(found: cleanse.Released) -> list[str]:
    return list(found.rejected.column("reason").to_pylist())


def test_at_sigma_0_events_wait_for_the_watermark_and_come_in_order() -> None:
    stage = cleansed()
    assert shown(stage.insert(table(("a", 5, 1), ("b", 1, 2), ("a", 3, 3))).events) == []
    assert shown(stage.advance(4).events) == [("b", 1, 2), ("a", 3, 3)]
    assert shown(stage.insert(table(("a", 4, 4))).events) == []
    found = stage.advance(6).events
    assert shown(found) == [("a", 4, 4), ("a", 5, 1)]
    assert found.starts.tolist() == [0, 2]
    assert not found.complete.any()


def test_sigma_lets_through_what_is_before_the_watermark_and_sigma() -> None:
    stage = cleansed(3)
    stage.insert(table(("a", 5, 1), ("a", 9, 2)))
    assert shown(stage.advance(2).events) == []
    assert shown(stage.advance(3).events) == [("a", 5, 1)]
    assert shown(stage.insert(table(("a", 4, 3), ("a", 6, 4))).events) == [("a", 4, 3)]
    assert shown(stage.advance(7).events) == [("a", 6, 4), ("a", 9, 2)]


def test_at_sigma_infinity_everything_passes_at_once() -> None:
    stage = cleansed(math.inf)
    assert shown(stage.insert(table(("a", 5, 1), ("a", 2, 2))).events) == [("a", 2, 2), ("a", 5, 1)]
    assert len(stage) == 0
    assert stage.remembered == 2
    stage.advance(5)
    assert stage.remembered == 1


def test_late_events_are_returned_and_counted() -> None:
    stage = cleansed()
    stage.advance(10)
    found = stage.insert(table(("a", 9, 1), ("a", 10, 2)))
    assert found.late.to_pylist() == [{"k": "a", "t": 9, "x": 1}]
    assert stage.counts.late == 1
    assert shown(stage.end()) == [("a", 10, 2)]


def test_the_watermark_follows_at_a_delay_and_never_goes_back() -> None:
    stage = cleansed(0, delay=2)
    assert shown(stage.insert(table(("a", 1, 1), ("a", 5, 2))).events) == [("a", 1, 1)]
    assert stage.watermark == 3
    stage.advance(1)
    assert stage.watermark == 3


def test_a_null_or_wrong_time_is_rejected_with_its_reason() -> None:
    stage = cleansed()
    found = stage.insert(pa.table({"k": ["a", "a", "a"], "t": ["1", "soon", None], "x": [1, 2, 3]}))
    assert reasons(found) == [
        "the event time 'soon' is not of type int64",
        "the event time is null",
    ]
    assert stage.counts.rejected == 2
    assert shown(stage.end()) == [("a", 1, 1)]


def test_retractions_and_what_is_wrong_with_them() -> None:
    stage = cleansed()
    stage.insert(table(("a", 1, 1), ("a", 5, 2), ("a", 6, 3)))
    assert stage.retract(table(("a", 5, 2))).rejected.num_rows == 0
    stage.advance(3)
    found = stage.retract(table(("a", 1, 1), ("a", 5, 2), ("a", 7, 7), ("a", 6, 3), ("a", 6, 3)))
    assert sorted(reasons(found)) == sorted(
        [cleanse.FINAL, cleanse.TWICE, cleanse.NEVER_SEEN, cleanse.TWICE]
    )
    assert shown(stage.end()) == []
    assert stage.counts.retracted == 2


def test_what_was_let_through_is_withdrawn_downstream() -> None:
    stage = cleansed(math.inf)
    stage.insert(table(("a", 1, 1), ("b", 2, 2)))
    assert shown(stage.retract(table(("b", 2, 2))).withdrawn) == [("b", 2, 2)]
    assert shown(stage.insert(table(("b", 2, 2))).events) == [("b", 2, 2)]


def test_rows_equal_in_everything_are_that_many_events() -> None:
    stage = cleansed(math.inf)
    first = stage.insert(table(("a", 1, 1), ("a", 1, 1))).events.table.column(EVENT).to_pylist()
    third = stage.insert(table(("a", 1, 1))).events.table.column(EVENT).to_pylist()
    assert len({*first, *third}) == 3
    gone = stage.retract(table(("a", 1, 1))).withdrawn.table.column(EVENT).to_pylist()
    assert gone == third
    assert stage.retract(table(("a", 1, 1), ("a", 1, 1))).rejected.num_rows == 0
    assert reasons(stage.retract(table(("a", 1, 1)))) == [cleanse.TWICE]


def test_with_an_identity_copies_are_ignored_and_other_values_refused() -> None:
    stage = cleansed(math.inf, identity="x")
    assert len(shown(stage.insert(table(("a", 1, 1), ("a", 1, 1), ("b", 1, 1))).events)) == 2
    found = stage.insert(table(("a", 1, 1), ("a", 4, 1), ("a", 5, None)))
    assert shown(found.events) == []
    assert sorted(reasons(found)) == sorted([cleanse.OTHER_VALUES, cleanse.NO_ID])
    assert stage.counts.duplicates == 2
    by_name = pa.table({"k": ["a"], "x": [1]})
    assert shown(stage.retract(by_name).withdrawn) == [("a", 1, 1)]
    assert shown(stage.insert(table(("a", 4, 1))).events) == [("a", 4, 1)]


def test_equal_times_never_depend_on_arrival() -> None:
    rows = [("a", 1, x) for x in range(6)] + [("a", 1, 3)]
    orders = set()
    for seed in range(10):
        random.Random(seed).shuffle(rows)
        stage = cleansed()
        for begin, end in pairwise([0, 2, 3, 7]):
            stage.insert(table(*rows[begin:end]))
        orders.add(tuple(shown(stage.advance(2).events)))
    assert len(orders) == 1


def test_a_tie_breaker_comes_before_the_content() -> None:
    stage = Cleanse(SCHEMA, ["k"], [OrderKey.of("t"), OrderKey.of("x", descending=True)])
    stage.insert(table(("a", 1, 1), ("a", 1, 3), ("a", 1, 2)))
    assert shown(stage.advance(2).events) == [("a", 1, 3), ("a", 1, 2), ("a", 1, 1)]


@pytest.mark.parametrize("by_key", [True, False])
def test_state_goes_through_bytes(by_key: bool) -> None:
    stage = cleansed(2)
    stage.insert(table(("a", 1, 1), (None, 8, 2), ("b", 9, 3), ("a", 5, 4)))
    stage.advance(4)
    stage.retract(table(("b", 9, 3)))
    other = cleansed(2)
    other.restore(stage.snapshot() if by_key else stage.to_bytes())
    assert (other.watermark, other.newest, other.counts) == (4, 9, stage.counts)
    assert reasons(other.retract(table(("b", 9, 3)))) == [cleanse.TWICE]
    assert shown(other.retract(table(("a", 5, 4))).withdrawn) == [("a", 5, 4)]
    assert shown(other.end()) == [(None, 8, 2)]


def test_only_touched_keys_are_in_a_snapshot() -> None:
    stage = cleansed()
    stage.insert(table(("a", 1, 1), ("b", 2, 2)))
    assert set(stage.snapshot([("a",), ("z",)]).keys) == {("a",)}
    assert set(stage.snapshot().keys) == {("a",), ("b",)}


def test_state_of_another_stream_is_refused() -> None:
    other = Cleanse(SCHEMA, ["k"], [OrderKey.of("x")])
    with pytest.raises(errors.StateError, match="another query"):
        other.restore(cleansed().to_bytes())


@pytest.mark.parametrize(
    ("order", "said"),
    [([], "there is no order_by"), ([OrderKey.of("t", descending=True)], "is ordered descending")],
)
def test_a_stream_needs_an_event_time(order: list[OrderKey], said: str) -> None:
    with pytest.raises(errors.QueryError, match=said):
        Cleanse(SCHEMA, ["k"], order)


def test_columns_that_do_not_fit_are_refused_before_anything_is_taken() -> None:
    stage = cleansed()
    with pytest.raises(errors.UnknownColumnError, match="no column 'x'"):
        stage.insert(pa.table({"k": ["a"], "t": [1]}))
    with pytest.raises(errors.ColumnTypeError, match="'x' of type string does not fit"):
        stage.insert(pa.table({"k": ["a"], "t": [1], "x": ["many"]}))
    assert len(stage) == 0


@pytest.mark.parametrize("sigma", [-1, "1 s", True, math.nan, None])
def test_a_speculation_that_does_not_fit_is_refused(sigma: Any) -> None:
    with pytest.raises(errors.QueryError, match="speculation="):
        cleansed(sigma)


def test_a_text_cannot_be_the_event_time() -> None:
    with pytest.raises(errors.ColumnTypeError, match="cannot be the event time"):
        Cleanse(SCHEMA, [], [OrderKey.of("k")])


TIMES: list[tuple[pa.DataType, list[Any], Any, Any]] = [
    (pa.int32(), [-5, 0, 7], 2, 9),
    (pa.uint64(), [0, 7, 2**63 - 3], 1, 2**63 - 2),
    (pa.float64(), [-1.5, 0.0, 2.25], 0.5, 2.75),
    (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.25")], Decimal("0.5"), Decimal("0.75")),
    (pa.date32(), [dt.date(1969, 1, 1), dt.date(2024, 2, 28)], "1 day", dt.date(2024, 2, 29)),
    (pa.timestamp("ms"), [dt.datetime(2024, 1, 1)], "999500 us", dt.datetime(2024, 1, 1, 0, 0, 1)),
    (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
        "1 hour",
        dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "step", "after"), TIMES, ids=lambda v: str(v)[:20])
def test_clocks_tell_the_time_again(
    kind: pa.DataType, values: list[Any], step: Any, after: Any
) -> None:
    clock = Clock("t", kind)
    codes = clock.codes(pa.array(values, kind))
    assert codes.tolist() == sorted(codes.tolist())
    assert [clock.time(code) for code in codes.tolist()] == values
    assert [clock.code(value) for value in values] == codes.tolist()
    assert clock.time(clock.later(int(codes[-1]), clock.amount(step, "step"))) == after
    assert clock.later(LOWEST, 5) == LOWEST
    assert clock.later(int(codes[0]), math.inf) == HIGHEST


def test_a_clock_reads_text_and_refuses_what_is_no_time() -> None:
    clock = Clock("ts", pa.timestamp("us"))
    assert clock.time(clock.code("2024-01-01 10:00:00")) == dt.datetime(2024, 1, 1, 10)
    for wrong in ("soon", None, True, object()):
        with pytest.raises(errors.ColumnTypeError, match="is not a time of the column"):
            clock.code(wrong)


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.uint64(), 2**63), (pa.decimal128(38, 0), Decimal(2**64))]
)
def test_times_beyond_64_bits_are_refused(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(errors.ColumnTypeError, match="beyond 64 bits"):
        Clock("t", kind).codes(pa.array([value], kind))


def test_a_buffer_finds_and_takes_rows_over_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "CHUNK_ROWS", 8)
    chooser = random.Random(1)
    schema = pa.schema([(name, pa.int64()) for name in buffer.HIDDEN])
    held, model = Buffer(schema), []
    for _ in range(60):
        rows = [chooser.randrange(40) for _ in range(chooser.randrange(4))]
        model += rows
        held.add(pa.table([rows] * 4, schema=schema))
        wanted = np.array([chooser.randrange(40) for _ in range(2)])
        assert held.count(EVENT, wanted).tolist() == [model.count(v) for v in wanted.tolist()]
        if chooser.random() < 0.3:
            taken = held.remove(EVENT, wanted)
            assert sorted(taken[AT].to_pylist()) == sorted(v for v in model if v in wanted)
            model = [v for v in model if v not in wanted]
        if chooser.random() < 0.1:
            taken = held.take_below(7)
            assert sorted(taken[AT].to_pylist()) == sorted(v for v in model if v < 7)
            model = [v for v in model if v >= 7]
        assert len(held) == len(model)
        assert sorted(held.from_time(5, 20)[AT].to_pylist()) == sorted(
            v for v in model if 5 <= v < 20
        )
