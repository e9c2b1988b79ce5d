"""Listing some of the matches of each root of a match graph."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.stop import asked
from ensue.sequences.kernels.match_graph import NOTHING, UNION, Nodes

ROOT, HEIGHT, PASSED = range(3)  # places of `place`


@njit(cache=True, nogil=True)
def list_some(
    nodes: Nodes,
    roots: NDArray[np.int64],
    chosen: NDArray[np.int64],
    begin: NDArray[np.int64],
    stop: NDArray[np.int64],
    place: NDArray[np.int64],
    stack: NDArray[np.int64],
    path_rows: NDArray[np.int64],
    path_labels: NDArray[np.int32],
    out_rows: NDArray[np.int64],
    out_labels: NDArray[np.int32],
    lengths: NDArray[np.int64],
    of: NDArray[np.int64],
    most: int,
    units: float,
) -> tuple[int, int, bool]:
    """Of each chosen root the matches begin..stop, in the order of `match_graph.list_matches`.

    (matches, events, whether it is done): until all are, or `most` matches or `units` events were
    written, else an array is full. It goes on from `place`, the stack and the path; `of` receives
    the root of each match, and `begin` how many of each root are known.
    """
    rows, labels, lefts, rights, newest, _ = nodes
    matches, events = 0, 0
    while True:
        if asked():
            return matches, events, True
        if place[HEIGHT] == 0:
            if place[ROOT] >= chosen.shape[0]:
                return matches, events, True
            stack[0, 0], stack[0, 1] = roots[chosen[place[ROOT]], 1], 0
            place[HEIGHT], place[PASSED] = 1, 0
        if matches >= most or events >= units:
            return matches, events, True
        root = chosen[place[ROOT]]
        low = roots[root, 2]
        node, depth = stack[place[HEIGHT] - 1, 0], stack[place[HEIGHT] - 1, 1]
        height = place[HEIGHT] - 1
        if (
            matches >= lengths.shape[0]
            or height + 2 >= stack.shape[0]
            or depth + 1 >= path_rows.shape[0]
            or events + depth + 1 > out_rows.shape[0]
        ):
            return matches, events, False
        if rows[node] == UNION:
            if newest[rights[node]] >= low:
                stack[height, 0], stack[height, 1] = rights[node], depth
                height += 1
            stack[height, 0], stack[height, 1] = lefts[node], depth
            place[HEIGHT] = height + 1
            continue
        path_rows[depth] = rows[node]
        path_labels[depth] = labels[node]
        depth += 1
        if lefts[node] != NOTHING:
            stack[height, 0], stack[height, 1] = lefts[node], depth
            place[HEIGHT] = height + 1
            continue
        if place[PASSED] >= begin[root]:
            for index in range(depth):
                out_rows[events + index] = path_rows[depth - 1 - index]
                out_labels[events + index] = path_labels[depth - 1 - index]
            lengths[matches], of[matches] = depth, root
            events += depth
            matches += 1
            begin[root] += 1
        place[PASSED] += 1
        place[HEIGHT] = height
        if height == 0 or place[PASSED] >= stop[root]:
            if height == 0:
                stop[root] = 0  # there are no more
            place[HEIGHT] = 0
            place[ROOT] += 1
