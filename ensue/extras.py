"""Packages that `pip install ensue` leaves out, and the extra that brings each.

`needed` is called where such a package is used, never when a module is loaded, except in
`ensue.run.spark`, all of which is about pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ensue import errors

# Package to extra; a test compares it with pyproject.toml.
EXTRAS = {
    "anywidget": "studio",
    "duckdb": "sql",
    "langchain_core": "graphrag",
    "llama_index": "graphrag",
    "matplotlib": "plot",
    "pyspark": "spark",
    "starlette": "studio",
    "uvicorn": "studio",
    "z3": "solver",
}


def needed(package: str, purpose: str) -> Any:
    """The package, or an error that says which extra brings it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as problem:
        if (problem.name or "").split(".")[0] != package:
            raise  # the package is there, and something that it needs is not
        raise errors.MissingExtraError(
            f"{purpose} needs {package}, which is not installed",
            remedy=f"pip install 'ensue[{EXTRAS[package]}]'",
        ) from None
