"""The hashes that decide a row's lane are Spark's own, value by value and column by column."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import ensue
from ensue.operator.buffer import CONTENT, KEY
from ensue.run.lanes.hashes import Hashes, covers, spark_hashes
from ensue.run.spark.stream import Prepared, _hashed
from ensue.run.spark.stream_operator import LANE
from ensue.run.spark.stream_options import StreamOptions

_ROWS = 200
_NUMBERS = random.Random(7)


def _column(kind: str) -> list[Any]:
    draw = _NUMBERS
    make = {
        "bigint": lambda: draw.choice([0, -1, 2**63 - 1, -(2**63), draw.getrandbits(62)]),
        "int": lambda: draw.choice([0, -1, 2**31 - 1, -(2**31), draw.getrandbits(30)]),
        "smallint": lambda: draw.randint(-(2**15), 2**15 - 1),
        "tinyint": lambda: draw.randint(-128, 127),
        "boolean": lambda: draw.random() < 0.5,
        "double": lambda: draw.choice([0.0, -0.0, math.nan, math.inf, draw.gauss(0, 1e6)]),
        "float": lambda: draw.choice([0.0, -0.0, math.nan, -math.inf, float(draw.randint(0, 99))]),
        "string": lambda: "".join(draw.choices("aé€😀xyz ", k=draw.randint(0, 80))),
        "binary": lambda: draw.randbytes(draw.randint(0, 70)),
        "date": lambda: dt.date(1960, 1, 1) + dt.timedelta(draw.randint(0, 40_000)),
        "timestamp": lambda: (
            dt.datetime(1960, 1, 1, tzinfo=dt.UTC)
            + dt.timedelta(microseconds=draw.randint(0, 2**52))
        ),
        "timestamp_ntz": lambda: (
            dt.datetime(1960, 1, 1) + dt.timedelta(microseconds=draw.randint(0, 2**52))
        ),
        "decimal(18,3)": lambda: decimal.Decimal(draw.randint(-(10**17), 10**17)).scaleb(-3),
    }[kind]
    return [None if draw.random() < 0.1 else make() for _ in range(_ROWS)]


KINDS = (
    "bigint", "int", "smallint", "tinyint", "boolean", "double", "float", "string", "binary",
    "date", "timestamp", "timestamp_ntz", "decimal(18,3)",
)  # fmt: skip


def test_hashes_are_sparks(spark: SparkSession) -> None:
    names = [f"c{number}" for number in range(len(KINDS))]
    schema = ", ".join(f"{name} {kind}" for name, kind in zip(names, KINDS, strict=True))
    rows = list(zip(*(_column(kind) for kind in KINDS), strict=True))
    frame = spark.createDataFrame(rows, schema)
    every = [F.xxhash64(name).alias(f"h_{name}") for name in names]
    found = frame.select("*", *every, F.xxhash64(*names).alias("together")).toArrow()
    found = found.combine_chunks()
    assert covers(found.schema.field(name).type for name in names)
    for name, kind in zip(names, KINDS, strict=True):
        got = spark_hashes(found, [name]).tolist()
        assert got == found[f"h_{name}"].to_pylist(), kind
    assert spark_hashes(found, names).tolist() == found["together"].to_pylist()
    part = found.slice(13, 90)
    assert spark_hashes(part, names).tolist() == part["together"].to_pylist()


def test_lane_and_content_are_the_same_wherever_they_are_found(spark: SparkSession) -> None:
    rows = [(0.1, None, 5), (0.1, 5, None), (-0.0, 1, 2), (0.0, 1, 2), (None, None, None)]
    frame = spark.createDataFrame(rows, "k float, a bigint, b bigint")
    hashes = Hashes(("k", "a", "b"), ("k",), ("k",), 16, keyed=True)
    there = _hashed(frame, hashes).toArrow().combine_chunks()
    here = hashes.added(frame.toArrow().combine_chunks())
    for name in (CONTENT, KEY):
        assert here[name].to_pylist() == there[name].to_pylist()
    assert hashes.lanes_of(frame.toArrow()).tolist() == there[LANE].to_pylist()
    content = here[CONTENT].to_pylist()
    assert content[0] != content[1]  # the same values, in other columns
    assert there[LANE][2] == there[LANE][3]


def test_a_withdrawal_has_the_content_of_its_event(spark: SparkSession) -> None:
    """Also where all columns are carried, the one that says insert or delete among them."""
    pattern = ensue.pattern("A B", types="kind").partition_by("k").order_by("ts")
    texts = ("timestamp AS ts", "value AS k", "'A' AS kind", "'insert' AS op")
    stream = spark.readStream.format("rate").load().selectExpr(*texts)
    stream = stream.withWatermark("ts", "1 second")
    columns = [F.col(name) for name in stream.columns]
    prepared = Prepared.of(pattern.query, stream, StreamOptions(changes="op"), columns)
    assert prepared.hashes is not None
    assert prepared.hashes.content == ("ts", "k", "kind")


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.decimal128(30, 2), pa.duration("us")])
def test_other_types_are_left_to_spark(kind: pa.DataType) -> None:
    assert not covers([pa.int64(), kind])
