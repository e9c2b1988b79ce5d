"""Edits of arcs in place: arrays with room, of which a change touches only its own rows.

An arc that ends keeps its row, with another end of its lifetime; one that is added takes a new
row. Each state has *epochs*, stretches of time in which the same arcs are in force, and an edit
that applies from now on adds one to the states it touches (AFA §5.2, default lifetimes). So it
costs the arcs of these states, whatever the size of the automaton, and no batch is cut.

`swap` says no to everything else: ε-arcs, lifetimes that end, fences that were never compiled. Then
the arrays are made again (`Code.arrays`), which also drops what is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ensue.automaton.register_code import Code, Compiled
from ensue.automaton.registers import Arc
from ensue.kernels import revision_steps as steps
from ensue.kernels.revision_store import INFINITY

ROOM = 512  # edits after which arrays are made again


class ArcBook:
    """See the module. `arcs` is the operator's list, which is kept up to date as well."""

    def __init__(self, code: Code, arcs: list[Arc], table: steps.Arcs) -> None:
        self._code, self._arcs = code, arcs
        self._finals = code.machine.finals
        self._reached = {*code.machine.begins, *(arc.target for arc in arcs)}
        self._lasting = sum(self._lasts(arc) for arc in arcs)
        self._named: dict[str, list[int]] = {}
        for slot, arc in enumerate(arcs):
            if arc.till == INFINITY:
                self._name(slot, arc)
        self._simple = not any(arc.epsilon for arc in arcs)
        self._ends = max((arc.till for arc in arcs if arc.till != INFINITY), default=None)
        self._epochs, self._places = len(table.epoch_since), len(table.listed)
        self._in_force = [
            table.listed[begin:end].tolist()
            for begin, end in (table.epoch_arcs[last - 1] for last in table.epochs_of[:, 1])
        ]
        self.table = table._replace(
            table=_roomy(table.table, ROOM),
            outputs=_roomy(table.outputs, ROOM),
            quick=_roomy(table.quick, ROOM),
            epoch_since=_roomy(table.epoch_since, 8 * ROOM),
            epoch_arcs=_roomy(table.epoch_arcs, 8 * ROOM),
            listed=_roomy(table.listed, 8 * ROOM),
        )

    def _lasts(self, arc: Arc) -> bool:
        return arc.till == INFINITY and arc.target in self._finals

    def _name(self, slot: int, arc: Arc) -> None:
        for name in {arc.name, arc.pattern} - {""}:
            self._named.setdefault(name, []).append(slot)

    def swap(self, begin: int, settled: int, names: Sequence[str], added: Sequence[Arc]) -> bool:
        """Arcs of these names end at a time after all events, others begin; False: not here."""
        arcs, known = self._arcs, [self._code.known(arc) for arc in added]
        ended: dict[int, None] = {}
        for name in names:
            found = self._named.get(name)
            if not found:
                return False
            ended.update(dict.fromkeys(found))
        if not self._simple or (self._ends is not None and self._ends > begin):
            return False
        if any(arcs[slot].since >= begin for slot in ended):
            return False
        if not all(self._fits(arc, code) for arc, code in zip(added, known, strict=True)):
            return False
        lasting = self._lasting - sum(self._lasts(arcs[slot]) for slot in ended)
        lasting += sum(arc.target in self._finals for arc in added)
        states = {self._code.state(arcs[slot].source) for slot in ended}
        states |= {self._code.state(arc.source) for arc in added}
        if not lasting or not self._have_room(states, begin, len(added)):
            return False
        self._lasting = lasting
        for slot in ended:
            arc = arcs[slot]
            for name in {arc.name, arc.pattern} - {""}:
                self._named[name].remove(slot)
            self.table.table[slot, steps.TILL] = begin
            arcs[slot] = replace(arc, till=begin)
        first = len(arcs)
        for arc, code in zip(added, known, strict=True):
            assert code is not None
            self._add(replace(arc, since=begin, till=INFINITY), code)
        for state in states:
            self._new_epoch(state, begin, settled, ended, first)
        return True

    def _fits(self, arc: Arc, code: Compiled | None) -> bool:
        """Whether the arc is made of what is there."""
        return (
            code is not None
            and code.slow is None
            and code.end <= len(self.table.code)
            and not (arc.epsilon or arc.closing)
            and arc.source in self._reached
            and arc.target in self._reached
        )

    def _have_room(self, states: set[int], begin: int, added: int) -> bool:
        table = self.table
        if len(self._arcs) + added > len(table.table):
            return False
        epochs, places = self._epochs, self._places
        for state in states:
            low, high = table.epochs_of[state].tolist()
            if table.epoch_since[high - 1] > begin:
                return False
            epochs += high - low + 1
            places += len(self._in_force[state]) + added
        return epochs <= len(table.epoch_since) and places <= len(table.listed)

    def _add(self, arc: Arc, code: Compiled) -> None:
        slot, table = len(self._arcs), self.table
        self._arcs.append(arc)
        self._name(slot, arc)
        table.table[slot] = self._code.line(arc, code, restless=False)
        table.outputs[slot] = code.outputs
        table.quick[slot] = self._code.is_quick(code)

    def _new_epoch(
        self, state: int, begin: int, settled: int, ended: dict[int, None], first: int
    ) -> None:
        """From `begin` on, the arcs in force are others."""
        table, end = self.table, self._epochs
        low, high = table.epochs_of[state].tolist()
        if high != end:
            # Others have come behind this state's epochs; those that still matter move there.
            while low + 1 < high and table.epoch_since[low + 1] <= settled:
                low += 1
            size = high - low
            table.epoch_since[end : end + size] = table.epoch_since[low:high]
            table.epoch_arcs[end : end + size] = table.epoch_arcs[low:high]
            low, end = end, end + size
        now = [slot for slot in self._in_force[state] if slot not in ended]
        now += [
            slot
            for slot in range(first, len(self._arcs))
            if table.table[slot, steps.SOURCE] == state
        ]
        self._in_force[state] = now
        table.listed[self._places : self._places + len(now)] = now
        table.epoch_since[end] = begin
        table.epoch_arcs[end] = (self._places, self._places + len(now))
        table.epochs_of[state] = (low, end + 1)
        self._places += len(now)
        self._epochs = end + 1
        table.sizes[steps.MOST_ARCS] = max(int(table.sizes[steps.MOST_ARCS]), len(now))


def _roomy(array: np.ndarray, room: int) -> np.ndarray:
    """A copy with so many rows more."""
    found = np.zeros((len(array) + room, *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found
