"""Correlated conditions of event patterns to the register machine, and to sorted lists.

The code is that of row patterns (`guards/compile.py`) with two differences: the events of a match
do not lie side by side, so FIRST and LAST of the whole match are registers too, and what is live
where is read off the event automaton. A condition with a comparison of the event with one
remembered row (`id = a.id`, `price > LAST(b.price)`) gives an `Index`: partial matches that wait
for the label are kept sorted by the row's value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from ensue.scalar.infer import Typed, typed
from ensue.sequences.kernels import sorting as kernel

_TURNED = {
    "eq": kernel.EQUAL,
    "gt": kernel.ABOVE,
    "gte": kernel.FROM,
    "lt": kernel.BELOW,
    "lte": kernel.UPTO,
}
_MIRRORED = {"eq": "eq", "gt": "lt", "gte": "lte", "lt": "gt", "lte": "gte"}


_SORTABLE = frozenset({"int", "float", "string", "date", "timestamp", "boolean"})
_DIVIDES = frozenset({"div", "intdiv", "mod"})


@dataclass(frozen=True)
class Index:
    """The event's side of a comparison against the side that the match remembers."""

    comparison: int
    guards: tuple[int, int]  # numbers of the code that gives the two: of the match, of the event
    cells: tuple[int, int]  # where each leaves its value
    floating: bool


@dataclass(frozen=True)
class EventGuards:
    guards: Guards
    reads: tuple[tuple[frozenset[int], frozenset[int]], ...]  # per atom: int and float registers
    indexes: tuple[Index | None, ...]  # per label
    last_register: int  # row of the last event; -1 where no joint is bounded
    first_register: int = -1  # row of the first event, where classes are told apart by it

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
        if self.first_register >= 0:
            ints[:, self.first_register] = True
        return ints, floats


def compile_event_guards(
    plan: Plan, input_kind: Mapping[str, kinds.Kind], bounds: int, by_start: bool = False
) -> EventGuards:
    """Code for the correlated parts of an event pattern, or `TooHardError`.

    `by_start`: partial matches of different starts are never one class.
    """
    return _EventCompiler(plan, input_kind).compile_events(bounds, by_start)


class _EventCompiler(_Compiler):
    _side_by_side = False

    def compile_events(self, bounds: int, by_start: bool) -> EventGuards:
        indexes: list[Index | None] = []
        self._offsets = self._verdicts()
        last_register = first_register = -1
        if by_start:
            self._label, self._reads[-1] = -1, set()
            first_register = self._row_register(None, c.Anchor.FIRST, 0)
        if bounds:
            last = len(self._plan.tests)
            self._label, self._reads[last] = last, set()
            last_register = self._row_register(None, c.Anchor.LAST, 0)
        for index, test in enumerate(self._plan.tests):
            self._label = index
            found = [self._index(test.label, part) for part in test.correlated]
            known = [each for each in found if each is not None]
            # Equality first: it leaves the fewest.
            known.sort(key=lambda each: each.comparison != kernel.EQUAL)
            indexes.append(known[0] if known else None)
        guards = self._finish(self._offsets)
        reads = [self._registers_of(index) for index in range(len(self._plan.tests))]
        reads += [self._registers_of(len(self._plan.tests))] * bounds
        return EventGuards(guards, tuple(reads), tuple(indexes), last_register, first_register)

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

    def _index(self, label: str, part: c.Condition) -> Index | None:
        """Sides of a comparison, where one reads the event alone and the other the past alone."""
        node = typed(part, self._leaf_kind, self._zone)
        function = node.operation
        if function not in _TURNED or any(_divides(operand) for operand in node.operands):
            return None
        event, past = node.operands
        if self._of_the_past(event, label) and self._of_the_event(past):
            event, past, function = past, event, _MIRRORED[function]
        if not (self._of_the_past(past, label) and self._of_the_event(event)):
            return None
        if event.kind.name != past.kind.name or event.kind.name not in _SORTABLE:
            return None
        sides = [self._side(past), self._side(event)]
        return Index(
            _TURNED[function],
            (sides[0][0], sides[1][0]),
            (sides[0][1], sides[1][1]),
            event.kind.name == "float",
        )

    def _side(self, node: Typed) -> tuple[int, int]:
        """The number of the code that computes it, and the cell it is left in."""
        self._cells = 0
        value = self._expression(node)
        self._most_cells = max(self._most_cells, self._cells)
        self._offsets.append(len(self._code))
        return len(self._offsets) - 2, value.cell

    def _of_the_event(self, node: Typed) -> bool:
        return all(_reads_the_row(leaf) for leaf in _leaves(node))

    def _of_the_past(self, node: Typed, label: str) -> bool:
        """Whether it reads something, and only variables that the event does not join."""
        leaves = list(_leaves(node))
        return bool(leaves) and all(
            isinstance(leaf, c.Navigate | c.Aggregate)
            and leaf.variable is not None
            and label not in self._plan.query.members(leaf.variable)
            for leaf in leaves
        )


def _leaves(node: Typed) -> Iterator[c.Condition]:
    if node.operation == "leaf":
        yield node.origin
    for operand in node.operands:
        yield from _leaves(operand)


def _divides(node: Typed) -> bool:
    return node.operation in _DIVIDES or any(map(_divides, node.operands))


def _reads_the_row(node: c.Condition) -> bool:
    return isinstance(node, c.Column) or (
        isinstance(node, c.Navigate) and conditions.is_neighbour(node)
    )
