"""Every type that a table can hold, as key, order, condition and measure: an answer, or an error.

The answer for an encoded column is that of its values, whichever way the events come.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ensue
from ensue import errors

TEXTS = ["a", "b", "a", None, "b", "a"]
PLAIN = pa.array(TEXTS)
ENCODED: dict[str, pa.Array] = {
    "dictionary": PLAIN.dictionary_encode(),
    "dictionary of large strings": PLAIN.cast(pa.large_string()).dictionary_encode(),
    "string view": PLAIN.cast(pa.string_view()),
    "large string": PLAIN.cast(pa.large_string()),
    "runs": pc.run_end_encode(PLAIN),
    "dictionary with a null": pa.DictionaryArray.from_arrays(
        [0, 1, 0, 2, 3, 0], ["a", "b", None, "b"]
    ),
    "extension": pa.array(["1", "2", "1", None, "2", "1"], pa.json_(pa.string())),
}
LETTERS = PLAIN.dictionary_encode()
OTHERS: dict[str, pa.Array] = {
    "list of a dictionary": pa.ListArray.from_arrays([0, 1, 2, 3, 4, 5, 6], LETTERS),
    "list view": pa.array([[1], [2], [1], None, [], [1]], pa.list_view(pa.int64())),
    "struct of a dictionary": pa.StructArray.from_arrays([LETTERS], ["f"]),
    "struct of nothing": pa.array([{}] * 6, pa.struct([])),
    "dictionary of structs": pa.DictionaryArray.from_arrays([0, 1, 0, None, 1, 0], [{"a": 1}, {}]),
    "decimal32": pa.array([Decimal("1.5")] * 5 + [None], pa.decimal32(5, 2)),
    "decimal64": pa.array([Decimal("1.5")] * 5 + [None], pa.decimal64(12, 2)),
    "hundreds": pa.array([Decimal(1500)] * 5 + [None], pa.decimal128(10, -2)),
    "null": pa.nulls(6),
    "bool": pa.array([True, False, True, None, False, True]),
    "int8": pa.array([1, 2, 1, None, 2, 1], pa.int8()),
    "uint64": pa.array([1, 2, 2**64 - 1, None, 2, 1], pa.uint64()),
    "half": pa.array(np.array([1, 2, 1, 0, 2, 1], np.float16)),
    "double": pa.array([1.0, float("nan"), -0.0, None, 0.0, 1.0]),
    "decimal": pa.array([Decimal("1.5")] * 5 + [None], pa.decimal128(10, 2)),
    "decimal256": pa.array([Decimal("1.5")] * 5 + [None], pa.decimal256(50, 2)),
    "date": pa.array([date(2020, 1, 1)] * 5 + [None]),
    "date64": pa.array([date(2020, 1, 1)] * 5 + [None], pa.date64()),
    "time": pa.array([1, 2, 3, None, 2, 1], pa.time64("ns")),
    "timestamp ns": pa.array([datetime(2020, 1, 1)] * 5 + [None], pa.timestamp("ns")),
    "duration": pa.array([timedelta(1)] * 5 + [None]),
    "interval": pa.array([(1, 2, 3)] * 5 + [None], pa.month_day_nano_interval()),
    "binary": pa.array([b"a", b"b", b"a", None, b"b", b"a"]),
    "binary view": pa.array([b"a", b"b", b"a", None, b"b", b"a"], pa.binary_view()),
    "fixed binary": pa.array([b"a", b"b", b"a", None, b"b", b"a"], pa.binary(1)),
    "list": pa.array([[1], [2], [1], None, [], [1]]),
    "large list": pa.array([[1], [2], [1], None, [], [1]], pa.large_list(pa.int64())),
    "fixed list": pa.array([[1], [2], [1], None, [2], [1]], pa.list_(pa.int64(), 1)),
    "struct": pa.array([{"a": 1}, {"a": 2}, {"a": 1}, None, {"a": 2}, {"a": 1}]),
    "map": pa.array([[("a", 1)]] * 5 + [None], pa.map_(pa.string(), pa.int64())),
    "union": pa.UnionArray.from_sparse(
        pa.array([0] * 6, pa.int8()), [pa.array([1, 2, 1, 3, 2, 1])]
    ),
}


def table(column: pa.Array) -> pa.Table:
    return pa.table({"t": pa.array(range(len(column))), "v": column})


ASKED: dict[str, Any] = {
    "key": ensue.pattern("A B").partition_by("v").order_by("t"),
    "order": ensue.pattern("A B").order_by("v", "t"),
    "condition": ensue.pattern("A B").define(A="v IS NOT NULL", B="v = A.v").order_by("t"),
    "kept": ensue.pattern("A ->> B").define(B="v = A.v").order_by("t").measures(x="A.v", y="B.t"),
    "measure": ensue.pattern("A B").order_by("t").measures(x="FIRST(v)", n="COUNT(v)"),
    "key of events": ensue.pattern("A ->> B").partition_by("v").order_by("t"),
    "order of events": ensue.pattern("A ->> B").order_by("v", "t"),
}


def ways(query: Any, rows: pa.Table) -> list[Any]:
    """The matches of the rows at once and as they come; or the name of the error."""
    try:
        at_once: Any = query.matches(rows).to_pylist()
    except errors.EnsueError as problem:
        at_once = type(problem).__name__
    try:
        matcher = query.matcher()
        changes = pa.concat_tables([matcher.insert(rows), matcher.end()]).num_rows
    except errors.EnsueError as problem:
        changes = type(problem).__name__
    return [at_once, changes]


@pytest.mark.parametrize("place", ASKED)
def test_encoded_columns_mean_their_values(place: str) -> None:
    for name, column in ENCODED.items():
        plain = pa.array(["1", "2", "1", None, "2", "1"]) if name == "extension" else PLAIN
        assert ways(ASKED[place], table(column)) == ways(ASKED[place], table(plain)), name


@pytest.mark.parametrize("place", ASKED)
def test_every_other_type_gives_an_answer_or_an_error_of_ensue(place: str) -> None:
    for name, column in OTHERS.items():
        given = column.slice(0, 3) if place.startswith("order") else column
        at_once, changes = ways(ASKED[place], table(given))
        rejected = (
            place.startswith("order") and given.null_count
        )  # a matcher rejects events without a time
        if isinstance(at_once, list) and isinstance(changes, int) and not rejected:
            assert len(at_once) == changes, name


@pytest.mark.parametrize("place", ASKED)
def test_categories_of_pandas_and_polars(place: str) -> None:
    want = ways(ASKED[place], table(PLAIN))
    frames = [
        pd.DataFrame({"t": range(6), "v": pd.Categorical(TEXTS)}),
        pl.DataFrame({"t": range(6), "v": pl.Series(TEXTS, dtype=pl.Categorical)}),
        pl.DataFrame({"t": range(6), "v": pl.Series(TEXTS, dtype=pl.Enum(["a", "b"]))}),
    ]
    for frame in frames:
        found = ASKED[place].matches(frame)
        rows = found.to_dicts() if isinstance(found, pl.DataFrame) else found.to_dict("records")
        assert len(rows) == len(want[0])
    periods = pd.DataFrame({"t": range(3), "v": pd.period_range("2020-01", periods=3, freq="M")})
    sparse = pd.DataFrame({"t": range(3), "v": pd.arrays.SparseArray([0, 0, 1])})
    wide = pl.DataFrame({"t": range(3), "v": pl.Series([1, 2, 2], dtype=pl.Int128)})
    spans = pd.DataFrame({"t": range(3), "v": pd.interval_range(0, 3)})
    for frame in (periods, sparse, wide, spans):
        try:
            ASKED[place].matches(frame)
        except errors.EnsueError:
            continue


@pytest.mark.parametrize("name", ENCODED)
def test_summaries_and_workloads_read_encoded_columns(name: str) -> None:
    rows, query = table(ENCODED[name]), ASKED["key of events"]
    summary = query.summarize(size=100)
    counts = [told["count"] for told in summary.insert(rows).result().values()]
    assert sum(counts) == query.count(rows)
    both = ensue.workload(one=query, two=ASKED["order of events"])
    with pytest.raises(errors.ColumnTypeError, match="of one name and different types"):
        both.matches(rows)  # `first` is a number and a text


def test_bytes_that_are_no_text_are_refused_by_name() -> None:
    whole = pa.array([b"a", b"\xff", b"a"])
    rows = table(pa.StringArray.from_buffers(3, *whole.buffers()[1:], whole.buffers()[0]))
    query = ASKED["key of events"]
    for take in (query.matches, query.matcher().insert, query.summarize(size=9).insert):
        with pytest.raises(errors.DataError, match="the column 'v' holds bytes that are not UTF-8"):
            take(rows)


def test_shapes_of_tables() -> None:
    pattern = ensue.pattern("A B").order_by("t")
    twice = pa.Table.from_arrays([pa.array([1, 2])] * 2, names=["t", "t"])
    with pytest.raises(errors.DuplicateNameError, match="'t'"):
        pattern.matches(twice)
    assert pattern.matches(table(PLAIN).slice(0, 0)).num_rows == 0
    star = pa.table({"t": [1, 2], "*": [1, 2]})
    assert pattern.matches(star).num_rows == 1
    wide = pa.table({"t": [1, 2], **{f"c{i}": [1, 2] for i in range(3_000)}})
    assert pattern.partition_by("c7").matches(wide).num_rows == 0
