"""The operator protocol for quantitative queries: events in batches, state per key in between.

Events of a key must come in order. The answer after any number of batches is that of one batch
with all of them; `result` may be asked for at any time and changes nothing. State is numbers per
key (or tokens, on plain values) and travels as one Arrow IPC blob.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.evaluate.arrange import arrange
from ensue.evaluate.base import (
    Budget,
    Capabilities,
    Events,
    Key,
    Metrics,
    Output,
    Refusing,
    Snapshot,
    Watermark,
)
from ensue.evaluate.quantify.saved import load_memory, save_memory
from ensue.evaluate.quantify.stages import VALUE, Batch, Bound, Memory, Stage

OUTPUTS = ("every", "defined", "demand")


class QuantifyOperator(Refusing):
    """One quantitative query over many keys, batch by batch."""

    name = "the evaluator of quantitative queries"
    capabilities = Capabilities(ordered_input=True, result_on_demand=True)

    def __init__(self, stage: Stage, keys: tuple[str, ...], output: str = "every") -> None:
        if output not in OUTPUTS:
            raise errors.QueryError(
                f"output={output!r} is not a mode", remedy=f"use one of {', '.join(OUTPUTS)}"
            )
        self._stage, self._keys, self._output = stage, keys, output
        self.metrics = Metrics()
        self._bound: Bound | None = None
        self._memory = Memory()
        self._places: dict[Key, int] = {}
        self._schema = pa.schema([])

    def open(
        self,
        plan: None,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None:
        if budget is not None:
            raise errors.UnsupportedError(
                "a quantitative query runs in constant space and sheds nothing",
                remedy="leave the budget out",
            )
        for name in self._keys:
            if name not in schema.names:
                raise errors.UnknownColumnError(
                    f"the events have no column {name!r}",
                    remedy=f"use one of {', '.join(schema.names)}",
                )
        self._schema = schema
        self._bound = self._stage.bind(schema)
        self._memory = self._bound.memory()
        if state is not None:
            self._restore(state)

    def insert(self, events: Events | pa.Table) -> Output:
        """The next events of some keys; a plain table is arranged by key, in its own order."""
        bound = self._opened()
        if isinstance(events, pa.Table):
            table, starts = arrange(events.combine_chunks(), self._keys, ())
        else:
            table, starts = events.table, events.starts
        if not self._keys:
            starts = np.array([0, table.num_rows], np.int64)
        self.metrics.rows += table.num_rows
        if table.num_rows == 0:
            return Output()
        places, fresh = self._places_of(table, starts)
        batch = Batch(table, starts, places, fresh, False)
        outcome = bound.run(batch, self._memory, self._output != "demand")
        if self._output == "demand":
            return Output()
        assert outcome.values is not None and outcome.defined is not None
        found = table.append_column(VALUE, outcome.values)
        if self._output == "defined":
            found = found.filter(pa.array(outcome.defined))
        self.metrics.matches += found.num_rows
        return Output(matches=[found])

    def advance(self, mark: Watermark) -> Output:
        """Time alone changes nothing: a window of time closes with the next event."""
        return Output()

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        """The values of complete keys, which are then forgotten."""
        chosen = list(self._places) if keys is None else [k for k in keys if k in self._places]
        found = self._result(chosen, True)
        for key in chosen:
            del self._places[key]
        return Output(matches=[found])

    def result(self) -> pa.Table:
        """Key columns and the value of each key so far."""
        return self._result(list(self._places), False)

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        """All state as one shared entry: the automaton's slots of all keys are few and dense."""
        return Snapshot(shared=save_memory(self._memory, self._places))

    def _restore(self, state: Snapshot) -> None:
        self._places = load_memory(self._memory, state.shared, self._stage)

    def _result(self, keys: list[Key], complete: bool) -> pa.Table:
        bound = self._opened()
        nothing = self._schema.empty_table()
        places = np.array([self._places[key] for key in keys], np.int64)
        starts = np.zeros(len(keys) + 1, np.int64)
        fresh = np.zeros(len(keys), np.bool_)
        batch = Batch(nothing, starts, places, fresh, complete)
        outcome = bound.run(batch, self._memory, False)
        columns: dict[str, Any] = {
            name: pa.array([key[i] for key in keys], self._schema.field(name).type)
            for i, name in enumerate(self._keys)
        }
        return pa.table({**columns, VALUE: outcome.ends})

    def _opened(self) -> Bound:
        if self._bound is None:
            raise errors.UnsupportedError("the operator is not open", remedy="call open first")
        return self._bound

    def _places_of(self, table: pa.Table, starts: Any) -> tuple[Any, Any]:
        columns = [
            table.column(name).take(pa.array(starts[:-1])).to_pylist() for name in self._keys
        ]
        count = len(starts) - 1
        places, fresh = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        used = set(self._places.values())
        spare = iter(i for i in range(len(used) + count + 1) if i not in used)
        for index in range(count):
            key = tuple(column[index] for column in columns)
            if key not in self._places:
                self._places[key] = next(spare)
                fresh[index] = True
            places[index] = self._places[key]
        return places, fresh
