"""Event patterns behind the matcher by the AFA operator instead of replay.

The face is that of `Replay`: events that come and are taken back, each with the hidden columns that
name them, and the rows of matches that came and went. One operator per key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.automaton.registers import INFINITY
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.subsets import Subsets
from ensue.operator import state
from ensue.operator.buffer import AT, EVENT, KEY, numbers
from ensue.operator.changes import Changes, difference
from ensue.operator.protocol import Events, Key, keys_of
from ensue.query.query import WindowKind
from ensue.revision import query as register_query
from ensue.revision import state as revision_state
from ensue.revision.kernels import output
from ensue.revision.operator import Operator
from ensue.revision.parts import Delta, Settings, Times
from ensue.revision.query import machine_of
from ensue.scalar.arrow_kinds import from_arrow
from ensue.sequences.batch import EventBatch
from ensue.sequences.output import Found, Output

Numbers = NDArray[np.int64]
STAGE = state.Kind("revision stage", version=2, oldest=2)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def supports(plan: Plan, schema: pa.Schema) -> str | None:
    """Why the AFA operator cannot run the query over these columns; None where it can."""
    reason = register_query.supports(plan)
    if reason is not None:
        return reason
    query = plan.query
    if len(query.order_by) != 1:
        return "further order columns decide between events of one time"
    kind = schema.field(query.order_by[0].column).type
    if query.within is not None and not (
        pa.types.is_timestamp(kind) or pa.types.is_signed_integer(kind)
    ):
        return f"a window over {kind} is not a whole number of ticks"
    try:
        Operator(machine_of(plan, {f.name: from_arrow(f.type) for f in schema}), _kinds(schema))
    except OverflowError:
        return "the pattern has too many labels or states"
    return None


def _kinds(schema: pa.Schema) -> dict[str, Any]:
    return {column.name: from_arrow(column.type) for column in schema}


class RevisionStage:
    """See the module. Rows have the hidden columns AT, KEY and EVENT."""

    def __init__(self, plan: Plan, schema: pa.Schema, nothing: pa.Table) -> None:
        self._plan, self._schema, self._nothing = plan, schema, nothing
        self._kinds = _kinds(schema)
        self._machine = machine_of(plan, self._kinds)
        self._subsets = Subsets(compile_sequence(plan.query))
        self._columns = Output(plan, False)
        self._window = self._ticks()
        self._operators: dict[int, Operator] = {}
        self._keys: dict[int, Key] = {}
        self._heads: dict[int, pa.Table] = {}  # one row that has the key
        self._mark: int | None = None

    def _ticks(self) -> int | None:
        """RE − LE: `within` and one tick, since it includes its edge (SEMANTICS, disorder 5)."""
        within = self._plan.query.within
        if within is None:
            return None
        size = int(within.size)
        if within.kind is WindowKind.TIME:
            unit = self._schema.field(self._plan.query.order_by[0].column).type.unit
            size = size * _PER_SECOND[unit] // 10**6
        return size + 1

    # -- calls -----------------------------------------------------------------------------------

    def change(self, added: Events, removed: Events | None = None) -> Changes:
        """Events that come and events that are taken back."""
        came: list[pa.Table] = []
        went: list[pa.Table] = []
        for events, operation in ((removed, -1), (added, 1)):
            if events is not None and events.table.num_rows:
                self._change(events, operation, came, went)
        return self._changes(came, went)

    def _change(
        self, events: Events, operation: int, came: list[pa.Table], went: list[pa.Table]
    ) -> None:
        table = events.table.combine_chunks()
        bits = EventBatch(self._plan, self._subsets, table, events.starts).words[:, 0]
        names = numbers(table, KEY)[events.starts[:-1]].tolist()
        keys = keys_of(events, self._plan.query.partition_by)
        for index, name in enumerate(names):
            begin, end = int(events.starts[index]), int(events.starts[index + 1])
            part = table.slice(begin, end - begin)
            operator = self._operator(name, keys[index], part)
            delta = operator.change(
                part,
                self._times(part),
                np.full(end - begin, operation, np.int8),
                bits[begin:end].astype(np.int64),
            )
            self._add(operator, delta, came, went)

    def _operator(self, name: int, key: Key, part: pa.Table) -> Operator:
        if name not in self._operators:
            made = Operator(self._machine, dict(self._kinds), Settings())
            if self._mark is not None:
                made.advance(self._mark)
            self._operators[name] = made
            self._keys[name] = key
            self._heads[name] = part.slice(0, 1).select([*self._plan.query.partition_by, KEY])
        return self._operators[name]

    def _times(self, table: pa.Table) -> Times:
        le = numbers(table, AT)
        zeros = np.zeros(len(le), np.int64)
        if self._window is None:
            re = np.full(len(le), INFINITY, np.int64)
        else:
            re = np.where(le > INFINITY - self._window, INFINITY, le + self._window)
        return Times(le, re, zeros, numbers(table, EVENT), zeros)

    def advance(self, code: int, time: object) -> Changes:
        """Time passes for all keys."""
        self._mark = code
        came: list[pa.Table] = []
        went: list[pa.Table] = []
        for operator in self._operators.values():
            self._add(operator, operator.advance(code), came, went)
        return self._changes(came, went)

    def end(self, keys: Sequence[Key] | None = None) -> Changes:
        """These keys are complete."""
        came: list[pa.Table] = []
        went: list[pa.Table] = []
        for name, key in list(self._keys.items()):
            if keys is None or key in keys:
                operator = self._operators.pop(name)
                del self._keys[name], self._heads[name]
                self._add(operator, operator.end(), came, went)
        return self._changes(came, went)

    @property
    def rows(self) -> int:
        """Events that may still be corrected."""
        return sum(operator.events for operator in self._operators.values())

    # -- state -----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """All keys with their operators, as Arrow IPC bytes."""
        names = [*self._plan.query.partition_by, KEY]
        nothing = pa.schema([self._schema.field(name) for name in names]).empty_table()
        heads = pa.concat_tables([nothing, *self._heads.values()])
        operators = tuple(map(revision_state.to_bytes, self._operators.values()))
        told = {} if self._mark is None else {"mark": self._mark}
        parts = {"heads": heads, "operators": operators}
        return state.pack(STAGE, parts, told, self._plan.fingerprint)

    def restore(self, blob: bytes) -> None:
        """Go on from stored state; what it had put out is not put out again."""
        saved = state.unpack(STAGE, blob, self._plan.fingerprint)
        heads = saved.table("heads").combine_chunks()
        starts = np.arange(heads.num_rows + 1)
        keys = keys_of(
            Events(heads, starts, np.zeros(heads.num_rows, np.bool_)), self._plan.query.partition_by
        )
        self._mark = saved.numbers.get("mark")
        together = zip(saved.states("operators"), numbers(heads, KEY).tolist(), strict=True)
        for place, (part, name) in enumerate(together):
            made = Operator(self._machine, dict(self._kinds), Settings())
            revision_state.from_bytes(made, part)
            self._operators[name], self._keys[name] = made, keys[place]
            self._heads[name] = heads.slice(place, 1)

    # -- tables ----------------------------------------------------------------------------------

    def _add(
        self, operator: Operator, delta: Delta, came: list[pa.Table], went: list[pa.Table]
    ) -> None:
        for sign, found in ((1, came), (-1, went)):
            rows = delta.rows[delta.rows[:, output.OPERATION] == sign]
            if len(rows):
                found.append(self._table(operator, rows, delta.pairs))

    def _table(self, operator: Operator, rows: Numbers, pairs: Numbers) -> pa.Table:
        """Matches in the shape of the event sequence evaluator's."""
        lengths = rows[:, output.TRACE_LENGTH]
        ends = rows[:, output.TRACE_BEGIN] + lengths
        total = np.cumsum(lengths)
        # The pairs of a match are listed from its last event to its first.
        within = np.arange(int(total[-1])) - np.repeat(total - lengths, lengths)
        chosen = pairs[np.repeat(ends - 1, lengths) - within]
        events, places = np.unique(chosen[:, 1], return_inverse=True)
        table = operator.rows.take(events).combine_chunks()
        batch = EventBatch(
            self._plan, self._subsets, table, np.array([0, table.num_rows], np.int64)
        )
        count = len(rows)
        found = Found(
            np.zeros(count, np.int64),
            np.ones(count, np.int64),
            np.ones(count, np.bool_),
            lengths,
            chosen[:, 0],
            places,
        )
        return self._columns.table(batch, found)

    def _changes(self, came: list[pa.Table], went: list[pa.Table]) -> Changes:
        """What one call both reported and withdrew is no change."""
        new, old = (pa.concat_tables([self._nothing, *part]) for part in (came, went))
        if not old.num_rows:
            return Changes(new, old)
        fresh, gone = difference(old, new)
        return Changes(fresh, gone)
