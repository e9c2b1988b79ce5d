"""A browser for the tests of the page, and the words to find things on it.

`./dev test` names a Chromium in `ENSUE_BROWSER`; without it, the machine's own is taken. Where
there is none, or no built page, the tests are left out by name; `ENSUE_BROWSER_REQUIRED` forbids
that.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pytest

import ensue

PAGE = Path(ensue.__file__).parent / "studio" / "page" / "index.html"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Root may not use the sandbox, and the page is our own.
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--no-zygote"]
PATIENCE = 60_000  # ms: another process may be compiling beside us; nothing here waits that long


def missing() -> str | None:
    """What keeps the page from being tested here."""
    if not PAGE.exists():
        return "the page is not built: ./dev studio-build"
    if find_spec("playwright") is None:
        return "playwright is not installed"
    if executable() is None:
        return "no Chromium: install one, or call ./dev test, which brings one"
    return None


def executable() -> str | None:
    named = os.environ.get("ENSUE_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def need() -> None:
    reason = missing()
    if reason is None:
        return
    if os.environ.get("ENSUE_BROWSER_REQUIRED"):
        raise RuntimeError(f"the page has to be tested here, and cannot be: {reason}")
    pytest.skip(reason)


@contextmanager
def browsing() -> Iterator[Any]:
    """A Chromium, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One tab with the page in it; what went wrong in it is kept."""

    def __init__(
        self,
        browser: Any,
        *,
        width: int = 1440,
        height: int = 900,
        theme: Literal["light", "dark"] = "light",
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme
        )
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.faults: list[str] = []
        self.requested: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))

    def open(self, url: str) -> Tab:
        self.page.goto(url)
        return self

    def button(self, name: str) -> Any:
        return self.page.get_by_role("button", name=name, exact=True)

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()

    @property
    def editor(self) -> Any:
        return self.page.locator("#ensue-text .cm-content")

    def write(self, text: str) -> None:
        """Type a text into the editor, in place of what stands there."""
        self.editor.click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.press("Delete")
        # One change: brackets that close by themselves are the editor's own affair.
        self.page.keyboard.insert_text(text)

    def option(self, label: str, text: str) -> None:
        self.page.get_by_label(label, exact=True).fill(text)

    @property
    def figures(self) -> Any:
        """The line that says how many matches there are."""
        return self.page.locator("#ensue-answer .figures").first

    @property
    def details(self) -> Any:
        return self.page.get_by_role("region", name="Details")

    @property
    def lanes(self) -> Any:
        return self.page.get_by_role("application")

    def close(self) -> None:
        self.context.close()
