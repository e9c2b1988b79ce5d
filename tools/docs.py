"""Runs the examples of the documentation, then builds the site into build/docs, without a network.

MkDocs refuses links and anchors that lead nowhere inside the site (mkdocs.yml, site/hooks.py); the
links of the pages at the root of the repository are checked here.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from examples import run_pages

ROOT = Path(__file__).resolve().parent.parent
AT_ROOT = ("README.md", "CONTRIBUTING.md")
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev docs", description="Check and build the site.")
    parser.add_argument("--no-check", action="store_true", help="do not run the examples")
    parser.add_argument("--only", metavar="TEXT", help="run the examples of pages so named only")
    given = parser.parse_args()

    faults = broken_links()
    failed = 0
    if not given.no_check:
        outcome = run_pages(page for page in pages() if not given.only or given.only in str(page))
        failed = outcome.failed
        print(
            f"examples: {outcome.blocks - failed} of {outcome.blocks} blocks passed, "
            f"{outcome.not_run} say why they are not run"
        )
    for fault in faults:
        print(f"broken link: {fault}", file=sys.stderr)
    built = build_site()
    return 1 if failed or faults or not built else 0


def pages() -> list[Path]:
    return [ROOT / name for name in AT_ROOT] + sorted((ROOT / "docs").rglob("*.md"))


def broken_links() -> list[str]:
    return [
        f"{name}: {link}"
        for name in AT_ROOT
        for link in _LINK.findall((ROOT / name).read_text(encoding="utf-8"))
        if not (ROOT / link).exists()
    ]


def build_site() -> bool:
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # a banner of the theme, not of the build
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        config = load_config(str(ROOT / "mkdocs.yml"))
        build(config)
    except Abort as problem:
        print(f"the site was not built: {problem}", file=sys.stderr)
        return False
    count = sum(1 for _ in Path(config.site_dir).rglob("index.html"))
    print(f"{count} pages in {Path(config.site_dir).relative_to(ROOT)}")
    return True


if __name__ == "__main__":
    sys.exit(main())
