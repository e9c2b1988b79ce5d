"""Matches drawn uniformly at random, with replacement, from all matches of a DataFrame.

Every task draws as many as were asked for from its own matches, and says how many it has. One task
then decides for each draw which task it falls to, in proportion to these numbers, and takes that
task's next one: the draws of a task are independent, so the result is uniform over all matches.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import accumulate

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from ensue.automaton.plan import PREFIX, Plan
from ensue.operator.digits import digits, number_of
from ensue.operator.listing import Listing
from ensue.operator.protocol import Events
from ensue.run import choose
from ensue.run.spark.keyed import map_sorted
from ensue.run.spark.ship import shipped
from ensue.run.spark.versions import spark_schema
from ensue.sequences.totals import completed

UNIT, WEIGHT = f"{PREFIX}unit", f"{PREFIX}weight"


def matches(planned: Plan, prepared: DataFrame, schema: pa.Schema, listing: Listing) -> DataFrame:
    """`listing.sample` matches, or none where there are none."""
    plain = choose.sequences(listing)
    plain.open(planned, schema)
    shape = plain.no_matches(schema).schema
    wide = shape.append(pa.field(UNIT, pa.string())).append(pa.field(WEIGHT, pa.string()))

    def draw(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        for number, events in enumerate(completed(pieces)):
            unit = f"{task:08d}-{number:08d}"
            evaluator = choose.sequences(listing, seed=f"{listing.seed}-{unit}")
            evaluator.open(planned, schema)
            for table in evaluator.insert(events).tables():
                count = table.num_rows
                named = table.append_column(UNIT, pa.array([unit] * count))
                weight = pa.array([digits(evaluator.drawn_from)] * count)
                yield named.append_column(WEIGHT, weight)

    def chosen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if not held:
            return
        table = pa.Table.from_batches(held).combine_chunks()
        units: dict[str, list[int]] = {}
        for row, unit in enumerate(table.column(UNIT).to_pylist()):
            units.setdefault(unit, []).append(row)
        order = sorted(units)
        weights = table.column(WEIGHT)
        sums = list(accumulate(number_of(weights[units[unit][0]].as_py()) for unit in order))
        chooser = random.Random(listing.seed)
        picks: list[int] = []
        for _ in range(listing.sample or 0):
            at = chooser.randrange(sums[-1])
            unit = order[next(index for index, total in enumerate(sums) if at < total)]
            picks.append(units[unit].pop(0))
        found = table.take(pa.array(picks, pa.int64())).drop_columns([UNIT, WEIGHT])
        if planned.query.measures is None:
            place = found.column_names.index("match_number")
            numbers = pa.array(range(1, len(picks) + 1), pa.int64())
            found = found.set_column(place, found.schema.field(place), numbers)
        yield from found.combine_chunks().to_batches()

    drawn = map_sorted(prepared, planned.query, draw, wide).repartition(1)
    return drawn.mapInArrow(shipped(chosen), spark_schema(shape))
