"""Row matching over the many open partitions of a stream's lane: all of them in one pass.

`RowsEvaluator` keeps an object per open partition, which is right for a few long ones. A lane of a
stream has thousands of short ones, and every micro-batch touches most of them; here the rows held
of all partitions are one table, the cursors one array, and a step is one call of the engine
whatever the number of keys.

Time decides what rows cannot: a start whose window ends before the watermark sees no further row,
so it is settled though its partition stays open (`Batch.horizon`). A partition is forgotten
when nothing of it can be read again; one whose next row may look back (PREV), be numbered or be
anchored keeps its last rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import PREFIX, Plan
from ensue.operator import state
from ensue.operator.arrange import arrange, arrays_of, flat
from ensue.operator.batch import Batch, window_numbers
from ensue.operator.buffer import CONTENT, EVENT
from ensue.operator.cleanse import keys_of
from ensue.operator.hold import lasting
from ensue.operator.protocol import (
    Capabilities,
    Events,
    Key,
    Output,
    Snapshot,
    Watermark,
    key_at,
)
from ensue.query.query import OrderKey, WindowKind
from ensue.rows.evaluator import RowsEvaluator, groups

KIND = state.Kind("flat rows", version=2)
EAGER = 1024  # rows held of one start that are looked at again whenever a row comes
_SLOT = PREFIX + "slot"
_NUMBERS = ("base", "start", "matches", "covered", "retry_at", "length")  # see `Held`
BASE, START, MATCHES, COVERED, RETRY_AT, LENGTH = range(len(_NUMBERS))
Numbers = NDArray[np.int64]


class FlatRows(RowsEvaluator):
    """See the module. Ascending order on the first key is taken for granted.

    The rows of one insert come in any order: they are sorted with those that are held.
    """

    name = "the row evaluator of streams"
    capabilities = Capabilities(ordered_input=True, sorts_rows=True)

    def __init__(self) -> None:
        super().__init__()
        self._ties: tuple[OrderKey, ...] = ()
        self._rows: pa.Table | None = None
        self._numbers: Numbers = np.zeros((0, len(_NUMBERS)), np.int64)
        self._horizon: int | float | None = None

    def _begin(self, plan: Plan, schema: pa.Schema, state: Snapshot | None) -> None:
        super()._begin(plan, schema, None)
        self._schema = schema
        self._ties = tuple(OrderKey(name) for name in (EVENT, CONTENT) if name in schema.names)[:1]
        self._lasting = lasting(plan)
        window = plan.query.within
        self._timed = window is not None and window.kind is not WindowKind.ROWS
        self._rows = schema.empty_table()
        self.metrics.partials = 0
        if state is not None:
            self._restore(state.shared)

    # -- protocol --------------------------------------------------------------------------------

    def insert(self, events: Events) -> Output:
        self.metrics.rows += events.table.num_rows
        # No partition at all is not a complete one.
        complete = len(events.complete) > 0 and bool(events.complete.all())
        return Output(self._step(events.table, complete))

    def advance(self, mark: Watermark) -> Output:
        """`mark.time` in the unit of the window: microseconds for times."""
        assert isinstance(mark.time, (int, float))
        self._horizon = mark.time
        return Output(self._step(self._schema.empty_table(), False))

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        chosen = None if keys is None else set(keys)
        return Output(self._step(self._schema.empty_table(), True, chosen))

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        """One shared entry: rows and numbers of all partitions lie side by side."""
        assert self._rows is not None
        numbers = pa.table({name: self._numbers[:, i] for i, name in enumerate(_NUMBERS)})
        parts = {"rows": self._rows, "numbers": numbers}
        return Snapshot(shared=state.pack(KIND, parts, query=self._plan.fingerprint))

    def _restore(self, blob: bytes) -> None:
        parts = state.unpack(KIND, blob, self._plan.fingerprint)
        self._rows, numbers = parts.table("rows"), parts.table("numbers")
        columns = [numbers[name].to_numpy() for name in _NUMBERS]
        self._numbers = np.ascontiguousarray(np.stack(columns, axis=1))

    # -- what is held ----------------------------------------------------------------------------

    @property
    def held(self) -> pa.Table:
        """Rows of all open partitions, partition after partition."""
        assert self._rows is not None
        return self._rows

    @property
    def nbytes(self) -> int:
        return int(self.held.nbytes + self._numbers.nbytes)

    @property
    def lengths(self) -> Numbers:
        """Rows held of each partition."""
        return self._numbers[:, LENGTH]

    @property
    def undecided(self) -> Numbers:
        """Rows of each partition from its first undecided start on."""
        return self._numbers[:, LENGTH] - self._numbers[:, START]

    def next_time(self) -> int | None:
        """The least watermark that settles a start; None where no time does."""
        if not self._timed or not len(self._numbers) or self._plan.lookahead:
            return None
        ends = self._first_ends(self._starts_of(self.lengths), self.held)
        return None if ends is None or not len(ends) else int(ends.min() + 1)

    def sizes(self) -> Mapping[Key, int]:
        """Only the largest key: it is the first to pass a limit."""
        if not len(self.lengths):
            return {}
        largest = max(int(self.lengths.max()), 1)
        firsts = self._starts_of(self.lengths)[:-1][self.lengths == largest]
        names = self._plan.query.partition_by
        return {key_at(self.held, int(row), names): largest for row in firsts}

    def known(self) -> list[Key]:
        starts = self._starts_of(self.lengths)
        return keys_of(self.held, starts, self._plan.query.partition_by)

    def drop(self, keys: Collection[Key]) -> None:
        wanted = np.array([key not in keys for key in self.known()], np.bool_)
        self._rows = self.held.filter(pa.array(np.repeat(wanted, self.lengths)))
        self._numbers = np.ascontiguousarray(self._numbers[wanted])

    @property
    def open_keys(self) -> int:
        return len(self._numbers)

    @property
    def partials(self) -> int:
        return self.metrics.partials

    def snapshot_together(self) -> Snapshot:
        return self.snapshot()

    def copy(self) -> Self:
        made = type(self)()
        made.open(self._plan, self._schema)
        made._rows, made._numbers, made._horizon = self._rows, self._numbers, self._horizon
        return made

    def take_over(self, other: FlatRows, change: Callable[[pa.Table], pa.Table]) -> None:
        """Stand where the evaluator of another pattern stands, its rows changed to be read here."""
        rows = change(other.held)
        self._rows = rows.select(self._schema.names).cast(self._schema)
        self._numbers = other._numbers.copy()
        self._numbers[:, RETRY_AT] = 0

    # -- work ------------------------------------------------------------------------------------

    def _step(
        self, rows: pa.Table, ending: bool, keys: set[Key] | None = None
    ) -> Iterator[pa.Table]:
        """New rows, time and the end of partitions, for all partitions that any of them touch."""
        table, starts, slots, fresh = self._joined(rows)
        numbers = np.zeros((len(slots), len(_NUMBERS)), np.int64)
        known = slots >= 0
        numbers[known] = self._numbers[slots[known]]
        numbers[:, LENGTH] = np.diff(starts)
        ended = np.zeros(len(slots), np.bool_)
        if ending and rows.num_rows == 0:
            ended[:] = True
            if keys is not None:
                found = keys_of(table, starts, self._plan.query.partition_by)
                ended = np.array([key in keys for key in found], np.bool_)
        elif ending:
            ended = fresh
        touched = ended | (fresh & (numbers[:, LENGTH] >= numbers[:, RETRY_AT]))
        if not rows.num_rows:
            touched |= self._over(table, starts)
        kept_rows = np.ones(table.num_rows, np.bool_)
        for begin, end in groups(
            np.append(0, np.cumsum(numbers[touched, LENGTH])), self._max_rows()
        ):
            chosen = np.flatnonzero(touched)[begin:end]
            yield from self._part(table, starts, chosen, numbers, ended, kept_rows)
        remaining = numbers[:, LENGTH] > 0
        self._rows = table.filter(pa.array(kept_rows)) if not kept_rows.all() else table
        self._numbers = np.ascontiguousarray(numbers[remaining])
        self.metrics.partials = int((self._numbers[:, START] < self._numbers[:, LENGTH]).sum())
        self.metrics.bytes = self.nbytes

    def _joined(
        self, rows: pa.Table
    ) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Held and new rows by partition; per partition its place before, and whether rows came."""
        assert self._rows is not None
        held = self._rows
        if rows.num_rows == 0:
            count = len(self._numbers)
            starts = self._starts_of(self.lengths)
            return held, starts, np.arange(count), np.zeros(count, np.bool_)
        slot = np.concatenate(
            [np.repeat(np.arange(len(self._numbers)), self.lengths), np.full(rows.num_rows, -1)]
        )
        table = pa.concat_tables([held, rows.select(held.column_names)]).combine_chunks()
        table = table.append_column(_SLOT, pa.array(slot))
        query = self._plan.query
        table, starts = arrange(table, query.partition_by, (*query.order_by, *self._ties))
        slot = flat(table, _SLOT).to_numpy()
        fresh = slot[starts[1:] - 1] < 0  # new rows are the last of their partition
        return table.drop_columns([_SLOT]), starts, slot[starts[:-1]], fresh

    def _starts_of(self, lengths: Numbers) -> NDArray[np.int64]:
        return np.append(0, np.cumsum(lengths)).astype(np.int64)

    def _over(self, table: pa.Table, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Partitions, as they are held, whose first undecided start has seen its whole window."""
        nothing = np.zeros(len(starts) - 1, np.bool_)
        if self._horizon is None or not self._timed or self._plan.lookahead:
            return nothing
        ends = self._first_ends(starts, table, unsettled=False)
        return nothing if ends is None else ends < self._horizon

    def _first_ends(
        self, starts: NDArray[np.int64], table: pa.Table, unsettled: bool = True
    ) -> np.ndarray | None:
        """End of the window of each partition's first undecided start."""
        window = self._plan.query.within
        assert window is not None
        waiting = self.undecided > 0
        if not waiting.any():
            return None
        name = self._plan.query.order_by[0].column
        at = np.where(waiting, starts[:-1] + self._numbers[:, START], starts[:-1])
        order, size = window_numbers(flat(table, name).take(pa.array(at)), window, name)
        size = size if isinstance(size, float) else min(size, 2**61)
        if unsettled:
            return (order + size)[waiting]
        far: int | float = np.inf if order.dtype == np.float64 else np.iinfo(np.int64).max
        return np.where(waiting, order + size, far)

    def _part(
        self,
        table: pa.Table,
        starts: NDArray[np.int64],
        chosen: NDArray[np.int64],
        numbers: Numbers,
        ended: NDArray[np.bool_],
        kept_rows: NDArray[np.bool_],
    ) -> Iterator[pa.Table]:
        """Some partitions through the engine; their numbers and the rows to keep are updated."""
        lengths = numbers[chosen, LENGTH]
        begins = self._starts_of(lengths)
        if begins[-1] == table.num_rows:
            part, index = table, None
        else:
            index = np.repeat(starts[chosen] - begins[:-1], lengths) + np.arange(begins[-1])
            part = table.take(pa.array(index))
        self._check_size(int(lengths.max()))
        cursor = np.stack(
            [
                begins[:-1] + numbers[chosen, START],
                numbers[chosen, MATCHES],
                begins[:-1] + numbers[chosen, COVERED],
            ],
            axis=1,
        )
        batch = Batch(
            self._plan,
            arrays_of(part),
            begins,
            ~ended[chosen],
            numbers[chosen, BASE] == 0,
            numbers[chosen, BASE],
            np.ascontiguousarray(cursor),
            self._horizon,
        )
        yield from self._match(batch)
        self._settle(batch, starts, chosen, numbers, ended, kept_rows)

    def _settle(
        self,
        batch: Batch,
        starts: NDArray[np.int64],
        chosen: NDArray[np.int64],
        numbers: Numbers,
        ended: NDArray[np.bool_],
        kept_rows: NDArray[np.bool_],
    ) -> None:
        begins, ends = batch.starts[:-1], batch.starts[1:]
        start, matches, covered = batch.cursor.T
        kept = np.maximum(begins, start - self._plan.lookback)
        if self._lasting:
            kept = np.maximum(begins, np.minimum(kept, ends - 1))
        kept = np.where(ended[chosen], ends, np.minimum(kept, ends))
        left = ends - kept
        waiting = ends - start
        numbers[chosen, BASE] = batch.base + kept - begins
        numbers[chosen, START] = start - kept
        numbers[chosen, MATCHES] = matches
        numbers[chosen, COVERED] = np.maximum(0, covered - kept)
        numbers[chosen, RETRY_AT] = np.where(waiting > EAGER, left + waiting, 0)
        numbers[chosen, LENGTH] = left
        gone = kept - begins
        first = np.repeat(starts[chosen] - np.append(0, np.cumsum(gone))[:-1], gone)
        kept_rows[first + np.arange(int(gone.sum()))] = False
