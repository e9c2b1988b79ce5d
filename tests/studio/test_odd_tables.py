"""The page over odd tables: it says what is wrong, and keeps what was typed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.studio import browser as browsers
from tests.studio.browser import Tab

WIDTH = 5_000


@pytest.fixture(scope="module")
def page(tmp_path_factory: Any) -> Iterator[Any]:
    """A tab over the odd tables, with a pattern that was typed."""
    browsers.need()
    from ensue.studio.server import serve

    folder: Path = tmp_path_factory.mktemp("odd")
    mixed, broken = folder / "mixed.csv", folder / "broken.parquet"
    filler = "\n".join(f"{number},{number}" for number in range(300_000))
    mixed.write_text(f"ts,value\n{filler}\n300000,many\n")
    broken.write_bytes(b"PAR1 is not all that it takes")
    tables = {
        "plain": pa.table({"ts": [1, 2], "kind": ["a", "b"]}),
        "empty": pa.table({"ts": pa.array([], pa.int64()), "kind": pa.array([], pa.string())}),
        "wide": pa.table({f"c{number:04d}": [1, 2, 3] for number in range(WIDTH)}),
        "timeless": pa.table({"word": ["x", "y", "x"], "other": ["p", "q", "r"]}),
        "mixed": mixed,
        "broken": broken,
    }
    with serve(tables, port=0) as server, browsers.browsing() as browser:
        tab = Tab(browser).open(server.url)
        tab.page.get_by_role("checkbox", name="while I type").wait_for()
        yield tab
        assert not tab.faults


def _open(page: Tab, name: str) -> None:
    page.page.get_by_label("Data").select_option(label=name)


def test_an_empty_table(page: Tab) -> None:
    _open(page, "empty")
    page.page.get_by_text("the table is empty").wait_for()
    page.page.get_by_text("This table has no rows.").wait_for()
    page.figures.get_by_text("0 matches").wait_for()
    for name in ("Why", "Compare", "Cost", "Plan", "Matches"):
        page.tab(name)
    page.figures.get_by_text("0 matches").wait_for()


def test_five_thousand_columns(page: Tab) -> None:
    _open(page, "wide")
    page.page.get_by_text("5,000 columns").wait_for()
    page.write("A B")
    page.page.get_by_role("textbox", name="Define").click()
    page.page.keyboard.insert_text("A: c4999 = 2")
    page.figures.get_by_text("1 match", exact=True).wait_for()


def test_no_column_of_time(page: Tab) -> None:
    _open(page, "timeless")
    page.page.get_by_text("no column looks like time").wait_for()
    page.write("A B")
    page.page.get_by_role("textbox", name="Define").click()
    page.page.keyboard.insert_text("A: word = 'y'")
    page.figures.get_by_text("1 match", exact=True).wait_for()


def test_a_column_of_mixed_types(page: Tab) -> None:
    _open(page, "mixed")
    page.page.get_by_text("has values of several types and is read as text").wait_for()
    page.write("A")
    page.page.get_by_role("textbox", name="Define").click()
    page.page.keyboard.insert_text("A: value = 'many'")
    page.figures.get_by_text("1 match", exact=True).wait_for()


def test_a_file_that_is_broken(page: Tab) -> None:
    _open(page, "plain")
    page.figures.wait_for()
    page.write("a b")
    page.figures.wait_for()
    _open(page, "broken")
    banner = page.page.locator(".banner")
    banner.get_by_text("broken.parquet cannot be read as parquet").wait_for()
    assert "check the file" in banner.inner_text()
    _open(page, "plain")
    banner.wait_for(state="detached")
    assert page.editor.inner_text() == "a b"
