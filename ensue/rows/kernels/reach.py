"""Which attempts can still succeed: the backward pass of `viability`, with one guard's values.

A guard `F(row) > G(first)` compares a number of the row under test with one of a row that the match
keeps. A way ahead is open to an attempt whose G is below the least F of the guarded rows on it; so
the widest way (the greatest such least F) says for every G at once whether there is one at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.automaton import NEVER
from ensue.kernels.calls import inner_inlined
from ensue.kernels.stop import asked


class Reach(NamedTuple):
    """Per comparison: what attempts hold against it, and what the rows ahead offer."""

    widest: NDArray[np.float64]  # [comparison, row, state]
    held: NDArray[np.float64]  # [comparison, row]: G
    register: NDArray[np.int64]  # of the row that G is of; -1: the first row of the match
    strict: NDArray[np.bool_]  # equal numbers do not hold


@njit(cache=True, nogil=True)
def widest_ways(
    offered: NDArray[np.float64],  # [label, row]: F; infinite where the label is not compared
    least: NDArray[np.int32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    is_open: NDArray[np.bool_],
    label: NDArray[np.int32],
    arc_offset: NDArray[np.int32],
    arc_target: NDArray[np.int32],
    widest: NDArray[np.float64],
) -> None:
    """widest[row, state]: the widest way to an end after the row was taken in the state."""
    for partition in range(ends.shape[0]):
        begin, end = starts[partition], ends[partition]
        for row in range(end - 1, begin - 1, -1):
            if asked():
                return
            for state in range(1, label.shape[0]):
                best = -np.inf
                if least[row, state] != NEVER:
                    for arc in range(arc_offset[state], arc_offset[state + 1]):
                        target = arc_target[arc]
                        if target == 0 or (row + 1 == end and is_open[partition]):
                            best = np.inf
                        elif row + 1 < end and least[row + 1, target] != NEVER:
                            ahead = min(widest[row + 1, target], offered[label[target], row + 1])
                            best = max(best, ahead)
                widest[row, state] = best


@inner_inlined
def is_hopeless(
    reach: Reach, row: int, state: int, start: int, registers: NDArray[np.int64]
) -> bool:
    """Whether no way ahead is open to an attempt with these registers."""
    for index in range(reach.register.shape[0]):
        register = reach.register[index]
        kept = start if register < 0 else registers[register]
        if kept < 0:
            continue
        number, way = reach.held[index, kept], reach.widest[index, row, state]
        if way < np.inf and (number > way or (number == way and reach.strict[index])):
            return True
    return False
