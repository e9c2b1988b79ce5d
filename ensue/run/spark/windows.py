"""Row patterns in windows, on DataFrames: each row once, with the columns read over it.

INITIAL is one run of the row evaluator (see `query/window.py`). SEEK looks in every row's frame,
so the frames are built by a join: its cost is the sum of their lengths, and a frame without an end
makes that quadratic in the length of a partition.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name every PySpark reader knows
from pyspark.sql.window import Window as SparkWindow

from ensue import errors
from ensue.query import window as w
from ensue.query.binding import bind
from ensue.query.query import Query, SkipMode
from ensue.run.spark import batch
from ensue.run.spark.keyed import (
    key_columns,
    key_names,
    ordered,
    quoted,
    same_keys,
    without_keys,
)

_CURRENT = "_ensue_current"
_KEPT = w.MATCHED + "_kept"
_ARRIVAL = "_ensue_arrival"


def add_columns(
    window: w.WindowQuery, source: DataFrame, wanted: Sequence[str], zero_if_none: Sequence[str]
) -> DataFrame:
    """The source with the measures `wanted`, null where the row has no match of its own."""
    if source.isStreaming:
        raise errors.UnsupportedInputError(
            "a pattern in a window looks at frames of rows, and a stream has no rows to number",
            remedy="use MATCH_RECOGNIZE on the stream",
        )
    numbered = _numbered(window, source)
    found = _seek(window, numbered) if window.seek else _initial(window, numbered)
    columns = [F.col(quoted(name)) for name in source.columns]
    for name in wanted:
        value = F.when(F.col(w.MATCHED), F.col(quoted(name)))
        columns.append((F.coalesce(value, F.lit(0)) if name in zero_if_none else value).alias(name))
    return found.select(*columns)


def numbered_rows(query: Query, source: DataFrame) -> DataFrame:
    """The source with the number of each row in its partition."""
    if not query.order_by:
        source = source.withColumn(_ARRIVAL, F.monotonically_increasing_id())
    keys = [ordered(key) for key in query.order_by] or [F.col(_ARRIVAL)]
    spec = SparkWindow.partitionBy(*map(quoted, query.partition_by)).orderBy(*keys)
    return source.withColumn(w.ROW, F.row_number().over(spec).cast("bigint"))


def with_row_ids(query: Query, data: DataFrame, name: str) -> DataFrame:
    """The rows with the numbers that the workers give them."""
    if data.isStreaming or not query.order_by:
        raise errors.UnsupportedError(
            "with_row_ids numbers the rows of a batch in an order, and this "
            + ("is a stream" if data.isStreaming else "query has none"),
            remedy="give the rows as a batch DataFrame, and order_by(...)",
        )
    if name in data.columns:
        raise errors.DuplicateNameError(
            f"with_row_ids: the data already has a column {name!r}",
            remedy="choose another name: with_row_ids(data, name='row_id')",
        )
    numbered = numbered_rows(bind(query, data.columns), data)
    return numbered.withColumn(name, F.col(w.ROW) - 1).drop(w.ROW)


def _numbered(window: w.WindowQuery, source: DataFrame) -> DataFrame:
    numbered = numbered_rows(window.query, source)
    if window.end_column is not None:
        end = F.col(w.ROW) + F.col(quoted(window.end_column)).cast("bigint")
        numbered = numbered.withColumn(w.END, end)
    return numbered


def _initial(window: w.WindowQuery, numbered: DataFrame) -> DataFrame:
    found = batch.run(w.as_query(window), numbered)
    first = F.col(w.FIRST_ROW)
    starts = F.col(w.MATCHED).isNotNull() & (first.isNull() | (first == F.col(w.ROW)))
    found = found.withColumn(w.MATCHED, starts)
    if window.query.skip.mode is SkipMode.PAST_LAST_ROW:
        return found
    # A row inside an earlier match is shown there too; its own search is what counts.
    keys = [F.col(quoted(name)) for name in window.query.partition_by]
    spec = SparkWindow.partitionBy(*keys, F.col(w.ROW)).orderBy(F.col(w.MATCHED).desc())
    return found.withColumn("_ensue_shown", F.row_number().over(spec)).where("_ensue_shown = 1")


def _seek(window: w.WindowQuery, numbered: DataFrame) -> DataFrame:
    query = window.query
    ends = F.col(w.END) if window.end_column is not None else None
    if ends is None and window.end is not None:
        ends = F.col(w.ROW) + F.lit(window.end)
    current = numbered.select(
        *key_columns(query),
        F.col(w.ROW).alias(_CURRENT),
        (F.lit(None).cast("bigint") if ends is None else ends).alias("_ensue_last"),
    )
    inside = F.col("_ensue_last").isNull() | (F.col(w.ROW) <= F.col("_ensue_last"))
    same = same_keys(query, (F.col(w.ROW) >= F.col(_CURRENT)) & inside)
    frames = without_keys(query, current.join(numbered, same)).drop("_ensue_last")
    matches = batch.run(w.in_frames(window, _CURRENT), frames).where(F.col(w.MATCHED) == 1)
    renamed = matches
    for key, name in key_names(query):
        renamed = renamed.withColumnRenamed(key, name)
    same = same_keys(query, F.col(w.ROW) == F.col(_CURRENT))
    found = without_keys(query, numbered.join(renamed, same, "left"))
    matched = F.col(w.MATCHED).isNotNull()
    if query.skip.mode is SkipMode.TO_NEXT_ROW:
        return found.withColumn(w.MATCHED, matched)
    kept = batch.run(w.kept_rows(query), found)
    starts = matched & (F.col(_KEPT) == "K")
    if query.skip.variable is not None:
        starts = F.when(starts & _no_target(), F.raise_error(F.lit(_message(query)))).otherwise(
            starts
        )
    return kept.withColumn(w.MATCHED, starts)


def _no_target() -> Column:
    following, first = F.col(w.NEXT_ROW), F.col(w.FIRST_ROW)
    return first.isNotNull() & (following.isNull() | (following == first))


def _message(query: Query) -> str:
    return (
        f"AFTER MATCH SKIP TO {query.skip.variable}: the variable matched no row, or the first row "
        "of the match"
    )
