"""The command line: what it prints and how it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ensue.cli import app


def ensue(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ensue.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_explain_prints_the_plan_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "automaton.svg"
    done = ensue("explain", "A B+", "-d", "B: price < PREV(price)", "--picture", str(picture))
    assert done.returncode == 0, done.stderr
    assert "engine: automaton" in done.stdout
    assert picture.read_text().lstrip().startswith("<")


def test_why_of_a_pattern_over_a_file(tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text("user,ts,kind\n1,1,view\n1,2,cart\n2,1,view\n")
    asked = ("view -> cart -> pay", str(events), "--types", "kind", "-p", "user", "-o", "ts")
    done = ensue("why", *asked)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == (
        '1,"[""view"", ""cart""]",2,pay,end,pay: the partition ended,0'
    )
    done = ensue("why", "A B", "--types", "kind")
    assert done.returncode == 1
    assert "these options belong to a pattern over a file of events" in done.stderr


def test_a_mistake_ends_with_its_message() -> None:
    done = ensue("explain", "A (B")
    assert done.returncode == 1
    assert done.stderr.startswith("PatternSyntaxError: line 1, column 3: '(' is never closed")
    assert "Traceback" not in done.stderr


def test_version() -> None:
    assert ensue("version").stdout.strip() == "0.2.0"
    assert ensue("--version").stdout == ensue("version").stdout


def test_doctor_speaks_where_there_is_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ensue.api.tune.has_spark", lambda: False)
    done = CliRunner().invoke(app, ["doctor"], catch_exceptions=False)
    assert done.exit_code == 0
    assert [part in done.stdout for part in ("Python 3.", "pyarrow", "kernels compiled")] == [
        True
    ] * 3
    assert done.stdout.rstrip().endswith("pip install 'ensue[spark]'")
