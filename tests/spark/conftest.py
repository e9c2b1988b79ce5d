"""One Spark session per process for all tests that need Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ensue.java import ensure_java

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.host": "127.0.0.1",
}
# Small queries in a short life: the JVM's second compiler never earns what it costs. Tests that
# start processes of their own hand it on to them.
os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    ensure_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("ensue-tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
