"""The peer: Flink SQL's MATCH_RECOGNIZE on the same rows, in an environment of its own.

The PyPI package pins versions of numpy, pyarrow and protobuf that ours cannot share, so it lives
in `benchmarks/.venv-flink`, made on the first use (about 850 MB). It brings Flink's jars, flink-cep
and the CSV connector among them. Wheels exist for Python up to 3.12; tried with 3.11 and Java 17.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.csv

from benchmarks.harness import WARM_UP, Measurement, say
from ensue.java import find_java

HERE = Path(__file__).parent
VENV = HERE / ".venv-flink"
PYTHON = VENV / "bin" / "python"
PACKAGE = "apache-flink==2.3.0"
NEWEST_PYTHON = (3, 12)


def run(
    workload: str, table: pa.Table, data: Path, repeat: int, mode: str = "batch"
) -> tuple[Measurement, Measurement]:
    """(reading only, matching) of a workload in Flink, in batch or streaming mode, on two cores."""
    _install()
    path = data / f"{workload}-{table.num_rows}-{mode}.csv"  # a stream's rows are in order of time
    if not path.exists():
        _write_csv(table, path)
    java = find_java()
    say(f"Flink: {WARM_UP} runs to warm up and {repeat} measured, on {java.describe()}")
    command = [PYTHON, "-m", "benchmarks.flink_job", workload, path, WARM_UP, repeat, 2, mode]
    done = subprocess.run(
        [str(part) for part in command],
        cwd=HERE.parent,
        env={**os.environ, "JAVA_HOME": str(java.path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit("bench: Flink failed; its own message is above.")
    read = Measurement("Flink, reading only", table.num_rows)
    match = Measurement("Flink", table.num_rows)
    for line in done.stdout.splitlines():
        if not line.startswith("{"):
            continue
        told = SimpleNamespace(**json.loads(line))
        measured = match if told.query == "match" else read
        measured.answer = told.answer
        if not told.warm_up:
            measured.add(told)
    return read, match


def _install() -> None:
    stamp = VENV / ".installed"
    if stamp.exists() and stamp.read_text() == PACKAGE:
        return
    python = _python()
    say(f"making {VENV.relative_to(HERE.parent)} with {PACKAGE} (once; some minutes, 850 MB)")
    steps = [
        [python, "-m", "venv", str(VENV)],
        [str(PYTHON), "-m", "pip", "install", "--quiet", PACKAGE],
    ]
    for step in steps:
        if subprocess.run(step, check=False).returncode:
            raise SystemExit(
                f"bench: {' '.join(step)} failed; its own message is above.\n"
                "What to do: check the network and pip's settings, then try again; or leave out "
                "--peer flink."
            )
    stamp.write_text(PACKAGE)


def _python() -> str:
    if sys.version_info[:2] <= NEWEST_PYTHON:
        return sys.executable
    for name in ("python3.12", "python3.11", "python3.10"):
        found = shutil.which(name)
        if found and subprocess.run([found, "-c", ""], check=False).returncode == 0:
            return found
    raise SystemExit(
        f"bench: {PACKAGE} needs a Python of at most {'.'.join(map(str, NEWEST_PYTHON))}, and "
        "none is on PATH.\nWhat to do: install one, or leave out --peer flink."
    )


def _write_csv(table: pa.Table, path: Path) -> None:
    # Without a zone: Flink's TIMESTAMP has none, and its job runs in UTC.
    position = table.schema.get_field_index("ts")
    plain = table["ts"].cast(pa.timestamp("ms"))
    draft = path.with_suffix(".draft")
    options = pa.csv.WriteOptions(include_header=False)
    pa.csv.write_csv(table.set_column(position, "ts", plain), draft, options)
    draft.replace(path)
