"""Rows that cannot be in a match, left out before the shuffle (`automaton/needed.py` says which).

- Rows of event patterns: one filter on the input, which Spark pushes into Parquet. It costs a
  condition that Spark asks anyway, so it is always on where it changes no answer.
- Partitions, and stretches of time, of patterns whose rows stand side by side: a semi-join with the
  keys that have a row of each clause. That reads the input twice, so a sample decides, and only
  where `ENSUE_PREFILTER=sample` allows the jobs that a sample takes.

`ENSUE_PREFILTER=off` shuffles every row.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.automaton.needed import clauses_of, rows_that_matter
from ensue.automaton.plan import Plan, plan
from ensue.operator.as_of import END, LATEST
from ensue.operator.listing import Listing
from ensue.query import condition as c
from ensue.query import nodes, rules
from ensue.query.binding import bind
from ensue.query.query import Query, Rows, WindowKind
from ensue.query.sql import row_sql
from ensue.run.spark.keyed import key_columns, quoted, same_keys
from ensue.run.spark.raised import own_errors
from ensue.run.spark.sequence_cuts import order_time

SETTING = "ENSUE_PREFILTER"
_MODES = ("rows", "sample", "off")
FIRST_ROWS = 20_000  # looked at before anything is counted by key
RARE = 0.1  # of these rows: a clause that more of them meet leaves out few partitions
ONE_KEY_IN = 64  # counted where a clause is rare
PAYS = 0.3  # rows left of these keys: of more, a second reading cannot be worth its price
_BUCKET = "_ensue_bucket"
_SPREAD = "_ensue_spread"


def mode() -> str:
    """What the setting allows."""
    given = os.environ.get(SETTING, "").strip().lower() or "rows"
    if given not in _MODES:
        raise errors.QueryError(
            f"{SETTING}={given!r} is not known", remedy=f"use {', '.join(_MODES)}"
        )
    return given


def of_matches(planned: Plan, df: DataFrame, listing: Listing | None) -> DataFrame:
    """The rows that a listing of matches needs."""
    if listing is not None and (listing.compact or listing.sample):
        return df  # rows are numbered
    if listing is not None and (listing.timeouts or listing.as_of not in (END, LATEST)):
        return df  # any row shows that a window is over
    found = df if _numbers(planned) else of_totals(planned, df)
    if found is not df or mode() != "sample":
        return found
    sampled = _sampled(planned, df)
    return sampled.kept(planned, df) if sampled is not None and sampled.pays else df


def lines(query: Query, df: DataFrame) -> list[str]:
    """What of a DataFrame is left out, for `explain`; runs no job but those of a sample."""
    if df.isStreaming:
        return ["every row is shuffled: on a stream it tells the time"]
    if mode() == "off":
        return [f"every row is shuffled: {SETTING}=off"]
    planned = plan(rules.check(bind(query, df.columns)))
    condition, reason = rows_that_matter(planned)
    if condition is not None:
        told = [f"only rows with {row_sql(condition)} are shuffled"]
        if _numbers(planned):
            told = [f"aggregate and count: {told[0]}"]
            reason = "events.row numbers it (name measures instead)"
    else:
        told = []
    if reason:
        told.append(f"every row is shuffled: {reason}")
        clauses = clauses_of(planned) if query.partition_by else ()
        if clauses and mode() == "sample":
            sampled = _sampled(planned, df)
            told[-1] = "all shuffled: a sample has many rows of what a match needs"
            if sampled is not None:
                told[-1] = str(sampled)
        elif clauses:
            needed = " and one with ".join(row_sql(clause) for clause in clauses)
            told.append(f"{SETTING}=sample leaves out partitions without a row with {needed}")
    return told


def _numbers(planned: Plan) -> bool:
    """Whether the answer has `events.row`, which counts the rows of the partition."""
    return planned.query.measures is None


def of_totals(planned: Plan, df: DataFrame) -> DataFrame:
    """The rows that aggregates over all matches need."""
    return df if mode() == "off" else of_patterns([planned], df)


def of_patterns(plans: Sequence[Plan], df: DataFrame) -> DataFrame:
    """The rows that matter to one of several event patterns."""
    if mode() == "off":
        return df
    conditions: dict[c.Condition, None] = {}
    for planned in plans:
        condition, _ = rows_that_matter(planned)
        if condition is None:
            return df
        conditions.update(dict.fromkeys(c.operands("or", condition)))
    return df.where(F.expr(row_sql(c.chain("or", list(conditions)))))


# -- partitions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sample:
    """What a sample of the keys says of a semi-join."""

    clauses: tuple[str, ...]
    size: int | None  # of a bucket of time, where only the time around a row is needed
    rows: int
    left: int

    @property
    def pays(self) -> bool:
        return self.left <= PAYS * self.rows

    def kept(self, planned: Plan, df: DataFrame) -> DataFrame:
        return with_clauses(planned, df, self.clauses, self.size)

    def __str__(self) -> str:
        kind = "partitions" if self.size is None else "stretches of time"
        told = f"{kind} with a row with {' and one with '.join(self.clauses)}"
        found = f"a sample of the keys has {self.left:,} of {self.rows:,} rows there"
        return (
            f"only {told} are shuffled: {found}" if self.pays else f"every row is shuffled: {found}"
        )


def _sampled(planned: Plan, df: DataFrame) -> _Sample | None:
    """What is left of some keys; None where no clause is rare among the first rows."""
    query = planned.query
    texts = [row_sql(clause) for clause in clauses_of(planned)]
    if not texts or not query.partition_by:
        return None
    counts = [F.count(F.lit(1)), *(F.count_if(F.expr(text)) for text in texts)]
    with own_errors():
        counted = df.limit(FIRST_ROWS).select(*counts).first()
    assert counted is not None
    rows, *met = counted
    rare = [text for number, text in sorted(zip(met, texts, strict=True)) if number <= RARE * rows]
    if not rare:
        return None
    size = None if _numbers(planned) else _bucket_size(planned, df)
    some = F.pmod(F.xxhash64(*map(quoted, query.partition_by)), F.lit(ONE_KEY_IN)) == 0
    # A bucket and those beside it count as three like it.
    place = [] if size is None else [_bucket(planned, df, size).alias(_BUCKET)]
    needed = rare if size is None else rare[:1]
    has = reduce(and_, (F.bool_or(F.expr(text)) for text in needed))
    groups = df.where(some).groupBy(*map(quoted, query.partition_by), *place)
    tallied = groups.agg(F.count(F.lit(1)).alias("rows"), has.alias("has"))
    near = F.sum(F.when(F.col("has"), F.col("rows"))) * (1 if size is None else 3)
    with own_errors():
        found = tallied.select(F.sum("rows"), near).first()
    assert found is not None
    return _Sample(tuple(needed), size, found[0] or 0, min(found[0] or 0, found[1] or 0))


def _bucket(planned: Plan, df: DataFrame, size: int) -> Column:
    time = order_time(df, planned.query.order_by[0])
    return F.expr(f"({time} - pmod({time}, {size}L)) DIV {size}L")


def with_clauses(
    planned: Plan, df: DataFrame, clauses: Sequence[str], size: int | None
) -> DataFrame:
    """The partitions with a row of each clause; with a size, only the time around the first one's.

    A match lies within its window, so its rows are in the bucket of any one of them or in those
    beside it; rows on both sides of a bucket that is left out are more than a window apart.
    """
    query = planned.query
    if size is None:
        any_of = F.expr(" OR ".join(f"({text})" for text in clauses))
        has = [F.bool_or(F.expr(text)).alias(f"has_{i}") for i, text in enumerate(clauses)]
        candidates = df.where(any_of).groupBy(*map(quoted, query.partition_by)).agg(*has)
        candidates = candidates.where(reduce(and_, (F.col(f"has_{i}") for i in range(len(has)))))
        wanted = candidates.select(*key_columns(query))
        return df.join(wanted, same_keys(query, F.lit(True)), "leftsemi")
    bucket = _bucket(planned, df, size)
    rows = df.where(F.expr(clauses[0])).select(*key_columns(query), bucket.alias(_BUCKET))
    around = F.explode(F.array(*(F.col(_BUCKET) + F.lit(step) for step in (-1, 0, 1))))
    names = [name for name in rows.columns if name != _BUCKET]
    wanted = rows.distinct().select(*names, around.alias(_BUCKET)).distinct()
    same = same_keys(query, F.col(_SPREAD).eqNullSafe(F.col(_BUCKET)))
    return df.withColumn(_SPREAD, bucket).join(wanted, same, "leftsemi").drop(_SPREAD)


def _bucket_size(planned: Plan, df: DataFrame) -> int | None:
    """The window's size where only the time around a row matters, in the order's whole units."""
    query = planned.query
    window = query.within
    if window is None or window.kind is WindowKind.ROWS or planned.lookback or planned.lookahead:
        return None
    anchors = (nodes.AnchorStart, nodes.AnchorEnd)
    if any(isinstance(node, anchors) for node in nodes.walk(query.pattern)):
        return None
    if query.rows is not Rows.ONE or order_time(df, query.order_by[0]) is None:
        return None
    return math.ceil(window.size) + 1
