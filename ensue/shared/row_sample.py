"""Start rows that are tried whatever they are worth: what they find shows what the others lose.

A few are drawn at random of all that could match. Of those that would have been shed, how much
their matches differ from the rates of the sketch corrects the estimate of what was lost, whatever
the sketch has learned: the sum is unbiased, and its variance is that of the drawing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.shared.constants import EXPLORE_STARTS, MOST_EXPLORED

TIES = 1e-9  # start rows of one rate are taken in any order, so that those drawn stand for all


class Ranked(NamedTuple):
    """Start rows by what they are worth, and which of them are drawn."""

    rates: NDArray[np.float64]
    worth: NDArray[np.float64]
    explored: NDArray[np.bool_]
    chance: float

    def order(self, most: float = 1.0) -> NDArray[np.float64]:
        """Those drawn come first; `most` is the greatest weight of a pattern."""
        return self.worth + 2.0 * most * self.explored


class Drawn(NamedTuple):
    """Start rows that were tried only because they were drawn."""

    rows: NDArray[np.int64]
    rates: NDArray[np.float64]
    chance: float


def ranked(
    rates: NDArray[np.float64],
    possible: NDArray[np.bool_],
    room: int,
    random: np.random.Generator,
    weight: float = 1.0,
) -> Ranked:
    """`room` of them may be tried."""
    count = len(rates)
    chance = min(EXPLORE_STARTS, MOST_EXPLORED * room / max(1, count))
    worth = weight * (rates + TIES * random.random(count))
    return Ranked(rates, worth, possible & (random.random(count) < chance), chance)


def drawn_of(order: Ranked, rows: NDArray[np.int64], taken: NDArray[np.bool_]) -> Drawn:
    """Those of the rows taken that would have been shed."""
    others = order.worth[taken & ~order.explored]
    cut = others.min(initial=np.inf)
    mine = taken & order.explored & (order.worth < cut) & (not taken.all())
    return Drawn(rows[mine], order.rates[mine], max(order.chance, 1e-9))
