"""The lines of `./dev bench budgets`: kept as they are measured, summed up, and as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.harness import CONSOLE, KEPT, OUT, Target, machine

SHARES = (50, 20, 10)
SEEDS = 400
PAGE = Path(__file__).resolve().parents[1] / "docs" / "budgets.md"
Recall = tuple[float | None, float | None, float | None]
_HEADER = """\
# What a bound in time gives

All that is best effort, under bounds of 50, 20 and 10 % of the time of the run without a bound.
`./dev bench budgets --data DIR --repeat 10 --keep` measures stream by stream on seeds that no
constant was chosen on, keeps every run in `benchmarks/results/budgets/lines.json`, goes on where
it was stopped, and writes this page.

- **Recall** is the share of the exact answer's matches that was found; of patterns with events
  missing also that of *bundles*, matches whose ends lie within one window. Mean over the seeds,
  and the least.
- **CPU** is that of the whole call over that of the call without a bound (the least of two each),
  mean and greatest. Where an exact answer takes less than choosing would, it is given: recall 1
  at a CPU of 1 to 1.6, and the report says so.
- **p95** is the 95th percentile of the time per event over that of the run without a bound, in a
  matcher that takes 250 events at a time; **KB** is what it holds in the end. Both on the first
  seed, where there is a matcher.
- **Covered**: in how many runs the interval of the reported recall held the truth, of those that
  told one; its mean width. The interval of an exact answer is a point, and counts.
- **Baselines** have the same share of the work, on the first seed.

SuSe's bound is its size as a share of the events, not a time. The machine has two cores and was
busy; of CPU seconds below 50 ms, as here in most lines, a ratio is good to about a tenth.
"""


@dataclass
class Line:
    """One run under one bound."""

    what: str
    stream: str
    share: int
    seed: int
    recall: float
    cpu: float  # of the unbounded call's
    p95: float | None = None
    held: int | None = None  # bytes
    told: Recall = (None, None, None)
    bundles: float | None = None  # the share of match bundles, where matches have any
    false: int = 0
    others: Mapping[str, float] = field(default_factory=dict)

    @property
    def covered(self) -> bool | None:
        _, low, high = self.told
        if low is None or high is None:
            return None
        return low - 1e-6 <= self.recall <= high + 1e-6

    @property
    def width(self) -> float | None:
        _, low, high = self.told
        return None if low is None or high is None else high - low


class Kept:
    """What was measured, in a file that grows with every line."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self._path = (KEPT if keep else OUT) / "budgets" / "lines.json"
        known = json.loads(self._path.read_text())["lines"] if self._path.exists() else []
        self.lines = [_line(line) for line in known]

    def has(self, what: str, stream: str, seed: int) -> bool:
        mine = [1 for k in self.lines if (k.what, k.stream, k.seed) == (what, stream, seed)]
        return len(mine) == len(SHARES)

    def add(self, line: Line) -> None:
        same = (line.what, line.stream, line.seed, line.share)
        self.lines = [k for k in self.lines if (k.what, k.stream, k.seed, k.share) != same]
        self.lines.append(_line(_short(json.loads(json.dumps(asdict(line), default=float)))))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        rows = ",\n".join(json.dumps(asdict(k)) for k in self.lines)
        head = json.dumps({"machine": machine()})[:-1]
        self._path.write_text(f'{head}, "lines": [\n{rows}\n]}}\n')
        if self._keep:
            PAGE.write_text(page(self.lines))


def _line(known: dict[str, Any]) -> Line:
    return Line(**{**known, "told": tuple(known["told"])})


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    return [_short(each) for each in value] if isinstance(value, list | tuple) else value


# -- the table -------------------------------------------------------------------------------------

COLUMNS = (
    "stream, bound", "seeds", "recall", "least", "bundles", "CPU", "most", "p95", "KB", "covered",
    "width", "false", "baselines",
)  # fmt: skip


def _rows(lines: list[Line]) -> Iterator[tuple[str, list[str]]]:
    """What is measured, and the cells of a row."""
    for what, stream, share in dict.fromkeys((k.what, k.stream, k.share) for k in lines):
        mine = [k for k in lines if (k.what, k.stream, k.share) == (what, stream, share)]
        told = [k.covered for k in mine if k.covered is not None]
        widths = [k.width for k in mine if k.width is not None]
        bundles = [k.bundles for k in mine if k.bundles is not None]
        others = {name: value for k in mine for name, value in k.others.items()}
        p95 = next((k.p95 for k in mine if k.p95 is not None), None)
        held = next((k.held for k in mine if k.held is not None), None)
        yield what, [
            f"{stream}, {share} %", str(len(mine)),
            _part(np.mean([k.recall for k in mine])), _part(min(k.recall for k in mine)),
            _part(np.mean(bundles)) if bundles else "",
            f"{np.mean([k.cpu for k in mine]):.2f}", f"{max(k.cpu for k in mine):.2f}",
            "" if p95 is None else f"{p95:.2f}", "" if held is None else f"{held / 1024:,.0f}",
            f"{sum(told)} of {len(told)}" if told else "none told",
            f"{np.mean(widths):.2f}" if widths else "", str(sum(k.false for k in mine)),
            ", ".join(f"{name} {_part(value)}" for name, value in others.items()),
        ]  # fmt: skip


def show(lines: list[Line]) -> None:
    table = Table(title="Bounds in time", title_justify="left", title_style="bold")
    for index, column in enumerate(COLUMNS[:-1]):
        table.add_column(column, justify="right" if index else "left")
    for what, cells in _rows(lines):
        table.add_row(f"{what}: {cells[0]}", *cells[1:-1])
    CONSOLE.print(table)


def page(lines: list[Line]) -> str:
    parts, last = [_HEADER], ""
    for what, cells in _rows(sorted(lines, key=lambda k: (k.what, k.stream, -k.share, k.seed))):
        if what != last:
            last = what
            parts.append(f"\n## {what}\n\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n")
        parts.append(f"| {' | '.join(cells)} |\n")
    parts.append("\n## What was aimed at\n\n| aim | measured | asked | |\n|---|---|---|---|\n")
    for aim in _targets(lines):
        asked = f"{'≤' if aim.at_most else '≥'} {aim.limit:g}"
        parts.append(
            f"| {aim.name} | {aim.value:.3g} | {asked} | {'met' if aim.met else 'missed'} |\n"
        )
    return "".join(parts)


def judged(lines: list[Line]) -> bool:
    targets = _targets(lines)
    for target in targets:
        CONSOLE.print(f"  {target}", style="green" if target.met else "yellow", highlight=False)
    return all(target.met for target in targets)


def _targets(lines: list[Line]) -> list[Target]:
    told = [line for line in lines if line.covered is not None]
    targets = [Target("false matches", float(sum(line.false for line in lines)), 0.0)]
    if told:
        inside = sum(bool(line.covered) for line in told) / len(told)
        targets.append(Target("share of intervals that hold the truth", inside, 0.95, False))
    for share in SHARES:
        mine = [line for line in lines if line.share == share and line.what != "SuSe"]
        if mine:
            most = max(line.cpu for line in mine)
            targets.append(
                Target(f"CPU of a call under {share} %, at most", most, share / 100 + 0.05)
            )
            over = sum(line.cpu > 1.05 for line in mine) / len(mine)
            targets.append(Target(f"share of calls under {share} % above the unbounded", over, 0.0))
    bundles = [line.bundles for line in lines if line.share == 10 and line.bundles is not None]
    if bundles:
        mean = float(np.mean(bundles))
        targets.append(Target("RC-ACEP: bundles at 10 %, on average", mean, 0.9, False))
    for share, least in zip(SHARES, (0.97, 0.9, 0.7), strict=True):
        mine = [line for line in lines if line.share == share and line.what == "SHARP"]
        if mine:
            mean = float(np.mean([line.recall for line in mine]))
            targets.append(Target(f"SHARP: recall at {share} %, on average", mean, least, False))
    return targets


def _part(value: Any) -> str:
    return f"{100 * float(value):.1f} %" if value >= 1e-3 or not value else f"{float(value):.1e}"
