"""Time-outs of row patterns on DataFrames: matches, and partial matches out of their window.

Two runs of the row evaluator, one for the matches and one for the partial matches of every start
row (see `automaton/timeouts.py`). A partial match is reported only where a search began and failed:
rows that a match skipped begin none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name every PySpark reader knows

from ensue import errors
from ensue.automaton import timeouts
from ensue.automaton.compile import compile_query
from ensue.operator.as_of import AS_OF, END, LATEST, counted_rows
from ensue.operator.status import MATCHED, OPEN, STATUS, TIMEOUT, check_free
from ensue.query import window as w
from ensue.query.binding import bind
from ensue.query.query import OrderKey, Query, SkipMode, WindowKind
from ensue.run.spark import batch
from ensue.run.spark.keyed import key_columns, quoted, same_keys, without_keys
from ensue.run.spark.windows import numbered_rows

_CLOCK = "_ensue_clock"
_START = "_ensue_start"
_LATEST = "_ensue_latest"


def run(query: Query, source: DataFrame, as_of: Any = LATEST) -> DataFrame:
    """Partition columns, measures and `status`: matched, timeout, or open at `as_of`."""
    if source.isStreaming:
        raise errors.UnsupportedInputError(
            "time-outs of a row pattern join two runs over the rows, which a stream cannot",
            remedy="write an event pattern and q.matches(stream, timeouts=True)",
        )
    query, window = timeouts.asked(query)
    query = bind(query, source.columns)
    numbered = _clocked(query, numbered_rows(query, source))
    ordered = replace(query, order_by=(*query.order_by, OrderKey(w.ROW)))
    shown = [*query.partition_by, *(m.name for m in query.measures or ())]
    check_free(shown)
    asked = (*(query.measures or ()), *w.searched(query))
    matches = batch.run(replace(ordered, measures=asked), numbered)
    result = matches.select(*map(quoted, shown), F.lit(MATCHED).alias(STATUS))
    if timeouts.may_be_empty(compile_query(query)):
        return result
    size = timeouts.longest(window)
    partial_query = timeouts.timeout_query(ordered, _CLOCK, size)
    partial = batch.run(
        replace(partial_query, measures=(*(partial_query.measures or ()), w.searched(query)[0])),
        numbered,
    )
    failed = _failed_starts(query, numbered, matches)
    same = same_keys(query, F.col(w.FIRST_ROW) == F.col(_START))
    late = partial.join(failed, same, "leftsemi")
    over = F.lit(True) if as_of == END else F.col(timeouts.BEYOND).isNotNull()
    if as_of != END and window.kind is WindowKind.ROWS and as_of is not LATEST:
        raise counted_rows(as_of)
    if as_of != END and window.kind is not WindowKind.ROWS:
        known = _clocked(query, batch.with_time(query, source, as_of), AS_OF)
        late = late.crossJoin(F.broadcast(known.agg(F.max(_CLOCK).alias(_LATEST))))
        over = over | (F.col(_LATEST) - F.col(timeouts.BEGAN) > F.lit(size))
    status = F.when(over, TIMEOUT).otherwise(OPEN).alias(STATUS)
    return result.unionByName(late.select(*map(quoted, shown), status))


def _clocked(query: Query, rows: DataFrame, column: str | None = None) -> DataFrame:
    """The rows with the number that WITHIN measures, of the order column or of another one."""
    assert query.within is not None
    clock: Column = F.col(w.ROW)
    if query.within.kind is not WindowKind.ROWS:
        key = query.order_by[0]
        clock = F.col(quoted(column or key.column))
        if query.within.kind is WindowKind.TIME:
            clock = F.unix_micros(clock.cast("timestamp"))
        if key.descending:
            clock = -clock
    return rows.withColumn(_CLOCK, clock)


def _failed_starts(query: Query, numbered: DataFrame, matches: DataFrame) -> DataFrame:
    """Rows at which a search began and found no match."""
    found = matches.select(*key_columns(query), w.FIRST_ROW, w.NEXT_ROW)
    rows = numbered.select(*map(quoted, query.partition_by), w.ROW)
    same = same_keys(query, F.col(w.ROW) == F.col(w.FIRST_ROW))
    joined = without_keys(query, rows.join(found, same, "left"))
    if query.skip.mode is not SkipMode.TO_NEXT_ROW:
        joined = batch.run(w.kept_rows(query), joined).where(f"{w.MATCHED}_kept = 'K'")
    failed = joined.where(F.col(w.FIRST_ROW).isNull())
    return failed.select(*key_columns(query), F.col(w.ROW).alias(_START))
