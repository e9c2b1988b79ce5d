"""Laws that every aggregate keeps.

`names()` finds the aggregates, so that a new one is checked as soon as it is listed.
"""

from __future__ import annotations

import copy
import datetime as dt
import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue import aggregate, errors
from ensue.aggregate import Aggregate
from tests.share import examples

ALL = {
    str(function): function
    for name in aggregate.names()
    for function in (aggregate.get(name), aggregate.get(name, distinct=True))
}
each = pytest.mark.parametrize("function", ALL.values(), ids=ALL.keys())
thorough = settings(max_examples=examples(100), deadline=None)

INT64 = st.integers(-(2**63), 2**63 - 1)
# Sums of these are exact in any order, so that the laws of states hold for them too.
EXACT_FLOATS = st.one_of(
    st.integers(-64, 64).map(lambda n: n / 4), st.sampled_from([math.nan, math.inf, -math.inf])
)


def integers(bits: int) -> st.SearchStrategy[int]:
    """Mostly small, so that sums fit; the ends of the range have tests of their own."""
    return st.integers(max(-100, -(2 ** (bits - 1))), min(100, 2 ** (bits - 1) - 1))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10 ** min(precision, 30)
    return st.integers(-most + 1, most - 1).map(lambda n: Decimal(n).scaleb(-scale))


TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), integers(8)),
    (pa.int32(), integers(32)),
    (pa.int64(), integers(64)),
    (pa.int64(), st.integers(-(2**61), 2**61)),
    (pa.uint8(), st.integers(0, 255)),
    (pa.uint64(), st.integers(0, 2**58)),
    (pa.float32(), EXACT_FLOATS),
    (pa.float64(), st.floats()),
    (pa.float64(), EXACT_FLOATS),
    (pa.decimal128(5, 2), decimals(5, 2)),
    (pa.decimal128(18, 0), decimals(18, 0)),
    (pa.decimal128(38, 10), decimals(38, 10)),
    (pa.decimal256(40, 3), decimals(30, 3)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=3)),
    (pa.large_string(), st.sampled_from(["a", "b", "é", "\U0001f600", "\uffff"])),
    (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["x", "y", "z"])),
    (pa.binary(), st.binary(max_size=2)),
    (pa.date32(), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    (pa.timestamp("us"), st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))),
    (
        pa.timestamp("us", "UTC"),
        st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)).map(
            lambda moment: moment.replace(tzinfo=dt.UTC)
        ),
    ),
    (
        pa.duration("us"),
        st.timedeltas(dt.timedelta(days=-9999), dt.timedelta(days=9999)),
    ),
    (pa.list_(pa.int64()), st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=3)),
    (
        pa.struct([("n", pa.float64()), ("s", pa.string())]),
        st.fixed_dictionaries(
            {
                "n": st.one_of(st.none(), st.sampled_from([0.0, 1.5, math.nan])),
                "s": st.one_of(st.none(), st.sampled_from(["a", "b"])),
            }
        ),
    ),
    (pa.map_(pa.string(), pa.int32()), st.lists(st.tuples(st.just("k"), integers(8)), max_size=1)),
    (pa.null(), st.none()),
]


def canonical(value: Any) -> Any:
    """The value with NaN made equal to itself."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if isinstance(value, dict):
        return {repr(key): canonical(item) for key, item in value.items()}
    return value


def accepts(function: Aggregate, types: Sequence[pa.DataType]) -> bool:
    try:
        function.result_type(types)
    except errors.ColumnTypeError:
        return False
    return True


@cache
def argument_lists(function: Aggregate) -> list[list[tuple[pa.DataType, Any]]]:
    """Types that the function takes: each alone, and each beside a fixed second argument."""
    singles = [[kind] for kind in TYPES]
    pairs = [[kind, TYPES[2]] for kind in TYPES] + [[TYPES[2], kind] for kind in TYPES]
    found = [
        arguments
        for arguments in [[], *singles, *pairs, *([*pair, TYPES[2]] for pair in pairs)]
        if len(arguments) in function.arity and accepts(function, [kind for kind, _ in arguments])
    ]
    assert found
    return found


@st.composite
def tables(
    draw: Callable[..., Any], function: Aggregate, usable: Callable[..., bool] = lambda a: True
) -> tuple[list[pa.DataType], list[tuple[Any, ...]], list[int]]:
    """(types, rows, offsets of segments, some of them empty)."""
    arguments = draw(st.sampled_from([a for a in argument_lists(function) if usable(a)]))
    sizes = draw(st.lists(st.integers(0, 6), max_size=5))
    offsets = [0, *itertools.accumulate(sizes)]
    row = st.tuples(*(st.one_of(st.none(), values, values, values) for _, values in arguments))
    rows = draw(st.lists(row, min_size=offsets[-1], max_size=offsets[-1]))
    return [kind for kind, _ in arguments], rows, offsets


def columns(types: list[pa.DataType], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    found = []
    for index, kind in enumerate(types):
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        column = pa.array([row[index] for row in rows], type=plain)
        found.append(column.dictionary_encode() if pa.types.is_dictionary(kind) else column)
    return found


def seen(types: list[pa.DataType], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows as the columns hold them (float32 rounds, for one)."""
    if not types:
        return rows
    return list(zip(*(column.to_pylist() for column in columns(types, rows)), strict=True))


def state_of(function: Aggregate, rows: Sequence[tuple[Any, ...]]) -> Any:
    return reduce(lambda state, row: function.absorb(state, *row), rows, function.identity())


def to_result(function: Aggregate, types: list[pa.DataType], results: list[Any]) -> list[Any]:
    return canonical(function.column(results, function.result_type(types)).to_pylist())


@each
@thorough
@given(data=st.data())
def test_columns_agree_with_the_fold(function: Aggregate, data: st.DataObject) -> None:
    types, rows, offsets = data.draw(tables(function))
    given_columns, starts = columns(types, rows), np.array(offsets, np.int64)
    rows = seen(types, rows)
    segments = [rows[begin:end] for begin, end in itertools.pairwise(offsets)]
    prefixes = [segment[: n + 1] for segment in segments for n in range(len(segment))]

    reduced = function.reduce(given_columns, starts)
    running = function.scan(given_columns, starts)

    assert reduced.type == running.type == function.result_type(types)
    reduced.validate(full=True)
    running.validate(full=True)
    for result, parts in ((reduced, segments), (running, prefixes)):
        finished = [function.finish(state_of(function, part)) for part in parts]
        assert canonical(result.to_pylist()) == to_result(function, types, finished)
    last = [running[end - 1].as_py() for begin, end in itertools.pairwise(offsets) if end > begin]
    assert canonical(last) == [
        canonical(result.as_py())
        for result, segment in zip(reduced, segments, strict=True)
        if segment
    ]


@each
@thorough
@given(data=st.data(), before=st.integers(0, 9), after=st.integers(0, 9))
def test_slices_and_inner_offsets(
    function: Aggregate, data: st.DataObject, before: int, after: int
) -> None:
    types, rows, offsets = data.draw(tables(function, lambda a: len(a) > 0))
    padding = [(None,) * len(types)]
    alone, starts = columns(types, rows), np.array(offsets, np.int64)
    padded = columns(types, padding * before + rows + padding * after)
    sliced = [column.slice(before) for column in padded]
    for method in (function.reduce, function.scan):
        expected = canonical(method(alone, starts).to_pylist())
        assert canonical(method(padded, starts + before).to_pylist()) == expected
        assert canonical(method(sliced, starts).to_pylist()) == expected


@pytest.mark.parametrize("name", ["count", "sum", "avg", "min", "max"])
@thorough
@given(data=st.data())
def test_small_states_are_shared_and_compared(name: str, data: st.DataObject) -> None:
    """Partial matches that split keep one state, and those of equal state are one."""
    function = aggregate.get(name)
    plain = tables(function, lambda a: not any(pa.types.is_nested(kind) for kind, _ in a))
    types, rows, _ = data.draw(plain)
    state = function.identity()
    for row in seen(types, rows):
        before = copy.deepcopy(state)
        after = function.absorb(state, *row)
        assert canonical(before) == canonical(state)
        assert hash(after) == hash(copy.copy(after))
        state = after


@each
def test_no_rows(function: Aggregate) -> None:
    empty = {"count": 0, "array_agg": [], "collect_set": []}.get(function.name)
    assert function.finish(function.identity()) == empty
    kinds = next(
        [kind for kind, _ in arguments]
        for arguments in argument_lists(function)
        if len(arguments) >= 1
    )
    none = columns(kinds, [])
    assert function.reduce(none, np.array([0, 0, 0])).to_pylist() == [empty, empty]
    assert function.reduce(none, np.array([0])).to_pylist() == []
    assert function.scan(none, np.array([0, 0])).to_pylist() == []


@each
def test_refusals(function: Aggregate) -> None:
    if function.arity.stop < 10:
        with pytest.raises(errors.ColumnTypeError, match=r"takes \d argument"):
            function.result_type([pa.int64()] * function.arity.stop)
    column = pa.array([True, False])
    arguments = [column] * max(1, function.arity.start)
    for offsets in ([], [1, 0], [-1, 2]):
        with pytest.raises(errors.DataError, match="never decrease"):
            function.reduce(arguments, np.array(offsets, np.int64))
    with pytest.raises(errors.DataError, match="the shortest column has 2 rows"):
        function.scan(arguments, np.array([0, 3]))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(errors.UnsupportedFunctionError, match="'median' is not an aggregate"):
        aggregate.get("median")
    assert aggregate.get("count", distinct=True) is not aggregate.get("count")
    assert aggregate.get("max", distinct=True) is aggregate.get("max")


# -- types, as Spark has them ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given_types", "expected"),
    [
        ("count", [], pa.int64()),
        ("count", [pa.string(), pa.int8()], pa.int64()),
        ("sum", [pa.int8()], pa.int64()),
        ("sum", [pa.int64()], pa.int64()),
        ("sum", [pa.float32()], pa.float64()),
        ("sum", [pa.decimal128(10, 2)], pa.decimal128(20, 2)),
        ("sum", [pa.decimal128(30, 2)], pa.decimal128(38, 2)),
        ("sum", [pa.duration("us")], pa.duration("us")),
        ("sum", [pa.null()], pa.float64()),
        ("avg", [pa.int64()], pa.float64()),
        ("avg", [pa.float32()], pa.float64()),
        ("avg", [pa.decimal128(10, 2)], pa.decimal128(14, 6)),
        ("avg", [pa.decimal128(38, 36)], pa.decimal128(38, 38)),
        ("min", [pa.date32()], pa.date32()),
        ("max", [pa.timestamp("us", "UTC")], pa.timestamp("us", "UTC")),
        ("max", [pa.dictionary(pa.int8(), pa.string())], pa.string()),
        ("array_agg", [pa.float32()], pa.list_(pa.float32())),
        ("collect_set", [pa.string()], pa.list_(pa.string())),
        ("max_by", [pa.string(), pa.int64()], pa.string()),
        ("min_by", [pa.date32(), pa.string()], pa.date32()),
        ("bool_and", [pa.bool_()], pa.bool_()),
        ("bool_or", [pa.null()], pa.bool_()),
    ],
)
def test_result_types(name: str, given_types: list[pa.DataType], expected: pa.DataType) -> None:
    assert aggregate.get(name).result_type(given_types) == expected


@pytest.mark.parametrize(
    ("name", "given_types", "message"),
    [
        ("sum", [pa.string()], "sum of string is not defined: it takes a whole number"),
        ("sum", [pa.bool_()], "sum of bool is not defined"),
        ("avg", [pa.date32()], "avg of date32"),
        ("min", [pa.map_(pa.string(), pa.int8())], "it takes a type with an order"),
        ("max_by", [pa.int8(), pa.map_(pa.string(), pa.int8())], "a second argument with an order"),
        ("collect_set", [pa.map_(pa.string(), pa.int8())], "it takes values that can be compared"),
        ("bool_or", [pa.int8()], "bool_or of int8 is not defined: it takes a boolean"),
        ("count_distinct", [], "is not an aggregate"),
    ],
)
def test_refused_types(name: str, given_types: list[pa.DataType], message: str) -> None:
    with pytest.raises(errors.EnsueError, match=message):
        aggregate.get(name).result_type(given_types)


# -- the ends of the range -------------------------------------------------------------------------

WHOLE = np.array([0, 3])
MOST = 2**63 - 1


@settings(max_examples=examples(300), deadline=None)
@given(values=st.lists(st.one_of(INT64, st.sampled_from([MOST, -MOST - 1, 1, -1])), max_size=8))
def test_integer_sums_are_exact_or_refused(values: list[int]) -> None:
    function, offsets = aggregate.get("sum"), np.array([0, len(values)])
    column = pa.array(values, pa.int64())
    total = sum(values)
    if -MOST - 1 <= total <= MOST:
        assert function.reduce([column], offsets).to_pylist() == [total if values else None]
    else:
        with pytest.raises(errors.OverflowDataError, match="sum left the range of its type int64"):
            function.reduce([column], offsets)
        with pytest.raises(errors.OverflowDataError, match="sum left the range of its type int64"):
            function.finish(state_of(function, [(value,) for value in values]))
    if all(-MOST - 1 <= part <= MOST for part in itertools.accumulate(values)):
        assert function.scan([column], offsets).to_pylist() == list(itertools.accumulate(values))
    else:
        with pytest.raises(errors.OverflowDataError, match="sum left the range"):
            function.scan([column], offsets)


@settings(max_examples=examples(300), deadline=None)
@given(
    values=st.lists(
        st.one_of(
            st.integers(-(10**38) + 1, 10**38 - 1),
            st.sampled_from([10**38 - 1, 1 - 10**38, 2**64, -(2**64), 2**64 - 1, 1, -1]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_decimal_sums_are_exact_or_refused(values: list[int]) -> None:
    function, offsets = aggregate.get("sum"), np.array([0, len(values)])
    column = pa.array([Decimal(value) for value in values], pa.decimal128(38, 0))
    total = sum(values)
    if abs(total) < 10**38:
        assert function.reduce([column], offsets).to_pylist() == [Decimal(total)]
    else:
        with pytest.raises(errors.OverflowDataError, match=r"sum left .* decimal128\(38, 0\)"):
            function.reduce([column], offsets)


def test_averages_of_totals_beyond_int64() -> None:
    column = pa.array([MOST, MOST, MOST])
    assert aggregate.get("avg").reduce([column], WHOLE).to_pylist() == [float(3 * MOST) / 3]


def test_averages_of_decimals_round_half_up() -> None:
    column = pa.array([Decimal("0.00"), Decimal("0.00"), Decimal("-0.01")], pa.decimal128(5, 2))
    assert aggregate.get("avg").reduce([column], WHOLE).to_pylist() == [Decimal("-0.003333")]
    half = pa.array([Decimal("1E-38"), Decimal("0E-38")], pa.decimal128(38, 38))
    assert aggregate.get("avg").reduce([half], np.array([0, 2])).to_pylist() == [Decimal("1E-38")]
    wide = pa.array([Decimal(10**38 - 1)], pa.decimal128(38, 0))
    with pytest.raises(errors.OverflowDataError, match="avg left the range of its type decimal128"):
        aggregate.get("avg").reduce([wide], np.array([0, 1]))


def test_order_of_floats() -> None:
    column = pa.array([math.nan, -math.inf, 1.0])
    assert canonical(aggregate.get("max").scan([column], WHOLE).to_pylist()) == ["NaN"] * 3
    assert aggregate.get("min").reduce([column], WHOLE).to_pylist() == [-math.inf]
    zeros = pa.array([-0.0, 0.0, None])
    assert math.copysign(1, aggregate.get("max").reduce([zeros], WHOLE)[0].as_py()) == -1
    assert aggregate.get("count", distinct=True).reduce([zeros], WHOLE).to_pylist() == [1]


def test_order_of_strings_is_that_of_their_bytes() -> None:
    column = pa.array(["\uffff", "\U0001f600", "z"])
    assert aggregate.get("max").reduce([column], WHOLE).to_pylist() == ["\U0001f600"]


def test_equal_keys_choose_the_last_row() -> None:
    chosen, by = pa.array(["a", "b", None]), pa.array([1, 1, 1])
    for name in ("max_by", "min_by"):
        assert aggregate.get(name).scan([chosen, by], WHOLE).to_pylist() == ["a", "b", None]


def test_lists_beyond_arrow_are_refused() -> None:
    long = pa.nulls(70_000, pa.int8()).fill_null(1)
    with pytest.raises(errors.LimitError, match="2450035000 items in one column of lists"):
        aggregate.get("array_agg").scan([long], np.array([0, 70_000]))
