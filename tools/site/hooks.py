"""What the site needs beyond its pages: navigation by folder, pages of the API, links to sources,
and the gallery's pages as notebooks.

MkDocs calls the functions named `on_...`. The API pages are written while the site is built: one
for each public name and each documented module, from its docstrings.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SOURCES = "https://github.com/ensue/ensue/blob/main"
# Pages that lie at the root of the repository, where forges look for them.
FROM_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
# Modules that people import from, beside the names of `ensue` itself.
MODULES = (
    "ensue.errors",
    "ensue.quantify",
    "ensue.spark",
    "ensue.spark.control",
    "ensue.spark.errors",
    "ensue.testing",
)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"(?<!!)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_pre_build(config: MkDocsConfig) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    import animations
    import pictures

    pictures.draw()
    animations.draw()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = _expanded(config.nav, set(_api_pages()))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, text in _api_pages().items():
        files.append(File.generated(config, path, content=text))
    for story in _stories():
        path, text = f"gallery/{story.stem}.ipynb", story.read_text("utf-8")
        files.append(File.generated(config, path, content=as_notebook(text)))
    for path, source in FROM_ROOT.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links that leave `docs/` at the repository, or at the page made of that file."""
    path = page.file.src_uri
    source = FROM_ROOT.get(path)
    if DOCS / path in _stories():
        name = posixpath.basename(path).removesuffix(".md")
        markdown = f"{markdown}\n[Download this page as a notebook]({name}.ipynb)\n"
    folder = ROOT if source else (DOCS / path).parent

    def pointed(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[1]))
        part = link[2] or ""
        if not target.is_relative_to(ROOT) or not target.exists():
            return link[0]  # MkDocs names what is broken
        name = target.relative_to(ROOT).as_posix()
        pages = {source: page for page, source in FROM_ROOT.items()}
        here = posixpath.dirname(path)
        if name in pages:
            return f"]({posixpath.relpath(pages[name], here or '.')}{part})"
        if target.is_relative_to(DOCS):
            inside = target.relative_to(DOCS).as_posix()
            return f"]({posixpath.relpath(inside, here or '.')}{part})"
        return f"]({SOURCES}/{name}{part})"

    return _LINK.sub(pointed, _CODE.sub(_plain_bars, markdown))


def _stories() -> list[Path]:
    """The pages of the gallery that run."""
    return sorted((DOCS / "gallery").glob("[0-9]*.md"))


def as_notebook(text: str) -> str:
    """A page as a Jupyter notebook: its Python without prompts and answers, the rest as text."""
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(re.split(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)):
        lines = part.strip().splitlines()
        if number % 2:
            said = [line[4:] for line in lines if line.startswith((">>>", "..."))] or lines
            code = {"metadata": {}, "execution_count": None, "outputs": []}
            cells.append({"cell_type": "code", **code, "source": "\n".join(said)})
        elif lines:
            shown = [line for line in lines if not line.startswith("![")]
            cells.append({"cell_type": "markdown", "metadata": {}, "source": "\n".join(shown)})
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}, indent=1
    )


def _plain_bars(code: re.Match[str]) -> str:
    """In a table, GitHub wants the bars of code escaped; Python-Markdown shows the escape."""
    return code[0].replace("\\|", "|")


def _expanded(entry: Any, made: set[str]) -> Any:
    """A navigation entry with the pages of each `folder/*` in its place."""
    if isinstance(entry, dict):
        return {
            title: below
            for title, value in entry.items()
            if (below := _expanded(value, made)) not in ([], None)
        }
    if not isinstance(entry, list):
        return entry
    entries: list[Any] = []
    for part in entry:
        if isinstance(part, str) and part.endswith("/*"):
            folder = part.removesuffix("/*")
            written = {
                path.relative_to(DOCS).as_posix()
                for kind in ("*.md", "*.ipynb")
                for path in (DOCS / folder).glob(kind)
            }
            below = written | {path for path in made if posixpath.dirname(path) == folder}
            entries += sorted(below, key=lambda path: (not path.endswith("/index.md"), path))
        elif (below := _expanded(part, made)) not in ([], {}, None):
            entries.append(below)
    return entries


def _api_pages() -> dict[str, str]:
    """Path and text of each page of the API."""
    import ensue

    names = [name for name in ensue.__all__ if name != "quantify"]
    pages = {f"api/{name.lower()}.md": _page(name, _place(name)) for name in _no_twins(names)}
    pages |= {f"api/{name}.md": _page(name, name) for name in MODULES}
    lines = [f"- [`{name}`]({name.lower()}.md): {_first_line(name)}" for name in _no_twins(names)]
    modules = [f"- [`{name}`]({name}.md)" for name in MODULES]
    text = "\n".join(
        ["# API", "", "## Names of `ensue`", "", *lines, "", "## Modules", "", *modules, ""]
    )
    return {"api/index.md": text, **pages}


def _no_twins(names: list[str]) -> list[str]:
    """Without the class whose function has the same name in lower case: they share a page."""
    return [name for name in names if name.lower() == name or name.lower() not in names]


def _place(name: str) -> str:
    import ensue

    return f"{ensue._PLACES.get(name, 'ensue.errors')}.{name}"


def _page(name: str, place: str) -> str:
    import ensue

    twin = next((n for n in ensue.__all__ if n != name and n.lower() == name), None)
    blocks = [f"::: {place}"] + ([f"::: {_place(twin)}"] if twin else [])
    return f"---\ntitle: {name}\n---\n\n" + "\n\n".join(blocks) + "\n"


def _first_line(name: str) -> str:
    import ensue

    text = getattr(ensue, name).__doc__ or ""
    return text.strip().split("\n")[0]
