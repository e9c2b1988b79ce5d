"""Questions over whole vectors: what automata, windows, groups and pipelines keep to.

A *question* takes the events of many partitions and gives a value per event where it is defined,
and one per partition at the end. An automaton is one; windows (`windows.py`) and groups only cut
the input into more partitions for the question inside; a pipeline (`pipes.py`) feeds the defined
values of one to the next. State between calls (`memory.py`) is kept per partition, at a place the
caller names.

A value *carries* columns for the next: those of its event, or, where time and not an event
ends it, `window_start` alone, so that it does not matter when it is known that the window is over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.quantities.checks import Report, check
from ensue.quantities.memory import Flags, Indices, Memory
from ensue.quantities.model import Automaton
from ensue.quantities.run import Engine, Extra, Outcome, column_kinds
from ensue.quantities.typing import types_of

VALUE = "value"
WINDOW = "window_start"


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
    def prefixes(table: pa.Table, starts: Indices) -> Batch:
        """All partitions from their first event on."""
        count = len(starts) - 1
        return Batch(
            table, starts, np.arange(count), np.ones(count, np.bool_), np.zeros(count, np.bool_)
        )

    @staticmethod
    def nothing(schema: pa.Schema, places: Indices, complete: bool) -> Batch:
        """No events for partitions that are there already."""
        count = len(places)
        flags = np.full(count, complete)
        starts = np.zeros(count + 1, np.int64)
        return Batch(schema.empty_table(), starts, places, np.zeros(count, np.bool_), flags)

    @property
    def owner(self) -> Indices:
        """Per row: its partition."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


@dataclass(frozen=True)
class Mark:
    """No event will come with less than `time` (as `windows.integers` reads it) in a column."""

    column: str
    time: int


class Question(ABC):
    """A query that is checked once and bound to each schema it meets."""

    @abstractmethod
    def bind(self, schema: pa.Schema) -> Bound: ...

    @abstractmethod
    def reports(self, schema: pa.Schema | None) -> list[Report]: ...

    @abstractmethod
    def allowing(self, allow: str | None, assume: str | None) -> Question:
        """The question with a cost accepted, or a declaration made, in all its automata."""

    @abstractmethod
    def reads(self) -> frozenset[str] | None:
        """Names of the event's columns it reads, in lower case; None: it may read any."""

    @abstractmethod
    def parts(self) -> tuple[Question, ...]:
        """The questions inside, in the order of their memories."""

    @abstractmethod
    def title(self) -> str:
        """What it is, in a line: for pictures, and to tell one query's state from another's."""


class Around(Question):
    """A question that cuts its input into more partitions for the one inside."""

    inner: Question

    def reports(self, schema: pa.Schema | None) -> list[Report]:
        return self.inner.reports(schema)

    def allowing(self, allow: str | None, assume: str | None) -> Question:
        return replace(self, inner=self.inner.allowing(allow, assume))  # type: ignore[type-var]

    def parts(self) -> tuple[Question, ...]:
        return (self.inner,)


class Bound(ABC):
    """A question that knows the columns of its events."""

    schema: pa.Schema

    @abstractmethod
    def memory(self) -> Memory: ...

    @abstractmethod
    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome: ...

    @abstractmethod
    def explain(self) -> list[str]: ...

    @property
    @abstractmethod
    def output_type(self) -> pa.DataType | None: ...

    @property
    def carried(self) -> pa.Schema:
        """Columns that go with the values; `Outcome.carried` is None where they are the event's."""
        return self.schema

    @property
    def on_events(self) -> bool:
        """Whether every value comes with an event, whose columns it carries."""
        return True

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


@dataclass
class AutomatonQuestion(Question):
    automaton: Automaton
    allow: str | None = None
    assume: str | None = None
    compiled: bool = True
    _reports: dict[Any, Report] = field(default_factory=dict, repr=False)

    def reports(self, schema: pa.Schema | None) -> list[Report]:
        kinds = {} if schema is None else column_kinds(schema)
        used = {name.lower() for name in self.automaton.columns()}
        relevant = {name: kind for name, kind in kinds.items() if name.lower() in used}
        key = tuple(sorted((name, str(kind)) for name, kind in relevant.items()))
        if key not in self._reports:
            self._reports[key] = check(
                self.automaton, relevant, allow=self.allow, assume=self.assume
            )
        return [self._reports[key]]

    def allowing(self, allow: str | None, assume: str | None) -> Question:
        return replace(self, allow=allow or self.allow, assume=assume or self.assume, _reports={})

    def reads(self) -> frozenset[str] | None:
        if self.automaton.reads_python:
            return None
        return frozenset(name.lower() for name in self.automaton.columns())

    def parts(self) -> tuple[Question, ...]:
        return ()

    def title(self) -> str:
        return self.automaton.name

    def bind(self, schema: pa.Schema) -> Bound:
        try:
            (report,) = self.reports(schema)
        except errors.UndecidedError:
            types_of(self.automaton, column_kinds(schema))  # a column that is missing comes first
            raise
        return BoundAutomaton(Engine(self.automaton, schema, report, self.compiled))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reports": dict(self._reports)}


class BoundAutomaton(Bound):
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.schema = engine.schema

    def memory(self) -> Memory:
        return Memory(kept=self.engine.kept())

    def run(self, batch: Batch, memory: Memory, streaming: bool) -> Outcome:
        if batch.once:
            return self.engine.run(batch.table, batch.starts, streaming=streaming)
        memory.grow(int(batch.places.max(initial=-1)) + 1)
        return self.engine.run(
            batch.table,
            batch.starts,
            streaming=streaming,
            kept=memory.kept,
            places=batch.places,
            fresh=batch.fresh,
            asked=batch.complete,
        )

    def explain(self) -> list[str]:
        return [f"{self.engine.automaton.name}: {self.engine.explain()}"]

    @property
    def output_type(self) -> pa.DataType | None:
        return self.engine.output_type
