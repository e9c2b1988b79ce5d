"""Partial matches that ran out of time, or were still waiting at the end, as roots of the graph.

Where they are asked for, partial matches of different starts are never one class (`runs.py`), so a
class leaves the window as a whole: before the first row beyond it, its node becomes a root. What a
root is says its third number; of a match, that is the window's edge, which is never negative.

A match that might have grown is no time-out: events that complete a match carry `COMPLETE` in their
label, and `leaves` passes them over where partial matches end with them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import allocating, inner, inner_allocating
from ensue.kernels.stop import asked
from ensue.sequences.kernels.classes import Classes, forget
from ensue.sequences.kernels.match_graph import UNION, Nodes

EXPIRED, LATE, OPEN = -1, -2, -3  # left the window; waited too long at a joint; is waiting
COMPLETE = 1 << 6  # above every label


class Timeouts(NamedTuple):
    """What the end of a partition makes of the classes that are left, and joints on the way."""

    bounds: NDArray[np.int64]  # per state: joints under which its places wait, as bits
    timed: bool  # there is a window
    floors: NDArray[np.int64]  # per partition: starts below are out of time after its rows
    is_open: NDArray[np.bool_]  # per partition: more rows may come
    now: NDArray[np.float64]  # the time at the end of those that are not open; empty: not known
    edge: NDArray[np.int64]  # starts below have been dealt with


@inner
def expire(
    timeouts: Timeouts,
    classes: Classes,
    nodes: Nodes,
    roots: NDArray[np.int64],
    found: int,
    row: int,
    low: int,
    reported: bool,
) -> int:
    """Forgets the classes that begin before `low`; those that timed out become roots."""
    timeouts.edge[0] = low
    begin = found
    for state in range(classes.ids.shape[0]):
        kept = 0
        tells = reported and (timeouts.timed or timeouts.bounds[state] != 0)
        for index in range(classes.counts[state]):
            slot = classes.ids[state, index]
            node = classes.node[slot]
            if nodes.newest[node] >= low:
                classes.ids[state, kept] = slot
                classes.keys[state, kept] = classes.keys[state, index]
                kept += 1
                continue
            if tells:
                roots[found, 0], roots[found, 1], roots[found, 2] = row, node, EXPIRED
                found += 1
            forget(classes, slot)
        classes.counts[state] = kept
    by_start(nodes, roots, begin, found)
    return found


@inner
def left_open(
    timeouts: Timeouts,
    classes: Classes,
    nodes: Nodes,
    roots: NDArray[np.int64],
    found: int,
    row: int,
) -> int:
    """The classes at the end of a complete partition, as roots."""
    begin = found
    for state in range(classes.ids.shape[0]):
        if not timeouts.timed and timeouts.bounds[state] == 0:
            continue
        for index in range(classes.counts[state]):
            node = classes.node[classes.ids[state, index]]
            roots[found, 0], roots[found, 1], roots[found, 2] = row, node, OPEN
            found += 1
    by_start(nodes, roots, begin, found)
    return found


@inner
def by_start(nodes: Nodes, roots: NDArray[np.int64], begin: int, end: int) -> None:
    """Sorts some roots by their first row, so that it does not matter how time moved on."""
    for place in range(begin + 1, end):
        if nodes.newest[roots[place, 1]] < nodes.newest[roots[place - 1, 1]]:
            _sort(nodes, roots, begin, end)
            return


@inner_allocating
def _sort(nodes: Nodes, roots: NDArray[np.int64], begin: int, end: int) -> None:
    found = roots[begin:end].copy()
    order = np.argsort(nodes.newest[found[:, 1]], kind="mergesort")
    for place in range(order.shape[0]):
        for column in range(3):
            roots[begin + place, column] = found[order[place], column]


@allocating
def leaves(
    nodes: Nodes,
    roots: NDArray[np.int64],
    found: int,
    place: NDArray[np.int64],
    stack: NDArray[np.int64],
    out: NDArray[np.int64],
) -> int:
    """Roots without those that end with the last event of a match; how many are in `out`.

    Works on from `place` (next root, height of the stack) until `out` is full. -1: the stack has
    to grow.
    """
    count = 0
    while not asked():
        if place[1] == 0:
            if place[0] >= found:
                break
            stack[0] = roots[place[0], 1]
            place[1] = 1
        if count >= out.shape[0]:
            break
        if place[1] + 1 >= stack.shape[0]:
            return -1 if count == 0 else count
        kind = roots[place[0], 2]
        node = stack[place[1] - 1]
        if kind < 0 and nodes.rows[node] == UNION:
            stack[place[1] - 1] = nodes.rights[node]
            stack[place[1]] = nodes.lefts[node]
            place[1] += 1
            continue
        place[1] -= 1
        if kind >= 0 or nodes.labels[node] < COMPLETE:
            out[count, 0], out[count, 1], out[count, 2] = roots[place[0], 0], node, kind
            count += 1
        if place[1] == 0:
            place[0] += 1
    return count
