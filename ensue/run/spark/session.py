"""A local Spark session for the command line: quiet, small, with a Java that works.

What the JVM logs goes to a file (`quiet.jvm_log`), which an error at the start quotes.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

from pyspark.sql import SparkSession

from ensue import errors, progress
from ensue.java import ensure_java
from ensue.run.spark.quiet import jvm_log

_SHOWN_LINES = 20
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}
# Progress is asked of the session's web page, which here answers to this machine alone.
_WATCHED = {"spark.ui.enabled": "true", "spark.ui.killEnabled": "false"}


def session_here() -> SparkSession | None:
    """The session of this thread; None where there is none."""
    return SparkSession.getActiveSession()


def connected_session(url: str) -> SparkSession:
    """A session of a Spark Connect server."""
    return SparkSession.builder.remote(url).getOrCreate()


def local_session(
    cores: int = 2, settings: Mapping[str, str] | None = None
) -> tuple[SparkSession, str]:
    """The session, and a line that says which Java it runs on; `settings` are Spark's own."""
    java = ensure_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("ensue")
    watched = {**_WATCHED, "spark.ui.port": free_port()} if progress.is_seen() else {}
    for name, value in {**_SETTINGS, **watched, **(settings or {})}.items():
        builder = builder.config(name, value)
    with jvm_log() as log:
        try:
            session = builder.getOrCreate()
        except Exception as problem:
            last = log.read_text(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
            raise errors.SparkStartError(
                f"Spark did not start: {problem}\n" + "\n".join(last),
                remedy=f"see {log}; `ensue doctor` says which Java and Python are used",
            ) from None
    log.unlink()  # the JVM keeps it open; what workers raise comes back as errors
    return session, java


def free_port() -> str:
    """A port of this machine that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])
