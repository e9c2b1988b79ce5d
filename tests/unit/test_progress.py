"""Progress is shown where somebody looks, and changes no answer."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import ensue
from ensue import progress
from ensue.run import local

ROWS = 3_000
TABLE = pa.table(
    {
        "k": np.arange(ROWS) // 7,
        "t": np.arange(ROWS),
        "x": np.random.default_rng(1).integers(0, 9, ROWS),
    }
)
QUERIES = [
    ensue.pattern("A B+").define(B="x > PREV(x)").partition_by("k").order_by("t"),
    ensue.pattern("A -> B").define(A="x = 1", B="x = 8").partition_by("k").order_by("t"),
    ensue.pattern("A B+").define(B="x > PREV(x)").order_by("t"),
]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal that keeps what it is shown; every run is long enough."""
    kept = io.StringIO()
    console = Console(file=kept, force_terminal=True, width=200)
    monkeypatch.setattr(progress, "LEAST_ROWS", 10)
    monkeypatch.setattr(local, "TURN", 100)
    monkeypatch.setattr("rich.console.Console", lambda stderr: console)
    return kept


@pytest.mark.parametrize("query", QUERIES)
def test_the_same_matches(
    query: ensue.Pattern, screen: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = query.matches(TABLE)
    text = screen.getvalue()
    assert f"{ROWS:,} of {ROWS:,} rows, {shown.num_rows:,} matches" in text
    monkeypatch.setenv(progress.SETTING, "off")
    assert query.matches(TABLE).equals(shown)
    assert screen.getvalue() == text


def test_turns_are_whole_partitions() -> None:
    starts = np.array([0, 5, 6, 30, 31, 40])
    table = pa.table({"t": np.arange(40)})
    turns = list(local._turns(table, starts, 10))
    assert [e.table["t"].to_pylist() for e in turns] == [
        list(range(6)),
        list(range(6, 30)),
        list(range(30, 40)),
    ]
    assert [e.starts.tolist() for e in turns] == [[0, 5, 6], [0, 24], [0, 1, 10]]
    assert all(e.complete.all() and len(e.complete) == len(e.starts) - 1 for e in turns)


def test_a_pipe_and_a_small_table_show_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.progress("matching", 10**9) as report:
        assert report is None  # standard error is captured
    with progress.waiting("loading", 10**9):
        pass
    assert capfd.readouterr() == ("", "")


def test_loading_a_graph_says_so(screen: io.StringIO) -> None:
    ends = {"src": "k", "label": "x", "dst": "t"}
    ensue.graph(TABLE, **ends)
    assert f"loading the graph: {ROWS:,} rows" in screen.getvalue()


def test_a_word_that_comes_after_the_end_draws_nothing(screen: io.StringIO) -> None:
    with progress.tasks("matching") as show:
        assert show is not None
        show(progress.Tasks(1, 2, rows=5))
    text = screen.getvalue()
    assert "1 of 2 tasks, 5 rows" in text
    show(progress.Tasks(2, 2, rows=9))
    assert screen.getvalue() == text
    with progress.tasks("matching", other=True) as show:
        assert show is None
