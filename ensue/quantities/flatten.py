"""A hierarchy as the arrays of `quantities/kernels/loop.py`, where all its values are numbers.

Types are settled here: a slot is an integer (also booleans, dates and times, as their counts) or a
float, weights and constants are converted to the slot they fold into. Strings are whole numbers
too, their ranks (`inputs.py`), as long as nothing is computed from them. What is neither (decimals,
Python callables) raises `TooHardError`; `run.py` then takes the tokens on plain
values, and `explain` says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.walks import gathered
from ensue.guards.operators import TooHardError, Value
from ensue.quantities.assemble import Argument, Assembly, bits_of, is_float, require_number
from ensue.quantities.general import GeneralConfiguration
from ensue.quantities.kernels import loop as vm
from ensue.quantities.laws import joined_in_place
from ensue.quantities.model import (
    Action,
    Automaton,
    Constant,
    Expression,
    Function,
    Invocation,
    Operation,
    Predicate,
    Result,
    State,
    Step,
    Weight,
    folded,
)
from ensue.quantities.tokens import closure, silent_order
from ensue.quantities.typing import Types
from ensue.scalar import kinds as k
from ensue.scalar.kinds import Kind

MAX_PREDICATES = 60
NO_KIND = Kind("null")


@dataclass(frozen=True)
class Numeric:
    """A compiled hierarchy and the inputs its kernel reads."""

    program: vm.Program
    predicates: tuple[Predicate, ...]  # bit i of a letter
    weights: tuple[tuple[Weight, bool], ...]  # row i of the weights; True: as a float
    output: Kind
    strings: tuple[int, ...]  # weights that are strings


def flatten(automaton: Automaton, types: Types, joined: bool = False) -> Numeric:
    """The compiled hierarchy, or `TooHardError` with the reason.

    `joined`: paths meet, and are joined by the collect operation (rank 0).
    """
    if joined:
        if automaton.rank or automaton.width > 1:
            raise TooHardError("paths of nested automata cannot be joined in place")
        reason = joined_in_place(automaton)
        if reason:
            raise TooHardError(reason)
    return _Flattening(automaton, types, joined).numeric()


@dataclass
class _Place:
    """One occurrence of an automaton."""

    automaton: Automaton
    number: int
    states: dict[State, int]
    cell: int
    ends: dict[State, int] = field(default_factory=dict)  # states after a final weight
    calls: list[tuple[int, int, int, int]] = field(default_factory=list)  # call, target, actions


class _Flattening(Assembly):
    def __init__(self, automaton: Automaton, types: Types, joined: bool) -> None:
        super().__init__()
        self._types = types
        self._paths_meet = joined
        self._root = automaton
        self._base: list[int] = []
        self._own: list[int] = []
        self._depth: list[int] = []
        self._slots = 0
        self._steps: list[tuple[int, int, int, int, int, int]] = []
        self._actions: list[tuple[int, ...]] = []
        self._after: list[tuple[int, ...]] = []
        self._calls: list[list[int]] = []
        self._called: list[int] = []
        self._automata: list[list[int]] = []
        self._finals: list[int] = []
        self._starts: list[tuple[int, int, int, int]] = []
        self._tokens: list[tuple[int, int, int]] = []
        self._initial: list[tuple[int, int]] = []
        self._weights: dict[tuple[Weight, bool], int] = {}
        self._predicates = automaton.predicates()
        self._result = self._cell()
        self._argument = self._row_of_cells(max(2, *(a.width for a in automaton.hierarchy())))

    def numeric(self) -> Numeric:
        if not self._types.closed:
            raise TooHardError("a Python callable leaves a type open")
        if len(self._predicates) > MAX_PREDICATES:
            raise TooHardError(f"it has more than {MAX_PREDICATES} predicates")
        if self._root.reads_python:
            raise TooHardError("a predicate or value is a Python callable")
        for kinds in self._types.slots.values():
            for kind in kinds:
                _require_cell(kind)
        for output in self._types.outputs.values():
            _require_cell(output)
        root = self._place(self._root, 0, 0)
        begin = len(self._tokens)
        self._start_tokens(root, False)
        code = self._root_code(root)
        return Numeric(
            self._program((begin, len(self._tokens), *code)),
            self._predicates,
            tuple(self._weights),
            self._output_kind(),
            tuple(i for (w, _), i in self._weights.items() if self._is_string(w)),
        )

    def _is_string(self, weight: Weight) -> bool:
        kind = self._types.weights[weight]
        return kind is not None and kind.name == "string"

    def _output_kind(self) -> Kind:
        kind = self._types.outputs[id(self._root)]
        assert kind is not None
        return kind

    # -- layout ----------------------------------------------------------------------------------

    def _place(self, automaton: Automaton, prefix: int, level: int) -> _Place:
        number = len(self._automata)
        self._automata.append([])
        states: dict[State, int] = {}
        for state in automaton.states:
            states[state] = self._state(prefix, automaton.width)
        cell = self._row_of_cells(automaton.width)
        place = _Place(automaton, number, states, cell)
        for transition in automaton.transitions:
            source, target = states[transition.source], states[transition.target]
            if isinstance(transition, Step):
                bit = 1 << self._predicates.index(transition.predicate)
                folds = self._folds(automaton, transition.actions, None)
                self._steps.append((vm.STEP, bit, source, target, *folds))
            elif isinstance(transition, Invocation):
                self._invocation(place, transition, prefix, level)
        self._returns(place)
        finals = len(self._finals)
        for state, actions in automaton.final.items():
            self._finals.append(self._end(place, state, actions))
        self._automata[number] = [finals, len(self._finals), place.cell, automaton.width]
        return place

    def _state(self, prefix: int, width: int) -> int:
        """A new state, whose tokens have slots of the automata above and their own."""
        self._base.append(self._slots)
        self._own.append(self._slots + prefix)
        self._depth.append(prefix + width)
        self._slots += prefix + width
        return len(self._base) - 1

    def _row_of_cells(self, count: int) -> int:
        """The first of so many new cells."""
        return min(self._cell() for _ in range(count))

    def _end(self, place: _Place, state: State, actions: tuple[Action, ...]) -> int:
        """The state that ends a path; a final weight is a silent move to a state of its own."""
        source = place.states[state]
        if not actions:
            return source
        target = self._state(self._own[source] - self._base[source], place.automaton.width)
        folds = self._folds(place.automaton, actions, None)
        self._after.append((vm.SILENT, 0, source, target, *folds))
        place.ends[state] = target
        return target

    def _invocation(self, place: _Place, transition: Invocation, prefix: int, level: int) -> None:
        automaton = place.automaton
        below = [
            self._place(a, prefix + automaton.width if i == 0 else 0, level + 1)
            for i, a in enumerate(transition.automata)
        ]
        source = place.states[transition.source]
        first = len(self._tokens)
        for index, inner in enumerate(below):
            self._start_tokens(inner, index == 0)
        self._starts.append((level, source, first, len(self._tokens)))
        begin = len(self._called)
        self._called += [inner.number for inner in below]
        result = self._types.results[id(transition)]
        assert result is not None
        slots = self._types.slots[id(automaton)]
        folds = [a for a in transition.actions if any(isinstance(w, Result) for w in a.weights)]
        if any(is_float(slots[a.slot] or result) for a in folds) and not is_float(result):
            result = k.DOUBLE
        code = self._call_code(transition.operation, below, result)
        actions = self._folds(automaton, transition.actions, result)
        target = place.states[transition.target]
        place.calls.append((len(self._calls), target, *actions))
        self._calls.append([begin, len(self._called), *code])

    def _returns(self, place: _Place) -> None:
        """Bottom up: what is invoked has been laid out, and its own moves stand before these."""
        automaton = place.automaton
        for call, *rest in place.calls:
            self._after.append((vm.RETURN, call, 0, *rest))
        for index, value in silent_order(automaton):
            transition = automaton.transitions[index]
            result = None
            actions = transition.actions
            if isinstance(transition, Invocation):
                result = self._types.results[id(transition)]
                actions = tuple(_with_result(action, Constant(value)) for action in actions)
            begin, end = self._folds(automaton, actions, result)
            source, target = place.states[transition.source], place.states[transition.target]
            self._after.append((vm.SILENT, 0, source, target, begin, end))

    def _start_tokens(self, place: _Place, stacked: bool) -> None:
        slots = self._types.slots[id(place.automaton)]
        if self._paths_meet:
            started = GeneralConfiguration(place.automaton)
            started.start()
            first = started.joined_values()
        else:
            first = closure(place.automaton)
        placed = [(place.states[state], values) for state, values in first.items()]
        for state, end in place.ends.items():
            if state in first:
                placed.append((end, folded(first[state], place.automaton.final[state], {})))
        for number, values in placed:
            self._tokens.append((number, int(stacked), len(self._initial)))
            self._initial += [bits_of(v, kind) for v, kind in zip(values, slots, strict=True)]

    # -- folds and expressions -------------------------------------------------------------------

    def _folds(
        self, automaton: Automaton, actions: tuple[Action, ...], result: Kind | None
    ) -> tuple[int, int]:
        begin = len(self._actions)
        slots = self._types.slots[id(automaton)]
        rows = []
        for action in actions:
            kind = slots[action.slot]
            assert kind is not None
            wanted = [kind] * action.fold.weights
            if action.fold.name in ("argmax", "argmin"):
                wanted = [kind, slots[action.slot + 1] or kind]
            elif action.fold.name == "moments":
                wanted = [k.DOUBLE]
            elif action.fold.name in ("count", "rows"):
                wanted = [self._weight_kind(action.weights[0], result)]
            code = (0, 0)
            if action.fold.operation is not None:
                wanted = [self._weight_kind(action.weights[0], result)]
                state, value = self._argument, self._argument + 1
                arguments = [_cell(state, kind), _cell(value, wanted[0])]
                code = self._operation(action.fold.operation, arguments, kind, state)
                number = vm.CODE
            elif action.fold.name in vm.FOLDS:
                number = vm.FOLDS[action.fold.name]
            else:
                raise TooHardError(f"the fold {action.fold} is a Python callable")
            weights = [
                self._weight(w, kd, result) for w, kd in zip(action.weights, wanted, strict=True)
            ]
            weights += [weights[0]] * (2 - len(weights))
            floating = int(is_float(kind))
            rows.append((2 * number + floating, action.slot, *weights, *code))
        self._actions += rows  # after the code that the folds themselves may have added
        return len(self._actions) - len(rows) if rows else begin, len(self._actions)

    def _weight_kind(self, weight: Weight, result: Kind | None) -> Kind:
        kind = self._types.weight(weight, result)
        assert kind is not None
        return kind

    def _weight(self, weight: Weight, kind: Kind, result: Kind | None) -> int:
        if isinstance(weight, Constant):
            return -1 - self._constant(*bits_of(weight.value, kind))
        if isinstance(weight, Result):
            return -1 - self._result
        assert isinstance(weight, (Expression, Function))
        _require_foldable(self._types.weights[weight])
        return self._weights.setdefault((weight, is_float(kind)), len(self._weights))

    # The code of a call is op with the `finish` of each automaton written into its argument, so
    # that one run of the machine goes from the slots of the ended automata to the result.

    def _call_code(
        self, operation: Operation, below: list[_Place], result: Kind
    ) -> tuple[int, int]:
        plain = all(place.automaton.finish is None for place in below)
        arguments = [self._output_of(place) for place in below]
        if operation.is_identity and plain and is_float(arguments[0][0]) == is_float(result):
            return 0, 0
        return self._operation(operation, arguments, result, self._result)

    def _root_code(self, root: _Place) -> tuple[int, int]:
        if root.automaton.finish is None:
            return 0, 0
        output = self._output_of(root)
        return self._operation(Operation.identity(), [output], NO_KIND, self._result)

    def _output_of(self, place: _Place) -> Argument:
        """The output of the automaton at a place, computed where it is asked for."""
        automaton, finish = place.automaton, place.automaton.finish
        output = self._types.outputs[id(automaton)]
        assert output is not None
        if finish is None:
            return _cell(place.cell, output)
        slots = [_cell(place.cell + i, kd) for i, kd in enumerate(self._slot_kinds(automaton))]
        return output, lambda: self._applied(finish, slots, output)

    def _slot_kinds(self, automaton: Automaton) -> list[Kind]:
        return [kind or NO_KIND for kind in self._types.slots[id(automaton)]]

    # -- arrays ----------------------------------------------------------------------------------

    def _join(self) -> int:
        if not self._paths_meet:
            return -1
        collect, (kind,) = self._root.collect, self._types.slots[id(self._root)]
        assert collect is not None and kind is not None
        return 2 * vm.FOLDS[collect.name] + int(is_float(kind))

    def _live(self) -> list[int]:
        """Per state, the predicates of steps that a token on it may take next, wherever it leads.

        A least fixed point: along silent moves, into what is invoked, and out of what has ended.
        """
        live = [0] * len(self._base)
        follows: list[list[int]] = [[] for _ in live]
        for _, bit, source, _, _, _ in self._steps:
            live[source] |= bit
        for kind, call, source, target, *_ in self._after:
            if kind == vm.SILENT:
                follows[source].append(target)
                continue
            begin, end = self._calls[call][:2]
            for automaton in self._called[begin:end]:
                first, last = self._automata[automaton][:2]
                for state in self._finals[first:last]:
                    follows[state].append(target)
        for _, source, begin, end in self._starts:
            follows[source] += [state for state, _, _ in self._tokens[begin:end]]
        first, last = self._automata[0][:2]
        for state in self._finals[first:last]:
            live[state] |= vm.OUTPUT
        return gathered(live, follows)

    def _program(self, root: tuple[int, ...]) -> vm.Program:
        starts = [row[1:] for row in sorted(self._starts, key=lambda row: row[0])]
        return vm.Program(
            base=_array(self._base),
            own=_array(self._own),
            depth=_array(self._depth),
            live=_array(self._live()),
            moves=_table([*self._steps, *self._after], 6),
            actions=_table(self._actions, 6),
            calls=_table(self._calls, 4),
            called=_array(self._called),
            automata=_table(self._automata, 4),
            finals=_array(self._finals),
            starts=_table(starts, 3),
            tokens=_table(self._tokens, 3),
            initial_bits=_array([bits for bits, _ in self._initial]),
            initial_marks=np.array([mark for _, mark in self._initial], np.uint8),
            root=_array(root),
            code=_table(self._code, 4),
            cells=_array([bits for bits, _ in self._contents]),
            cell_nulls=np.array([mark for _, mark in self._contents], np.bool_),
            join=self._join(),
            slots=self._slots,
            result_cell=self._result,
            argument_cell=self._argument,
        )


def _with_result(action: Action, value: Constant) -> Action:
    weights = (value if isinstance(weight, Result) else weight for weight in action.weights)
    return replace(action, weights=tuple(weights))


def _cell(cell: int, kind: Kind) -> Argument:
    return kind, lambda: Value(cell, kind)


def _array(values: Any) -> NDArray[np.int64]:
    return np.array(values, np.int64).reshape(-1)


def _table(rows: Any, width: int) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, width)


def _require_foldable(kind: Kind | None) -> None:
    if kind is not None and kind.name == "decimal":
        raise TooHardError(f"a value of type {kind} keeps exact fractions")
    _require_cell(kind)


def _require_cell(kind: Kind | None) -> None:
    """Strings are the ranks of their values: kept and compared, and never computed with."""
    if kind is None or kind.name != "string":
        require_number(kind)
