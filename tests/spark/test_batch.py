"""What the Spark runner adds: plans, types, sizes, bad input."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.demo.data import funnel, ticks


def test_same_answer_as_in_process(spark: Any) -> None:
    table = ticks(20, 5_000)
    query = (
        ensue.pattern("A B+ C+")
        .define(B="price < PREV(price)", C="price > PREV(price)")
        .partition_by("symbol")
        .order_by("ts")
        .measures(top="A.price", bottom="LAST(B.price)", n="COUNT(*)", at="LAST(ts)")
    )
    on_spark = query.matches(spark.createDataFrame(table)).toArrow()
    here = query.matches(table)
    assert on_spark.schema.names == here.schema.names
    key = [("symbol", "ascending"), ("at", "ascending")]
    assert on_spark.sort_by(key).to_pylist() == here.sort_by(key).to_pylist()


def test_any_spark_function_in_a_row_condition_and_around_a_measure(spark: Any) -> None:
    df = spark.createDataFrame([(1, "kitten"), (2, "sitting"), (3, "mitten")], "t int, w string")
    query = (
        ensue.pattern("A B")
        .define(A="levenshtein(w, 'kitten') = 0", B="soundex(w) LIKE 'S%'")
        .order_by("t")
        .measures(s="soundex(LAST(B.w))", l="levenshtein(A.w, B.w)")
    )
    assert [r.asDict() for r in query.matches(df).collect()] == [{"s": "S352", "l": 3}]


def test_types_survive(spark: Any) -> None:
    schema = (
        "t int, d decimal(10,2), day date, ts timestamp, n timestamp_ntz, a array<int>, "
        "m map<string,int>, s struct<x:int>, b binary, f float, ok boolean"
    )
    row = (
        1,
        Decimal("1.50"),
        dt.date(2024, 1, 2),
        dt.datetime(2024, 1, 2, 3),
        dt.datetime(2024, 1, 2, 3),
        [1, 2],
        {"k": 1},
        (5,),
        b"x",
        0.5,
        True,
    )
    df = spark.createDataFrame([row], schema)
    names = [f.name for f in df.schema.fields if f.name != "t"]
    query = ensue.pattern("A").order_by("t").measures(**{f"m_{n}": f"LAST({n})" for n in names})
    found = query.matches(df)
    for name in names:
        assert found.schema[f"m_{name}"].dataType == df.schema[name].dataType, name
    got = found.collect()[0]
    assert got["m_d"] == Decimal("1.50")
    assert got["m_a"] == [1, 2]
    assert got["m_m"] == {"k": 1}
    assert got["m_s"]["x"] == 5
    sums = ensue.pattern("A").order_by("t").measures(s="SUM(d)", a="AVG(d)", x="SUM(s.x)")
    types = {f.name: f.dataType.simpleString() for f in sums.matches(df).schema.fields}
    assert types == {"s": "decimal(20,2)", "a": "decimal(14,6)", "x": "bigint"}


def test_one_shuffle_and_no_sort_in_the_plan(spark: Any) -> None:
    query = ensue.pattern("view cart+ pay", types="kind").partition_by("user_id").order_by("ts")
    df = spark.createDataFrame(funnel(10, 100))
    text = query.matches(df)._jdf.queryExecution().toString()
    physical = text[text.index("== Physical Plan ==") :]
    assert physical.count("Exchange") == 1
    assert "Sort" not in physical


def test_empty_and_single_row_frames(spark: Any) -> None:
    query = ensue.pattern("A+").partition_by("k").order_by("t").measures(n="COUNT(*)")
    empty = spark.createDataFrame([], "k int, t int")
    assert query.matches(empty).collect() == []
    assert query.matches(empty).columns == ["k", "n"]
    one = spark.createDataFrame([(None, None)], "k int, t int")
    assert [tuple(r) for r in query.matches(one).collect()] == [(None, 1)]
    assert query.count(one) == 1


def test_a_stream_without_a_watermark_is_refused(spark: Any) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(errors.WatermarkError, match="has no watermark on timestamp"):
        ensue.pattern("A").order_by("timestamp").matches(stream)


@pytest.mark.parametrize(
    ("define", "error", "text"),
    [
        ("price > array(1)", errors.ColumnTypeError, "Spark rejects the condition"),
        ("nope > 1", errors.UnknownColumnError, "no column 'nope'"),
        ("pricy > 1", errors.UnknownColumnError, "did you mean: price"),
        ("no_such_function(price)", errors.ColumnTypeError, "(?i)no_such_function"),
        ("price", errors.ColumnTypeError, "the condition `price`"),
        ("PREV(price) AND true", errors.ColumnTypeError, r"B is PREV\(price\), of type double"),
    ],
)
def test_bad_conditions_fail_before_any_job(
    spark: Any, define: str, error: type[Exception], text: str
) -> None:
    df = spark.createDataFrame([(1, 2.0)], "t int, price double")
    with pytest.raises(error, match=text):
        ensue.pattern("A B").define(B=define).order_by("t").matches(df)


def test_ansi_errors_only_where_a_row_is_asked(spark: Any) -> None:
    df = spark.createDataFrame([(1, 1, 0), (2, 4, 2)], "t int, x int, y int")
    query = ensue.pattern("A").define(A="y <> 0").order_by("t").measures(ratio="SUM(A.x / A.y)")
    assert [r["ratio"] for r in query.matches(df).collect()] == [2.0]


def test_columns_of_pyspark_as_conditions(spark: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    df = spark.createDataFrame([(1, "a"), (2, "b"), (3, None)], "t int, k string")
    query = (
        ensue.pattern("A B C")
        .define(
            A=(F.col("k") == "a") & F.col("t").isin(1, 2),
            B=F.when(F.col("t") > 1, F.upper("k") == "B").otherwise(False),
            C=F.col("k").isNull() | ~(F.col("t") < 3),
        )
        .order_by("t")
    )
    assert query.count(df) == 1


def test_output_comes_in_bounded_batches(spark: Any) -> None:
    table = pa.table({"t": range(50_000), "x": [0] * 50_000})
    query = ensue.pattern("A").order_by("t").measures(t="LAST(t)")
    assert query.matches(spark.createDataFrame(table)).count() == 50_000


def test_columns_with_dots_and_back_quotes(spark: Any) -> None:
    df = spark.createDataFrame([(1, 1, "x"), (1, 2, "y")], ["k.k", "a.b", "tick`s"])
    query = (
        ensue.pattern("A B")
        .define(B="`a.b` > A.`a.b`")
        .partition_by("k.k")
        .order_by("a.b")
        .measures(last="LAST(`tick``s`)")
    )
    assert [r.asDict() for r in query.matches(df).collect()] == [{"k.k": 1, "last": "y"}]
    shown = query.rows_per_match("all rows").matches(df)
    assert shown.columns == ["k.k", "a.b", "last", "tick`s"]
    assert [r["a.b"] for r in shown.collect()] == [1, 2]


def test_columns_of_one_name(spark: Any) -> None:
    df = spark.createDataFrame([(1, 2, 3)], ["t", "x", "x"])
    query = ensue.pattern("A").order_by("t").measures(n="COUNT(*)")
    assert query.matches(df).count() == 1
    with pytest.raises(errors.DuplicateNameError, match="'x'"):
        query.rows_per_match("all rows").matches(df)


def test_constant_measures_and_collations(spark: Any) -> None:
    df = spark.createDataFrame([(1, "a"), (2, "A")], "t int, v string")
    assert ensue.pattern("A").order_by("t").measures(m="1").matches(df).count() == 2
    folded = df.selectExpr("t", "v COLLATE UTF8_LCASE AS v")
    with pytest.raises(errors.ColumnTypeError, match="collation UTF8_LCASE"):
        ensue.pattern("A").partition_by("v").order_by("t").matches(folded)
