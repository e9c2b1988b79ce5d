"""What a budget gives up on a batch DataFrame, as observed metrics of Spark.

Every task learns and sheds by itself. Behind its matches it puts one row of what it has done; Spark
adds these rows up on their way (`DataFrame.observe`, under the name `ensue` as of streams, or into
the `Observation` that was given) and drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from ensue.automaton.plan import PREFIX, Plan
from ensue.evaluate.approximate import ApproximateEvaluator
from ensue.evaluate.base import Budget
from ensue.evaluate.listing import Listing
from ensue.spark.stream_operator import OBSERVED

COUNTS = tuple(PREFIX + name for name in ("rows", "matches", "partials", "shed"))
PROMISES = tuple(PREFIX + name for name in ("promised", "followed"))
Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def matches(
    planned: Plan,
    shuffled: DataFrame,
    found: StructType,
    listing: Listing | None,
    budget: Budget,
    observe: Observation | None,
) -> DataFrame:
    """The matches of a pattern with events missing under a budget."""
    fields = [StructField(name, LongType()) for name in COUNTS]
    fields += [StructField(name, DoubleType()) for name in PROMISES]
    both = StructType([*found.fields, *fields])
    told = shuffled.mapInArrow(_worker(planned, listing, budget), both)
    totals = [F.coalesce(F.sum(name), F.lit(0)) for name in COUNTS]
    promised, followed = (F.sum(name) for name in PROMISES)
    recall = F.when((totals[3] > 0) & (promised > 0), followed / promised).otherwise(F.lit(1.0))
    names = [name.removeprefix(PREFIX) for name in COUNTS]
    costs = [total.alias(name) for total, name in zip(totals, names, strict=True)]
    seen = told.observe(observe or OBSERVED, *costs, recall.alias("recall"))
    return seen.filter(F.col(COUNTS[0]).isNull()).drop(*COUNTS, *PROMISES)


def _worker(planned: Plan, listing: Listing | None, budget: Budget) -> Work:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from ensue.spark.batch import matched_batches

        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            return
        evaluator = ApproximateEvaluator(listing)
        evaluator.open(planned, first.schema, budget)
        schema = evaluator.no_matches(first.schema).schema
        for batch in matched_batches(planned, evaluator, chain([first], iterator), first.schema):
            nothing = [pa.nulls(batch.num_rows, pa.int64()) for _ in COUNTS]
            nothing += [pa.nulls(batch.num_rows, pa.float64()) for _ in PROMISES]
            yield _with(batch.columns, schema, nothing)
        metrics = evaluator.metrics
        counts = (metrics.rows, metrics.matches, metrics.partials, metrics.shed)
        costs = [pa.array([count], pa.int64()) for count in counts]
        costs += [pa.array([promise], pa.float64()) for promise in evaluator.promise]
        yield _with([pa.nulls(1, field.type) for field in schema], schema, costs)

    return work


def _with(columns: list[pa.Array], schema: pa.Schema, costs: list[pa.Array]) -> pa.RecordBatch:
    names = [*schema.names, *COUNTS, *PROMISES]
    return pa.RecordBatch.from_arrays([*columns, *costs], names=names)
