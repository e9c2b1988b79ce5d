"""Pages that are written by code, or that promise to be complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import budgets_page
from benchmarks.chart import Chart, short
from benchmarks.papers import page as papers
from benchmarks.papers.run import JOBS
from benchmarks.peers import Line, Record, disagreements
from benchmarks.peers import page as peers
from benchmarks.peers.engines import PEERS
from ensue import errors

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_of_the_papers_is_what_the_points_give() -> None:
    text, pictures = papers.page()
    assert (DOCS / "papers.md").read_text() == text
    kept = {path.name: path.read_text() for path in papers.PICTURES.glob("*.svg")}
    assert kept == pictures


def test_the_page_of_the_peers_is_what_the_figures_give() -> None:
    assert (DOCS / "peers.md").read_text() == peers.page()
    assert peers.ABOUT.keys() == PEERS.keys()


def test_the_page_of_the_budgets_is_what_was_kept() -> None:
    assert (DOCS / "budgets.md").read_text() == budgets_page.page(budgets_page.Kept(True).lines)


@pytest.mark.parametrize("paper", papers.PAPERS, ids=lambda paper: paper.key)
def test_a_figure_has_points_or_a_reason(paper: papers.Paper) -> None:
    written = {name for names, *_ in JOBS.values() for name in names}
    for figure in paper.figures:
        assert bool(figure.points) != bool(figure.instead), figure
        if figure.points:
            assert figure.points in written
            assert figure.paper and figure.ours and figure.pictures and figure.claims, figure


def test_every_figure_of_a_paper_is_listed_in_order() -> None:
    last = {"afa": 18, "acep": 18, "suse": 13, "sharp": 16, "quantify": 7}
    for paper in papers.PAPERS:
        numbers = [int(n[1]) for f in paper.figures if (n := re.match(r"(\d+)", f.number))]
        assert numbers == sorted(numbers)
        assert set(numbers) == set(range(1, last[paper.key] + 1))


def test_engines_that_answer_differently_are_named() -> None:
    lines = [Line("a", "x", 1.0, 1.0, 3), Line("a", "y", 1.0, 1.0, 4), Line("b", "x", 1.0, 1.0, 1)]
    assert disagreements(Record(lines)) == ["a"]


def test_a_chart_places_its_points() -> None:
    chart = Chart("t", "x", "y", {"one": [(1, 1.0), (10, 100.0)]}, log_x=True, log_y=True)
    svg = chart.svg()
    assert 'cx="62.0" cy="240.0"' in svg and 'cx="392.0" cy="30.0"' in svg
    assert chart.svg() == svg
    assert [short(v) for v in (0.5, 2e4, 1.5e6, 1e12)] == ["0.5", "20 k", "1.5 M", "10^12"]


def test_the_page_of_errors_names_every_class() -> None:
    named = set(re.findall(r"`(\w+(?:Error|Warning))`", (DOCS / "errors.md").read_text()))
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, (errors.EnsueError, Warning))
    }
    assert named == classes
