"""`Summary`: aggregates over all matches, from the n events that explain most of them (SuSe).

Events go in; at any moment `result` gives count, sum, average, least and greatest over the matches
among the retained events, exactly, and changes nothing. What is retained is chosen by benefit
(`summary/kernels/select.py`); answers are computed from it when asked (`summary/exact.py`), so that
an insert costs a decision and no counter is kept that nobody reads.

One summary per key; `budget` bounds the events over all keys, and the least beneficial of all is
dropped first. With `equal`, matches whose events differ in an attribute are left out: the retained
events are counted once per value of the attribute, events of the other labels with each of them
(§5.3), and matches without any such event once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.operator.arrange import flat
from ensue.operator.digits import digits
from ensue.operator.protocol import Capabilities, Key, Refusing, Snapshot
from ensue.operator.state import restoring
from ensue.operator.turns import Turns
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.query.timeout import Timeout, timed
from ensue.summary import intake, reading, saved
from ensue.summary.answers import Answer, answer
from ensue.summary.groups import GroupedStore, group_labels
from ensue.summary.kernels import select as kernel
from ensue.summary.limbs import limbs_of
from ensue.summary.options import SummaryOptions, bound_total, check_options, selection_of
from ensue.summary.over_keys import keep_budget
from ensue.summary.recall import Follower, recall_of
from ensue.summary.store import Store, refill
from ensue.summary.together import answers_together, plain_readings, quick

_COMPACT = 65_536
_MANY = 8  # keys
_LEARNED = ("class_weight", "probability", "learning")  # tables that a snapshot has


@dataclass
class SummaryMetrics:
    """Counted since the summary was made.

    `recall` is the share of all matches so far that are still counted, None where that is unknown;
    it lies between `low` and `high` in 95 % of cases, and is exact where these are equal.
    """

    rows: int = 0
    kept: int = 0  # retained now
    removed: int = 0
    discarded: int = 0
    irrelevant: int = 0  # rows that satisfy no label
    keys: int = 0
    bytes: int = 0
    detected: float = 0.0  # matches that were ever complete in the summary, where tracked
    recall: float | None = 1.0
    low: float | None = 1.0
    high: float | None = 1.0


@dataclass(frozen=True)
class _Rows:
    """What rows of a table say, for one insert."""

    masks: NDArray[np.int64]
    classes: NDArray[np.int64]
    values: pa.Array | None
    groups: NDArray[np.int64]  # the masks where there are none
    times: NDArray[Any] | None
    ordered: NDArray[Any] | None
    keys: list[tuple[Key, slice | NDArray[np.int64]]]


class Summary(Turns, Refusing):
    """See the module; made by `Pattern.summarize`."""

    name = "the summary"
    capabilities = Capabilities(ordered_input=True, result_on_demand=True)

    def __init__(
        self, query: Query, options: SummaryOptions, reader: intake.Reader | None = None
    ) -> None:
        check_options(query, options)
        self._query = query
        self._options = options
        self._read = reader
        self._conditions = reading.row_conditions(query)
        self._total = None
        if options.total is not None:
            self._total = reading.total_of(options.total, query, options.total_text or "")
        self._selection = selection_of(query, options, self._total)
        self._groups = group_labels(query, options.equal)
        self._bound: Query | None = None
        self._schema: pa.Schema | None = None
        self._stores: dict[Key, Store] = {}
        self._latest: dict[Key, int | float] = {}  # order value by key
        self._rows = 0
        self._held: list[tuple[NDArray[np.int64], pa.Table]] = []
        self._settled = True  # whether all that is held is retained, in one table

    def __repr__(self) -> str:
        return f"<ensue summary of {self._rows:,} rows: result() and events() show it>"

    # -- in --------------------------------------------------------------------------------------

    def insert(self, events: Any, *, timeout: Timeout | None = None) -> Summary:
        """Events in order of time (per key): Arrow, pandas or Polars, or a list of dicts.

        If they cannot be taken, the summary stays as it was.
        """
        if isinstance(events, list) and not events:
            return self
        return self.insert_read(intake.as_table(events, self._read, self._schema))

    def insert_read(self, table: pa.Table, given: reading.Read | None = None) -> Summary:
        """As `insert`; `given`: what Spark has computed of the rows."""
        first = self._schema is None
        if first:
            self._open(table.schema)
        assert self._schema is not None
        try:
            schema = intake.widened(self._schema, table.schema)
            table = intake.aligned(table, schema).combine_chunks()
            found = self._readings(table, given)
        except errors.EnsueError:
            self._schema = None if first else self._schema
            raise
        if schema != self._schema:
            self._schema = schema
            self._held = [(ids, intake.recast(held, schema)) for ids, held in self._held]
        budget = self._options.budget
        step = max(table.num_rows, 1) if budget is None else max(budget // 8, 1)
        for begin in range(0, table.num_rows, step):
            part = table.slice(begin, step)
            if step < table.num_rows:
                found = self._readings(part, given and given.part(begin, step))
            self._insert(part, found)
            if budget is not None:
                seed = (abs(self._options.seed), self._rows)
                shed = keep_budget(self._stores.values(), budget, self._selection.mode, seed)
                self._settled = self._settled and not shed
        return self

    def _open(self, schema: pa.Schema) -> None:
        names = schema.names
        self._bound = bind(self._query, names)
        self._conditions = reading.row_conditions(self._bound)
        self._total = bound_total(self._total, names)
        self._schema = schema.remove_metadata()

    def _readings(self, table: pa.Table, given: reading.Read | None) -> _Rows:
        """What the rows say, checked; nothing is changed by it."""
        assert self._bound is not None
        query = self._bound
        read = reading.read(self._conditions, query.labels, self._total, table, given)
        found = _Rows(
            read.masks,
            self._selection.machine.classes_of(read.masks),
            read.values,
            self._groups.codes(table) if self._groups is not None else read.masks,
            reading.times_of(query, table),
            reading.order_values(query, table),
            list(intake.by_key(table, query.partition_by)),
        )
        if found.ordered is not None:
            key = query.order_by[0]
            for name, rows in found.keys:
                reading.in_order(
                    found.ordered[rows],
                    self._latest.get(name),
                    key.column,
                    self._seen(name),
                    -1 if key.descending else 1,
                )
        return found

    def _insert(self, table: pa.Table, found: _Rows) -> None:
        weights = reading.weights(found.values, table.num_rows)
        if found.values is not None:
            table = table.append_column(intake.VALUE, found.values)
        ids = np.arange(self._rows, self._rows + table.num_rows)
        for key, rows in found.keys:
            if found.ordered is not None:
                self._latest[key] = found.ordered[rows][-1].item()
            times = (
                self._seen(key) + np.arange(len(ids[rows]))
                if found.times is None
                else found.times[rows]
            )
            store = self._store(key, times.dtype)
            mine = (weights[rows], ids[rows])
            if isinstance(store, GroupedStore):
                store.insert_grouped(times, found.masks[rows], *mine, found.groups[rows])
            else:
                store.insert(times, found.classes[rows], *mine)
        self._rows += table.num_rows
        self._held.append((ids, table))
        self._settled = False
        self._compact()

    def _seen(self, key: Key) -> int:
        store = self._stores.get(key)
        return 0 if store is None else int(store.numbers[kernel.ROWS])

    def _store(self, key: tuple[Any, ...], kind: Any) -> Store:
        if key not in self._stores:
            number = np.float64 if kind == np.float64 else np.int64
            self._stores[key] = (
                Store(self._selection, number)
                if self._groups is None
                else GroupedStore(self._selection, number, self._groups)
            )
        return self._stores[key]

    def _compact(self, always: bool = False) -> None:
        """Forget the rows that are no longer retained."""
        rows = sum(len(ids) for ids, _ in self._held)
        kept = sum(store.count for store in self._stores.values())
        if self._settled or (not always and rows <= 2 * kept + _COMPACT):
            return
        ids = np.concatenate([part for part, _ in self._held])
        table = pa.concat_tables([part for _, part in self._held])
        retained = np.sort(np.concatenate([store.ids for store in self._stores.values()]))
        places = np.searchsorted(ids, retained)
        self._held = [(retained, table.take(pa.array(places)).combine_chunks())]
        self._settled = True

    def drop(self, keys: Iterable[Key]) -> None:
        """Forget these keys and their events."""
        for key in keys:
            named = intake.key_of(math.nan if value == "NaN" else value for value in key)
            self._stores.pop(named, None)
            self._latest.pop(named, None)
        self._settled = not self._stores
        if not self._stores:
            self._held = []

    # -- out -------------------------------------------------------------------------------------

    @timed
    def result(self, *, timeout: Timeout | None = None) -> Any:
        """Aggregates over the matches among the retained events; a table by key if partitioned."""
        found = {key[0] if len(key) == 1 else key: told for key, told, _ in self.answered()}
        return found if self._query.partition_by else found[()]

    def answered(self) -> list[tuple[Key, dict[str, Any], Store | None]]:
        """By key the aggregates, and the store that they are of."""
        found = self._answers() if self._query.partition_by else {(): self._answer(())}
        valued, known = self._total is not None, self._stores.get
        return [(key, exact.as_dict(valued), known(key)) for key, exact in found.items()]

    @timed
    def count(self, *, timeout: Timeout | None = None) -> int:
        """The number of matches over all keys."""
        return sum(found.count for found in self._answers(valued=False).values())

    @timed
    def events(self, *, timeout: Timeout | None = None) -> pa.Table:
        """The retained events in order of arrival, with the columns they came with."""
        self._compact(always=True)
        if not self._held:
            return pa.table({}) if self._schema is None else self._schema.empty_table()
        table = self._held[0][1]
        return table.drop_columns([intake.VALUE]) if intake.VALUE in table.column_names else table

    def places(self, store: Store) -> NDArray[np.int64]:
        """Where the events of a store stand among `events`."""
        self._compact(always=True)
        return np.searchsorted(self._held[0][0], store.ids)

    @timed
    def contribution(self, *, timeout: Timeout | None = None) -> pa.Table:
        """The retained events with `matches`: how many each takes part in, as text of digits."""
        table = self.events()
        if "matches" in table.column_names:
            raise errors.UnsupportedInputError(
                "the events have a column 'matches', the name that contribution() gives to its own",
                remedy="rename the column",
            )
        shares = [0] * table.num_rows
        for key, store in self._stores.items():
            found = self._answer(key, shares=True).contribution
            for place, share in zip(self.places(store).tolist(), found, strict=True):
                shares[place] = share
        if max(shares, default=0) < 10**38:
            column = pa.array(shares, pa.decimal128(38, 0))
        else:
            column = pa.array(list(map(digits, shares)))
        return table.append_column("matches", column)

    def _answers(self, valued: bool = True) -> dict[Key, Answer]:
        """All keys: many of them in one call, few of them, and large ones, one by one."""
        found: dict[Key, Answer] = {}
        keys = [key for key, store in self._stores.items() if store.count]
        if len(keys) >= _MANY and self._groups is None and self._selection.machine.fork:
            found = self._together(keys, valued)
        return {key: found[key] if key in found else self._answer(key) for key in self._stores}

    def _together(self, keys: list[Key], valued: bool) -> dict[Key, Answer]:
        self._compact(always=True)
        ids, table = self._held[0]
        stores = [self._stores[key] for key in keys]
        starts = np.append(0, np.cumsum([store.count for store in stores]))
        values = None
        if valued and intake.VALUE in table.column_names:
            rows = np.searchsorted(ids, np.concatenate([store.ids for store in stores]))
            column = flat(table, intake.VALUE).take(pa.array(rows))
            parts = limbs_of(column)
            if parts is None:
                return {}
            values = column, parts
        times = np.concatenate([store.times for store in stores])
        classes = np.concatenate([store.classes for store in stores])
        window = self._selection.window
        answered = answers_together(
            self._selection.machine,
            plain_readings(starts, classes),
            starts,
            quick(starts, times, window),
            times,
            window,
            values,
        )
        return {keys[number]: given for number, given in answered.items()}

    def _answer(self, key: Key, shares: bool = False) -> Answer:
        store = self._stores.get(key)
        if store is None:
            return answer(self._selection, None, reading.scaled(None, 0), shares)
        self._compact(always=True)
        table, found = self._held[0][1], None
        if intake.VALUE in table.column_names:
            found = flat(table, intake.VALUE).take(pa.array(self.places(store)))
        return answer(self._selection, store, reading.scaled(found, store.count), shares)

    @property
    def keys(self) -> list[Key]:
        """The keys seen so far; costs nothing, unlike `metrics`, which counts."""
        return list(self._stores)

    @property
    def nbytes(self) -> int:
        """Of the retained events and of what is known about them."""
        rows = sum(table.nbytes for _, table in self._held)
        return rows + sum(store.bytes for store in self._stores.values())

    @property
    def metrics(self) -> SummaryMetrics:
        found = SummaryMetrics(keys=len(self._stores))
        for store in self._stores.values():
            numbers = store.numbers
            found.rows += int(numbers[kernel.ROWS])
            found.kept += store.count
            found.removed += int(numbers[kernel.REMOVED])
            found.discarded += int(numbers[kernel.DISCARDED])
            found.irrelevant += int(numbers[kernel.IRRELEVANT])
            found.detected += float(store.levels[kernel.DETECTED])
        found.bytes = self.nbytes
        if any(not store.knows_all for store in self._stores.values()):
            counts = {key: told.count for key, told in self._answers(valued=False).items()}
            known = recall_of((store, counts[key]) for key, store in self._stores.items())
            found.recall, found.low, found.high = known
        return found

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Everything as Arrow IPC bytes, for `restore` and for `ensue.restore`."""
        return self._saved(list(self._stores))

    def snapshot_keys(self, touched: Iterable[Key] | None = None) -> Snapshot:
        """The state of these keys (of all where none are named), each by itself."""
        self._compact(always=True)
        wanted = list(self._stores) if touched is None else [intake.key_of(key) for key in touched]
        found = {key: self._saved([key]) for key in wanted if key in self._stores}
        return Snapshot(found, self._saved([]))

    @restoring()
    def restore(self, state: bytes | Snapshot) -> Summary:
        """A summary of the same query that continues from the snapshot."""
        fresh = Summary(self._query, self._options, self._read)
        if not isinstance(state, Snapshot):
            fresh._take_over(saved.from_bytes(state))
            return fresh
        shared = saved.from_bytes(state.shared)
        fresh._take_over(shared)
        for blob in state.keys.values():
            of_key = saved.from_bytes(blob)
            fresh._take_keys(of_key if of_key.asked == shared.asked else fresh._checked(of_key))
        fresh._in_order()
        return fresh

    def _rewind(self) -> Callable[[], None]:
        kept = None if self._schema is None else self.snapshot()

        def back() -> None:
            fresh = Summary(self._query, self._options, self._read)
            again = vars(fresh if kept is None else fresh.restore(kept))
            vars(self).update(again | {"_turn": self._turn})

        return back

    def _saved(self, keys: list[Key]) -> bytes:
        self._compact(always=True)
        ids = np.zeros(0, np.int64)
        held = None
        if self._held:
            ids, held = self._held[0]
            if len(keys) < len(self._stores):
                mine = [np.zeros(0, np.int64), *(self._stores[key].ids for key in keys)]
                wanted = np.sort(np.concatenate(mine))
                held = held.take(pa.array(np.searchsorted(ids, wanted)))
                ids = wanted
        tables = self._selection.tables()
        names = self._bound.partition_by if self._bound is not None else ()
        return saved.to_bytes(
            saved.Saved(
                asked=saved.asked_of(self._query, self._options),
                rows=self._rows,
                masks=self._selection.machine.masks,
                tables={name: getattr(tables, name).tolist() for name in _LEARNED},
                groups=self._groups.known if self._groups else [],
                schema=self._schema,
                ids=ids,
                held=held,
                keys=saved.key_table(keys, names, self._schema),
                stores=[self._saved_store(key) for key in keys],
            )
        )

    def _saved_store(self, key: Key) -> saved.SavedStore:
        store = self._stores[key]
        return saved.SavedStore(
            store.columns(),
            store.numbers.tolist(),
            store.levels.tolist(),
            self._latest.get(key),
            {value: follower.arrays() for value, follower in store.followers.items()},
        )

    def _checked(self, state: saved.Saved) -> saved.Saved:
        if not saved.same(state.asked, self._query, self._options):
            raise errors.StateError(
                "the snapshot was taken from another query or with other options",
                remedy="restore it into q.summarize(...) with the same query and options, or with "
                "ensue.restore, which knows them",
            )
        return state

    def _take_over(self, state: saved.Saved) -> None:
        self._checked(state)
        self._rows = state.rows
        for mask in state.masks:
            self._selection.machine.class_of(mask)
        tables = self._selection.tables()
        for name in _LEARNED:
            getattr(tables, name)[:] = state.tables[name]
        refill(self._selection, tables)
        if state.schema is None:
            return
        self._open(state.schema)
        if self._groups is not None:
            self._groups.remember(state.groups)
        self._take_keys(state)

    def _take_keys(self, state: saved.Saved) -> None:
        if state.held is not None:
            self._held.append((state.ids, state.held))
        for key, told in zip(saved.keys_of(state.keys), state.stores, strict=True):
            named = intake.key_of(key)
            store = self._store(named, told.columns["time"].dtype)
            store.fill(told.columns, told.numbers, told.levels)
            kind, states = told.columns["time"].dtype.type, self._selection.machine.states
            for value, arrays in told.followers.items():
                store.followers[value] = Follower.restored(arrays, kind, states)
            if told.latest is not None:
                self._latest[named] = told.latest

    def _in_order(self) -> None:
        """Rows that came key by key, in the order in which they arrived."""
        if not self._held:
            return
        ids = np.concatenate([part for part, _ in self._held])
        order = np.argsort(ids, kind="stable")
        table = pa.concat_tables([part for _, part in self._held])
        self._held = [(ids[order], table.take(pa.array(order)).combine_chunks())]
        self._settled = True
