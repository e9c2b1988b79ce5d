"""The combinations of `./dev matrix` say what pyproject.toml promises."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "tools")
    import matrix

    yield matrix
    for name in ("matrix", "environments"):
        sys.modules.pop(name, None)


def test_the_oldest_combination_is_the_lower_bounds(matrix: Any) -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = [
        *PROJECT["dependencies"],
        *(line for e in extras if e not in ("dev", "test") for line in extras[e]),
    ]
    bounds = dict(re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(wanted), re.MULTILINE))
    oldest = next(c for c in matrix.COMBINATIONS if c.name == matrix.OLDEST)
    for name, bound in bounds.items():
        installed = oldest.versions[name].split(".")
        asked = bound.split(".")
        assert installed[: len(asked)] == asked, name
        assert all(part == "0" for part in installed[len(asked) :]), name
    assert f">={oldest.python}" == PROJECT["requires-python"]


def test_every_python_and_spark_claimed_is_in_a_combination(matrix: Any) -> None:
    pythons = {combination.python for combination in matrix.COMBINATIONS}
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert set(claimed) <= pythons
    sparks = [c.versions.get("pyspark", "") for c in matrix.COMBINATIONS]
    assert {spark[:3] for spark in sparks if spark} == {"4.0", "4.1", "4.2"}
    assert "pyspark==4.3" in (ROOT / "constraints.txt").read_text()


def test_a_combination_replaces_versions_and_keeps_the_rest(matrix: Any) -> None:
    oldest = next(c for c in matrix.COMBINATIONS if c.name == matrix.OLDEST)
    lines = oldest.constraints().splitlines()
    assert "pyspark==4.0.0" in lines
    assert sum(line.startswith("pyspark==") for line in lines) == 1
    assert any(line.startswith("pytest==") for line in lines)
    assert not any(line.startswith("py4j==") for line in lines)


def test_the_workflow_runs_every_combination(matrix: Any) -> None:
    text = (ROOT / ".github" / "workflows" / "matrix.yml").read_text()
    run = dict(re.findall(r'combination: ([\w.-]+), python: "([\d.]+)"', text))
    assert run == {c.name: c.python for c in matrix.COMBINATIONS}
