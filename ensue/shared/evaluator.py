"""SHARP behind the operator protocol: a workload of event patterns, evaluated as one.

Without a bound the answer is exactly that of the patterns run one by one. Under a bound partial
matches are shed, so that matches may be missing and none is false; `report()` says what was given
up. Events are never shed: an event that forbids a match is always seen.

Complete partitions are matched pattern by pattern on merged states where that is cheaper, or fits
into the bound (`merged.py`). By the shared plan they use one set of arrays in turn; an open
partition keeps its own (`Partials`) with the rows that its partial matches may still read, and
continues with the next insert. `advance` settles what only time can settle (a trailing "not",
starts that an after-match strategy waits for) and lets rows go.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Self

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.automaton.share import Union, unite
from ensue.guards.operators import TooHardError
from ensue.operator.budget import Budget, budget_of
from ensue.operator.protocol import (
    Capabilities,
    Events,
    Key,
    Output,
    PatternChange,
    Refusing,
    Snapshot,
    Watermark,
    key_at,
    keys_of,
)
from ensue.operator.state import NO_QUERY, restoring
from ensue.operator.window_clock import Clock
from ensue.query import condition as c
from ensue.query.query import Query, SkipMode, WindowKind
from ensue.sequences.output import Found
from ensue.shared import saved
from ensue.shared.absences import proved
from ensue.shared.calibrate import learn
from ensue.shared.complete import Complete
from ensue.shared.controller import ROWS, SECONDS, WORK
from ensue.shared.engine import Engine
from ensue.shared.kernels import layout as at
from ensue.shared.listing import BatchTables, PatternTables
from ensue.shared.open import OpenPartition
from ensue.shared.options import DEFAULT, Report, Sharing, check_shedding
from ensue.shared.partials import MANY, counted
from ensue.shared.prepare import Prepared, TooLargeError
from ensue.shared.starts import Thinned


class SharedEvaluator(Complete, Refusing):
    """See the module; one instance per task."""

    name = "the shared evaluator"
    capabilities = Capabilities(ordered_input=True, revision=True, shedding=True)

    def __init__(
        self,
        union: Union,
        options: Sharing = DEFAULT,
        prepare: Callable[[Plan, pa.Table], pa.Table] | None = None,
    ) -> None:
        """With `prepare`, events carry the user's columns, so that patterns may change."""
        super().__init__(union, options)
        self._prepare = prepare
        self._open: dict[Key, OpenPartition] = {}
        self._ended = np.zeros(at.META, np.int64)  # counts of partitions that are over
        self.keep_work = False

    def open(
        self,
        plan: Plan,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None:
        self._plan, self._schema, self._budget = plan, schema, budget
        self._start()
        if state is not None:
            with restoring():
                saved.restore_model(self.engine, state.shared)
                for key, blob in state.keys.items():
                    self._open[key] = saved.restore_partition(self.engine, blob, plan.fingerprint)

    def _ready(self, table: pa.Table) -> pa.Table:
        """The columns that the plan reads."""
        return table if self._prepare is None else self._prepare(self._plan, table)

    def _start(self) -> None:
        vars(self).pop("_merged", None)  # of the patterns from before
        self._apart, self._in_vain, self._dear = None, False, False
        self.thinned = [Thinned() for _ in self.union.members]
        # A bound on a pattern goes with it.
        budget = budget_of(self._budget, [member.name for member in self.union.members])
        if budget is not None:
            check_shedding(self.union)
        self._ready_schema = self._ready(self._schema.empty_table()).schema
        queries = [member.plan.query for member in self.union.members]
        timed = (q for q in queries if q.within and q.within.kind is not WindowKind.ROWS)
        self._clock = Clock(next(timed, queries[0]))
        self._lasting = self._plan.lookback > 0 or any(map(_numbers_matches, queries))
        self.engine = Engine(self.union, self._ready_schema, budget, self.options)
        self.engine.keep_work = self.keep_work
        self._partials = self.engine.partials(MANY)
        self._tables = PatternTables(self.union, self._plan, self._count)

    # -- protocol --------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        parts = self._open.values()
        return sum(part.table.nbytes + part.partials.nbytes for part in parts)

    def insert(self, events: Events) -> Output:
        return Output(self._tables.combined(self.found(events), self._ready_schema))

    def advance(self, mark: Watermark) -> Output:
        return Output(self._tables.combined(self.advanced(mark), self._ready_schema))

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        return Output(self._tables.combined(self.finished(keys), self._ready_schema))

    def revise(self, change: PatternChange) -> Output:
        """Patterns added see events from now on; patterns removed are forgotten.

        Partial matches of the patterns that stay are kept. What the sketch has learned is learned
        anew, since its buckets are those of the shared plan.
        """
        kept = {m.name: m.plan.query for m in self.union.members if m.name not in change.remove}
        for name in change.remove:
            if name not in {m.name for m in self.union.members}:
                raise errors.QueryError(
                    f"there is no pattern {name!r} to remove",
                    remedy="patterns are: " + ", ".join(m.name for m in self.union.members),
                )
        for name in change.add:
            if name in kept:
                raise errors.DuplicateNameError(
                    f"the workload already has a pattern {name!r}",
                    remedy="remove it in the same change, or choose another name",
                )
        if not kept and not change.add:
            raise errors.QueryError("no pattern would be left", remedy="keep or add one")
        if self._prepare is None:
            raise errors.UnsupportedError(
                "rows arrive prepared for the patterns this workload began with",
                remedy="run the workload with live(), whose rows carry all their columns",
            )
        names = tuple(member.name for member in self.union.members)
        blobs = {key: saved.partition_bytes(self.engine, part) for key, part in self._open.items()}
        control = self.engine.controller
        before = dict(vars(self))
        try:
            self.union = unite({**kept, **change.add})
            self._plan = self.union.plan
            self._start()
            opened = {
                key: saved.restore_partition(self.engine, blob, NO_QUERY, names, kept)
                for key, blob in blobs.items()
            }
        except BaseException as problem:  # whatever it is, the patterns from before go on
            vars(self).update(before)
            if isinstance(problem, TooHardError):
                raise errors.UnsupportedError(
                    f"the patterns cannot be shared: a condition needs plain Python: {problem}",
                    remedy="simplify the condition, or match the pattern by itself",
                ) from None
            raise
        self.engine.controller.carry(control, kept)
        self._open = opened
        return Output()

    # -- what a lane asks ------------------------------------------------------------------------

    def next_time(self) -> int | None:
        due = min((part.due for part in self._open.values()), default=math.inf)
        if math.isinf(due):
            return None if due > 0 else -(1 << 63)
        return math.floor(due) + 1

    def sizes(self) -> Mapping[Key, int]:
        rows = {key: part.table.num_rows for key, part in self._open.items()}
        most = max(rows.values(), default=0)
        return {key: count for key, count in rows.items() if count == most and most > 1}

    def drop(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if key in self._open:
                self._close(key)

    def known(self) -> list[Key]:
        return list(self._open)

    def copy(self) -> Self:
        made = copy.copy(self)
        made.metrics = replace(self.metrics)
        made.engine, made._partials = self.engine.copy(), self._partials.copy()
        made._ended = self._ended.copy()
        made.parts = {name: list(found) for name, found in self.parts.items()}
        made._tables = PatternTables(made.union, made._plan, made._count)
        made._open = {key: part.copy() for key, part in self._open.items()}
        return made

    @property
    def open_keys(self) -> int:
        return len(self._open)

    @property
    def partials(self) -> int:
        return sum(part.busy for part in self._open.values())

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        keys = self._open if touched is None else [k for k in touched if k in self._open]
        query = self._plan.fingerprint
        told = {key: saved.partition_bytes(self.engine, self._open[key], query) for key in keys}
        return Snapshot(told, saved.model_bytes(self.engine))

    def report(self) -> Report:
        """What was found and given up so far, per pattern."""
        control = self.engine.controller
        blobs = [self._partials, *(part.partials for part in self._open.values())]
        meta = sum((partials.meta for partials in blobs), self._ended)
        estimates = control.estimates()
        for member, known in zip(self.union.members, self.thinned, strict=True):
            if known.left:
                estimates[member.name] = known.estimate()
        return Report(
            estimates,
            int(control.totals[ROWS]),
            int(control.totals[WORK]),
            int(meta[at.SHED]),
            int(meta[at.SELECTIONS]),
            int(meta[at.CREATED]),
            float(control.totals[SECONDS]),
            max(int(self._ended[at.MOST]), *(int(partials.meta[at.MOST]) for partials in blobs)),
            *control.unbounded,
        )

    # -- matches ---------------------------------------------------------------------------------

    def check_order(self, events: Events) -> None:
        """Raises where a row is earlier than the last one of its partition."""
        query = self._plan.query
        if not query.order_by:
            return
        for index, key in enumerate(keys_of(events, query.partition_by)):
            if key in self._open:
                first = events.table.slice(int(events.starts[index]), 1)
                self._open[key].check_order(key, first, query)

    def learn(self, events: Events) -> None:
        """Complete partitions of the past: what partial matches are worth, before a bound holds."""
        if not self.engine.controller.active or not events.table.num_rows:
            return
        try:
            learn(self.engine, self._ready(events.table), events.starts)
        except TooLargeError:
            raise errors.OverflowDataError(
                "a number in a condition over other events of the history does not fit 64 bits",
                remedy="leave the history out, or cast to DOUBLE",
            ) from None

    def found(self, events: Events) -> Iterator[tuple[int, pa.Table]]:
        """Matches per pattern (its index), with the columns that its own plan puts out."""
        self.metrics.rows += events.table.num_rows
        if not self._open and events.complete.all():
            if events.table.num_rows:
                yield from self._complete(self._ready(events.table), events.starts)
            return
        for index in range(len(events.complete)):
            begin, end = int(events.starts[index]), int(events.starts[index + 1])
            rows = events.table.slice(begin, end - begin)
            key = key_at(rows, 0, self._plan.query.partition_by)
            yield from self._continue(key, rows, bool(events.complete[index]))

    def finished(self, keys: Iterable[Key] | None = None) -> Iterator[tuple[int, pa.Table]]:
        for key in list(self._open if keys is None else keys):
            if key in self._open:
                yield from self._continue(key, self._schema.empty_table(), True)

    def advanced(self, mark: Watermark) -> Iterator[tuple[int, pa.Table]]:
        """Matches per pattern that time settles."""
        now = self._clock.moment(mark, self._schema)
        if now is None:
            return
        for key, part in list(self._open.items()):
            if part.due < now:
                yield from self._continue(key, self._schema.empty_table(), False, now)
            if not part.busy and part.decided and not self._lasting:
                self._close(key)  # its next row would count as a first one

    def _continue(
        self, key: Key, rows: pa.Table, complete: bool, now: float | None = None
    ) -> Iterator[tuple[int, pa.Table]]:
        """More rows of a partition, its end, or the time that has come."""
        part = self._open.get(key)
        if part is None:
            part = self._open[key] = OpenPartition(self.engine.partials(), rows)
        else:
            part.table = pa.concat_tables([part.table, rows.select(part.table.column_names)])
        part.table = part.table.combine_chunks()
        table = self._ready(part.table)
        starts = np.array([0, table.num_rows], np.int64)
        partials = part.partials
        listing = BatchTables(self._tables, table, starts, part.base)
        listing.waiting = part.waiting
        try:
            prepared = self.engine.prepare(table, starts, partials.nodes())
            self.engine.replay(partials, prepared)
            for index, found in self._found(part, table, prepared, listing, complete, now):
                first = part.numbers.get(index, 0)
                part.numbers[index] = first + len(found)
                found.number = np.arange(first + 1, first + 1 + len(found))
                yield index, listing.table(index, found)
        except TooLargeError:
            raise errors.OverflowDataError(
                "a number in a condition over other events does not fit 64 bits",
                remedy="cast to DOUBLE, or match batches of complete partitions",
            ) from None
        part.waiting = listing.waiting
        if complete:
            self._close(key)
        else:
            part.trim(prepared, self.engine, self._plan)

    def _found(
        self,
        part: OpenPartition,
        table: pa.Table,
        prepared: Prepared,
        listing: BatchTables,
        complete: bool,
        now: float | None,
    ) -> Iterator[tuple[int, Found]]:
        partials, length = part.partials, table.num_rows
        stop = length if complete else max(0, length - self._plan.lookahead)
        chained = self.engine.run(prepared, partials, stop, complete)
        if complete:
            chained = proved(chained, self.union, table, np.array([0, length], np.int64))
        for chains in chained:
            yield from listing.by_pattern(chains)
        if now is not None:
            order = prepared.rows.order
            if stop < len(order):  # a row that waits for its NEXT: time stands still at it
                now = min(now, float(order[stop]))
            for chains in self.engine.settle(prepared, partials, stop, now):
                yield from listing.by_pattern(chains)
        if listing.waiting:
            strategic = [
                index
                for index, member in enumerate(self.union.members)
                if member.plan.query.skip.mode is not SkipMode.NONE
            ]
            yield from listing.strategies(part.floors, partials.starts(strategic))

    def _close(self, key: Key) -> None:
        """Nothing more is held of a partition; what it counted stays."""
        self._ended = counted(self._ended, self._open.pop(key).partials)

    # -- one table for all -----------------------------------------------------------------------

    def no_matches(self, schema: pa.Schema) -> pa.Table:
        """The output of no matches: its columns and types."""
        return self._tables.empty(self._ready(schema.empty_table()).schema)

    def own_schemas(self, schema: pa.Schema) -> list[pa.Schema]:
        """Per pattern the columns that its plan puts out."""
        return self._tables.schemas(schema)


def _numbers_matches(query: Query) -> bool:
    """Whether the output of a pattern counts matches or rows of a partition."""
    return query.measures is None or any(
        isinstance(node, c.MatchNumber) for value in query.conditions() for node in c.walk(value)
    )
