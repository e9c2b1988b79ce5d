"""Row patterns on a batch DataFrame: one shuffle, one sort, Arrow all the way.

Spark computes the row-local parts of the conditions (any Spark function) and packs them into bits,
shuffles by the partition columns and hands each task's rows to one `mapInArrow` call. The worker
arranges them with numpy, matches, and streams out atoms; Spark computes the measures over those.
Nothing here touches the JVM gateway, so Spark Connect runs the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.automaton.plan import FLAGS_PER_COLUMN, PREFIX, Plan, bits_name, input_name, plan
from ensue.missing.warm import warm_up as warm_missing
from ensue.operator.as_of import AS_OF, END, LATEST, counted_rows, given, time_key, unsaid
from ensue.operator.budget import Budget
from ensue.operator.listing import Listing
from ensue.operator.prepare import output_order
from ensue.operator.protocol import Events
from ensue.query import rules
from ensue.query.binding import bind, rename
from ensue.query.query import Query
from ensue.query.sql import row_sql
from ensue.rows.warm import warm_up as warm_rows
from ensue.run import choose, nothing
from ensue.run.diff import APPEARS, DISAPPEARS, NUMBER, OP
from ensue.run.spark import budget_costs, prefilter, sequence_cuts, sequence_sample
from ensue.run.spark.keyed import Work, arrow_schema, map_sorted, matched, quoted, shuffled
from ensue.run.spark.quiet import asking
from ensue.run.spark.raised import own_errors
from ensue.run.spark.ship import shipped
from ensue.run.spark.versions import spark_schema
from ensue.sequences.totals import Finish, Grouping, completed


def run(
    query: Query,
    df: DataFrame,
    listing: Listing | None = None,
    budget: Budget | None = None,
    observe: Observation | None = None,
) -> DataFrame:
    """All matches of a pattern in a DataFrame, as a lazy DataFrame.

    `observe` receives what a budget gave up, once an action has run.
    """
    if df.isStreaming:
        from ensue.run.spark import stream
        from ensue.run.spark.stream_options import StreamOptions

        return stream.run(query, df, StreamOptions(), listing)
    bound = rules.check(bind(query, df.columns))
    if bound.rows.all_rows:
        rules.duplicates((name.casefold() for name in df.columns), "column of the input")
    plain = plain_names(df.columns)
    if plain:
        bound = rename(bound, plain)
        df = df.toDF(*(plain.get(name, name) for name in df.columns))
    planned = plan(bound)
    columns = input_columns(planned, df)  # first: it names what Spark rejects
    needed = df if budget is not None else prefilter.of_matches(planned, df, listing)
    prepared = needed.select(*columns)
    if listing is not None and listing.as_of != END:
        prepared = with_time(bound, prepared, listing.as_of, df)
    if sequence_cuts.can_cut(planned, prepared, listing) and budget is None:
        matches = sequence_cuts.matches(planned, prepared, arrow_schema(prepared), listing)
    elif listing is not None and listing.sample is not None:
        matches = sequence_sample.matches(planned, prepared, arrow_schema(prepared), listing)
    else:
        found = _output_schema(planned, arrow_schema(prepared), listing, budget)
        if bound.missing is not None and (budget is not None or planned.correlated):
            warm_missing()  # compiled once here, not by every worker
        if bound.row_semantics:
            warm_rows(planned.correlated)
        if budget is not None:
            matches = budget_costs.matches(planned, prepared, found, listing, budget, observe)
        else:
            matches = map_sorted(prepared, bound, _worker(planned, listing), found)
    result = with_measures(planned, matches)
    if plain:
        written = {safe: name for name, safe in plain.items()}
        result = result.toDF(*(written.get(name, name) for name in result.columns))
    return result


def difference(old: Query, new: Query, data: DataFrame) -> DataFrame:
    """The dry run of an edit: `op` and the columns of the listing, of what only one of two finds.

    Rows of equal order are in no promised order.
    """
    listings = [Listing(as_of=unsaid(query)) for query in (old, new)]
    before, after = (
        run(query, data, listing).drop(NUMBER)
        for query, listing in zip((old, new), listings, strict=True)
    )
    went = before.exceptAll(after).select(F.lit(DISAPPEARS).alias(OP), "*")
    return went.unionByName(after.exceptAll(before).select(F.lit(APPEARS).alias(OP), "*"))


def with_time(query: Query, df: DataFrame, as_of: Any, every: DataFrame | None = None) -> DataFrame:
    """The rows with the column `AS_OF`: one value, computed by Spark, of `every` row of the input.

    Some of these may have been left out of `df`.
    """
    key = time_key(query)
    if key is None:
        if as_of is not LATEST:
            raise counted_rows(as_of)
        return df.withColumn(AS_OF, F.lit(None).cast("boolean"))
    column = quoted(key.column)
    if as_of is not LATEST:
        value = given(key.column, arrow_schema(df.select(column)).field(0).type, as_of).as_py()
        # Text keeps a time's zone, or that it has none; Spark's literals depend on local time.
        literal = F.lit(value.isoformat() if isinstance(value, datetime) else value)
        return df.withColumn(AS_OF, literal.cast(df.select(column).schema[0].dataType))
    furthest = F.min(column) if key.descending else F.max(column)
    rows = df if every is None else every
    return df.crossJoin(F.broadcast(rows.agg(furthest.alias(AS_OF))))


def plain_names(names: list[str]) -> dict[str, str]:
    """Other names for columns with a dot or a back-quote, which `mapInArrow` cannot look up."""
    awkward = [name for name in names if "." in name or "`" in name]
    taken = set(names)
    found: dict[str, str] = {}
    for index, name in enumerate(awkward):
        safe = f"column_{index}"
        while safe in taken:
            safe += "_"
        taken.add(safe)
        found[name] = safe
    return found


def totals(query: Query, df: DataFrame, grouping: Grouping, as_of: Any = END) -> DataFrame:
    """Aggregates over all matches of an event pattern: parts where the rows are, then one sum."""
    bound = rules.check(bind(query, df.columns))
    planned = plan(bound)
    columns = input_columns(planned, df)  # first: it names what Spark rejects
    needed = prefilter.of_totals(planned, df) if as_of in (END, LATEST) else df
    prepared = needed.select(*columns)
    if as_of != END:
        prepared = with_time(bound, prepared, as_of, df)
    schema = arrow_schema(prepared)
    first = choose.batch_totals(planned, grouping)
    if grouping.as_text and sequence_cuts.can_multiply(planned, grouping):
        counted = sequence_cuts.count_by_product(planned, prepared)
        return counted.select(*(F.col("count").alias(m.name) for m in planned.outer))
    finish = Finish(planned, grouping, schema)

    def partials(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        stage = choose.batch_totals(planned, grouping)
        yield from map(stage.partials, completed(pieces))

    def finished(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = [pa.Table.from_batches([batch]) for batch in batches]
        yield from finish.table(tables, alone=not grouping.by).combine_chunks().to_batches()

    if sequence_cuts.can_cut(planned, prepared, None):
        found = sequence_cuts.partials(planned, prepared, schema, grouping)
    else:
        found = map_sorted(prepared, bound, partials, first.schema(schema))
    summed = shuffled(found, grouping.by).mapInArrow(
        shipped(finished), spark_schema(finish.table([]).schema)
    )
    kept = [F.col(quoted(n)) for n in summed.columns if not n.startswith(PREFIX)]
    return summed.select(*kept, *measured(planned, summed).values())


def prepared_schema(query: Query, df: DataFrame) -> tuple[Plan, pa.Schema]:
    """The plan bound to a DataFrame, and the Arrow schema its workers will see."""
    planned = plan(rules.check(bind(query, df.columns)))
    return planned, arrow_schema(df.select(*input_columns(planned, df)))


def profile(query: Query, df: DataFrame) -> tuple[Plan, nothing.Profile, pa.Schema]:
    """What `explain(df)` says of the data, counted by one aggregate."""
    planned = plan(rules.check(bind(query, df.columns)))
    input_columns(planned, df)
    schema = arrow_schema(df)
    parts = {tier.label: [row_sql(p) for p in nothing.prefixes(tier)] for tier in planned.tiers}
    conditions = list(dict.fromkeys(text for found in parts.values() for text in found))
    read = nothing.read_columns(planned, df.columns)
    texts = [(n, t) for n, t in nothing.texts(planned) if pa.types.is_string(schema.field(n).type)]
    counts = [F.count_if(F.expr(text)) for text in conditions]
    nulls = [F.count_if(F.col(quoted(name)).isNull()) for name in read]
    distances = []
    for name, text in texts:
        column = F.col(quoted(name))
        far = F.levenshtein(F.lower(column), F.lit(text.lower()))
        distances.append(F.min(F.when(column.isNotNull(), F.struct(far, column))))
    spans = nothing.bounded(planned, schema)
    ends = [end(F.col(quoted(name))) for name in spans for end in (F.min, F.max)]
    asked = [F.count(F.lit(1)), *counts, *nulls, *ends, *distances]
    with own_errors():
        row = df.select(*(one.alias(f"n{index}") for index, one in enumerate(asked))).first()
    assert row is not None
    rows, *rest = row
    known = dict(zip(conditions, rest, strict=False))
    ranges, near = rest[len(conditions) + len(read) :][: len(ends)], rest[-len(distances) :]
    return (
        planned,
        nothing.Profile(
            rows,
            {label: tuple(known[text] for text in found) for label, found in parts.items()},
            dict(zip(read, rest[len(conditions) :], strict=False)),
            {
                pair: None if found is None else nothing.near(pair[1], [found[1]])
                for pair, found in zip(texts, near, strict=False)
            },
            dict(zip(spans, zip(ranges[::2], ranges[1::2], strict=True), strict=True)),
        ),
        schema,
    )


def input_columns(planned: Plan, df: DataFrame) -> list[Column]:
    """The columns the evaluator reads; Spark analyses every expression here, before any job."""
    try:
        columns = _input_columns(planned, df)
        with asking():
            df.select(*columns).schema  # noqa: B018
    except PySparkException:
        for expression in planned.inputs:
            analysed(df, row_sql(expression), f"the expression {row_sql(expression)}")
        for flag in planned.flags:
            analysed(df, f"IF({row_sql(flag)}, 1, 0)", f"the condition {row_sql(flag)}")
        raise
    return columns


def _input_columns(planned: Plan, df: DataFrame) -> list[Column]:
    columns = [F.col(quoted(name)) for name in planned.carried(df.columns)]
    for index, expression in enumerate(planned.inputs):
        columns.append(F.expr(row_sql(expression)).alias(input_name(index)))
    for begin in range(0, len(planned.flags), FLAGS_PER_COLUMN):
        flags = planned.flags[begin : begin + FLAGS_PER_COLUMN]
        bits = " + ".join(f"IF({row_sql(flag)}, {1 << bit}L, 0L)" for bit, flag in enumerate(flags))
        columns.append(F.expr(bits).alias(bits_name(begin // FLAGS_PER_COLUMN)))
    return columns or [F.lit(0).alias("__ensue_row")]


def analysed(df: DataFrame, text: str, what: str) -> None:
    """Ask Spark's analyser about one expression, so that an error names it."""
    try:
        with asking():
            df.select(F.expr(text)).schema  # noqa: B018
    except AnalysisException as problem:
        raise errors.ColumnTypeError(
            f"Spark rejects {what}: {_first_line(problem)}",
            remedy="check column names, types and functions of this expression",
        ) from None
    except PySparkException as problem:
        raise errors.ConditionSyntaxError(
            f"Spark cannot parse {what}: {_first_line(problem)}", remedy="check its syntax"
        ) from None


def _first_line(problem: Exception) -> str:
    return str(problem).strip().splitlines()[0]


def _output_schema(
    planned: Plan, schema: pa.Schema, listing: Listing | None, budget: Budget | None = None
) -> pa.Schema:
    evaluator = choose.for_matches(planned.query, listing).evaluator
    evaluator.open(planned, schema, budget)
    return evaluator.no_matches(schema).schema


def _worker(planned: Plan, listing: Listing | None) -> Work:
    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        evaluator = choose.for_matches(planned.query, listing).evaluator
        evaluator.open(planned, schema)
        yield from matched(planned, evaluator, pieces)

    return work


def measured(planned: Plan, found: DataFrame) -> dict[str, Column]:
    """The measures by name, over what the evaluator found."""
    values = {}
    for measure in planned.outer:
        text = row_sql(measure.value)
        analysed(found, text, f"the measure {measure.name}")
        values[measure.name] = F.expr(text).alias(measure.name)
    return values


def with_measures(planned: Plan, matches: DataFrame) -> DataFrame:
    values = measured(planned, matches)
    order = output_order(planned, matches.columns)
    return matches.select(*(values[n] if n in values else F.col(quoted(n)) for n in order))
