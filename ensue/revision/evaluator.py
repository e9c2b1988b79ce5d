"""AFA behind the operator's face: partitions, times, names of matches, late and rejected rows.

An automaton with registers (`automaton/registers.py`) over events in any order, with corrections
and changes of its arcs. One `Operator` per partition does the work; here tables become its arrays
and its changes become tables. The net of all changes is the answer on the ordered, corrected events
under the arcs with the lifetimes they resolved to (SEMANTICS, disorder 1 and 4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.registers import INFINITY, MINUS_INFINITY, Arc, RegisterAutomaton
from ensue.operator import cleanse, intake, state
from ensue.operator.arrange import flat
from ensue.operator.clock import Clock
from ensue.operator.identity import as_text, folded, row_hashes, text_hash
from ensue.operator.intake import REASON
from ensue.operator.protocol import Capabilities, Key, Metrics, key_value
from ensue.operator.turns import Turns
from ensue.query import condition as c
from ensue.query import stored
from ensue.query.duration import parse_duration
from ensue.revision import limits
from ensue.revision import state as revision_state
from ensue.revision.arc_schedule import ArcSchedule
from ensue.revision.kernels import layout
from ensue.revision.kernels.arcs import begins_of
from ensue.revision.kernels.layout import Numbers
from ensue.revision.operator import Operator
from ensue.revision.parts import (
    DEFAULT,
    EMPTY_LIFETIME,
    FINAL,
    LATE,
    TWICE,
    Delta,
    Settings,
    Times,
    nothing,
)
from ensue.revision.tier import decoded
from ensue.revision.timing import Timing
from ensue.scalar import kinds as k
from ensue.scalar.arrow_kinds import from_arrow, to_arrow
from ensue.scalar.moments import value_of

KIND = state.Kind("revisions", version=2, oldest=2)
_REASONS = {
    layout.UNKNOWN: cleanse.NEVER_SEEN,
    layout.TAKEN_NUMBER: "there is already an event with this sequence number",
    layout.EQUAL_TIME: "there is already an event with this timestamp",
    layout.AGAINST_TIME: "the sequence number rises while the time falls",
    EMPTY_LIFETIME: "the lifetime is empty: it ends at or before its beginning",
    FINAL: cleanse.FINAL,
    TWICE: cleanse.TWICE,
}


class RevisionEvaluator(intake.PutsAside, Turns):
    """See the module."""

    name = "the revision evaluator (AFA)"
    capabilities = Capabilities(ordered_input=False, retraction=True, revision=True)

    def __init__(
        self,
        machine: RegisterAutomaton,
        timing: Timing,
        schema: pa.Schema,
        partition_by: Sequence[str] = (),
        settings: Settings = DEFAULT,
    ) -> None:
        timing.check(schema)
        errors.UnknownColumnError.check(partition_by, schema.names)
        self.machine, self.timing, self.schema = machine, timing, schema
        self.partition_by = tuple(partition_by)
        self.settings = settings
        self.clock = Clock(timing.order_by, schema.field(timing.order_by).type)
        self.kinds = {column.name: from_arrow(column.type) for column in schema}
        self.metrics = Metrics()
        self._window = self._size(timing.within)
        self._operators: dict[int, Operator] = {}
        self._keys: dict[int, tuple[Any, ...]] = {}
        self._edited = False
        self._aside = intake.Aside(schema)
        self._first = Operator(machine, dict(self.kinds), settings)  # also checks types
        self.watermark = MINUS_INFINITY
        self._arc_watermark = self._first.arc_watermark

    def _size(self, within: Any) -> int | float | None:
        if within is None:
            return None
        if isinstance(within, str) and self.clock.temporal:
            parse_duration(within)
        return self.clock.amount(within, "within")

    # -- calls -----------------------------------------------------------------------------------

    def insert(self, table: pa.Table) -> pa.Table:
        """Events in any order; the changes of the answer."""
        return self.change(table, np.ones(table.num_rows, np.int8))

    def retract(self, table: pa.Table) -> pa.Table:
        """Retract events: the same rows as they came."""
        return self.change(table, np.full(table.num_rows, -1, np.int8))

    def change(self, table: pa.Table, operations: NDArray[np.int8]) -> pa.Table:
        """Inserts (1) and retractions (-1) as they arrive."""
        return self._taken(table, operations)[1]

    def _taken(
        self, table: pa.Table, operations: NDArray[np.int8], edits: ArcSchedule | None = None
    ) -> tuple[Numbers, pa.Table]:
        """What became of edits, and of events."""
        table = self._fitted(table)
        count = table.num_rows
        valid = flat(table, self.timing.order_by).is_valid().to_numpy(zero_copy_only=False)
        timeless = table.filter(pa.array(~valid))
        if timeless.num_rows:
            table, operations = table.filter(pa.array(valid)), operations[valid]
        times = self.times(table)
        begins = np.zeros(0, np.int64)
        if edits is not None:
            # An event without a time is nothing that an edit could come after.
            at = np.concatenate(([0], np.cumsum(valid)))[edits.at]
            begins = begins_of(at, self._now, operations, times.le, times.re)
            for operator in (self._first, *self._operators.values()):
                operator.schedule(edits, begins)
            self._edited = True
        self.metrics.rows += count
        if timeless.num_rows:
            self._aside.add(rejected=intake.with_reasons(timeless, intake.NO_TIME))
        return begins, self._through(table, times, operations)

    def _through(self, table: pa.Table, times: Times, operations: NDArray[np.int8]) -> pa.Table:
        """All partitions with their events."""
        try:
            return self._shown(self._through_partitions(table, times, operations))
        except errors.LimitError:
            self._cut = "insert" if (operations == layout.INSERT).all() else "retract"
            raise

    def _through_partitions(
        self, table: pa.Table, times: Times, operations: NDArray[np.int8]
    ) -> list[pa.Table]:
        if not self.partition_by:
            return [self._changed(0, (), table, times, operations)]
        hashes = row_hashes(table, self.partition_by).view(np.int64)
        names, places = np.unique(hashes, return_inverse=True)
        order = np.argsort(places, kind="stable")
        bounds = np.concatenate(([0], np.cumsum(np.bincount(places, minlength=len(names)))))
        found, held, matches = [], self.partials, 0
        for index, name in enumerate(names.tolist()):
            rows = order[bounds[index] : bounds[index + 1]]
            part = table.take(pa.array(rows))
            key = tuple(value_of(part.column(column)[0]) for column in self.partition_by)
            kept = Times(
                *(getattr(times, n)[rows] for n in ("le", "re", "tie", "name", "sequence"))
            )
            operator = self.operator(name, key)
            operator.elsewhere = held - operator.partials
            found.append(self._changed(name, key, part, kept, operations[rows]))
            held = operator.elsewhere + operator.partials
            matches += found[-1].num_rows
            limits.check_matches(matches)
        return found

    def change_with_edits(self, table: pa.Table, edits: ArcSchedule) -> tuple[pa.Array, pa.Table]:
        """Events with edits of arcs between them; when each edit begins to apply, all changes."""
        edits.check(table.num_rows)
        operations = np.ones(table.num_rows, np.int8)
        begins, changes = self._taken(table, operations, edits)
        _, firsts = np.unique(edits.at, return_index=True)
        return self._times(begins[firsts]), changes

    def advance(self, time: Any, on_arcs: bool = False) -> pa.Table:
        """A watermark on the event input, or on that of arcs."""
        code = self.clock.code(time)
        if on_arcs:
            self._arc_watermark = max(self._arc_watermark, code)
        else:
            self.watermark = max(self.watermark, code)
        self._first.advance(code, on_arcs)
        return self._shown(
            [
                self._output(name, operator, operator.advance(code, on_arcs))
                for name, operator in self._all()
            ]
        )

    def promise(self, time: Any, condition: c.Condition) -> int:
        """A watermark for the events for which a condition holds; what could be let go."""
        code = self.clock.code(time)
        return sum(operator.promise(code, condition) for _, operator in self._all())

    @property
    def nothing(self) -> pa.Table:
        """No changes."""
        return self._shown([])

    def end(self, keys: Collection[Key] | None = None) -> pa.Table:
        """These partitions, or all, are complete; one that comes again starts afresh."""
        found = [self._output(name, op, op.end()) for name, op in self._all(keys)]
        self.drop(keys)
        return self._shown(found)

    def drop(self, keys: Collection[Key] | None = None) -> None:
        """Forget these partitions, or all, with what they held."""
        for name, operator in self._all(keys):
            self._first.newest = max(self._first.newest, operator.newest)
            del self._operators[name], self._keys[name]

    def known(self) -> list[Key]:
        """The keys that have state."""
        return [tuple(map(key_value, key)) for key in self._keys.values()]

    def sizes(self) -> dict[Key, int]:
        """Events held of each key."""
        held = (operator.events for operator in self._operators.values())
        return dict(zip(self.known(), held, strict=True))

    def revise(
        self,
        add: Iterable[Arc] = (),
        remove: Iterable[str] = (),
        since: Any = None,
        till: Any = None,
        finals: Iterable[str] = (),
        starts: Iterable[str] = (),
    ) -> tuple[Any, Any, pa.Table]:
        """Add and remove arcs while events flow; the lifetime it resolved to, and the changes."""
        added, removed = list(add), list(remove)
        end = None if till is None else self.clock.code(till)
        begin = self._begin(since)

        def edit(operator: Operator) -> Any:
            return operator.revise(added, removed, begin, end, finals, starts)

        edit(self._first)  # refuses what does not fit, before any partition has changed
        try:
            found = [self._output(name, op, edit(op)[2]) for name, op in self._all()]
        except errors.LimitError:
            self._cut = "revise"
            raise
        self._edited = True
        told = None if begin == MINUS_INFINITY else self.clock.time(begin)
        until = None if end is None else self.clock.time(end)
        return told, until, self._shown(found)

    def _begin(self, since: Any) -> int:
        """One lifetime for all partitions: after the newest event of any, and the watermark."""
        if since is not None:
            return self.clock.code(since)
        return self._now if self._now == MINUS_INFINITY else self._now + 1

    @property
    def _now(self) -> int:
        """t_curr"""
        newest = (operator.newest for operator in (self._first, *self._operators.values()))
        return max(self.watermark, *newest)

    # -- inside ----------------------------------------------------------------------------------

    def _all(self, keys: Collection[Key] | None = None) -> list[tuple[int, Operator]]:
        if keys is None:
            return list(self._operators.items())
        pairs = zip(self.known(), self._operators.items(), strict=True)
        return [item for key, item in pairs if key in keys]

    def operator(self, name: int = 0, key: tuple[Any, ...] = ()) -> Operator:
        """The operator of a partition; a new one knows the edits and the time that passed."""
        if name not in self._operators:
            made = Operator(self.machine, dict(self.kinds), self.settings)
            if self._edited:
                made.replace_arcs(self._first.machine, self._first.arcs)
            if self.watermark > MINUS_INFINITY:
                made.advance(self.watermark)
            if self._arc_watermark != made.arc_watermark:
                made.advance(self._arc_watermark, on_arcs=True)
            self._operators[name] = made
            self._keys[name] = key
        return self._operators[name]

    def _fitted(self, table: pa.Table) -> pa.Table:
        if table.schema.equals(self.schema):
            return table
        for column in self.schema:
            if column.name not in table.column_names:
                raise errors.UnknownColumnError(
                    f"the events have no column {column.name!r}",
                    remedy=f"give the columns {', '.join(self.schema.names)}",
                )
        return table.select(self.schema.names).cast(self.schema)

    def times(self, table: pa.Table) -> Times:
        """Keys of events as codes."""
        name = row_hashes(table, self.schema.names).view(np.int64)
        return self.timing.keys(table, self.clock, self._window, name)

    def _changed(
        self, name: int, key: tuple[Any, ...], table: pa.Table, times: Times, operations: Any
    ) -> pa.Table:
        operator = self.operator(name, key)
        delta = operator.change(table, times, operations)
        self._refuse(table, delta.status)
        return self._output(name, operator, delta)

    def _refuse(self, table: pa.Table, status: NDArray[np.int8]) -> None:
        if not status.any():
            return
        late = status == LATE
        if late.any():
            self.metrics.late += int(late.sum())
            self._aside.add(late=table.filter(pa.array(late)))
        wrong = np.flatnonzero((status != layout.DONE) & ~late)
        if len(wrong):
            reasons = [_REASONS[int(status[row])] for row in wrong.tolist()]
            refused = table.take(pa.array(wrong))
            self._aside.add(rejected=refused.append_column(REASON, pa.array(reasons, pa.string())))

    def take_in(self, late: pa.Table, rejected: pa.Table) -> None:
        """Rows that a stage before this one could not use."""
        self.metrics.late += late.num_rows
        self._aside.add(late, rejected)

    # -- tables ----------------------------------------------------------------------------------

    def _output(self, name: int, operator: Operator, delta: Delta) -> pa.Table:
        """Rows of the kernels as a table of changes."""
        for event, arc, reason in delta.faults:
            del event
            blank = pa.table(
                [pa.nulls(1, column.type) for column in self.schema], schema=self.schema
            )
            told = intake.with_reasons(blank, f"the arc {arc} failed: {reason}")
            self._aside.add(rejected=told)
        rows = delta.rows
        names, arrays = [], []
        for place, column in enumerate(self.partition_by):
            value = self._keys[name][place] if len(rows) else None
            names.append(column)
            arrays.append(pa.array([value] * len(rows), self.schema.field(column).type))
        for column, place in (
            ("first", layout.FIRST_LE),
            ("last", layout.LAST_LE),
            ("until", layout.LIFETIME_RE),
        ):
            names.append(column)
            arrays.append(self._times(rows[:, place]))
        states = np.array(operator.code.states, object)
        names.append("state")
        arrays.append(pa.array(states[rows[:, layout.FINAL_STATE]], pa.string()))
        nulls = rows[:, layout.OUTPUT_NULLS]
        for place, item in enumerate(self.machine.fields):
            names.append(item.name)
            missing = (nulls >> place & 1).astype(bool)
            arrays.append(
                self._values(rows[:, layout.OUTPUT_REGISTER + place], missing, item.kind, operator)
            )
        shown = pa.table(arrays, names=names)
        ops = np.where(rows[:, layout.OPERATION] > 0, "+", "-")
        self.metrics.matches += int((rows[:, layout.OPERATION] > 0).sum())
        self.metrics.retracted += int((rows[:, layout.OPERATION] < 0).sum())
        content = row_hashes(shown, names)
        first, last = (rows[:, p].view(np.uint64) for p in (layout.FIRST_NAME, layout.LAST_NAME))
        high = folded(content, first)
        low = folded(folded(last, content), np.full(len(rows), text_hash("match")))
        shown = shown.add_column(0, "match_id", as_text(high, low))
        return shown.add_column(0, "op", pa.array(ops, pa.string()))

    def _times(self, codes: Numbers) -> pa.Array:
        kind = self.clock.kind
        unknown = (codes == INFINITY) | (codes == MINUS_INFINITY)
        if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
            return pa.array(codes, mask=unknown).cast(kind, safe=False)
        if pa.types.is_timestamp(kind):
            return pa.array(codes, mask=unknown).cast(kind)
        values = [
            None if gone else self.clock.time(int(c))
            for c, gone in zip(codes, unknown, strict=True)
        ]
        return pa.array(values, kind)

    def _values(
        self, cells: Numbers, missing: NDArray[np.bool_], kind: k.Kind, operator: Operator
    ) -> pa.Array:
        wanted = to_arrow(kind)
        cells = np.ascontiguousarray(cells)
        if kind.name == "int":
            return pa.array(cells, mask=missing).cast(wanted)
        if kind.name == "float":
            return pa.array(cells.view(np.float64), mask=missing).cast(wanted)
        values = [
            None if gone else decoded(int(cell), kind, operator.code)
            for cell, gone in zip(cells.tolist(), missing.tolist(), strict=True)
        ]
        return pa.array(values, wanted)

    def _shown(self, tables: list[pa.Table]) -> pa.Table:
        if not tables:
            return self._output(0, self._first, nothing(len(self.machine.fields)))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """All partitions as Arrow IPC bytes."""
        names = list(self._operators)
        keys = pa.table(
            [
                pa.array(
                    [self._keys[name][place] for name in names], self.schema.field(column).type
                )
                for place, column in enumerate(self.partition_by)
            ],
            names=list(self.partition_by),
        )
        parts = {
            "first": revision_state.to_bytes(self._first),
            "operators": tuple(map(revision_state.to_bytes, self._operators.values())),
            "names": names,
            "keys": keys,
            **self._aside.saved(),
        }
        marks = {"watermark": self.watermark, "arc_watermark": self._arc_watermark}
        return state.pack(KIND, parts, marks, self._fingerprint)

    @property
    def _fingerprint(self) -> stored.Fingerprint:
        told = (*self.partition_by, str(self.schema))
        return revision_state.fingerprint_of(self.machine, self.timing, *told)

    def restore(self, blob: bytes) -> None:
        """Go on from a snapshot of the same automaton and columns."""
        parts = state.unpack(KIND, blob, self._fingerprint)
        keys = parts.table("keys")
        revision_state.from_bytes(self._first, parts.state("first"))
        self.watermark = parts.numbers["watermark"]
        self._arc_watermark = parts.numbers["arc_watermark"]
        together = zip(parts.json("names"), parts.states("operators"), strict=True)
        for place, (name, part) in enumerate(together):
            made = Operator(self.machine, dict(self.kinds), self.settings)
            revision_state.from_bytes(made, part)
            self._operators[name] = made
            self._keys[name] = tuple(value_of(keys.column(c)[place]) for c in self.partition_by)
        self._aside = self._aside.restored(parts)
        self._edited = True

    @property
    def nbytes(self) -> int:
        return sum(operator.nbytes for operator in self._operators.values())

    @property
    def partials(self) -> int:
        return sum(operator.partials for operator in self._operators.values())
