"""A test run goes on when one of its workers dies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_xdist_make_scheduler

_CONFIG: Any = SimpleNamespace(
    getvalue=lambda name: ["2*popen"], option=SimpleNamespace(loadscopereorder=True)
)


class _Worker:
    """As an xdist worker: it runs a test when it knows the next one, or that there is none."""

    def __init__(self) -> None:
        self.queue: list[int] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, indices: list[int]) -> None:
        self.queue += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def _run(tests: list[str], fatal: set[str]) -> list[str]:
    """What ran, in this order: two workers take turns, one that dies is replaced."""
    scheduler: Any = pytest_xdist_make_scheduler(_CONFIG, None)
    ran: list[str] = []

    def started() -> _Worker:
        worker = _Worker()
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
        return worker

    workers = [started(), started()]
    scheduler.schedule()
    while True:
        ready = [w for w in workers if len(w.queue) > 1 or (w.queue and w.shutting_down)]
        if not ready:
            return ran
        worker = ready[len(ran) % len(ready)]
        index = worker.queue.pop(0)
        ran.append(tests[index])
        if tests[index] in fatal:
            assert scheduler.remove_node(worker) == tests[index]
            workers[workers.index(worker)] = started()
            scheduler.schedule()
        else:
            scheduler.mark_test_complete(worker, index)


@pytest.mark.parametrize("fatal", [set(), {"t0"}, {"t5"}, {"t9"}, {"t0", "t3", "t8"}])
def test_all_other_tests_run_once(fatal: set[str]) -> None:
    alone = [f"t{n}" for n in range(10)]
    together = [f"unit/test_paths.py::t{n}" for n in range(4)]
    tests = [*together, *alone]
    assert sorted(_run(tests, fatal)) == sorted(tests)
    assert sorted(_run(tests, {together[1], *fatal})) == sorted(tests)
