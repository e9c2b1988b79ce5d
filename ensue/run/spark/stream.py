"""Patterns on a streaming DataFrame: the same answer as on all its rows at once, bit by bit.

Spark computes the row-local conditions (any Spark function), a hash of each row's content and the
lane of its key; lanes (`run/lanes/lane.py`) hold rows until the watermark has passed them and drive
the evaluator; Spark computes the measures of what they find. The stateful operator itself is behind
`stream_operator.run`. Every call here is a public DataFrame method, so Spark Connect runs it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    DoubleType,
    FloatType,
    MapType,
    StringType,
    TimestampType,
    VariantType,
)

from ensue import errors
from ensue.automaton.plan import PREFIX, Plan, plan
from ensue.capabilities import Task, Way, refusal
from ensue.operator.budget import Budget
from ensue.operator.buffer import CONTENT, KEY
from ensue.operator.listing import Listing
from ensue.operator.prepare import output_order
from ensue.operator.status import MATCHED, STATUS
from ensue.query import rules
from ensue.query.binding import bind, rename
from ensue.query.query import Query
from ensue.query.sql import row_sql
from ensue.run.lanes import state
from ensue.run.lanes.edits import PATTERN, VERSION, Read, edits_work
from ensue.run.lanes.hashes import Hashes, covers
from ensue.run.lanes.work import (
    BEHIND,
    IDENTITY,
    MATCH_ID,
    OP,
    SEQUENCE,
    SIGN,
    TEXT,
    Settings,
    Work,
)
from ensue.run.lanes.works import matches_work, summary_work, totals_work
from ensue.run.spark import batch, control, stream_operator, summary
from ensue.run.spark.keyed import arrow_schema, quoted
from ensue.run.spark.stream_operator import DELAY, LANE
from ensue.run.spark.stream_options import StreamOptions
from ensue.sequences.totals import Grouping
from ensue.summary.batch import BITS
from ensue.summary.intake import VALUE
from ensue.summary.options import SummaryOptions

# How sources spell what happened to a row: Debezium, Delta, Flink, and plain words.
_INSERTED = ("insert", "i", "+i", "+", "c", "r", "create", "read", "update_postimage", "+u")
_UPDATED = ("update", "u")
_DELETED = ("delete", "d", "-d", "-", "update_preimage", "-u")


# -- matches --------------------------------------------------------------------------------------


def run(
    query: Query,
    df: DataFrame,
    options: StreamOptions,
    listing: Listing | None = None,
    read_sql: Read | None = None,
    budget: Budget | None = None,
) -> DataFrame:
    """The matches of a pattern in a streaming DataFrame; `read_sql` reads edits."""
    own_names(df, options)
    bound = rules.check(bind(query, df.columns))
    if bound.rows.all_rows:
        rules.duplicates((name.casefold() for name in df.columns), "column of the input")
    plain = batch.plain_names(df.columns)
    if plain:
        bound = rename(bound, plain)
        df = df.toDF(*(plain.get(name, name) for name in df.columns))
        options = renamed(options, plain)
    if options.edits:
        if budget is not None:
            raise errors.UnsupportedError(
                "patterns that are edited take no budget: what was learned belongs to one pattern",
                remedy="leave edits=True or the budget out",
            )
        result = _edited(bound, df, options, read_sql)
    else:
        planned = plan(bound)
        prepared = Prepared.of(bound, df, options, batch.input_columns(planned, df))
        work = prepared.work(planned, listing, budget)
        result = _measured(planned, prepared.run(work), work)
    if plain:
        written = {safe: name for name, safe in plain.items()}
        result = result.toDF(*(written.get(name, name) for name in result.columns))
    return result


def _edited(
    query: Query, df: DataFrame, options: StreamOptions, read_sql: Read | None
) -> DataFrame:
    """Patterns that may change: rows carry all their columns, and the lanes do the rest."""
    assert read_sql is not None
    columns = [F.col(quoted(name)) for name in df.columns]
    prepared = Prepared.of(query, df, options, columns)
    arguments = (prepared.schema, prepared.time, options.settings(), prepared.description())
    work = edits_work({options.name: query}, *arguments, read_sql)
    return prepared.run(work)


def totals(query: Query, df: DataFrame, grouping: Grouping, options: StreamOptions) -> DataFrame:
    """Aggregates over all matches of an event pattern in a streaming DataFrame."""
    no_edits(options, Task.AGGREGATE)
    own_names(df, options)
    bound = rules.check(bind(query, df.columns))
    planned = plan(bound)
    read = batch.input_columns(planned, df)
    prepared = Prepared.of(bound, df, options, read, grouping.by)
    told = prepared.description(by=", ".join(grouping.by), every=str(grouping.every))
    arguments = (prepared.schema, prepared.time, prepared.settings, told)
    work = totals_work(planned, grouping, *arguments)
    found = prepared.run(work)
    carried = [F.col(quoted(n)) for n in work.found.names if not n.startswith(PREFIX)]
    values = batch.measured(planned, found).values()
    ahead = [OP, MATCH_ID] if work.settings.speculative else []
    behind = list(BEHIND) if work.settings.late else []
    return found.select(*ahead, *carried, *values, *behind)


def summaries(
    query: Query, asked: SummaryOptions, df: DataFrame, options: StreamOptions
) -> DataFrame:
    """A summary for each key of a streaming DataFrame."""
    no_edits(options, Task.SUMMARIZE)
    own_names(df, options)
    bound = bind(query, df.columns)
    prepared = Prepared.of(bound, df, options, summary.input_columns(bound, asked, df))
    told = prepared.description(summary=f"{asked!r}, conditions by Spark")
    arguments = (prepared.schema, prepared.time, prepared.settings, told)
    return prepared.run(summary_work(bound, asked, *arguments))


def no_edits(options: StreamOptions, task: Task) -> None:
    """Totals kept for one pattern cannot continue under another."""
    if options.edits:
        raise refusal(task, Way.EDITS)


def own_names(df: DataFrame, options: StreamOptions) -> None:
    """Columns that a stream adds must not be there already."""
    added = [OP, MATCH_ID] if options.emit == "changes" else []
    added += BEHIND if options.late else []
    added += [PATTERN, VERSION] if options.edits else []
    for name in (*df.columns, ""):
        if name in added:
            raise errors.ReservedNameError(
                f"the input has a column {name!r}, which the stream's output adds",
                remedy=f"rename it: df.withColumnRenamed({name!r}, ...)",
            )


def renamed(options: StreamOptions, plain: dict[str, str]) -> StreamOptions:
    identity = (options.identity,) if isinstance(options.identity, str) else options.identity
    return replace(
        options,
        changes=plain.get(options.changes or "", options.changes),
        sequence=plain.get(options.sequence or "", options.sequence),
        identity=tuple(plain.get(name, name) for name in identity if name),
    )


@dataclass(frozen=True)
class Prepared:
    """Rows as the lanes get them: what the evaluator reads, and what the stream needs to know."""

    query: Query
    frame: DataFrame
    time: str
    delay: int
    options: StreamOptions
    hashes: Hashes | None  # what the packing adds; None: the frame has it

    @staticmethod
    def of(
        query: Query,
        df: DataFrame,
        options: StreamOptions,
        read: list[Column],
        lane_by: Sequence[str] | None = None,
    ) -> Prepared:
        """`lane_by`: the columns that decide the lane, where not all of the key does."""
        time = _event_time(query)
        delay = _watermark(df, time, options)
        extras = _correction_columns(df, options)
        if options.late:
            extras.append(F.to_json(F.struct(*(F.col(quoted(n)) for n in df.columns))).alias(TEXT))
        frame = _valid(df.select(*read, *extras))
        names = [item.name for item in frame.schema.fields if _hashable(item)]
        # What an event is does not depend on what became of it: its withdrawal has its content.
        # Of a summary the columns say it all, and its bits are made of them.
        apart = (TEXT, SIGN, IDENTITY, SEQUENCE, options.changes, BITS, VALUE)
        inner = tuple(n for n in names if n not in apart)
        hashes = Hashes(
            content=inner,
            key=query.partition_by,
            lane_by=query.partition_by if lane_by is None else tuple(lane_by),
            lanes=options.lanes,
            keyed=options.emit == "changes",
        )
        kinds = arrow_schema(frame)
        if covers(kinds.field(n).type for n in (*hashes.content, *hashes.key, *hashes.lane_by)):
            return Prepared(query, frame, time, delay, options, hashes)
        return Prepared(query, _hashed(frame, hashes), time, delay, options, None)

    @property
    def settings(self) -> Settings:
        return self.options.settings(self.delay)

    @property
    def schema(self) -> pa.Schema:
        schema = arrow_schema(self.frame)
        if self.hashes is None:
            return schema.remove(schema.get_field_index(LANE))
        return pa.schema([*schema, *self.hashes.fields()])

    def description(self, **more: str) -> dict[str, str]:
        """What a checkpoint must agree with."""
        told = {
            "lanes": str(self.options.lanes),
            **state.asked(self.query),
            "emit": self.options.emit,
            "columns": ", ".join(
                f"{f.name} {f.type}" for f in self.schema if not f.name.startswith(PREFIX)
            ),
            "changes": str(self.options.changes),
            "identity": str(self.options.identity or None),
            "sequence": str(self.options.sequence),
            "late": str(self.options.late),
            "edits": str(self.options.edits),
        }
        return told | more

    def work(self, planned: Plan, listing: Listing | None, budget: Budget | None = None) -> Work:
        arguments = (self.schema, self.time, self.settings, self.description())
        try:
            return matches_work(planned, listing, *arguments, budget)
        except errors.EnsueError as problem:
            raise planned.readable(problem) from None

    def run(self, work: Work) -> DataFrame:
        orders = None
        if self.options.control is not None:
            orders = control.orders(
                self.frame.sparkSession, self.options.control, self.options.lanes
            )
        return stream_operator.run(self.frame, work, self.delay, orders, self.hashes)


def _valid(frame: DataFrame) -> DataFrame:
    """Bytes that are not UTF-8 as Spark shows them: a row with such a text would end the stream."""
    columns = []
    for field in frame.schema.fields:
        column = F.col(quoted(field.name))
        if isinstance(field.dataType, StringType):
            column = F.make_valid_utf8(column).alias(field.name)
        columns.append(column)
    return frame.select(*columns)


def _hashed(frame: DataFrame, hashes: Hashes) -> DataFrame:
    """The frame with the columns that `Hashes` would add, and the lane: by Spark."""

    def of(names: Sequence[str]) -> Column:
        return F.xxhash64(*(_normal(frame, name) for name in names)) if names else F.lit(0)

    columns = [F.col(quoted(name)) for name in hashes.content]
    content = F.xxhash64(*columns)
    nulls = [column.isNull() for column in columns]
    # A null leaves the hash as it is: which columns have one is distinguished, as in `Hashes`.
    content = F.when(reduce(or_, nulls), F.xxhash64(content, *nulls)).otherwise(content)
    added = [content.alias(CONTENT)]
    if hashes.keyed:
        added.append(of(hashes.key).cast("bigint").alias(KEY))
    lane = F.pmod(of(hashes.lane_by), F.lit(hashes.lanes)).cast("int").alias(LANE)
    return frame.select(*(F.col(quoted(n)) for n in frame.columns), *added, lane)


def _event_time(query: Query) -> str:
    if not query.order_by:
        raise errors.WatermarkError(
            "a stream has no order of its own, and the pattern has no order_by(...)",
            remedy="order by the event time: order_by('ts')",
        )
    key = query.order_by[0]
    if key.descending:
        raise errors.WatermarkError(
            f"the pattern is ordered by {key.column} descending: a stream goes forward in time",
            remedy=f"order by {key.column} ascending",
        )
    return key.column


def _watermark(df: DataFrame, time: str, options: StreamOptions) -> int:
    """The delay of the watermark on the event time, in milliseconds."""
    marked = {
        f.name: int(f.metadata[DELAY]) for f in df.schema.fields if DELAY in (f.metadata or {})
    }
    kind = df.schema[time].dataType
    if not isinstance(kind, TimestampType):
        raise errors.ColumnTypeError(
            f"the event time {time!r} is of type {kind.simpleString()}; a stream is ordered by a "
            "timestamp first",
            remedy="cast it to TIMESTAMP before withWatermark, and order by the result",
        )
    if time in marked:
        return marked[time]
    if marked:
        raise errors.WatermarkError(
            f"the watermark is on {', '.join(marked)}, and the pattern is ordered by {time}",
            remedy="order by the column with the watermark first",
        )
    if options.emit == "changes" and options.speculation is None:
        return 0
    if options.emit == "changes":
        raise errors.WatermarkError(
            f"speculation= is a time past the watermark, and the stream has no watermark on {time}",
            remedy=f"say df.withWatermark({time!r}, '10 seconds'), or leave speculation out",
        )
    raise errors.WatermarkError(
        "emit='final' emits a match once no earlier event can come, and the stream has no "
        f"watermark on {time}",
        remedy=f"say how late events may be: df.withWatermark({time!r}, '10 seconds'), or use "
        "emit='changes'",
    )


def _correction_columns(df: DataFrame, options: StreamOptions) -> list[Column]:
    if options.changes is None:
        return []
    identity = (options.identity,) if isinstance(options.identity, str) else options.identity
    wanted = [options.changes, *identity, *([options.sequence] if options.sequence else [])]
    errors.UnknownColumnError.check(wanted, df.columns, "the stream has")
    op = F.lower(F.trim(F.col(quoted(options.changes)).cast("string")))
    inserted = _INSERTED + (_UPDATED if identity else ())
    # An update without the old row needs an identity to say what it replaces; without, it is
    # an operation nobody knows, and rejected.
    sign = F.when(op.isin(*inserted), 1).when(op.isin(*_DELETED), -1).otherwise(0)
    columns = [sign.cast("bigint").alias(SIGN)]
    if identity:
        assert options.sequence is not None
        columns.append(F.xxhash64(*(F.col(quoted(n)) for n in identity)).alias(IDENTITY))
        columns.append(F.col(quoted(options.sequence)).alias(SEQUENCE))
    return columns


def _hashable(item: Any) -> bool:
    return not isinstance(item.dataType, (MapType, VariantType))


def _normal(frame: DataFrame, name: str) -> Column:
    """A key such that equal keys hash alike: 0.0 and -0.0 are one."""
    column = F.col(quoted(name))
    floating = isinstance(frame.schema[name].dataType, (FloatType, DoubleType))
    return column + F.lit(0.0) if floating else column


def _measured(planned: Plan, found: DataFrame, work: Work) -> DataFrame:
    """Measures over what the lanes found, between the columns that the stream adds."""
    ahead = [OP, MATCH_ID] if work.settings.speculative else []
    behind = list(BEHIND) if work.settings.late else []
    inner = list(work.found.names)
    show: Callable[[Column], Column] = lambda value: value  # noqa: E731
    if work.settings.late:
        show = lambda value: F.when(F.col(STATUS) == MATCHED, value)  # noqa: E731
    values = {}
    for measure in planned.outer:
        text = row_sql(measure.value)
        batch.analysed(found, text, f"the measure {measure.name}")
        values[measure.name] = show(F.expr(text)).alias(measure.name)
    order = output_order(planned, inner)
    taken = {name for name in (*ahead, *behind) if name in order}
    if taken:
        raise errors.DuplicateNameError(
            f"a measure has the name {sorted(taken)[0]!r}, which the stream's output adds",
            remedy="choose another name for the measure",
        )
    shown = [values[n] if n in values else F.col(quoted(n)) for n in order]
    return found.select(*ahead, *shown, *behind)
