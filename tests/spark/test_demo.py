"""`ensue demo` from end to end, on few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from ensue.demo import show


def test_demo(spark: Any, tmp_path: Path) -> None:
    console = Console(record=True, width=160)
    picture = tmp_path / "timeline.svg"
    show.run(4_000, picture, console)
    text = console.export_text()
    for question in show.questions():
        assert question.title in text
    assert text.count("rows/s") == 3
    assert "MATCH_RECOGNIZE" in text
    assert "engine: automaton" in text and "engine: threads" in text
    assert picture.stat().st_size > 5_000
