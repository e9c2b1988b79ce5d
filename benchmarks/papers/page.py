"""Writes `docs/papers.md` and its pictures from the points that are kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks.papers import Figure, Paper, acep, afa, kept, quantify, sharp, suse

PAPERS: tuple[Paper, ...] = (afa.PAPER, acep.PAPER, suse.PAPER, sharp.PAPER, quantify.PAPER)
DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURES = DOCS / "pictures" / "papers"
_HEADER = """\
# Figures of the papers

Ensue is built on the algorithms of five papers. Every figure and table of theirs is listed here: what the
paper says, what we get, and why where we fall short.

`./dev bench papers` runs the benchmarks at sizes that together take some minutes of CPU, keeps the points in
`benchmarks/results/papers/` and writes this page; `--full` takes the papers' sizes, `--data DIR` names a folder
with the data sets that are not part of the project, and `./dev bench papers NAME` runs one. Times are CPU
seconds. **Curves are ours.** The papers print their curves as pictures, so their values are drawn (as
diamonds) only where the text states them; the sentences beside ours are from the text too.

Not comparable between the papers and here: machines, languages, and in part the data. Compare the shapes.
"""


def write() -> None:
    text, pictures = page()
    PICTURES.mkdir(parents=True, exist_ok=True)
    for old in PICTURES.glob("*.svg"):
        if old.name not in pictures:
            old.unlink()
    for name, svg in pictures.items():
        (PICTURES / name).write_text(svg)
    (DOCS / "papers.md").write_text(text)


def page() -> tuple[str, dict[str, str]]:
    """The page and its pictures by file name."""
    pictures: dict[str, str] = {}
    parts = [_HEADER, _overview()]
    for paper in PAPERS:
        parts.append(f"## {paper.title}\n\n{paper.cited}. Its machine: {paper.machine}.\n")
        rest = [figure for figure in paper.figures if not figure.points]
        parts += [_measured(paper, figure, pictures) for figure in paper.figures if figure.points]
        parts.append("### Not measured\n\n| figure | what it is | instead |\n|---|---|---|")
        parts += [
            f"| {figure.number} | {_cell(figure.title)} | {_cell(figure.instead)} |"
            for figure in rest
        ]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n", pictures


def _overview() -> str:
    lines = [
        "| paper | figures and tables | measured | diagrams, definitions, examples, not built |",
        "|---|---|---|---|",
    ]
    for paper in PAPERS:
        measured = sum(bool(figure.points) for figure in paper.figures)
        link = re.sub(r"[^a-z0-9 -]", "", paper.title.lower()).replace(" ", "-")
        lines.append(
            f"| [{paper.title}](#{link}) | {len(paper.figures)} | {measured} | {len(paper.figures) - measured} |"
        )
    return "\n".join(lines) + "\n"


def _measured(paper: Paper, figure: Figure, pictures: dict[str, str]) -> str:
    number = figure.number if figure.number[0] == "§" else f"Figure {figure.number}"
    lines = [f"### {number}: {figure.title}", ""]
    record = kept(figure.points)
    lines += ["| | |", "|---|---|", f"| paper | {_cell(figure.paper)} |"]
    lines.append(f"| here | {_cell(figure.ours)} |")
    if record is None:
        return "\n".join(
            [
                *lines,
                "",
                f"No points are kept yet: run `./dev bench papers {figure.points} --data DIR`.",
                "",
            ]
        )
    lines += [
        f"| command | `{record['command']}` |",
        f"| taken on | {_where(record['machine'])} |",
        "",
    ]
    for place, picture in enumerate(figure.pictures):
        slug = re.sub(r"[^a-z0-9]+", "-", f"{paper.key} {figure.number} {place}".lower()).strip("-")
        chart = picture.chart(record["rows"])
        pictures[f"{slug}.svg"] = chart.svg()
        lines.append(
            f"![{chart.title}: {chart.y} by {chart.x or 'variant'}](pictures/papers/{slug}.svg)"
        )
    lines += ["", "| the paper | here |", "|---|---|"]
    lines += [
        f"| {_cell(claim.paper)} | {_cell(claim.ours(record['rows']))} |" for claim in figure.claims
    ]
    return "\n".join([*lines, "", *([figure.short, ""] if figure.short else [])])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _where(machine: dict[str, Any]) -> str:
    return (
        f"{machine['cores']} cores, Python {machine['python']}, numba {machine['numba']}, "
        f"commit {machine['commit']}, {machine['when'][:10]}"
    )
