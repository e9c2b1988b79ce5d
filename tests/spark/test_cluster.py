"""Spark standalone: a master and two workers, which have their Ensue from `ensue pack`.

The workers' Python has no Ensue, their homes and working folders are their own; the driver's
answers on the cluster are compared with those in its process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ensue


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster") / "nodes"


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_job", str(folder)],
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert told, done.stderr[-5000:]
    result: dict[str, Any] = json.loads(told[0].removeprefix("RESULT"))
    return result


@pytest.mark.parametrize("task", ["w1", "w2", "stream", "copy", "join"])
def test_the_same_answers(answers: dict[str, Any], task: str) -> None:
    there, here = answers[task]
    assert there == here
    assert len(here) > 2


def test_a_worker_that_dies_changes_nothing(answers: dict[str, Any]) -> None:
    busy, there, here = answers["killed"]
    assert busy
    assert there == here == answers["w1"][1]


def test_executors_without_ensue_say_so(answers: dict[str, Any]) -> None:
    """The session was there before `import ensue`, with a Python of its own."""
    kind, problem, remedy = answers["none"]
    assert kind == "ExecutorError"
    assert problem.endswith("has no Ensue")
    assert f"install ensue=={ensue.__version__}" in remedy
    assert "ensue pack" in remedy and "PYSPARK_PYTHON" in remedy


def test_executors_with_another_version_say_so(answers: dict[str, Any]) -> None:
    kind, problem, remedy = answers["other"]
    assert kind == "ExecutorError"
    assert problem.endswith(f"has Ensue {ensue.__version__}, and the driver has 99.0")
    assert "install ensue==99.0" in remedy


def test_a_node_unpacks_once_and_keeps_its_kernels(answers: dict[str, Any], folder: Path) -> None:
    for number in range(2):
        packed = folder / f"home-worker{number}" / ".cache/ensue/packed"
        # A worker killed while it unpacks leaves its draft, which has another name.
        unpacked = list(packed.glob(f"{ensue.__version__}-*"))
        assert len(unpacked) == 1
        assert list(unpacked[0].rglob("*.nbi"))
