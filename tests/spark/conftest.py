"""One Spark session per process for all tests that need Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyspark
import pytest

from ensue.java import ensure_java
from ensue.run.spark.session import free_port

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
_STREAMING = "org.apache.spark.sql.execution.streaming"
_PLACE = "checkpointing." if VERSION >= (4, 1) else ""
_FILES = f"{_STREAMING}.{_PLACE}FileSystemBasedCheckpointFileManager"
SETTINGS = {
    # Progress is asked of the page.
    "spark.ui.port": free_port(),
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "tests.spark.daemon",
    # A checkpoint has many small files: no second one beside each with its checksum, and fewer
    # processes, which Hadoop starts to look for links.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": _FILES,
    # A stream with nothing to do lists its folders again after so many milliseconds, not 10.
    "spark.sql.streaming.pollingDelay": "100",
}
# Small queries in a short life: the JVM's second compiler never earns what it costs. Tests that
# start processes of their own hand it on to them. Without it Java gives compiled code 48 MB, which
# hundreds of tests fill: then nothing more is compiled, or even linked.
os.environ["SPARK_SUBMIT_OPTS"] = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
)

# Where an earlier Spark computes otherwise: a part of a test's name, the first Spark that computes
# as Ensue does in process, and how those before it differ.
SINCE = (
    (
        "test_edges_like_spark",
        (4, 3),
        "element_at(array, -2147483648) reads outside the array, which can end the JVM",
    ),
    ("test_like_spark[collect_set(float)]", (4, 2), "collect_set keeps every NaN"),
    ("test_like_spark[collect_set(double)]", (4, 2), "collect_set keeps every NaN"),
    ("test_observed_metrics_of_a_budget", (4, 1), "maps of an Observation are objects of Java"),
    # Seen on 4.0.0; a later Spark that still differs will say so.
    ("agree_with_spark[split]", (4, 1), "split(s, '', 2) drops the rest"),
    ("agree_with_spark[reverse]", (4, 1), "reverse of bytes gives text that is no UTF-8"),
    ("agree_with_spark[cast]", (4, 1), "a timestamp as a decimal goes through a double"),
    ("raises_in_spark_raises_here[ceil(", (4, 3), "ceil of NaN is 0, of infinity a number"),
    ("raises_in_spark_raises_here[floor(", (4, 3), "floor of NaN is 0, of infinity a number"),
)


# The longest tests: where they begin first, no process waits for one of them at the end.
LONGEST = ("test_a_killed_driver", "test_a_declarative_pipeline", "test_streams")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out, by name, what the Spark at hand is known to compute otherwise."""
    items.sort(key=lambda item: item.name not in LONGEST)
    for item in items:
        for name, since, difference in SINCE:
            if name in item.nodeid and since > VERSION:
                item.add_marker(
                    pytest.mark.skip(reason=f"Spark {pyspark.__version__}: {difference}")
                )


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    ensure_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("ensue-tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    from ensue.run.spark.quiet import jvm_log

    with jvm_log() as log:
        session = builder.getOrCreate()
    yield session
    session.stop()
    log.unlink()
