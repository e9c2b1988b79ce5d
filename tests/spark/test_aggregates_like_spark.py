"""Each aggregate gives the value and the type that Spark's own gives, over the same rows.

Two jobs compute everything, grouped, one without and one with DISTINCT (together Spark plans them
far more slowly). FILTER leaves no rows to one of the groups. All rows lie in one partition, so
Spark meets them in our order.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from ensue import aggregate

GROUPS = ["plain", "nulls", "one", "special", "no rows"]
NAN, INFINITY = math.nan, math.inf

# One list per group; a row with the value of "no rows" is filtered out before aggregating.
VALUES: dict[str, tuple[pa.DataType, list[list[Any]]]] = {
    "byte": (pa.int8(), [[3, -1, 3, 127], [None, None], [7], [None, -128, 127], [1]]),
    "int": (pa.int32(), [[3, -1, 3, 2**31 - 1], [None, None], [7], [None, 5, 5], [1]]),
    "long": (pa.int64(), [[3, -1, 3, 2**52 + 1], [None, None], [-(2**63)], [None, 4, 4], [1]]),
    "float": (
        pa.float32(),
        [[0.1, 0.2, 0.3, 0.1], [None, None], [-0.0], [NAN, 1.5, None, NAN], [1.0]],
    ),
    "double": (
        pa.float64(),
        [[0.1, 0.2, 0.3, 1e300], [None, None], [-0.0], [-0.0, 0.0, NAN, -INFINITY, NAN], [1.0]],
    ),
    "small_decimal": (
        pa.decimal128(10, 2),
        [
            [Decimal("1.10"), Decimal("-0.01"), Decimal("1.10"), Decimal("99999999.99")],
            [None, None],
            [Decimal("0.05")],
            [Decimal("-0.01"), None, Decimal("0.00"), Decimal("0.00")],
            [Decimal("1.00")],
        ],
    ),
    "wide_decimal": (
        pa.decimal128(38, 20),
        [
            [Decimal("1.00000000000000000001"), Decimal("-12345678901234"), Decimal(7)],
            [None, None],
            [Decimal("-999999999999.99999999999999999999")],
            [Decimal(1), None, Decimal(0), Decimal("1E-20")],
            [Decimal(1)],
        ],
    ),
    "fraction": (
        pa.decimal128(38, 38),
        [
            [Decimal("5E-38"), *[Decimal(0)] * 10],  # 0.45 of the last digit: rounds down
            [None, None],
            [Decimal("1E-38")],
            [Decimal("-1E-38"), Decimal(0)],  # half of the last digit: away from zero
            [Decimal(0)],
        ],
    ),
    "string": (
        pa.string(),
        [["b", "a", "é", "b"], [None, None], [""], ["\uffff", "\U0001f600", None, "B"], ["x"]],
    ),
    "day": (
        pa.date32(),
        [
            [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
            [None, None],
            [dt.date(1, 1, 1)],
            [None, dt.date(9999, 12, 31)],
            [dt.date(2000, 1, 1)],
        ],
    ),
    "moment": (
        pa.timestamp("us", "UTC"),
        [
            [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, tzinfo=dt.UTC)],
            [None, None],
            [dt.datetime(2024, 1, 1, 0, 0, 0, 1, dt.UTC)],
            [None, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
            [dt.datetime(2000, 1, 1, tzinfo=dt.UTC)],
        ],
    ),
    "clock": (
        pa.timestamp("us"),
        [
            [dt.datetime(2024, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)],
            [None, None],
            [dt.datetime(2024, 1, 1)],
            [None, dt.datetime(2024, 1, 1)],
            [dt.datetime(2000, 1, 1)],
        ],
    ),
    "span": (
        pa.duration("us"),
        [
            [dt.timedelta(microseconds=1), dt.timedelta(0)],  # half a microsecond
            [None, None],
            [dt.timedelta(days=-3)],
            [dt.timedelta(microseconds=-1), None, dt.timedelta(0)],
            [dt.timedelta(1)],
        ],
    ),
    "flag": (
        pa.bool_(),
        [[True, False, True], [None, None], [True], [None, False, False], [True]],
    ),
    "items": (
        pa.list_(pa.int32()),
        [[[1, 2], [1], [1, None], [1, 2]], [None, None], [[]], [None, [None], []], [[1]]],
    ),
    "record": (
        pa.struct([("a", pa.int32()), ("b", pa.float64())]),
        [
            [{"a": 1, "b": 2.0}, {"a": 1, "b": NAN}, {"a": 1, "b": None}, {"a": None, "b": 3.0}],
            [None, None],
            [{"a": None, "b": None}],
            [None, {"a": 0, "b": NAN}, {"a": 0, "b": NAN}],
            [{"a": 1, "b": 1.0}],
        ],
    ),
}
SUMMABLE = [
    *("byte", "int", "long", "float", "double"),
    *("small_decimal", "wide_decimal", "fraction", "span"),
]

Case = tuple[str, bool, tuple[str, ...]]  # name, distinct, columns


def cases() -> Iterator[Case]:
    yield "count", False, ()
    for column in VALUES:
        for name in ("count", "min", "max", "array_agg", "collect_set"):
            yield name, False, (column,)
        for name in ("max_by", "min_by"):
            yield name, False, ("string", column)
        for name in ("count", "array_agg"):
            yield name, True, (column,)
    for column in SUMMABLE:
        for name in ("sum", "avg"):
            yield name, False, (column,)
            yield name, True, (column,)
    for name in ("max_by", "min_by"):
        yield name, False, ("record", "int")
    for name in ("bool_and", "bool_or"):
        yield name, False, ("flag",)
        yield name, True, ("flag",)
    for name in ("min", "max"):
        yield name, True, ("double",)
    yield "count", False, ("int", "string")
    yield "count", True, ("int", "string")


def title(case: Case) -> str:
    name, distinct, columns = case
    return f"{name}({'DISTINCT ' if distinct else ''}{', '.join(columns) or '*'})"


def rows_of(column: str) -> tuple[pa.DataType, list[list[Any]]]:
    """Filled up with nulls, so that a group has as many rows in every column."""
    kind, groups = VALUES[column]
    sizes = [max(len(values[group]) for _, values in VALUES.values()) for group in range(5)]
    filled = [
        values + [None] * (size - len(values)) for values, size in zip(groups, sizes, strict=True)
    ]
    return kind, filled


def comparable(value: Any, unordered: bool) -> Any:
    """NaN equal to itself, one zero; a set in one order."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        items = [comparable(item, False) for item in value]
        return sorted(items, key=repr) if unordered else items
    if isinstance(value, dict):
        return {key: comparable(item, False) for key, item in value.items()}
    return value


def same_type(a: pa.DataType, b: pa.DataType) -> bool:
    """Spark writes the zone of its session, and lists without null items as such."""
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b):
        return (a.tz is None) == (b.tz is None)
    if pa.types.is_list(a) and pa.types.is_list(b):
        return same_type(a.value_type, b.value_type)
    return a == b


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession) -> dict[Case, pa.Array]:
    filled = {column: rows_of(column) for column in VALUES}
    sizes = [len(values) for values in filled["int"][1]]
    table = pa.table(
        {
            "position": pa.array(range(sum(sizes)), pa.int32()),
            "grouped": pa.array(np.repeat(np.arange(5), sizes), pa.int32()),
            **{
                column: pa.array([value for group in groups for value in group], kind)
                for column, (kind, groups) in filled.items()
            },
        }
    )
    frame = spark.createDataFrame(table).withColumn("clock", expr("CAST(clock AS TIMESTAMP_NTZ)"))
    ordered = frame.coalesce(1).sortWithinPartitions("position")
    ordered.createOrReplaceTempView("aggregated_rows")
    return {case: answer for distinct in (False, True) for case, answer in ask(spark, distinct)}


def ask(spark: SparkSession, distinct: bool) -> Iterator[tuple[Case, pa.Array]]:
    asked = [case for case in cases() if case[1] == distinct]
    kept = f"FILTER (WHERE grouped <> {GROUPS.index('no rows')})"
    chosen = ", ".join(f"{title(case)} {kept}" for case in asked)
    table = spark.sql(
        f"SELECT {chosen} FROM aggregated_rows GROUP BY grouped ORDER BY grouped"
    ).toArrow()
    return zip(asked, (column.combine_chunks() for column in table.columns), strict=True)


@pytest.mark.parametrize("case", list(cases()), ids=title)
def test_like_spark(by_spark: dict[Case, pa.Array], case: Case) -> None:
    name, distinct, columns = case
    filled = [rows_of(column) for column in columns]
    groups = [
        [] if group == "no rows" else [values[number] for _, values in filled]
        for number, group in enumerate(GROUPS)
    ]
    sizes = [len(group) for group in rows_of("int")[1]]
    sizes[GROUPS.index("no rows")] = 0
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    arguments = [
        pa.array([value for group in groups if group for value in group[index]], kind)
        for index, (kind, _) in enumerate(filled)
    ]
    function = aggregate.get(name, distinct)
    ours = function.reduce(arguments, offsets)
    theirs = by_spark[case]

    assert same_type(ours.type, theirs.type), (ours.type, theirs.type)
    unordered = name == "collect_set" or (name == "array_agg" and distinct)
    for group, our, their in zip(GROUPS, ours.to_pylist(), theirs.to_pylist(), strict=True):
        if distinct and isinstance(our, float) and name in ("sum", "avg"):
            # Spark adds distinct values in the order of their hashes.
            assert our == pytest.approx(their, rel=1e-15, nan_ok=True), group
        else:
            assert comparable(our, unordered) == comparable(their, unordered), group


def test_every_aggregate_is_compared() -> None:
    of_trino = {"max_n", "min_n", "max_by_n", "min_by_n", "map_agg", "multimap_agg", "map_union"}
    assert {name for name, _, _ in cases()} == set(aggregate.names()) - of_trino
