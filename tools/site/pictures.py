"""The pictures of the pages, drawn by the library itself: `python tools/site/pictures.py`.

They are kept beside the pages, since forges show the README without building anything. The build of
the site draws them again.
"""

from __future__ import annotations

from pathlib import Path

import ensue
from ensue.demo.data import ticks

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "assets"


def draw(folder: Path = PICTURES) -> None:
    prices = ticks(rows=240, symbols=3)
    valleys = (
        ensue.pattern("A B{3,} C{3,}")
        .define(B="price < PREV(price)", C="price > PREV(price)")
        .partition_by("symbol")
        .order_by("ts")
    )
    valleys.timeline(prices, value="price").save(folder / "valleys.svg")
    bought = ensue.pattern("view -> cart+ -> !refund -> pay", types="kind").order_by("ts")
    bought.plot().save(folder / "automaton.svg")


if __name__ == "__main__":
    draw()
