"""Comparisons with other engines, kept as data: `./dev bench peers [NAME...]`.

Each comparison runs both sides on this machine, in one command, on the same rows, and checks that
the answers agree; CPU seconds count the process and all below it. Peers live in folders of their own
below `benchmarks/data/peers`, installed on first use. Where a peer cannot be run, its published
figures stand beside ours, and the page says so. `docs/peers.md` is written from what is kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import Measurement, machine, say
from benchmarks.processes import Clock

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "benchmarks" / "results" / "peers"
INSTALLED = ROOT / "benchmarks" / "data" / "peers"


@dataclass
class Line:
    """One engine at one task; `answer` is what both sides must agree on, None where they cannot."""

    task: str
    engine: str
    cpu: float | None
    wall: float | None
    answer: Any = None
    note: str = ""


@dataclass
class Record:
    lines: list[Line]
    versions: dict[str, str] = field(default_factory=dict)


def timed(task: str, call: Callable[[], Any], repeat: int = 3) -> Line:
    """Ours: medians after a run that compiles."""
    answer = call()
    cpu, wall = [], []
    for _ in range(repeat):
        with Clock() as clock:
            answer = call()
        cpu.append(clock.cpu)
        wall.append(clock.wall)
    return Line(task, "Ensue", median(cpu), median(wall), answer)


def of_measurement(task: str, measured: Measurement, answer: Any = None) -> Line:
    said = measured.answer if answer is None else answer
    return Line(task, measured.name, measured.cpu_median, measured.wall_median, said)


def installed(name: str, *packages: str) -> Path | None:
    """The folder of a peer's packages; None where they cannot be had."""
    folder = INSTALLED / name
    if not folder.exists():
        say(f"installing {' '.join(packages)} into {folder.relative_to(ROOT)} (once)")
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *packages]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            say(f"{' '.join(packages)} could not be installed")
            return None
    return folder


def apart(folder: Path, script: str, *given: Any, limit: int = 900) -> list[Line]:
    """Lines that a script prints as JSON, run in a process of its own with the peer's packages."""
    path = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]\n"
    done = subprocess.run(
        [sys.executable, "-c", path + _TIMED + script, *map(str, given)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=limit,
    )
    return [Line(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]


# What every script has: `timed(task, engine, call)` prints medians after one run to warm up.
_TIMED = """
import json
from statistics import median
from benchmarks.processes import Clock

def timed(task, engine, call, repeat=3, warm_up=1):
    cpu, wall = [], []
    for number in range(warm_up + repeat):
        with Clock() as clock:
            answer = call()
        if number >= warm_up:
            cpu.append(clock.cpu)
            wall.append(clock.wall)
    told = {"task": task, "engine": engine, "cpu": median(cpu), "wall": median(wall)}
    print(json.dumps(told | {"answer": answer}))
"""


def version(folder: Path, package: str) -> str:
    found = sorted(folder.glob(f"{package.replace('-', '_')}-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else "unknown"


def disagreements(record: Record) -> list[str]:
    """Tasks in which engines that answered did not answer alike."""
    answers: dict[str, set[str]] = {}
    for line in record.lines:
        if line.answer is not None:
            answers.setdefault(line.task, set()).add(json.dumps(line.answer))
    return [task for task, found in answers.items() if len(found) > 1]


def keep(name: str, command: str, record: Record) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    lines = [vars(line) | {k: _short(v) for k, v in vars(line).items()} for line in record.lines]
    rows = ",\n".join(json.dumps(line) for line in lines)
    head = {"command": command, "machine": machine(), "versions": record.versions}
    text = json.dumps(head, indent=1)[:-2]
    (KEPT / f"{name}.json").write_text(f'{text},\n "lines": [\n{rows}\n ]\n}}\n')


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
