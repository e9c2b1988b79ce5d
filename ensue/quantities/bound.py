"""Questions that know the columns of their events: batches in, values out.

A bound question takes the events of many partitions and gives a value per event where it is
defined, and one per partition at the end. State between calls (`memory.py`) is kept per partition,
at a place the caller names.

A value *carries* columns for the next: those of its event, or, where time and not an event
ends it, `window_start` alone, so that it does not matter when it is known that the window is over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ensue.quantities.memory import Flags, Indices, Memory


@dataclass(frozen=True)
class Batch:
    """Events of several partitions; `places` say where each keeps its state, `fresh` if anew."""

    table: pa.Table
    starts: Indices
    places: Indices
    fresh: Flags
    complete: Flags  # no events will follow: open windows count where they may
    once: bool = False  # nobody will ask again: no state need be kept

    @staticmethod
    def whole(table: pa.Table, starts: Indices) -> Batch:
        """All partitions from their first event to their last."""
        every = np.ones(len(starts) - 1, np.bool_)
        return Batch(table, starts, np.arange(len(every)), every, every, once=True)

    @staticmethod
    def nothing(schema: pa.Schema, places: Indices) -> Batch:
        """No more events for partitions that are there already."""
        count = len(places)
        starts = np.zeros(count + 1, np.int64)
        flags = np.zeros(count, np.bool_)
        return Batch(schema.empty_table(), starts, places, flags, ~flags)

    @property
    def owner(self) -> Indices:
        """Per row: its partition."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


@dataclass(frozen=True)
class Mark:
    """No event will come with less than `time` (as `windows.integers` reads it) in a column."""

    column: str
    time: int


@dataclass(frozen=True)
class Extra:
    """Values that no event brought: of windows that end with the input, or with time."""

    owner: Indices  # the partition of each, in order
    values: pa.Array
    carried: pa.Table  # the columns that go with them


@dataclass(frozen=True)
class Outcome:
    """One value per partition, and per row where streaming; a value is null where undefined."""

    ends: pa.Array
    ends_defined: Flags
    values: pa.Array | None = None
    defined: Flags | None = None
    carried: pa.Table | None = None  # per row; None: the columns of the event itself
    extra: Extra | None = None


class Bound(ABC):
    """What every bound question answers; unless it says more, as those inside it do."""

    def __init__(self, schema: pa.Schema, parts: Sequence[Bound] = ()) -> None:
        self.schema, self.parts = schema, parts

    @abstractmethod
    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome: ...

    def memory(self) -> Memory:
        return Memory(inner=[part.memory() for part in self.parts])

    def explain(self) -> list[str]:
        return [line for part in self.parts for line in part.explain()]

    @property
    def output_type(self) -> pa.DataType | None:
        """The Arrow type of the values; None where only the values tell."""
        return self.parts[-1].output_type

    @property
    def carried(self) -> pa.Schema:
        """Columns that go with the values; `Outcome.carried` is None where they are the event's."""
        return self.parts[0].carried if len(self.parts) == 1 else self.schema

    @property
    def on_events(self) -> bool:
        """Whether every value comes with an event, whose columns it carries."""
        return all(part.on_events for part in self.parts)

    def advance(self, places: Indices, memory: Memory, mark: Mark) -> Extra | None:
        """What time alone ends; the partitions in `places` are numbered 0, 1, ..."""
        return None

    def due(self, memory: Memory, column: str) -> int | None:
        """The least mark on that column at which `advance` has something to do."""
        return None

    def passed(self, mark: Mark) -> Mark | None:
        """What a mark on the events says about the values that will come."""
        return mark

    def reached(self, mark: Mark) -> Mark | None:
        """The least mark on the events after which `passed` reaches a mark on the values."""
        return mark


def taken(table: pa.Table, rows: pa.Array) -> pa.Table:
    """Rows of a table; one without columns has none to take."""
    return table.take(rows).combine_chunks() if table.num_columns else table
