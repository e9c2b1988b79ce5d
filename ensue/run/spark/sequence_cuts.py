"""One long sequence of events without a key, matched on all cores.

With a window of time the sequence is cut into *stretches* of a few windows each. A row goes to its
own stretch, and to the next one too if it is less than a window away from it; a stretch reports the
matches that end in its own rows. Stretches are the partitions of one shuffle, so nothing but public
DataFrame operations is needed and nothing runs before the result is asked for. Row numbers come
from a count of rows per stretch, match numbers from the order of the matches.

Counts without a window have no such bound: there, every task turns a contiguous range of rows into
a matrix of steps between states, and one task multiplies these, an associative product, in a tree.

The answers are those of one core.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DateType, IntegralType, TimestampType

from ensue.automaton.plan import PREFIX, Plan
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.subsets import Subsets
from ensue.operator.arrange import arrange, flat
from ensue.operator.digits import digits, number_of
from ensue.operator.hold import cut_piece
from ensue.operator.listing import Listing
from ensue.operator.protocol import Events
from ensue.operator.sorting import sorted_events
from ensue.query import condition as c
from ensue.query.query import OrderKey, SkipMode, WindowKind
from ensue.run import choose
from ensue.run.spark.keyed import ordered, quoted
from ensue.run.spark.ship import shipped
from ensue.run.spark.versions import spark_schema
from ensue.sequences.batch import EventBatch
from ensue.sequences.counts import all_states, countable, piece_matrix, product_of
from ensue.sequences.evaluator import SequencesEvaluator
from ensue.sequences.totals import Grouping, completed

STRETCH, OWN, BEFORE = f"{PREFIX}stretch", f"{PREFIX}own", f"{PREFIX}before"
WINDOWS = 4  # per stretch: a quarter of the rows is read twice
_POINT = 1 << 20  # size of a stretch where the window is a single moment
_DAY = 86_400_000_000
OUTPUT_ROWS = 10_000
_MATRIX = "matrix"


# -- with a window --------------------------------------------------------------------------------


def can_cut(planned: Plan, prepared: DataFrame, listing: Listing | None) -> bool:
    """Whether matches can be found stretch by stretch: each is within a window of time."""
    query = planned.query
    if query.row_semantics or query.partition_by or query.within is None:
        return False
    if query.within.kind is WindowKind.ROWS or query.skip.mode is not SkipMode.NONE:
        return False
    if query.missing is not None or planned.lookback or planned.lookahead:
        return False
    if listing is not None and (listing.timeouts or listing.compact or listing.sample):
        return False
    if query.order_by[0].descending or not isinstance(query.within.size, int):
        return False
    if any(isinstance(node, c.MatchNumber) for atom in planned.atoms for node in c.walk(atom)):
        return False
    if order_time(prepared, query.order_by[0]) is None:
        return False
    return not compile_sequence(query).absences


def matches(
    planned: Plan, prepared: DataFrame, schema: pa.Schema, listing: Listing | None
) -> DataFrame:
    """What the workers of one core would give, from all of them."""
    numbered = planned.query.measures is None
    stretched = _stretches(planned, prepared, numbered)
    carried = (STRETCH,) if numbered else ()
    wide = _wide(schema, numbered)
    evaluator = choose.sequences(listing, carried)
    evaluator.open(planned, wide)
    found = spark_schema(evaluator.no_matches(wide).schema)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        worker: SequencesEvaluator | None = None
        for events, fresh, base in _cut_events(planned, batches):
            if worker is None:
                worker = choose.sequences(listing, carried)
                worker.open(planned, events.table.schema)
            for table in worker.insert_cut(events, fresh, base).matches:
                yield from table.combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)

    matched = stretched.mapInArrow(shipped(work), found)
    if not numbered:
        return matched
    order = Window.partitionBy(F.lit(0)).orderBy(STRETCH, "match_number")
    number = F.row_number().over(order).cast("bigint")
    return matched.withColumn("match_number", number).drop(STRETCH)


def partials(
    planned: Plan, prepared: DataFrame, schema: pa.Schema, grouping: Grouping
) -> DataFrame:
    """Partials of aggregates over all matches, stretch by stretch."""
    stretched = _stretches(planned, prepared, numbered=False)
    first = choose.batch_totals(planned, grouping)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage = choose.batch_totals(planned, grouping)
        for events, fresh, base in _cut_events(planned, batches):
            piece = cut_piece(events, fresh, base)
            reach = piece.reach(planned.lookahead)
            batch = EventBatch(planned, stage.subsets, piece.table, piece.starts, reach)
            yield from stage.of(batch, None, None).combine_chunks().to_batches()

    return stretched.mapInArrow(shipped(work), spark_schema(first.schema(schema)))


def _stretches(planned: Plan, prepared: DataFrame, numbered: bool) -> DataFrame:
    """The rows with their stretch, those near its end in the next one too, shuffled by it."""
    query = planned.query
    assert query.within is not None
    window = int(query.within.size)
    size = WINDOWS * window or _POINT
    key = query.order_by[0]
    time = order_time(prepared, key)
    with_home = prepared.withColumn(STRETCH, F.expr(f"({time}) - pmod(({time}), {size}L)"))
    near = F.expr(f"({time}) >= {STRETCH} + {size - window}L")
    both = F.array(
        F.struct(F.col(STRETCH).alias(STRETCH), F.lit(True).alias(OWN)),
        F.struct((F.col(STRETCH) + F.lit(size)).alias(STRETCH), F.lit(False).alias(OWN)),
    )
    alone = F.array(F.struct(F.col(STRETCH).alias(STRETCH), F.lit(True).alias(OWN)))
    place = f"{PREFIX}place"
    spread = (
        with_home.where(F.col(STRETCH).isNotNull())
        .withColumn(place, F.explode(F.when(near, both).otherwise(alone)))
        .select(*prepared.columns, f"{place}.{STRETCH}", f"{place}.{OWN}")
    )
    if numbered:
        stretches = Window.partitionBy(F.lit(0)).orderBy(ordered(replace(key, column=STRETCH)))
        earlier = stretches.rowsBetween(Window.unboundedPreceding, -1)
        counts = with_home.groupBy(STRETCH).agg(F.count(F.lit(1)).alias(BEFORE))
        before = F.coalesce(F.sum(BEFORE).over(earlier), F.lit(0)).cast("bigint")
        known = counts.select(STRETCH, before.alias(BEFORE))
        # A stretch that only overlaps another has no rows of its own and reports nothing.
        spread = spread.join(F.broadcast(known), STRETCH, "inner").select(*spread.columns, BEFORE)
    return spread.repartition(STRETCH)


def order_time(prepared: DataFrame, key: OrderKey) -> str | None:
    """The first order column in the window's unit, as SQL; None where that is no integer."""
    name = quoted(key.column)
    kind = prepared.schema[key.column].dataType
    if isinstance(kind, TimestampType):
        return f"unix_micros({name})"
    if isinstance(kind, DateType):
        return f"unix_date({name}) * {_DAY}L"
    return f"CAST({name} AS BIGINT)" if isinstance(kind, IntegralType) else None


def _wide(schema: pa.Schema, numbered: bool) -> pa.Schema:
    schema = schema.append(pa.field(STRETCH, pa.int64())).append(pa.field(OWN, pa.bool_()))
    return schema.append(pa.field(BEFORE, pa.int64())) if numbered else schema


def _cut_events(
    planned: Plan, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[Events, np.ndarray, np.ndarray]]:
    """Stretches in order: their rows, the first row of each that is its own, and its number."""
    iterator = iter(batches)
    head = next(iterator, None)
    if head is None:
        return
    query = replace(planned.query, partition_by=(STRETCH,))
    for events in completed(sorted_events(chain([head], iterator), head.schema, query)):
        table, starts = events.table, events.starts
        own = flat(table, OWN).to_numpy(zero_copy_only=False)
        sums = np.concatenate(([0], np.cumsum(~own)))
        borrowed = sums[starts[1:]] - sums[starts[:-1]]
        base = np.zeros(len(borrowed), np.int64)
        if BEFORE in table.column_names:
            base = flat(table, BEFORE).to_numpy(zero_copy_only=False)[starts[:-1]] - borrowed
        yield events, starts[:-1] + borrowed, base


# -- without a window -----------------------------------------------------------------------------


def can_multiply(planned: Plan, grouping: Grouping) -> bool:
    """Whether the count of an unbounded sequence is a product over its pieces."""
    query = planned.query
    only_counts = all(atom == c.Aggregate("count", ()) for atom in planned.atoms) and all(
        isinstance(measure.value, c.Column) for measure in planned.outer
    )
    subsets = Subsets(compile_sequence(query))
    return (
        only_counts
        and not query.row_semantics
        and not query.partition_by
        and query.within is None
        and query.missing is None
        and bool(query.order_by)
        and grouping.every is None
        and not planned.lookback
        and not planned.lookahead
        and countable(planned, subsets)
        and all_states(subsets) is not None
    )


def count_by_product(planned: Plan, prepared: DataFrame) -> DataFrame:
    """One row with the number of matches as text, in the column `count`."""
    query = planned.query
    ranged = prepared.repartitionByRange(*map(ordered, query.order_by))

    def matrices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if not held:
            return
        subsets = Subsets(compile_sequence(query))
        states = all_states(subsets)
        assert states is not None
        table = pa.Table.from_batches(held)
        names = [key.column for key in query.order_by]
        rows, starts = arrange(table, (), query.order_by)
        matrix = piece_matrix(EventBatch(planned, subsets, rows, starts), subsets, states)
        assert matrix is not None
        text = json.dumps([[digits(value) for value in row] for row in matrix])
        first = rows.slice(0, 1).select(names)
        yield from first.append_column(_MATRIX, pa.array([text])).combine_chunks().to_batches()

    def product(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        total = 0
        if held:
            table, _ = arrange(pa.Table.from_batches(held), (), query.order_by)
            pieces = [
                [[number_of(value) for value in row] for row in json.loads(text)]
                for text in table.column(_MATRIX).to_pylist()
            ]
            total = product_of(pieces)
        yield pa.RecordBatch.from_pydict({"count": [digits(total)]})

    columns = [prepared.schema[key.column] for key in query.order_by]
    found = spark_schema(pa.schema([pa.field(_MATRIX, pa.string())]))
    shape = type(found)(list({field.name: field for field in columns}.values()) + found.fields)
    gathered = ranged.mapInArrow(shipped(matrices), shape).repartition(1)
    return gathered.mapInArrow(shipped(product), "count string")
