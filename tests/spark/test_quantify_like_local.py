"""NEXMark-style bids and auctions: Spark batch, micro-batches and in process give equal answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue import quantify as q
from tests.spark import batches
from tests.unit.test_quantify_decimals import column
from tests.unit.test_quantify_quantile import PARTS, SPREADS


def bids(count: int = 3000) -> pa.Table:
    randomness = np.random.default_rng(3)
    return pa.table(
        {
            "auction": randomness.integers(0, 40, count),
            "bidder": randomness.integers(0, 15, count),
            "price": randomness.integers(1, 1000, count),
            "channel": pa.array(randomness.choice(["web", "app"], count)),
            "at": pa.array(np.arange(count) * 250_000, pa.timestamp("us", "UTC")),
        }
    )


QUERIES: dict[str, q.Quantity] = {
    "highest bid": q.max("price"),  # NEXMark Q7, per auction
    "winning bidder": q.argmax("bidder", "price"),  # Q9
    "average of the last ten": q.windows(q.mean("price"), rows=10),  # Q6
    "bids per minute": q.windows(q.count(), time="1 minute", by="at") >> q.max("value"),  # Q5
    "dollars, web only": q.sum("price * 0.908e0", where="channel = 'web'"),  # Q1, Q2
    "longest rising run": q.apply(
        "a", q.iter("max", q.split("a", q.count(over="price < 700"), q.event("price >= 700")))
    ),
    "session budget": q.windows(q.sum("price"), until="price > 900") >> q.max("value"),
}


def alike(left: Any, right: Any) -> bool:
    """Equal; of floats, whose sums Spark adds in any order, all but the last digits."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-12)
    return bool(left == right)


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_batch_equals_in_process_and_micro_batches(spark: Any, name: str) -> None:
    f, events = QUERIES[name], bids()
    local = f.eval(events, partition_by="auction", order_by="at").sort_by("auction")
    df = spark.createDataFrame(events).repartition(3)
    batch = f.eval(df, partition_by="auction", order_by="at").toArrow().sort_by("auction")
    assert batch["auction"].to_pylist() == local["auction"].to_pylist()
    values = zip(batch["value"].to_pylist(), local["value"].to_pylist(), strict=True)
    assert all(alike(*pair) for pair in values)
    labelled = f.label(df, "v", partition_by="auction", order_by="at").toArrow().sort_by("at")
    here = f.label(events, "v", partition_by="auction", order_by="at").sort_by("at")
    assert labelled["v"].to_pylist() == here["v"].to_pylist()
    operator = f.operator(events.schema, partition_by="auction")
    streamed: list[pa.Table] = []
    for begin in range(0, len(events), 700):
        streamed += operator.insert(events.slice(begin, 700)).tables()
    assert pa.concat_tables(streamed).sort_by("at")["value"].to_pylist() == here["v"].to_pylist()


def test_structured_streaming_by_foreach_batch(spark: Any, tmp_path: Any) -> None:
    events = bids(900)
    batches.write(tmp_path, (events.slice(300 * index, 300) for index in range(3)))
    f = q.max("price")
    operator = f.operator(events.schema, partition_by="auction", output="demand")
    schema = spark.createDataFrame(events).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)

    def insert(df: Any, number: int) -> None:
        operator.insert(df.toArrow().sort_by("at").cast(events.schema))

    query = stream.parquet(str(tmp_path)).writeStream.foreachBatch(insert)
    query.trigger(availableNow=True).start().awaitTermination(120)
    expected = f.eval(events, partition_by="auction").sort_by("auction")
    assert operator.result().sort_by("auction").to_pydict() == expected.to_pydict()


def test_spark_evaluates_its_own_functions(spark: Any) -> None:
    df = spark.createDataFrame(bids(100))
    assert q.max("length(soundex(channel))").eval(df) == 4
    with pytest.raises(errors.ColumnTypeError, match="Spark rejects"):
        q.max("no_such_function(price)").eval(df)


def test_groups_and_whole_frames(spark: Any) -> None:
    events = bids(500)
    df = spark.createDataFrame(events)
    grouped = q.group_by("channel", q.mean("price"))
    found = grouped.eval(df).toArrow().sort_by("channel").to_pydict()
    expected = grouped.eval(events).sort_by("channel").to_pydict()
    assert found["channel"] == expected["channel"]
    assert found["value"] == pytest.approx(expected["value"])
    assert q.sum("price").eval(df) == q.sum("price").eval(events)
    assert q.sum("price", start=0).eval(df.limit(0)) == 0


def test_nested_measures_on_spark(spark: Any) -> None:
    table = pa.table({"k": list("ABBAB"), "x": [5, 1, 7, 2, 4], "t": range(5)})
    pattern = ensue.pattern("(A B*)+", types="k").order_by("t").measures(m="MAX(AVG(B.x))")
    df = spark.createDataFrame(table)
    assert [row.m for row in pattern.matches(df).collect()] == [4.0]
    assert pattern.matches(table).to_pydict() == {"m": [4.0]}


def test_plain_aggregates_are_left_to_spark(spark: Any) -> None:
    """All in one job: the answers stand beside each other, as those of one query each would."""
    from pyspark.sql import functions as F  # noqa: N812

    from ensue.query.query import OrderKey
    from ensue.run.spark.plain import plain_aggregate

    events = bids(400)
    holes = pa.array([None if i % 7 == 0 else p for i, p in enumerate(events["price"].to_pylist())])
    events = events.set_column(2, "price", holes)
    df = spark.createDataFrame(events)
    order = (OrderKey("at"),)
    plain = {
        "mean": q.mean("price"),
        "count": q.count(),
        "max": q.max("price"),
        "sum": q.sum("price / 2"),
        "stddev": q.stddev("price"),
        "variance": q.variance("price", where="channel = 'web'"),
        "product": q.product("price / 500", where="channel = 'web'"),
        "last": q.last("price"),
        "first": q.first("price", where="channel = 'web'"),
        "argmax": q.argmax("bidder", "price % 5"),
        "argmin": q.argmin("bidder", "price % 5"),
        "over": q.sum("price", over="bidder < 14"),
        "where": q.sum("price", where="price > 500"),
        "both": q.count(over="bidder < 14", where="price > 500"),
    }
    joined = None
    for name, f in plain.items():
        found = plain_aggregate(f.stage, df, ("auction",), order)
        assert found is not None, name
        found = found.withColumnRenamed("value", name)
        joined = found if joined is None else joined.join(found, "auction")
    table = joined.toArrow().sort_by("auction")
    for name, f in plain.items():
        expected = f.eval(events, partition_by="auction", order_by="at").sort_by("auction")
        assert table["auction"].to_pylist() == expected["auction"].to_pylist()
        here, there = table[name].to_pylist(), expected["value"].to_pylist()
        assert [v is None for v in here] == [v is None for v in there], name
        assert [v or 0 for v in here] == pytest.approx([v or 0 for v in there]), name
    more = (q.sum("price", start=1), q.product("price", start=2), q.quantile("price", 0.5))
    for f in more:
        assert plain_aggregate(f.stage, df, ("auction",), order) is None
    # Whole numbers keep their type, which Spark's product does not.
    few = df.limit(1).select("auction", "at", F.lit(2**53 + 1).alias("n"))
    assert (
        q.product("n").eval(few, partition_by="auction", order_by="at").first().value == 2**53 + 1
    )
    # Orders of other types, with rows that have no time: those come first.
    numbered = pa.table(
        {
            "k": [1, 1, 1, 2, 2, 3, 3],
            "t": pa.array([None, 2, 1, None, None, 5, 4], pa.int64()),
            "x": [10, None, 30, None, 50, 60, 70],
        }
    )
    for kind in (pa.int64(), pa.float64()):
        typed = numbered.set_column(1, "t", numbered["t"].cast(kind))
        sparks = spark.createDataFrame(typed)
        for f in (q.last("x"), q.first("x")):
            here = f.eval(typed, partition_by="k", order_by="t").sort_by("k").to_pylist()
            assert plain_aggregate(f.stage, sparks, ("k",), (OrderKey("t"),)) is not None
            there = f.eval(sparks, partition_by="k", order_by="t").toArrow().sort_by("k")
            assert there.to_pylist() == here
    # Without an order nobody knows which event is last.
    assert plain_aggregate(q.last("price").stage, df, ("auction",)) is None


def test_quantiles_of_every_spread_in_one_job(spark: Any) -> None:
    chance = np.random.default_rng(5)
    names, values = [], []
    for name, make in SPREADS.items():
        names += [name] * 200
        values += make(chance, 200).astype(float).tolist()
    events = pa.table({"name": names, "x": values, "t": range(len(names))})
    events = events.take(pa.array(chance.permutation(len(names))))
    df = spark.createDataFrame(events).repartition(3)
    shown = ", ".join(f"CAST({name} AS STRING)" for name in "abcdefg")
    f = q.combine(f"CONCAT_WS(', ', {shown})", *[q.quantile("x", part) for part in PARTS])
    there = f.eval(df, partition_by="name", order_by="t").toArrow().sort_by("name")
    assert there.to_pydict() == f.eval(events, partition_by="name").sort_by("name").to_pydict()


def test_decimals_are_typed_and_computed_as_spark_does(spark: Any) -> None:
    """Spark's own aggregates in one job, and those of the workers in another."""
    from pyspark.sql import functions as F  # noqa: N812

    chance = np.random.default_rng(11)
    shapes = {"a": (4, 2), "b": (18, 6), "c": (28, 4), "d": (38, 18), "e": (34, 30), "f": (7, 0)}
    columns: dict[str, Any] = {"k": [i % 9 for i in range(90)], "t": list(range(90))}
    for name, (precision, scale) in shapes.items():
        values = column(chance, min(34, precision), scale, 90)  # no answer leaves its type
        columns[name] = pa.array(values, pa.decimal128(precision, scale))
    events = pa.table(columns)
    asked, texts = {}, []
    for name in shapes:
        for fold, sql in {"sum": "SUM", "mean": "AVG", "min": "MIN", "max": "MAX"}.items():
            asked[f"{fold}_{name}"] = getattr(q, fold)(name)
            texts.append(f"{sql}({name}) AS {fold}_{name}")
        asked[f"product_{name}"] = q.product(name)
        asked[f"stddev_{name}"] = q.stddev(name)
        texts.append(f"STDDEV({name}) AS stddev_{name}")
    for one, other in ("ab", "ba", "fa", "bf"):
        asked[f"quotient_{one}{other}"] = q.combine("a / b", q.sum(one), q.max(f"ABS({other}) + 1"))
        texts.append(f"SUM({one}) / MAX(ABS({other}) + 1) AS quotient_{one}{other}")
    df = spark.createDataFrame(events)
    products = [F.product(name).alias(f"product_{name}") for name in shapes]
    there = df.groupBy("k").agg(*map(F.expr, texts), *products).toArrow().sort_by("k")
    for name, f in asked.items():
        here = f.eval(events, partition_by="k", order_by="t").sort_by("k")["value"]
        assert here.type == there[name].type, name
        pairs = zip(here.to_pylist(), there[name].to_pylist(), strict=True)
        assert all(alike(*pair) for pair in pairs), name
    f = q.combine("a / b", q.mean("a"), q.max("ABS(b) + 1"))  # by the workers
    found = f.eval(df, partition_by="k", order_by="t").toArrow().sort_by("k")
    expected = f.eval(events, partition_by="k").sort_by("k")
    assert found.to_pydict() == expected.to_pydict()
    assert found["value"].type == expected["value"].type


def test_sums_never_wrap_round_in_silence(spark: Any) -> None:
    table = pa.table({"k": [1, 1, 2, 2, 3], "x": pa.array([2**62, 2**62, 3, 4, None], pa.int64())})
    total = q.sum("x", where="x > 0")
    before = spark.conf.get("spark.sql.ansi.enabled")
    try:
        for ansi in ("true", "false"):
            spark.conf.set("spark.sql.ansi.enabled", ansi)
            frame = spark.createDataFrame(table)
            with pytest.raises(Exception, match=r"(?i)overflow|left the range of 64 bits"):
                total.eval(frame, partition_by="k").collect()
            rows = total.eval(frame.where("k > 1"), partition_by="k").collect()
            assert {row["k"]: row["value"] for row in rows} == {2: 7, 3: None}
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_the_types_of_a_dataframe_decide_what_predicates_share(spark: Any) -> None:
    f = q.choose(q.event("n > 0", 1), q.event("n < 1", 2))
    whole = spark.createDataFrame(pa.table({"n": pa.array([1], pa.int32())}))
    assert f.check(whole).tokens
    assert f.eval(whole) == 1
    halves = spark.createDataFrame(pa.table({"n": [0.25]}))
    for ask in (f.check, f.eval):
        with pytest.raises(errors.AmbiguousError, match=r"\{n="):
            ask(halves)
