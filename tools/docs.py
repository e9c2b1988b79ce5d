"""Checks the examples in the documentation, then builds it as static HTML into build/docs.

A fenced `python` block that starts with `>>>` is run by doctest; the blocks of one page share
their names, as in a story. Blocks without the prompt are shown only. A link to a page or file that
does not exist fails the build.
"""

from __future__ import annotations

import argparse
import doctest
import html
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "docs"
TOP_PAGES = {"README.md": "index.html", "CONTRIBUTING.md": None, "CHANGELOG.md": None}

STYLE = """
:root { color-scheme: light dark; --line: #8884; --quiet: #8882; }
body { display: grid; grid-template-columns: 15rem minmax(0, 46rem); gap: 2rem; margin: 2rem auto;
  max-width: 66rem; padding: 0 1rem; font: 16px/1.6 system-ui, sans-serif; }
nav { font-size: .9rem; border-right: 1px solid var(--line); padding-right: 1rem; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a[aria-current] { font-weight: 600; }
pre { overflow-x: auto; padding: .8rem 1rem; background: var(--quiet); border-radius: .4rem; }
code { font-size: .9em; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .3rem .7rem;
  text-align: left; vertical-align: top; }
@media (max-width: 50rem) { body { display: block; } nav { border: 0; } }
"""


@dataclass(frozen=True)
class Page:
    source: Path
    target: PurePosixPath
    text: str
    tokens: list[Token]

    @property
    def title(self) -> str:
        for index, token in enumerate(self.tokens):
            if token.type == "heading_open" and token.tag == "h1":
                return plain(self.tokens[index + 1])
        return self.source.stem

    @property
    def name(self) -> str:
        return self.source.relative_to(ROOT).as_posix()


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev docs", description="Check and build the pages.")
    parser.add_argument("--no-check", action="store_true", help="do not run the examples")
    given = parser.parse_args()

    pages = list(read_pages())
    faults = broken_links(pages)
    failed = attempted = 0
    if not given.no_check:
        for page in pages:
            result = run_examples(page)
            failed += result.failed
            attempted += result.attempted
        print(f"examples: {attempted - failed} of {attempted} passed")
    build(pages)
    for fault in faults:
        print(f"broken link: {fault}", file=sys.stderr)
    print(f"{len(pages)} pages in {OUTPUT.relative_to(ROOT)}")
    return 1 if failed or faults else 0


def read_pages() -> Iterator[Page]:
    markdown = MarkdownIt("commonmark").enable("table")
    sources = [(ROOT / name, target) for name, target in TOP_PAGES.items()]
    sources += [(path, None) for path in sorted((ROOT / "docs").rglob("*.md"))]
    for source, target in sources:
        if not source.exists():
            continue
        text = source.read_text()
        base = ROOT / "docs" if source.is_relative_to(ROOT / "docs") else ROOT
        place = PurePosixPath(source.relative_to(base).with_suffix(".html").as_posix())
        yield Page(source, PurePosixPath(target) if target else place, text, markdown.parse(text))


def run_examples(page: Page) -> doctest.TestResults:
    # Everything but the examples is blanked out, so that doctest reports the page's own lines.
    lines = [""] * (page.text.count("\n") + 2)
    for token in page.tokens:
        if token.type == "fence" and token.info.split()[:1] == ["python"] and token.map:
            body = token.content.splitlines()
            if body and body[0].startswith(">>>"):
                first = token.map[0] + 1
                lines[first : first + len(body)] = body
    test = doctest.DocTestParser().get_doctest(
        "\n".join(lines), {"__name__": "__main__"}, page.name, str(page.source), 0
    )
    if not test.examples:
        return doctest.TestResults(0, 0)
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    return doctest.DocTestRunner(optionflags=options).run(test)


def links(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        if token.type == "link_open":
            yield token
        yield from links(token.children or [])


def linked_file(page: Page, link: Token) -> tuple[Path, str] | None:
    """The file a relative link leads to, and the part after `#`; None for other links."""
    path, _, part = str(link.attrs["href"]).partition("#")
    if not path or "://" in path or path.startswith("mailto:"):
        return None
    return (page.source.parent / path).resolve(), part


def broken_links(pages: list[Page]) -> list[str]:
    faults = []
    for page in pages:
        for link in links(page.tokens):
            found = linked_file(page, link)
            if found is not None and not found[0].exists():
                faults.append(f"{page.name}: {link.attrs['href']}")
    return faults


def build(pages: list[Page]) -> None:
    if OUTPUT.exists():
        shutil.rmtree(OUTPUT)
    targets = {page.source: page.target for page in pages}
    renderer = MarkdownIt("commonmark", {"highlight": coloured}).enable("table")
    colours = HtmlFormatter(style="friendly").get_style_defs("pre")
    OUTPUT.mkdir(parents=True)
    (OUTPUT / "style.css").write_text(STYLE + colours + "\n")
    for page in pages:
        point_links_at_html(page, targets)
        add_anchors(page.tokens)
        body = renderer.renderer.render(page.tokens, renderer.options, {})
        target = OUTPUT / page.target
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(document(page, pages, body))


def point_links_at_html(page: Page, targets: dict[Path, PurePosixPath]) -> None:
    for link in links(page.tokens):
        found = linked_file(page, link)
        if found is not None and found[0] in targets:
            address = relative(targets[found[0]], page.target)
            link.attrs["href"] = f"{address}#{found[1]}" if found[1] else address


def add_anchors(tokens: list[Token]) -> None:
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            words = plain(tokens[index + 1]).lower().split()
            kept = ("".join(c for c in word if c.isalnum() or c in "-_") for word in words)
            token.attrs["id"] = "-".join(word for word in kept if word)


def document(page: Page, pages: list[Page], body: str) -> str:
    entries = []
    for other in pages:
        current = ' aria-current="page"' if other is page else ""
        address = html.escape(relative(other.target, page.target))
        entries.append(f'<li><a href="{address}"{current}>{html.escape(other.title)}</a></li>')
    style = relative(PurePosixPath("style.css"), page.target)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(page.title)}</title>\n"
        f'<link rel="stylesheet" href="{style}">\n</head>\n<body>\n'
        f"<nav><ul>\n{chr(10).join(entries)}\n</ul></nav>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def coloured(code: str, language: str, _attributes: str) -> str:
    try:
        lexer = get_lexer_by_name("pycon" if code.startswith(">>>") else language or "text")
    except ClassNotFound:
        return ""
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


def plain(token: Token) -> str:
    return "".join(child.content for child in token.children or [])


def relative(target: PurePosixPath, start: PurePosixPath) -> str:
    return os.path.relpath(target, start.parent)


if __name__ == "__main__":
    sys.exit(main())
