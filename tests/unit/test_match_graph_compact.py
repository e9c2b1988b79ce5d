"""Forgetting what the window has left keeps exactly what is inside it, wherever nodes move."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ensue.sequences.kernels import match_graph as kernels
from ensue.sequences.match_graph import list_roots, new_nodes


def grown(seed: int, size: int = 60) -> tuple[kernels.Nodes, np.ndarray]:
    """A random graph; nodes of its newest rows are current."""
    chance, nodes = random.Random(seed), new_nodes(2 * size)
    for array in nodes:
        array[:] = chance.choice((-7, 1 << 30))  # what was never written may be anything
    for used in range(size):
        left, right = (chance.randrange(max(0, used - 25), used) if used else -1 for _ in "ab")
        if used > 2 and left != right and chance.random() < 0.4:
            kernels.join_nodes(nodes, left, right, used)
        else:
            before = left if used and chance.random() < 0.5 else kernels.NOTHING
            kernels.event_node(nodes, before, used, 0, used)
    return nodes, np.arange(size - 6, size, dtype=np.int32)


def listed(nodes: kernels.Nodes, current: np.ndarray, low: int) -> list[list[tuple[int, ...]]]:
    found = []
    for node in current.tolist():
        matches: list[tuple[int, ...]] = []
        if node >= 0 and nodes.newest[node] >= low:
            root = np.array([[0, node, low]], np.int64)
            for part in list_roots(nodes, root, 1, 1 << 20):
                ends = np.cumsum(part.lengths)
                rows = np.split(part.rows, ends[:-1])
                matches += [tuple(row.tolist()) for row in rows]
        found.append(sorted(matches))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_compacting_changes_no_match(seed: int) -> None:
    nodes, current = grown(seed)
    for low in (15, 30, 45):
        before = listed(nodes, current, low)
        used = kernels.compact(nodes, current, int(current.max()) + 1, low)
        assert listed(nodes, current, low) == before
        for node in range(used):
            assert -1 <= nodes.lefts[node] < node
            if nodes.rows[node] == kernels.UNION:
                assert 0 <= nodes.rights[node] < node
