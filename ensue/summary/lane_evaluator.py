"""A `Summary` as an evaluator that a lane drives: one row per key, whenever it is asked.

A summary answers at any time and is final only when its key has ended. Rows keep all their columns,
for the retained events; which labels hold, and the value that is summed, stand beside them where
Spark has computed them (`BITS`, `VALUE`), and are evaluated on Arrow otherwise. Keys share what is
learned of the stream, so rows go in by time, whatever their key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import PREFIX, Plan
from ensue.operator.arrange import arrange, flat
from ensue.operator.budget import Budget
from ensue.operator.buffer import CONTENT, EVENT
from ensue.operator.protocol import (
    Capabilities,
    Events,
    Key,
    LaneDefaults,
    Metrics,
    Output,
    Snapshot,
    Watermark,
    key_at,
    key_value,
)
from ensue.query.query import OrderKey, Query
from ensue.summary import reading
from ensue.summary.batch import BITS, BatchSummaries, number_shown
from ensue.summary.evaluator import Summary
from ensue.summary.intake import VALUE
from ensue.summary.options import SummaryOptions, bound_total, selection_of


class SummaryEvaluator(LaneDefaults):
    """See the module; of a query with `partition_by`, or of one key for everything."""

    name = "the summary"
    capabilities = Capabilities(ordered_input=True, result_on_demand=True)

    def __init__(self, options: SummaryOptions) -> None:
        self._options = options
        self.metrics = Metrics()

    def open(
        self,
        plan: Plan,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None:
        if budget is not None:
            raise errors.UnsupportedError(
                "a summary is bounded by its size and takes no other budget",
                remedy="give size=, the events to keep",
            )
        self._query = plan.query
        self._ties = [OrderKey(name) for name in (EVENT, CONTENT) if name in schema.names][:1]
        own = pa.schema([field for field in schema if not field.name.startswith(PREFIX)])
        kind = schema.field(VALUE).type if VALUE in schema.names else None
        self._found = answer_schema(self._query, self._options, own, kind)
        self.summary = Summary(self._query, self._options)
        if state is not None:
            self.summary = self.summary.restore(state)

    @property
    def named_by(self) -> tuple[str, ...]:
        """The columns that say which key a row of the result is of."""
        return self._query.partition_by

    # -- calls -----------------------------------------------------------------------------------

    def insert(self, events: Events) -> Output:
        rows = events.table
        self.metrics.rows += rows.num_rows
        if rows.num_rows:
            if self._query.order_by:
                rows, _ = arrange(rows, (), (*self._query.order_by, *self._ties))
            own = [name for name in rows.column_names if not name.startswith(PREFIX)]
            given = None
            if BITS in rows.column_names:
                values = flat(rows, VALUE) if VALUE in rows.column_names else None
                given = reading.Read(flat(rows, BITS).to_numpy(), values)
            self.summary.insert_read(rows.select(own), given)
        return Output()

    def advance(self, mark: Watermark) -> Output:
        """Nothing: time alone settles no match."""
        return Output()

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        """The answers of these keys are final; their events are forgotten."""
        final = self._answers(None if keys is None else set(keys))
        if keys is None:
            self.summary = Summary(self._query, self._options)
        else:
            self.summary.drop(keys)
        return Output([final] if final.num_rows else [])

    def result(self) -> pa.Table:
        """One row per key: the answer, and the events that are retained."""
        return self._answers(None)

    def standing(self) -> Iterable[pa.Table]:
        return (self.result(),)

    def no_matches(self, schema: pa.Schema) -> pa.Table:
        return self._found.empty_table()

    def _answers(self, wanted: set[Key] | None) -> pa.Table:
        found, names = self._found, self._query.partition_by
        result = self.summary.result() if names else {(): self.summary.result()}
        events = self.summary.events()
        places: dict[Key, list[int]] = {}
        for place in range(events.num_rows):
            places.setdefault(key_at(events, place, names), []).append(place)
        retained: list[int] = []
        ends = [0]
        columns: dict[str, list[Any]] = {name: [] for name in found.names[:-1]}
        for told, answer in result.items():
            values = told if isinstance(told, tuple) else (told,)
            key = tuple(map(key_value, values))
            if wanted is not None and key not in wanted:
                continue
            for name, value in zip(names, values, strict=True):
                columns[name].append(value)
            retained += places.get(key, [])
            ends.append(len(retained))
            for name in found.names[len(names) : -1]:
                columns[name].append(number_shown(answer.get(name), found.field(name).type, name))
        arrays = [pa.array(columns[name], found.field(name).type) for name in columns]
        listed = found.field("events").type
        fields = list(listed.value_type)
        # Before the first event nobody knows its columns.
        rows = events.take(retained) if retained else pa.schema(fields).empty_table()
        rows = pa.StructArray.from_arrays([flat(rows, f.name) for f in fields], fields=fields)
        arrays.append(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), rows, listed))
        return pa.table(arrays, schema=found)

    # -- what a lane asks ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        return self.summary.nbytes

    @property
    def open_keys(self) -> int:
        return len(self.summary.keys)

    def known(self) -> list[Key]:
        return [tuple(map(key_value, key)) for key in self.summary.keys]

    def drop(self, keys: Collection[Key]) -> None:
        self.summary.drop(keys)

    def copy(self) -> SummaryEvaluator:
        made = copy(self)
        made.metrics = copy(self.metrics)
        made.summary = self.summary.restore(self.summary.snapshot())
        return made

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        return self.summary.snapshot_keys(touched)

    def snapshot_together(self) -> Snapshot:
        """All keys as one shared blob."""
        return Snapshot(shared=self.summary.snapshot())


def answer_schema(
    query: Query, options: SummaryOptions, own: pa.Schema, kind: pa.DataType | None
) -> pa.Schema:
    """As a batch's, without its metrics: keys, count, what was asked, retained events.

    `kind` is that of the values, where they come with the rows.
    """
    total, given = None, own
    if options.total is not None:
        asked = reading.total_of(options.total, query, options.total_text or "")
        total = bound_total(asked, given.names)
        if total is not None and kind is None:
            kind = reading.values(total, given.empty_table(), np.zeros(0, np.bool_)).type
        if total is not None:
            given = given.append(pa.field(VALUE, kind))
    summaries = BatchSummaries(
        query=query,
        selection=selection_of(query, options, total),
        total=total,
        groups=None,
        columns=own.names,
        text=options.counts == "text",
    )
    shown = summaries.schema(given)
    return shown.remove(shown.get_field_index("metrics"))
