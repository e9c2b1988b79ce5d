"""The studio's page in a browser, over a million events: how long answers take, and frames.

The same is done on ten thousand events, in the same run: the page holds only what is in view, so
its frames should not be slower with a hundred times the data; answers grow with it. A frame here is
the time between two that the browser drew while lanes were zoomed, moved and scrolled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import say
from benchmarks.rows import Settings
from ensue.demo.data import funnel

SMALL, LARGE = 10_000, 1_000_000
MOVES = 40
OPTIONS = {"Types column": "kind", "Partition by": "user_id", "Order by": "ts", "Within": "1 hour"}
# Frames are kept in an attribute: the page's own policy forbids to evaluate texts in it.
RECORDER = """
const frames = [];
let last = 0;
const tick = (now) => {
  if (last) frames.push(now - last);
  if (frames.length > 600) frames.shift();
  last = now;
  document.documentElement.setAttribute("data-frames", JSON.stringify(frames));
  requestAnimationFrame(tick);
};
requestAnimationFrame(tick);
"""


@dataclass(frozen=True)
class Felt:
    """What one feels at the page: seconds of answers, milliseconds of frames."""

    first: float  # from the pattern typed to its matches
    again: float  # another pattern on the same data
    lanes: float  # from a jump along the axis to its events
    frame: float  # median
    slow_frame: float  # one of twenty is slower


def run_studio(settings: Settings) -> bool:
    """studio: the page over a million events, and over ten thousand: answers and frames"""
    from ensue.studio.server import serve
    from tests.studio.browser import browsing, missing

    reason = missing()
    if reason is not None:
        say(f"studio: left out: {reason}")
        return False
    rows = settings.rows or LARGE
    tables = {f"events-{n}": funnel(max(1, n // 200), n) for n in (SMALL, rows)}
    with serve(tables, port=0) as served, browsing() as browser:
        felt = [_felt(browser, served.url, name) for name in tables]
    small, large = felt
    say(f"{'':24}{SMALL:>14,} {rows:>14,}  ratio")
    for name, unit in (
        ("first", "s"), ("again", "s"), ("lanes", "s"), ("frame", "ms"), ("slow_frame", "ms"),
    ):  # fmt: skip
        a, b = getattr(small, name), getattr(large, name)
        say(f"{name + ' (' + unit + ')':24}{a:14.2f} {b:14.2f} {b / a:6.1f}")
    return True


def _felt(browser: Any, url: str, name: str) -> Felt:
    from tests.studio.browser import Tab

    tab = Tab(browser)
    tab.page.set_default_timeout(600_000)
    tab.page.add_init_script(RECORDER)
    tab.open(url)
    tab.page.get_by_label("Data").select_option(label=name)
    tab.page.get_by_text("4 columns").wait_for()
    for label, text in OPTIONS.items():
        tab.option(label, text)

    def ask(pattern: str) -> Callable[[], None]:
        def act() -> None:
            tab.write(pattern)
            tab.editor.get_by_text(pattern).wait_for()
            _settled(tab)
            tab.figures.wait_for()

        return act

    first = _seconds(ask("view cart+ pay"))
    again = _seconds(ask("view cart pay"))
    lanes = _seconds(lambda: (tab.button("Fit").click(), _settled(tab)))
    tab.lanes.hover()
    for number in range(MOVES):
        tab.page.keyboard.down("Control")
        tab.page.mouse.wheel(0, -60 if number % 20 < 10 else 60)
        tab.page.keyboard.up("Control")
        tab.page.mouse.wheel(30 if number % 2 else -30, 90)
        tab.page.wait_for_timeout(30)
    frames = np.array(json.loads(tab.page.locator("html").get_attribute("data-frames") or "[]"))
    frames = frames[-3 * MOVES :]
    tab.close()
    return Felt(first, again, lanes, float(np.median(frames)), float(np.quantile(frames, 0.95)))


def _settled(tab: Any) -> None:
    """Wait until nothing that was asked is open any more."""
    tab.page.wait_for_timeout(400)  # what is typed is read after a rest
    tab.page.locator(".ensue-studio[aria-busy=false]").wait_for()


def _seconds(act: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


COMMANDS = {"studio": run_studio}
