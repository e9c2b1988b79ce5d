"""`ensue.explain`: each row pattern of a statement, from its text alone or with its tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import ensue
from ensue import errors
from ensue.cli import app

FALLS = """SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY s ORDER BY id MEASURES LAST(v) AS v, LAST(id) AS id PATTERN (A B+)
  DEFINE B AS v < PREV(v))"""
TWICE = f"""WITH falls AS ({FALLS}) SELECT * FROM falls MATCH_RECOGNIZE (
  PARTITION BY s ORDER BY id + 1 MEASURES X.v AS x PATTERN (X Y) DEFINE Y AS v > X.v)"""
WINDOW = """SELECT id, n OVER w AS n FROM ticks WINDOW w AS (
  PARTITION BY s ORDER BY id MEASURES COUNT(*) AS n
  ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+) DEFINE B AS v < PREV(v))"""
TICKS = pa.table({"s": ["x"] * 4, "id": [1, 2, 3, 4], "v": [3, 2, 1, 5]})
PATTERN = (
    ensue.pattern("A B+").define(B="v < PREV(v)").partition_by("s").order_by("id")
    .measures(v="LAST(v)", id="LAST(id)")
)  # fmt: skip


def test_a_clause_is_explained_as_its_pattern_is() -> None:
    assert ensue.explain(FALLS) == PATTERN.explain()
    assert repr(ensue.explain(FALLS)) == ensue.explain(FALLS)


def test_every_clause_is_explained_innermost_first() -> None:
    told = ensue.explain(TWICE)
    first, second = told.split("Row pattern 2 of 2: X Y")
    assert first.startswith("Row pattern 1 of 2: A B+\n")
    assert "engine: automaton" in first
    assert "sorted by id + 1 in the worker" in second
    assert "explain(data) says which" in second


def test_windows_and_totals_are_explained_too() -> None:
    assert "Program: 3 states" in ensue.explain(WINDOW)
    totals = """SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY s ORDER BY id
      MEASURES COUNT(*) OVER ALL MATCHES AS n PATTERN (A -> B) DEFINE B AS v < 3)"""
    assert ensue.explain(totals).startswith("Event pattern: all matches")


def test_tables_make_it_exact() -> None:
    pytest.importorskip("duckdb", reason="the extra `sql` is not installed")
    assert "engine: threads\n" in ensue.explain(TWICE, ticks=TICKS)
    assert ensue.explain(FALLS, tables={"ticks": TICKS}) == PATTERN.explain(TICKS)
    with pytest.raises(errors.UnsupportedError, match="a row pattern in a window"):
        ensue.explain(WINDOW, ticks=TICKS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1", "no row pattern, so there is nothing to explain"),
        ("SELECT FROM WHERE", "the statement is not SQL"),
        (FALLS.replace("B AS", "Z AS"), r"line 3, column \d+(.|\n)*'Z'"),
    ],
)
def test_what_cannot_be_explained(text: str, message: str) -> None:
    with pytest.raises(errors.EnsueError, match=message):
        ensue.explain(text)


def test_the_command_reads_a_file_or_standard_input(tmp_path: Path) -> None:
    query, drawn = tmp_path / "query.sql", tmp_path / "both.svg"
    query.write_text(TWICE)
    command = CliRunner()
    done = command.invoke(app, ["explain", str(query), "--picture", str(drawn)])
    assert done.stdout.startswith(ensue.explain(TWICE)) and done.exit_code == 0
    assert all(f">{label}<" in drawn.read_text() for label in "ABXY")
    assert (
        command.invoke(app, ["explain", "-"], input=FALLS).stdout.rstrip()
        == str(ensue.explain(FALLS)).rstrip()
    )
    for extra, problem in (
        (["-d", "A: true"], "belong to a pattern"),
        (["-t", "ticks"], "not a name and a file"),
    ):
        done = command.invoke(app, ["explain", str(query), *extra])
        assert problem in str(done.exception)
    missing = command.invoke(app, ["explain", str(tmp_path / "none.sql")])
    assert "cannot be read" in str(missing.exception)
