"""The engine for correlated conditions: batches to the banks of the register machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.guards.compile import Guards
from ensue.kernels import automaton
from ensue.operator.batch import Batch
from ensue.operator.guard_banks import load_banks
from ensue.quantities.measures import Matches
from ensue.rows.engines import drain, skip_error, task_of
from ensue.rows.kernels import threads
from ensue.rows.python_engine import PythonEngine
from ensue.rows.reach import Comparison, comparisons, reach_of
from ensue.stopping import look

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

    @cached_property
    def compared(self) -> list[Comparison]:
        return comparisons(self.plan, self.guards.row_registers)

    def find(self, batch: Batch) -> Iterator[Matches]:
        machine = load_banks(self.guards, batch.columns, batch.length)
        if machine is None:
            yield from self._exactly(batch)
            return
        task, partition, trace_size = task_of(batch), 0, _FIRST_TRACE
        reach = reach_of(self.compared, self.plan, batch, task.least)
        while True:
            run = partial(
                threads.run_threads,
                task,
                machine,
                reach,
                self.guards.share,
                MAX_THREADS,
                trace_size,
            )
            status, partition = yield from drain(run, batch, partition)
            if status == automaton.DONE:
                return
            look()
            if status == threads.GUARD_OVERFLOW:
                yield from self._exactly(batch)
                return
            if status != threads.TOO_LONG or trace_size >= MAX_TRACE:
                raise _error(status, batch, partition)
            trace_size *= 4

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
