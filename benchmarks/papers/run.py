"""Runs the benchmarks behind the papers' figures and keeps their points."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from benchmarks.harness import OUT, say
from benchmarks.papers import KEPT

# What each benchmark writes, and its quick and full size: rows, runs or streams.
JOBS: dict[str, tuple[tuple[str, ...], tuple[int, int], tuple[int, int]]] = {
    "afa8": (("afa8",), (20_000, 1), (100_000, 3)),
    "afa9": (("afa9",), (30_000, 1), (100_000, 3)),
    "afa10": (("afa10",), (10_000, 1), (100_000, 3)),
    "afa12": (("afa12",), (20_000, 1), (100_000, 3)),
    "afa16": (("afa16",), (20_000, 1), (100_000, 3)),
    "acep-figures5-8": (("acep-figures5-8",), (8_000, 1), (20_000, 3)),
    "acep-figures9-16": (("acep-figures9-16", "acep-memory"), (20_000, 1), (40_000, 3)),
    "acep-figure17": (("acep-figure17",), (20_000, 1), (40_000, 3)),
    "suse-figure7": (("suse-figure7",), (10_000, 1), (25_000, 50)),
    "suse-figure8": (("suse-figure8",), (2_000, 1), (2_000, 10)),
    "suse-figure9": (("suse-figure9",), (5_000, 1), (25_000, 50)),
    "suse-figure10": (("suse-figure10",), (4_600, 1), (100_000, 3)),
    "suse-figure11": (("suse-figure11",), (8_192, 1), (8_192, 3)),
    "suse-figure12": (("suse-figure12",), (10_000, 1), (50_000, 1)),
    "suse-figure13": (("suse-figure13",), (10_000, 1), (50_000, 1)),
    "sharp-figure4": (("sharp-figure4",), (10_000, 1), (10_000, 1)),
    "sharp-figure5": (("sharp-figure5",), (3_000, 1), (10_000, 1)),
    "sharp-figure6": (("sharp-figure6",), (10_000, 1), (10_000, 1)),
    "sharp-figure8": (("sharp-figure8",), (10_000, 1), (10_000, 1)),
    "sharp-figure9": (("sharp-figure9",), (10_000, 1), (10_000, 1)),
    "sharp-figure10": (("sharp-figure10",), (2_500, 1), (10_000, 1)),
    "sharp-figure11": (("sharp-figure11",), (10_000, 1), (16_000, 1)),
    "sharp-figure12": (("sharp-figure12",), (10_000, 1), (10_000, 1)),
    "sharp-figure14": (("sharp-figure14",), (3_000, 1), (10_000, 1)),
    "sharp-figure15": (("sharp-figure15",), (14_000, 1), (14_000, 1)),
    "graph-budget": (("graph-budget",), (1, 1), (1, 1)),
    "quantify": (("quantify-length", "quantify-size"), (1_000_000, 1), (10_000_000, 3)),
}
NEEDS_DATA = {"suse-figure12", "suse-figure13", "sharp-figure5", "graph-budget"}
READS_DATA = NEEDS_DATA | {"sharp-figure6"}


def run(settings: Any, names: list[str], full: bool, with_data: bool) -> None:
    from benchmarks.__main__ import BENCHMARKS

    for name in names or list(JOBS):
        writes, *sizes = JOBS[name]
        rows, repeat = sizes[full]
        command = f"./dev bench {name} --rows {rows} --repeat {repeat}"
        if with_data and name in READS_DATA:
            command += " --data DIR"
        say(command)
        for point in writes:
            (OUT / "points" / f"{point}.json").unlink(missing_ok=True)
        BENCHMARKS[name](replace(settings, rows=rows, repeat=repeat))
        for point in writes:
            path = OUT / "points" / f"{point}.json"
            if not path.exists():
                say(f"{point}: nothing to keep" + " (give --data)" * (name in NEEDS_DATA))
                continue
            record = json.loads(path.read_text())
            write(point, {"command": command, **record})


def write(name: str, record: dict[str, Any]) -> None:
    """A record with one row a line, so that a change shows as one."""
    KEPT.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(json.dumps(_rounded(row)) for row in record.pop("rows"))
    head = json.dumps(record, indent=1)[:-2]
    (KEPT / f"{name}.json").write_text(f'{head},\n "rows": [\n{rows}\n ]\n}}\n')


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()}
