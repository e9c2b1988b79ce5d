"""Listing the matches of event patterns with correlated conditions, compiled.

Steps, guards and rows are laid out for `sequences/kernels/runs.py`; listing is that of
`match_graph.py`. What the register machine cannot hold (text functions over other events, long
decimals) is left to the classes in plain Python (`runs.py`), with the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.automaton.subsets import NOWHERE, START, Subsets
from ensue.guards.machine import MAX_FLOAT, MIN_FLOAT, SUM_FLOAT
from ensue.guards.operators import TooHardError
from ensue.guards.registers import GuardMachine
from ensue.operator.as_of import AS_OF
from ensue.operator.guard_banks import load_banks
from ensue.scalar.arrow_kinds import from_arrow
from ensue.sequences.batch import EventBatch
from ensue.sequences.guard_code import EventGuards, compile_event_guards
from ensue.sequences.kernels import classes as event_classes
from ensue.sequences.kernels import match_graph
from ensue.sequences.kernels import runs as kernels
from ensue.sequences.kernels.sorting import EQUAL, Sorting, offers
from ensue.sequences.kernels.timeouts import Timeouts
from ensue.sequences.match_graph import NODES, Graph
from ensue.sequences.runs import NEVER

MAX_ENTRIES = 1 << 16  # states times combinations of the atoms that each tests
MAX_CLASSES = 2_000_000
CLASSES = 256  # first number of slots
MAX_OFFERS = 1 << 22  # rows of the batch, per label: beyond, classes that wait in vain are kept
_EXACT = 1 << 53


class GuardOverflowError(Exception):
    """A number left 64 bits at a row: from there on the batch is matched in plain Python."""

    def __init__(self, partition: int, row: int) -> None:
        super().__init__(partition, row)
        self.partition, self.row = partition, row


@dataclass(frozen=True)
class EventMachine:
    """A plan ready for the kernel."""

    plan: Plan
    subsets: Subsets
    guards: EventGuards
    states: list[int]  # subset states, in the order of their places
    steps: kernels.Steps
    most_takes: int
    timeouts: bool = False  # partial matches that run out of time are roots too

    @cached_property
    def start_labels(self) -> int:
        """Bits of the labels under which matches begin; 0 where events ahead may have them, too."""
        steps, labels = self.steps, 0
        for label in steps.take_label[: steps.take_offset[steps.entry_offset[1]]].tolist():
            labels |= 1 << label
        ahead = int(np.bitwise_or.reduce(steps.mask[1:])) if len(steps.mask) > 1 else 0
        return 0 if labels & ahead else labels

    def graph(self, batch: EventBatch, live: NDArray[np.int64]) -> ClassGraph:
        """The match graph of a batch; GuardOverflowError where its numbers do not fit."""
        machine = self._over(batch)
        if machine is None:
            raise GuardOverflowError(0, int(batch.reach.begins[0]))
        return ClassGraph(self, machine, batch, live)

    def _over(self, batch: EventBatch) -> kernels.Machine | None:
        """The guards over the rows of a batch."""
        guards, length = self.guards, batch.table.num_rows
        live = guards.live(self.subsets, self.states)
        values = load_banks(guards.guards, batch.columns, length, live)
        if values is None:
            return None
        order = np.zeros(0, np.float64)
        bounds = np.array([b.within for b in self.subsets.automaton.bounds], np.float64)
        if len(bounds):
            assert batch.order is not None
            order = batch.order.astype(np.float64)
            if length and np.abs(order).max() >= _EXACT:
                return None
        return kernels.Machine(
            values,
            len(self.plan.marks.labels),
            sum(1 << i for i, test in enumerate(self.plan.tests) if test.correlated),
            batch.words[:, 0].astype(np.int64),
            batch.starts,
            bounds,
            guards.last_register,
            order,
            np.array([self._reads_itself(label) for label in range(len(self.plan.tests))]),
            self._sorting(values, batch),
        )

    def _reads_itself(self, label: int) -> bool:
        """Whether the guard of a label reads registers that its own event changes."""
        guards = self.guards.guards
        ints, floats = self.guards.reads[label]
        of_floats = (SUM_FLOAT, MIN_FLOAT, MAX_FLOAT)
        for kind, register, _, _, count, slots in guards.updates[guards.applies[label]].tolist():
            mine = floats if kind in of_floats else ints
            if mine & set(range(register, register + slots + 1)) or count in ints:
                return True
        return False

    def _sorting(self, values: GuardMachine, batch: EventBatch) -> Sorting:
        """For each state how its classes are sorted, and what later events offer them."""
        count = len(self.states)
        sorting = Sorting(
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.zeros((count, 2), np.int64),
            np.zeros((count, 2), np.int64),
            np.zeros(count, np.bool_),
            np.full(count, -1, np.int64),
            np.zeros((1, 1), np.int64),
        )
        waiting: dict[int, int] = {}  # states whose classes nothing else can change, by label
        for number, state in enumerate(self.states):
            for label, index in enumerate(self.guards.indexes):
                if state == START or index is None or not self.subsets.masks[state] >> label & 1:
                    continue
                sorting.comparison[number], sorting.label[number] = index.comparison, label
                sorting.guard[number], sorting.cell[number] = index.guards, index.cells
                sorting.floating[number] = index.floating
                if index.comparison != EQUAL and self._waits_for(number, label):
                    waiting.setdefault(label, number)
                    sorting.offered[number] = list(waiting).index(label)
                break
        rows = batch.table.num_rows
        waits = self.timeouts or batch.reach.is_open.any()  # for its time, or for rows to come
        if not waiting or rows * len(waiting) > MAX_OFFERS or waits:
            sorting.offered[:] = -1
            return sorting
        sorting = sorting._replace(best=np.empty((len(waiting), rows), np.int64))
        bits = batch.words[:, 0].astype(np.int64)
        for best, number in zip(sorting.best, waiting.values(), strict=True):
            offers(values, sorting, number, bits, batch.starts, best)
        return sorting

    def timeouts_of(self, batch: EventBatch) -> Timeouts | None:
        """What the kernel has to know to find them; None: they are not asked for."""
        if not self.timeouts:
            return None
        reach, bounded = batch.reach, bool(self.subsets.automaton.bounds)
        timed = batch.low is not None
        floors = reach.floors
        if not timed:
            floors = np.where(~reach.is_open & (AS_OF not in batch.columns), floors, NEVER)
        now = [batch.now] if bounded and batch.now is not None else []
        return Timeouts(
            np.array([self.subsets.bounds[state] for state in self.states], np.int64),
            timed,
            np.ascontiguousarray(floors, np.int64),
            reach.is_open,
            np.array(now, np.float64),
            np.zeros(1, np.int64),
        )

    def _waits_for(self, number: int, label: int) -> bool:
        """Whether an event that does not join under the label leaves the state as it is."""
        steps, state = self.steps, self.states[number]
        if self.subsets.masks[state] >> len(self.plan.marks.labels):
            return False  # a joint's bound ends it in time
        place = self.subsets.atoms_of(state).index(label)
        idle = steps.idle[steps.entry_offset[number] : steps.entry_offset[number + 1]]
        without = [bits for bits in range(len(idle)) if not bits >> place & 1]
        return bool(idle[without].all())


class ClassGraph(Graph):
    """The match graph of a batch, a node per class of partial matches."""

    def __init__(
        self,
        machine: EventMachine,
        rows: kernels.Machine,
        batch: EventBatch,
        live: NDArray[np.int64],
    ) -> None:
        super().__init__(batch, live, min(NODES, 4096 + 16 * batch.table.num_rows))
        self._machine, self._rows = machine, rows
        self._classes = _classes(len(machine.states), CLASSES, rows)
        self._timeouts = machine.timeouts_of(batch)
        self._status = kernels.DONE
        self._bits: NDArray[np.int64] | None = None  # with all rows at which a match may begin

    def starts(self) -> NDArray[np.int64] | None:
        labels = self._machine.start_labels
        return np.flatnonzero(self._rows.bits & labels) if labels else None

    def leave_out(self, rows: NDArray[np.int64], begin: int) -> None:
        bits = self._rows.bits
        if self._bits is None:
            self._bits = bits.copy()
        bits[begin:] = self._bits[begin:]
        bits[rows] &= ~self._machine.start_labels

    def advance(self) -> int:
        self._status, self.used, found = kernels.advance(
            self._machine.steps,
            self._rows,
            self._classes,
            self.walk,
            self.nodes,
            self.used,
            self.roots,
            self._machine.most_takes,
            self.effort.visits,
            self._timeouts,
        )
        return int(found)

    @property
    def low(self) -> int:
        return 0 if self._machine.timeouts else super().low  # they are told before they are gone

    def make_room(self) -> None:
        if self._status == kernels.PAUSED:
            return
        if self._status == kernels.GUARD_BY_ZERO:
            raise errors.DataError(
                "a division by zero in a condition of an event pattern",
                remedy="guard it with nullif(divisor, 0)",
            )
        if self._status == kernels.GUARD_OVERFLOW:
            raise GuardOverflowError(*self.walk.place.tolist())
        classes, takes = self._classes, self._machine.most_takes
        event_classes.sweep(classes, self.nodes.newest, self.low)
        amount = int(classes.counts[len(self._machine.states)]) + 1
        self.compact(classes.node, amount * (takes + 1))
        if amount * (takes + 2) > len(classes.node) // 2:
            if amount > MAX_CLASSES:
                raise errors.LimitError(
                    f"{amount:,} different partial matches are open at one row; the limit is "
                    f"{MAX_CLASSES:,}",
                    remedy="bound the pattern with within(...), partition it, or raise "
                    "ensue.sequences.machine.MAX_CLASSES",
                )
            self._classes = _more_classes(classes, 4 * amount * (takes + 2), self._rows)


def event_machine(
    plan: Plan, subsets: Subsets, schema: pa.Schema, timeouts: bool
) -> EventMachine | str:
    """The machine of a plan, or why there is none."""
    if subsets.automaton.absences:
        return "the pattern ends with an absence"
    if len(plan.marks.labels) + len(subsets.automaton.bounds) > 62:
        return "it has more than 62 labels and bounds"
    kinds = {field.name: from_arrow(field.type) for field in schema}
    try:
        bounds = len(subsets.automaton.bounds)
        guards = compile_event_guards(plan, kinds, bounds, by_start=timeouts)
    except TooHardError as problem:
        return f"a condition needs plain Python: {problem}"
    found = _steps(subsets)
    if found is None:
        return "its states test too many conditions"
    states, steps, most_takes = found
    if timeouts and steps.skip_accept.any():
        return "matches that an event completes which is none of theirs, beside time-outs"
    return EventMachine(plan, subsets, guards, states, steps, most_takes, timeouts)


def _steps(subsets: Subsets) -> tuple[list[int], kernels.Steps, int] | None:
    reached = subsets.reached(subsets.combinations, most_steps=MAX_ENTRIES)
    if reached is None:
        return None
    states = sorted(reached, key=subsets.canonical)
    numbers: Mapping[int, int] = {NOWHERE: -1, **{s: n for n, s in enumerate(states)}}
    masks, position_offset, positions_of = [], [0], []
    entry_offset, skip, skip_accept, idle = [0], [], [], []
    take_offset = [0]
    takes: list[tuple[int, int, bool]] = []
    for state in states:
        masks.append(subsets.masks[state])
        positions_of.extend(subsets.atoms_of(state))
        position_offset.append(len(positions_of))
        for bits in subsets.combinations(state):
            step = subsets.step(state, bits)
            skip.append(numbers[step.skip])
            skip_accept.append(step.skip_accept)
            stays = state in (START, step.skip)
            idle.append(stays and not step.takes and not step.skip_accept)
            takes.extend((take.label, numbers[take.target], take.accept) for take in step.takes)
            take_offset.append(len(takes))
        entry_offset.append(len(skip))
    widths = np.diff(take_offset)
    return (
        states,
        kernels.Steps(
            np.array(masks, np.int64),
            np.array(position_offset, np.int64),
            np.array(positions_of, np.int64),
            np.array(entry_offset, np.int64),
            np.array(skip, np.int32),
            np.array(skip_accept, np.bool_),
            np.array(idle, np.bool_),
            np.array(take_offset, np.int64),
            np.array([take[0] for take in takes], np.int32),
            np.array([take[1] for take in takes], np.int32),
            np.array([take[2] for take in takes], np.bool_),
        ),
        int(widths.max(initial=0)) + 1,
    )


def sorting(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Doubles as integers of the same order; NaN is the greatest, zero has no sign."""
    clean = np.where(np.isnan(values), np.nan, values + 0.0)
    raw = clean.view(np.int64)
    ordered = np.where(raw < 0, np.int64(-(2**63)) - raw, raw)
    return np.where(np.isnan(values), np.int64(2**63 - 2), ordered)


def _classes(states: int, slots: int, machine: kernels.Machine) -> event_classes.Classes:
    ints, floats = len(machine.guards.initial_ints), len(machine.guards.initial_floats)
    table = 1 << (4 * slots - 1).bit_length()
    return event_classes.Classes(
        np.full(slots, match_graph.NOTHING, np.int32),
        np.zeros(slots, np.int32),
        np.zeros((slots, ints), np.int64),
        np.zeros((slots, floats), np.float64),
        np.arange(slots, dtype=np.int32),
        np.full(table, event_classes.EMPTY, np.int32),
        np.zeros((states, slots), np.int32),
        np.zeros((states, slots), np.int64),
        np.zeros(states + 2, np.int64),
        np.zeros(states, np.int64),
        np.zeros(slots, np.int32),
        np.zeros(slots, np.int32),
        np.zeros((slots, ints), np.int64),
        np.zeros((slots, floats), np.float64),
    )


def _more_classes(
    classes: event_classes.Classes, slots: int, machine: kernels.Machine
) -> event_classes.Classes:
    states, size = classes.ids.shape
    larger = _classes(states, slots, machine)
    larger.node[:size] = classes.node
    larger.state[:size] = classes.state
    larger.ints[:size] = classes.ints
    larger.floats[:size] = classes.floats
    larger.free[:size] = classes.free
    larger.ids[:, :size] = classes.ids
    larger.keys[:, :size] = classes.keys
    larger.counts[:] = classes.counts
    event_classes.rehash(larger)
    return larger
