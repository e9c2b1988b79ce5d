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

import numpy as np

from ensue.automaton.register_code import Code, Compiled
from ensue.automaton.registers import Arc
from ensue.kernels import revision_steps as steps
from ensue.kernels.revision_store import INFINITY

ROOM = 1024  # edits after which arrays are made again, at the latest


class ArcBook:
    """See the module. `arcs` is the operator's list, which is kept up to date as well."""

    def __init__(self, code: Code, arcs: list[Arc], table: steps.Arcs) -> None:
        self._code, self._arcs = code, arcs
        self._finals = code.machine.finals
        self._reached = {*code.machine.begins, *(arc.target for arc in arcs)}
        self._lasting = sum(a.till == INFINITY and a.target in self._finals for a in arcs)
        self._named: dict[str, list[int]] = {}
        for slot, arc in enumerate(arcs):
            if arc.till == INFINITY:
                self._name(slot, arc)
        self._simple = not any(arc.epsilon for arc in arcs)
        self._ends = max((arc.till for arc in arcs if arc.till != INFINITY), default=None)
        self._epochs, self._places = len(table.epoch_since), len(table.listed)
        self._spans: list[tuple[int, int]] = [(a, b) for a, b in table.epochs_of.tolist()]
        self._limits = [high for _, high in self._spans]
        self._most = int(table.sizes[steps.MOST_ARCS])
        self._in_force = [
            table.listed[begin:end].tolist()
            for begin, end in (table.epoch_arcs[last - 1] for last in table.epochs_of[:, 1])
        ]
        self.table = table._replace(
            table=_roomy(table.table, ROOM),
            outputs=_roomy(table.outputs, ROOM),
            quick=_roomy(table.quick, ROOM),
            epoch_since=_roomy(table.epoch_since, 6 * ROOM),
            epoch_arcs=_roomy(table.epoch_arcs, 6 * ROOM),
            listed=_roomy(table.listed, 6 * ROOM),
        )

    def _name(self, slot: int, arc: Arc) -> None:
        for name in _names(arc):
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
        if any([arcs[slot].since >= begin for slot in ended]) or not all(
            [self._fits(arc, code) for arc, code in zip(added, known, strict=True)]
        ):
            return False
        lasting = self._lasting
        touched: dict[int, None] = {}
        for slot in ended:
            lasting -= arcs[slot].target in self._finals
            touched[self._code.state(arcs[slot].source)] = None
        for arc in added:
            lasting += arc.target in self._finals
            touched[self._code.state(arc.source)] = None
        if not lasting or len(arcs) + len(added) > len(self.table.table):
            return False
        if not all(self._prepare(state, begin, settled, len(added)) for state in touched):
            return False
        self._lasting = lasting
        for slot in ended:
            arc = arcs[slot]
            for name in _names(arc):
                self._named[name].remove(slot)
            self.table.table[slot, steps.TILL] = begin
            arcs[slot] = arc.living(arc.since, begin)
        first = len(arcs)
        for arc, code in zip(added, known, strict=True):
            assert code is not None
            self._add(arc.living(begin, INFINITY), code)
        for state in touched:
            self._new_epoch(state, begin, ended, first)
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

    def _prepare(self, state: int, begin: int, settled: int, added: int) -> bool:
        """Room for one more epoch of the state, behind those that it has."""
        table, (low, high) = self.table, self._spans[state]
        places = self._places + len(self._in_force[state]) + added
        if table.epoch_since[high - 1] > begin or places > len(table.listed):
            return False
        if high < self._limits[state]:
            return True
        # Those that still matter move to a place with room for as many again.
        while low + 1 < high and table.epoch_since[low + 1] <= settled:
            low += 1
        size, end = high - low, self._epochs
        if end + 2 * size + 8 > len(table.epoch_since):
            return False
        table.epoch_since[end : end + size] = table.epoch_since[low:high]
        table.epoch_arcs[end : end + size] = table.epoch_arcs[low:high]
        table.epochs_of[state] = self._spans[state] = (end, end + size)
        self._epochs = self._limits[state] = end + 2 * size + 8
        return True

    def _add(self, arc: Arc, code: Compiled) -> None:
        slot, table = len(self._arcs), self.table
        self._arcs.append(arc)
        self._name(slot, arc)
        table.table[slot] = self._code.line(arc, code, restless=False)
        table.outputs[slot] = code.outputs
        table.quick[slot] = self._code.is_quick(code)

    def _new_epoch(self, state: int, begin: int, ended: dict[int, None], first: int) -> None:
        """From `begin` on, the arcs in force are others."""
        table, (low, end) = self.table, self._spans[state]
        now = [slot for slot in self._in_force[state] if slot not in ended]
        now += [
            slot
            for slot in range(first, len(self._arcs))
            if self._code.state(self._arcs[slot].source) == state
        ]
        self._in_force[state] = now
        places = self._places + len(now)
        table.listed[self._places : places] = now
        table.epoch_since[end] = begin
        table.epoch_arcs[end] = (self._places, places)
        table.epochs_of[state] = self._spans[state] = (low, end + 1)
        self._places = places
        if len(now) > self._most:
            self._most = table.sizes[steps.MOST_ARCS] = len(now)


def _names(arc: Arc) -> tuple[str, ...]:
    if not arc.pattern or arc.pattern == arc.name:
        return (arc.name,)
    return arc.name, arc.pattern


def _roomy(array: np.ndarray, room: int) -> np.ndarray:
    """A copy with so many rows more."""
    found = np.zeros((len(array) + room, *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found
