"""Why an automaton by hand did not match, in process: an Arrow table in, one of attempts out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ensue.automaton.registers import RegisterAutomaton
from ensue.operator.arrange import flat
from ensue.operator.notices import Notices
from ensue.query import rules
from ensue.revision.timing import Timing
from ensue.run import choose
from ensue.run.partition import key_of, no_rows, rows_of
from ensue.why.account import PARTITION
from ensue.why.automata import AutomatonAttempts
from ensue.why.funnel import funnel, tallies
from ensue.why.nearest import check as check_number
from ensue.why.nearest import nearest
from ensue.why.trace import Trace, cut


@dataclass(frozen=True)
class Asked:
    """A question why: the automaton, how its events are read, and what a row of the answer is."""

    machine: RegisterAutomaton
    timing: Timing
    partition_by: tuple[str, ...]
    per: str = PARTITION

    def attempts(self, schema: pa.Schema) -> AutomatonAttempts:
        rules.duplicates(schema.names, "column of the input")
        keys = choose.revisions(self.machine, self.timing, schema, self.partition_by)
        return AutomatonAttempts(keys, self.machine, self.timing, self.partition_by, self.per)

    @property
    def arcs(self) -> list[str]:
        """What a funnel has rows of: the arcs that take a row, in the order they were given."""
        return list(dict.fromkeys(arc.text for arc in self.machine.arcs if arc.takes))


def run(asked: Asked, table: pa.Table) -> pa.Table:
    """One row per partition, of its best failed attempt, or one per start row."""
    return asked.attempts(table.schema).table(table.combine_chunks())


def run_funnel(asked: Asked, table: pa.Table) -> pa.Table:
    """How many attempts took each arc, and where and why they stopped."""
    return funnel(asked.arcs, [tallies(run(asked, table))])


def run_nearest(asked: Asked, table: pa.Table, n: int) -> pa.Table:
    """The n attempts that lack least."""
    check_number(n)
    return nearest(asked.attempts(table.schema).query, [run(asked, table)], n)


def run_trace(asked: Asked, table: pa.Table, key: Any, limit: int, notices: Notices) -> pa.Table:
    """The steps of the search through one partition."""
    steps = Trace(limit)
    attempts = asked.attempts(table.schema)
    wanted = key_of(attempts.query, key, "trace")
    rows = rows_of(table, wanted)
    if not rows.num_rows:
        raise no_rows(wanted)
    return traced(attempts, rows.combine_chunks(), steps, notices)


def traced(attempts: AutomatonAttempts, rows: pa.Table, steps: Trace, notices: Notices) -> pa.Table:
    """The steps through rows that are one partition."""
    ((_, part),) = attempts.partitions(rows)
    with cut(steps, notices):
        part.trace(steps)
    return steps.table(attempts.query, flat(part.table, attempts.timing.order_by))
