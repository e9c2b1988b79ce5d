"""A match of a match graph, drawn uniformly at random: a walk that goes where more matches are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import borrowing
from ensue.sequences.kernels.match_graph import NOTHING, UNION, Nodes


@borrowing
def walk(
    nodes: Nodes,
    counts: NDArray[np.float64],  # [node, 0]: matches that begin at `low` or later
    root: int,
    low: int,
    chances: NDArray[np.float64],
    rows: NDArray[np.int64],
    labels: NDArray[np.int32],
) -> int:
    """Writes the events of a match, the last one first; how many, or -1: an array is too short."""
    node, length, used = root, 0, 0
    while node != NOTHING:
        while nodes.rows[node] == UNION:
            left, right = nodes.lefts[node], nodes.rights[node]
            node = left
            if nodes.newest[right] < low:
                continue
            if used >= chances.shape[0]:
                return -1
            if chances[used] * (counts[left, 0] + counts[right, 0]) >= counts[left, 0]:
                node = right
            used += 1
        if length >= rows.shape[0]:
            return -1
        rows[length], labels[length] = nodes.rows[node], nodes.labels[node]
        length += 1
        node = nodes.lefts[node]
    return length
