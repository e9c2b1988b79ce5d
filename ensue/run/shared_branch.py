"""Patterns of a matcher under one budget: partial matches are shared, and shed where it is spent.

Matches may be missing and none is false; none is ever withdrawn, so this stands behind Cleanse at
σ = 0. Patterns come and go at the watermark: those added see the events that it has not passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.automaton.share import unite
from ensue.operator import snapshots
from ensue.operator.buffer import numbers
from ensue.operator.changes import Changes
from ensue.operator.match_names import HIGH, LOW
from ensue.operator.prepare import finish, prepare
from ensue.operator.protocol import Events, Key, Metrics, Output, PatternChange, Snapshot, Watermark
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.run import choose
from ensue.run.branch import NEW, Branch, Names, Options, Seeds, prepared, with_hidden
from ensue.run.pattern_branch import listed, refuse_corrections
from ensue.shared.evaluator import SharedEvaluator
from ensue.shared.groups import groups
from ensue.shared.listing import PATTERN, combined_name
from ensue.shared.options import Report, Sharing


class SharedBranch(Branch):
    """See the module; `part` of the bounds in numbers is for these patterns."""

    def __init__(
        self,
        queries: Mapping[str, Query],
        schema: pa.Schema,
        options: Options,
        sharing: Sharing,
        part: float = 1.0,
    ) -> None:
        super().__init__(dict(queries))
        refuse_corrections(options.correctable)
        self.part, self._schema, self._options = part, schema, options
        self._sharing = replace(sharing, part=part)
        self._one_group(self.queries)
        self.evaluator = self._opened(None)
        self.reason = "shared partial matches under a budget; the most promising are extended"
        self.stage = _Straight(self)
        self._shapes()

    def _opened(self, state: Snapshot | None) -> SharedEvaluator:
        bound = {n: rules.check(bind(q, self._schema.names)) for n, q in self.queries.items()}
        union = unite(bound)
        evaluator = choose.shared(union, self._sharing, self._prepared)
        full = with_hidden(self._schema).schema
        evaluator.open(union.plan, full, self._options.budget, state)
        return evaluator

    def _prepared(self, plan: Plan, table: pa.Table) -> pa.Table:
        return prepared(plan, table, self._options.identity)

    def _one_group(self, queries: Mapping[str, Query]) -> None:
        """Refuse what cannot share a budget."""
        empty = self._schema.empty_table()
        found = groups(queries, self._schema.names, lambda plan: prepare(plan, empty).schema)
        for group in found:
            if group.rows:
                raise errors.UnsupportedError(
                    f"the pattern {next(iter(group.queries))!r} takes no budget as events come: it "
                    "is a row pattern, whose matches depend on each other",
                    remedy="leave the budget out, or give it to matches(table, budget=...)",
                )
            group.refuse_budget(self._options.budget)
        if len(found) != 1:
            raise errors.QueryError(
                "patterns under one budget agree in partition and order, and all or none have a "
                "window of time",
                remedy="start a matcher of its own",
            )

    def _shapes(self) -> None:
        """What is put out of each pattern."""
        evaluator = self.evaluator
        self._members = evaluator.union.members
        self._seeds = [Seeds(member.name, member.plan.query) for member in self._members]
        full = with_hidden(self._schema)
        self._columns = full.column_names
        ready = prepared(evaluator.union.plan, full, self._options.identity).schema
        self._own = evaluator.own_schemas(ready)
        self.empty = evaluator.no_matches(full.schema)
        shapes = [self._changes(i, own.empty_table(), NEW) for i, own in enumerate(self._own)]
        try:
            self.nothing = pa.concat_tables(shapes, promote_options="default")
        except pa.ArrowInvalid as problem:
            raise errors.ColumnTypeError(
                f"the changes of the patterns do not fit into one table: {problem}",
                remedy="give measures of one name one type",
            ) from None

    def revise(self, add: Mapping[str, Query], remove: Sequence[str]) -> None:
        """Patterns that come and go from the watermark on."""
        kept = {name: query for name, query in self.queries.items() if name not in remove}
        added = {n: rules.check(bind(q, self._schema.names)) for n, q in add.items()}
        self._one_group({**(kept or self.queries), **added})
        again = [name for name in added if name in self.queries]
        self.evaluator.revise(PatternChange(added, tuple(dict.fromkeys([*remove, *again]))))
        self.queries = {**{n: q for n, q in kept.items() if n not in added}, **add}
        self._shapes()

    @property
    def partitions(self) -> int:
        return self.evaluator.open_keys

    @property
    def nbytes(self) -> int:
        return self.evaluator.nbytes

    @property
    def report(self) -> Report:
        return self.evaluator.report()

    @property
    def metrics(self) -> Metrics:
        told = self.report
        recalls = [estimate.recall for estimate in told.patterns.values()]
        return Metrics(partials=told.created, shed=told.shed, recall=min(recalls, default=1.0))

    def _ready(self, events: Events) -> Events:
        return replace(events, table=events.table.select(self._columns))

    def _shaped(self, found: pa.Table, op: str) -> list[pa.Table]:
        return [self._changes(index, own, op) for index, own in self._by_pattern(found)]

    def _by_pattern(self, found: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Rows of each pattern with the columns of its own plan."""
        names = found.column(PATTERN).to_numpy(zero_copy_only=False)
        for index, (member, own) in enumerate(zip(self._members, self._own, strict=True)):
            mine = found.filter(pa.array(names == member.name))
            if mine.num_rows:
                columns = [mine.column(combined_name(index, name)) for name in own.names]
                yield index, pa.table(columns, names=own.names).combine_chunks()

    def _changes(self, index: int, own: pa.Table, op: str) -> pa.Table:
        shown = listed(finish(self._members[index].plan, own), own)
        high, low = (numbers(own, name).view(np.uint64) for name in (HIGH, LOW))
        return self._seeds[index].changes(shown, op, (high, low))


class _Straight:
    """The evaluator behind Cleanse at σ = 0."""

    rows = 0

    def __init__(self, branch: SharedBranch) -> None:
        self._branch = branch

    def change(self, added: Events, removed: Events | None = None) -> Changes:
        return self._changes(self._branch.evaluator.insert(added))

    def advance(self, code: int, time: object) -> Changes:
        return self._changes(self._branch.evaluator.advance(Watermark(time)))

    def end(self, keys: Sequence[Key] | None = None, names: Names = None) -> Changes:
        return self._changes(self._branch.evaluator.end(keys))

    def _changes(self, output: Output) -> Changes:
        empty = self._branch.empty
        return Changes(pa.concat_tables([empty, *output.tables()]), empty)

    def to_bytes(self) -> bytes:
        branch = self._branch
        fields = [branch._schema.field(name) for name in branch._members[0].plan.query.partition_by]
        return snapshots.to_bytes(branch.evaluator.snapshot(), fields)

    def restore(self, blob: bytes, code: int, time: object) -> None:
        self._branch.evaluator = self._branch._opened(snapshots.from_bytes(blob))
