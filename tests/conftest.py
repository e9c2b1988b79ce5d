"""What all tests share."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without compiled kernels, leave out what is about speed or size: it would take hours."""
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        return
    kept = [item for item in items if item.get_closest_marker("compiled") is None]
    left_out = [item for item in items if item.get_closest_marker("compiled") is not None]
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
