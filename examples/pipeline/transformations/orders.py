"""Patterns in a declarative pipeline (Spark 4.1 and later): two views and a streaming table.

    cd examples/pipeline
    python events.py
    spark-pipelines run            # pip install 'ensue[spark,java]' 'pyspark[pipelines]'

A pattern has to know the columns of its input, and Spark refuses to analyse inside of the function
of a dataset. So the matches are planned at the top of the file, where it does not; nothing runs
before the pipeline does. The input must exist by then: files, or a table from outside the pipeline.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import ensue

spark = SparkSession.active()
FOLDER = str(Path("events").absolute())  # in a catalog: spark.read.table("shop.events")

ORDER = (
    ensue.pattern("V C+ P")
    .define(V="kind = 'view'", C="kind = 'cart'", P="kind = 'pay'")
    .partition_by("user_id")
    .order_by("ts")
    .within("1 hour")
    .measures(at="FIRST(ts)", carts="COUNT(C.*)", paid="P.amount")
)
PURCHASE = ensue.pattern("cart -> pay", types="kind").partition_by("user_id").order_by("ts")

events = spark.read.parquet(FOLDER)
arriving = spark.readStream.schema(events.schema).parquet(FOLDER).withWatermark("ts", "10 minutes")
all_orders = events.transform(ORDER.matches)
all_carts = events.transform(
    PURCHASE.aggregate, by="user_id", n="count(*)", spent="sum(pay.amount)"
)
new_orders = arriving.transform(ORDER.matches, lanes=2)


@dp.materialized_view
def orders() -> DataFrame:
    return all_orders


@dp.materialized_view
def carts() -> DataFrame:
    return all_carts


@dp.table
def orders_so_far() -> DataFrame:
    return new_orders
