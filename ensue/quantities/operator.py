"""The operator protocol for quantitative queries: events in batches, state per key in between.

Events of a key must come in order. The answer after any number of batches is that of one batch
with all of them; `result` may be asked for at any time and changes nothing. What is put out:

- "every": a row per event, with the value of the key's stream up to it;
- "defined": a row per value (the ends of blocks and windows). A window of time comes as soon as
  the watermark has passed its end (`advance`), or with the next event; without `partial` only so;
- "demand": nothing until `result()`, or `end`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.capabilities import Task, Way, said
from ensue.operator.arrange import arrange
from ensue.operator.buffer import CONTENT
from ensue.operator.match_names import with_names
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
    key_table,
    keys_in,
    keys_of,
)
from ensue.operator.state import NO_QUERY, restoring
from ensue.operator.turns import Turns
from ensue.quantities.bound import Batch, Bound, Extra, Mark, Outcome, taken
from ensue.quantities.groups import Groups
from ensue.quantities.memory import Indices, Memory
from ensue.quantities.saved import fingerprint, load_memory, save_memory
from ensue.quantities.stages import VALUE, WINDOW, Question
from ensue.quantities.windows import Windows
from ensue.query.timeout import Timeout, timed
from ensue.scalar.casts import micros_of

OUTPUTS = ("every", "defined", "demand")


class QuantifyOperator(Turns, Exact, LaneDefaults):
    """One quantitative query over many keys, batch by batch."""

    name = "the evaluator of quantitative queries"
    task = Task.QUANTIFY
    capabilities = Capabilities(ordered_input=True, result_on_demand=True)
    no_budget = said(Task.QUANTIFY, Way.BUDGET)

    def __init__(
        self,
        stage: Question,
        keys: tuple[str, ...],
        output: str = "every",
        value: str = VALUE,
        clock: str | None = None,
    ) -> None:
        """`clock`: the column that watermarks are of, where it may be another than windows have."""
        if output not in OUTPUTS:
            raise errors.QueryError(
                f"output={output!r} is not a mode", remedy=f"use one of {', '.join(OUTPUTS)}"
            )
        if isinstance(stage, Groups) and not keys:
            keys, stage = stage.keys, stage.inner  # the groups are the keys
        self._stage, self._keys, self._output, self._value = stage, keys, output, value
        self._clock, self._time = clock, time_column(stage)
        if clock is not None and clock.lower() != self._time.lower():
            self._time = ""  # no watermark closes a window
        self.metrics = Metrics()
        self._bound: Bound | None = None
        self._memory = Memory()
        self._places: dict[Key, int] = {}
        self._spare: list[int] = []
        self._query = NO_QUERY

    def _begin(self, plan: Plan | None, schema: pa.Schema, state: Snapshot | None) -> None:
        errors.UnknownColumnError.check(self._keys, schema.names)
        self._bound = self._stage.bind(schema)
        if self._value in [column.name for column in self._columns(self._bound)]:
            raise errors.DuplicateNameError(
                f"the output already has a column {self._value!r}",
                remedy="rename the column, or give the values another name: label(df, 'name')",
            )
        self._memory, self._places, self._spare = self._bound.memory(), {}, []
        self._query = fingerprint(self._stage, schema)
        if state is not None:
            self._restore(state)

    # -- events and time -------------------------------------------------------------------------

    def insert(self, events: Events | pa.Table, *, timeout: Timeout | None = None) -> Output:
        """The next events of some keys; a plain table is arranged by key, in its own order."""
        bound = self._opened()
        if isinstance(events, pa.Table):
            table, starts = arrange(events.combine_chunks(), self._keys, ())
            events = Events(table, starts, np.zeros(len(starts) - 1, np.bool_))
        if not self._keys and len(events.complete) != 1:
            starts = np.array([0, events.table.num_rows], np.int64)
            complete = np.array([bool(events.complete.any())])
            events = Events(events.table, starts, complete)
        table, starts = events.table, events.starts
        self.metrics.rows += table.num_rows
        if not table.num_rows:
            return Output()
        every = self._output != "demand"
        if not self._places and events.complete.all():
            outcome = bound.run(Batch.whole(table, starts), bound.memory(), every)
        else:
            keys = keys_of(events, self._keys)
            places, fresh = self._places_of(keys)
            batch = Batch(table, starts, places, fresh, events.complete)
            outcome = bound.run(batch, self._memory, every)
            self.drop([key for key, over in zip(keys, events.complete, strict=True) if over])
        firsts = table.select(list(self._keys))
        if every:
            if outcome.extra is not None:
                firsts = taken(firsts, pa.array(starts[:-1]))
            return self._counted(self._rows(table, outcome), *self._extra(firsts, outcome.extra))
        ended = np.flatnonzero(events.complete)
        if not len(ended):
            return Output()
        firsts = taken(firsts, pa.array(starts[ended]))
        return self._counted(self._shown(firsts, None, outcome.ends.take(pa.array(ended))))

    def advance(self, mark: Watermark) -> Output:
        """Windows of time that are over; values that belong to events wait for their event."""
        if self._output != "defined" or not self._time or not self._places:
            return Output()
        keys = list(self._places)
        due = Mark(self._time, _integer(mark.time))
        extra = self._opened().advance(self._at(keys), self._memory, due)
        return self._counted(*self._extra(self._key_table(keys), extra))

    def next_time(self) -> int | None:
        """The least watermark at which `advance` has something to do."""
        if self._output != "defined" or not self._time:
            return None
        return self._opened().due(self._memory, self._time)

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        """The last values of complete keys, which are then forgotten."""
        chosen = list(self._places) if keys is None else [k for k in keys if k in self._places]
        found: tuple[pa.Table, ...] = ()
        if self._output == "demand":
            found = (self._result(chosen),)
        elif self._output == "defined":
            batch = Batch.nothing(self._opened().schema, self._at(chosen))
            extra = self._opened().run(batch, self._memory, True).extra
            found = self._extra(self._key_table(chosen), extra)
        self.drop(chosen)
        return self._counted(*found)

    @timed
    def result(self, *, timeout: Timeout | None = None) -> pa.Table:
        """Key columns and the value of each key so far."""
        return self._result(list(self._places))

    def standing(self) -> Iterable[pa.Table]:
        return (self.result(),) if self._output == "demand" else ()

    def no_matches(self, schema: pa.Schema) -> pa.Table:
        return self.schema.empty_table()

    def identified(self, table: pa.Table) -> pa.Table:
        """A value of an event is named as the event is, others by the key and the window."""
        if CONTENT in table.column_names:
            return with_names(table, [str(content) for content in table[CONTENT].to_pylist()])
        names = [name for name in (*self._keys, WINDOW) if name in table.column_names]
        return with_names(table, [repr(key) for key in keys_in(table, names)])

    def drop(self, keys: Collection[Key]) -> None:
        """Forget keys without output."""
        gone = [self._places.pop(key) for key in keys if key in self._places]
        self._memory.forget(gone)
        self._spare += gone
        if gone:
            self._memory.grow(max(gone) + 1)
            _close(self._memory, np.array(gone, np.int64))

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        """One entry per key; a key that is gone has none."""
        chosen = self._places if touched is None else [k for k in touched if k in self._places]
        return Snapshot({key: self._saved([key]) for key in chosen})

    def snapshot_together(self) -> Snapshot:
        """The state of all keys as one shared entry: cheaper where most are touched."""
        return Snapshot(shared=self._saved(list(self._places)))

    def copy(self) -> QuantifyOperator:
        """Another operator that continues from here."""
        made = QuantifyOperator(self._stage, self._keys, self._output, self._value, self._clock)
        bound = self._opened()
        made.open(None, bound.schema)
        keys = list(self._places)
        made._put(keys, self._memory.select(self._at(keys)))
        return made

    def _rewind(self) -> Callable[[], None] | None:
        kept, turn = self.copy(), self._turn
        fields = vars(kept)
        return lambda: vars(self).update(fields | {"_turn": turn})

    def _saved(self, keys: list[Key]) -> bytes:
        return save_memory(self._memory.select(self._at(keys)), keys, self._query)

    @restoring()
    def _restore(self, state: Snapshot) -> None:
        shared = [state.shared] if state.shared else []
        for blob in (*shared, *state.keys.values()):
            empty = self._opened().memory()
            memory, keys = load_memory(empty, blob, self._stage, self._query)
            self._put(keys, memory)

    def _put(self, keys: list[Key], memory: Memory) -> None:
        places, _ = self._places_of(keys)
        self._memory.put(places, memory)

    # -- output ----------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """Of what is put out."""
        bound = self._opened()
        kind = bound.output_type
        if kind is None:
            raise errors.UnsupportedError(
                "the type of the values is not known before the query runs",
                remedy="use SQL text in place of the Python callable",
            )
        return pa.schema([*self._columns(bound), pa.field(self._value, kind)])

    def _columns(self, bound: Bound) -> list[pa.Field]:
        """Columns of the output next to the values."""
        if self._output == "every" or (self._output == "defined" and bound.on_events):
            return list(bound.schema)
        windows = bound.carried if self._output == "defined" else ()
        keys = [bound.schema.field(name) for name in self._keys]
        return keys + [column for column in windows if column.name == WINDOW]

    def known(self) -> list[Key]:
        """The keys there are, in the order of `snapshot_together`."""
        return list(self._places)

    @property
    def stage(self) -> Question:
        return self._stage

    @property
    def partition_by(self) -> tuple[str, ...]:
        return self._keys

    @property
    def open_keys(self) -> int:
        return len(self._places)

    @property
    def nbytes(self) -> int:
        """Of the arrays, with the room that keys which are gone have left."""
        return self._memory.nbytes

    def _rows(self, table: pa.Table, outcome: Outcome) -> pa.Table:
        """The events with their values, or the values that events brought."""
        assert outcome.values is not None and outcome.defined is not None
        if self._output == "every":
            return table.append_column(self._value, outcome.values)
        rows = pa.array(np.flatnonzero(outcome.defined))
        if self._opened().on_events:
            return table.append_column(self._value, outcome.values).take(rows)
        carried = None if outcome.carried is None else taken(outcome.carried, rows)
        keys = taken(table.select(list(self._keys)), rows)
        return self._shown(keys, carried, outcome.values.take(rows))

    def _extra(self, keys: pa.Table, extra: Extra | None) -> tuple[pa.Table, ...]:
        """Values that no event brought, by the keys of their partitions."""
        if self._output != "defined" or extra is None or not len(extra.owner):
            return ()
        return (self._shown(taken(keys, pa.array(extra.owner)), extra.carried, extra.values),)

    def _result(self, keys: list[Key]) -> pa.Table:
        bound = self._opened()
        trial = self._memory.select(self._at(keys))
        outcome = bound.run(Batch.nothing(bound.schema, np.arange(len(keys))), trial, False)
        return self._shown(self._key_table(keys), None, outcome.ends)

    def _shown(self, keys: pa.Table, carried: pa.Table | None, values: pa.Array) -> pa.Table:
        """Keys, the start of the window where there is one, and values."""
        shown = {name: keys.column(name) for name in self._keys}
        if carried is not None and WINDOW in carried.column_names:
            shown[WINDOW] = carried.column(WINDOW)
        return pa.table({**shown, self._value: values})

    def _key_table(self, keys: list[Key]) -> pa.Table:
        return key_table(keys, [self._opened().schema.field(name) for name in self._keys])

    def _counted(self, *found: pa.Table) -> Output:
        self.metrics.matches += sum(table.num_rows for table in found)
        return Output(matches=list(found))

    # -- keys ------------------------------------------------------------------------------------

    def _opened(self) -> Bound:
        if self._bound is None:
            raise errors.UnsupportedError("the operator is not open", remedy="call open first")
        return self._bound

    def _at(self, keys: list[Key]) -> Indices:
        return np.array([self._places[key] for key in keys], np.int64)

    def _places_of(self, keys: list[Key]) -> tuple[Indices, Any]:
        places, fresh = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
        for index, key in enumerate(keys):
            place = self._places.get(key)
            if place is None:
                place = self._spare.pop() if self._spare else len(self._places)
                self._places[key] = place
                fresh[index] = True
            places[index] = place
        return places, fresh


def time_column(stage: Question) -> str:
    """The event's column that windows of time are by; empty where there are none."""
    if isinstance(stage, Windows) and stage.time is not None and stage.by.lower() != WINDOW:
        return stage.by
    return next((name for part in stage.parts() if (name := time_column(part))), "")


def _close(memory: Memory, places: Indices) -> None:
    """No window is open at places that nobody uses."""
    memory.open[places[places < len(memory.open)]] = False
    if not memory.grouped:
        for inner in memory.inner:
            _close(inner, places)


def _integer(time: object) -> int:
    if isinstance(time, dt.datetime):
        return micros_of(time)
    if isinstance(time, (int, np.integer)):
        return int(time)
    raise errors.DataError(
        f"the watermark {time!r} is not a time",
        remedy="give a datetime, or a whole number in the unit of the column",
    )
