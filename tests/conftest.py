"""What all tests share."""

from __future__ import annotations

import os
from itertools import groupby
from typing import Any
from zlib import crc32

import pytest

from tests import numba_flags, share

# Tests of one group run in one process: two that compile the same kernels at once do it twice, and
# two servers of Spark Connect want the same port. A test belongs to the first group of which a part
# stands in its name.
TOGETHER = {
    "connect": ("spark/test_connect",),
    "cluster": ("spark/test_cluster",),
    "shared": ("/test_workload", "test_sharp", "matcher_workloads", "[shared", "under a budget"),
    "summary": ("unit/test_summary", "unit/test_late_summary", "[summary", "[summaries"),
    "missing": ("unit/test_acep", "[missing", "[approximate"),
    "revision": ("unit/test_revision", "lanes/test_automaton", "[automaton", "[revision"),
    "quantities": ("unit/test_quantify", "[quantif"),
    "paths": ("unit/test_paths",),
    "studio": ("studio/test_page",),
}


def group_of(nodeid: str) -> str:
    """The group of a test; its own name where it has none."""
    groups = (group for group, parts in TOGETHER.items() if any(p in nodeid for p in parts))
    return next(groups, nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By group: xdist's own marks of groups have no effect since pytest 9."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

        def remove_node(self, node: Any) -> Any:
            """The test that a worker died in, if any: it is over, and so is what ran before it. A
            worker that is given nothing but tests which are over never reports: the run hangs."""
            units = self.assigned_work[node]
            waiting = [(unit, test) for unit in units.values() for test in unit if not unit[test]]
            if not waiting:
                return super().remove_node(node)
            unit, died = waiting[0]
            unit[died] = True
            del self.assigned_work[node]
            self.workqueue.update({g: unit for g, unit in units.items() if not all(unit.values())})
            for other in self.registered_collections.keys() & self.assigned_work.keys():
                self._reschedule(other)
            return died

        def _reschedule(self, node: Any) -> None:
            """A worker runs a test only when it knows the next one, or that there is none."""
            while not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 2:
                super()._reschedule(node)

    return ByGroup(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample", type=int, default=1, metavar="N", help="run one test in N, chosen by its name"
    )
    parser.addoption(
        "--part", type=int, default=1, metavar="N",
        help="of what goes through many cases, take one case in N",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    os.environ[share.SETTING] = str(config.getoption("part"))
    numba_flags.compare_quickly()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a sample leaves out and, without compiled kernels, what is about speed."""
    sample = config.getoption("sample")
    plain = os.environ.get("NUMBA_DISABLE_JIT") == "1"

    def runs(item: pytest.Item) -> bool:
        if plain and item.get_closest_marker("compiled") is not None:
            return False  # it would take hours
        return crc32(item.nodeid.encode()) % sample == 0

    # The cases of one test stand together.
    tests = groupby(filter(runs, items), lambda item: item.nodeid.partition("[")[0])
    kept = [item for _, cases in tests for item in share.some(cases, lambda item: item.nodeid)]
    if len(kept) < len(items):
        names = {item.nodeid for item in kept}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
        items[:] = kept
