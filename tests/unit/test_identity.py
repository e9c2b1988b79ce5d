"""Names of events and matches: equal for equal values, stable, and apart for all else."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue.operator.identity import as_short_text, as_text, column_hashes, pair_sums, row_hashes

COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, 1, -1, 2**62, None]),
    (pa.uint64(), [0, 1, 2**64 - 1, None]),
    (pa.float64(), [0.0, 1.5, math.inf, math.nan, None]),
    (pa.bool_(), [True, False, None]),
    (pa.string(), ["", "a", "b", "ab", "é", None]),
    (pa.large_string(), ["", "a", None]),
    (pa.binary(), [b"", b"\0", b"\0\0", None]),
    (pa.dictionary(pa.int32(), pa.string()), ["x", "y", None]),
    (pa.decimal128(20, 2), [Decimal("0.01"), Decimal("-0.01"), Decimal("1e15"), None]),
    (pa.date32(), [dt.date(1970, 1, 1), dt.date(1970, 1, 2), None]),
    (pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None]),
    (pa.time64("us"), [dt.time(0), dt.time(1), None]),
    (pa.list_(pa.int64()), [[], [1], [1, 1], [1, 2], [2, 1], [None], None]),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": 1}, None]),
    (pa.map_(pa.string(), pa.int64()), [[("k", 1)], [("k", 2)], None]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), COLUMNS, ids=lambda v: str(v)[:30])
def test_values_have_names_of_their_own(kind: pa.DataType, values: list[Any]) -> None:
    column = pa.array([*values, *values], kind)
    hashes = column_hashes(column).tolist()
    assert hashes[: len(values)] == hashes[len(values) :]
    assert len(set(hashes)) == len(values)
    assert column_hashes(column.slice(1, len(values))).tolist() == hashes[1 : len(values) + 1]


def test_zeros_are_one_and_the_order_of_columns_does_not_matter() -> None:
    assert len(set(column_hashes(pa.array([0.0, -0.0])).tolist())) == 1
    assert column_hashes(pa.array([5], pa.int8())) == column_hashes(pa.array([5], pa.int64()))
    table = pa.table({"a": [1, 2], "b": [2, 1]})
    both = row_hashes(table, ["a", "b"])
    assert both.tolist() == row_hashes(table, ["b", "a"]).tolist()
    assert both[0] != both[1]


def test_names_stay_what_they_are() -> None:
    """Sinks store them: a change here is a change for users."""
    table = pa.table({"a": [1], "b": ["x"], "c": [[1, 2]]})
    assert as_short_text(row_hashes(table, ["a", "b", "c"])).to_pylist() == ["f2bf38202a7515f3"]


def test_a_match_is_named_by_its_pairs_in_any_order() -> None:
    events = np.array([11, 22, 33, 22, 11, 11, 22], np.uint64)
    labels = np.array([0, 1, 1, 1, 0, 1, 0], np.int64)
    offsets = np.array([0, 2, 3, 5, 7, 7], np.int64)
    first, second, third, fourth, empty = pair_sums(labels, events, offsets, np.uint64(9)).tolist()
    assert first == third
    assert len({first, second, fourth, empty}) == 4


def test_digits() -> None:
    high, low = np.array([1, 2**64 - 1], np.uint64), np.array([255, 0], np.uint64)
    assert as_text(high, low).to_pylist() == ["0" * 15 + "1" + "0" * 14 + "ff", "f" * 16 + "0" * 16]
    assert as_text(high[:0], low[:0]).to_pylist() == []
