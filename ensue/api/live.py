"""A live workload: rows in order in, matches out, patterns added and removed on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.api.pattern import Pattern
from ensue.api.tables import in_kind, to_arrow
from ensue.api.together import together
from ensue.api.workload import Workload, workload
from ensue.api.workload_run import grouped, past
from ensue.automaton.share import unite
from ensue.operator.arrange import arrange
from ensue.operator.budget import Budget
from ensue.operator.protocol import Events, Metrics, PatternChange, Snapshot
from ensue.operator.turns import Turns
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.query.timeout import Timeout
from ensue.run import choose, local
from ensue.shared import given
from ensue.shared.evaluator import SharedEvaluator
from ensue.shared.options import Report


def _check_one_group(kept: Mapping[str, Query], added: Mapping[str, Query], rows: pa.Table) -> None:
    """Raises where a pattern that comes cannot share with those that stay."""
    for name, query in added.items():
        found = grouped({**kept, name: query}, rows)
        for group in found:
            if group.alone and name in group.queries:
                raise errors.UnsupportedError(
                    f"the pattern {name!r} cannot run in a live workload: {group.alone}",
                    remedy="simplify the condition, or match the pattern by itself",
                )
        if len(found) != 1 or found[0].rows:
            raise errors.QueryError(
                f"the pattern {name!r} is partitioned or ordered differently from the workload, "
                "has or "
                "lacks a window of time where the others do not, or is a row pattern",
                remedy="start a live workload of its own",
            )


@dataclass
class Live(Turns):
    """Rows in, matches out, patterns added and removed on the way; one group of event patterns."""

    name = SharedEvaluator.name
    capabilities = SharedEvaluator.capabilities

    workload: Workload
    schema: pa.Schema
    budget: Budget | None = None
    state: Snapshot | None = None
    history: pa.Table | None = None

    def __post_init__(self) -> None:
        empty = self.schema.empty_table()
        found = grouped(self.workload._queries(), empty)
        if len(found) != 1 or found[0].rows or found[0].alone:
            raise errors.QueryError(
                "a live workload takes event patterns of one partition and order that can share",
                remedy="see workload.explain(); start one live workload per group",
            )
        if self.history is not None:
            given.check_history(found[0].queries.values(), self.schema, self.history.schema)
        union = unite(found[0].queries)
        self._evaluator = choose.shared(union, self.workload.options, local.prepare)
        self._evaluator.open(union.plan, self.schema, self.budget, self.state)
        if self.history is not None:
            self._evaluator.learn(past(union.plan.query, self.history))

    def insert(self, data: Any, *, timeout: Timeout | None = None) -> Any:
        """The matches that these rows complete."""
        query = self._evaluator.union.plan.query
        arranged, starts = arrange(
            given.rows_of(to_arrow(data), self.schema).combine_chunks(),
            query.partition_by,
            query.order_by,
        )
        events = Events(arranged, starts, np.zeros(len(starts) - 1, np.bool_))
        self._evaluator.check_order(events)
        return in_kind(self._listed(self._evaluator.found(events)), data)

    def end(self, *, timeout: Timeout | None = None) -> pa.Table:
        """The matches that are settled when no more rows come."""
        return self._listed(self._evaluator.finished())

    def revise(
        self,
        add: Mapping[str, Pattern] | None = None,
        remove: Sequence[str] = (),
        *,
        timeout: Timeout | None = None,
    ) -> None:
        """Add and remove patterns.

        An added pattern sees rows from now on; a removed pattern's partial matches are dropped.
        """
        names = self.schema.names
        if add:
            workload(add)  # refuses what is no pattern with a name
        added = {name: rules.check(bind(p.query, names)) for name, p in (add or {}).items()}
        members = {m.name: m.plan.query for m in self._evaluator.union.members}
        kept = {name: query for name, query in members.items() if name not in remove}
        _check_one_group(kept or members, added, self.schema.empty_table())
        self._evaluator.revise(PatternChange(added, tuple(remove)))

    def retract(self, data: Any) -> None:
        """Refused: a live workload takes no corrections."""
        self._evaluator.retract(data)

    def snapshot(self) -> Snapshot:
        return self._evaluator.snapshot()

    @property
    def report(self) -> Report:
        return self._evaluator.report()

    @property
    def metrics(self) -> Metrics:
        return self._evaluator.metrics

    @property
    def nbytes(self) -> int:
        return self._evaluator.nbytes

    def _listed(self, found: Iterable[tuple[int, pa.Table]]) -> pa.Table:
        members = self._evaluator.union.members
        tables = {member.name: [local.finish(member.plan, empty.empty_table())] for member, empty in
                  zip(members, self._evaluator.own_schemas(
                      self._evaluator._ready_schema), strict=True)}  # fmt: skip
        for index, piece in found:
            member = members[index]
            tables[member.name].append(local.finish(member.plan, piece))
        return together({name: pa.concat_tables(parts) for name, parts in tables.items()})
