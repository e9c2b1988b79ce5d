"""SQL row matching behind the operator protocol: one match per start row, by preference.

The evaluator keeps nothing of a complete partition. Of an open one it holds the rows from the
first undecided start on (and as many before as a condition or measure may look back,
`operator/hold.py`), so a long partition streams through in pieces. All partitions that a call
touches are matched in one pass. Time settles what rows cannot: a window that ends before the
watermark is over.

A start that stays undecided is tried again with every row that comes where answers must be
`prompt`, so that none waits for more rows than it needs. Elsewhere it is tried again when the rows
held have doubled, which keeps the total work linear.

Memory: the backward pass needs 4 bytes per row and state; batches are cut so that this stays
below `WORK_BYTES`, and one start that stays undecided over more than `MAX_BYTES` is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import PREFIX, Plan, atom_name
from ensue.kernels.measures import FIRST_ROW, LENGTH, OFFSET
from ensue.operator import state
from ensue.operator.arrange import arrays_of
from ensue.operator.batch import Batch, check_types
from ensue.operator.buffer import EVENT
from ensue.operator.hold import Carried, Held, Piece
from ensue.operator.match_names import EVENTS, listed_events, match_names
from ensue.operator.pieces import InPieces
from ensue.operator.prepare import output_columns
from ensue.operator.protocol import Capabilities, Events, Key, Metrics, Snapshot
from ensue.quantities.measures import Matches, Measured
from ensue.query.query import Query
from ensue.rows.engine_choice import choose_row_engine
from ensue.rows.engines import Engine

KIND = state.Kind("rows", version=2)  # read, not written: rows are held as `operator/hold.py` says
WORK_BYTES = 8 << 20  # large enough to be fast, small enough that memory is used again
MAX_BYTES = 1 << 30


def supports(query: Query) -> str | None:
    """Why this evaluator cannot run the query; None where it can."""
    if not query.row_semantics:
        return "row matching takes strict patterns only: no arrows, no negation, no select()"
    return None


class RowsEvaluator(InPieces):
    """See the module; one instance per task."""

    name = "the row evaluator"
    capabilities = Capabilities(ordered_input=True)
    no_budget = (
        "the row evaluator cannot shed: a budget would make it report false matches",
        "leave the budget out",
    )

    def __init__(self, prompt: bool = False) -> None:
        self.metrics = Metrics()
        self._prompt = prompt

    def _begin(self, plan: Plan, schema: pa.Schema, state: Snapshot | None) -> None:
        reason = supports(plan.query)
        if reason:
            raise errors.UnsupportedError(reason, remedy="use select() and an event pattern")
        try:
            check_types(plan, schema)
            self._engine: Engine = choose_row_engine(plan, schema)
        except errors.EnsueError as problem:
            raise plan.readable(problem) from None
        self._rest = output_columns(plan, schema)
        known, earlier = _sorted_out(state)
        self._open(plan, schema, known)
        self._tails.held.update({key: _restored(blob, plan) for key, blob in earlier.items()})

    @property
    def engine(self) -> Engine:
        return self._engine

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
                    yield from super()._insert(
                        Events(part.table.slice(begin, end - begin), starts, complete)
                    )
            else:
                yield from super()._insert(part)

    def _max_rows(self) -> int:
        return max(1024, WORK_BYTES // (4 * self._plan.program.states))

    def _run(self, piece: Piece, time: float | None = None) -> Iterator[pa.Table]:
        ends, reach = piece.starts[1:], piece.reach(0)
        undecided = piece.fresh - piece.begins
        waits = ~piece.complete & (ends - piece.fresh < undecided)
        if time is None and not self._prompt and waits.all():
            reach = replace(reach, stops=piece.fresh)
            carried = [piece.carried(index) for index in range(len(ends))]
            self._tails.keep(piece, reach, piece.begins, piece.matches, carried)
            return
        self._check_size(int(np.diff(piece.starts).max(initial=0)))
        covered = np.maximum(piece.floor, piece.starts[:-1])
        batch = Batch(
            self._plan,
            arrays_of(piece.table),
            piece.starts,
            ~piece.complete,
            piece.base == 0,
            piece.base,
            np.ascontiguousarray(np.stack([piece.begins, piece.matches, covered], axis=1)),
            time,
        )
        yield from self._match(batch)
        if piece.keys:
            start, matches, covered = batch.cursor.T
            carried = [Carried(floor) for floor in covered.tolist()]
            self._tails.keep(piece, reach, start, matches, carried)

    def _match(self, batch: Batch) -> Iterator[pa.Table]:
        """The matches of a batch; its cursors move on."""
        try:
            for matches in self._engine.find(batch):
                self.metrics.matches += len(matches)
                yield self._output(batch, matches)
        except errors.EnsueError as problem:
            raise self._plan.readable(problem) from None

    def _check_size(self, rows: int) -> None:
        needed = 4 * rows * self._plan.program.states
        if needed > MAX_BYTES:
            raise errors.LimitError(
                f"one start row stays undecided over {rows:,} rows of its partition, which needs "
                f"{needed >> 20:,} MB; the limit is {MAX_BYTES >> 20:,} MB",
                remedy="bound the pattern with within(...), or raise "
                "ensue.rows.evaluator.MAX_BYTES",
            )

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


def _sorted_out(given: Snapshot | None) -> tuple[Snapshot | None, dict[Key, bytes]]:
    """Entries as `operator/hold.py` writes them, and those of kind `KIND`."""
    if given is None:
        return None, {}
    earlier = {key: blob for key, blob in given.keys.items() if state.kind_of(blob) == KIND.name}
    rest = {key: blob for key, blob in given.keys.items() if key not in earlier}
    return Snapshot(rest, given.shared), earlier


def _restored(blob: bytes, plan: Plan) -> Held:
    table, numbers = state.from_bytes(KIND, blob, plan.fingerprint)
    start, covered = numbers["start"], numbers["covered"]
    rows = table.num_rows
    return Held(
        table, 0, rows, numbers["base"], start, rows, numbers["matches"], covered, -1, since=None
    )
