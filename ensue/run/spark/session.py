"""A local Spark session for the command line: quiet, small, with a Java that works."""

from __future__ import annotations

import logging
import os

from pyspark.sql import SparkSession

from ensue.java import ensure_java

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


def local_session(cores: int = 2) -> tuple[SparkSession, str]:
    """The session, and a line that says which Java it runs on."""
    java = ensure_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("ensue")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate(), java
