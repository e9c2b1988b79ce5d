"""V-patterns in stock prices (Example 1 of the AFA paper): Q1, Q2, and head and shoulders.

    python examples/afa_trading.py

Q1: a large drop, then k V-patterns with as many upticks as downticks. Q2: after a large drop, how
many V-patterns until the price is back where it was; k is in the data. Head and shoulders is the
chart pattern of Figure 14.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import ensue

DOWN, UP = "change < 0", "change > 0"


def prices(count: int, p: float = 0.5, seed: int = 0) -> pa.Table:
    """Ticks that rise with probability p by N(0.70, 0.30), truncated at 0, or fall by as much."""
    random = np.random.default_rng(seed)
    size = random.normal(0.70, 0.30, count)
    while (size <= 0).any():
        size = np.where(size <= 0, random.normal(0.70, 0.30, count), size)
    change = np.where(random.random(count) < p, size, -size)
    price = 100 + np.cumsum(change)
    return pa.table({"ts": np.arange(count), "price": price, "change": change})


def q1(k: int, delta: float = 0.25, window: int = 2000) -> ensue.Automaton:
    """A drop of more than delta, then k V's; r1 is downticks minus upticks, r2 counts the V's."""
    return (
        ensue.Automaton({"r1": "bigint", "r2": "bigint"}, order_by="ts", within=window - 1)
        .arc("q0", "q1", when=f"change < -{delta}", name="a0")
        .arc("q1", "q1", when=DOWN, set={"r1": "r1 + 1"}, name="a1")
        .arc("q1", "q2", when=DOWN, set={"r1": "r1 + 1"}, name="a2")
        .arc("q2", "q2", when=UP, set={"r1": "r1 - 1"}, name="a3")
        .arc(
            "q2", "q1", when=f"{UP} AND r2 + 1 < {k}",
            set={"r1": "r1 - 1", "r2": "r2 + 1"}, name="a4",
        )
        .arc(
            "q2", "q3", when=f"{UP} AND r2 + 1 = {k} AND r1 - 1 = 0",
            set={"r1": "r1 - 1", "r2": "r2 + 1"}, name="a5",
        )
        .final("q3")
    )  # fmt: skip


def q2(delta: float = 0.25, window: int = 500) -> ensue.Automaton:
    """After a drop, the number of V's until the price is back; `level` is the price before it."""
    return (
        ensue.Automaton({"vs": "bigint", "level": "double"}, order_by="ts", within=window - 1)
        .arc("q0", "q1", when=f"change < -{delta}", set={"level": "price - change"})
        .arc("q1", "q1", when=f"{DOWN} AND price < level")
        .arc("q1", "q2", when=f"{UP} AND price < level")
        .arc("q2", "q2", when=f"{UP} AND price < level")
        .arc("q2", "q1", when=f"{DOWN} AND price < level", set={"vs": "vs + 1"})
        .arc("q1", "back", when="price >= level", set={"vs": "vs + 1"})
        .arc("q2", "back", when="price >= level", set={"vs": "vs + 1"})
        .final("back")
    )


def head_and_shoulders(window: int = 100) -> ensue.Automaton:
    """p1 up to p2, down to p3 > p1, up to p4 > p2, down to p5 > p1, up to p6 < p4, below p1.

    The registers p1, p2 and p4 are the paper's prices; `before` is the price of the event before.
    """
    rise, fall = "price > before", "price < before AND price > p1"
    keep = {"before": "price"}
    return (
        ensue.Automaton(
            {"p1": "double", "p2": "double", "p4": "double", "before": "double"},
            order_by="ts", within=window,
        )
        .arc("start", "up1", set={"p1": "price", **keep})
        .arc("up1", "up1", when=rise, set={"p2": "price", **keep})
        .arc("up1", "down1", when=f"{fall} AND p2 > p1", set=keep)
        .arc("down1", "down1", when=fall, set=keep)
        .arc("down1", "up2", when=rise, set={"p4": "price", **keep})
        .arc("up2", "up2", when=rise, set={"p4": "price", **keep})
        .arc("up2", "down2", when=f"{fall} AND p4 > p2", set=keep)
        .arc("down2", "down2", when=fall, set=keep)
        .arc("down2", "up3", when=f"{rise} AND price < p4", set=keep)
        .arc("up3", "up3", when=f"{rise} AND price < p4", set=keep)
        .arc("up3", "down3", when=fall, set=keep)
        .arc("down3", "down3", when=fall, set=keep)
        .arc("up3", "end", when="price < p1")
        .arc("down3", "end", when="price < p1")
        .final("end")
    )  # fmt: skip


if __name__ == "__main__":
    table = prices(100_000)
    print(f"Q1, k = 2: {q1(2).matches(table).num_rows:,} matches in 100,000 ticks")
    found = q2().matches(table)
    print(f"Q2: {found.num_rows:,} recoveries; most V's: {max(found['vs'].to_pylist())}")
    print(f"head and shoulders: {head_and_shoulders().matches(prices(2_000)).num_rows:,}")
