"""What all tests share."""

from __future__ import annotations

import os
from zlib import crc32

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample", type=int, default=1, metavar="N", help="run one test in N, chosen by its name"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a sample leaves out and, without compiled kernels, what is about speed."""
    share = config.getoption("sample")
    plain = os.environ.get("NUMBA_DISABLE_JIT") == "1"

    def runs(item: pytest.Item) -> bool:
        if plain and item.get_closest_marker("compiled") is not None:
            return False  # it would take hours
        return crc32(item.nodeid.encode()) % share == 0

    kept = [item for item in items if runs(item)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not runs(item)])
        items[:] = kept
