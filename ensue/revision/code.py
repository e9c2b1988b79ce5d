"""Fences and transfers to the arrays that the kernels of the AFA operator read.

A fence is cut at its ANDs. Parts that read only the event become *tests*, one bit of an event each,
answered on Arrow columns for all events at once (the paper's f^E, Appendix F). The rest, and the
transfer, becomes code for the machine of `guards/machine.py`; parts of it that read only the event
become *inputs*, columns that are computed the same way. So code works on registers, inputs and
constants, each in a cell of its own, and an arc costs a few instructions.

Everything is append-only: an arc that is added later finds the tests, inputs and constants of the
ones before it, and a fence that was seen before costs nothing.

What the machine cannot hold (Python functions, order of strings, decimals) makes the automaton run
in plain Python: same answer, slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.registers import INFINITY, MINUS_INFINITY, Arc, Expression, RegisterAutomaton
from ensue.guards import machine as vm
from ensue.guards.operators import TooHardError
from ensue.query import condition as c
from ensue.revision.coder import TEMPORARIES, ArcCoder, reads_register
from ensue.revision.kernels import layout
from ensue.revision.kernels.arcs import Arcs
from ensue.revision.kernels.quick import QUICK
from ensue.scalar import kinds as k

MAX_TESTS = 62
MAX_INPUTS = 62
MAX_SILENT = 1_000


class Texts:
    """Strings (and other values that are no numbers) as codes; equal values have equal codes."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.values: list[Any] = []
        self._codes: dict[Any, int] = {}
        for value in values:
            self.code(value)

    def code(self, value: Any) -> int:
        known = self._codes.get(value)
        if known is None:
            known = self._codes[value] = len(self.values)
            self.values.append(value)
        return known


@dataclass(frozen=True)
class Input:
    """An expression over the event alone, computed for all events, and its cell."""

    expression: c.Condition
    kind: k.Kind
    cell: int


@dataclass(frozen=True)
class Compiled:
    """What arcs of one fence and transfer share."""

    mask: int
    value: int
    begin: int
    end: int
    outputs: tuple[int, ...]
    slow: str | None  # why plain Python is needed


@dataclass
class Code:
    """Grows with the arcs of one automaton; see the module."""

    machine: RegisterAutomaton
    kinds: Mapping[str, k.Kind]  # columns of the events
    texts: Texts = field(default_factory=Texts)

    def __post_init__(self) -> None:
        self.tests: list[c.Condition | None] = []
        self.inputs: list[Input] = []
        self.code: list[list[int]] = []
        self._constants: dict[tuple[str, Any], int] = {}
        self._filled: dict[int, int] = {}  # cell -> bits of its constant
        fields = len(self.machine.fields)
        self.cells = fields + TEMPORARIES
        self._known: dict[object, Compiled] = {}
        self._keep: list[object] = []  # Python functions, so that their ids stay theirs
        self._outputs = 0
        self._states: dict[str, int] = {}

    @property
    def fields(self) -> int:
        return len(self.machine.fields)

    def state(self, name: str) -> int:
        return self._states.setdefault(name, len(self._states))

    def forget_states(self) -> None:
        self._states.clear()
        self._known.clear()

    @property
    def states(self) -> list[str]:
        return list(self._states)

    # -- cells -----------------------------------------------------------------------------------

    def new_cell(self) -> int:
        self.cells += 1
        return self.cells - 1

    def constant(self, kind: str, value: int | float) -> int:
        key = (kind, repr(value))
        if key not in self._constants:
            bits = np.float64(value).view(np.int64) if kind == "float" else np.int64(value)
            self._constants[key] = self.new_cell()
            self._filled[self._constants[key]] = int(bits)
        return self._constants[key]

    def encoded(self, value: Any, kind: k.Kind) -> int:
        """A plain value as the 64 bits of a cell."""
        if kind.name == "float":
            return int(np.float64(value).view(np.int64))
        if kind.name in ("int", "boolean"):
            return int(value)
        if kind.name == "timestamp" and not isinstance(value, int):
            return int(np.datetime64(value.replace(tzinfo=None), "us").astype(np.int64))
        if kind.name == "date" and not isinstance(value, int):
            return int(np.datetime64(value, "D").astype(np.int64))
        return self.texts.code(value)

    def test(self, condition: c.Condition) -> int | None:
        """The bit of a condition on the event; None where all bits are taken."""
        if condition in self.tests:
            return self.tests.index(condition)
        if None in self.tests:
            place = self.tests.index(None)
            self.tests[place] = condition
            return place
        if len(self.tests) >= MAX_TESTS:
            return None
        self.tests.append(condition)
        return len(self.tests) - 1

    @property
    def free_tests(self) -> int:
        return MAX_TESTS - len(self.tests) + self.tests.count(None)

    def release(self, tests_in_use: set[int]) -> None:
        """Bits of arcs that are gone may mean something else from now on."""
        for place in range(len(self.tests)):
            if place not in tests_in_use:
                self.tests[place] = None
        self._known = {
            key: found
            for key, found in self._known.items()
            if not found.mask & ~sum(1 << place for place in tests_in_use)
        }

    def input(self, expression: c.Condition, kind: k.Kind) -> Input:
        for known in self.inputs:
            if known.expression == expression:
                return known
        if len(self.inputs) >= MAX_INPUTS:
            raise errors.LimitError(
                f"the automaton reads more than {MAX_INPUTS} different values of an event",
                remedy="compute what arcs have in common into columns first",
            )
        found = Input(expression, kind, self.new_cell())
        self.inputs.append(found)
        return found

    # -- arcs ------------------------------------------------------------------------------------

    def compiled(self, arc: Arc) -> Compiled:
        """Code of an arc's fence and transfer, shared with arcs that have the same."""
        key = _code_key(arc)
        if key not in self._known:
            self._keep.append(arc)
            self._known[key] = self._compile(arc)
        return self._known[key]

    def known(self, arc: Arc) -> Compiled | None:
        """Its code, where an arc of the same fence and transfer was compiled, and so checked."""
        return self._known.get(_code_key(arc))

    def _compile(self, arc: Arc) -> Compiled:
        functions = [arc.when, arc.transfer, *(value for _, value in arc.set)]
        if any(callable(value) for value in functions):
            return self._slow("a Python function")
        mask, value = 0, 0
        row: list[c.Condition] = []
        rest: list[c.Condition] = []
        if arc.when is not None:
            assert isinstance(arc.when, c.CONDITIONS)
            for part in c.conjuncts(arc.when):
                (rest if reads_register(part) else row).append(part)
        event_part = c.conjunction(row)
        if row and not (arc.epsilon or arc.closing):
            bit = self.test(event_part)
            if bit is None:
                rest.append(event_part)
            else:
                mask, value = mask | 1 << bit, value | 1 << bit
        elif row:
            rest.append(event_part)
        before = len(self.code)
        try:
            coder = ArcCoder(self, event_part if row else None)
            outputs = list(range(self.fields))
            if rest or arc.set:
                coder.fence(rest)
                for name, given in arc.set:
                    assert isinstance(given, c.CONDITIONS)
                    place = [f.name for f in self.machine.fields].index(name)
                    outputs[place] = coder.transfer(given, self.machine.fields[place].kind)
                coder.finish()
        except TooHardError as problem:
            del self.code[before:]
            return self._slow(str(problem))
        return Compiled(mask, value, before, len(self.code), tuple(outputs), None)

    def _slow(self, reason: str) -> Compiled:
        """One instruction that is never run: `run_arc` of the slow tier looks at the arc itself."""
        if not self._outputs:
            self._outputs = self.new_cell()
            for _ in range(1, max(1, self.fields)):
                self.new_cell()
        begin = len(self.code)
        self.code.append([vm.NULL, 0, 0, 0])
        outputs = tuple(range(self._outputs, self._outputs + self.fields))
        return Compiled(0, 0, begin, begin + 1, outputs, reason)

    def arrays(
        self, arcs: Sequence[Arc], run: Callable[[int, Arc, NDArray[Any], NDArray[Any]], int]
    ) -> Arcs:
        """The kernels' arrays; `run` answers ε-arcs before the first event."""
        for name in self.machine.begins:
            self.state(name)
        found = [self.compiled(arc) for arc in arcs]
        # Where an ε-arc leaves, each event that a loop takes can lead further.
        restless = {arc.source for arc in arcs if arc.epsilon}
        table = np.zeros((max(1, len(arcs)), layout.ARC_COLUMNS), np.int64)
        outputs = np.zeros((max(1, len(arcs)), self.fields), np.int64)
        for index, (arc, code) in enumerate(zip(arcs, found, strict=True)):
            table[index] = self.line(arc, code, arc.source in restless)
            outputs[index] = code.outputs
        cells = np.zeros(self.cells, np.int64)
        nulls = np.zeros(self.cells, np.bool_)
        for cell, bits in self._filled.items():
            cells[cell] = bits
        consuming = [i for i, arc in enumerate(arcs) if not (arc.epsilon or arc.closing)]
        silent = [i for i, arc in enumerate(arcs) if arc.epsilon]
        epochs_of, since, epoch_arcs, listed = self._epochs(table, consuming)
        silent_of, silent_list = self._by_state(table, silent)
        self._check_factor(table, silent)
        initial = self._initial(arcs, table, outputs, silent, cells, nulls, run)
        input_cells = np.array([item.cell for item in self.inputs], np.int64)
        return Arcs(
            table,
            outputs,
            epochs_of,
            since,
            epoch_arcs,
            listed,
            silent_of,
            silent_list,
            np.array([i for i, arc in enumerate(arcs) if arc.closing], np.int64),
            initial,
            np.array(self.code, np.int64).reshape(-1, 4),
            cells,
            nulls,
            input_cells,
            np.array([self.is_quick(item) for item in found] or [False], np.bool_),
        )

    def line(self, arc: Arc, code: Compiled, restless: bool) -> tuple[int, ...]:
        """An arc's row of `Arcs.table`."""
        accepts = arc.target in self.machine.finals
        ignorable = arc.ignorable and not accepts and not restless
        return (
            self.state(arc.source), self.state(arc.target), code.mask, code.value, code.begin,
            code.end, ignorable, accepts, arc.since, arc.till,
        )  # fmt: skip

    def is_quick(self, item: Compiled) -> bool:
        return all(line[0] in QUICK for line in self.code[item.begin : item.end])

    def _by_state(
        self, table: NDArray[np.int64], chosen: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        lists: list[list[int]] = [[] for _ in self._states]
        for index in chosen:
            lists[int(table[index, layout.SOURCE])].append(index)
        offsets = np.concatenate(([0], np.cumsum([len(part) for part in lists])))
        return offsets.astype(np.int64), np.array([i for part in lists for i in part], np.int64)

    def _epochs(self, table: NDArray[np.int64], chosen: Sequence[int]) -> tuple[Any, ...]:
        """Per state: the times at which its arcs change, and the arcs in force between them."""
        lists: list[list[int]] = [[] for _ in self._states]
        for index in chosen:
            lists[int(table[index, layout.SOURCE])].append(index)
        since: list[int] = []
        listed: list[int] = []
        epochs_of, offsets = [0], [0]
        for part in lists:
            edges = {MINUS_INFINITY}
            for index in part:
                edges.update((int(table[index, layout.SINCE]), int(table[index, layout.TILL])))
            edges.discard(INFINITY)
            live: dict[int, None] = {}
            opens = sorted(part, key=lambda i: (int(table[i, layout.SINCE]), i))
            place = 0
            for edge in sorted(edges):
                for gone in [i for i in live if table[i, layout.TILL] <= edge]:
                    del live[gone]
                while place < len(opens) and table[opens[place], layout.SINCE] <= edge:
                    if table[opens[place], layout.TILL] > edge:
                        live[opens[place]] = None
                    place += 1
                since.append(edge)
                listed.extend(live)
                offsets.append(len(listed))
            epochs_of.append(len(since))
        states, epochs, changes, arcs = (
            np.array(part, np.int64) for part in (epochs_of, offsets, since, listed)
        )
        by_state = np.column_stack((states[:-1], states[1:], states[:-1]))
        return by_state, changes, np.column_stack((epochs[:-1], epochs[1:])), arcs

    def _check_factor(self, table: NDArray[np.int64], silent: Sequence[int]) -> None:
        """How many nodes one node and its ε-arcs can become has a limit."""
        onward: dict[int, list[int]] = {}
        for index in silent:
            onward.setdefault(int(table[index, layout.SOURCE]), []).append(
                int(table[index, layout.TARGET])
            )
        known: dict[int, int] = {}

        def size(state: int) -> int:
            if state not in known:
                known[state] = 1 + sum(size(target) for target in onward.get(state, ()))
            return known[state]

        found = max([1, *(size(state) for state in onward)])
        if found > MAX_SILENT:
            raise errors.LimitError(
                f"ε-arcs can turn one partial match into {found:,}; the limit is {MAX_SILENT:,}",
                remedy="replace chains of ε-arcs by arcs that consume an event",
            )

    def _initial(
        self,
        arcs: Sequence[Arc],
        table: NDArray[np.int64],
        outputs: NDArray[np.int64],
        silent: Sequence[int],
        cells: NDArray[np.int64],
        nulls: NDArray[np.bool_],
        run: Callable[[int, Arc, NDArray[Any], NDArray[Any]], int],
    ) -> NDArray[np.int64]:
        """Configurations before the first event: the starts, and what ε-arcs make of them."""
        register, marks = [], 0
        for place, item in enumerate(self.machine.fields):
            register.append(0 if item.initial is None else self.encoded(item.initial, item.kind))
            marks |= (item.initial is None) << place
        found: list[list[int]] = [
            [self.state(name), MINUS_INFINITY, INFINITY, marks, *register]
            for name in self.machine.begins
        ]
        done = 0
        while done < len(found):
            state, since, till, marks, *register = found[done]
            done += 1
            for index in silent:
                if table[index, layout.SOURCE] != state:
                    continue
                now, now_null = cells.copy(), nulls.copy()
                now[: self.fields] = register
                now_null[: self.fields] = [marks >> f & 1 for f in range(self.fields)]
                if table[index, layout.BEGIN] < table[index, layout.FINISH] and (
                    run(index, arcs[index], now, now_null) <= 0
                ):
                    continue
                after = [int(now[cell]) for cell in outputs[index]]
                null = sum(int(now_null[cell]) << f for f, cell in enumerate(outputs[index]))
                begin = max(since, int(table[index, layout.SINCE]))
                end = min(till, int(table[index, layout.TILL]))
                if begin < end:
                    found.append([int(table[index, layout.TARGET]), begin, end, null, *after])
        width = layout.INITIAL_REGISTER + self.fields
        return np.array(found, np.int64).reshape(len(found), width)


def _code_key(arc: Arc) -> tuple[object, ...]:
    changes = tuple((name, _key(value)) for name, value in arc.set)
    return _key(arc.when), changes, _key(arc.transfer)


def _key(value: Expression | None) -> object:
    return ("function", id(value)) if callable(value) else value
