"""Headers name modules that exist, and docs/notation.md names that are in their modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = re.compile(r"`((?:ensue|tests|\.)[\w./]*)`")
SOURCES = sorted((ROOT / "ensue").rglob("*.py"))


def _rows() -> list[tuple[str, str]]:
    """The names of a row, and its modules."""
    found = []
    for line in (ROOT / "docs" / "notation.md").read_text(encoding="utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if len(cells) == 5 and "`" in cells[3]:
            found.append((cells[2], cells[3]))
    return found


def _sources(modules: str) -> str:
    """The text of all modules of a row; `.name` stands beside the one before it."""
    texts, package = [], ""
    for name in MODULE.findall(modules):
        full = package + name if name.startswith(".") and len(name) > 1 else name.strip(".")
        package = full.rpartition(".")[0]
        path = ROOT / (full if full.endswith(".py") else full.replace(".", "/"))
        if not path.is_dir():
            path = path if path.suffix == ".py" else path.with_suffix(".py")
            assert path.is_file(), full
            texts.append(path.read_text(encoding="utf-8"))
    return "\n".join(texts)


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row[0].strip()[:30])
def test_a_name_is_where_the_table_says(row: tuple[str, str]) -> None:
    text = _sources(row[1])
    for name in re.findall(r"`([^`]+)`", row[0]):
        for word in re.findall(r"[A-Za-z_]\w+", name):
            assert not text or re.search(rf"\b{word}\b", text), word


def test_headers_name_modules_that_exist() -> None:
    gone = []
    for source in SOURCES:
        for name in re.findall(r"`((?:\w+/)*\w+\.py)`", source.read_text(encoding="utf-8")):
            places = (source.parent, source.parent.parent, ROOT / "ensue", ROOT)
            if name.startswith("pyspark/"):
                continue
            if not any((place / name).is_file() for place in places):
                gone += [] if list(source.parent.glob(f"*/{name}")) else [f"{source.name}: {name}"]
    assert not gone
