"""`q.aggregate` and `q.count`: totals over all matches, in groups, in two stages.

The first stage runs where the rows are and gives one *partial* per group that a task saw: the
partition columns asked for, the start of the time window, and the total as text. The second adds
partials of one group up and finishes them. Both are tables to tables, so that a runner only has to
move them. A partition that comes in pieces gives partials per piece (`pieces.py`). Time
windows are tumbling or sliding over the moment at which a match is settled (its last event; the end
of its window where an absence had to be proved).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial as bound_to
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.letters import missing_subsets
from ensue.automaton.plan import PREFIX, Plan, atom_name
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.subsets import Subsets
from ensue.operator.batch import order_numbers
from ensue.operator.hold import Carried
from ensue.operator.protocol import Events, key_out, key_value
from ensue.query.query import SkipMode, WindowKind
from ensue.scalar.moments import in_numbers, values_of
from ensue.sequences.aggregates import Aggregates, Total
from ensue.sequences.batch import EventBatch
from ensue.sequences.counts import count_partitions, countable
from ensue.sequences.evaluator import keeps_first, supports
from ensue.sequences.graph_totals import GraphTotals, TooLargeError
from ensue.sequences.guards import Guards
from ensue.sequences.listing import Collector, listed
from ensue.sequences.machine import GuardOverflowError, event_machine
from ensue.sequences.match_graph import Graph, row_local_graph
from ensue.sequences.runs import GraphAlgebra, Node, Runs
from ensue.sequences.runs import Key as RunKey
from ensue.sequences.strategy import Chosen, all_matches

TOTAL = f"{PREFIX}total"
WINDOW_START, WINDOW_END = "window_start", "window_end"
Moments = tuple[np.ndarray | None, np.ndarray | None]
Groups = dict[tuple[Any, ...], Total]  # by the values of `Finish.keys`


@dataclass(frozen=True)
class Grouping:
    """By which partition columns, and by which windows of time."""

    by: tuple[str, ...] = ()
    every: int | None = None  # size of a window, in microseconds or order units
    slide: int | None = None  # distance between windows; None: as `every` (tumbling)
    as_text: bool = False  # counts and sums as text, of any size
    timed: bool | None = None  # `every` is a duration, or a number; None: whatever the order is

    def check_names(self, names: Iterable[str]) -> None:
        """Refuses aggregates named as the columns of a window of time."""
        taken = {WINDOW_START, WINDOW_END} if self.every is not None else set()
        for name in names:
            if name.casefold() in taken:
                raise errors.DuplicateNameError(
                    f"aggregate({name}=...): with every=... a column already has that name",
                    remedy="choose another name for the aggregate",
                )


@dataclass
class Left:
    """Of an open partition: the first row still needed, and its classes of partial matches."""

    begin: int
    classes: dict[RunKey, Total]


@dataclass
class _Buckets:
    """A sink that adds up totals per time window."""

    aggregates: Aggregates
    moments: np.ndarray | None
    timed: np.ndarray | None  # rows with a moment; None: all
    grouping: Grouping
    last: int
    fresh: int
    window: int | float | None  # where it is one of time
    totals: dict[int | None, Total] = field(default_factory=dict)

    def match(self, first: int, row: int, value: Total) -> bool:
        if row >= self.fresh:
            self._add(row, 0, value)
        return True

    def absent(self, first: int, row: int, value: Total) -> None:
        if self.window is None:
            self._add(min(row, self.last), 0, value)
        else:
            self._add(first, self.window, value)

    def timeout(self, first: int, row: int, value: Total) -> None:
        return

    def _add(self, row: int, later: float, value: Total) -> None:
        for bucket in self._buckets(row, later):
            known = self.totals.get(bucket)
            self.totals[bucket] = value if known is None else self.aggregates.join(known, value)

    def _buckets(self, row: int, later: float) -> Iterable[int | None]:
        """The windows in which a moment lies: so much later than a row; without a time, in none."""
        size = self.grouping.every
        if size is None or self.moments is None:
            return (None,)
        if not (self.timed is None or self.timed[row]):
            return ()
        moment = math.floor(self.moments[row].item() + later)
        slide = self.grouping.slide or size
        newest = moment // slide * slide
        return range(newest, moment - size, -slide)


def windows_of(
    moments: np.ndarray | None, timed: np.ndarray | None, grouping: Grouping, rows: np.ndarray
) -> tuple[np.ndarray, list[int | None]]:
    """As `_Buckets._buckets` for many rows: places among them, and a window of each."""
    places = np.arange(len(rows))
    size = grouping.every
    if size is None or moments is None:
        return places, [None] * len(rows)
    if timed is not None:
        places = places[timed[rows]]
    slide = grouping.slide or size
    moment = np.floor(moments[rows[places]]).astype(np.int64)
    newest = moment // slide * slide
    found_places, found = [places[:0]], [moment[:0]]
    for start in range(0, size, slide):
        inside = newest - start > moment - size
        found_places.append(places[inside])
        found.append((newest - start)[inside])
    return np.concatenate(found_places), np.concatenate(found).tolist()


class Totals:
    """The first stage."""

    def __init__(self, plan: Plan, grouping: Grouping) -> None:
        reason = supports(plan.query)
        if reason:
            raise errors.UnsupportedError(
                f"aggregate() is about all matches of an event pattern: {reason}",
                remedy='write arrows or select("next"), or use measures(...)',
            )
        for name in grouping.by:
            if name not in plan.query.partition_by:
                raise errors.QueryError(
                    f"aggregate(by={name!r}): matches are grouped by partition columns only",
                    remedy="add it to partition_by(...)",
                )
        if grouping.every is not None and not plan.query.order_by:
            raise errors.QueryError(
                "aggregate(every=...) needs an order column", remedy="add order_by(...)"
            )
        self._plan = plan
        self._grouping = grouping
        if plan.query.missing is None:
            self.subsets = Subsets(compile_sequence(plan.query))
        else:
            self.subsets = missing_subsets(plan.query, plan.correlated)
        automaton = self.subsets.automaton
        self._absences = automaton.absences

    def partials(self, events: Events) -> pa.Table:
        """One row per group seen in the events, whose partitions are all complete."""
        return self.of(EventBatch.of(self._plan, self.subsets, events), None, None)

    def of(
        self,
        batch: EventBatch,
        carried: Sequence[Carried] | None,
        left: list[Left] | None,
    ) -> pa.Table:
        """One row per group that the batch adds to; `left` receives what partial matches remain."""
        aggregates = Aggregates(self._plan, batch)
        kinds = aggregates.kinds(batch.table.schema)  # refuses what cannot be added up
        groups: dict[tuple[Any, ...], tuple[int, Total]] = {}
        names = self._grouping.by
        first_rows = pa.array(batch.starts[:-1])
        keys = [values_of(batch.columns[name].take(first_rows)) for name in names]
        totals_of = self._totals(batch, aggregates, carried, left)
        for index, totals in enumerate(totals_of):
            key = tuple(column[index] for column in keys)
            for bucket, total in totals.items():
                group = (*map(repr, key), bucket)
                known = groups.get(group)
                joined = total if known is None else aggregates.join(known[1], total)
                groups[group] = (index if known is None else known[0], joined)
        return self._table(batch, aggregates, kinds, groups)

    def _totals(
        self,
        batch: EventBatch,
        aggregates: Aggregates,
        carried: Sequence[Carried] | None,
        left: list[Left] | None,
    ) -> Iterator[dict[int | None, Total]]:
        query = self._plan.query
        only_counts = all(map(aggregates.counts_matches, range(len(aggregates.slots))))
        plain = only_counts and self._grouping.every is None
        in_pieces = left is not None and (self._absences or query.within is None)
        counts = None
        if plain and not in_pieces and countable(self._plan, self.subsets):
            counts = count_partitions(batch, self.subsets)
        if counts is not None:
            for index, count in enumerate(counts):
                if left is not None:
                    left.append(Left(int(batch.edges[index]), {}))
                yield {None: (count, aggregates.nothing[1])} if count else {}
            return
        moments = self._moments(batch)
        if query.skip.mode is SkipMode.NONE and query.missing is None and not left:
            compiled = self._compiled(batch, aggregates, moments, left)
            if compiled is not None:
                yield from compiled
                return
        window = query.within
        timed = window is not None and window.kind is not WindowKind.ROWS
        size = window.size if window is not None and timed else None
        guards = Guards(self._plan, self.subsets, batch.columns)
        every = self._every(batch)
        for index, part in enumerate(batch.partitions()):
            last = int(batch.starts[index + 1]) - 1
            sink = _Buckets(aggregates, *moments, self._grouping, last, part.fresh, size)
            begin = part.begin
            if query.skip.mode is SkipMode.NONE:
                runs: Runs[Total] = Runs(self.subsets, guards, aggregates, sink, keeps_first(query))
                if left is not None and index < len(left):
                    runs.classes = left[index].classes
                runs.run(part)
                held = min((key[1] for key in runs.classes), default=part.end)
                begin = max(begin, held)
                classes = runs.classes
            else:
                strategy = Carried() if carried is None else carried[index]
                if every is None:
                    collector = Collector(query.skip, fresh=part.fresh)
                    listing: Runs[Node] = Runs(
                        self.subsets, guards, GraphAlgebra(), collector, keep_first=True
                    )
                    listing.run(part)
                    collector.left((key[1], node) for key, node in listing.classes.items())
                    chosen = (pairs for pairs, _ in listed(query, collector, strategy))
                else:
                    chosen = (every.pairs(match) for match in every.of(index, strategy))
                for pairs in chosen:
                    value = aggregates.begin(*pairs[0])
                    for label, row in pairs[1:]:
                        value = aggregates.take(value, label, row)
                    sink.fresh = 0
                    sink.match(pairs[0][1], pairs[-1][1], value)
                begin = part.end if strategy.head < 0 else strategy.head
                classes = {}
            if left is not None:
                now = Left(begin, classes)
                if index < len(left):
                    left[index] = now
                else:
                    left.append(now)
            yield sink.totals

    def _compiled(
        self,
        batch: EventBatch,
        aggregates: Aggregates,
        moments: Moments,
        left: list[Left] | None,
    ) -> list[dict[int | None, Total]] | None:
        """Totals off the compiled match graph; None: plain Python adds up."""
        live = batch.reach.stops.copy()
        windows = bound_to(windows_of, *moments, self._grouping)
        try:
            graph = self._graph(batch, live)
            if graph is None:
                return None
            found = GraphTotals(batch, aggregates, windows)
            found.run(graph)
        except (GuardOverflowError, TooLargeError):
            return None
        if left is not None:
            left.extend(Left(int(begin), {}) for begin in live)
        return found.totals

    def _graph(self, batch: EventBatch, live: np.ndarray) -> Graph | None:
        if not len(batch.reach.begins):
            return None
        if countable(self._plan, self.subsets):
            return row_local_graph(batch, self.subsets, live)
        machine = event_machine(self._plan, self.subsets, batch.table.schema, False)
        return None if isinstance(machine, str) else machine.graph(batch, live)

    def _every(self, batch: EventBatch) -> Chosen | None:
        """The matches that an after-match strategy chooses from, where kernels list them."""
        query = self._plan.query
        if query.skip.mode is SkipMode.NONE:
            return None
        machine = event_machine(self._plan, self.subsets, batch.table.schema, False)
        return None if isinstance(machine, str) else all_matches(query, machine, batch)

    def _moments(self, batch: EventBatch) -> Moments:
        """The moment of each row, and which rows have one (None: all)."""
        if self._grouping.every is None:
            return None, None
        name = self._plan.query.order_by[0].column
        column = batch.columns[name]
        temporal = pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)
        if self._grouping.timed not in (None, temporal):
            given = "a duration" if self._grouping.timed else "a number"
            raise errors.ColumnTypeError(
                f"aggregate(every=...) is {given}, and the order column {name!r} is of type "
                f"{column.type}",
                remedy="give a duration such as '1 hour' for times, a whole number for numbers",
            )
        moments = order_numbers(column, WindowKind.TIME if temporal else WindowKind.NUMBER, name)
        if moments.dtype == np.float64:
            return moments, np.isfinite(moments) & column.is_valid().to_numpy(zero_copy_only=False)
        if column.null_count:
            return moments, column.is_valid().to_numpy(zero_copy_only=False)
        return moments, None

    def _table(
        self,
        batch: EventBatch,
        aggregates: Aggregates,
        kinds: list[pa.DataType],
        groups: dict[tuple[Any, ...], tuple[int, Total]],
    ) -> pa.Table:
        first = pa.array([int(batch.starts[index]) for index, _ in groups.values()], pa.int64())
        arrays = [batch.columns[name].take(first) for name in self._grouping.by]
        names = list(self._grouping.by)
        if self._grouping.every is not None:
            names.append(WINDOW_START)
            arrays.append(pa.array([key[-1] for key in groups], pa.int64()))
        names.append(TOTAL)
        arrays.append(pa.array([aggregates.pack(t) for _, t in groups.values()], pa.string()))
        for index, slot in enumerate(aggregates.slots):
            if slot.function in ("min", "max"):
                names.append(atom_name(index))
                found = [total[1][index][1] for _, total in groups.values()]
                arrays.append(pa.array(found, kinds[index]))
        return pa.table(arrays, names=names)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Of the partials."""
        empty = schema.empty_table()
        zero = np.zeros(1, np.int64)
        return self.partials(Events(empty, zero, np.zeros(0, np.bool_))).schema


@dataclass(frozen=True)
class Finish:
    """The second stage: partials of all groups to the atoms of each group."""

    plan: Plan
    grouping: Grouping
    schema: pa.Schema  # of the prepared input

    def table(self, partials: Iterable[pa.Table], alone: bool = True) -> pa.Table:
        """Atoms per group; `alone`: without any group there is one row all the same."""
        groups: Groups = {}
        for partial in partials:
            self.add(groups, partial)
        return self.shown(groups, alone)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that tell groups apart."""
        return (*self.grouping.by, *((WINDOW_START,) if self.grouping.every is not None else ()))

    def add(self, groups: Groups, partial: pa.Table) -> None:
        """Add the partials up with those of their groups."""
        aggregates = Aggregates(self.plan, None)
        slots = range(len(aggregates.slots))
        for row in in_numbers(partial).to_pylist():
            key = tuple(key_value(row[name]) for name in self.keys)
            total = aggregates.unpack(row[TOTAL], [row.get(atom_name(i)) for i in slots])
            known = groups.get(key)
            groups[key] = total if known is None else aggregates.join(known, total)

    def partials(self, groups: Groups, schema: pa.Schema) -> pa.Table:
        """The groups as partials again: what `add` reads."""
        aggregates = Aggregates(self.plan, None)
        columns: dict[str, list[Any]] = {
            name: [key_out(key[i], schema.field(name).type) for key in groups]
            for i, name in enumerate(self.keys)
        }
        columns[TOTAL] = [aggregates.pack(total) for total in groups.values()]
        for index in range(len(aggregates.slots)):
            if atom_name(index) in schema.names:
                columns[atom_name(index)] = [total[1][index][1] for total in groups.values()]
        return pa.table({n: pa.array(columns[n], schema.field(n).type) for n in schema.names})

    def shown(self, groups: Groups, alone: bool = True) -> pa.Table:
        """Atoms per group."""
        aggregates = Aggregates(self.plan, None)
        kinds = aggregates.kinds(self.schema)
        keys = self.keys
        if not groups and not keys and alone:
            groups = {(): aggregates.nothing}
        names, arrays = [], []
        for position, name in enumerate(keys):
            values = [key[position] for key in groups]
            if name == WINDOW_START:
                order = self.schema.field(self.plan.query.order_by[0].column).type
                ends = [start + (self.grouping.every or 0) for start in values]
                names += [WINDOW_START, WINDOW_END]
                arrays += [_moment(values, order), _moment(ends, order)]
            else:
                names.append(name)
                kind = self.schema.field(name).type
                arrays.append(pa.array([key_out(value, kind) for value in values], kind))
        for index, kind in enumerate(kinds):
            names.append(atom_name(index))
            arrays.append(self._column(aggregates, index, list(groups.values()), kind))
        return pa.table(arrays, names=names)

    def _column(
        self, aggregates: Aggregates, index: int, totals: list[Total], kind: pa.DataType
    ) -> pa.Array:
        exact = pa.types.is_decimal(kind) and kind.scale == 0
        if self.grouping.as_text and exact:
            return pa.array([aggregates.finish_text(index, t) for t in totals], pa.string())
        return pa.array([aggregates.finish(index, total, kind) for total in totals], kind)


def _moment(values: list[int], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.timestamp("us", kind.tz)).cast(kind)
    if pa.types.is_date(kind):
        return pa.array(values, pa.timestamp("us"))
    return pa.array(values, pa.int64())


def completed(pieces: Iterable[Events]) -> Iterator[Events]:
    """Events whose partitions are all complete: pieces of a long partition are joined."""
    held: list[pa.Table] = []
    for events in pieces:
        if not held and events.complete.all():
            yield events
            continue
        for index in range(len(events.complete)):
            begin, end = int(events.starts[index]), int(events.starts[index + 1])
            held.append(events.table.slice(begin, end - begin))
            if events.complete[index]:
                table = pa.concat_tables(held).combine_chunks()
                held = []
                yield Events(table, np.array([0, table.num_rows], np.int64), np.ones(1, np.bool_))
