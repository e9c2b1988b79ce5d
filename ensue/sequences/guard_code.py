"""Correlated conditions of event patterns to the register machine, and to sorted lists.

The code is that of row patterns (`guards/compile.py`) with two differences: the events of a match
do not lie side by side, so FIRST and LAST of the whole match are registers too, and what is live
where is read off the event automaton. A condition with a comparison of the event with one
remembered row (`id = a.id`, `price > LAST(b.price)`) gives an `Index`: partial matches that wait
for the label are kept sorted by the row's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensue.automaton import conditions
from ensue.automaton.plan import Plan
from ensue.automaton.subsets import Subsets
from ensue.guards.compile import Guards, _Compiler
from ensue.guards.operators import TooHardError, Value
from ensue.query import condition as c
from ensue.scalar import kinds
from ensue.sequences.kernels import runs as kernel

_TURNED = {
    "eq": kernel.EQUAL,
    "gt": kernel.ABOVE,
    "gte": kernel.FROM,
    "lt": kernel.BELOW,
    "lte": kernel.UPTO,
}
_MIRRORED = {"eq": "eq", "gt": "lt", "gte": "lte", "lt": "gt", "lte": "gte"}


@dataclass(frozen=True)
class Index:
    """The event's column against the column of the row in a register."""

    comparison: int
    register: int
    row_column: str
    event_column: str


@dataclass(frozen=True)
class EventGuards:
    guards: Guards
    reads: tuple[tuple[frozenset[int], frozenset[int]], ...]  # per atom: int and float registers
    indexes: tuple[Index | None, ...]  # per label
    last_register: int  # row of the last event; -1 where no joint is bounded

    def live(
        self, subsets: Subsets, states: list[int]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Per state: the registers that a condition on some way ahead may read."""
        ints = np.zeros((len(states), len(self.guards.initial_ints)), np.bool_)
        floats = np.zeros((len(states), len(self.guards.initial_floats)), np.bool_)
        for row, state in enumerate(states):
            for atom in subsets.labels_ahead(state):
                ints[row, list(self.reads[atom][0])] = True
                floats[row, list(self.reads[atom][1])] = True
        return ints, floats


def compile_event_guards(
    plan: Plan, input_kind: Mapping[str, kinds.Kind], bounds: int
) -> EventGuards:
    """Code for the correlated parts of an event pattern, or `TooHardError`."""
    return _EventCompiler(plan, input_kind).compile_events(bounds)


class _EventCompiler(_Compiler):
    _side_by_side = False

    def compile_events(self, bounds: int) -> EventGuards:
        indexes: list[Index | None] = []
        guards = self.compile()
        last_register = -1
        if bounds:
            last = len(self._plan.tests)
            self._label, self._reads[last] = last, set()
            last_register = self._row_register(None, c.Anchor.LAST, 0)
        for index, test in enumerate(self._plan.tests):
            self._label = index
            indexes.append(self._index(test.label, test.correlated))
        if bounds:
            # The register of the last event came after the code was put together.
            guards = self._finish([int(offset) for offset in guards.guard_offset])
        reads = [self._registers_of(index) for index in range(len(self._plan.tests))]
        reads += [self._registers_of(len(self._plan.tests))] * bounds
        return EventGuards(guards, tuple(reads), tuple(indexes), last_register)

    def _registers_of(self, label: int) -> tuple[frozenset[int], frozenset[int]]:
        found = [self._registers[key] for key in self._reads.get(label, ())]
        return (
            frozenset(slot for register in found for slot in register.ints),
            frozenset(slot for register in found for slot in register.floats),
        )

    def _leaf(self, node: c.Condition) -> Value:
        if isinstance(node, c.MatchNumber):
            raise TooHardError("it reads the number of the match")
        return super()._leaf(node)

    def _index(self, label: str, parts: tuple[c.Condition, ...]) -> Index | None:
        for part in parts:
            if not isinstance(part, c.Call) or part.function not in _TURNED:
                continue
            left, right = part["this"], part["expression"]
            function = part.function
            if self._event_column(right) and not self._event_column(left):
                left, right, function = right, left, _MIRRORED[function]
            event = self._event_column(left)
            if event is None or not isinstance(right, c.Navigate):
                continue
            if right.variable is None or right.shift or right.offset:
                continue
            if label in self._plan.query.members(right.variable):
                continue  # the event itself is the last one
            if not isinstance(right.argument, c.Column):
                continue
            row = right.argument.name
            if self._sortable(event) is None or self._sortable(event) != self._sortable(row):
                continue
            register = self._row_register(right.variable, right.anchor, 0)
            return Index(_TURNED[function], register, row, event)
        return None

    @staticmethod
    def _event_column(node: object) -> str | None:
        if isinstance(node, c.Navigate) and conditions.is_neighbour(node) and not node.shift:
            node = node.argument
        return node.name if isinstance(node, c.Column) else None

    def _sortable(self, name: str) -> str | None:
        """What a column's values are to the machine; None where they do not sort as they are."""
        kind = self._kinds[name].name
        return kind if kind in ("int", "float", "string", "date", "timestamp", "boolean") else None
