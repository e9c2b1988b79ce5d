"""Conditions on other events for the kernels: guards, registers and rows as they take them.

What the register machine cannot hold (text functions over other events, long decimals, a sum that
leaves 64 bits) is asked in plain Python (`guarded.py`), with the same answer.
"""

from __future__ import annotations

import numpy as np

from ensue.automaton.letters import LetterStates
from ensue.automaton.plan import Plan
from ensue.guards.operators import TooHardError
from ensue.guards.registers import GuardMachine
from ensue.missing.guard_code import MissingGuards, compile_missing_guards
from ensue.missing.kernels.guards import Guards
from ensue.missing.nodes import links_into
from ensue.operator.guard_banks import load_banks
from ensue.scalar.arrow_kinds import from_arrow
from ensue.sequences.batch import EventBatch


def no_guards() -> Guards:
    """Of a pattern whose conditions read single rows."""
    none, labels = np.zeros(1, np.int64), np.zeros(1, np.int32)
    words, numbers = np.zeros((1, 1), np.int64), np.zeros((1, 1))
    marks, flags, floats = np.zeros((1, 1), np.bool_), np.zeros(1, np.bool_), np.zeros(1)
    machine = GuardMachine(
        np.zeros((1, 4), np.int64), none, np.zeros((0, 6), np.int64), marks, marks, marks, none,
        floats, words, numbers, marks, marks, none, floats, none, floats, flags,
    )  # fmt: skip
    return Guards(False, machine, none, none, none, none, none, labels, none, labels, none)


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
        known = self._compiled
        live = known.live_ints, known.live_floats
        machine = load_banks(known.guards, batch.columns, batch.table.num_rows, live)
        if machine is None:
            return None
        skipped = [label for link in self._links for label in link.skipped]
        offsets = np.cumsum([0, *(len(link.skipped) for link in self._links)])
        return Guards(
            True,
            machine,
            known.part_offset,
            known.row_offset,
            known.rows,
            known.gone,
            known.live_gone,
            np.array(self._states.letter, np.int32),
            offsets.astype(np.int64),
            np.array(skipped, np.int32),
            np.zeros(2, np.int64),
        )
