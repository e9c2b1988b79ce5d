"""The house: files and folders that one can survey, few public names, paths that lead somewhere."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import ensue

ROOT = Path(ensue.__file__).parents[1]
MODULES = sorted((ROOT / "ensue").rglob("*.py"))
# Decisions and the list of changes tell of the past.
PAGES = [
    *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"),
    *(ROOT / "examples").rglob("*.py"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]
_PATH = re.compile(r"(?<![\w./@-])ensue(?:\.[A-Za-z_]\w*)+(?!\w*[/-])")
# File names; `ensue.pattern(...).matches` is a call, not a path.
_NO_PATHS = ("ensue.zip", "ensue.pattern.matches", "ensue.query_name")


def test_no_module_is_longer_than_500_lines() -> None:
    lengths = {path.relative_to(ROOT): path.read_text().count("\n") for path in MODULES}
    assert {path: lines for path, lines in lengths.items() if lines > 500} == {}


def test_no_folder_has_more_than_35_modules() -> None:
    counts = Counter(path.parent.relative_to(ROOT) for path in MODULES)
    assert {folder: count for folder, count in counts.items() if count > 35} == {}


def test_public_names_are_few() -> None:
    assert len(ensue.__all__) <= 22


def paths_in(texts: list[Path]) -> list[str]:
    found = {path for text in texts for path in _PATH.findall(text.read_text(encoding="utf-8"))}
    return sorted(found - set(_NO_PATHS))


@pytest.mark.parametrize("texts", [PAGES, MODULES], ids=["pages", "docstrings and errors"])
def test_every_dotted_path_that_is_told_leads_somewhere(texts: list[Path]) -> None:
    paths = paths_in(texts)
    assert len(paths) > 50
    assert [path for path in paths if not leads_somewhere(path)] == []


def leads_somewhere(path: str) -> bool:
    """A module, or a name in one, or in a class."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False
