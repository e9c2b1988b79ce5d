"""Which tokens a compiled hierarchy can have is a finite automaton: its states and their moves.

Where tokens stand depends on the letters alone, not on values. So the sets of states that tokens
can occupy together are found before anything runs (the subset construction), and for each of them
and each letter it is known what happens to every slot: an expression over the slots before and the
weights of the event. `emit.py` writes these as machine code, where what the interpreter of
`kernels/loop.py` looks up per event is decided: which tokens there are, which move, what is null.

A *node* is a set of occupied states right after the steps of an event. Returns, silent moves and
starts are put off until the next letter is known, and then made only as far as its steps need
them: most guesses of a nondeterministic query cost nothing. A *full* node has them behind it; it
is where a stream begins or goes on. Nodes also know which of their slots are null and which are
not, where that follows from what was folded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ensue.guards.operators import TooHardError
from ensue.quantities.kernels import loop as vm

MOST_NODES = 96
MOST_MOVES = 1_024


class Old(NamedTuple):
    """What a slot held."""

    slot: int


class Constant(NamedTuple):
    bits: int
    mark: int


class Weight(NamedTuple):
    """An input of the event."""

    column: int


class Code(NamedTuple):
    """What a stretch of code leaves in a cell, where some cells hold values."""

    begin: int
    end: int
    inputs: tuple[tuple[int, Value], ...]
    cell: int


class Fold(NamedTuple):
    """One of the slots that a fold leaves."""

    fold: int
    floating: bool
    slots: tuple[Value, ...]
    weights: tuple[Value, ...]
    part: int = 0


Value = Old | Constant | Weight | Code | Fold


class Node(NamedTuple):
    states: tuple[int, ...]
    full: bool
    marks: tuple[tuple[int, int], ...]  # slots whose mark is known


@dataclass(frozen=True)
class Move:
    """What a letter does on a node: the slots of the next one that change."""

    target: int
    slots: dict[int, Value]
    late: frozenset[int]  # ids of values that belong to the event before


_ADDS = (vm.SUM, vm.PRODUCT, vm.MIN, vm.MAX, vm.LAST, vm.FIRST, vm.ANY, vm.ALL)


class Nodes:
    """The nodes of a program that its letters reach, and their moves; more letters can be added."""

    def __init__(self, program: vm.Program, nullable: frozenset[int]) -> None:
        if program.join >= 0:
            raise TooHardError("paths are joined")
        self.program = program
        self.nullable = nullable
        self.letters: set[int] = set()
        self.nodes: list[Node] = []
        self.moves: dict[tuple[int, int], Move] = {}
        self._numbers: dict[Node, int] = {}
        self._seen: list[int] = []  # per node: predicates of its steps
        self._steps = [row for row in program.moves.tolist() if row[0] == vm.STEP]
        self._after = [row for row in program.moves.tolist() if row[0] != vm.STEP]
        self._own, self._base = program.own.tolist(), program.base.tolist()
        self._depth, self._actions = program.depth.tolist(), program.actions.tolist()
        self._calls, self._called = program.calls.tolist(), program.called.tolist()
        self._automata, self._finals = program.automata.tolist(), program.finals.tolist()
        self._starts, self._tokens = program.starts.tolist(), program.tokens.tolist()
        bits, marks = program.initial_bits.tolist(), program.initial_marks.tolist()
        self._initial = [Constant(b, m) for b, m in zip(bits, marks, strict=True)]
        self._contents = [
            Constant(bits, int(mark))
            for bits, mark in zip(program.cells.tolist(), program.cell_nulls.tolist(), strict=True)
        ]
        self.first: dict[int, Value] = {}
        states: set[int] = set()
        for state, _, constant in self._tokens[program.root[0] : program.root[1]]:
            self.first.update(self._placed(state, 0, constant))
            states.add(state)
        self._start(states, self.first)
        self.root = self._number(states, True, self._marks(self.first, {}))

    def add(self, letters: Iterable[int], entries: Iterable[Node] = ()) -> bool:
        """What more letters reach, and more nodes; whether there is anything new."""
        before = len(self.nodes), len(self.moves), len(self.letters)
        for entry in entries:
            self._numbered(entry)
        self.letters |= set(letters)
        number = 0
        while number < len(self.nodes):
            for letter in sorted({self.read(number, letter) for letter in self.letters}):
                if (number, letter) not in self.moves:
                    self.moves[number, letter] = self._move(number, letter)
                    if len(self.moves) > MOST_MOVES:
                        raise TooHardError(f"it has more than {MOST_MOVES} moves")
            number += 1
        return before != (len(self.nodes), len(self.moves), len(self.letters))

    def read(self, number: int, letter: int) -> int:
        """What a node sees of a letter: the predicates of its steps."""
        while number >= len(self._seen):
            states, _ = self.settled(len(self._seen))
            self._seen.append(sum({m for _, m, source, *_ in self._steps if source in states}))
        return letter & self._seen[number]

    def number(self, node: Node) -> int | None:
        return self._numbers.get(node)

    def move(self, number: int, letter: int) -> Move:
        return self.moves[number, self.read(number, letter)]

    def slots_of(self, number: int) -> list[int]:
        return [slot for state in self.nodes[number].states for slot in self._all(state)]

    def settled(self, number: int) -> tuple[set[int], dict[int, Value]]:
        """The states and slots of a node after its returns, silent moves and starts."""
        node = self.nodes[number]
        states = set(node.states)
        slots: dict[int, Value] = {slot: Old(slot) for slot in self.slots_of(number)}
        if not node.full:
            self._settle(states, slots)
            self._start(states, slots)
        return states, slots

    def output(self, number: int) -> Value | None:
        """The value of the query at a node; None where it is not defined."""
        states, slots = self.settled(number)
        begin, end, cell, width = self._automata[0]
        for final in self._finals[begin:end]:
            if final in states:
                own = self._own[final]
                inputs = tuple((cell + i, slots[own + i]) for i in range(width))
                code, stop = int(self.program.root[2]), int(self.program.root[3])
                if code == stop:
                    return slots[own]
                return Code(code, stop, inputs, self.program.result_cell)
        return None

    def mark(self, value: Value, known: dict[int, int]) -> int | None:
        """Whether a value is null, if that is known; `known` are marks of the slots before."""
        match value:
            case Old(slot):
                return known.get(slot)
            case Constant(_, mark):
                return mark
            case Weight(column):
                return None if column in self.nullable else vm.VALUE
            case Code():
                return None
        fold, part = value.fold, value.part
        marks = [self.mark(v, known) for v in value.slots]
        weight = self.mark(value.weights[0], known)
        if fold == vm.REPLACE:
            return weight
        if fold in (vm.COUNT, vm.ROWS, vm.MOMENTS):
            return vm.VALUE
        if fold in (vm.ARGMAX, vm.ARGMIN):
            if part:
                second = self.mark(value.weights[1], known)
                return second if second == marks[1] else None
        elif fold not in _ADDS:
            return None
        if vm.VALUE in (weight, marks[0]):
            return vm.VALUE
        return vm.NULL if weight == marks[0] == vm.NULL else None

    # -- one move --------------------------------------------------------------------------------

    def _number(self, states: set[int], full: bool, marks: dict[int, int]) -> int:
        return self._numbered(Node(tuple(sorted(states)), full, tuple(sorted(marks.items()))))

    def _numbered(self, node: Node) -> int:
        if node not in self._numbers:
            if len(self.nodes) == MOST_NODES:
                raise TooHardError(f"its tokens can stand in more than {MOST_NODES} ways")
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]

    def _move(self, number: int, letter: int) -> Move:
        states, slots = self.settled(number)
        late = frozenset(id(value) for value in slots.values())
        known = dict(self.nodes[number].marks)
        after: set[int] = set()
        found: dict[int, Value] = {}
        cells: dict[int, Value] = {}
        for _, mask, source, target, begin, end in self._steps:
            if source in states and mask & letter:
                self._carry(slots, source, found, target)
                self._fold(found, target, begin, end, cells)
                after.add(target)
        target = self._number(after, False, self._marks(found, known))
        moved = {s: v for s, v in found.items() if not (isinstance(v, Old) and v.slot == s)}
        return Move(target, moved, late)

    def _marks(self, slots: dict[int, Value], known: dict[int, int]) -> dict[int, int]:
        marks = {slot: self.mark(value, known) for slot, value in slots.items()}
        return {slot: mark for slot, mark in marks.items() if mark is not None}

    def _all(self, state: int) -> range:
        return range(self._base[state], self._base[state] + self._depth[state])

    def _placed(self, state: int, first: int, constant: int) -> dict[int, Value]:
        """A new token's slots, from the one on that is not its caller's."""
        slots = list(self._all(state))[first:]
        return {slot: self._initial[constant + i] for i, slot in enumerate(slots)}

    def _carry(
        self, before: dict[int, Value], source: int, after: dict[int, Value], target: int
    ) -> None:
        values = [before[self._base[source] + part] for part in range(self._depth[target])]
        after.update(zip(self._all(target), values, strict=True))

    def _settle(self, states: set[int], slots: dict[int, Value]) -> None:
        """Returns and silent moves, bottom up."""
        for kind, call, moved, target, begin, end in self._after:
            cells: dict[int, Value] = {}
            source = moved if moved in states else None
            if kind == vm.RETURN:
                source = self._returned(call, states, slots, cells)
            if source is None:
                continue
            self._carry(slots, source, slots, target)
            states.add(target)
            self._fold(slots, target, begin, end, cells)

    def _returned(
        self, call: int, states: set[int], slots: dict[int, Value], cells: dict[int, Value]
    ) -> int | None:
        """The state whose token goes back to the caller, where all that was called has ended."""
        first, last, begin, end = self._calls[call]
        ended = []
        for automaton in self._called[first:last]:
            one, stop, cell, width = self._automata[automaton]
            final = next((f for f in self._finals[one:stop] if f in states), None)
            if final is None:
                return None
            ended.append(final)
            for part in range(width):
                cells[cell + part] = slots[self._own[final] + part]
        result = self.program.result_cell
        if begin == end:
            cells[result] = cells[self._automata[self._called[first]][2]]
        else:
            cells[result] = Code(begin, end, tuple(sorted(cells.items())), result)
        return int(ended[0])

    def _start(self, states: set[int], slots: dict[int, Value]) -> None:
        """What is invoked, top down."""
        for source, begin, end in self._starts:
            if source not in states:
                continue
            for state, stacked, constant in self._tokens[begin:end]:
                below = self._own[state] - self._base[state]
                if stacked:
                    for part in range(below):
                        slots[self._base[state] + part] = slots[self._base[source] + part]
                else:  # of an automaton beside another, which alone carries the stack
                    for part in range(below):
                        slots[self._base[state] + part] = Constant(0, vm.NULL)
                slots.update(self._placed(state, below, constant))
                states.add(state)

    def _fold(
        self, slots: dict[int, Value], target: int, begin: int, end: int, cells: dict[int, Value]
    ) -> None:
        for action in self._actions[begin:end]:
            number, slot, one, two, code, stop = action
            fold, floating, at = number >> 1, bool(number & 1), self._own[target] + slot
            weights = tuple(self._weight(weight, cells) for weight in (one, two))
            if fold == vm.REPLACE:
                slots[at] = weights[0]
            elif fold == vm.CODE:
                argument = self.program.argument_cell
                inputs = ((argument, slots[at]), (argument + 1, weights[0]))
                slots[at] = Code(code, stop, inputs, argument)
            else:
                width = {vm.ARGMAX: 2, vm.ARGMIN: 2, vm.MOMENTS: 3}.get(fold, 1)
                given = weights[: 2 if width == 2 else 1]
                state = tuple(slots[at + part] for part in range(width))
                for part in range(width):
                    slots[at + part] = Fold(fold, floating, state, given, part)

    def _weight(self, weight: int, cells: dict[int, Value]) -> Value:
        if weight >= 0:
            return Weight(weight)
        return cells.get(-1 - weight, self._contents[-1 - weight])
