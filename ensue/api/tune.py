"""`ensue.tune`, and `ensue doctor`: settings that help, and what runs where."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

from ensue import errors
from ensue.api.tables import is_spark
from ensue.java import find_java

_PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "numba", "sqlglot")


def tune(spark: Any, apply: bool = False) -> Any:
    """Which settings of a session help Ensue, which are set, and what runs on its executors.

    Prints as a list; `apply=True` sets what helps, for this session. Runs two small jobs.
    """
    from ensue.run.spark.tune import tune as on_spark

    return on_spark(spark, apply)


def settings_lines(data: Any) -> str:
    """The settings of Spark that matter to the plan, where Spark will run it."""
    if not is_spark(data):
        return ""
    from ensue.run.spark.tune import plan_lines

    return "\n".join(plan_lines(data)) + "\n"


def doctor_lines() -> list[str]:
    """This machine, as far as it can be told without Spark."""
    from ensue.kernel_cache import kernels_line

    lines = [f"  Python {platform.python_version()} ({sys.executable})"]
    try:
        lines.append(f"  {find_java().describe()}")
    except errors.JavaNotFoundError as problem:
        lines.append(f"! {problem}".replace("\n", "\n  "))
    versions = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    return [*lines, f"  {', '.join(versions)}", f"  {kernels_line()}"]
