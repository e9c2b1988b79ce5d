"""Classes of the library, found by walking its modules."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import ensue

TAKES = ("insert", "change", "step")  # events, or what became of them
ANSWERS = ("end", "advance", "snapshot", "save", "to_bytes", "result")


def classes() -> Iterator[type]:
    """All that are defined in the library, protocols left out."""
    for module in pkgutil.walk_packages(ensue.__path__, "ensue."):
        if "__main__" in module.name:
            continue
        for thing in vars(importlib.import_module(module.name)).values():
            own = inspect.isclass(thing) and thing.__module__ == module.name
            if own and not getattr(thing, "_is_protocol", False):
                yield thing


def operators() -> set[type]:
    """Those that take events in and keep something until they are asked, ended or saved."""
    return {
        found
        for found in classes()
        if not inspect.isabstract(found)
        and any(hasattr(found, name) for name in TAKES)
        and any(hasattr(found, name) for name in ANSWERS)
    }
