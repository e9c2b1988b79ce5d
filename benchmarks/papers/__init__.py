"""Every figure and table of the five papers, what the paper says of it, and what Ensue does.

`./dev bench papers` runs the benchmarks behind them at sizes that together take minutes, keeps the
points in `benchmarks/results/papers/` with the machine, the version and the command, and writes
`docs/papers.md` with its pictures from what is kept. `--full` takes the papers' own sizes, `--page`
only writes the page. A module of this package holds the figures of one paper.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chart import Chart, Points

KEPT = Path(__file__).resolve().parent.parent / "results" / "papers"
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the same of our points."""

    paper: str
    ours: Callable[[Rows], str]


@dataclass(frozen=True)
class Picture:
    """Curves over the points of a benchmark, averaged where several share a place."""

    title: str
    x: str
    y: str
    by: str | Callable[[dict[str, Any]], str]
    where: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # of the axes, where the columns' own do not say enough
    scale: float = 1.0
    log_x: bool = False
    log_y: bool = False
    paper: Mapping[str, Points] = field(default_factory=dict)

    def chart(self, rows: Rows) -> Chart:
        curves: dict[str, dict[Any, list[float]]] = {}
        for row in chosen(rows, **self.where):
            if row.get(self.y) is None:
                continue
            name = str(row[self.by] if isinstance(self.by, str) else self.by(row))
            curves.setdefault(name, {}).setdefault(row[self.x], []).append(float(row[self.y]))
        means = {
            name: [(x, self.scale * sum(ys) / len(ys)) for x, ys in points.items()]
            for name, points in curves.items()
        }
        x, y = self.names or (self.x, self.y)
        return Chart(self.title, x, y, means, self.paper, self.log_x, self.log_y)


@dataclass(frozen=True)
class Figure:
    """A figure or table. `points` names what its benchmark writes; none: `instead` says why."""

    number: str
    title: str
    points: str = ""
    instead: str = ""
    paper: str = ""  # the paper's setting
    ours: str = ""  # and ours
    pictures: Sequence[Picture] = ()
    claims: Sequence[Claim] = ()
    short: str = ""  # where we fall short, and why


@dataclass(frozen=True)
class Paper:
    key: str
    title: str
    cited: str
    machine: str
    figures: Sequence[Figure]


def chosen(rows: Rows, **where: Any) -> Rows:
    """The rows with these values; a tuple of values means any of them."""
    return [
        row
        for row in rows
        if all(
            row.get(name) in value if isinstance(value, tuple) else row.get(name) == value
            for name, value in where.items()
        )
    ]


def mean(rows: Rows, column: str, **where: Any) -> float:
    values = [float(row[column]) for row in chosen(rows, **where)]
    return sum(values) / len(values)


def kept(name: str) -> dict[str, Any] | None:
    path = KEPT / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
