"""What stands behind Cleanse in a matcher: one pattern (or several that share), with its lifetime.

A pattern with the lifetime [begin, end) sees exactly the events with a time in it, as if there were
no others (AFA §2.3: an arc is triggered only by events whose time lies in its lifetime). When the
watermark passes the end, its partitions are complete.

`PatternBranch` lists matches, `TotalsBranch` aggregates over them, `SharedBranch` lists those of
patterns under one budget. Each shapes the output of its evaluator as rows of the changes table.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import PREFIX, Plan
from ensue.operator.arrange import flat
from ensue.operator.budget import Budget
from ensue.operator.buffer import AT, EVENT, KEY
from ensue.operator.clock import HIGHEST, LOWEST
from ensue.operator.identity import Hashes, as_text, folded, text_hash
from ensue.operator.match_names import ID
from ensue.operator.prepare import prepare
from ensue.operator.protocol import Events, Key, Metrics
from ensue.query.duration import spelled
from ensue.query.query import Query, Rows
from ensue.query.stored import to_json

OP, MATCH_ID, PATTERN = "op", "match_id", "pattern"
NEW, WITHDRAWN = "+", "-"
Names = NDArray[np.int64] | None  # hashes of keys; None: of all


@dataclass(frozen=True)
class MatcherOptions:
    """How a matcher runs; what can be compared with a stored state."""

    speculation: Any = 0  # σ: 0, a length of time, or math.inf
    delay: Any = None  # the watermark follows the newest event at this distance
    identity: str | None = None  # column that names an event inside its partition
    history: Any = 0  # how long events stay known behind the watermark, for explicit lifetimes
    settle: Any = None  # hold changes back until the watermark is this near to what decided them
    budget: Budget | None = None  # best effort: of all patterns together
    timeouts: bool = False  # partial matches that ran out of time are told, with a status

    def __post_init__(self) -> None:
        for name in ("speculation", "delay", "history", "settle"):
            object.__setattr__(self, name, spelled(getattr(self, name)))

    @property
    def correctable(self) -> bool:
        """Whether patterns see events that may still be corrected."""
        return bool(self.speculation != 0)


@dataclass(frozen=True)
class Lifetime:
    """Times of the events that a pattern or an arc applies to: from `begin` on, before `end`; None:
    open."""

    begin: Any
    end: Any


class Branch(ABC):
    """See the module."""

    reason: str  # which evaluator, and why
    nothing: pa.Table  # no changes: the columns

    def __init__(self, queries: dict[str, Query], begin: int = LOWEST, end: int = HIGHEST) -> None:
        self.queries = queries
        self.begin, self.end_at = begin, end
        self.failed: errors.EnsueError | None = None

    @property
    def names(self) -> list[str]:
        return list(self.queries)

    @property
    def name(self) -> str:
        return ", ".join(self.queries)

    @property
    @abstractmethod
    def partitions(self) -> int:
        """Open partitions."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Of what the evaluator holds."""

    @property
    def metrics(self) -> Metrics | None:
        """Of what runs under a budget."""
        return None

    @property
    def settling(self) -> int:
        """Changes held back."""
        return 0

    @abstractmethod
    def change(self, added: Events, removed: Events | None = None) -> list[pa.Table]:
        """Events that come, and events that are taken back."""

    @abstractmethod
    def advance(self, code: int, time: Any, limit: int = LOWEST) -> list[pa.Table]:
        """A watermark; changes decided before `limit` go out, where changes are held back."""

    @abstractmethod
    def end(self, keys: Sequence[Key] | None = None, names: Names = None) -> list[pa.Table]:
        """These keys, and the hashes they are known by, are complete."""

    @abstractmethod
    def to_bytes(self) -> list[bytes]:
        """The state of the evaluator, and the changes held back."""

    @abstractmethod
    def restore(self, blobs: Sequence[bytes], code: int, time: Any, limit: int) -> None: ...

    def _guarded(self, run: Callable[[], list[pa.Table]]) -> list[pa.Table]:
        """A condition that fails on the data stops this branch, not the others."""
        if self.failed is not None:
            return []
        try:
            return run()
        except errors.EnsueError as problem:
            self.failed = problem
            raise


def prepared(planned: Plan, table: pa.Table, identity: str | None) -> pa.Table:
    """The plan's columns and the hidden ones that name the events."""
    names = [name for name in table.column_names if not name.startswith(PREFIX)]
    ready = prepare(planned, table.select(names).combine_chunks())
    for name in (AT, KEY, EVENT):
        ready = ready.append_column(name, flat(table, name))
    if identity is not None:
        ready = ready.append_column(ID, flat(table, identity))
    return ready


def with_hidden(schema: pa.Schema) -> pa.Table:
    """No events, with the hidden columns that Cleanse adds."""
    fields = [*schema, *(pa.field(name, pa.int64()) for name in (AT, KEY, EVENT))]
    return pa.schema(fields).empty_table()


class Seeds:
    """What the names of a pattern's rows begin with, so that two patterns' differ."""

    def __init__(self, name: str, query: Query) -> None:
        told = replace(query, measures=None, rows=Rows.ONE)
        digest = hashlib.sha256(f"{name} {to_json(told)}".encode()).hexdigest()
        self._name = name
        self._seeds = (text_hash(digest), text_hash(digest + "'"))

    def changes(self, shown: pa.Table, op: str, halves: tuple[Hashes, Hashes]) -> pa.Table:
        """Rows with their operation, the name of what they are of, and the pattern."""
        for name in (OP, MATCH_ID, PATTERN):
            if name in shown.column_names:
                raise errors.DuplicateNameError(
                    f"the column {name!r} of the matches has the name of a column of the changes",
                    remedy="choose another name for the measure",
                )
        rows = shown.num_rows
        high, low = (
            folded(half, np.full(rows, seed))
            for half, seed in zip(halves, self._seeds, strict=True)
        )
        ops = pa.array([op] * rows, pa.string())
        patterns = pa.array([self._name] * rows, pa.string())
        names = [OP, MATCH_ID, PATTERN, *shown.column_names]
        return pa.table([ops, as_text(high, low), patterns, *shown.columns], names=names)
