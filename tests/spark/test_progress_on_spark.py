"""What an action on Spark tells of its progress while it runs."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from ensue import progress
from ensue.progress import Tasks
from ensue.spark.progress import watched

ROWS = 40


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    kept = io.StringIO()
    console = Console(file=kept, force_terminal=True, width=200)
    monkeypatch.setattr("rich.console.Console", lambda stderr: console)
    return kept


def test_tasks_and_rows_are_told_while_a_job_runs(
    spark: Any, screen: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first of four tasks ends; the others wait until that has been told.
    seen = tmp_path / "seen"

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            patience = time.monotonic() + 60
            while batch["id"][0].as_py() and not seen.exists() and time.monotonic() < patience:
                time.sleep(0.05)
            yield batch

    class Told(io.StringIO):
        def write(self, text: str) -> int:
            if "1 of 4 tasks" in text:
                seen.touch()
            return screen.write(text)

    monkeypatch.setattr(progress._screen(), "_file", Told())
    rows = spark.range(0, ROWS, 1, 4).mapInArrow(work, "id long")
    with watched(spark, "matching"):
        rows.write.parquet(str(tmp_path / "out"))
    assert "matching" in screen.getvalue()
    assert f"1 of 4 tasks, {ROWS // 4} rows, {ROWS // 4} written" in screen.getvalue()
    assert spark.getTags() == set()


def test_nobody_looks_and_nothing_is_asked(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with watched(spark, "matching"):
        assert spark.getTags() == set()
    assert capfd.readouterr() == ("", "")


def test_what_is_not_known_is_not_shown() -> None:
    assert str(Tasks(0, 1_200)) == "0 of 1,200 tasks"
    assert str(Tasks(3, 8, rows=4_000)) == "3 of 8 tasks, 4,000 rows"
    assert str(Tasks(3, 8, 4_000, 12)) == "3 of 8 tasks, 4,000 rows, 12 written"
