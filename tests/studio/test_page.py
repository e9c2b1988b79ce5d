"""The page in a real browser: what one types, sees, clicks and reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pytest

import ensue
from tests.studio import browser as browsers
from tests.studio import pictures
from tests.studio.browser import Tab

VISITS = pa.table(
    {
        "user": ["ann"] * 4 + ["bob"] * 3 + ["cy"] * 3,
        "ts": [1, 2, 3, 4, 1, 2, 3, 1, 2, 9],
        "kind": ["view", "cart", "cart", "pay", "view", "cart", "ad", "view", "cart", "pay"],
        "amount": [None, 5.0, 20.0, 25.0, None, 7.0, None, None, 30.0, 31.0],
    }
)
# Three of 2,000 rows: more matches than anybody waits for.
MANY = pa.table({"ts": list(range(2000)), "kind": ["a"] * 2000})


@pytest.fixture(scope="module")
def served() -> Iterator[Any]:
    browsers.need()
    from ensue.studio.server import serve

    with serve({"visits": VISITS, "many": MANY}, port=0) as server:
        yield server


@pytest.fixture(scope="module")
def chromium(served: Any) -> Iterator[Any]:
    with browsers.browsing() as browser:
        yield browser


@pytest.fixture
def tab(served: Any, chromium: Any) -> Iterator[Tab]:
    """The page on the table of visits, with a pattern that one of three users matches."""
    one = Tab(chromium).open(served.url)
    one.page.get_by_role("checkbox", name="while I type").wait_for()
    one.option("Types column", "kind")
    one.option("Partition by", "user")
    one.option("Order by", "ts")
    one.option("Within", "5")
    one.write("view cart+ pay")
    one.figures.get_by_text("1 match").wait_for()
    yield one
    one.close()
    assert not one.faults


def test_what_is_typed_is_matched_and_what_is_broken_is_underlined(tab: Tab) -> None:
    tab.button("Table").click()
    first = tab.page.locator(".table-view tbody tr").first
    first.get_by_text("view").wait_for()
    assert first.inner_text().split() == ["ann", "0", "1", "view", "1"]
    tab.button("Table").click()

    tab.tab("SQL")
    tab.editor.get_by_text("MATCH_RECOGNIZE").wait_for()
    tab.tab("Pattern")

    tab.write("view cart+ (pay")
    alert = tab.page.locator("#ensue-problem").get_by_role("alert")
    alert.wait_for()
    assert tab.page.locator("#ensue-text .cm-lintRange-error").count() > 0
    assert tab.editor.get_attribute("aria-invalid") == "true"
    # The last good answers stay.
    assert "1 match" in tab.figures.inner_text()

    tab.write("view cart+")
    alert.wait_for(state="detached")
    tab.figures.get_by_text("3 matches").wait_for()

    # An error in an option is told there.
    tab.option("Within", "5 moons")
    alert.wait_for()
    assert tab.page.get_by_label("Within", exact=True).get_attribute("aria-invalid") == "true"


def test_a_near_miss_tells_its_reason(tab: Tab) -> None:
    tab.tab("Why")
    attempts = tab.page.locator("[data-list=attempts]")
    attempts.get_by_role("button", name="cy").click()
    verdict = tab.details.locator("[data-reason=within]")
    verdict.wait_for()
    assert "3 more than within allows" in verdict.inner_text()

    # By reason, and by keyboard.
    tab.page.get_by_role("group", name="Filter by reason").get_by_role("button").first.focus()
    tab.page.keyboard.press("Enter")
    tab.page.locator("[aria-pressed=true].chip").first.wait_for()

    # An event by the keys of the lanes: the lane below, its first event, what is said of it.
    tab.lanes.focus()
    tab.page.keyboard.press("Escape")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        tab.page.keyboard.press(key)
    tab.page.locator("output", has_text="row 1").wait_for()
    tab.details.get_by_role("heading", name="Conditions here").wait_for()


def test_rows_that_were_expected_to_match(tab: Tab) -> None:
    tab.lanes.focus()
    for key in ("Escape", "ArrowDown", "ArrowDown", "ArrowRight", "x", "ArrowRight", "x"):
        tab.page.keyboard.press(key)
    told = tab.details.locator("[data-expected]")
    told.get_by_text("missing").wait_for()
    assert "pay: the pattern asks for it next" in told.inner_text()

    # With the mouse, one more of them.
    tab.page.keyboard.press("ArrowRight")
    tab.button("I expected this row to match").click()
    tab.details.get_by_role("heading", name="Rows 0, 1, 2 expected to match").wait_for()
    tab.details.locator("[data-expected=condition]").wait_for()
    assert "'ad' = 'pay' is false" in told.inner_text()
    tab.button("Forget these rows").click()
    told.wait_for(state="detached")

    # Rows that do match.
    tab.lanes.focus()
    tab.page.keyboard.press("ArrowUp")
    for _ in range(4):
        for key in ("ArrowRight", "x"):
            tab.page.keyboard.press(key)
    tab.details.locator("[data-expected=match]").wait_for()
    assert "They match: view cart×2 pay" in " ".join(told.inner_text().split())


def test_a_match_of_the_table_is_shown_with_its_measures(tab: Tab) -> None:
    measures = tab.page.get_by_role("textbox", name="Measures")
    measures.click()
    tab.page.keyboard.insert_text("paid: pay.amount")
    cell = tab.page.locator("table.rows").get_by_role("cell", name="25", exact=True)
    cell.click()
    tab.details.get_by_role("heading", name="ann · match 1").wait_for()
    assert "paid" in tab.details.locator(".pairs").inner_text()
    assert tab.details.locator(".match-rows tbody tr").count() == 4


def test_what_is_on_screen_can_be_taken_away(tab: Tab, tmp_path: Path) -> None:
    copied = {}
    for name in ("Python", "SQL", "Feed test", "Link"):
        tab.page.get_by_role("group", name="Copy as").get_by_role("button", name=name).click()
        tab.page.get_by_text(f"{name} copied").first.wait_for()
        copied[name] = tab.page.evaluate("navigator.clipboard.readText()")
    run: dict[str, Any] = {}
    exec(copied["Python"], run)
    assert run["q"].matches(VISITS).num_rows == 1
    assert ensue.sql(copied["SQL"], visits=VISITS, events=VISITS).num_rows == 1
    exec(copied["Feed test"], run)
    run["test_pattern"]()
    assert "#share=" in copied["Link"]
    assert "token" not in copied["Link"]

    begins = {"SVG": b"<svg", "PNG": b"\x89PNG"}
    for name, begin in begins.items():
        with tab.page.expect_download() as download:
            tab.button(name).click()
        path = tmp_path / name
        download.value.save_as(path)
        assert path.read_bytes().startswith(begin)
    assert "ann" in (tmp_path / "SVG").read_text()


def test_versions_are_compared(tab: Tab) -> None:
    tab.tab("Compare")
    tab.button("Pin this version").click()
    tab.write("view -> cart -> pay")
    tab.figures.get_by_text("+1 appear").wait_for()
    tab.figures.get_by_text("1 disappear").wait_for()
    changes = tab.page.locator("[data-list=changes]")
    changes.get_by_role("button").first.click()
    tab.details.get_by_role("heading", name="ann").wait_for()

    # What was pinned is of this table.
    tab.page.get_by_label("Data").select_option(label="many")
    tab.button("Pin this version").wait_for()


def test_the_automaton_is_lit_step_by_step(tab: Tab) -> None:
    tab.tab("Why")
    tab.page.locator("[data-list=attempts]").get_by_role("button", name="bob").click()
    tab.button("First step").click()
    told = tab.page.get_by_label("Automaton", exact=True).locator(".asked")
    told.get_by_text("Step 1 of").wait_for()
    tab.page.locator(".arc.tried.yes").first.wait_for(state="attached")
    lit = tab.page.locator("[data-lit=true]")
    seen = {lit.first.text_content()}
    for _ in range(3):
        tab.button("Step forward").click()
        seen.add(lit.first.text_content())
    told.get_by_text("Step 4 of").wait_for()
    tab.button("Step back").click()
    told.get_by_text("Step 3 of").wait_for()
    assert len(seen) > 1


def test_what_a_budget_keeps_is_drawn(tab: Tab) -> None:
    tab.tab("Cost")
    tab.page.get_by_text("A row pattern takes a budget in a stream").wait_for()
    tab.write("view ->> cart ->> pay")
    slider = tab.page.get_by_label("Budget in percent")
    slider.fill("30")
    tab.page.get_by_role("img", name="Recall by share of the work: 10%: ").wait_for()
    tab.page.get_by_label("Budget", exact=True).get_by_text("recall").first.wait_for()


def test_names_are_completed_and_taken_by_keyboard(tab: Tab) -> None:
    define = tab.page.get_by_role("textbox", name="Define")
    define.click()
    tab.page.keyboard.type("cart: amo")
    offered = tab.page.locator(".cm-tooltip-autocomplete")
    offered.get_by_text("amount").wait_for()
    tab.page.wait_for_timeout(150)  # what pops up under the hands takes no key for a moment
    tab.page.keyboard.press("Enter")
    tab.page.keyboard.type(" > 10")
    tab.figures.get_by_text("0 matches").wait_for()
    assert define.inner_text() == "cart: amount > 10"


def test_a_server_that_ends_loses_nothing(chromium: Any) -> None:
    from ensue.studio.server import serve

    with serve({"visits": VISITS}, port=0) as server:
        one = Tab(chromium).open(server.url)
        one.figures.wait_for()
        one.write("view cart+ pay")
        one.figures.wait_for()
    one.write("view cart+ pay?")
    one.page.locator(".banner").get_by_role("button", name="Try again").wait_for()
    assert one.editor.inner_text() == "view cart+ pay?"
    one.close()


def test_two_pages_at_once(tab: Tab, served: Any) -> None:
    other = tab.context.new_page()
    other.goto(served.url)
    figures = other.locator("#ensue-answer .figures").first
    figures.get_by_text("1 match").wait_for()  # what was typed in the first
    other.locator("#ensue-text .cm-content").click()
    other.keyboard.press("ControlOrMeta+a")
    other.keyboard.insert_text("view cart+")
    tab.write("cart pay")
    figures.get_by_text("3 matches").wait_for()
    tab.figures.get_by_text("1 match").wait_for()
    assert tab.editor.inner_text() == "cart pay"
    assert other.locator("#ensue-text .cm-content").inner_text() == "view cart+"


# What a notebook does for a widget: it gives messages on, here from and to the test.
HOST = """<!doctype html><meta charset=utf-8><link rel=stylesheet href=widget.css>
<div id=cell style="height: 800px; width: 700px"></div><script type=module>
import widget from "./widget.js";
const heard = new Set();
const on = (_, one) => heard.add(one), off = (_, one) => heard.delete(one);
const model = { send: (message) => window.said(message), on, off };
widget.render({ model, el: document.getElementById("cell") });
setInterval(async () => {
  for (const message of await window.hear()) for (const one of heard) one(message);
}, 30);
</script>"""


def test_the_same_component_in_a_notebook(served: Any, chromium: Any) -> None:
    from ensue.studio.widget import typed_of, widget

    pattern = ensue.pattern("view cart+ pay", types="kind").within(5)
    shown = widget({"visits": VISITS}, typed_of(pattern.partition_by("user").order_by("ts")))
    assert "shows no widgets" in repr(shown)
    answers: SimpleQueue[Any] = SimpleQueue()
    shown.send = answers.put
    one = Tab(chromium)
    one.page.expose_function("said", lambda message: shown._taken(shown, message, []))
    one.page.expose_function(
        "hear", lambda: [answers.get() for _ in range(min(50, answers.qsize()))]
    )

    def host(route: Any) -> None:
        name = route.request.url.rsplit("/", 1)[1]
        if name:
            route.fulfill(path=browsers.PAGE.parent / name)
        else:
            route.fulfill(body=HOST, content_type="text/html")

    one.page.route("http://notebook.test/**", host)
    one.open("http://notebook.test/")
    one.figures.get_by_text("1 match").wait_for()
    assert one.editor.inner_text() == "view cart+ pay"
    one.tab("Why")
    one.page.locator("[data-list=attempts]").get_by_role("button", name="cy").click()
    one.details.locator("[data-reason=within]").wait_for()
    # A cell is narrow: one column, and the lanes have the width.
    assert one.lanes.bounding_box()["width"] > 600
    one.close()
    shown.close()
    assert not one.faults


def test_a_long_run_is_cancelled_and_the_page_goes_on(tab: Tab) -> None:
    tab.page.get_by_label("Data").select_option(label="many")
    tab.option("Types column", "")
    tab.option("Partition by", "")
    tab.option("Within", "")
    tab.option("Order by", "ts")
    tab.page.get_by_role("textbox", name="Define").click()
    tab.page.keyboard.insert_text("B: ts > A.ts")  # matches that read others are not counted ahead
    tab.write("A+ ->> B+ ->> C")
    cancel = tab.button("Cancel")
    cancel.wait_for()
    cancel.click()
    tab.page.get_by_text("Cancelled").first.wait_for()
    cancel.wait_for(state="detached")

    tab.write("A B")
    tab.figures.get_by_text("1,000 matches").wait_for()


def test_a_reload_keeps_the_work_and_a_wrong_token_gets_nothing(
    tab: Tab, served: Any, chromium: Any
) -> None:
    assert served.token not in tab.page.url
    tab.write("view ad? cart+ pay")
    tab.button("Link").click()
    tab.page.get_by_text("Link copied").first.wait_for()
    tab.page.reload()
    tab.figures.get_by_text("1 match").wait_for()
    assert tab.editor.inner_text() == "view ad? cart+ pay"
    assert tab.page.get_by_label("Partition by", exact=True).input_value() == "user"
    state = tab.context.storage_state()
    assert served.token not in str(state["origins"])
    # Nothing comes from elsewhere.
    origin = served.url.split("#")[0].rstrip("/")
    assert all(url.startswith((origin, "data:", "blob:")) for url in tab.requested)

    stranger = Tab(chromium).open(f"{origin}/#token=wrong")
    banner = stranger.page.locator(".banner")
    banner.wait_for()
    assert "token" in banner.inner_text()
    stranger.close()


def test_pictures_of_the_main_views_can_be_taken(
    served: Any, chromium: Any, tmp_path: Path
) -> None:
    for path in pictures.take(chromium, served.url, tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")
