"""A `Summary` as an evaluator that a lane drives: one row per key, whenever it is asked.

A summary answers at any time and is final only when its key has ended. Rows keep all their columns,
for the retained events; which labels hold, and the value that is summed, stand beside them where
Spark has computed them (`BITS`, `VALUE`), and are evaluated on Arrow otherwise. Keys share what is
learned of the stream, so rows go in by time, whatever their key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import copy

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import PREFIX, Plan
from ensue.operator.arrange import arrange, flat
from ensue.operator.buffer import CONTENT, EVENT
from ensue.operator.protocol import (
    Capabilities,
    Events,
    Exact,
    Key,
    LaneDefaults,
    Metrics,
    Output,
    Snapshot,
    Watermark,
    key_value,
)
from ensue.query.query import OrderKey
from ensue.summary import reading
from ensue.summary.batch import BITS
from ensue.summary.evaluator import Summary
from ensue.summary.intake import VALUE
from ensue.summary.options import SummaryOptions, asked_total
from ensue.summary.table import EVENTS, answer_schema, answer_table


class SummaryEvaluator(Exact, LaneDefaults):
    """See the module; of a query with `partition_by`, or of one key for everything."""

    name = "the summary"
    capabilities = Capabilities(ordered_input=True, result_on_demand=True)
    no_budget = (
        "a summary is bounded by its size and takes no other budget",
        "give size=, the events to keep",
    )

    def __init__(self, options: SummaryOptions) -> None:
        self._options = options
        self.metrics = Metrics()

    def _begin(self, plan: Plan, schema: pa.Schema, state: Snapshot | None) -> None:
        self._query = plan.query
        self._ties = [OrderKey(name) for name in (EVENT, CONTENT) if name in schema.names][:1]
        own = pa.schema([field for field in schema if not field.name.startswith(PREFIX)])
        given, total = own, asked_total(self._query, self._options, own.names)
        if VALUE in schema.names:
            given = own.append(schema.field(VALUE))
        elif total is not None:
            kind = reading.values(total, own.empty_table(), np.zeros(0, np.bool_)).type
            given = own.append(pa.field(VALUE, kind))
        self._found = answer_schema(self._query, self._options, own.names, given)
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
        keys: list[Key] = []
        answers = []
        none = np.zeros(0, np.int64)
        places = [none]
        for key, answer, store in self.summary.answered():
            if wanted is None or tuple(map(key_value, key)) in wanted:
                keys.append(key)
                answers.append(answer)
                places.append(self.summary.places(store) if store and store.count else none)
        columns = [
            pa.array([key[i] for key in keys], found.field(name).type)
            for i, name in enumerate(names)
        ]
        retained = np.concatenate(places)
        # Before the first event nobody knows its columns.
        nothing = pa.schema(list(found.field(EVENTS).type.value_type)).empty_table()
        rows = self.summary.events().take(pa.array(retained)) if len(retained) else nothing
        ends = np.cumsum([len(part) for part in places])
        return answer_table(found, columns, answers, rows, ends.tolist())

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
