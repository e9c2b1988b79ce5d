"""Patterns of a matcher under one budget (`shared_group.py`).

Nothing is ever withdrawn, so this stands behind Cleanse at σ = 0. Patterns come and go at the
watermark: those added see the events that it has not passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.operator import snapshots
from ensue.operator.buffer import numbers
from ensue.operator.clock import LOWEST
from ensue.operator.match_names import HIGH, LOW
from ensue.operator.prepare import finish
from ensue.operator.protocol import Events, Key, Metrics, Watermark
from ensue.query.query import Query
from ensue.run.branch import NEW, Branch, MatcherOptions, Names, Seeds, prepared, with_hidden
from ensue.run.pattern_branch import listed, refuse_corrections
from ensue.run.shared_group import SharedGroup, Terms
from ensue.shared.options import Report, Sharing


class SharedBranch(Branch):
    """See the module; `part` of the bounds in numbers is for these patterns."""

    def __init__(
        self,
        queries: Mapping[str, Query],
        schema: pa.Schema,
        options: MatcherOptions,
        sharing: Sharing,
        part: float = 1.0,
    ) -> None:
        super().__init__(dict(queries))
        refuse_corrections(options.correctable)
        self.part = part
        read = partial(prepared, identity=options.identity)
        full = with_hidden(schema).schema
        self.group = SharedGroup(
            queries, Terms(full, read, options.budget, replace(sharing, part=part))
        )
        self.reason = "shared partial matches under a budget; the most promising are extended"
        self._shapes()

    def _shapes(self) -> None:
        """What is put out of each pattern."""
        self._members = self.group.evaluator.union.members
        self._seeds = [Seeds(member.name, member.plan.query) for member in self._members]
        shapes = self._changes(enumerate(self.group.shapes()))
        try:
            self.nothing = pa.concat_tables(shapes, promote_options="default")
        except pa.ArrowInvalid as problem:
            raise errors.ColumnTypeError(
                f"the changes of the patterns do not fit into one table: {problem}",
                remedy="give measures of one name one type",
            ) from None

    def revise(self, add: Mapping[str, Query], remove: Sequence[str]) -> None:
        """Add and remove patterns from the watermark on."""
        self.group.revise(add, remove)
        self.queries = self.group.queries
        self._shapes()

    @property
    def partitions(self) -> int:
        return self.group.evaluator.open_keys

    @property
    def nbytes(self) -> int:
        return self.group.evaluator.nbytes

    @property
    def report(self) -> Report:
        return self.group.evaluator.report()

    @property
    def metrics(self) -> Metrics:
        told = self.report
        made = Metrics(partials=told.created, shed=told.shed)
        for e in told.patterns.values():
            if e.recall is None or (made.recall is not None and e.recall < made.recall):
                made.recall, made.low, made.high = e.recall, e.low, e.high
        return made

    # -- calls -----------------------------------------------------------------------------------

    def change(self, added: Events, removed: Events | None = None) -> list[pa.Table]:
        if not added.table.num_rows:
            return []
        events = replace(added, table=added.table.select(self.group.terms.schema.names))
        return self._guarded(lambda: self._changes(self.group.evaluator.found(events)))

    def advance(self, code: int, time: Any, limit: int = LOWEST) -> list[pa.Table]:
        mark = Watermark(time)
        return self._guarded(lambda: self._changes(self.group.evaluator.advanced(mark)))

    def end(self, keys: Sequence[Key] | None = None, names: Names = None) -> list[pa.Table]:
        return self._guarded(lambda: self._changes(self.group.evaluator.finished(keys)))

    def _changes(self, matches: Iterable[tuple[int, pa.Table]]) -> list[pa.Table]:
        found = []
        for index, own in matches:
            shown = listed(finish(self._members[index].plan, own), own)
            high, low = (numbers(own, name).view(np.uint64) for name in (HIGH, LOW))
            found.append(self._seeds[index].changes(shown, NEW, (high, low)))
        return found

    # -- state -----------------------------------------------------------------------------------

    def to_bytes(self) -> list[bytes]:
        names = self._members[0].plan.query.partition_by
        fields = [self.group.terms.schema.field(name) for name in names]
        return [snapshots.to_bytes(self.group.evaluator.snapshot(), fields), b""]

    def restore(self, blobs: Sequence[bytes], code: int, time: Any, limit: int) -> None:
        self.group = self.group.restored(snapshots.from_bytes(blobs[0]))
        self._shapes()
