"""Keeping Spark quiet where Ensue speaks for it.

Ensue asks Spark's analyser about every expression, and a refusal becomes an error of its own. But
pyspark also logs each such exception when it is made, with the Java stack, as a page of JSON: the
loggers of `pyspark/errors/exceptions/base.py`. They are silent while Ensue asks, in its thread;
what the user asks of Spark is logged as ever.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from pyspark.logger import PySparkLogger

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_asking: ContextVar[bool] = ContextVar("asking", default=False)


class _NotWhileAsking(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not _asking.get()


_FILTER = _NotWhileAsking()


@contextmanager
def asking() -> Iterator[None]:
    """Exceptions of Spark inside are answers to Ensue, not news for the user."""
    for name in _LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_FILTER)  # a filter is there once at most
    before = _asking.set(True)
    try:
        yield
    finally:
        _asking.reset(before)


@contextmanager
def jvm_log() -> Iterator[Path]:
    """A JVM that is started inside writes its log and its warnings to a file, for its whole life.

    Its standard error is ours, and it writes there before any setting of Spark has been read.
    """
    handle, name = tempfile.mkstemp(prefix="ensue-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield Path(name)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(handle)
