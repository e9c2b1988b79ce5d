"""Runs variants of the same work side by side and reports them as ratios.

All variants of a benchmark run in one process, in turn, after a warm-up of each, so that what else
the machine does falls on all of them alike. Ratios are of medians. CPU seconds count this process
and everything below it (`processes.py`); on a busy machine they are the figure to trust, and the
column `others` says how busy it was: CPU seconds of everybody else while the variant ran.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.processes import Clock

WARM_UP = 3  # a JVM is still compiling its hot loops in the second and third run
OUT = Path(__file__).parent / "out"
KEPT = (
    Path(__file__).parent / "results"
)  # what `--keep` writes: a record per report, for all to see
CONSOLE = Console()


@dataclass
class Measurement:
    """One variant; `rows` are what a run processes, `answer` what it returned (the last run)."""

    name: str
    rows: int
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    answer: Any = None
    notes: dict[str, Any] = field(default_factory=dict)

    def add(self, clock: Clock | Any) -> None:
        self.wall.append(clock.wall)
        self.cpu.append(clock.cpu)
        self.others.append(clock.others)

    @property
    def wall_median(self) -> float:
        return median(self.wall)

    @property
    def cpu_median(self) -> float:
        return median(self.cpu)

    @property
    def rate(self) -> float:
        """Rows per second of CPU, that is per core."""
        return self.rows / max(self.cpu_median, 1e-9)


@dataclass
class Target:
    """A promise about one number, e.g. a ratio of at most 1.5."""

    name: str
    value: float
    limit: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        verdict = "met" if self.met else "MISSED"
        return (
            f"{self.name}: {_figure(self.value)} (target {sign} {_figure(self.limit)}): {verdict}"
        )


def compare(
    variants: Mapping[str, tuple[int, Callable[[], Any]]],
    *,
    repeat: int = 3,
    warm_up: int = WARM_UP,
) -> list[Measurement]:
    """Runs each variant (its rows and a call) in turn; the answer of the last run is kept."""
    found = [Measurement(name, rows) for name, (rows, _) in variants.items()]
    for number in range(warm_up + repeat):
        for measured, (_, call) in zip(found, variants.values(), strict=True):
            with Clock() as clock:
                measured.answer = call()
            if number >= warm_up:
                measured.add(clock)
    return found


def report(
    title: str,
    found: Sequence[Measurement],
    targets: Sequence[Target] = (),
    name: str = "",
    compared: bool = True,
) -> bool:
    """Prints the measurements against the first of them, writes files; whether targets are met.

    `compared`: the measurements are of the same work, so that `overview` shows their ratios.
    """
    base = found[0]
    notes = list(dict.fromkeys(key for measured in found for key in measured.notes))
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("variant")
    columns = ("rows", "wall s", "ratio", "CPU s", "ratio", "rows / CPU s", "others' CPU s", *notes)
    for column in columns:
        table.add_column(column, justify="right")
    for measured in found:
        table.add_row(
            measured.name,
            f"{measured.rows:,}",
            f"{measured.wall_median:.2f}",
            _figure(measured.wall_median / base.wall_median),
            f"{measured.cpu_median:.2f}",
            _figure(measured.cpu_median / max(base.cpu_median, 1e-9)),
            _figure(measured.rate),
            f"{median(measured.others):.1f}",
            *(str(measured.notes.get(key, "")) for key in notes),
        )
    CONSOLE.print(table)
    for target in targets:
        CONSOLE.print(f"  {target}", style="green" if target.met else "yellow", highlight=False)
    if name:
        _write(name, title, found, targets, compared)
    return all(target.met for target in targets)


def say(text: str) -> None:
    CONSOLE.print(f"· {text}", highlight=False)


def _figure(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.1f} M"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k"
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def overview(folder: Path) -> bool:
    """One table of all records in a folder: each promise beside its aim; whether all are met."""
    return show([each for path in sorted(folder.glob("*.json")) for each in lines_of(path)])


def show(lines: Sequence[Mapping[str, Any]]) -> bool:
    """Prints lines as one table; whether all aims are met."""
    table = Table(title="All benchmarks", title_justify="left", title_style="bold")
    table.add_column("benchmark")
    table.add_column("what")
    for column in ("ours", "peer or floor", "ratio", "aim", "met"):
        table.add_column(column, justify="right")
    for each in lines:
        met = {True: "yes", False: "[yellow]no[/yellow]", None: ""}[each["met"]]
        table.add_row(*(each[name] for name in list(each)[:-1]), met)
    CONSOLE.print(table)
    told = [each["met"] for each in lines if each["met"] is not None]
    say(f"{sum(told)} of {len(told)} aims met")
    return all(told)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Of a record: each promise beside its aim, or each comparison where nothing is promised."""
    record = json.loads(path.read_text())
    measured = [one for one in record["measurements"] if one["cpu"]]
    lines = []
    for target in record["targets"]:
        aim = f"{'≤' if target['at_most'] else '≥'} {_figure(target['limit'])}"
        value = _figure(target["value"])
        ours, other = _sides(measured, target["value"], target["at_most"])
        figures = (ours, other, value) if ours else (value, "", "")
        lines.append(line(path.stem, target["name"], *figures, aim, target["met"]))
    if not lines and record.get("compared", True):
        for one in measured[1:]:
            cpu, first = median(one["cpu"]), median(measured[0]["cpu"])
            what = f"{one['name']} ÷ {measured[0]['name']}"
            ratio = _figure(cpu / max(first, 1e-9))
            lines.append(line(path.stem, what, f"{cpu:.2f} s", f"{first:.2f} s", ratio, "", None))
    return lines


def line(
    benchmark: str, what: str, ours: str, other: str, ratio: str, aim: str, met: bool | None
) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        "what": what,
        "ours": ours,
        "peer or floor": other,
        "ratio": ratio,
        "aim": aim,
        "met": met,
    }


def _sides(measured: Sequence[Mapping[str, Any]], value: float, at_most: bool) -> tuple[str, str]:
    """The two measurements whose ratio a promise is about, ours first; empty where there are none.

    A ratio of times that is to be small has ours above the line, one that is to be large below.
    """
    pairs = [(one, other) for one in measured for other in measured if one is not other]
    for kind, rate in (("cpu", False), ("wall", False), ("cpu", True), ("wall", True)):
        for pair in pairs:
            times = [median(each[kind]) for each in pair]
            if min(times) <= 0:
                continue
            both = times if not rate else [e["rows"] / t for e, t in zip(pair, times, strict=True)]
            if not both[1] or not math.isclose(both[0] / both[1], value, rel_tol=1e-9):
                continue
            ours, peer = both if at_most is not rate else both[::-1]
            if rate:
                return f"{_figure(ours)} / s", f"{_figure(peer)} / s"
            return f"{ours:.2f} s", f"{peer:.2f} s"
    return "", ""


def _write(
    name: str,
    title: str,
    found: Sequence[Measurement],
    targets: Sequence[Target],
    compared: bool,
) -> None:
    OUT.mkdir(exist_ok=True)
    record = {
        "title": title,
        "compared": compared,
        "machine": machine(),
        "measurements": [vars(measured) for measured in found],
        "targets": [vars(target) | {"met": target.met} for target in targets],
    }
    (OUT / f"{name}.json").write_text(json.dumps(record, indent=1, default=str) + "\n")
    with (OUT / f"{name}.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["variant", "run", "rows", "wall", "cpu", "others"])
        for m in found:
            for run, figures in enumerate(zip(m.wall, m.cpu, m.others, strict=True), 1):
                writer.writerow([m.name, run, m.rows, *(f"{figure:.4f}" for figure in figures)])


def write_rows(name: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points of a figure to `out/NAME.csv`, and with the machine to `out/points/NAME.json`."""
    found = list(rows)
    (OUT / "points").mkdir(parents=True, exist_ok=True)
    with (OUT / f"{name}.csv").open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(dict.fromkeys(k for row in found for k in row)))
        writer.writeheader()
        writer.writerows(found)
    record = {"machine": machine(), "rows": found}
    (OUT / "points" / f"{name}.json").write_text(json.dumps(record, default=float) + "\n")
    return found


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    packages = ("pyspark", "pyarrow", "numpy", "numba")
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "when": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": described.stdout.strip(),
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in packages},
    }
