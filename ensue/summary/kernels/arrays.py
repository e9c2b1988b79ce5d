"""What the loops of a summary read and write, by name: each a bundle of flat arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import allocating, inner_allocating


class Arcs(NamedTuple):
    """The counting automaton; the arcs of class c are offset[c] … offset[c + 1] − 1."""

    offset: Any
    source: Any
    target: Any
    valued: Any  # by arc: its label has a value that counts
    ordered: Any  # by class: no state is read after it was written
    starts: Any  # by class: it can begin a match
    final: Any  # by state
    fork: bool  # a partial match stays and goes on (skip-till-any); else it moves


class Tables(NamedTuple):
    """What is known about arrivals; all keys share it."""

    learning: Any  # see `select.WEIGHT`, `AGE` and `FILLED`
    class_weight: Any  # the last is that of events without a class
    probability: Any  # by class
    coefficient: Any  # see `expect.coefficients`
    exponent: Any


class Retained(NamedTuple):
    """The retained events of one key in order, with room for more."""

    times: NDArray[Any]
    classes: NDArray[np.int64]
    weights: NDArray[np.float64]
    ids: NDArray[np.int64]
    past: NDArray[np.float64]  # matches whose window has closed


class Lanes(NamedTuple):
    """Scratch of a sweep: a lane is a start, from its event to the last one of its window."""

    first: Any
    last: Any
    terminal: Any  # [state, lane]: what a partial match comes to after the window
    work: Any  # forward, backward, and the sums of both
    kept: Any  # between the two passes
    kept_sum: Any
    spare: Any


@allocating
def make_lanes(room: int, arcs: Arcs) -> Lanes:
    """For so many events."""
    states = arcs.final.shape[0]
    most_arcs = 1
    for c in range(arcs.offset.shape[0] - 1):
        most_arcs = max(most_arcs, arcs.offset[c + 1] - arcs.offset[c])
    return Lanes(
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty((states, room)),
        np.empty((4, states, room)),
        np.empty(16),
        np.empty(16),
        np.empty((most_arcs, 2, room)),
    )


@inner_allocating
def keeping(lanes: Lanes, room: int, sums: bool) -> Lanes:
    """The same with space to keep so many numbers between the passes."""
    if room <= lanes.kept.shape[0]:
        return lanes
    kept_sum = np.empty(2 * room) if sums else lanes.kept_sum
    return Lanes(
        lanes.first,
        lanes.last,
        lanes.terminal,
        lanes.work,
        np.empty(2 * room),
        kept_sum,
        lanes.spare,
    )
