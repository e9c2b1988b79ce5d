"""Runs the Python of the pages: every block in order, with names shared as in a story.

A block that starts with `>>>` is a doctest; any other is run as it stands. A block that cannot run
here says why in a comment above it: `<!-- not run: needs a cluster -->`. `spark` is a local session
where a page reads it. Pages run in an empty folder, so that they may write files; those of the
gallery find their data there, and the pictures that they save are kept beside them.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_SPARK = re.compile(r"\bspark\b[.,)]")
_NOT_RUN = re.compile(r"<!-- not run: [^\n]+ -->\s*\Z")
_OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@dataclass(frozen=True)
class Block:
    text: str
    line: int  # of its first line in the page, from 1

    @property
    def is_doctest(self) -> bool:
        return self.text.startswith(">>>")


@dataclass
class Outcome:
    blocks: int = 0
    failed: int = 0
    not_run: int = 0

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.blocks + other.blocks, self.failed + other.failed, self.not_run + other.not_run
        )


def run_pages(pages: Iterable[Path]) -> Outcome:
    return sum((run_page(page) for page in pages), Outcome())


def run_page(page: Path) -> Outcome:
    blocks, not_run = read_blocks(page.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    with_spark = any(_SPARK.search(block.text) for block in blocks)
    if with_spark and __name__ != "__main__":
        return _run_apart(page)
    outcome = Outcome(len(blocks), 0, not_run)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            if page.parent.name == "gallery":
                shutil.copytree(page.parent / "data", "data")
                draw_alike()
            if with_spark:
                names["spark"] = local_session()
            for block in blocks:
                outcome.failed += not run_block(block, page, names)
            for picture in Path(folder).glob("*.svg") if page.parent.name == "gallery" else ():
                shutil.copy(picture, page.parent / "pictures")
        finally:
            os.chdir(before)
    return outcome


def _run_apart(page: Path) -> Outcome:
    """In a process of its own, since a JVM keeps the folder in which it was started."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "outcome"
        subprocess.run([sys.executable, __file__, str(page), str(told)], check=False)
        if told.exists():
            return Outcome(*map(int, told.read_text().split()))
    print(f"{page}: its process ended early")
    return Outcome(1, 1)


def read_blocks(text: str) -> tuple[list[Block], int]:
    """The blocks of a page that run, and how many say why they do not."""
    blocks = []
    not_run = 0
    for fence in _FENCE.finditer(text):
        indent, language, body = fence.groups()
        if language not in {"python", "pycon"}:
            continue
        if _NOT_RUN.search(text, 0, fence.start()):
            not_run += 1
            continue
        lines = [line.removeprefix(indent) for line in body.splitlines(keepends=True)]
        blocks.append(Block("".join(lines), text.count("\n", 0, fence.start()) + 2))
    return blocks, not_run


def run_block(block: Block, page: Path, names: dict[str, Any]) -> bool:
    if block.is_doctest:
        parsed = doctest.DocTestParser().get_doctest(
            block.text, names, f"{page.name}:{block.line}", str(page), block.line - 1
        )
        parsed.globs = names  # get_doctest copies them, and blocks of a page share theirs
        runner = doctest.DocTestRunner(optionflags=_OPTIONS)
        return runner.run(parsed, clear_globs=False).failed == 0
    try:
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, names)  # our own pages
    except Exception:
        print(f"{page}, line {block.line}:\n{traceback.format_exc()}")
        return False
    return True


def draw_alike() -> None:
    """The same picture from the same data: matplotlib writes no date and no random names."""
    import matplotlib

    os.environ["SOURCE_DATE_EPOCH"] = "0"
    matplotlib.rcParams["svg.hashsalt"] = "ensue"


def local_session() -> Any:
    from ensue.run.spark.session import local_session as session

    return session()[0]


if __name__ == "__main__":
    result = run_page(Path(sys.argv[1]))
    Path(sys.argv[2]).write_text(f"{result.blocks} {result.failed} {result.not_run}")
