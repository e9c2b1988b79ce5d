"""What stages keep between calls: numbers per place, so that many keys are one set of arrays.

A *place* is where one partition keeps its state. The operator gives each key a place; groups give
each of their groups a place in the memory below. `select` copies the state of some places out (a
snapshot, or a trial that must change nothing), `put` brings it back, at any place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.quantities.kernels.loop import NULL
from ensue.quantities.model import Automaton

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass
class Kept:
    """States of an automaton, as arrays (compiled) or configurations (plain values)."""

    occupied: Flags
    bits: NDArray[np.int64]
    marks: NDArray[np.uint8]
    configurations: list[Any]
    automaton: Automaton  # whose they are

    @staticmethod
    def of(states: int, slots: int, automaton: Automaton) -> Kept:
        return Kept(
            np.zeros((0, states), np.bool_),
            np.zeros((0, slots), np.int64),
            np.zeros((0, slots), np.uint8),
            [],
            automaton,
        )

    def grow(self, places: int) -> None:
        """Room for as many partitions; doubled, so that growing is cheap over all."""
        have = len(self.occupied)
        if places > have:
            room = max(places, 2 * have, 16) - have
            self.occupied = np.pad(self.occupied, ((0, room), (0, 0)))
            self.bits = np.pad(self.bits, ((0, room), (0, 0)))
            self.marks = np.pad(self.marks, ((0, room), (0, 0)), constant_values=NULL)
            self.configurations += [None] * room

    def select(self, places: Indices) -> Kept:
        held = [self.configurations[place] for place in places.tolist()]
        return Kept(
            self.occupied[places],
            self.bits[places],
            self.marks[places],
            [None if c is None else c.copy() for c in held],
            self.automaton,
        )

    def put(self, places: Indices, other: Kept) -> None:
        self.occupied[places] = other.occupied
        self.bits[places] = other.bits
        self.marks[places] = other.marks
        for place, configuration in zip(places.tolist(), other.configurations, strict=True):
            self.configurations[place] = configuration


@dataclass
class Memory:
    """The state of a stage and of those inside it, by place."""

    kept: Kept | None = None  # of an automaton
    numbers: Indices = field(default_factory=lambda: np.zeros(0, np.int64))  # last window or group
    seen: Indices = field(default_factory=lambda: np.zeros(0, np.int64))  # events read
    open: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))  # a window is open
    grouped: bool = False  # the places of `inner` are those of groups
    groups: dict[int, dict[tuple[object, ...], int]] = field(default_factory=dict)
    inner: list[Memory] = field(default_factory=list)
    _spare: list[int] = field(default_factory=list)
    _used: int = 0

    @property
    def nbytes(self) -> int:
        """Of all arrays, with their spare room; values in plain Python are not counted."""
        arrays = [self.numbers, self.seen, self.open]
        if self.kept is not None:
            arrays += [self.kept.occupied, self.kept.bits, self.kept.marks]
        return sum(a.nbytes for a in arrays) + sum(memory.nbytes for memory in self.inner)

    def grow(self, places: int) -> None:
        if self.kept is not None:
            self.kept.grow(places)
        if places > len(self.numbers):
            room = max(places, 2 * len(self.numbers), 16) - len(self.numbers)
            self.numbers = np.pad(self.numbers, (0, room))
            self.seen = np.pad(self.seen, (0, room))
            self.open = np.pad(self.open, (0, room))
        if not self.grouped:
            for memory in self.inner:
                memory.grow(places)

    def group(self) -> int:
        """A place for a new group."""
        if self._spare:
            return self._spare.pop()
        self._used += 1
        return self._used - 1

    def release(self, groups: list[int]) -> None:
        """Places of groups that are gone."""
        self._spare += groups
        self.inner[0].forget(groups)

    def forget(self, places: list[int]) -> None:
        """The groups of these places are gone; everything else starts afresh by itself."""
        if self.grouped:
            gone = [self.groups.pop(place, {}) for place in places]
            self.release([inner for groups in gone for inner in groups.values()])
            return
        for memory in self.inner:
            memory.forget(places)

    def select(self, places: Indices) -> Memory:
        """A copy of the state of these places, which become 0, 1, 2, ..."""
        self.grow(int(places.max(initial=-1)) + 1)
        chosen = Memory(
            None if self.kept is None else self.kept.select(places),
            self.numbers[places],
            self.seen[places],
            self.open[places],
            self.grouped,
        )
        below = places
        if self.grouped:
            below = self._select_groups(chosen, places)
        chosen.inner = [memory.select(below) for memory in self.inner]
        return chosen

    def _select_groups(self, chosen: Memory, places: Indices) -> Indices:
        below: list[int] = []
        for number, place in enumerate(places.tolist()):
            groups = self.groups.get(place, {})
            moved = {inner: len(below) + i for i, inner in enumerate(groups.values())}
            chosen.groups[number] = {key: moved[inner] for key, inner in groups.items()}
            chosen.numbers[number] = moved.get(int(chosen.numbers[number]), 0)
            below += moved
        chosen._used = len(below)
        return np.array(below, np.int64)

    def put(self, places: Indices, other: Memory) -> None:
        """The state of another memory, whose place i goes to places[i]."""
        self.grow(int(places.max(initial=-1)) + 1)
        if self.kept is not None and other.kept is not None:
            self.kept.put(places, other.kept)
        self.numbers[places], self.seen[places] = other.numbers, other.seen
        self.open[places] = other.open
        below = places
        if self.grouped:
            moved: dict[int, int] = {}
            for number, place in enumerate(places.tolist()):
                groups = other.groups.get(number, {})
                for inner in groups.values():
                    moved[inner] = self.group()
                self.groups[place] = {key: moved[inner] for key, inner in groups.items()}
                self.numbers[place] = moved.get(int(other.numbers[number]), 0)
            below = np.array([moved[inner] for inner in sorted(moved)], np.int64)
        for memory, taken in zip(self.inner, other.inner, strict=True):
            memory.put(below, taken)
