"""Engines of the row evaluator: from a batch to its matches.

`AutomatonEngine` serves patterns whose conditions are known before matching starts: one backward
and one forward pass (kernels/automaton.py). `run/choose.py` says which engine runs and why.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.kernels import automaton
from ensue.operator.batch import Batch
from ensue.quantities.measures import Matches
from ensue.query.query import Rows, SkipMode
from ensue.stopping import look

_SKIP = {
    SkipMode.PAST_LAST_ROW: automaton.PAST_LAST_ROW,
    SkipMode.TO_NEXT_ROW: automaton.TO_NEXT_ROW,
    SkipMode.TO_FIRST: automaton.TO_FIRST,
    SkipMode.TO_LAST: automaton.TO_LAST,
}
MIN_OUTPUT = 1 << 16


class Engine(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def reason(self) -> str: ...

    def find(self, batch: Batch) -> Iterator[Matches]: ...


def skip_arguments(plan: Plan) -> tuple[int, NDArray[np.bool_], bool]:
    """AFTER MATCH SKIP and the wish for unmatched rows, as the kernels take them."""
    skip = plan.query.skip
    states = plan.program.members(skip.variable)
    return _SKIP[skip.mode], states, plan.query.rows is Rows.ALL_WITH_UNMATCHED


def skip_error(status: int, batch: Batch, partition: int) -> errors.SkipTargetError:
    """The run-time error of rule 9: it names the variable and the row."""
    variable = batch.plan.query.skip.variable
    row = int(batch.cursor[partition, 0] - batch.starts[partition] + batch.base[partition])
    where = f"in the match that starts at row {row} (counted from 0) of its partition"
    keys = batch.plan.query.partition_by
    if keys:
        first = int(batch.starts[partition])
        values = ", ".join(f"{k} = {batch.columns[k][first].as_py()!r}" for k in keys)
        where += f" ({values})"
    if status == automaton.SKIP_MISSING:
        problem = f"AFTER MATCH SKIP TO {variable}: no row is labelled {variable} {where}"
        remedy = f"make {variable} mandatory in the pattern, or skip past the last row"
    else:
        problem = (
            f"AFTER MATCH SKIP TO {variable}: the row labelled {variable} is the first row of the "
            f"match, so matching would never end, {where}"
        )
        remedy = "skip to another variable, to the next row or past the last row"
    return errors.SkipTargetError(problem, remedy=remedy)


def task_of(batch: Batch) -> automaton.Task:
    """The batch as the kernels match it."""
    program = batch.plan.program
    return automaton.Task(
        batch.viability(),
        batch.window_limits(),
        batch.starts,
        batch.ends,
        batch.heads,
        batch.is_open,
        program.label,
        program.arc_offset,
        program.arc_target,
        program.arc_flags,
        *skip_arguments(batch.plan),
        batch.cursor,
    )


Step = Callable[[int, NDArray[np.int64], NDArray[np.int32]], tuple[int, int, int, int]]


def drain(
    step: Step, batch: Batch, partition: int = 0
) -> Generator[Matches, None, tuple[int, int]]:
    """What a kernel finds from a partition on; the status at which it stopped, and where."""
    capacity = max(batch.length, MIN_OUTPUT)
    while True:
        match = np.empty((capacity, 5), np.int64)
        positions = np.empty(capacity, np.int32)
        status, partition, entries, written = step(partition, match, positions)
        look()
        if entries:
            yield Matches(match[:entries], positions[:written])
        elif status == automaton.FULL:
            capacity *= 2
        if status != automaton.FULL:
            return status, partition


@dataclass(frozen=True)
class AutomatonEngine:
    plan: Plan
    name: str = "automaton"
    reason: str = "conditions read only the row and its physical neighbours"

    def find(self, batch: Batch) -> Iterator[Matches]:
        status, partition = yield from drain(partial(automaton.walk, task_of(batch)), batch)
        if status != automaton.DONE:
            raise skip_error(status, batch, partition)
