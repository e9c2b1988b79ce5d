"""Open partial matches of one partition (or of complete ones, one after the other), as arrays."""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import NDArray

from ensue.guards import machine as vm
from ensue.guards.compile import Guards
from ensue.shared.kernels import arena, layout
from ensue.shared.kernels.layout import Arena, Lists

FEW, MANY = 1 << 6, 1 << 12  # records to begin with: of one partition, and of all in turn
STORED = Arena._fields[:10]  # the registers follow from the events


class Partials:
    """See the module. `recent` is the work of the last events, which is averaged under a bound."""

    def __init__(
        self, words: int, ints: int, floats: int, averaged: int = 1, capacity: int = FEW
    ) -> None:
        self.words = words  # of the bitmap of patterns
        self._ints, self._floats = ints, floats
        self.meta = np.zeros(layout.META, np.int64)
        self.meta[[layout.FREE, layout.FRESH]] = -1
        self.rewind()
        self.arena = self._room(capacity)
        self.lists = Lists(np.zeros(0, np.int32), np.zeros(0), np.zeros(averaged, np.int64))
        self.stale = False  # registers have to be computed from the events again

    def _room(self, capacity: int) -> Arena:
        small, long, flat = np.int32, np.int64, capacity
        return Arena(
            node=np.zeros(flat, small), parent=np.zeros(flat, small), label=np.zeros(flat, small),
            row=np.zeros(flat, long), first=np.zeros(flat, long),
            bits=np.zeros((flat, self.words), np.uint64),
            references=np.zeros(flat, small), following=np.zeros(flat, small),
            bucket=np.zeros(flat, small), length=np.zeros(flat, small),
            ints=np.zeros((flat, self._ints), long),
            floats=np.zeros((flat, self._floats), np.float64),
        )  # fmt: skip

    def rewind(self) -> None:
        """The next rows are the first of another batch."""
        self.meta[[layout.POSITION, layout.PHASE]] = 0
        self.meta[layout.PLACE], self.meta[layout.RUN] = -1, -2

    def grow(self, capacity: int) -> None:
        before, self.arena = self.arena, self._room(capacity)
        for name in Arena._fields:
            old = getattr(before, name)
            getattr(self.arena, name)[: len(old)] = old

    def cover(self, nodes: int, partitions: int = 1) -> None:
        """Lists for nodes found since; where partitions take turns, no list may be in use."""
        head, count, recent = self.lists
        grown = max(nodes, len(count))
        count = np.concatenate([count, np.zeros(grown - len(count))])
        if partitions > 1 or len(head) > grown:
            count[:] = 0.0
            head = np.zeros(0, np.int32)
        more = np.full(partitions * grown - len(head), -1, np.int32)
        self.lists = Lists(np.concatenate([head, more]), count, recent)

    @property
    def capacity(self) -> int:
        return len(self.arena.node)

    @property
    def bytes_per_record(self) -> int:
        return self.nbytes // self.capacity

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arena)

    def nodes(self) -> list[int]:
        """Nodes at which partial matches wait."""
        return [int(node) for node in np.flatnonzero(self.lists.head >= 0)]

    def starts(self, patterns: list[int]) -> dict[int, set[int]]:
        """By pattern the first rows of its open partial matches."""
        found: dict[int, set[int]] = {pattern: set() for pattern in patterns}
        for node in self.nodes():
            run = int(self.lists.head[node])
            while run >= 0:
                for pattern, rows in found.items():
                    if arena.has(self.arena.bits[run], pattern):
                        rows.add(int(self.arena.first[run]))
                run = int(self.arena.following[run])
        return found

    def shift_rows(self, rows: int, guards: Guards) -> None:
        """The first rows are gone: everything that names a row counts from the new first one."""
        used = int(self.meta[layout.USED])
        self.arena.row[:used] -= rows
        self.arena.first[:used] -= rows
        self.meta[layout.POSITION] -= rows
        for kind, register, _, _, _, slots in guards.updates.tolist():
            if kind in (vm.KEEP_LAST, vm.KEEP_FIRST):
                block = self.arena.ints[:used, register : register + slots + 1]
                block[block >= 0] -= rows
                np.maximum(block, -1, out=block)

    def copy(self) -> Partials:
        """A copy of the same partial matches."""
        made = copy.copy(self)
        made.meta = self.meta.copy()
        made.arena, made.lists = layout.copied(self.arena), layout.copied(self.lists)
        return made


def counted(ended: NDArray[np.int64], partials: Partials) -> NDArray[np.int64]:
    """What partitions that are over have counted, with one more of them."""
    most = max(ended[layout.MOST], partials.meta[layout.MOST])
    total: NDArray[np.int64] = ended + partials.meta
    total[layout.MOST] = most
    return total
