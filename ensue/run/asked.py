"""What a matcher was asked, and the branches that answer it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.operator.prepare import prepare
from ensue.query import stored
from ensue.query.binding import bind
from ensue.query.depth import roomy
from ensue.query.query import Query
from ensue.run.branch import Branch, MatcherOptions
from ensue.run.pattern_branch import PatternBranch, TotalsBranch
from ensue.run.shared_branch import SharedBranch
from ensue.sequences.totals import Grouping
from ensue.shared.groups import bounded, groups
from ensue.shared.options import Sharing

UNNAMED = "pattern"


@dataclass(frozen=True)
class Asked:
    """Patterns by name; `totals` asks for aggregates in place of matches."""

    queries: Mapping[str, Query]
    named: bool = True  # changes say which pattern they are of
    totals: Grouping | None = None
    sharing: Sharing = field(default_factory=Sharing)  # under a budget

    @property
    def first(self) -> Query:
        return next(iter(self.queries.values()))

    @roomy
    def branches(self, schema: pa.Schema, options: MatcherOptions) -> list[Branch]:
        """One per pattern; patterns under a budget share it, and their partial matches."""
        self._check_shape(schema)
        if self.totals is not None:
            return [self._totals(schema, options, self.totals)]
        alone = len(self.queries) == 1 and self.first.missing is not None
        if options.budget is None or alone:
            return [PatternBranch(n, q, schema, options) for n, q in self.queries.items()]
        empty = schema.empty_table()
        grouped = groups(self.queries, schema.names, lambda plan: prepare(plan, empty).schema)
        found: list[Branch] = []
        for group, budget, part in bounded(grouped, options.budget, self.sharing.weights):
            own = replace(options, budget=budget)
            if budget is not None:
                found.append(SharedBranch(group.queries, schema, own, self.sharing, part))
            else:
                found += [PatternBranch(n, q, schema, own) for n, q in group.queries.items()]
        return found

    def _totals(
        self, schema: pa.Schema, options: MatcherOptions, grouping: Grouping
    ) -> TotalsBranch:
        ((name, query),) = self.queries.items()
        return TotalsBranch(name, query, grouping, schema, options)

    def _check_shape(self, schema: pa.Schema) -> None:
        """All patterns see one stream: its keys and its order."""
        shapes = {
            name: (bound.partition_by, bound.order_by)
            for name, bound in ((n, bind(q, schema.names)) for n, q in self.queries.items())
        }
        first = next(iter(shapes))
        for name, shape in shapes.items():
            if shape != shapes[first]:
                raise errors.QueryError(
                    f"the patterns {first!r} and {name!r} are partitioned or ordered differently, "
                    "and a matcher has one stream of events",
                    remedy="start a matcher for each partitioning",
                )

    # -- state -----------------------------------------------------------------------------------

    def stored(self) -> dict[str, Any]:
        return {
            "named": self.named,
            "first": _query_out(self.first),
            "totals": None if self.totals is None else asdict(self.totals),
            "sharing": asdict(self.sharing) | {"weights": dict(self.sharing.weights)},
        }

    @staticmethod
    def of_stored(told: Mapping[str, Any]) -> Asked:
        totals = told.get("totals")
        if totals is not None:
            totals = Grouping(**{**totals, "by": tuple(totals["by"])})
        sharing = _sharing_in(told.get("sharing", {}))
        return Asked({UNNAMED: _query_in(told["first"])}, told["named"], totals, sharing)

    def saved(self, branch: Branch) -> dict[str, Any]:
        """What a branch is made of, beside its state."""
        told = {"begin": branch.begin, "end": branch.end_at}
        if isinstance(branch, SharedBranch):
            queries = {name: _query_out(query) for name, query in branch.queries.items()}
            return told | {"queries": queries, "part": branch.part}
        ((name, query),) = branch.queries.items()
        return told | {"name": name, "query": _query_out(query)}

    def restored(
        self, told: Mapping[str, Any], schema: pa.Schema, options: MatcherOptions
    ) -> Branch:
        if "queries" in told:
            queries = {name: _query_in(query) for name, query in told["queries"].items()}
            return SharedBranch(queries, schema, options, self.sharing, told["part"])
        query = _query_in(told["query"])
        if self.totals is not None:
            return replace(self, queries={told["name"]: query})._totals(
                schema, options, self.totals
            )
        begin, end = told["begin"], told["end"]
        return PatternBranch(told["name"], query, schema, options, begin, end)


def one(query: Query, name: str | None = None, totals: Grouping | None = None) -> Asked:
    """A pattern by itself; changes name it where it was given a name."""
    return Asked({name or UNNAMED: query}, name is not None, totals)


# Options of earlier versions, with the value under which they did what is now always done.
_GONE = {"materialise": "view", "order_by": "ratio", "strategy": 0}


def _sharing_in(told: Mapping[str, Any]) -> Sharing:
    known = {item.name for item in fields(Sharing)}
    for name in told.keys() - known:
        if name not in _GONE or told[name] != _GONE[name]:
            raise errors.StateError(
                f"the state was written with the option {name}={told[name]!r}, which this Ensue "
                "does not have",
                remedy="continue with the version that wrote it, or start afresh",
            )
    return Sharing(**{name: value for name, value in told.items() if name in known})


def _query_out(query: Query) -> Any:
    return json.loads(stored.to_json(query))


def _query_in(told: Any) -> Query:
    return stored.from_json(json.dumps(told))
