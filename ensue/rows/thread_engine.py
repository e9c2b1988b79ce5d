"""The engine for correlated conditions: batches to the banks of the register machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.guards.compile import Guards
from ensue.kernels import automaton
from ensue.operator.batch import Batch
from ensue.operator.guard_banks import load_banks
from ensue.quantities.measures import Matches
from ensue.rows.engines import MIN_OUTPUT, skip_arguments, skip_error
from ensue.rows.kernels import threads
from ensue.rows.python_engine import PythonEngine

MAX_THREADS = 65_536
MAX_TRACE = 1 << 24
_FIRST_TRACE = 1 << 16


@dataclass(frozen=True)
class ThreadEngine:
    plan: Plan
    guards: Guards
    schema: pa.Schema
    name: str = "threads"
    reason: str = "conditions read the match so far; guards run on the register machine"

    def find(self, batch: Batch) -> Iterator[Matches]:
        program, guards = self.plan.program, self.guards
        least = batch.viability()
        limits = batch.window_limits()
        banks = load_banks(guards, batch.columns, batch.length)
        if banks is None:
            yield from self._exactly(batch)
            return
        skip_mode, skip_states, unmatched = skip_arguments(self.plan)
        capacity, trace_size = max(batch.length, MIN_OUTPUT), _FIRST_TRACE
        partition = 0
        while True:
            match = np.empty((capacity, 5), np.int64)
            positions = np.empty(capacity, np.int32)
            status, partition, entries, written = threads.run_threads(
                least,
                limits,
                batch.starts,
                batch.ends,
                batch.heads,
                batch.is_open,
                program.label,
                program.arc_offset,
                program.arc_target,
                program.arc_flags,
                skip_mode,
                skip_states,
                unmatched,
                batch.cursor,
                partition,
                guards.code,
                guards.guard_offset,
                guards.cells,
                guards.updates,
                guards.applies,
                guards.live_ints,
                guards.live_floats,
                guards.initial_ints,
                guards.initial_floats,
                banks.ints,
                banks.floats,
                banks.int_nulls,
                banks.float_nulls,
                banks.int_constants,
                guards.float_constants,
                guards.share,
                MAX_THREADS,
                trace_size,
                match,
                positions,
            )
            if entries:
                yield Matches(match[:entries], positions[:written])
            if status == automaton.DONE:
                return
            if status == automaton.FULL:
                capacity = capacity if entries else 2 * capacity
            elif status == threads.TOO_LONG and trace_size < MAX_TRACE:
                trace_size *= 4
            elif status == threads.GUARD_OVERFLOW:
                yield from self._exactly(batch)
                return
            else:
                raise _error(status, batch, partition)

    def _exactly(self, batch: Batch) -> Iterator[Matches]:
        """From where the batch stands, in plain Python: a number does not fit 64 bits."""
        return PythonEngine(self.plan, self.schema, "a number does not fit 64 bits").find(batch)


def _error(status: int, batch: Batch, partition: int) -> errors.EnsueError:
    if status in (automaton.SKIP_MISSING, automaton.SKIP_FIRST):
        return skip_error(status, batch, partition)
    row = int(batch.cursor[partition, 0] - batch.starts[partition] + batch.base[partition])
    where = f"for the match that starts at row {row} (counted from 0) of its partition"
    if status == threads.GUARD_BY_ZERO:
        return errors.DataError(
            f"a division by zero in DEFINE {where}", remedy="guard it with nullif(divisor, 0)"
        )
    what = "partial matches" if status == threads.TOO_MANY_THREADS else "steps"
    limit = MAX_THREADS if status == threads.TOO_MANY_THREADS else MAX_TRACE
    setting = "MAX_THREADS" if status == threads.TOO_MANY_THREADS else "MAX_TRACE"
    return errors.LimitError(
        f"more than {limit:,} {what} that cannot be merged are alive {where}",
        remedy="bound the pattern with within(...), make the conditions read less of the match, or "
        f"raise ensue.rows.thread_engine.{setting}",
    )
