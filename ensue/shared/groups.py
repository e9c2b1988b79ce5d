"""Which patterns of a workload can run together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.automaton.share import Union, unite
from ensue.guards.operators import TooHardError
from ensue.operator.budget import Budget, budget_of
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query, WindowKind
from ensue.scalar.arrow_kinds import from_arrow
from ensue.shared.absences import hidden_bound
from ensue.shared.features import compile_features

Schema = Callable[[Plan], pa.Schema]  # of the columns that a plan reads, as workers see them


@dataclass(frozen=True)
class Group:
    """Patterns that run together, and how."""

    queries: Mapping[str, Query]
    rows: bool  # row patterns
    alone: str = ""  # why the only pattern runs by itself

    def refuse_budget(self, budget: Budget | None) -> None:
        if budget is not None and self.alone:
            raise errors.UnsupportedError(
                f"the pattern {next(iter(self.queries))!r} runs by an evaluator that cannot shed: "
                f"{self.alone}",
                remedy="leave the budget out, or ask only for what shared plans support",
            )


class Bounded(NamedTuple):
    """A group, the bounds that concern it, and which part of those in numbers it has."""

    group: Group
    budget: Budget | None
    part: float


def bounded(
    found: Sequence[Group], budget: Budget | None, weights: Mapping[str, float]
) -> list[Bounded]:
    """Bounds in numbers are for all groups together: each has a part by its patterns' weights."""
    budgets = [budget_of(budget, group.queries) for group in found]
    worth = [
        0.0 if own is None else sum(weights.get(name, 1.0) for name in group.queries)
        for group, own in zip(found, budgets, strict=True)
    ]
    total = sum(worth) or 1.0
    return [
        Bounded(group, own, each / total)
        for group, own, each in zip(found, budgets, worth, strict=True)
    ]


def groups(
    queries: Mapping[str, Query],
    columns: Sequence[str] | None,
    schema: Schema | None,
    *,
    whole: bool = False,
) -> list[Group]:
    """Groups by partition, order and kind; with a schema, what cannot be shared stands alone.

    `whole`: of a table whose end is judged by a time (`as_of`).
    """
    found: dict[object, dict[str, Query]] = {}
    for name, query in queries.items():
        bound = query if columns is None else rules.check(bind(query, columns))
        window = bound.within
        timed = window is not None and window.kind is not WindowKind.ROWS
        shape = None if bound.row_semantics else timed
        key = (bound.row_semantics, shape, bound.partition_by, bound.order_by)
        found.setdefault(key, {})[name] = bound
    result = []
    for members in found.values():
        if next(iter(members.values())).row_semantics:
            result.append(Group(members, True))
            continue
        hard = {} if schema is None else too_hard(members, schema, whole)
        shared = {name: query for name, query in members.items() if name not in hard}
        if shared:
            result.append(Group(shared, False))
        result += [Group({name: members[name]}, False, why) for name, why in hard.items()]
    return result


def too_hard(queries: Mapping[str, Query], schema: Schema, whole: bool = False) -> dict[str, str]:
    """Patterns that a shared plan cannot hold, most of them for a condition, and why."""

    def problem(some: Mapping[str, Query]) -> str:
        if any(getattr(query, "missing", None) is not None for query in some.values()):
            return "allow_missing has an evaluator of its own"
        if any(query.rows.all_rows for query in some.values()):
            return "ALL ROWS PER MATCH shows columns that shared plans do not carry"
        if whole and any(map(hidden_bound, some.values())):
            return "the absence that may end it has a bound of its own, inside a part"
        union = unite(some)
        return unsuited(union, schema(union.plan))

    if not problem(queries):
        return {}
    return {name: why for name, query in queries.items() if (why := problem({name: query}))}


def unsuited(union: Union, schema: pa.Schema) -> str:
    """Why the shared evaluator cannot take the union; empty where it can."""
    try:
        compile_features(union.plan, {field.name: from_arrow(field.type) for field in schema})
    except TooHardError as problem:
        return f"a condition needs plain Python: {problem}"
    return ""
