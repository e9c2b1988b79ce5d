"""Pictures of the main views: the test takes them, and `python -m tests.studio.pictures` renews
those of the documentation."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from tests.studio.browser import Tab, browsing, missing

DOCS = Path(__file__).parents[2] / "docs" / "pictures"


def take(browser: Any, url: str, folder: Path) -> list[Path]:
    """Each of the main views."""
    views = {
        "lanes": _lanes, "why": _why, "compare": _compare, "cost": _cost, "automaton": _automaton
    }  # fmt: skip
    return [view(browser, url, folder / f"studio-{name}.png") for name, view in views.items()]


def _opened(browser: Any, url: str, theme: Literal["light", "dark"], sample: str) -> Tab:
    tab = Tab(browser, width=1280, height=760, theme=theme).open(url)
    tab.page.get_by_label("Data").select_option(label=sample)
    tab.figures.wait_for()
    tab.page.locator("svg.graph").wait_for()
    return tab


def _lanes(browser: Any, url: str, path: Path) -> Path:
    tab = _opened(browser, url, "light", "Stock ticks")
    tab.lanes.focus()
    tab.page.locator(".ensue-studio[aria-busy=false]").wait_for()
    tab.page.wait_for_timeout(500)
    for key in ("ArrowDown", "m"):
        tab.page.keyboard.press(key)
    tab.details.get_by_role("heading", name="Match 1").first.wait_for()
    return _taken(tab, path)


def _why(browser: Any, url: str, path: Path) -> Path:
    tab = _opened(browser, url, "dark", "Sign-ins")
    tab.tab("Why")
    tab.page.locator("[data-list=attempts] button").first.click()
    tab.details.locator("[data-reason]").first.wait_for()
    tab.page.locator(".funnel").wait_for()
    return _taken(tab, path)


def _compare(browser: Any, url: str, path: Path) -> Path:
    tab = _opened(browser, url, "light", "Stock ticks")
    tab.tab("Compare")
    tab.button("Pin this version").click()
    tab.write("A B{4,} C{2,}")
    tab.page.keyboard.press("Escape")
    changes = tab.page.locator("[data-list=changes] button")
    changes.nth(1).click()
    tab.details.get_by_role("heading", name="Conditions here").wait_for()
    return _taken(tab, path)


def _cost(browser: Any, url: str, path: Path) -> Path:
    tab = _opened(browser, url, "dark", "Shop visits")
    tab.write("view ->> cart ->> pay")
    tab.page.keyboard.press("Escape")
    tab.tab("Cost")
    curve = tab.page.get_by_role("img", name="Recall by share of the work: 10%: ")
    tab.page.get_by_label("Budget in percent").fill("35")
    curve.wait_for()
    return _taken(tab, path)


def _automaton(browser: Any, url: str, path: Path) -> Path:
    tab = _opened(browser, url, "light", "Stock ticks")
    tab.tab("Why")
    tab.page.locator("[data-list=attempts] button").first.click()
    tab.page.locator("[data-lit=true]").first.wait_for()
    tab.button("Step back").click()
    return _taken(tab, path)


def _taken(tab: Tab, path: Path) -> Path:
    tab.page.wait_for_timeout(700)  # the canvas asks for its events after a rest
    tab.page.locator(".ensue-studio[aria-busy=false]").wait_for()
    tab.page.screenshot(path=str(path))
    faults = tab.faults
    tab.close()
    assert not faults, faults
    return path


def _smaller(path: Path) -> None:
    """With 256 colours: the documentation's pictures are kept in the repository."""
    with suppress(ImportError):
        from PIL import Image

        picture = Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        picture.save(path, optimize=True)


def main() -> None:
    from ensue.studio.server import serve

    reason = missing()
    if reason is not None:
        raise SystemExit(f"no pictures: {reason}")
    DOCS.mkdir(exist_ok=True)
    with serve(port=0) as served, browsing() as browser:
        for path in take(browser, served.url, DOCS):
            _smaller(path)
            print(f"{path.name}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
