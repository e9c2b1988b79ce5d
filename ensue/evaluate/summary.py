"""`Summary`: aggregates over all matches, from the n events that explain most of them (SuSe).

Events go in; at any moment `result` gives count, sum, average, least and greatest over the matches
among the retained events, exactly, and changes nothing. What is retained is chosen by benefit
(`kernels/suse_select.py`); answers are computed from it when asked (`suse/exact.py`), so that an
insert costs a decision and no counter is kept that nobody reads.

One summary per key; `budget` bounds the events over all keys, and the least beneficial of all is
dropped first. With `equal`, matches whose events differ in an attribute are left out: the retained
events are counted once per value of the attribute, events of the other labels with each of them
(§5.3), and matches without any such event once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.counting import counting_automaton
from ensue.evaluate import state
from ensue.evaluate.arrange import flat, group_codes
from ensue.evaluate.suse import reading
from ensue.evaluate.suse.answers import Answer, answer
from ensue.evaluate.suse.groups import GroupedStore, group_labels
from ensue.evaluate.suse.machine import Machine
from ensue.evaluate.suse.store import MODES, NO_WINDOW, Selection, Store
from ensue.kernels import suse_select as kernel
from ensue.kernels.order import first_rows
from ensue.pattern import condition as c
from ensue.pattern import nodes
from ensue.pattern.binding import bind
from ensue.pattern.query import Query, WindowKind

_KIND = "summary"
_COMPACT = 65_536


@dataclass(frozen=True)
class SummaryOptions:
    """What `summarize` was asked, besides the query."""

    size: int
    select: str = "benefit"
    total: c.Condition | None = None
    total_text: str | None = None
    probabilities: Mapping[str, float] | None = None
    equal: Mapping[str, Sequence[str]] | None = None
    budget: int | None = None
    seed: int = 0
    detect: bool = False
    counts: str = "decimal"  # in tables; or "text", digits of any length


@dataclass
class SummaryMetrics:
    """Counted since the summary was made; `recall` estimates the share of matches still counted."""

    rows: int = 0
    kept: int = 0  # retained now
    removed: int = 0
    discarded: int = 0
    irrelevant: int = 0  # rows that satisfy no label
    keys: int = 0
    bytes: int = 0
    detected: float = 0.0  # matches that were ever complete in the summary, where tracked
    recall: float = 1.0


class Summary:
    """See the module; made by `Pattern.summarize`."""

    def __init__(self, query: Query, options: SummaryOptions) -> None:
        check_options(query, options)
        self._query = query
        self._options = options
        self._conditions = reading.row_conditions(query)
        self._total = None
        if options.total is not None:
            self._total = reading.total_of(options.total, query, options.total_text or "")
        self._selection = selection_of(query, options, self._total)
        self._groups = group_labels(query, options.equal)
        self._bound: Query | None = None
        self._schema: pa.Schema | None = None
        self._stores: dict[tuple[Any, ...], Store] = {}
        self._latest: dict[tuple[Any, ...], int | float] = {}  # order value by key
        self._rows = 0
        self._held: list[tuple[NDArray[np.int64], pa.Table]] = []

    # -- in --------------------------------------------------------------------------------------

    def insert(self, events: Any) -> Summary:
        """Events in order of time (per key); an Arrow table or batch, or a list of dicts."""
        table = _table(events, self._schema)
        if self._schema is None:
            self._bound = bind(self._query, table.column_names)
            self._conditions = reading.row_conditions(self._bound)
            self._total = bound_total(self._total, table.column_names)
            self._schema = table.schema
        elif table.schema.names != self._schema.names:
            raise errors.UnsupportedInputError(
                f"events have the columns {', '.join(table.schema.names)}; those before had "
                f"{', '.join(self._schema.names)}",
                remedy="insert tables of one schema",
            )
        table = table.cast(self._schema).combine_chunks()
        step = table.num_rows
        if self._options.budget is not None:
            step = max(self._options.budget // 8, 1)
        for begin in range(0, table.num_rows, max(step, 1)):
            self._insert(table.slice(begin, step))
            self._keep_budget()
        return self

    def _insert(self, table: pa.Table) -> None:
        assert self._bound is not None
        query = self._bound
        masks = reading.masks(self._conditions, query.labels, table)
        classes = self._classes(masks)
        found = None
        if self._total is not None and self._total.value is not None:
            needed = masks & sum(1 << label for label in self._total.labels) != 0
            found = reading.values(self._total, table, needed)
        weights = reading.weights(found, table.num_rows)
        groups = self._groups.codes(table) if self._groups is not None else None
        if found is not None:
            table = table.append_column(_VALUE, found)
        # All keys are read and checked before any of them is changed.
        parts = [
            (key, rows, self._read_times(key, table, rows))
            for key, rows in _by_key(table, query.partition_by)
        ]
        ids = np.arange(self._rows, self._rows + table.num_rows)
        for key, rows, (times, latest) in parts:
            if latest is not None:
                self._latest[key] = latest
            store = self._store(key, times.dtype)
            if isinstance(store, GroupedStore):
                assert groups is not None
                store.insert_grouped(times, masks[rows], weights[rows], ids[rows], groups[rows])
            else:
                store.insert(times, classes[rows], weights[rows], ids[rows])
        self._rows += table.num_rows
        self._held.append((ids, table))
        self._compact()

    def _read_times(
        self, key: tuple[Any, ...], table: pa.Table, rows: slice | NDArray[np.int64]
    ) -> tuple[NDArray[Any], int | float | None]:
        """Times of a key's rows, checked for order, and the last order value."""
        assert self._bound is not None
        part = table if isinstance(rows, slice) else table.take(pa.array(rows))
        store = self._stores.get(key)
        seen = 0 if store is None else int(store.numbers[kernel.ROWS])
        times = reading.times_of(self._bound, part, seen)
        ordered = reading.order_values(self._bound, part)
        if ordered is None or len(ordered) == 0:
            return times, None
        name = self._bound.order_by[0].column
        reading.in_order(ordered, self._latest.get(key), name, seen)
        return times, ordered[-1].item()

    def _store(self, key: tuple[Any, ...], kind: Any) -> Store:
        if key not in self._stores:
            number = np.float64 if kind == np.float64 else np.int64
            self._stores[key] = (
                Store(self._selection, number)
                if self._groups is None
                else GroupedStore(self._selection, number, self._groups)
            )
        return self._stores[key]

    def _classes(self, masks: NDArray[np.int64]) -> NDArray[np.int64]:
        distinct, inverse = np.unique(masks, return_inverse=True)
        numbers = np.array([self._selection.machine.class_of(int(m)) for m in distinct], np.int64)
        return numbers[inverse] if len(distinct) else np.zeros(0, np.int64)

    def _keep_budget(self) -> None:
        """One memory for all keys: drop the least beneficial events of all."""
        budget = self._options.budget
        if budget is None:
            return
        over = sum(store.count for store in self._stores.values()) - budget
        if over <= 0:
            return
        least: dict[tuple[Any, ...], tuple[float, int]] = {}
        for key, store in self._stores.items():
            if store.count:
                least[key] = store.least()
        for _ in range(over):
            key = min(least, key=lambda k: least[k])
            store = self._stores[key]
            store.remove(least[key][1])
            if store.count:
                least[key] = store.least()
            else:
                del least[key]

    def _compact(self, always: bool = False) -> None:
        """Forget the rows that are no longer retained."""
        rows = sum(len(ids) for ids, _ in self._held)
        kept = sum(store.count for store in self._stores.values())
        if not self._held or (not always and rows <= 2 * kept + _COMPACT):
            return
        ids = np.concatenate([part for part, _ in self._held])
        table = pa.concat_tables([part for _, part in self._held])
        wanted = [store.ids for store in self._stores.values()]
        retained = np.sort(np.concatenate(wanted)) if wanted else np.zeros(0, np.int64)
        places = np.searchsorted(ids, retained)
        self._held = [(retained, table.take(pa.array(places)).combine_chunks())]

    # -- out -------------------------------------------------------------------------------------

    def result(self) -> Any:
        """Aggregates over the matches among the retained events; a table by key if partitioned."""
        if not self._query.partition_by:
            return self._answer(()).as_dict(self._total is not None)
        return {_plain_key(key): self._answer(key).as_dict(self._total is not None)
                for key in self._stores}  # fmt: skip

    def count(self) -> int:
        """The number of matches over all keys."""
        return sum(self._answer(key).count for key in self._stores)

    def events(self) -> pa.Table:
        """The retained events in order of arrival, with the columns they came with."""
        self._compact(always=True)
        if not self._held:
            return pa.table({})
        table = self._held[0][1]
        return table.drop_columns([_VALUE]) if _VALUE in table.column_names else table

    def contribution(self) -> pa.Table:
        """The retained events with `matches`: how many each takes part in, as text of digits."""
        table = self.events()
        ids = self._held[0][0] if self._held else np.zeros(0, np.int64)
        shares = [0] * len(ids)
        for key, store in self._stores.items():
            found = self._answer(key, shares=True).contribution
            for place, share in zip(np.searchsorted(ids, store.ids), found, strict=True):
                shares[int(place)] = share
        if max(shares, default=0) < 10**38:
            column = pa.array(shares, pa.decimal128(38, 0))
        else:
            column = pa.array([str(share) for share in shares])
        return table.append_column("matches", column)

    def _answer(self, key: tuple[Any, ...], shares: bool = False) -> Answer:
        store = self._stores.get(key)
        if store is None:
            return answer(self._selection, None, reading.scaled(None, 0), shares)
        self._compact(always=True)
        ids, table = self._held[0]
        found = None
        if _VALUE in table.column_names:
            found = flat(table, _VALUE).take(pa.array(np.searchsorted(ids, store.ids)))
        return answer(self._selection, store, reading.scaled(found, store.count), shares)

    @property
    def metrics(self) -> SummaryMetrics:
        found = SummaryMetrics(keys=len(self._stores))
        expected = 0.0
        for store in self._stores.values():
            numbers = store.numbers
            found.rows += int(numbers[kernel.ROWS])
            found.kept += store.count
            found.removed += int(numbers[kernel.REMOVED])
            found.discarded += int(numbers[kernel.DISCARDED])
            found.irrelevant += int(numbers[kernel.IRRELEVANT])
            found.detected += float(store.levels[kernel.DETECTED])
            found.bytes += store.bytes
            expected += store.expected_matches()
        found.bytes += sum(table.nbytes for _, table in self._held)
        if found.removed + found.discarded:
            found.recall = min(1.0, _ratio(self.count(), expected))
        return found

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Everything as Arrow IPC bytes, for `restore`."""
        self._compact(always=True)
        ids, table = self._held[0] if self._held else (np.zeros(0, np.int64), pa.table({}))
        stores = []
        for key, store in self._stores.items():
            held = {name: column.tolist() for name, column in store.columns().items()}
            stores.append(
                held
                | {
                    "latest": self._latest.get(key),
                    "floating": store.times.dtype == np.float64,
                    "numbers": [int(n) for n in store.numbers],
                    "levels": [float(level) for level in store.levels],
                }
            )
        tables = self._selection.tables()
        inner = pa.table(
            {
                "query": [self._fingerprint()],
                "rows": [self._rows],
                "stores": [json.dumps(stores)],
                "keys": pa.array([_key_bytes(list(self._stores), self._bound, table)]),
                "masks": [self._selection.machine.masks],
                "class_weight": [tables["class_weight"]],
                "learning": [tables["learning"]],
                "groups": [json.dumps(self._groups.known if self._groups else [])],
                "ids": [ids],
                "held": pa.array([_ipc(table)], pa.binary()),
            }
        )
        return state.to_bytes(_KIND, inner, {"opened": int(self._schema is not None)})

    def restore(self, blob: bytes) -> Summary:
        """A summary of the same query that goes on where the snapshot was taken."""
        inner, numbers = state.from_bytes(_KIND, blob)
        row = inner.to_pylist()[0]
        if row["query"] != self._fingerprint():
            raise errors.StateError(
                "the snapshot was taken from another query or with other options",
                remedy="restore it into q.summarize(...) with the same query and options",
            )
        fresh = Summary(self._query, self._options)
        fresh._rows = row["rows"]
        for mask in row["masks"]:
            fresh._selection.machine.class_of(mask)
        tables = fresh._selection.tables()
        tables["class_weight"][:] = row["class_weight"]
        tables["learning"][:2] = row["learning"][:2]
        tables["learning"][1] = 1e18
        if not numbers["opened"]:
            return fresh
        table = pa.ipc.open_stream(pa.BufferReader(row["held"])).read_all()
        names = [name for name in table.column_names if name != _VALUE]
        fresh._schema = table.select(names).schema
        fresh._bound = bind(fresh._query, names)
        fresh._conditions = reading.row_conditions(fresh._bound)
        fresh._total = bound_total(fresh._total, names)
        fresh._held = [(np.array(row["ids"], np.int64), table)]
        if fresh._groups is not None:
            fresh._groups.remember(json.loads(row["groups"]))
        keys = pa.ipc.open_stream(pa.BufferReader(row["keys"])).read_all().to_pylist()
        for key, stored in zip(keys, json.loads(row["stores"]), strict=True):
            named = tuple(v for n, v in key.items() if n != _KEYLESS)
            kind = np.float64 if stored["floating"] else np.int64
            store = fresh._store(named, kind)
            columns = {
                name: np.array(stored[name], kind if name == "time" else None)
                for name in store.columns()
            }
            store.fill(columns, stored["numbers"], stored["levels"])
            if stored["latest"] is not None:
                fresh._latest[named] = stored["latest"]
        return fresh

    def _fingerprint(self) -> str:
        options = self._options
        parts = [
            nodes.pattern_text(self._query.pattern),
            *(f"{label}={c.dump(value)}" for label, value in self._query.define),
            str((self._query.partition_by, self._query.order_by, self._query.within)),
            str((options.size, options.select, options.total_text, options.budget)),
            str(self._query.selection),
            str(sorted((options.equal or {}).items())),
        ]
        return "\n".join(parts)


_VALUE = "__ensue_value"
_KEYLESS = "__ensue_row"


def check_options(query: Query, options: SummaryOptions) -> None:
    """The rules of `summarize`."""
    size = options.size
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise errors.QueryError(
            f"size={size!r}: a summary keeps a positive number of events",
            remedy="give size=500, or as much as you can afford",
        )
    if options.select not in MODES:
        raise errors.QueryError(
            f"select={options.select!r} is not a way to choose events",
            remedy=f"use one of: {', '.join(MODES)}",
        )
    if query.within is not None and query.within.size == 0:
        raise errors.QueryError(
            "a window of 0 holds only events of one moment", remedy="give a window above 0"
        )
    if options.counts not in ("decimal", "text"):
        raise errors.QueryError(
            f"counts={options.counts!r} is not a way to write counts in a table",
            remedy="use 'decimal' (38 digits) or 'text'",
        )
    budget = options.budget
    if budget is not None and (isinstance(budget, bool) or budget < 1):
        raise errors.QueryError(
            f"budget={budget!r}: the events over all keys must be at least 1",
            remedy="give the number of events all keys together may keep",
        )


def selection_of(query: Query, options: SummaryOptions, total: reading.Total | None) -> Selection:
    """The machine and the policy of a checked query."""
    policy = reading.policy_of(query)
    automaton = counting_automaton(query.pattern, query.labels)
    if options.size < automaton.shortest:
        raise errors.QueryError(
            f"size={options.size} is below the shortest match of {automaton.shortest} events, so "
            "the summary could never hold a match",
            remedy=f"give a size of at least {automaton.shortest}",
        )
    window: int | float = NO_WINDOW
    counted = True
    if query.within is not None:
        counted = query.within.kind is WindowKind.ROWS
        window = query.within.size - 1 if counted else query.within.size
    if counted and window + 1 < automaton.shortest:
        raise errors.QueryError(
            f"within {window + 1} rows is below the shortest match of {automaton.shortest} events",
            remedy="give a larger window",
        )
    valued = total.labels if total is not None else frozenset()
    return Selection(
        machine=Machine(automaton, policy is nodes.Policy.ANY, valued),
        size=options.size,
        mode=MODES[options.select],
        window=window,
        counted=counted,
        sums=total is not None and total.function in ("sum", "avg"),
        given=_probabilities(options.probabilities, query.labels),
        seed=options.seed,
        detect=options.detect,
    )


def _probabilities(
    given: Mapping[str, float] | None, labels: tuple[str, ...]
) -> dict[int, float] | None:
    if given is None:
        return None
    unknown = [name for name in given if name not in labels and name != "*"]
    if unknown:
        raise errors.UnknownVariableError(
            f"probabilities name {unknown[0]!r}, which the pattern does not have",
            remedy=f"use {', '.join(labels)}, and '*' for all other events together",
        )
    total = sum(given.values())
    if any(not 0 <= p <= 1 for p in given.values()) or abs(total - 1) > 1e-6:
        raise errors.QueryError(
            f"the probabilities sum to {total:.6g}, not to 1",
            remedy="give each label its share of the stream, and '*' the share of other events; "
            "or leave them out to have them learned",
        )
    return {labels.index(name): float(p) for name, p in given.items() if name != "*"}


def bound_total(total: reading.Total | None, names: Sequence[str]) -> reading.Total | None:
    """The total with the input's own spelling of its columns."""
    if total is None or total.value is None:
        return total
    folded = {name.casefold(): name for name in names}
    for name in c.columns(total.value):
        if name.casefold() not in folded:
            raise errors.UnknownColumnError(
                f"total: the input has no column {name!r}",
                remedy=f"columns are: {', '.join(names)}",
            )

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Column):
            return c.Column(folded[node.name.casefold()], node.path)
        return None

    return replace(total, value=c.transform(total.value, change))


def _by_key(
    table: pa.Table, names: Sequence[str]
) -> Iterable[tuple[tuple[Any, ...], slice | NDArray[np.int64]]]:
    if table.num_rows == 0:
        return
    if not names:
        yield (), slice(None)
        return
    codes, _ = group_codes(table, names)
    order = np.argsort(codes, kind="stable")
    bounds = np.append(first_rows(codes[order]), len(order))
    for low, high in pairwise(bounds):
        rows = order[low:high]
        yield tuple(flat(table, name)[int(rows[0])].as_py() for name in names), rows


def _table(events: Any, schema: pa.Schema | None) -> pa.Table:
    if isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    if isinstance(events, list):
        return pa.Table.from_pylist(events, schema=schema)
    if not isinstance(events, pa.Table):
        raise errors.UnsupportedInputError(
            f"{type(events).__name__} is not a table of events",
            remedy="give a pyarrow Table or RecordBatch, or a list of dicts",
        )
    return events


def _plain_key(key: tuple[Any, ...]) -> Any:
    return key[0] if len(key) == 1 else key


def _ratio(found: int, expected: float) -> float:
    try:
        return found / expected if expected > 0 else 1.0
    except OverflowError:
        return 1.0


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _key_bytes(keys: list[tuple[Any, ...]], bound: Query | None, table: pa.Table) -> bytes:
    names = list(bound.partition_by) if bound is not None else []
    columns = {
        name: pa.array([key[i] for key in keys], table.schema.field(name).type)
        for i, name in enumerate(names)
    }
    return _ipc(pa.table(columns or {_KEYLESS: pa.array([0] * len(keys), pa.int8())}))
