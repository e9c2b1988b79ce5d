"""SQL row matching behind the operator protocol: one match per start row, by preference.

The evaluator keeps nothing of a complete partition. Of an open one it holds the rows from the
first undecided start on (and as many before as a condition or measure may look back), so a long
partition streams through in pieces. A piece whose start stays undecided is retried only when the
rows held have doubled, which keeps the total work linear.

Memory: the backward pass needs 4 bytes per row and state; batches are cut so that this stays
below `WORK_BYTES`, and one start that stays undecided over more than `MAX_BYTES` is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import PREFIX, Plan, atom_name
from ensue.kernels.measures import FIRST_ROW, LENGTH, OFFSET
from ensue.operator import state
from ensue.operator.arrange import arrays_of
from ensue.operator.batch import Batch, check_types
from ensue.operator.budget import Budget
from ensue.operator.buffer import EVENT
from ensue.operator.match_names import EVENTS, listed_events, match_names
from ensue.operator.protocol import (
    Capabilities,
    Events,
    Key,
    Metrics,
    Output,
    Refusing,
    Snapshot,
    Watermark,
    key_at,
    keys_of,
)
from ensue.quantities.measures import Matches, Measured
from ensue.query.query import Query
from ensue.rows.engine_choice import choose_row_engine
from ensue.rows.engines import Engine

KIND = state.Kind("rows", version=2)
WORK_BYTES = 8 << 20  # large enough to be fast, small enough that memory is used again
MAX_BYTES = 1 << 30


def supports(query: Query) -> str | None:
    """Why this evaluator cannot run the query; None where it can."""
    if not query.row_semantics:
        return "row matching takes strict patterns only: no arrows, no negation, no select()"
    return None


@dataclass
class Held:
    """An open partition: rows from the first undecided start on."""

    table: pa.Table
    base: int  # number of the first row held, inside its partition
    start: int  # next start, relative to the rows held
    matches: int
    covered: int  # end of the matched rows, relative to the rows held
    retry_at: int  # number of rows at which trying again pays


class RowsEvaluator(Refusing):
    """See the module; one instance per task."""

    name = "the row evaluator"
    capabilities = Capabilities(ordered_input=True)

    def __init__(self) -> None:
        self.metrics = Metrics()
        self._held: dict[Key, Held] = {}

    def open(
        self,
        plan: Plan,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None:
        reason = supports(plan.query)
        if reason:
            raise errors.UnsupportedError(reason, remedy="use select() and an event pattern")
        if budget is not None:
            raise errors.UnsupportedError(
                "the row evaluator cannot shed: a budget would make it report false matches",
                remedy="leave the budget out",
            )
        self._plan = plan
        try:
            check_types(plan, schema)
            self._engine: Engine = choose_row_engine(plan, schema)
        except errors.EnsueError as problem:
            raise plan.readable(problem) from None
        self._rest = output_columns(plan, schema)
        if state is not None:
            self._held = {key: restore_held(blob, plan) for key, blob in state.keys.items()}

    @property
    def engine(self) -> Engine:
        return self._engine

    # -- protocol --------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        return sum(held.table.nbytes for held in self._held.values())

    def insert(self, events: Events) -> Output:
        self.metrics.rows += events.table.num_rows
        return Output(self._insert(events))

    def advance(self, mark: Watermark) -> Output:
        return Output()

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        return Output(self._end(list(self._held if keys is None else keys)))

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        keys = self._held if touched is None else [k for k in touched if k in self._held]
        return Snapshot({key: held_bytes(self._held[key], self._plan) for key in keys})

    # -- work ------------------------------------------------------------------------------------

    def _insert(self, events: Events) -> Iterator[pa.Table]:
        piece = self._max_rows()
        for group in groups(events.starts, piece):
            part = _slice(events, group)
            rows = part.table.num_rows
            if len(part.complete) == 1 and rows > piece:
                for begin in range(0, rows, piece):
                    end = min(rows, begin + piece)
                    complete = part.complete & (end == rows)
                    starts = np.array([0, end - begin], np.int64)
                    yield from self._take_in(
                        Events(part.table.slice(begin, end - begin), starts, complete)
                    )
            else:
                yield from self._take_in(part)

    def _max_rows(self) -> int:
        return max(1024, WORK_BYTES // (4 * self._plan.program.states))

    def _take_in(self, events: Events) -> Iterator[pa.Table]:
        """Events that fit the working memory; rows held of the same partitions go before them."""
        if not self._held:
            partitions = len(events.complete)
            zeros = np.zeros(partitions, np.int64)
            cursor = np.stack([events.starts[:-1], zeros, events.starts[:-1]], axis=1)
            batch = Batch(
                self._plan,
                arrays_of(events.table),
                events.starts,
                ~events.complete,
                np.ones(partitions, np.bool_),
                zeros,
                np.ascontiguousarray(cursor),
            )
            yield from self._run(batch, events.table)
            return
        keys = keys_of(events, self._plan.query.partition_by)
        for index, key in enumerate(keys):
            begin, end = int(events.starts[index]), int(events.starts[index + 1])
            rows = events.table.slice(begin, end - begin)
            held = self._held.pop(key, None)
            table = rows if held is None else pa.concat_tables([held.table, rows])
            held = held or Held(table, 0, 0, 0, 0, 0)
            held.table = table
            complete = bool(events.complete[index])
            if not complete and table.num_rows < held.retry_at:
                self._held[key] = held
            else:
                yield from self._continue(held, complete)

    def _continue(self, held: Held, complete: bool) -> Iterator[pa.Table]:
        rows = held.table.num_rows
        needed = 4 * rows * self._plan.program.states
        if needed > MAX_BYTES:
            raise errors.LimitError(
                f"one start row stays undecided over {rows:,} rows of its partition, which needs "
                f"{needed >> 20:,} MB; the limit is {MAX_BYTES >> 20:,} MB",
                remedy="bound the pattern with within(...), or raise "
                "ensue.rows.evaluator.MAX_BYTES",
            )
        cursor = np.array([[held.start, held.matches, held.covered]], np.int64)
        batch = Batch(
            self._plan,
            arrays_of(held.table),
            np.array([0, rows], np.int64),
            np.array([not complete]),
            np.array([held.base == 0]),
            np.array([held.base], np.int64),
            cursor,
        )
        yield from self._run(batch, held.table)

    def _run(self, batch: Batch, table: pa.Table) -> Iterator[pa.Table]:
        try:
            for matches in self._engine.find(batch):
                self.metrics.matches += len(matches)
                yield self._output(batch, matches)
        except errors.EnsueError as problem:
            raise self._plan.readable(problem) from None
        for index in np.flatnonzero(batch.is_open):
            self._hold(batch, table, int(index))

    def _hold(self, batch: Batch, table: pa.Table, index: int) -> None:
        begin, end = int(batch.starts[index]), int(batch.starts[index + 1])
        start, matches, covered = (int(v) for v in batch.cursor[index])
        kept = max(begin, start - self._plan.lookback)
        rows = table.slice(kept, end - kept)
        if kept > begin:
            rows = rows.take(np.arange(rows.num_rows))  # a slice would keep all its rows alive
        key = key_at(table, begin, self._plan.query.partition_by)
        self._held[key] = Held(
            rows,
            int(batch.base[index]) + kept - begin,
            start - kept,
            matches,
            max(0, covered - kept),
            2 * rows.num_rows,
        )

    def _end(self, keys: list[Key]) -> Iterator[pa.Table]:
        for key in keys:
            held = self._held.pop(key, None)
            if held is not None:
                yield from self._continue(held, complete=True)

    def no_matches(self, schema: pa.Schema) -> pa.Table:
        """The output of no matches: its columns and types."""
        empty = schema.empty_table()
        zero = np.zeros(1, np.int64)
        batch = Batch(
            self._plan,
            arrays_of(empty),
            zero,
            np.zeros(0, np.bool_),
            np.zeros(0, np.bool_),
            np.zeros(0, np.int64),
            np.zeros((0, 3), np.int64),
        )
        return self._output(batch, Matches(np.zeros((0, 5), np.int64), np.zeros(0, np.int32)))

    # -- output ----------------------------------------------------------------------------------

    def _output(self, batch: Batch, matches: Matches) -> pa.Table:
        query = self._plan.query
        measured = Measured(self._plan, batch.columns, batch.starts, batch.base, matches)
        shown = measured.shown
        rows = pa.array(measured.rows)
        names, arrays = [], []
        for name in self._rest:
            names.append(name)
            arrays.append(batch.columns[name].take(rows))
        if query.measures is None and not query.rows.all_rows:
            order = query.order_by[0].column if query.order_by else None
            column = batch.columns[order] if order else pa.nulls(batch.length)
            listing = measured.listing(column)
            names.extend(listing)
            arrays.extend(listing.values())
        for index, atom in enumerate(self._plan.atoms):
            names.append(atom_name(index))
            arrays.append(measured.atom(atom))
        if EVENT in batch.columns:
            for name, array in self._names(batch, measured).items():
                names.append(name)
                arrays.append(array)
        if not names:  # constant measures only: the rows must be counted by something
            names, arrays = [PREFIX + "row"], [rows]
        table = pa.table(arrays, names=names)
        return table if shown.all() else table.filter(pa.array(shown))

    def _names(self, batch: Batch, measured: Measured) -> dict[str, pa.Array]:
        """Hidden columns that name the match (match_names.py)."""
        matches, program = measured.matches, self._plan.program
        first, lengths = matches.match[:, FIRST_ROW], matches.match[:, LENGTH]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        inside = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], lengths)
        rows = np.repeat(first, lengths) + inside
        positions = matches.positions[np.repeat(matches.match[:, OFFSET], lengths) + inside]
        labels = program.label[positions].astype(np.int64)  # −1: unmatched
        found = match_names(batch.columns, first, rows, labels, offsets)
        if self._plan.query.measures is None and not self._plan.query.rows.all_rows:
            order = batch.columns[self._plan.query.order_by[0].column]
            found[EVENTS] = listed_events(
                batch.columns, order, rows, labels, offsets, program.labels
            )
        taken = pa.array(measured.entries)
        return {name: array.take(taken) for name, array in found.items()}


def output_columns(plan: Plan, schema: pa.Schema) -> list[str]:
    """Input columns that the output carries, in the standard's order (rule 11)."""
    query = plan.query
    names = list(query.partition_by)
    if query.rows.all_rows:
        names += [k.column for k in query.order_by]
        names = list(dict.fromkeys(names))
        names += [n for n in schema.names if n not in names and not n.startswith(PREFIX)]
    return names


def groups(starts: np.ndarray, rows: int) -> Iterator[tuple[int, int]]:
    """Runs of partitions of at most `rows` rows (or one partition that is longer)."""
    begin, last = 0, len(starts) - 1
    while begin < last:
        end = int(np.searchsorted(starts, starts[begin] + rows, side="right")) - 1
        end = max(begin + 1, min(end, last))
        yield begin, end
        begin = end


def _slice(events: Events, group: tuple[int, int]) -> Events:
    begin, end = group
    first, last = int(events.starts[begin]), int(events.starts[end])
    return Events(
        events.table.slice(first, last - first),
        events.starts[begin : end + 1] - first,
        events.complete[begin:end],
    )


def held_bytes(held: Held, plan: Plan) -> bytes:
    numbers = {
        "base": held.base,
        "start": held.start,
        "matches": held.matches,
        "covered": held.covered,
        "retry_at": held.retry_at,
    }
    return state.to_bytes(KIND, held.table, numbers, plan.fingerprint)


def restore_held(blob: bytes, plan: Plan) -> Held:
    table, numbers = state.from_bytes(KIND, blob, plan.fingerprint)
    return Held(table, **numbers)
