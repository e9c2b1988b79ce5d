"""Event patterns under one budget, as events come: one shared evaluator for lanes and matchers.

The patterns share their partial matches and one bound. They may come and go: an added pattern sees
events from then on, and one that is replaced begins anew, since what was learned and kept of the
old one says nothing of the new. Matches may be missing and none is false; none is ever taken back,
since what was learned and shed since cannot be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import PREFIX, Plan
from ensue.automaton.share import unite
from ensue.operator.budget import Budget
from ensue.operator.prepare import prepare
from ensue.operator.protocol import PatternChange, Snapshot
from ensue.query.query import Query
from ensue.run import choose
from ensue.shared.evaluator import SharedEvaluator
from ensue.shared.groups import groups
from ensue.shared.options import Sharing


@dataclass(frozen=True)
class Terms:
    """What a group runs on; travels to the workers."""

    schema: pa.Schema  # of the rows as they come, with the hidden columns
    read: Callable[[Plan, pa.Table], pa.Table]  # rows as a plan reads them
    budget: Budget | None
    sharing: Sharing

    @property
    def columns(self) -> list[str]:
        """Those of the user."""
        return own_columns(self.schema)

    def checked(self, queries: Mapping[str, Query]) -> dict[str, Query]:
        """The patterns bound to the columns; refuses what cannot share a budget."""
        empty = self.schema.empty_table().select(self.columns)
        found = groups(queries, self.columns, lambda planned: prepare(planned, empty).schema)
        for group in found:
            if group.rows:
                raise errors.UnsupportedError(
                    f"the pattern {next(iter(group.queries))!r} takes no budget as events come: it "
                    "is a row pattern, whose matches depend on each other",
                    remedy="leave the budget out, give it to matches(table, budget=...), or write "
                    "an event pattern, with arrows or select()",
                )
            group.refuse_budget(self.budget)
        if len(found) != 1:
            told = "; ".join(", ".join(group.queries) for group in found)
            raise errors.UnsupportedError(
                f"as events come a budget is for patterns that share one group, and these are "
                f"{len(found)}: {told}",
                remedy="give them one partition and order, and all or none of them a window of "
                "time; or run each group by itself",
            )
        return {name: found[0].queries[name] for name in queries}


class SharedGroup:
    """See the module."""

    def __init__(
        self, queries: Mapping[str, Query], terms: Terms, saved: Snapshot | None = None
    ) -> None:
        self.queries, self.terms = dict(queries), terms
        union = unite(terms.checked(queries))
        self.evaluator: SharedEvaluator = choose.shared(union, terms.sharing, terms.read)
        self.evaluator.open(union.plan, terms.schema, terms.budget, saved)

    def restored(self, saved: Snapshot) -> SharedGroup:
        """The group in an earlier state."""
        return SharedGroup(self.queries, self.terms, saved)

    def revise(self, add: Mapping[str, Query], remove: Iterable[str]) -> None:
        """Patterns that come and go; one of a name that is there replaces it."""
        gone = dict.fromkeys([*remove, *(name for name in add if name in self.queries)])
        kept = {name: query for name, query in self.queries.items() if name not in gone}
        checked = self.terms.checked({**(kept if kept or add else self.queries), **add})
        change = PatternChange({name: checked[name] for name in add}, tuple(gone))
        self.evaluator.revise(change)
        self.queries = {**kept, **add}

    def shapes(self) -> list[pa.Table]:
        """No matches of each pattern: the columns that its own plan puts out."""
        plan, terms = self.evaluator.union.plan, self.terms
        ready = terms.read(plan, terms.schema.empty_table()).schema
        return [own.empty_table() for own in self.evaluator.own_schemas(ready)]


def own_columns(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if not name.startswith(PREFIX)]
