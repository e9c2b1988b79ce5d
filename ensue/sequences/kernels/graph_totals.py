"""Totals over the matches of a match graph, without listing them: numbers per node.

A node of the graph (`match_graph.py`) stands for a set of partial matches. How many they are, and
what their events sum up to, follows from the nodes below: an event adds (number of partial matches)
times its weight, a union adds both sides. A node is asked for the matches that begin at `low` or
later. Its numbers hold for every low up to the earliest start that they count (`since`), and lows
only grow, so a node is worked out again only when one of its starts has left the window; where
there is no window, once. Cost: the nodes below the roots, times how often a start leaves them.

Numbers are exact at any size: they are kept modulo several primes below 2^31, so many that the
caller can put the number together (`sequences/graph_totals.py`). `sizes` bounds the absolute value
of each, in doubles, and says how many primes are enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import allocating, inner
from ensue.kernels.copies import copy_row, copy_rows
from ensue.kernels.stop import asked
from ensue.sequences.kernels.match_graph import NOTHING, UNION, Nodes

KEPT = -2  # in place of a row: the node's numbers are those of an earlier stretch
UNKNOWN = -1
NO_ROW = -1


class Weights(NamedTuple):
    """What each row adds. A term is a sum, an extreme looks for the row of the greatest key."""

    primes: NDArray[np.int64]
    takes: NDArray[np.bool_]  # [term, label]
    column: NDArray[np.int64]  # per term, into the two below
    residues: NDArray[np.int64]  # [column, prime, row]
    sizes: NDArray[np.float64]  # [column, row]
    odd: NDArray[np.uint8]  # [column, row]: infinities and NaN, as bits
    looks: NDArray[np.bool_]  # [extreme, label]
    keys: NDArray[np.int64]  # [extreme, row]
    has_key: NDArray[np.bool_]


class Numbers(NamedTuple):
    """Of each node (or of what is kept): the number of partial matches first, then the terms."""

    since: NDArray[np.int64]
    residues: NDArray[np.int64]  # [node, number, prime]
    sizes: NDArray[np.float64]  # [node, number]
    odd: NDArray[np.uint8]  # [node, term]
    best: NDArray[np.int64]  # [node, extreme]: a row


@inner
def _copy(numbers: Numbers, node: int, source: Numbers, place: int) -> None:
    copy_rows(source.residues[place], numbers.residues[node])
    copy_row(source.sizes[place], numbers.sizes[node])
    copy_row(source.odd[place], numbers.odd[node])
    copy_row(source.best[place], numbers.best[node])


@inner
def _better(weights: Weights, extreme: int, row: int, known: int) -> bool:
    keys = weights.keys[extreme]
    return known == NO_ROW or keys[row] > keys[known]


@inner
def _join(weights: Weights, numbers: Numbers, node: int, other: int) -> None:
    """Adds the partial matches of another node, which are different ones."""
    primes = weights.primes
    for index in range(numbers.sizes.shape[1]):
        numbers.sizes[node, index] += numbers.sizes[other, index]
        for k in range(primes.shape[0]):
            total = numbers.residues[node, index, k] + numbers.residues[other, index, k]
            numbers.residues[node, index, k] = total % primes[k]
    for term in range(numbers.odd.shape[1]):
        numbers.odd[node, term] |= numbers.odd[other, term]
    for extreme in range(numbers.best.shape[1]):
        row = numbers.best[other, extreme]
        if row != NO_ROW and _better(weights, extreme, row, numbers.best[node, extreme]):
            numbers.best[node, extreme] = row


@inner
def _take(weights: Weights, numbers: Numbers, node: int, row: int, label: int) -> None:
    """The event joins every partial match of the node."""
    primes = weights.primes
    for term in range(weights.column.shape[0]):
        if not weights.takes[term, label]:
            continue
        column = weights.column[term]
        numbers.sizes[node, term + 1] += numbers.sizes[node, 0] * weights.sizes[column, row]
        numbers.odd[node, term] |= weights.odd[column, row]
        for k in range(primes.shape[0]):
            added = numbers.residues[node, 0, k] * weights.residues[column, k, row]
            total = numbers.residues[node, term + 1, k] + added
            numbers.residues[node, term + 1, k] = total % primes[k]
    for extreme in range(weights.looks.shape[0]):
        if (
            weights.looks[extreme, label]
            and weights.has_key[extreme, row]
            and _better(weights, extreme, row, numbers.best[node, extreme])
        ):
            numbers.best[node, extreme] = row


@inner
def _work_out(
    nodes: Nodes,
    weights: Weights,
    numbers: Numbers,
    kept: Numbers,
    stack: NDArray[np.int64],
    root: int,
    low: int,
) -> bool:
    """Makes the numbers of a node those of its partial matches that begin at `low` or later.

    False: it was asked to stop.
    """
    since = numbers.since
    stack[0] = root
    height = 1
    while height > 0:
        if asked():
            return False
        node = stack[height - 1]
        if since[node] >= low:
            height -= 1
            continue
        row, left = nodes.rows[node], nodes.lefts[node]
        if row == KEPT:
            since[node] = nodes.oldest[node]
            _copy(numbers, node, kept, nodes.labels[node])
            height -= 1
            continue
        if left != NOTHING and since[left] < low:
            stack[height] = left
            height += 1
            continue
        if row == UNION:
            right = nodes.rights[node]
            if nodes.newest[right] < low:
                since[node] = since[left]
                _copy(numbers, node, numbers, left)
            elif since[right] < low:
                stack[height] = right
                height += 1
                continue
            else:
                since[node] = min(since[left], since[right])
                _copy(numbers, node, numbers, left)
                _join(weights, numbers, node, right)
        elif left == NOTHING:
            since[node] = row
            numbers.residues[node] = 0
            numbers.residues[node, 0] = 1
            numbers.sizes[node] = 0.0
            numbers.sizes[node, 0] = 1.0
            numbers.odd[node] = 0
            numbers.best[node] = NO_ROW
            _take(weights, numbers, node, row, nodes.labels[node])
        else:
            since[node] = since[left]
            _copy(numbers, node, numbers, left)
            _take(weights, numbers, node, row, nodes.labels[node])
        height -= 1
    return True


@allocating
def add_up(
    nodes: Nodes,
    used: int,
    wanted: NDArray[np.int64],  # [place, (row, node, low)]
    weights: Weights,
    numbers: Numbers,
    kept: Numbers,
    out: Numbers,
) -> None:
    """The numbers of the wanted nodes, in order of their lows."""
    stack = np.empty(used + 2, np.int64)
    for place in range(wanted.shape[0]):
        node = wanted[place, 1]
        if not _work_out(nodes, weights, numbers, kept, stack, node, wanted[place, 2]):
            return  # the caller looks
        _copy(out, place, numbers, node)
