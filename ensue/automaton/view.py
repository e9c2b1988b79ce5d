"""What every automaton shows of itself: states, arcs and notes, as text and for its picture.

An automaton is laid out for its evaluator; a `View` is laid out for a reader. `dump()` prints it,
`draw/diagram.py` draws it, so that all automata have one text and one picture. A state has a line
for its arcs; an arc that says more than its target (what is taken, tested or set) has its own:

    states 3, arcs 4
      0 start -> 1
      1 A -> 2 if price > 10
      1 A -> 1
      2 B -> accept

A view may hold others: the automata that an automaton invokes, the plans of a workload.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

START, ACCEPT = "start", "accept"  # marks; a state of the key `accept` is an end, and no state


@dataclass(frozen=True)
class State:
    key: str  # how arcs name it: its number, or its name
    label: str = ""  # what it takes, or what it is
    marks: tuple[str, ...] = ()  # start, accept, excluded, ...
    note: str = ""  # more about it, for a tooltip
    detail: str = ""  # a second line
    condition: str = ""  # of its label; pictures show it, the text lists conditions apart

    @property
    def text(self) -> str:
        marks = (mark for mark in self.marks if mark != self.label)
        return " ".join(part for part in (self.key, self.label, *marks, self.detail) if part)


@dataclass(frozen=True)
class Arc:
    source: int
    target: int
    text: str = ""  # what is taken, tested and set
    faint: bool = False  # nothing is taken: a skip, an ε-move
    label: str = ""  # what is taken, by its name
    condition: str = ""  # as that of a state


@dataclass(frozen=True)
class View:
    states: tuple[State, ...] = ()
    arcs: tuple[Arc, ...] = ()  # those of a state in order of preference
    notes: tuple[str, ...] = ()  # labels, registers
    title: str = ""
    ordered: bool = False  # preference decides: a picture numbers the arcs of a state
    parts: tuple[View, ...] = ()

    def with_conditions(self, conditions: Mapping[str, str]) -> View:
        """For a picture: the condition of a label stands where it is taken."""
        states = (replace(s, condition=conditions.get(s.label, "")) for s in self.states)
        arcs = (replace(a, condition=conditions.get(a.label, "")) for a in self.arcs)
        return replace(self, states=tuple(states), arcs=tuple(arcs))

    def dump(self) -> str:
        """The text, stable across runs."""
        lines = [self.title] if self.title else []
        if self.states:
            states = sum(state.key != ACCEPT for state in self.states)
            lines += [f"states {states}, arcs {len(self.arcs)}", *self.notes]
            lines += self._state_lines()
        for part in self.parts:
            lines += ["  " + line for line in part.dump().splitlines()]
        return "\n".join(lines) + "\n"

    def _state_lines(self) -> list[str]:
        wide = max(len(state.key) for state in self.states if state.key != ACCEPT)
        leaving: list[list[Arc]] = [[] for _ in self.states]
        for arc in self.arcs:
            leaving[arc.source].append(arc)
        lines = []
        for state, arcs in zip(self.states, leaving, strict=True):
            name = " " * (max(wide, 3) - len(state.key)) + state.text
            lines += [f"{name} -> {targets}" for targets in self._targets(arcs)]
            if not arcs and state.key != ACCEPT:
                lines.append(name if ACCEPT in state.marks else f"{name} -> nothing")
        return lines

    def _targets(self, arcs: Sequence[Arc]) -> list[str]:
        """One text for neighbours that say only their target, one for each of the others."""
        found = []
        for plain, group in groupby(arcs, key=lambda arc: not arc.text):
            texts = [f"{self.states[arc.target].key} {arc.text}".rstrip() for arc in group]
            found += [" ".join(texts)] if plain else texts
        return found


class Shown:
    """Base of every automaton: `view()` is its own, the text is the same for all."""

    @abstractmethod
    def view(self) -> View:
        """States and arcs for a reader."""

    def dump(self) -> str:
        """The automaton as text, stable across runs."""
        return self.view().dump()
