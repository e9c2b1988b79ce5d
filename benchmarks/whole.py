"""`./dev bench quick`: one benchmark of each kind at a small size, and one table of all aims.

A part that fails is told and does not stop the others. `--keep` writes the table with the cost of
each part to `results/quick.jsonl`: a line for the run, one for each part, one for each aim.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.harness import lines_of, machine, say, show
from benchmarks.processes import Clock
from benchmarks.rows import Settings

LONGEST = 20.0  # minutes, for all of it

# Rows of each part; None: its own size.
PARTS: dict[str, int | None] = {
    "w1": None,
    "w2": None,
    "sequences": 200_000,
    "sequences-totals": None,
    "many-rows": 20_000,
    "prefilter": None,
    "stream": 200_000,
    "quantify": None,
    "afa": 20_000,
    "suse": None,
    "replay": 100_000,
    "graph-large": 1_000_000,
    "long": None,
    "growth": None,
    "shapes": None,
    "cold": None,
}


def run(
    benchmarks: Mapping[str, Callable[[Settings], bool]],
    settings: Settings,
    parts: Mapping[str, int | None] | None = None,
) -> list[dict[str, Any]]:
    """Runs the parts and prints the table; what `keep` writes."""
    told: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    begin = time.perf_counter()
    for name, rows in (PARTS if parts is None else parts).items():
        since, failed = time.time(), ""
        with Clock() as clock:
            try:
                benchmarks[name](replace(settings, rows=rows, repeat=1))
            except Exception as problem:  # the other parts are worth having
                traceback.print_exc()
                failed = f"{type(problem).__name__}: {problem}"
        told.append({"part": name, "rows": rows, "cpu": clock.cpu, "wall": clock.wall})
        say(f"{name}: {clock.cpu:.0f} CPU s, {clock.wall:.0f} s")
        if failed:
            told[-1]["failed"] = failed
            lines.append(_whole(f"{name} runs", failed.splitlines()[0], "", False))
        written = [path for path in harness.OUT.glob("*.json") if path.stat().st_mtime >= since]
        lines += [line for path in sorted(written) for line in lines_of(path)]
    minutes = (time.perf_counter() - begin) / 60
    if parts is None:
        met = minutes <= LONGEST
        lines.append(_whole("minutes", f"{minutes:.1f}", f"≤ {LONGEST:.0f}", met))
    show(lines)
    return [machine(), *told, *lines]


def keep(records: list[dict[str, Any]], folder: Path) -> None:
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records)
    (folder / "quick.jsonl").write_text(text)


def _whole(what: str, ours: str, aim: str, met: bool) -> dict[str, Any]:
    return harness.line("the whole table", what, ours, "", "", aim, met)
