"""`ensue.tune`, and `ensue doctor`: settings that help, and what runs where."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from ensue import errors
from ensue.api.tables import is_spark
from ensue.java import find_java

_PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "numba", "sqlglot")
_EXTRAS = {"duckdb": "sql", "polars": "polars", "z3-solver": "solver", "matplotlib": "plot"}
NO_SPARK = (
    "No Spark: tables in process need none; for DataFrames and streams: pip install 'ensue[spark]'"
)


def tune(spark: Any, apply: bool = False) -> Any:
    """Which settings of a session help Ensue, which are set, and what runs on its executors.

    Prints as a list; `apply=True` sets what helps, for this session. Runs two small jobs.

    Examples:
        >>> print(ensue.tune(spark))  # doctest: +SKIP
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
    """This machine, as far as it can be known without Spark."""
    from ensue.kernel_cache import kernels_line
    from ensue.kernels.given import given

    lines = [f"  Python {platform.python_version()} ({sys.executable})"]
    try:
        lines.append(f"  {find_java().describe()}")
    except errors.JavaNotFoundError as problem:
        lines.append(f"! {problem}".replace("\n", "\n  "))
    there = ", ".join(map(_version, _PACKAGES))
    more = ", ".join(
        f"{_version(name)} (extra {extra!r})" if _version(name)[:3] == "no " else _version(name)
        for name, extra in _EXTRAS.items()
    )
    shared = given()
    lines += [f"  {there}", f"  {more}", f"  {kernels_line()}"]
    return lines if shared is None else [*lines, f"  {shared.describe()}"]


def has_spark() -> bool:
    return find_spec("pyspark") is not None


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"no {package}"
