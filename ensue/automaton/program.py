"""`Program`: an ordered automaton without ε-moves, as flat arrays; `Marks`: what matches carry.

One state per place where the pattern consumes a row (a Glushkov position, numbered from 1) and
state 0 before the first row. The arcs of a state stand in order of preference, so the preferred
match is found by always taking the first arc that can still succeed. An arc to `ACCEPT` ends the
match. Anchors, the only zero-width tests, are flags on arcs: `^` can hold only on arcs out of
state 0, `$` only on arcs to `ACCEPT`.

A row of a match is marked with the state that consumed it; a row of an event pattern's match with
its label. Conditions and measures need these marks alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ensue.automaton import view
from ensue.automaton.positions import ACCEPT, AT_END, AT_START
from ensue.automaton.walks import distances
from ensue.query import condition as c
from ensue.query.query import Query
from ensue.query.sql import shown_sql

__all__ = ["ACCEPT", "AT_END", "AT_START", "START", "Marks", "Program", "label_marks"]

START = 0


@dataclass(frozen=True, eq=False)
class Marks:
    """The labels of a query with their definitions, and which label a mark stands for."""

    query: Query = field(repr=False)
    labels: tuple[str, ...]
    definitions: tuple[c.Condition, ...]  # one per label
    label: NDArray[np.int32]  # per mark; -1 for mark 0
    excluded: NDArray[np.bool_]  # per mark: inside {- -}

    @property
    def count(self) -> int:
        return len(self.label)

    @property
    def least_position(self) -> tuple[int, ...]:
        """Per label: how many rows at least come before it in any match."""
        return (0,) * len(self.labels)

    def members(self, variable: str | None) -> NDArray[np.bool_]:
        """Per mark: whether its label belongs to the variable (None: every label)."""
        names = self.query.members(variable)
        belongs = np.array([label in names for label in self.labels] + [False], dtype=np.bool_)
        return belongs[self.label]  # mark 0 has label -1: the appended False

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return (self.labels, self.definitions, *(array.tobytes() for array in self._arrays))

    @property
    def _arrays(self) -> tuple[NDArray[np.generic], ...]:
        return (self.label, self.excluded)


def label_marks(query: Query) -> Marks:
    """The marks of an event pattern: mark i + 1 is label i."""
    labels = query.labels
    return Marks(
        query=query,
        labels=labels,
        definitions=tuple(query.definition(label) for label in labels),
        label=np.arange(-1, len(labels), dtype=np.int32),
        excluded=np.zeros(len(labels) + 1, np.bool_),
    )


@dataclass(frozen=True, eq=False)
class Program(Marks, view.Shown):
    """The automaton of a row pattern; its marks are its states."""

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

    def followers(self, state: int) -> list[int]:
        """The states that the next row may lead to."""
        return [target for target, _ in self.arcs_of(state) if target != ACCEPT]

    @cached_property
    def least_position(self) -> tuple[int, ...]:
        least: dict[int, int] = {}
        for state, distance in distances([START], self.followers).items():
            least.setdefault(int(self.label[state]), distance - 1)
        return tuple(least.get(index, 0) for index in range(len(self.labels)))

    @property
    def _arrays(self) -> tuple[NDArray[np.generic], ...]:
        return (*super()._arrays, self.arc_offset, self.arc_target, self.arc_flags)

    def view(self) -> view.View:
        states = [view.State("0", view.START, (view.START,), view.START)]
        for state in range(1, self.states):
            index = self.label[state]
            note = f"state {state}: {self.labels[index]}"
            if self.definitions[index] != c.TRUE:
                note += f" AS {shown_sql(self.definitions[index])}"
            marks = ("excluded",) if self.excluded[state] else ()
            note += ", excluded from the output" if marks else ""
            states.append(view.State(str(state), self.labels[index], marks, note))
        states.append(view.State(view.ACCEPT, view.ACCEPT, (view.ACCEPT,), view.ACCEPT))
        arcs = [
            view.Arc(state, self.states if target == ACCEPT else target, _flags_text(flags))
            for state in range(self.states)
            for target, flags in self.arcs_of(state)
        ]
        notes = [
            f"label {name}: {c.dump(definition)}"
            for name, definition in zip(self.labels, self.definitions, strict=True)
        ]
        return view.View(tuple(states), tuple(arcs), tuple(notes), ordered=True)


def _flags_text(flags: int) -> str:
    return ("^" if flags & AT_START else "") + ("$" if flags & AT_END else "")
