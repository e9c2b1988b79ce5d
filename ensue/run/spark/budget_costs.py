"""What a budget gives up on a batch DataFrame, as observed metrics of Spark.

Every task learns and sheds by itself. Behind its matches it puts one row of what it has done; Spark
adds these rows up on their way (`DataFrame.observe`, under the name `ensue` as of streams, or into
the `Observation` that was given) and drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from ensue.automaton.plan import PREFIX, Plan
from ensue.operator.budget import Budget
from ensue.operator.listing import Listing
from ensue.operator.protocol import Events
from ensue.query.query import Query
from ensue.run import choose
from ensue.run.spark.keyed import Work, map_sorted, matched
from ensue.run.spark.stream_operator import OBSERVED


class Costs(NamedTuple):
    """Of one task."""

    rows: int
    matches: int
    partials: int
    shed: int
    unbounded: int  # rows before the bound held
    promised: float
    followed: float
    reason: str | None  # why the bound did not hold for them


_KINDS = [pa.int64()] * 5 + [pa.float64()] * 2 + [pa.string()]
FIELDS = [pa.field(PREFIX + n, kind) for n, kind in zip(Costs._fields, _KINDS, strict=True)]
NAMES = [field.name for field in FIELDS]
Run = tuple[Iterator[pa.Table], Callable[[], Costs]]  # matches, and what they cost, behind them
Start = Callable[[pa.Schema, Iterator[Events]], Run]


def matches(
    planned: Plan,
    prepared: DataFrame,
    found: pa.Schema,
    listing: Listing | None,
    budget: Budget,
    observe: Observation | None,
) -> DataFrame:
    """The matches of a pattern with events missing under a budget."""

    def start(schema: pa.Schema, pieces: Iterator[Events]) -> Run:
        evaluator = choose.for_lane(planned, listing, budget).evaluator
        evaluator.open(planned, schema, budget)

        def costs() -> Costs:
            told = evaluator.metrics
            counts = (told.rows, told.matches, told.partials, told.shed, told.unbounded)
            return Costs(*counts, *evaluator.spent()[2:], told.reason or None)

        return matched(planned, evaluator, pieces), costs

    return observed(with_costs(prepared, planned.query, found, start), observe)


def with_costs(prepared: DataFrame, query: Query, found: pa.Schema, start: Start) -> DataFrame:
    """Matches, and a row of what they cost behind those of each task."""
    return map_sorted(prepared, query, _worker(found, start), pa.schema([*found, *FIELDS]))


def observed(told: DataFrame, observe: Observation | None) -> DataFrame:
    """The matches; what they cost is observed."""
    sums = {n: F.coalesce(F.sum(PREFIX + n), F.lit(0)) for n in Costs._fields[:5]}
    promised, followed = (F.sum(PREFIX + n) for n in ("promised", "followed"))
    recall = F.when(sums["shed"] == 0, F.lit(1.0)).when(promised > 0, followed / promised)
    columns = [total.alias(name) for name, total in sums.items()]
    columns += [recall.alias("recall")]  # null where nothing is known
    columns += [F.coalesce(F.max(PREFIX + "reason"), F.lit("")).alias("reason")]
    seen = told.observe(observe or OBSERVED, *columns)
    return seen.filter(F.col(NAMES[0]).isNull()).drop(*NAMES)


def _worker(found: pa.Schema, start: Start) -> Work:
    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        tables, costs = start(schema, pieces)
        for table in tables:
            nothing = [pa.nulls(table.num_rows, field.type) for field in FIELDS]
            yield pa.table([*table.columns, *nothing], names=[*table.column_names, *NAMES])
        values = [pa.array([v], f.type) for v, f in zip(costs(), FIELDS, strict=True)]
        empty = [pa.nulls(1, field.type) for field in found]
        yield pa.table([*empty, *values], names=[*found.names, *NAMES])

    return work
