"""One pattern inside the matcher: its lifetime, its evaluator, and the shape of its changes.

A pattern with the lifetime [begin, end) sees exactly the events with a time in it, as if there were
no others (AFA §2.3: an arc is triggered only by events whose time lies in its lifetime). When the
watermark passes the end, its partitions are complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import PREFIX, plan
from ensue.missing.evaluator import ApproximateEvaluator
from ensue.missing.exact import missing_evaluator
from ensue.operator.arrange import flat
from ensue.operator.budget import Budget
from ensue.operator.buffer import AT, EVENT, KEY, numbers
from ensue.operator.changes import Changes
from ensue.operator.clock import HIGHEST, LOWEST
from ensue.operator.identity import as_text, folded, text_hash
from ensue.operator.listing import Listing
from ensue.operator.match_names import EVENTS, HIGH, ID, LOW
from ensue.operator.prepare import finish, prepare
from ensue.operator.protocol import Events, Key, Metrics
from ensue.operator.replay import Replay, Resumable
from ensue.operator.settle import Settle
from ensue.operator.straight import Ordered, Straight
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query, Rows
from ensue.query.stored import to_json
from ensue.rows.pieces import PiecewiseRows
from ensue.sequences.evaluator import SequencesEvaluator

OP, MATCH_ID, PATTERN = "op", "match_id", "pattern"
NEW, WITHDRAWN = "+", "-"
_UNLIMITED = 1 << 62


@dataclass(frozen=True)
class Lifetime:
    """Times of the events that a pattern applies to: from `begin` on, before `end`; None: open."""

    begin: Any
    end: Any


class Lane:
    """See the module."""

    def __init__(
        self,
        name: str,
        query: Query,
        schema: pa.Schema,
        correctable: bool,
        identity: str | None = None,
        begin: int = LOWEST,
        end: int = HIGHEST,
        settling: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self.name, self.query, self.identity = name, query, identity
        self.begin, self.end_at = begin, end
        self.failed: errors.EnsueError | None = None
        self._bound = rules.check(bind(query, schema.names))
        self.plan = plan(self._bound)
        prepared = self._prepared(_with_hidden(schema))
        self.metrics: Metrics | None = None  # of a pattern under a budget
        self.evaluator: Ordered
        self._stage: Replay | Straight
        if budget is not None:
            self._open_under(budget, prepared.schema, correctable)
        else:
            self._open_exact(prepared.schema, correctable, settling)
        nothing = self.evaluator.no_matches(prepared.schema)
        self._settle: Settle | None = None
        if settling and isinstance(self._stage, Replay):
            self._settle = Settle(self._stage.nothing)
        self._limit = LOWEST  # what was decided before it may go out, where changes are held back
        told = replace(self._bound, measures=None, rows=Rows.ONE)
        digest = hashlib.sha256(f"{name} {to_json(told)}".encode()).hexdigest()
        self._seeds = (text_hash(digest), text_hash(digest + "'"))
        self.nothing = self._shaped(nothing, NEW)

    def _open_under(self, budget: Budget, schema: pa.Schema, correctable: bool) -> None:
        if self._bound.missing is None:
            raise errors.UnsupportedError(
                f"the pattern {self.name!r} takes no budget as events come: only patterns with "
                "allow_missing(...) do",
                remedy="leave the budget out, or give it to matches(table, budget=...)",
            )
        if correctable:
            raise errors.UnsupportedError(
                "under a budget nothing can be taken back: what was learnt and shed since cannot "
                "be made undone",
                remedy="say speculation=0, or leave the budget out",
            )
        evaluator = ApproximateEvaluator(Listing(max_matches=_UNLIMITED))
        evaluator.open(self.plan, schema, budget)
        self.evaluator, self.metrics = evaluator, evaluator.metrics
        self.reason = "events missing under a budget: the most promising partial matches"
        self._stage = Straight(evaluator, evaluator.no_matches(schema))

    def _open_exact(self, schema: pa.Schema, correctable: bool, settling: bool) -> None:
        evaluator: Resumable
        if self._bound.row_semantics:
            rows = PiecewiseRows()
            rows.open(self.plan, schema)
            evaluator = rows
            self.reason = f"rows ({rows.engine.name}): {rows.engine.reason}"
        else:
            every = Listing(max_matches=_UNLIMITED)
            sequences = (
                SequencesEvaluator(every)
                if self._bound.missing is None
                else missing_evaluator(self.plan, every)
            )
            sequences.open(self.plan, schema)
            evaluator = sequences
            self.reason = "sequences: all matches under their selection policies"
        self.evaluator = evaluator
        nothing = evaluator.no_matches(schema)
        self._stage = (
            Replay(evaluator, self.plan, schema, nothing, settling)
            if correctable
            else Straight(evaluator, nothing)
        )

    # -- calls -----------------------------------------------------------------------------------

    def change(self, added: Events, removed: Events | None = None) -> list[pa.Table]:
        added = self._within(added)
        removed = None if removed is None else self._within(removed)
        if removed is None or not removed.table.num_rows:
            if not added.table.num_rows:
                return []
            return self._guarded(lambda: self._stage.change(self._ready(added)))
        # Of what is taken back, only the names matter.
        gone = replace(removed, table=removed.table.select([AT, KEY, EVENT]))
        return self._guarded(lambda: self._stage.change(self._ready(added), gone))

    def advance(self, code: int, time: Any, limit: int = LOWEST) -> list[pa.Table]:
        """A watermark; changes decided before `limit` go out, where changes are held back."""
        self._limit = limit
        return self._guarded(lambda: self._stage.advance(code, time))

    def end(
        self, keys: Sequence[Key] | None = None, names: np.ndarray | None = None
    ) -> list[pa.Table]:
        """These keys, and the hashes they are known by, are complete."""
        found = self._guarded(lambda: self._stage.end(keys))
        if self._settle is not None:
            found.append(self._shaped(self._settle.release_all(names), NEW))
        return found

    @property
    def settling(self) -> int:
        """Changes held back."""
        return 0 if self._settle is None else len(self._settle)

    @property
    def correctable(self) -> int:
        return self._stage.rows

    def to_bytes(self) -> list[bytes]:
        """The state of the evaluator, and the changes held back."""
        return [self._stage.to_bytes(), b"" if self._settle is None else self._settle.to_bytes()]

    def restore(self, blobs: Sequence[bytes], code: int, time: Any, limit: int) -> None:
        self._limit = limit
        self._stage.restore(blobs[0], code, time)
        if self._settle is not None:
            self._settle.restore(blobs[1])

    def _guarded(self, run: Any) -> list[pa.Table]:
        """A condition that fails on the data stops this pattern, not the others."""
        if self.failed is not None:
            return []
        try:
            changes: Changes = run()
            if self._settle is not None:
                changes = self._settle.take(changes, self._limit)
            both = ((changes.went, WITHDRAWN), (changes.came, NEW))
            return [self._shaped(found, op) for found, op in both if found.num_rows]
        except errors.EnsueError as problem:
            self.failed = problem
            raise

    # -- rows in ---------------------------------------------------------------------------------

    def _within(self, events: Events) -> Events:
        """Events of the lifetime."""
        if (self.begin == LOWEST and self.end_at == HIGHEST) or not events.table.num_rows:
            return events
        times = numbers(events.table, AT)
        inside = (times >= self.begin) & (times < self.end_at)
        if inside.all():
            return events
        sizes = np.add.reduceat(inside.astype(np.int64), events.starts[:-1])
        sizes = sizes[sizes > 0]
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        complete = np.zeros(len(sizes), np.bool_)
        return Events(events.table.filter(pa.array(inside)).combine_chunks(), starts, complete)

    def _ready(self, events: Events) -> Events:
        return replace(events, table=self._prepared(events.table))

    def _prepared(self, table: pa.Table) -> pa.Table:
        """The plan's columns and the hidden ones that name the events."""
        names = [name for name in table.column_names if not name.startswith(PREFIX)]
        ready = prepare(self.plan, table.select(names).combine_chunks())
        for name in (AT, KEY, EVENT):
            ready = ready.append_column(name, flat(table, name))
        if self.identity is not None:
            ready = ready.append_column(ID, flat(table, self.identity))
        return ready

    # -- changes out -----------------------------------------------------------------------------

    def _shaped(self, found: pa.Table, op: str) -> pa.Table:
        """Rows of the evaluator's output as rows of the changes table."""
        found = found.combine_chunks()
        shown = finish(self.plan, found)
        if EVENTS in found.column_names:
            shown = shown.drop_columns(["match_number"])
            place = shown.schema.get_field_index("events")
            shown = shown.set_column(place, "events", found.column(EVENTS))
        for name in (OP, MATCH_ID, PATTERN):
            if name in shown.column_names:
                raise errors.DuplicateNameError(
                    f"the column {name!r} of the matches has the name of a column of the changes",
                    remedy="choose another name for the measure",
                )
        high, low = (
            folded(numbers(found, name).view(np.uint64), np.full(found.num_rows, seed))
            for name, seed in zip((HIGH, LOW), self._seeds, strict=True)
        )
        ops = pa.array([op] * found.num_rows, pa.string())
        names = [OP, MATCH_ID, PATTERN, *shown.column_names]
        patterns = pa.array([self.name] * found.num_rows, pa.string())
        return pa.table([ops, as_text(high, low), patterns, *shown.columns], names=names)


def _with_hidden(schema: pa.Schema) -> pa.Table:
    fields = [*schema, *(pa.field(name, pa.int64()) for name in (AT, KEY, EVENT))]
    return pa.schema(fields).empty_table()
