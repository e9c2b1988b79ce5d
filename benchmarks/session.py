"""The Spark sessions of benchmarks."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORE = {"spark.sql.streaming.stateStore.providerClass": ROCKS}
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
}


def start(name: str, settings: dict[str, str], master: str = "local[2]") -> tuple[Any, str]:
    """A session, and a line that says which Java it runs on."""
    from ensue.java import ensure_java

    java = ensure_java()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    folder = tempfile.gettempdir()  # of this process: what is killed leaves its files there
    files = {
        "spark.local.dir": folder,
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
    }
    for setting, value in (_SETTINGS | files | settings).items():
        builder = builder.config(setting, value)
    return builder.getOrCreate(), java
