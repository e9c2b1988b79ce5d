"""Conditions on other events, some of which may be missing, to the register machine.

A condition is cut at its ANDs and each part compiled by itself, since a part that reads a missing
event holds whatever the others say. Beside its code a part has the registers of rows that it reads
(one of them may stand for a missing event) and the labels whose events it aggregates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ensue.automaton import conditions
from ensue.automaton.letters import LetterStates
from ensue.automaton.plan import Plan
from ensue.guards.compile import Guards
from ensue.guards.operators import TooHardError
from ensue.query import condition as c
from ensue.scalar import kinds
from ensue.sequences.guard_code import _EventCompiler

MAX_LABELS = 62  # missing labels are bits of a word


@dataclass(frozen=True)
class MissingGuards:
    """Code by part; parts by label."""

    guards: Guards  # `guard_offset` is by part
    part_offset: NDArray[np.int64]  # [label]
    row_offset: NDArray[np.int64]  # [part]
    rows: NDArray[np.int64]  # registers of rows that the part reads
    gone: NDArray[np.int64]  # [part]: labels it aggregates, as bits
    live_ints: NDArray[np.bool_]  # [L-state, register]: read by a condition ahead
    live_floats: NDArray[np.bool_]
    live_gone: NDArray[np.int64]  # [L-state]: labels whose absence a condition ahead asks for


def compile_missing_guards(
    plan: Plan, states: LetterStates, input_kind: Mapping[str, kinds.Kind]
) -> MissingGuards:
    """Code for the correlated parts of a pattern with `missing`, or `TooHardError`."""
    if len(plan.marks.labels) > MAX_LABELS:
        raise TooHardError(f"it has more than {MAX_LABELS} labels")
    return _PartCompiler(plan, input_kind).compile_parts(states)


class _PartCompiler(_EventCompiler):
    def compile_parts(self, states: LetterStates) -> MissingGuards:
        offsets, part_offset, row_offset = [0], [0], [0]
        rows: list[int] = []
        gone: list[int] = []
        for index, test in enumerate(self._plan.tests):
            self._label, self._reads[index] = index, set()
            for part in test.correlated:
                self._cells = 0
                self._verdict(part, test.label)
                rows += self._rows_read(part)
                gone.append(self._aggregated(part))
                offsets.append(len(self._code))
                row_offset.append(len(rows))
            part_offset.append(len(gone))
        guards = self._finish(offsets)
        ints, floats, absent = self._live_at(states, guards, part_offset, gone)
        return MissingGuards(
            guards,
            np.array(part_offset, np.int64),
            np.array(row_offset, np.int64),
            np.array(rows, np.int64),
            np.array(gone, np.int64),
            ints,
            floats,
            absent,
        )

    def _rows_read(self, part: c.Condition) -> list[int]:
        """Registers of the events that a part looks up; the event itself is never missing."""
        return [
            self._row_register(node.variable, node.anchor, node.offset)
            for node in c.walk(part)
            if isinstance(node, c.Navigate) and not conditions.is_neighbour(node)
        ]

    def _aggregated(self, part: c.Condition) -> int:
        labels, bits = self._plan.marks.labels, 0
        for node in c.walk(part):
            if isinstance(node, c.Aggregate):
                for name in self._plan.query.members(node.variable):
                    bits |= 1 << labels.index(name)
        return bits

    def _live_at(
        self, states: LetterStates, guards: Guards, part_offset: list[int], gone: list[int]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
        size = states.states
        ints = np.zeros((size, len(guards.initial_ints)), np.bool_)
        floats = np.zeros((size, len(guards.initial_floats)), np.bool_)
        absent = np.zeros(size, np.int64)
        reads = [self._registers_of(label) for label in range(len(self._plan.tests))]
        bits = [
            int(np.bitwise_or.reduce(np.array(gone[begin:end], np.int64), initial=0))
            for begin, end in pairwise(part_offset)
        ]
        changed = True
        while changed:
            before = int(ints.sum()) + int(floats.sum()), absent.copy()
            for state in range(size - 1, -1, -1):
                for link in states.links[state]:
                    label = states.letter[link.target]
                    ints[state] |= ints[link.target]
                    ints[state, list(reads[label][0])] = True
                    floats[state] |= floats[link.target]
                    floats[state, list(reads[label][1])] = True
                    absent[state] |= absent[link.target] | bits[label]
            after = int(ints.sum()) + int(floats.sum())
            changed = after != before[0] or bool((absent != before[1]).any())
        return ints, floats, absent
