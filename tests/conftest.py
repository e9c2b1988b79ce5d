"""What all tests share."""

from __future__ import annotations

import os
from zlib import crc32

import pytest

# Tests of one group run in one process, so that two do not compile the same kernels at once. A
# test belongs to the first group of which a part stands in its name.
COMPILED_TOGETHER = {
    "shared": ("test_workload", "test_sharp", "[shared", "a_workload_has"),
    "summary": ("test_summary", "[summary", "[summaries"),
    "missing": ("test_acep", "[missing", "[approximate"),
    "revision": ("test_revision", "test_automaton", "[automaton", "[revision"),
    "quantities": ("test_quantify", "[quantif"),
    "paths": ("test_paths",),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample", type=int, default=1, metavar="N", help="run one test in N, chosen by its name"
    )
    parser.addoption(
        "--sample-forced", type=int, default=1, metavar="N",
        help="run one in N of the tests that force an engine which others test as well",
    )  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a sample leaves out and, without compiled kernels, what is about speed."""
    share = config.getoption("sample")
    forced_share = config.getoption("sample_forced")
    plain = os.environ.get("NUMBA_DISABLE_JIT") == "1"

    def runs(item: pytest.Item) -> bool:
        if plain and item.get_closest_marker("compiled") is not None:
            return False  # it would take hours
        forced = item.get_closest_marker("forced") is not None
        return crc32(item.nodeid.encode()) % (share * (forced_share if forced else 1)) == 0

    kept = [item for item in items if runs(item)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not runs(item)])
        items[:] = kept
    for item in items:
        if "tests/spark/" not in item.nodeid and not plain:
            _mark_group(item)


def _mark_group(item: pytest.Item) -> None:
    for group, parts in COMPILED_TOGETHER.items():
        if any(part in item.nodeid for part in parts):
            item.add_marker(pytest.mark.xdist_group(group))
            return
