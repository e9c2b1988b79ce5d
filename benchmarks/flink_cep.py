"""The peer for event patterns: FlinkCEP's own automaton, driven without Flink's runtime.

`FlinkSequences.java` feeds one letter per event to the classes in the jars of `apache-flink` and
counts the matches of `A followedByAny B followedByAny ...`; the CPU time is that of its one thread.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from benchmarks import flink
from benchmarks.harness import Measurement, say
from ensue.java import find_java

HERE = Path(__file__).parent
NAME = "FlinkCEP, without its runtime"


def available() -> bool:
    """Flink's jars are here (`--peer flink` brings them) and so is a compiler."""
    return shutil.which("javac") is not None and flink.VENV.exists()


def run(letters: str, window: int, steps: str = "ABC", limit: int = 600) -> Measurement:
    """Matches of the steps, any events between, the last at most `window` rows after the first."""
    jars = sorted((flink.VENV / "lib").glob("python*/site-packages/pyflink/lib/*.jar"))
    path = ":".join(str(jar) for jar in jars if "table" not in jar.name)
    out = HERE / "out" / "classes"
    out.mkdir(parents=True, exist_ok=True)
    source = HERE / "FlinkSequences.java"
    subprocess.run(["javac", "-cp", path, "-d", str(out), str(source)], check=True)
    data = out / "events.txt"
    data.write_text(letters)
    say(f"FlinkCEP on {find_java().describe()}")
    given = ["FlinkSequences", str(data), str(window), steps]
    begin = time.perf_counter()
    done = subprocess.run(
        ["java", "-Xmx4g", "-cp", f"{path}:{out}", *given],
        capture_output=True,
        text=True,
        check=True,
        timeout=limit,
    )
    matches, seconds = done.stdout.split()[-2:]
    measured = Measurement(NAME, len(letters))
    measured.wall.append(time.perf_counter() - begin)
    measured.cpu.append(float(seconds))
    measured.others.append(0.0)
    measured.answer = int(matches)
    return measured
