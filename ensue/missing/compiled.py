"""Conditions on other events for the kernels, and match nodes without a budget that ask them.

Guards, registers and rows are laid out for `missing/kernels/guards.py`. What the register machine
cannot hold (text functions over other events, long decimals, a sum that leaves 64 bits) is left to
match nodes in plain Python (`guarded.py`), with the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.letters import LetterStates, Link
from ensue.automaton.plan import Plan
from ensue.guards.operators import TooHardError
from ensue.missing import guarded
from ensue.missing.guard_code import MissingGuards, compile_missing_guards
from ensue.missing.history import full_history, learner_of
from ensue.missing.kernels import nodes as kernels
from ensue.missing.kernels.guards import Guards
from ensue.missing.kernels.run import run
from ensue.missing.nodes import Buckets, Desk, NodeStore, Rows, links_into
from ensue.missing.words import Answer, Pairs, extended, least
from ensue.operator.guard_banks import load_banks
from ensue.scalar.arrow_kinds import from_arrow
from ensue.sequences.batch import EventBatch


class GuardFailedError(Exception):
    """A number left 64 bits, or a divisor was zero, at a row: plain Python goes on from there."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def no_guards() -> Guards:
    """Of a pattern whose conditions read single rows."""
    ints, floats = np.zeros(1, np.int64), np.zeros(1)
    words, numbers = np.zeros((1, 1), np.int64), np.zeros((1, 1))
    marks, labels = np.zeros((1, 1), np.bool_), np.zeros(1, np.int32)
    return Guards(
        False, ints, np.zeros((1, 4), np.int64), ints, ints, ints, ints,
        np.zeros((0, 6), np.int64), marks, marks, marks, ints, ints, floats, ints, floats,
        words, numbers, marks, marks, labels, ints, labels, ints, ints, floats, ints, ints, floats,
        np.zeros(1, np.bool_),
    )  # fmt: skip


class Compiler:
    """The guards of a pattern, compiled once, for one batch after the other."""

    def __init__(self, plan: Plan, states: LetterStates) -> None:
        self._plan, self._states = plan, states
        self._links = links_into(states)
        self._compiled: MissingGuards | None = None
        self.reason: str | None = None  # why plain Python asks the conditions

    def guards(self, batch: EventBatch) -> Guards | None:
        """None where the machine cannot hold the conditions, or the batch's numbers."""
        if self._compiled is None and self.reason is None:
            kinds = {field.name: from_arrow(field.type) for field in batch.table.schema}
            try:
                self._compiled = compile_missing_guards(self._plan, self._states, kinds)
            except TooHardError as problem:
                self.reason = str(problem)
        if self._compiled is None:
            return None
        known, code = self._compiled, self._compiled.guards
        banks = load_banks(code, batch.columns, batch.table.num_rows)
        if banks is None:
            return None
        skipped = [label for link in self._links for label in link.skipped]
        offsets = np.cumsum([0, *(len(link.skipped) for link in self._links)])
        cells = code.cells
        return Guards(
            True,
            known.part_offset,
            code.code,
            code.guard_offset,
            known.row_offset,
            known.rows,
            known.gone,
            code.updates,
            code.applies,
            known.live_ints,
            known.live_floats,
            known.live_gone,
            code.initial_ints,
            code.initial_floats,
            banks.int_constants,
            code.float_constants,
            banks.ints,
            banks.floats,
            banks.int_nulls,
            banks.float_nulls,
            np.array(self._states.letter, np.int32),
            offsets.astype(np.int64),
            np.array(skipped, np.int32),
            np.zeros(2, np.int64),
            code.initial_ints.copy(),
            code.initial_floats.copy(),
            np.zeros(1, np.int64),
            np.zeros(cells, np.int64),
            np.zeros(cells, np.float64),
            np.zeros(cells, np.bool_),
        )


class CompiledNodes:
    """All match nodes of the partitions of one batch, one partition after the other."""

    def __init__(self, states: LetterStates, batch: EventBatch, guards: Guards) -> None:
        self._states, self._guards = states, guards
        self._links = links_into(states)
        self._letters = np.array(states.letter, np.int32)
        self._rows = Rows.of(batch, states, proxy=False, merge=True)
        self._desk = Desk(vectors=1, bits=64)
        self._nothing_learnt = full_history(1, 64, 1), learner_of(states, Buckets.of(states), False)
        self._answers: dict[bytes, Answer] = {}
        nowhere = states.bound + 1
        self._onward = np.array(
            [min((link.cost for link in links), default=nowhere) for links in states.links]
        )

    def partition(
        self, begin: int, stop: int, inside: tuple[int, int], most: int
    ) -> Iterator[tuple[int, Pairs, Answer | None]]:
        """(row, events, answer) of each match, by row; each set of events with its least error.

        No more than `most` of a row; where it has more, answers are None: not all ways were seen.
        """
        self._guards.inside[:] = inside
        self._store = store = NodeStore(self._states.states, 1, 0)
        store.keep_registers(len(self._guards.initial_ints), len(self._guards.initial_floats))
        place = np.array([begin], np.int64)
        rows, (history, learner) = self._rows, self._nothing_learnt
        while place[0] < stop:
            problem = int(
                run(
                    rows.machine, store.nodes, history, self._desk.choice, learner, store.agents,
                    self._guards, store.registers, self._desk.scratch(store), rows.classes,
                    rows.times, rows.lows, place, stop, 0, 0.0, False, 0, False, store.ends,
                )
            )  # fmt: skip
            yield from self._listed(store, most)
            if problem == kernels.GUARD_FAILED:
                raise GuardFailedError(int(place[0]))
            if problem != kernels.DONE:
                self._desk.make_room(problem, store, int(rows.lows[place[0]]))
            used = int(store.nodes.registers[kernels.USED])
            if problem == kernels.NODES_FULL and used > guarded.MAX_NODES:
                raise guarded.too_many_nodes(used)

    def _listed(self, store: NodeStore, most: int) -> Iterator[tuple[int, Pairs, Answer | None]]:
        current, found = -1, dict[bytes, tuple[Pairs, Answer]]()
        for row, labels, rows, links in store.listed(self._letters):
            if row != current:
                yield from _in_order(current, found)
                current, found = row, {}
            key = labels.tobytes() + rows.tobytes()
            answer = self._answer(links)
            known = found.get(key)
            if known is None:
                pairs = list(zip(labels.tolist(), rows.tolist(), strict=True))
                found[key] = pairs, answer
                if len(found) >= most:
                    for pairs, _ in found.values():
                        yield row, pairs, None
                    current, found = -1, {}
            elif answer < known[1]:
                found[key] = known[0], answer
        yield from _in_order(current, found)

    def _answer(self, links: NDArray[np.int32]) -> Answer:
        """What a trajectory's links skip, and the cheapest way from its end."""
        key = links.tobytes()
        known = self._answers.get(key)
        if known is None:
            way: list[Link] = [self._links[number] for number in links.tolist()]
            answer: Answer = (0, 0, ())
            for index, link in enumerate(way):
                answer = extended(answer, link, index)
            known = least(self._states, [(way[-1].target, answer)], len(way))
            assert known is not None
            self._answers[key] = known
        return known

    def oldest(self, low: int) -> int | None:
        """The earliest start, from `low` on, of a node that may still match an event."""
        nodes = self._store.nodes
        used = int(nodes.registers[kernels.USED])
        first, state = nodes.first[:used], nodes.state[:used]
        open_ones = nodes.error[:used] + self._onward[state] <= self._states.bound
        starts = first[(first >= low) & open_ones]
        return int(starts.min()) if len(starts) else None


def _in_order(
    row: int, found: dict[bytes, tuple[Pairs, Answer]]
) -> Iterator[tuple[int, Pairs, Answer]]:
    told = sorted(found.values(), key=lambda match: [(place, label) for label, place in match[0]])
    for pairs, answer in told:
        yield row, pairs, answer
