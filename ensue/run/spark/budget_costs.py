"""What a budget gives up on a batch DataFrame, as observed metrics of Spark.

Every task learns and sheds by itself. Behind its matches it puts one row of what it has done; Spark
adds these rows up on their way (`DataFrame.observe`, under the name `ensue` as of streams, or into
the `Observation` that was given) and drops them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from ensue.automaton.plan import PREFIX, Plan
from ensue.operator.budget import Budget
from ensue.operator.listing import Listing
from ensue.operator.protocol import Events
from ensue.run import choose
from ensue.run.spark.keyed import Work, map_sorted, matched
from ensue.run.spark.stream_operator import OBSERVED

COUNTS = tuple(PREFIX + name for name in ("rows", "matches", "partials", "shed"))
PROMISES = tuple(PREFIX + name for name in ("promised", "followed"))


def matches(
    planned: Plan,
    prepared: DataFrame,
    found: pa.Schema,
    listing: Listing | None,
    budget: Budget,
    observe: Observation | None,
) -> DataFrame:
    """The matches of a pattern with events missing under a budget."""
    fields = [pa.field(name, pa.int64()) for name in COUNTS]
    fields += [pa.field(name, pa.float64()) for name in PROMISES]
    both = pa.schema([*found, *fields])
    told = map_sorted(prepared, planned.query, _worker(planned, listing, budget), both)
    totals = [F.coalesce(F.sum(name), F.lit(0)) for name in COUNTS]
    promised, followed = (F.sum(name) for name in PROMISES)
    recall = F.when((totals[3] > 0) & (promised > 0), followed / promised).otherwise(F.lit(1.0))
    names = [name.removeprefix(PREFIX) for name in COUNTS]
    costs = [total.alias(name) for total, name in zip(totals, names, strict=True)]
    seen = told.observe(observe or OBSERVED, *costs, recall.alias("recall"))
    return seen.filter(F.col(COUNTS[0]).isNull()).drop(*COUNTS, *PROMISES)


def _worker(planned: Plan, listing: Listing | None, budget: Budget) -> Work:
    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        evaluator = choose.for_lane(planned, listing, budget).evaluator
        evaluator.open(planned, schema, budget)
        shape = evaluator.no_matches(schema).schema
        for table in matched(planned, evaluator, pieces):
            nothing = [pa.nulls(table.num_rows, pa.int64()) for _ in COUNTS]
            nothing += [pa.nulls(table.num_rows, pa.float64()) for _ in PROMISES]
            yield _with(table.columns, shape, nothing)
        metrics = evaluator.metrics
        counts = (metrics.rows, metrics.matches, metrics.partials, metrics.shed)
        costs = [pa.array([count], pa.int64()) for count in counts]
        costs += [pa.array([promise], pa.float64()) for promise in evaluator.spent()[2:]]
        yield _with([pa.nulls(1, field.type) for field in shape], shape, costs)

    return work


def _with(columns: list[pa.Array], schema: pa.Schema, costs: list[pa.Array]) -> pa.Table:
    names = [*schema.names, *COUNTS, *PROMISES]
    return pa.table([*columns, *costs], names=names)
