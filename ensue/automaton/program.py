"""`Program`: an ordered automaton without ε-moves, as flat arrays.

One state per place where the pattern consumes a row (a Glushkov position, numbered from 1) and
state 0 before the first row. The arcs of a state stand in order of preference, so the preferred
match is found by always taking the first arc that can still succeed. An arc to `ACCEPT` ends the
match. Anchors, the only zero-width tests, are flags on arcs: `^` can hold only on arcs out of
state 0, `$` only on arcs to `ACCEPT`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ensue.query import condition as c
from ensue.query.query import Query

START = 0
ACCEPT = 0  # as an arc's target: no arc leads back to the start
AT_START = 1
AT_END = 2


@dataclass(frozen=True, eq=False)
class Program:
    """The automaton of a query with the conditions of its labels."""

    query: Query = field(repr=False)
    labels: tuple[str, ...]
    definitions: tuple[c.Condition, ...]  # one per label
    label: NDArray[np.int32]  # per state; -1 for state 0
    excluded: NDArray[np.bool_]  # per state: inside {- -}
    arc_offset: NDArray[np.int32]  # arcs of state s: arc_offset[s] .. arc_offset[s + 1]
    arc_target: NDArray[np.int32]
    arc_flags: NDArray[np.uint8]

    @property
    def states(self) -> int:
        return len(self.label)

    @property
    def arcs(self) -> int:
        return len(self.arc_target)

    def arcs_of(self, state: int) -> list[tuple[int, int]]:
        """(target, flags) of a state, in order of preference."""
        span = slice(self.arc_offset[state], self.arc_offset[state + 1])
        pairs = zip(self.arc_target[span], self.arc_flags[span], strict=True)
        return [(int(target), int(flags)) for target, flags in pairs]

    @cached_property
    def least_position(self) -> tuple[int, ...]:
        """Per label: how many rows at least come before it in any match."""
        distance = {START: 0}
        frontier = [START]
        while frontier:
            following = []
            for state in frontier:
                for target, _ in self.arcs_of(state):
                    if target != ACCEPT and target not in distance:
                        distance[target] = distance[state] + 1
                        following.append(target)
            frontier = following
        least = [0] * len(self.labels)
        for index in range(len(self.labels)):
            found = [d - 1 for s, d in distance.items() if s and self.label[s] == index]
            least[index] = min(found, default=0)
        return tuple(least)

    def members(self, variable: str | None) -> NDArray[np.bool_]:
        """Per state: whether its label belongs to the variable (None: every label)."""
        names = self.query.members(variable)
        belongs = np.array([label in names for label in self.labels] + [False], dtype=np.bool_)
        return belongs[self.label]  # state 0 has label -1: the appended False

    def dump(self) -> str:
        """The program as text, stable across runs (snapshot tests compare it)."""
        lines = [f"states {self.states}, arcs {self.arcs}"]
        for name, definition in zip(self.labels, self.definitions, strict=True):
            lines.append(f"label {name}: {c.dump(definition)}")
        for state in range(self.states):
            name = "start" if state == START else self.labels[self.label[state]]
            mark = " excluded" if self.excluded[state] else ""
            targets = " ".join(_arc_text(target, flags) for target, flags in self.arcs_of(state))
            lines.append(f"{state:>3} {name}{mark} -> {targets or 'nothing'}")
        return "\n".join(lines) + "\n"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        arrays = (self.label, self.excluded, self.arc_offset, self.arc_target, self.arc_flags)
        return (self.labels, self.definitions, *(array.tobytes() for array in arrays))


def _arc_text(target: int, flags: int) -> str:
    text = "accept" if target == ACCEPT else str(target)
    if flags & AT_START:
        text = "^" + text
    return text + "$" if flags & AT_END else text
