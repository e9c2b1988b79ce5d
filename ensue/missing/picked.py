"""Matches picked from the roots of a match graph, so many of each, to be listed together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.missing.kernels import some
from ensue.sequences.kernels.match_graph import Nodes
from ensue.sequences.match_graph import Stretch
from ensue.stopping import look


class Picked:
    """See the module."""

    def __init__(self, nodes: Nodes, roots: NDArray[np.int64]) -> None:
        self.nodes, self.roots = nodes, roots
        self.known = np.zeros(len(roots), np.int64)  # matches of each root
        self.open = np.ones(len(roots), np.bool_)  # may have more
        self.matches = self.events = 0
        self._parts: list[tuple[NDArray[Any], ...]] = []  # root, length, labels and rows

    def take(
        self, chosen: NDArray[np.int64], stop: NDArray[np.int64], most: int, units: float
    ) -> None:
        place, stop = np.zeros(3, np.int64), stop.copy()
        stack = np.empty((1024, 2), np.int64)
        path_rows, path_labels = np.empty(1024, np.int64), np.empty(1024, np.int32)
        room = 1 << 14
        while True:
            look()
            rows, labels = np.empty(room, np.int64), np.empty(room, np.int32)
            lengths, of = np.empty(room, np.int64), np.empty(room, np.int64)
            matches, events, done = some.list_some(
                self.nodes, self.roots, chosen, self.known, stop, place, stack, path_rows,
                path_labels, rows, labels, lengths, of, most, float(units),
            )  # fmt: skip
            most, units = most - matches, units - events
            self.matches += matches
            self.events += events
            if matches:
                self._parts.append(
                    (of[:matches], lengths[:matches], labels[:events], rows[:events])
                )
            if done:
                break
            if not matches:
                stack = np.concatenate((stack, np.empty_like(stack)))
                path_rows = np.concatenate((path_rows, np.empty_like(path_rows)))
                path_labels = np.concatenate((path_labels, np.empty_like(path_labels)))
            room = min(2 * room, 1 << 18) if matches else 2 * room
        self.open &= stop > 0

    def stretch(self) -> Stretch | None:
        """In the order of their ends."""
        if not self._parts:
            return None
        of, lengths, labels, rows = (
            np.concatenate(part) for part in zip(*self._parts, strict=True)
        )
        order = np.argsort(of, kind="stable")
        begins = (np.cumsum(lengths) - lengths)[order]
        lengths = lengths[order]
        places = np.arange(int(lengths.sum())) + np.repeat(
            begins - (np.cumsum(lengths) - lengths), lengths
        )
        return Stretch(lengths, labels[places], rows[places])
