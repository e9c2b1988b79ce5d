"""The operator protocol that every evaluator keeps and every runner drives.

An evaluator is a state machine over batches of events. A runner opens it, inserts ordered batches,
tells it about time and about complete partitions, and drains what it puts out. What an evaluator
cannot do it refuses by name (`supports`), so nothing is ever silently ignored.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.capabilities import TABLE, No, Task, Way, refusal
from ensue.operator.budget import Budget
from ensue.operator.match_names import named_matches, with_names
from ensue.query.query import Query
from ensue.scalar.moments import value_of, values_of

MAX_OUTPUT = 2 << 30  # bytes of the answer to one call; more where the rows given are more
Key = tuple[object, ...]


def key_value(value: object) -> object:
    """A key's value such that equal keys are equal in Python: NaN is one key, as in Spark."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def key_out(value: object, kind: pa.DataType) -> object:
    """A key's value as its column has it; see `key_value`."""
    return math.nan if value == "NaN" and pa.types.is_floating(kind) else value


def key_table(keys: Collection[Key], fields: Sequence[pa.Field]) -> pa.Table:
    """Keys as a table: a column per part of the key, as the fields have it."""
    arrays = [
        pa.array([key_out(key[place], field.type) for key in keys], field.type)
        for place, field in enumerate(fields)
    ]
    return pa.Table.from_arrays(arrays, names=[field.name for field in fields])


def keys_in(table: pa.Table, names: Sequence[str]) -> list[Key]:
    """The key of each row."""
    if not names:
        return [()] * int(table.num_rows)
    columns = [values_of(table.column(name)) for name in names]
    return [tuple(map(key_value, key)) for key in zip(*columns, strict=True)]


def key_at(table: pa.Table, row: int, names: Sequence[str]) -> Key:
    """The key of the partition that a row belongs to."""
    return tuple(key_value(value_of(table.column(name)[row])) for name in names)


def keys_of(events: Events, names: Sequence[str]) -> list[Key]:
    """The key of every partition of the events."""
    if not names:
        return [()] * len(events.complete)
    return keys_in(events.table.select(list(names)).take(events.starts[:-1]), names)


@dataclass(frozen=True)
class Capabilities:
    """What an evaluator needs and what it can do."""

    ordered_input: bool = True
    sorts_rows: bool = False  # those of one insert: they may come unsorted, of all keys together
    retraction: bool = False
    revision: bool = False
    shedding: bool = False
    result_on_demand: bool = False


@dataclass(frozen=True)
class Events:
    """Rows of several partitions, partition after partition, each in order.

    `complete[i]` says that partition i has no further rows: the same as calling `end` for it
    right after the insert, without naming the key.
    """

    table: pa.Table
    starts: NDArray[np.int64]  # first row of each partition, and the number of rows
    complete: NDArray[np.bool_]


@dataclass(frozen=True)
class Watermark:
    """No event with an order value below `time` will come.

    Examples:
        >>> late = ensue.pattern("a -> b", types="kind").order_by("ts").within(10).matcher()
        >>> _ = late.advance(ensue.Watermark(100))
    """

    time: object


@dataclass(frozen=True)
class PatternChange:
    """Arcs or patterns added or removed while running."""

    add: Mapping[str, Query] = field(default_factory=dict)
    remove: tuple[str, ...] = ()


@dataclass
class Output:
    """What a call puts out; `matches` is lazy and must be drained before the next call."""

    matches: Iterable[pa.Table] = ()
    late: pa.Table | None = None
    rejected: pa.Table | None = None
    timed_out: pa.Table | None = None

    def tables(self) -> Iterator[pa.Table]:
        """What is kept together, and so has to fit into memory."""
        yield from bounded(self.matches)


def bounded(tables: Iterable[pa.Table], room: int = 0) -> Iterator[pa.Table]:
    """Tables that are kept together: matches that overlap can list each row as often as there are.

    `room`: bytes that they may have in any case.
    """
    size, most = 0, max(MAX_OUTPUT, room)
    for table in tables:
        size += table.nbytes
        if size > most:
            raise errors.LimitError(
                f"the answer needs more than {most >> 20:,} MB",
                remedy="let matches overlap less (AFTER MATCH SKIP PAST LAST ROW, within(...)), "
                "list fewer of their rows (measures that aggregate), take some with limit=..., or "
                "raise ensue.operator.protocol.MAX_OUTPUT",
            )
        yield table


@dataclass(frozen=True)
class Snapshot:
    """State as Arrow IPC bytes: one entry per key, and one that all keys share."""

    keys: Mapping[Key, bytes] = field(default_factory=dict)
    shared: bytes = b""


@dataclass
class Metrics:
    """Counted since `open`."""

    rows: int = 0
    matches: int = 0
    partials: int = 0
    shed: int = 0
    late: int = 0
    retracted: int = 0
    bytes: int = 0
    recall: float | None = 1.0  # None: nothing is known
    low: float | None = 1.0  # of an interval that holds the recall in 95 % of runs
    high: float | None = 1.0
    bundles: int = 0  # match points less than a window apart, where they are counted
    bundles_found: int = 0
    unbounded: int = 0  # rows before the bound held
    reason: str = ""  # why it did not hold for them

    def told(self) -> dict[str, float | str | None]:
        """What a best-effort answer says of itself."""
        names = ("rows", "matches", "partials", "shed", "recall", "low", "high", "unbounded",
                 "reason", *(("bundles", "bundles_found") if self.bundles else ()))  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def warning(self, floor: float | None) -> errors.BoundWarning | None:
        """What to say where the recall is estimated to be below a floor."""
        if floor is None or (self.recall is not None and self.recall >= floor):
            return None
        told = "is not known" if self.recall is None else f"is about {self.recall:.2f}"
        if self.recall is not None and self.low != self.high:
            told += f" ({self.low:.2f} to {self.high:.2f})"
        return errors.BoundWarning(
            f"the recall {told}, and the budget asks for {floor:g}\n"
            "What to do: give a larger bound, or a lower recall"
        )


class Evaluator(Protocol):
    """One algorithm with its state; what every runner drives."""

    capabilities: Capabilities
    metrics: Metrics

    @property
    def nbytes(self) -> int:
        """Bytes held for open partitions."""

    def open(
        self,
        plan: Plan,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None: ...
    def insert(self, events: Events) -> Output: ...
    def retract(self, events: Events) -> Output: ...
    def advance(self, mark: Watermark) -> Output: ...
    def revise(self, change: PatternChange) -> Output: ...
    def end(self, keys: Iterable[Key] | None = None) -> Output: ...
    def result(self) -> pa.Table: ...
    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot: ...


class LaneEvaluator(Evaluator, Protocol):
    """An evaluator that a lane can drive: many keys, time that passes, bounds on what is held.

    The lane owns disorder and corrections; the evaluator sees ordered rows only. Rows carry a hash
    of their content (CONTENT), or a name (EVENT) where matches are named; see `match_names.py`.
    `LaneDefaults` answers what does not concern an evaluator.
    """

    def no_matches(self, schema: pa.Schema) -> pa.Table:
        """The output of no matches: its columns and types."""

    def standing(self) -> Iterable[pa.Table]:
        """What holds now and is not final: totals that still grow."""

    def identified(self, table: pa.Table) -> pa.Table:
        """Rows put out, with a name of each (`MATCH`) that is the same whenever it is found."""

    def next_time(self) -> int | None:
        """The least watermark, in the order column's numbers, at which `advance` does something."""

    def sizes(self) -> Mapping[Key, int]:
        """Rows held of the keys that hold most; empty where nothing grows."""

    def drop(self, keys: Collection[Key]) -> None:
        """Forget these keys without output: they hold more than their limit."""

    def known(self) -> list[Key]:
        """The keys that are held."""

    def copy(self) -> Self:
        """An independent copy that continues from here."""

    def snapshot_together(self) -> Snapshot:
        """The state of all keys as one shared entry, which `open` takes."""

    def spent(self) -> tuple[int, int, float, float]:
        """Under a budget, since the last call: partial matches extended and not extended, and what
        was promised of them and followed."""

    @property
    def open_keys(self) -> int: ...
    @property
    def partials(self) -> int:
        """Keys with a partial match."""


class Refusing:
    """The calls an evaluator may leave out, each refused by name."""

    name = "this evaluator"
    task: Task | None = None  # whose cells say why, where they say no

    def retract(self, events: Events) -> Output:
        raise self._refuse("retract", "corrections of earlier events", Way.DISORDER)

    def revise(self, change: PatternChange) -> Output:
        raise self._refuse("revise", "a pattern that changes while running", Way.EDITS)

    def result(self) -> pa.Table:
        raise self._refuse("result", "a result on demand")

    def _refuse(self, call: str, what: str, way: Way | None = None) -> errors.UnsupportedError:
        asked = f"{self.name} does not support {what} ({call})"
        if self.task is not None and way is not None and isinstance(TABLE[self.task][way], No):
            return refusal(self.task, way, asked)
        return errors.UnsupportedError(
            asked,
            remedy="see q.explain() for the evaluator that was chosen and why",
        )


class Exact:
    """An evaluator that takes no budget, and says why (`no_budget`); `_begin` is how it opens."""

    no_budget: tuple[str, str]  # the reason, and what to do instead

    def open(
        self,
        plan: Any,
        schema: pa.Schema,
        budget: Budget | None = None,
        state: Snapshot | None = None,
    ) -> None:
        if budget is not None:
            raise errors.UnsupportedError(self.no_budget[0], remedy=self.no_budget[1])
        self._begin(plan, schema, state)

    @abstractmethod
    def _begin(self, plan: Any, schema: pa.Schema, state: Snapshot | None) -> None:
        """From nothing, or from a state."""


class LaneDefaults(Refusing):
    """What an evaluator answers a lane where there is nothing to say."""

    def standing(self) -> Iterable[pa.Table]:
        return ()

    def next_time(self) -> int | None:
        return None

    def sizes(self) -> Mapping[Key, int]:
        return {}

    def spent(self) -> tuple[int, int, float, float]:
        return 0, 0, 0.0, 0.0

    @property
    def named_by(self) -> tuple[str, ...] | None:
        """Columns that tell the rows of the output apart; None: hidden names of matches do."""
        return None

    def identified(self, table: pa.Table) -> pa.Table:
        if self.named_by is None:
            return named_matches(table)
        return with_names(table, [repr(key) for key in keys_in(table, self.named_by)])

    @property
    def partials(self) -> int:
        return 0
